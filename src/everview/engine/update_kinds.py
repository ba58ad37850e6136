"""How tables may change, as CREATE TABLE … OPTIONS (updates = …) says, judged at the end of a batch.

A static table takes rows in one batch, an append-only one loses none. All FIFO tables form one queue: what has come
first, in whichever of them, goes first. A copy that goes is the oldest; rows of one batch have come at the same time,
so that they go in any order. The queue is kept as what is left of each batch, oldest first: what a batch deletes must
use up the batches from the front. Each row enters it once and leaves it once.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.base_table import BaseTable
from everview.engine.values.rows import ZERO, Changes
from everview.errors import UpdateKindError
from everview.query.schema import Updates

_Row = tuple[BaseTable, tuple[int, ...]]
"""A row of a table, as words."""


@dataclass
class _Arrived:
    """What is left of the rows that came in one batch, with their copies."""

    version: int
    rows: Counter[_Row]


@dataclass
class Accepted:
    """What a batch does to the queue and to the static tables, once all of it is taken in."""

    version: int
    filled: set[BaseTable]
    coming: Counter[_Row] = field(default_factory=Counter)
    going: list[tuple[_Arrived, _Row, int]] = field(default_factory=list)


class UpdateKinds:
    """What was done so far to tables that may not change in any way."""

    def __init__(self) -> None:
        self._filled: set[BaseTable] = set()
        """The static tables that have had their batch."""
        self._queue: deque[_Arrived] = deque()

    def check(self, batch: Sequence[tuple[BaseTable, Changes]], version: int) -> Accepted | None:
        """Refuse a batch, which the tables have taken in, that changes one of them as it may not be changed.

        Gives what ``accept`` is to be told if all else goes well; None if no such table is concerned.
        """
        concerned = [(base, c) for base, c in batch if base.schema.updates is not Updates.ANY and len(c)]
        if not concerned:
            return None
        for base, changes in concerned:
            if base.schema.updates is Updates.STATIC and base in self._filled:
                why, hint = "it has had its one batch", "leave the option out if more is to come"
                raise _refused(base, changes, range(len(changes)), why, hint)
            if base.schema.updates is Updates.APPEND:
                gone = pc.indices_nonzero(pc.less(changes.rows.weight, ZERO))
                if len(gone):
                    why = "no row of it ever goes"
                    raise _refused(base, changes, gone.to_pylist(), why, "leave the option out if rows are to go")
        static = {base for base, _ in concerned if base.schema.updates is Updates.STATIC}
        found = Accepted(version, static)
        queued = [(base, changes) for base, changes in concerned if base.schema.updates is Updates.FIFO]
        if queued:
            self._pass(queued, found)
        return found

    def accept(self, accepted: Accepted) -> None:
        """Take note of a batch that was taken in."""
        self._filled |= accepted.filled
        for arrived, row, copies in accepted.going:
            _take(arrived.rows, row, copies)
        while self._queue and not self._queue[0].rows:
            self._queue.popleft()
        if accepted.coming:
            self._queue.append(_Arrived(accepted.version, accepted.coming))

    def _pass(self, queued: Sequence[tuple[BaseTable, Changes]], found: Accepted) -> None:
        """Take what goes from the front of the queue, behind which the rows of this batch stand."""
        left: Counter[_Row] = Counter()
        for base, changes in queued:
            columns = [changes.words(i).to_pylist() for i in range(len(base.types))]
            for words, weight in zip(_rows(columns, len(changes)), changes.rows.weight.to_pylist(), strict=True):
                if weight > 0:
                    found.coming[base, words] += weight
                else:
                    left[base, words] -= weight
        for arrived in self._queue:
            if not left:
                return
            gone = [row for row in arrived.rows if row[0].dropped] if any(r[0].dropped for r in arrived.rows) else []
            taken = [(row, arrived.rows[row]) for row in gone]
            rows = left if len(left) < len(arrived.rows) else arrived.rows
            taken += [(row, n) for row in list(rows) if (n := min(left[row], arrived.rows[row]))]
            for row, copies in taken:
                found.going.append((arrived, row, copies))
                _take(left, row, copies)
            if left and sum(n for _, n in taken) < arrived.rows.total():
                self._refuse(queued, left, arrived, dict(taken))
        for row, copies in list(left.items()):  # All that was there has gone: these have come in this batch.
            _take(found.coming, row, copies)

    def _refuse(
        self, queued: Sequence[tuple[BaseTable, Changes]], left: Counter[_Row], front: _Arrived, taken: dict[_Row, int]
    ) -> None:
        """Say which row has gone too early, and which one should have gone before it."""
        base, row = next(iter(left))
        older = next(r for r, n in front.rows.items() if n > taken.get(r, 0))
        for table, changes in queued:
            for place, weight in enumerate(changes.rows.weight.to_pylist()):
                words = tuple(changes.words(i)[place].as_py() for i in range(len(base.types))) if table is base else ()
                if table is base and weight < 0 and words == row:
                    why = f"an older row of {older[0].schema.name} is still there, from batch {front.version}"
                    hint = "delete rows of all FIFO tables in the order in which they came, or leave the option out"
                    raise _refused(base, changes, [place], why, hint)
        raise AssertionError

    # --- saved -----------------------------------------------------------------------------------------------------

    def is_filled(self, base: BaseTable) -> bool:
        """True if a static table has had its batch."""
        return base in self._filled

    def saved(self, base: BaseTable) -> Iterator[pa.RecordBatch]:
        """The rows of a table as they stand in the queue: their words, copies, and the batch in which they came."""
        for arrived in self._queue:
            rows = [(words, n) for (table, words), n in arrived.rows.items() if table is base]
            if rows:
                columns = [pa.array([words[i] for words, _ in rows], pa.int64()) for i in range(len(base.types))]
                copies = pa.array([n for _, n in rows], pa.int64())
                version = pa.array([arrived.version] * len(rows), pa.int64())
                yield pa.RecordBatch.from_arrays([*columns, copies, version], schema=queue_schema(base))

    def restore(
        self, filled: Iterable[BaseTable], queues: Iterable[tuple[BaseTable, Iterable[pa.RecordBatch]]]
    ) -> None:
        """Become what was saved."""
        self._filled = set(filled)
        found: dict[int, Counter[_Row]] = {}
        for base, batches in queues:
            for batch in batches:
                *columns, copies, versions = (c.to_pylist() for c in batch.columns)
                rows = zip(_rows(columns, batch.num_rows), copies, versions, strict=True)
                for row, n, version in rows:
                    found.setdefault(version, Counter())[base, row] += n
        self._queue = deque(_Arrived(version, found[version]) for version in sorted(found))


def queue_schema(base: BaseTable) -> pa.Schema:
    """How the rows of a table are saved as they stand in the queue."""
    names = [*(f"w{i}" for i in range(len(base.types))), "copies", "version"]
    return pa.schema([pa.field(name, pa.int64(), nullable=False) for name in names])


def _rows(columns: Sequence[Sequence[int]], size: int) -> Iterable[tuple[int, ...]]:
    return zip(*columns, strict=True) if columns else iter([()] * size)


def _take(rows: Counter[_Row], row: _Row, copies: int) -> None:
    if rows[row] > copies:
        rows[row] -= copies
    else:
        del rows[row]


def _refused(base: BaseTable, changes: Changes, places: Sequence[int], why: str, hint: str) -> UpdateKindError:
    """The error of the first of some rows, which also knows the others."""
    name, kind = base.schema.name, base.schema.updates.value
    weights = changes.rows.weight.to_pylist()
    found = []
    for place in places:
        does = "inserts" if weights[place] > 0 else "deletes"
        reason = f"{does} {base.shown(changes, place)}, and {name} was created with OPTIONS (updates = '{kind}'): {why}"
        found.append(base.refused(changes, place, reason, UpdateKindError, None, hint))
    error = found[0].alone()
    error.refused = tuple(found)
    assert isinstance(error, UpdateKindError)
    return error
