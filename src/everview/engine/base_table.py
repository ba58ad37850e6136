"""A base table at work: its rows and copies, keys that hold, and wide values kept alive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from everview.engine.operators.answers import Answers, Sought
from everview.engine.operators.steps import CHUNK, explained, unlimited
from everview.engine.values.dictionary import Dictionary
from everview.engine.values.rows import Changes, WordRows, words_array, zeros
from everview.engine.values.words import is_wide
from everview.errors import (
    DataError,
    DroppedError,
    KeyViolationError,
    OverDeleteError,
    RefusedRow,
)
from everview.kernel.machine import Unit, UpdateFault
from everview.programs.base_table import (
    CHANGE,
    CHANGE_AND_TELL,
    CHANGE_OR_PASS,
    DUPLICATE_KEY,
    FOUND,
    HAS_KEY,
    LOOK_UP,
    OVER_DELETED,
    ROWS,
    SET_CHANGES,
    compile_base,
    refers,
)
from everview.query.schema import Enforcement, ForeignKey, Table
from everview.query.types import DataType

if TYPE_CHECKING:
    from everview.engine.direct.read import RowReader
    from everview.kernel._kernel import BatchTable, Cursor

MOST_COPIES = 2**63 - 1
"""So many rows a table may have, copies included: views count the copies of one atom's rows in one word."""


