"""Change feeds: what changed in a view, batch by batch, as Arrow record batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.dictionary import Dictionary
from everview.engine.rows import SLICE, Shared, WordRows, ones, repeated, words_array
from everview.engine.words import arrow_type, from_words
from everview.errors import ClosedError, FeedError
from everview.kernel.machine import change_columns, pair_rows
from everview.query.view import Output

MOST_ROWS = 50_000_000
"""A feed that nobody reads holds so many rows, then it gives up and says so."""

INSERT, DELETE, BEFORE, AFTER = "insert", "delete", "update_preimage", "update_postimage"
Callback = Callable[[pa.RecordBatch], None]
MOST_IN_BATCH = 1 << 19
"""No record batch has more rows; most have far fewer."""
TOLD = {"_change_type": pa.string(), "_commit_version": pa.int64(), "_count": pa.int64()}
"""What every feed says of a row."""
_HAPPENED = pa.array([INSERT, DELETE, BEFORE, AFTER])
"""By what the kernel calls them when it pairs rows."""
_NAME_LENGTH = pa.scalar(len(INSERT), pa.int32())


class ChangeFeed:
    """The changes of a view since it was opened; ``read`` gives those since the last read. Close it when done."""

    def __init__(
        self,
        view: str,
        schema: pa.Schema,
        close: Callable[[ChangeFeed], None],
        lock: AbstractContextManager[Any],
        per_update: bool,
        callback: Callback | None,
        early: bool = False,
    ) -> None:
        self.view = view
        self.schema = schema
        self.per_update = per_update
        self._callback = callback
        self.early = early
        """True if it is to be told of changes as they come, though the batch may still fail and be taken back."""
        self._close = close
        self._lock = lock
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._overflowed = False
        self.closed = False

    def push(self, batch: pa.RecordBatch) -> None:
        """Take a batch in, or hand it to the subscriber; nothing if it has been closed meanwhile."""
        if self.closed:
            return
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
        with self._lock:
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
        with self._lock:
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
    told = {**TOLD, "_update": pa.int64()} if per_update else TOLD
    fields += [pa.field(name, type_, nullable=False) for name, type_ in told.items()]
    return pa.schema(fields)


@dataclass(frozen=True)
class ToldRows:
    """Rows of a delta as a feed tells them: what happened to each instead of its weight."""

    columns: tuple[pa.Array, ...]
    update: pa.Array
    kinds: pa.Array
    counts: pa.Array

    def __len__(self) -> int:
        return len(self.kinds)


def as_told(rows: WordRows) -> WordRows | ToldRows:
    """The same, with the kinds of changes written at once if they are many.

    The weights have just been computed: they are still near, and their memory is free for the next ones.
    """
    if not SLICE // 4 <= len(rows) <= MOST_IN_BATCH:
        return rows
    return ToldRows(rows.columns, rows.update, *_kinds_and_counts(rows.weight))


def feed_batches(
    parts: Sequence[WordRows | ToldRows],
    outputs: Sequence[Output],
    keys: Sequence[int] | None,
    version: int,
    schema: pa.Schema,
    dictionary: Dictionary,
) -> Iterator[pa.RecordBatch]:
    """Changed rows as batches of a feed; ``keys`` are a grouped view's columns by which old and new rows are paired."""
    per_update = len(schema) > len(outputs) + len(TOLD)
    for rows in _in_batches(parts, len(outputs)):
        told = rows if isinstance(rows, ToldRows) else _told(rows, keys)
        columns = zip(told.columns, outputs, strict=True)
        arrays = [from_words(c, o.type, dictionary, nullable=o.nullable) for c, o in columns]
        arrays += [told.kinds, _versions(version, len(rows)), told.counts]
        if per_update:
            arrays.append(told.update)
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _told(rows: WordRows, keys: Sequence[int] | None) -> ToldRows:
    told = ToldRows(rows.columns, rows.update, *_kinds_and_counts(rows.weight))
    return told if keys is None or len(rows) < 2 else _paired(told, rows.weight, keys)


def _in_batches(parts: Sequence[WordRows | ToldRows], width: int) -> Iterator[WordRows | ToldRows]:
    """Small parts together, very large ones cut, in their order."""
    waiting: list[WordRows] = []
    for part in parts:
        if isinstance(part, WordRows):
            waiting.append(part)
            if sum(map(len, waiting)) < SLICE:
                continue
        yield from _cut(WordRows.concat(waiting, width))
        waiting = []
        if isinstance(part, ToldRows):
            yield part
    yield from _cut(WordRows.concat(waiting, width))


def _cut(rows: WordRows) -> Iterator[WordRows]:
    for first in range(0, len(rows), MOST_IN_BATCH):
        yield rows if len(rows) <= MOST_IN_BATCH else rows.slice(first, MOST_IN_BATCH)


def _kinds_and_counts(weight: pa.Array) -> tuple[pa.Array, pa.Array]:
    """``insert`` or ``delete`` by the sign, and the copies."""
    length = len(weight)
    names, counts = change_columns(weight)
    kinds = pa.Array.from_buffers(pa.string(), length, [None, _offsets(length + 1).buffers()[1], pa.py_buffer(names)])
    return kinds, ones(length) if counts is None else pa.array(counts)


_offsets = Shared(
    lambda length: pc.subtract(pc.cumulative_sum(pa.repeat(_NAME_LENGTH, length)), _NAME_LENGTH), pa.int32()
)
"""Where the strings begin and end: both are six bytes long, so all batches share one buffer."""


class _Versions:
    """The version's number, row by row: one column, which the batches of a version share."""

    def __init__(self) -> None:
        self._kept = -1, repeated(0, 0)

    def __call__(self, version: int, length: int) -> pa.Array:
        kept, column = self._kept
        if kept != version or length > len(column):
            column = repeated(version, length + length // 4)
            self._kept = version, column
        return column.slice(0, length)


_versions = _Versions()


def _paired(told: ToldRows, weight: pa.Array, keys: Sequence[int]) -> ToldRows:
    """A group that was there before and is there after comes as two rows next to each other, old and new."""
    order, happened = map(words_array, pair_rows([told.update, *(told.columns[k] for k in keys)], weight))
    columns = tuple(c.take(order) for c in told.columns)
    return ToldRows(columns, told.update.take(order), _HAPPENED.take(happened), told.counts.take(order))
