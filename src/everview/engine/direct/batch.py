"""A batch on the direct way: one call of the kernel for its tables and for all views that can be described to it.

Other views then take the same changes in, in the same batch. If anything is refused or fails, the batch is taken back
and goes the other way, where it is said what was wrong: so this way need not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.base_table import MOST_COPIES, BaseTable
from everview.engine.change_feed import Delivery
from everview.engine.direct.read import reader_of
from everview.engine.direct.views import DirectView, direct_table, direct_view
from everview.engine.operators.group_output import difference
from everview.engine.values.rows import ZERO, Changes, WordRows, counted, repeated, words_array, zeros
from everview.engine.view_runtime import ViewRuntime
from everview.kernel import ReadRows, run_batch
from everview.kernel.machine import total
from everview.query.schema import Updates

if TYPE_CHECKING:
    from everview.engine.batch import Operation
    from everview.engine.database import Database

MOST = 65_536
"""A larger batch goes the other way, in slices."""
FEW_TO_LOAD = 1_024
"""A view without rows makes its state faster at one go, if there are more than so many."""


@dataclass(frozen=True)
class GivenRows:
    """Rows that come (1), go (−1), or of which it is told (0), read by the kernel."""

    table: str
    rows: ReadRows
    sign: int
    told: pa.Array | None = None
    """The change of each row's copies, if the rows do not say it themselves."""

    @property
    def size(self) -> int:
        """How many rows there are."""
        return len(self.rows)

    @property
    def adds(self) -> bool:
        """True if a row comes."""
        if self.sign == 0:
            return bool(pc.any(pc.greater(self.weight, ZERO)).as_py())
        return self.sign > 0 and len(self.rows) > 0

    @cached_property
    def weight(self) -> pa.Array:
        """The change of each row's copies."""
        if self.sign:
            return repeated(self.sign, len(self.rows))
        return words_array(self.rows.weights()) if self.told is None else self.told

    def changes(self, base: BaseTable, position: int) -> list[Changes]:
        """The rows as they are."""
        self.rows.encode(base.dictionary.table)
        return [changes_of(base, self.rows, self.weight, position)]


def given_rows(base: BaseTable, rows: object, sign: int) -> GivenRows | None:
    """Rows that the user inserts, deletes or applies; None if they have to be looked at more closely."""
    read = reader_of(base).given(rows, changes=sign == 0)
    return None if read is None else GivenRows(base.schema.name, read, sign)


def weighted_rows(base: BaseTable, rows: pa.Table, weight: pa.Array) -> GivenRows | None:
    """Rows with the change of copies of each; None if they have to be looked at more closely."""
    read = reader_of(base).given(rows)
    return None if read is None else GivenRows(base.schema.name, read, 0, weight)


def changes_of(base: BaseTable, rows: ReadRows, weight: pa.Array, position: int) -> Changes:
    """Rows that have their ids as changes of a table."""
    words = tuple(words_array(c) for c in rows.words())
    no_nulls = frozenset(i for i, has in enumerate(rows.has_nulls()) if not has)
    numbered = WordRows(words, weight, counted(position, len(rows)))
    return Changes(base.schema.name, base.types, numbered, base.dictionary, start=position, no_nulls=no_nulls)


class _Piece(NamedTuple):
    base: BaseTable
    rows: ReadRows
    weight: int | pa.Array
    copies: int

    def changes(self, position: int) -> Changes:
        weight = repeated(self.weight, len(self.rows)) if isinstance(self.weight, int) else self.weight
        return changes_of(self.base, self.rows, weight, position)


