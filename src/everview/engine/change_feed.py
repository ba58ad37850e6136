"""Change feeds: what changed in a view, batch by batch, as Arrow record batches."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from enum import Enum
from threading import TIMEOUT_MAX, Condition
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.values.dictionary import Dictionary
from everview.engine.values.rows import SLICE, Shared, WordRows, ones, repeated, words_array
from everview.engine.values.words import arrow_type, from_words, is_wide
from everview.errors import (
    ArgumentError,
    ClosedError,
    DataError,
    EverviewError,
    FeedError,
    MemoryLimitError,
    SubscriberError,
)
from everview.kernel.machine import change_columns, pair_rows
from everview.query.view import Output

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future

MOST_BYTES: Final = 2 << 30
"""Without a memory limit, what a feed that nobody reads may hold; then it gives up and says so."""
INSERT, DELETE, BEFORE, AFTER = "insert", "delete", "update_preimage", "update_postimage"
Callback = Callable[[pa.RecordBatch], None]
MOST_IN_BATCH = 1 << 19
"""No record batch has more rows; most have far fewer."""
MOST_BATCH_BYTES: Final = 64 << 20
"""About what the strings of a record batch take at most."""
SAMPLE: Final = 256
"""So many rows of a large delta tell how long its strings are."""
FEED_COLUMNS = {"_change_type": pa.string(), "_commit_version": pa.int64(), "_count": pa.int64()}
"""What every feed says of a row."""
_HAPPENED = pa.array([INSERT, DELETE, BEFORE, AFTER])
"""By what the kernel calls them when it pairs rows."""
_NAME_LENGTH = pa.scalar(len(INSERT), pa.int32())


class Delivery(Enum):
    """How a feed is given what a batch changes."""

    NET = "net"
    """Added up over the batch, when it has ended."""
    PER_UPDATE = "per update"
    """Each update's own delta, when the batch has ended."""
    AS_COMPUTED = "as computed"
    """Net, and piece by piece while the batch is run, where that is possible: it may still fail and be taken back."""


