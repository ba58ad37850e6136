"""The clock moves: rows come and go by it in views, and what nobody will ever read again leaves its table.

That bounds a table all of whose readers ask for rows of the last so many days. A row that is over for all of them is
deleted as by a batch, and whoever deletes it later, or inserts it, need not know: that is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.base_table import BaseTable
from everview.engine.operators.timed import BY_CLOCK, TimedRows
from everview.engine.values.rows import Changes, WordRows, counted, joined, negated, repeated

if TYPE_CHECKING:
    from everview.engine.database import Database
    from everview.engine.transaction import Transaction


def move_clock(transaction: Transaction, now: int) -> bool:
    """Have the clock of a database go on, in a batch that can be taken back; true if views go by it."""
    db = transaction._db
    readers = db.readers
    if not readers.by_clock:
        return False
    db._machine.on_roll_back(partial(setattr, db._clock, "now", db._clock.now))
    db._clock.now = now
    every = [timed for view in readers.by_clock for member in view.family for timed in member.timed]
    for timed in every:
        timed.gone.clear()
    transaction.propagate(None)
    for name, timed_readers in readers.expiring.items():
        base = db._tables[name]
        if name in readers.swept:
            parts = list(_gone(timed_readers, len(base.types)))
        else:
            parts = list(base.rows())
            readers.swept.add(name)
            db._machine.on_roll_back(partial(readers.swept.discard, name))
        for rows in parts:
            changes = db._changes(name, rows)
            over = rows.filter(_over(changes, timed_readers))
            if len(over):
                _leave(transaction, base, over)
    for timed in every:
        timed.gone.clear()
    return True


def clock_does_nothing(db: Database, now: int, tables: frozenset[str]) -> bool:
    """True if nothing is due by then, and no view that goes by the clock is behind the tables that a batch changes."""
    readers = db.readers
    if readers.expiring.keys() - readers.swept or set(readers.behind(tables)) & set(readers.by_clock):
        return False
    return not any(t.is_due(now) for view in readers.by_clock for member in view.family for t in member.timed)


def _leave(transaction: Transaction, base: BaseTable, rows: WordRows) -> None:
    """Have rows leave a table. What reads them is over with them already, and only forgets them."""
    gone = WordRows(rows.columns, negated(rows.weight), repeated(BY_CLOCK, len(rows)))
    changes = transaction._db._changes(base.schema.name, gone)
    base.apply(changes)
    transaction.propagate(changes)


def _gone(readers: Sequence[TimedRows], width: int) -> Iterator[WordRows]:
    """The rows that the clock has just let go in one reader or in several, each once."""
    rows = WordRows.concat((part for reader in readers for part in reader.gone), width)
    if not len(rows):
        return
    names = [f"c{i}" for i in range(width)]
    found = pa.table([*rows.columns, rows.weight], names=[*names, "n"]).group_by(names).aggregate([("n", "max")])
    columns = tuple(joined(found[name]) for name in names)
    yield WordRows(columns, joined(found["n_max"]), repeated(BY_CLOCK, found.num_rows))


def unexpired(changes: Changes, readers: Sequence[TimedRows]) -> Changes:
    """Changes of a table without those of rows that are over for all of its readers."""
    if not readers or not len(changes):
        return changes
    over = _over(changes, readers)
    if not pc.any(over).as_py():
        return changes
    ahead = pc.invert(over)
    places = counted(changes.first, len(changes)) if changes.places is None else changes.places
    return Changes(
        changes.relation,
        changes.types,
        changes.rows.filter(ahead),
        changes.dictionary,
        places=places.filter(ahead),
        no_nulls=changes.no_nulls,
        per_update=changes.per_update,
    )


def _over(changes: Changes, readers: Sequence[TimedRows]) -> pa.Array:
    """Of some rows of a table those that are over for all of its readers."""
    found = readers[0].is_over(changes)
    for reader in readers[1:]:
        found = pc.and_(found, reader.is_over(changes))
    return found
