"""Change feeds: what changed in a view, batch by batch, as Arrow record batches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import TracebackType

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.dictionary import Dictionary
from everview.engine.rows import WordRows
from everview.engine.words import arrow_type, from_words
from everview.errors import ClosedError, FeedError
from everview.query.view import Output

MOST_ROWS = 50_000_000
"""A feed that nobody reads holds so many rows, then it gives up and says so."""

INSERT, DELETE, BEFORE, AFTER = "insert", "delete", "update_preimage", "update_postimage"
Callback = Callable[[pa.RecordBatch], None]
MOST_SHARED = 1 << 22
_INSERT, _DELETE = INSERT.encode(), DELETE.encode()
_shared = pa.py_buffer(b"")


class ChangeFeed:
    """The changes of a view since it was opened; ``read`` gives those since the last read. Close it when done."""

    def __init__(
        self,
        view: str,
        schema: pa.Schema,
        close: Callable[[ChangeFeed], None],
        per_update: bool,
        callback: Callback | None,
    ) -> None:
        self.view = view
        self.schema = schema
        self.per_update = per_update
        self._callback = callback
        self._close = close
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._overflowed = False
        self.closed = False

    def push(self, batch: pa.RecordBatch) -> None:
        """Take a batch in, or hand it to the subscriber."""
        if self._callback is not None:
            self._callback(batch)
            return
        if self._overflowed:
            return
        self._rows += batch.num_rows
        if self._rows > MOST_ROWS:
            self._overflowed = True
            self._batches.clear()
        else:
            self._batches.append(batch)

    def read(self) -> list[pa.RecordBatch]:
        """The changes since the last read, oldest first; empty if there are none."""
        if self.closed:
            raise ClosedError(f"the feed of {self.view} is closed", hint="open a new one with changes()")
        if self._overflowed:
            raise FeedError(
                f"the feed of {self.view} was not read for {MOST_ROWS:,} rows of changes, and they were dropped",
                hint="close it, open a new one, and take the view's whole result as the start",
            )
        batches, self._batches, self._rows = self._batches, [], 0
        return batches

    def close(self) -> None:
        """End the feed; nothing is kept for it any more."""
        if not self.closed:
            self.closed = True
            self._batches.clear()
            self._close(self)

    def __enter__(self) -> ChangeFeed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def feed_schema(outputs: Sequence[Output], per_update: bool) -> pa.Schema:
    """The view's columns and those that say what happened to a row, by Delta's and Spark's names."""
    fields = [pa.field(o.name, arrow_type(o.type)) for o in outputs]
    fields.append(pa.field("_change_type", pa.string(), nullable=False))
    fields.append(pa.field("_commit_version", pa.int64(), nullable=False))
    fields.append(pa.field("_count", pa.int64(), nullable=False))
    if per_update:
        fields.append(pa.field("_update", pa.int64(), nullable=False))
    return pa.schema(fields)


def feed_batch(
    rows: WordRows,
    outputs: Sequence[Output],
    keys: Sequence[int] | None,
    version: int,
    per_update: bool,
    dictionary: Dictionary,
) -> pa.RecordBatch:
    """Netted rows as a batch of a feed; ``keys`` are a grouped view's columns by which old and new rows are paired."""
    kinds = _kinds(rows.weight)
    if keys is not None and len(rows) > 1:
        rows, kinds = _paired(rows, kinds, keys)
    arrays = [from_words(c, o.type, dictionary) for c, o in zip(rows.columns, outputs, strict=True)]
    arrays.append(kinds)
    arrays.append(_repeated(version, len(rows)))
    arrays.append(pc.abs(rows.weight))
    if per_update:
        arrays.append(rows.update)
    return pa.RecordBatch.from_arrays(arrays, schema=feed_schema(outputs, per_update))


def _kinds(weight: pa.Array) -> pa.Array:
    """``insert`` or ``delete`` by the sign. Updates change rows in one direction, so signs come in long runs."""
    signs = pc.run_end_encode(pc.greater(weight, 0))
    ends, values = signs.run_ends, signs.values
    if len(ends) > len(weight) // 16 or len(weight) > MOST_SHARED:
        return pc.if_else(pc.greater(weight, 0), INSERT, DELETE)
    pieces = []
    begin = 0
    for end, positive in zip(ends.to_pylist(), values.to_pylist(), strict=True):
        pieces.append((_INSERT if positive else _DELETE) * (end - begin))
        begin = end
    buffers = [None, _offsets(len(weight)), pa.py_buffer(b"".join(pieces))]
    return pa.Array.from_buffers(pa.string(), len(weight), buffers)


def _offsets(length: int) -> pa.Buffer:
    """Where the strings begin and end: both are six bytes long, so all batches share one buffer."""
    global _shared  # noqa: PLW0603 - a cache of offsets that only grows
    if _shared.size < 4 * (length + 1):
        room = min(MOST_SHARED, 2 * length)
        _shared = pa.array(range(0, 6 * (room + 1), 6), pa.int32()).buffers()[1]
    return _shared


def _repeated(word: int, length: int) -> pa.Array:
    data = pa.py_buffer(word.to_bytes(8, sys.byteorder, signed=True) * length)
    return pa.Array.from_buffers(pa.int64(), length, [None, data])


def _paired(rows: WordRows, kinds: pa.Array, keys: Sequence[int]) -> tuple[WordRows, pa.Array]:
    """A group that was there before and is there after comes as two rows next to each other, old and new."""
    groups = list(zip(rows.update.to_pylist(), *(rows.columns[k].to_pylist() for k in keys), strict=True))
    names = kinds.to_pylist()
    gone = {g: i for i, g in enumerate(groups) if names[i] == DELETE}
    come = {g: i for i, g in enumerate(groups) if names[i] == INSERT}
    order: list[int] = []
    for i, group in enumerate(groups):
        if group not in gone or group not in come:
            order.append(i)
        elif i == min(gone[group], come[group]):
            old, new = gone[group], come[group]
            names[old], names[new] = BEFORE, AFTER
            order += [old, new]
    positions = pa.array(order, pa.int64())
    columns = tuple(c.take(positions) for c in rows.columns)
    moved = WordRows(columns, rows.weight.take(positions), rows.update.take(positions))
    return moved, pa.array([names[i] for i in order], pa.string())