class ChangeFeed:
    """The changes of a view since it was opened; ``read`` gives those since the last read. Close it when done.

    What a batch has changed can be read once the whole batch is applied. ``for batch in feed`` and ``async for batch in
    feed`` give the record batches as they come and wait for the next; they end when the feed is closed. Threads may
    share it, each record batch is given to one of them, and none of them holds up the database while it waits.
    """

    def __init__(
        self,
        view: str,
        schema: pa.Schema,
        close: Callable[[ChangeFeed], None],
        lock: AbstractContextManager[Any],
        room: Callable[[ChangeFeed], int],
        delivery: Delivery,
        callback: Callback | None,
    ) -> None:
        self.view = view
        self.schema = schema
        self.delivery = delivery
        self._callback = callback
        self.is_pushed = callback is not None
        """True if it has a subscriber, who is called; else it is read."""
        self._close = close
        self._lock = lock
        self._room = room
        self._arriving: list[pa.RecordBatch] = []
        self._batches: deque[pa.RecordBatch] = deque()
        self._ready = Condition()
        """Held for a moment, to put something in or take it out; never while the database's lock is waited for."""
        self._waiting: list[tuple[AbstractEventLoop, Future[None]]] = []
        self.ended: EverviewError | None = None
        """Why it is told no more, though it was not closed."""
        self.nbytes = 0
        """What the changes that nobody has read yet take."""
        self.closed = False

    def __repr__(self) -> str:
        with self._ready:
            rows = sum(batch.num_rows for batch in self._batches)
        state = "closed" if self.closed else f"{rows:,} row{'' if rows == 1 else 's'} to read"
        return f"<ChangeFeed of {self.view}: {state}>"

    # --- the database's side -----------------------------------------------------------------------------------------

    @property
    def per_update(self) -> bool:
        """True if it is of single updates' deltas."""
        return self.delivery is Delivery.PER_UPDATE

    @property
    def is_open(self) -> bool:
        """True if it is to be told what changes."""
        return not self.closed and self.ended is None

    def push(self, batch: pa.RecordBatch) -> None:
        """Take a batch in, or hand it to the subscriber; nothing if it has been closed, or has given up, meanwhile."""
        if not self.is_open:
            return
        if self._callback is not None:
            self._callback(batch)
            return
        with self._ready:
            self._arriving.append(batch)
            self.nbytes += batch.nbytes
        room = self._room(self)
        if self.nbytes > room:
            self.give_up(room)

    def publish(self) -> None:
        """The batch is at its end: let what it has pushed be read."""
        if self._arriving or self.ended is not None:
            with self._ready:
                self._batches += self._arriving
                self._arriving = []
                self._wake()

    def give_up(self, room: int) -> None:
        """Drop everything that has not been read, as it takes more than there is room for, and be told no more."""
        with self._ready:
            self._arriving = []
            self._batches.clear()
            self.nbytes = 0
        self.end(
            FeedError(
                f"the feed of {self.view} was not read until its changes took more than {max(0, room):,} bytes, all "
                "that it may hold, and they were dropped",
                hint="close it, open a new one, and take the view's whole result as the start; or raise memory_limit",
            )
        )

    def end(self, why: EverviewError) -> None:
        """Be told no more: what is there can still be read, then each read raises ``why``."""
        with self._ready:
            self.ended = why
            self._wake()

    def _wake(self) -> None:
        self._ready.notify_all()
        for loop, waiter in self._waiting:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_release, waiter)

    # --- the reader's side -------------------------------------------------------------------------------------------

    def read(self, timeout: float | None = None) -> list[pa.RecordBatch]:
        """The changes since the last read, oldest first; empty if there are none.

        With a ``timeout`` it waits until there are some, or so many seconds have passed (``math.inf``: for ever).
        """
        with self._ready:
            if timeout is not None:
                self._ready.wait_for(self._has_changes, min(timeout, TIMEOUT_MAX))
            if self.closed:
                raise ClosedError(f"the feed of {self.view} is closed", hint="open a new one with changes()")
            if not self._batches and self.ended is not None:
                raise self.ended
            found = list(self._batches)
            self._batches.clear()
            self.nbytes -= sum(batch.nbytes for batch in found)
            return found

    def _has_changes(self) -> bool:
        return bool(self._batches) or not self.is_open

    def _next(self) -> pa.RecordBatch | None:
        """The oldest record batch; None if there is none yet, or, once the feed is closed, any more."""
        if not self._batches and self.ended is not None and not self.closed:
            raise self.ended
        if not self._batches:
            return None
        batch = self._batches.popleft()
        self.nbytes -= batch.nbytes
        return batch

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The record batches as they come, waiting for each, until the feed is closed."""
        while True:
            with self._ready:
                self._ready.wait_for(self._has_changes)
                batch = self._next()
            if batch is None:
                return
            yield batch

    async def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        """The same for asyncio: other tasks of the loop run while it waits."""
        from asyncio import get_running_loop

        loop = get_running_loop()
        while True:
            waiter = loop.create_future()
            with self._ready:
                batch = self._next()
                if batch is None and self.closed:
                    return
                if batch is None:
                    self._waiting.append((loop, waiter))
            if batch is not None:
                yield batch
                continue
            try:
                await waiter
            finally:
                with self._ready:
                    self._waiting.remove((loop, waiter))

    def close(self) -> None:
        """End the feed; nothing is kept for it any more."""
        with self._lock:
            if not self.closed:
                with self._ready:
                    self.closed = True
                    self._arriving = []
                    self._batches.clear()
                    self.nbytes = 0
                    self._wake()
                self._close(self)

    def __enter__(self) -> ChangeFeed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _release(waiter: Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def has_subscribers(feeds: Iterable[Sequence[ChangeFeed]]) -> bool:
    """True if a feed is pushed to somebody."""
    for mine in feeds:
        for feed in mine:
            if feed.is_pushed:
                return True
    return False


def check_subscriber(callback: object) -> None:
    """Raise unless it can be handed what has changed."""
    if not callable(callback):
        raise ArgumentError(
            f"a subscriber is a function of a record batch, and {callback!r:.60} is none",
            hint="pass a function; changes() gives a feed to be read",
        )


def feed_schema(outputs: Sequence[Output], per_update: bool) -> pa.Schema:
    """The view's columns and those that say what happened to a row, by Delta's and Spark's names."""
    fields = [pa.field(o.name, arrow_type(o.type)) for o in outputs]
    feed_rows = {**FEED_COLUMNS, "_update": pa.int64()} if per_update else FEED_COLUMNS
    fields += [pa.field(name, type_, nullable=name == "_update") for name, type_ in feed_rows.items()]
    return pa.schema(fields)


@dataclass(frozen=True)
class FeedRows:
    """Rows of a delta as a feed tells them: what happened to each instead of its weight."""

    columns: tuple[pa.Array, ...]
    update: pa.Array
    kinds: pa.Array
    counts: pa.Array

    def __len__(self) -> int:
        return len(self.kinds)

    def slice(self, first: int, length: int) -> FeedRows:
        """Some of the rows, without copying."""
        columns = tuple(c.slice(first, length) for c in self.columns)
        others = (self.update, self.kinds, self.counts)
        return FeedRows(columns, *(c.slice(first, length) for c in others))


def as_feed_rows(rows: WordRows) -> WordRows | FeedRows:
    """The same, with the kinds of changes written at once if they are many.

    The weights have just been computed: they are still near, and their memory is free for the next ones.
    """
    if not SLICE // 4 <= len(rows) <= MOST_IN_BATCH:
        return rows
    return FeedRows(rows.columns, rows.update, *_kinds_and_counts(rows.weight))