class BaseTable(Answers):
    """The rows of a table, which every view over it shares. ``implied`` columns are ours: messages leave them out."""

    def __init__(self, schema: Table, dictionary: Dictionary, implied: frozenset[int] = frozenset()) -> None:
        self.schema = schema
        self._implied = implied
        self.dictionary = dictionary
        self.types: tuple[DataType, ...] = tuple(c.type for c in schema.columns)
        self.key = schema.positions(schema.primary_key)
        counted = tuple(dict.fromkeys(schema.positions(k.columns) for k in self.foreign_keys))
        self._references = {columns: i for i, columns in enumerate(counted)}
        is_unique = schema.key_enforcement is Enforcement.ENFORCED
        program = compile_base(schema.arity, self.key, counted, is_unique=is_unique)
        self.unit = Unit(program, dictionary.machine, is_logged=False)
        self.updates = 0
        self.copies = 0
        """How many rows there are, equal ones as often as they are there."""
        self.dropped = False
        self.forgets = False
        """True if rows go by themselves once nobody reads them any more, so that they may be deleted once more."""
        self.direct: BatchTable | None = None
        """How the kernel has it take batches in, once one came (``engine.direct``),"""
        self.reader: RowReader | None = None
        """and what reads its rows."""

    def apply(self, changes: Changes, *, tell: bool = False) -> int:
        """Take in updates in their order; a row too many or too few refuses all of them.

        With ``tell``, ``take_flips`` then gives what each of them did to the set of rows (``Changes.flips``).
        Gives 1 if each of them made a row appear that was not there, −1 if each made one vanish, 0 otherwise.
        """
        before = self.distinct
        done = len(changes)
        try:
            self.unit.discard(SET_CHANGES)
            self.unit.apply(CHANGE_AND_TELL if tell else CHANGE, [*changes.rows.columns, changes.rows.weight])
        except UpdateFault as fault:
            done = fault.update
            if fault.kind != "memory":
                raise self._too_many(changes, done) from fault
            raise explained(fault, changes) from fault
        finally:
            self.unit.machine.on_roll_back(partial(self._take_back, changes, done, self.copies))
        self._check(changes)
        self.copies += changes.rows.copies
        if self.copies > MOST_COPIES:
            raise self._too_many(changes, self._first_beyond(changes))
        for i, type_ in enumerate(self.types):
            if is_wide(type_):
                self.dictionary.count(changes.words(i), changes.rows.weight)
        self.updates += len(changes)
        flipped = self.distinct - before
        return 0 if abs(flipped) < len(changes) else 1 if flipped > 0 else -1

    def take_flips(self) -> pa.Array:
        """What each of the updates that were told has done to the set of rows: 1 a row appeared, −1 it vanished."""
        (flips,) = (words_array(c) for c in self.unit.take(SET_CHANGES))
        return flips

    @property
    def foreign_keys(self) -> tuple[ForeignKey, ...]:
        """Those that are checked."""
        return tuple(k for k in self.schema.foreign_keys if k.enforcement is Enforcement.ENFORCED)

    def check_there(self) -> None:
        """Refuse to be used once it was dropped."""
        if self.dropped:
            name = self.schema.name
            raise DroppedError(
                f"the table {name} was dropped",
                table=name,
                hint=f"take the one that has the name now: db.table('{name}')",
            )

    def _take_back(self, changes: Changes, done: int, copies: int) -> None:
        """Undo the first updates of a batch, before which there were so many rows.

        A table needs no log for that: the updates with their signs turned are its way back, and cannot fail.
        """
        columns = [*changes.rows.columns, changes.rows.weight]
        self.unit.unapply(CHANGE, columns, len(columns) - 1, done)
        for channel, _ in self.unit.program.channels:
            self.unit.discard(channel)
        self.copies = copies

    @property
    def is_set(self) -> bool:
        """True if no row is there twice."""
        return self.copies == self.distinct

    @property
    def distinct(self) -> int:
        """How many different rows there are."""
        return self.unit.size(ROWS)

    def load(self, changes: Changes) -> None:
        """Take in rows that were saved, whose wide values the dictionary counts already."""
        self.unit.apply(CHANGE, [*changes.rows.columns, changes.rows.weight])
        self._check(changes)
        self.copies += changes.rows.copies

    def retain_values(self) -> None:
        """Count the uses of wide values anew."""
        wide = [i for i, type_ in enumerate(self.types) if is_wide(type_)]
        for rows in self.rows() if wide else ():
            for i in wide:
                self.dictionary.retain(rows.columns[i], rows.weight)

    def release_values(self) -> None:
        """Give back the uses of wide values, as the table is no more."""
        wide = [i for i, type_ in enumerate(self.types) if is_wide(type_)]
        for rows in self.rows() if wide else ():
            for i in wide:
                self.dictionary.release(rows.columns[i], rows.weight)

    def _check(self, changes: Changes) -> None:
        missing, double = _told(self.unit, OVER_DELETED), _told(self.unit, DUPLICATE_KEY)
        if missing and (not double or missing[0] <= double[0]):
            raise self._over_deleted(changes, missing[0]).alone()
        if double:
            raise self._second_of_key(changes, double[0]).alone()

    def take_or_pass(self, changes: Changes) -> tuple[Changes, list[RefusedRow]]:
        """Take in those updates that can be; gives these, and the others, each judged without those before it."""
        done = len(changes)
        try:
            self.unit.apply(CHANGE_OR_PASS, [*changes.rows.columns, changes.rows.weight])
        except UpdateFault as fault:
            done = fault.update
            raise
        finally:
            missing, double = _told(self.unit, OVER_DELETED), _told(self.unit, DUPLICATE_KEY)
            passed = {*missing, *double}
            accepted = changes.chosen(pa.array([i for i in range(done) if i not in passed], pa.int64()))
            self.unit.machine.on_roll_back(partial(self._take_back, accepted, len(accepted), self.copies))
        self.copies += accepted.rows.copies
        refused = [self._over_deleted(changes, row) for row in missing]
        return accepted, [*refused, *(self._second_of_key(changes, row) for row in double)]

    def refused(
        self, changes: Changes, row: int, reason: str, error: type[DataError], column: str | None, hint: str
    ) -> RefusedRow:
        """A changed row that is refused."""
        name, place = self.schema.name, changes.place(row)
        values = tuple(changes.values(i)[row].as_py() for i in range(len(self.types)) if i not in self._implied)
        return RefusedRow(name, place.row, reason, error, column, values, place.operation, hint)

    def _over_deleted(self, changes: Changes, row: int) -> RefusedRow:
        reason = f"deletes {self.shown(changes, row)}, which is not there"
        hint = "delete only rows, and copies of rows, that were inserted"
        return self.refused(changes, row, reason, OverDeleteError, None, hint)

    def _second_of_key(self, changes: Changes, row: int) -> RefusedRow:
        key = ", ".join(self.schema.primary_key)
        reason = f"inserts {self.shown(changes, row)}, but there is a row with its key ({key}) already"
        return self.refused(changes, row, reason, KeyViolationError, key, "use upsert to replace rows by key")

    def _first_beyond(self, changes: Changes) -> int:
        """The last of these changes, just taken, before which there were not too many copies yet."""
        copies = self.copies
        place = len(changes)
        while copies > MOST_COPIES:
            place -= 1
            copies -= changes.rows.weight[place].as_py()
        return place

    def _too_many(self, changes: Changes, row: int) -> DataError:
        name = self.schema.name
        return DataError(
            f"row {row} of the changes to {name} inserts {self.shown(changes, row)} so often that the table would have "
            "more rows, copies included, than 64 bits count; nothing has changed",
            table=name,
            row=row,
            hint=f"insert fewer copies: a table has at most {MOST_COPIES:,} rows",
        )

    def shown(self, changes: Changes, row: int) -> str:
        """A changed row as messages show it."""
        shown = [i for i in range(len(self.types)) if i not in self._implied]
        return "(" + ", ".join(repr(changes.values(i)[row].as_py()) for i in shown) + ")"

    def rows(self) -> Iterator[WordRows]:
        """All rows with their copies, chunk by chunk."""
        cursor = self.unit.open("all")
        while len(rows := self._listed(cursor)):
            yield rows

    def _listed(self, cursor: Cursor) -> WordRows:
        """A cursor's next rows."""
        columns = [words_array(c) for c in cursor.fetch(CHUNK)]
        return WordRows(tuple(columns[:-1]), columns[-1], zeros(len(columns[-1])))

    def count(self) -> int:
        """The copies of all rows."""
        return self.copies

    def test(self, row: Sought) -> bool:
        """One lookup."""
        return self.unit.find(ROWS, row.words) is not None

    def has_keys(self, keys: Sequence[pa.Array]) -> pa.Array:
        """1 for each of the keys that a row has, 0 for the others."""
        (found,) = (words_array(c) for c in self.unit.ask(HAS_KEY, keys))
        return found

    def refers(self, columns: tuple[int, ...], keys: Sequence[pa.Array]) -> pa.Array:
        """1 for each of the keys that a row has in the columns of a foreign key, 0 for the others."""
        (found,) = (words_array(c) for c in self.unit.ask(refers(self._references[columns]), keys))
        return found

    def with_keys(self, keys: Sequence[pa.Array]) -> tuple[WordRows, pa.Array]:
        """The rows that have these keys, given as columns of words, and which of the keys each of them has."""
        with unlimited(self.unit.machine):  # it adds nothing to what the table holds
            found = self.unit.emitted(LOOK_UP, keys, FOUND)
        *columns, copies, place = (words_array(c) for c in found)
        return WordRows(tuple(columns), copies, zeros(len(copies))), place

    def with_key(self, key: Sequence[int]) -> WordRows:
        """The row with a key, if there is one."""
        return self._listed(self.unit.open("by_key", key))


def _told(unit: Unit, channel: str) -> list[int]:
    """The updates told on a channel, which is emptied."""
    if not unit.pending(channel):
        return []
    (positions,) = [words_array(c) for c in unit.take(channel)]
    found: list[int] = positions.to_pylist()
    return found