class DirectBatch:
    """A batch that can go the direct way, and the views that go it."""

    def __init__(
        self, db: Database, pieces: Sequence[_Piece], views: Sequence[tuple[ViewRuntime, DirectView]], has_others: bool
    ) -> None:
        self.has_others = has_others
        """True if other views have to take the changes in, too."""
        self._db = db
        self._pieces = pieces
        self._views = views
        self.names = frozenset(runtime.view.name for runtime, _ in views)
        """The views that need not take the changes in again."""
        self.feeds: list[tuple[str, pa.RecordBatch]] = []
        """What their feeds are told."""
        self.unfinished: list[tuple[str, WordRows]] = []
        """Rows of theirs that have changed, where others make the feed."""

    @staticmethod
    def of(db: Database, operations: Sequence[Operation]) -> DirectBatch | None:
        """The batch; None if it is of a kind that goes the other way."""
        size = sum(operation.size for operation in operations)
        if db.memory_limit is not None or not 0 < size <= MOST:
            return None
        tables, readers = {operation.table for operation in operations}, db.readers
        if readers.references(tables) or any(map(readers.take_set, tables)):
            return None
        pieces: list[_Piece] = []
        for operation in operations:
            piece = _piece(db, operation)
            if piece is None:
                return None
            pieces.append(piece)
        views: list[tuple[ViewRuntime, DirectView]] = []
        has_others = False
        for runtime in readers.behind(tables):
            is_read = readers.is_read(runtime.view.name)
            how = None if is_read or not _may_be_direct(db, runtime, size) else direct_view(runtime)
            if how is not None:
                views.append((runtime, how))
            elif len(pieces) > 1 or not isinstance(operations[0], GivenRows) or _is_told_at_once(db, runtime):
                return None
            else:
                has_others = True
        return DirectBatch(db, pieces, views, has_others) if views or not has_others else None

    def run(self) -> bool:
        """Have the kernel run it; False if it is to be taken back."""
        db = self._db
        numbers = {runtime.view.name: i for i, (runtime, _) in enumerate(self._views)}
        pieces = []
        for piece in self._pieces:
            table = piece.base.schema.name
            routes = [
                (numbers[runtime.view.name], how.entries[table]) for runtime, how in self._views if table in how.entries
            ]
            pieces.append((direct_table(piece.base), piece.rows, piece.weight, routes))
        views = [
            (how.kernel, how.grouped.core.emits_deltas, bool(db._feeds[runtime.view.name]))
            for runtime, how in self._views
        ]
        outcome, found = run_batch(db._machine.kernel, pieces, views, db.version + 1)
        if outcome:
            return False
        if self.has_others or any(groups is not None for *_, groups in found):
            self._take_tables_back_on_failure()
        for piece in self._pieces:
            piece.base.copies += piece.copies
        for (runtime, how), (is_told, count, feed, groups) in zip(self._views, found, strict=True):
            if not is_told:
                continue
            runtime.deltas += count
            name = runtime.view.name
            if groups is not None:
                if not self._finished(runtime, how, groups):
                    return False
            elif feed is not None:
                self.feeds.append((name, pa.record_batch(feed, schema=db._feeds[name][0].schema)))
        return True

    def changes(self) -> list[Changes]:
        """The changes for the views that do not go this way."""
        found, position = [], 0
        for piece in self._pieces:
            found.append(piece.changes(position))
            position += len(piece.rows)
        return found

    def conclude(self) -> None:
        """The batch has been taken: count its updates."""
        for piece in self._pieces:
            piece.base.updates += len(piece.rows)
        for runtime, how in self._views:
            size = sum(len(p.rows) for p in self._pieces if p.base.schema.name in runtime.reads)
            runtime.updates += size
            runtime.updates_with_deltas += size if how.grouped.core.emits_deltas else 0

    def _take_tables_back_on_failure(self) -> None:
        """From now on something may fail: then the tables are to be as they were before the batch."""
        before = {piece.base: piece.base.copies for piece in self._pieces}
        for piece, changes in zip(self._pieces, self.changes(), strict=True):
            undo = partial(piece.base._take_back, changes, len(changes), before[piece.base])
            before[piece.base] += piece.copies
            self._db._machine.on_roll_back(undo)

    def _finished(self, runtime: ViewRuntime, how: DirectView, groups: tuple[Sequence[object], ...]) -> bool:
        """Make rows of groups that the kernel cannot; False if one of them fails."""
        words, old, new = (tuple(words_array(c) for c in columns) for columns in groups)
        found = how.grouped.finish.both(words, old, new, [])
        if found.failed is not None and pc.any(found.failed).as_py():
            return False
        rows = difference(found, zeros(len(old[0])))
        runtime.deltas += len(rows)
        if len(rows) and self._db._feeds[runtime.view.name]:
            self.unfinished.append((runtime.view.name, rows))
        return True


def _piece(db: Database, operation: Operation) -> _Piece | None:
    """An operation whose rows the kernel can take; None if there is none."""
    from everview.engine.batch import WeightedRows

    base = db._tables[operation.table]
    if base.schema.updates is not Updates.ANY:
        return None
    if isinstance(operation, GivenRows):
        weight = operation.sign or operation.weight
        copies = operation.sign * len(operation.rows) if operation.sign else total(operation.weight)
        piece = _Piece(base, operation.rows, weight, copies)
    elif isinstance(operation, WeightedRows):
        rows = reader_of(base).of_table(operation.data)
        if rows is None:
            return None
        weight = operation.weight
        piece = _Piece(base, rows, weight, total(weight))
    else:
        return None
    return None if base.copies + max(0, piece.copies) > MOST_COPIES - MOST else piece


def _is_told_at_once(db: Database, runtime: ViewRuntime) -> bool:
    """True if a feed is handed what changes before the batch is through: that could not be said twice."""
    return any(feed.delivery is Delivery.AS_COMPUTED for feed in db._feeds[runtime.view.name])


def _may_be_direct(db: Database, runtime: ViewRuntime, size: int) -> bool:
    """True if nothing about the view now asks for the other way."""
    if runtime.companions or any(feed.per_update for feed in db._feeds[runtime.view.name]):
        return False
    if any(parked.counts is not None for parked in runtime.parked):
        return False
    if size <= FEW_TO_LOAD:
        return True
    return not any(c.maintained.build is not None and not c.emits_deltas for c in runtime.cores)