def feed_batches(
    parts: Sequence[WordRows | FeedRows],
    outputs: Sequence[Output],
    keys: Sequence[int] | None,
    version: int,
    schema: pa.Schema,
    dictionary: Dictionary,
) -> Iterator[pa.RecordBatch]:
    """Changed rows as batches of a feed; ``keys`` are a grouped view's columns by which old and new rows are paired."""
    per_update = len(schema) > len(outputs) + len(FEED_COLUMNS)
    for rows in _in_batches(parts, len(outputs)):
        whole = rows if isinstance(rows, FeedRows) else _feed_rows(rows, keys)
        for feed_rows, arrays in _decoded(whole, outputs, dictionary):
            arrays += [feed_rows.kinds, _versions(version, len(feed_rows)), feed_rows.counts]
            if per_update:
                arrays.append(_numbers(feed_rows.update))
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _numbers(update: pa.Array) -> pa.Array:
    """The numbers of updates; what the clock has changed has none."""
    is_one = pc.greater_equal(update, pa.scalar(0, pa.int64()))
    return update if pc.all(is_one).as_py() else pc.if_else(is_one, update, pa.scalar(None, pa.int64()))


def _decoded(
    feed_rows: FeedRows, outputs: Sequence[Output], dictionary: Dictionary
) -> Iterator[tuple[FeedRows, list[pa.Array]]]:
    """Rows with their values, in pieces of bounded size: what their strings take is seen from some of them."""
    wide = [(c, o) for c, o in zip(feed_rows.columns, outputs, strict=True) if is_wide(o.type)]
    step = len(feed_rows)
    if wide and len(feed_rows) > SAMPLE:
        some = pa.array(range(0, len(feed_rows), len(feed_rows) // SAMPLE), pa.int64())
        size = sum(dictionary.decode(c.take(some), arrow_type(o.type)).nbytes for c, o in wide)
        step = max(1, MOST_BATCH_BYTES * len(some) // max(1, size))
    for first in range(0, len(feed_rows), step):
        yield from _fitting(feed_rows.slice(first, step) if step < len(feed_rows) else feed_rows, outputs, dictionary)


def _fitting(
    feed_rows: FeedRows, outputs: Sequence[Output], dictionary: Dictionary
) -> Iterator[tuple[FeedRows, list[pa.Array]]]:
    """The same, halved where the strings of all together are too long for one array."""
    columns = zip(feed_rows.columns, outputs, strict=True)
    try:
        found = [from_words(c, o.type, dictionary, nullable=o.nullable) for c, o in columns]
    except ValueError:
        if len(feed_rows) < 2:
            raise
        half = len(feed_rows) // 2
        for part in (feed_rows.slice(0, half), feed_rows.slice(half, len(feed_rows) - half)):
            yield from _fitting(part, outputs, dictionary)
    else:
        yield feed_rows, found


def _feed_rows(rows: WordRows, keys: Sequence[int] | None) -> FeedRows:
    feed_rows = FeedRows(rows.columns, rows.update, *_kinds_and_counts(rows.weight))
    return feed_rows if keys is None or len(rows) < 2 else _paired(feed_rows, rows.weight, keys)


def _in_batches(parts: Sequence[WordRows | FeedRows], width: int) -> Iterator[WordRows | FeedRows]:
    """Small parts together, very large ones cut, in their order."""
    waiting: list[WordRows] = []
    for part in parts:
        if isinstance(part, WordRows):
            waiting.append(part)
            if sum(map(len, waiting)) < SLICE:
                continue
        yield from _cut(WordRows.concat(waiting, width))
        waiting = []
        if isinstance(part, FeedRows):
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


def _paired(feed_rows: FeedRows, weight: pa.Array, keys: Sequence[int]) -> FeedRows:
    """A group that was there before and is there after comes as two rows next to each other, old and new."""
    order, happened = map(words_array, pair_rows([feed_rows.update, *(feed_rows.columns[k] for k in keys)], weight))
    columns = tuple(c.take(order) for c in feed_rows.columns)
    return FeedRows(columns, feed_rows.update.take(order), _HAPPENED.take(happened), feed_rows.counts.take(order))


def untellable(feed: ChangeFeed, version: int, error: DataError) -> FeedError:
    """What a feed is ended with that cannot be told what a batch has changed."""
    is_memory = isinstance(error, MemoryLimitError)
    why = "takes more memory than there is" if is_memory else "has a row of more copies than 64 bits hold"
    return FeedError(
        f"the feed of {feed.view} has ended, as what version {version} changed {why}; the batch itself was applied",
        hint="open a new feed, and take the view's whole result as the start; or read single updates, per_update=True",
    )


def failed(feed: ChangeFeed, batch: pa.RecordBatch, error: Exception) -> SubscriberError:
    """What is raised at the end of a batch of which a subscriber has made an error of its own."""
    version = int(batch.column("_commit_version")[0].as_py())
    return SubscriberError(
        f"a subscriber of {feed.view} raised {type(error).__name__}: {error}; the batch itself was applied, as version "
        f"{version}, and all other subscribers and feeds were told of it",
        version=version,
        view=feed.view,
        cause=error,
        hint="mend the callback, and do not apply the batch again; close the subscription to go on without it",
    )
