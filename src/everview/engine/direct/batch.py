"""A batch on the direct way: one call of the kernel for its tables and for all views that can be described to it.

Other views then take the same changes in, in the same batch. If anything is refused or fails, the batch is taken back
and goes the other way, where it is said what was wrong: so this way need not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine import change_feed
from everview.engine.base_table import MOST_COPIES, BaseTable
from everview.engine.change_feed import MOST_BYTES, ChangeFeed, Delivery
from everview.engine.direct.groups import handed, in_order
from everview.engine.direct.plan import DirectPlan
from everview.engine.direct.read import reader_of
from everview.engine.loading import can_load
from everview.engine.operators.aggregates.accumulated import Accumulated
from everview.engine.operators.aggregates.distinct import DistinctCount
from everview.engine.operators.aggregates.gathered import GatheredValues
from everview.engine.operators.aggregates.in_tree import InTree
from everview.engine.operators.aggregates.min_max import Extremes
from everview.engine.operators.aggregates.sums import Result
from everview.engine.operators.group_by import GroupBy
from everview.engine.operators.group_output import difference
from everview.engine.operators.sides import Operator
from everview.engine.values.rows import ZERO, Changes, WordRows, counted, repeated, words_array, zeros
from everview.engine.view_runtime import ViewRuntime
from everview.engine.watched import needs_watch
from everview.errors import EverviewError
from everview.kernel import BatchRun, ReadRows
from everview.kernel.machine import UpdateFault, total

if TYPE_CHECKING:
    from everview.engine.batch import Operation
    from everview.engine.database import Database
    from everview.engine.readers import Readers
    from everview.kernel._kernel import BatchView, FeedBatch

MOST = 1 << 20
"""A larger batch goes the other way, which tells how far it has come and can be interrupted."""
MOST_HANDED = 1 << 13
"""Of a larger one the values that Python keeps come view by view: the kernel would have all of them ready at once."""
FEW_TO_LOAD = 16
"""A view without rows makes its state faster at one go, if there are more than so many."""


KernelView = tuple["BatchView", bool, bool, bool, int, int, bool, list[tuple[int, int]]]
"""A stage of a view, as the kernel is told of it in each batch (``BatchRun``)."""


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
    read = (base.reader or reader_of(base)).given(rows, changes=sign == 0)
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

    def __init__(self, db: Database, plan: DirectPlan, pieces: Sequence[_Piece]) -> None:
        self.plan = plan
        self._db = db
        self._pieces = pieces
        self.names: set[str] = set()
        """The views that need not take the changes in, as they have."""
        self.feeds: list[tuple[ChangeFeed, pa.RecordBatch]] = []
        """What feeds are told."""
        self.beyond: list[ChangeFeed] = []
        """Those for which that is more than they may hold."""
        self.unfinished: list[tuple[str, WordRows]] = []
        """Rows of views that have changed, where others make the feed."""
        self.handed: list[Changes] = []
        """What views have changed that are read by others."""
        self.disjoint = False
        """True if it is known that no row is in two operations."""
        self.is_net = True
        """True if no join of tables has changed twice."""
        self._passed: dict[str, int] = {}
        """How many rows of each view have changed."""

    @staticmethod
    def of(
        db: Database, readers: Readers, tables: frozenset[str], operations: Sequence[Operation]
    ) -> DirectBatch | None:
        """The batch; None if it is of a kind that goes the other way."""
        pieces: list[_Piece] = []
        size = 0
        for number, operation in enumerate(operations):
            size += operation.size
            found = _pieces(db, operations, number) if size <= MOST else None
            if found is None:
                return None
            pieces += found
        plan = readers.direct_plan(db, tables)
        if plan.takes_sets or not size:
            return None
        excluded = _excluded(db, plan, size)
        if excluded:
            plan = readers.direct_plan(db, tables, frozenset(excluded))
        if plan.others and not _may_wait(db, plan):
            return None
        return DirectBatch(db, plan, pieces) if plan.views or not plan.others else None

    @property
    def has_others(self) -> bool:
        """True if other views, or what is kept beside these, have to take the changes in, too."""
        return bool(self.plan.others) or self.plan.has_companions

    @property
    def is_more_to_do(self) -> bool:
        """True if something is left to be done behind the kernel."""
        return self.has_others or bool(self.plan.references) or not self.plan.updates_are_free

    def run(self) -> bool:
        """Have the kernel run it; False if it is to be taken back."""
        db, plan = self._db, self.plan
        pieces = [
            (plan.kernel_tables[base.schema.name], rows, weight, base.copies, plan.routes[base.schema.name])
            for base, rows, weight, _ in self._pieces
        ]
        views, gains = self._views()
        most_bytes, version = change_feed.MOST_BATCH_BYTES, db.version + 1
        batch = BatchRun(db._machine.kernel, pieces, views, version, most_bytes, gains, self.disjoint)
        before = [(base, base.copies) for base, _, _, _ in self._pieces]
        db._machine.on_roll_back(partial(_take_back, batch, before))
        outcome, self.is_net, found = batch.run()
        if outcome:
            return False
        for base, _, _, copies in self._pieces:
            base.copies += copies
        if plan.watched and any(map(needs_watch, plan.watched)):
            return False
        for number, count, net, updates, groups, told in found:
            node = plan.nodes[number]
            if not node.is_result:
                continue
            runtime, name = node.runtime, node.runtime.view.name
            runtime.deltas += count
            self._passed[name] = count
            if groups is not None and not self._finished(runtime, node.stage.source, groups):
                return False
            if net != [] or updates != []:
                self._told(db._feeds[name], net, updates)
            for columns, weight in told:
                self.handed.append(db._changes(name, _rows_of((columns, weight), len(columns))))
        return True

    def _views(self) -> tuple[list[KernelView], bool]:
        """What the kernel is told of each view now, and whether it gains by netting what it takes in."""
        feeds, names = self._db._feeds, self.names
        views: list[KernelView] = []
        gains = is_numbered = False
        for node in self.plan.nodes:
            net = updates = -1
            if node.is_result:
                name = node.runtime.view.name
                names.add(name)
                for feed in feeds[name]:
                    room = MOST_BYTES if self._db.memory_limit is None else max(0, self._db._room_of(feed))
                    if feed.delivery is Delivery.PER_UPDATE:
                        updates = max(updates, room)
                    else:
                        net = max(net, room)
            core, identifies = node.stage.core, node.identifies
            gains = gains or (net >= 0 and identifies)
            is_numbered = is_numbered or updates >= 0
            emits, keeps_log = (True, True) if core is None else (core.emits_deltas, core.keeps_log)
            told = (emits, keeps_log, identifies, net, updates, node.is_read)
            views.append((node.stage.kernel, *told, node.readers))
        return views, gains and not is_numbered

    def _told(
        self, feeds: Sequence[ChangeFeed], net: Sequence[FeedBatch] | None, updates: Sequence[FeedBatch] | None
    ) -> None:
        """Keep what feeds are to be told once the batch is taken: all of a kind are told the same."""
        for made, per_update in ((net, False), (updates, True)):
            if made == []:
                continue
            mine = [feed for feed in feeds if (feed.delivery is Delivery.PER_UPDATE) is per_update]
            if made is None:
                self.beyond += mine
                continue
            for one in made:
                batch = pa.record_batch(one, schema=mine[0].schema)
                for feed in mine:
                    self.feeds.append((feed, batch))

    def changes(self) -> list[Changes]:
        """The changes for the views that do not go this way."""
        found, position = [], 0
        for piece in self._pieces:
            found.append(piece.changes(position))
            position += len(piece.rows)
        return found

    def conclude(self) -> None:
        """The batch has been taken: count its updates."""
        sizes = self._passed
        for base, rows, _, _ in self._pieces:
            size, name = len(rows), base.schema.name
            base.updates += size
            sizes[name] = sizes.get(name, 0) + size
        for runtime, how in self.plan.views:
            size = 0
            for name in runtime.reads:
                size += sizes.get(name, 0)
            runtime.updates += size
            runtime.updates_with_deltas += size if how.core.emits_deltas else 0

    def _finished(self, runtime: ViewRuntime, source: Operator, groups: tuple[Sequence[Any], ...]) -> bool:
        """Make rows of groups that the kernel cannot; False if one of them fails."""
        assert isinstance(source, GroupBy)
        words, old, new, was, now = (tuple(words_array(c) for c in columns) for columns in groups[:5])
        numbers = {id(a): i for i, a in enumerate(in_order(source))}
        given = dict(zip(map(id, handed(source)), groups[5], strict=True))
        listed: list[tuple[Result, Result]] = []
        for a in source.further:
            if isinstance(a, Accumulated | GatheredValues):
                values = _rows_of(given[id(a)], len(words) + 1)
                listed.append(a.process(a.counting(values), words, len(old[0])))
            elif isinstance(a, DistinctCount):
                i = numbers[id(a)]
                listed.append(((was[i], None), (now[i], None)))
            elif isinstance(a, Extremes | InTree):
                i = numbers[id(a)]
                listed.append((a.result_of(was[i]), a.result_of(now[i])))
        found = source.finish.both(words, old, new, listed)
        if found.failed is not None and pc.any(found.failed).as_py():
            return False
        rows = difference(found, zeros(len(old[0])))
        runtime.deltas += len(rows)
        if len(rows) and self._db._feeds[runtime.view.name]:
            self.unfinished.append((runtime.view.name, rows))
        return True


def _rows_of(piece: tuple[Sequence[object], object] | None, width: int) -> WordRows:
    """Rows that have changed, as the kernel gives them."""
    if piece is None:
        return WordRows.empty(width)
    columns, weight = piece
    weights = words_array(weight)
    return WordRows(tuple([words_array(c) for c in columns]), weights, zeros(len(weights)))


def _take_back(batch: BatchRun, before: Sequence[tuple[BaseTable, int]]) -> None:
    """Have tables as they were, and as many copies in each."""
    batch.take_tables_back()
    for base, copies in before:
        base.copies = copies


def _pieces(db: Database, operations: Sequence[Operation], number: int) -> list[_Piece] | None:
    """What the kernel is to take of one of the operations; None if that is not known before others are run."""
    from everview.engine.batch import KeyDeletion, Upsert, WeightedRows

    operation = operations[number]
    base = db._tables[operation.table]
    made: list[_Piece] = []
    if isinstance(operation, GivenRows):
        weight = operation.sign or operation.weight
        copies = operation.sign * len(operation.rows) if operation.sign else total(operation.weight)
        made.append(_Piece(base, operation.rows, weight, copies))
    elif isinstance(operation, WeightedRows):
        rows = reader_of(base).of_table(operation.data)
        if rows is None:
            return None
        made.append(_Piece(base, rows, operation.weight, total(operation.weight)))
    elif isinstance(operation, Upsert | KeyDeletion):
        if any(earlier.table == operation.table for earlier in operations[:number]):
            return None
        try:
            going, coming = operation.known(base)
        except (EverviewError, UpdateFault, MemoryError, pa.ArrowException):
            return None  # Who looks at it in its turn says what is wrong.
        rows = None if coming is None else reader_of(base).of_table(coming)
        if going is None or (rows is None and coming is not None):
            return None
        if len(going):
            made.append(_Piece(base, ReadRows.of_words(list(going.columns), len(going)), -1, -len(going)))
        if rows is not None:
            made.append(_Piece(base, rows, 1, len(rows)))
    else:
        return None
    return None if base.copies + sum(max(0, piece.copies) for piece in made) > MOST_COPIES - MOST else made


def _excluded(db: Database, plan: DirectPlan, size: int) -> list[str]:
    """The views of a plan that cannot go the direct way now."""
    found: list[str] = []
    for runtime, how in plan.views:
        name = runtime.view.name
        may_go = True
        for parked in how.parked:  # Of rows that an expression fails on only the other way knows.
            may_go = may_go and parked.counts is None
        if not how.tells_updates:
            for feed in db._feeds[name]:
                may_go = may_go and feed.delivery is not Delivery.PER_UPDATE
        may_go = may_go and (size <= MOST_HANDED or not how.kept_elsewhere)
        if not may_go or (size > FEW_TO_LOAD and any(map(can_load, runtime.cores))):
            found.append(name)
    return found


def _may_wait(db: Database, plan: DirectPlan) -> bool:
    """True if other views can take a batch in after the kernel.

    Not so if one is to tell at once what it changes, as that could not be said twice, or single updates' changes of
    views that it reads.
    """
    for other in plan.others:
        for feed in db._feeds[other.view.name]:
            if feed.delivery is Delivery.AS_COMPUTED or (feed.delivery is Delivery.PER_UPDATE and other.above):
                return False
    return True
