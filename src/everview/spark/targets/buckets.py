"""A bag of rows in immutable files, each holding the rows of a range of hashes: what a batch rewrites, and how.

The files whose ranges overlap are a *bucket*, and the buckets' ranges make up all hashes. A file's name says its range,
so that the list of files is all there is to know. A batch touches the buckets its rows fall in. A bucket that only
gains rows gets one more file; one that loses rows, or has many files, is written anew. A bucket with too many distinct
rows is cut into several, neighbours that have become small are put together: the files follow the size of the data.

In memory are one bucket, the batch's rows for it, and a chunk; a batch of more rows is spilled, sorted by range.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import ceil
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everview.errors import TargetError
from everview.spark.targets.base import Batch
from everview.spark.targets.rows import Rows, Words, changes, concatenated, hashes, stored

BUCKET_ROWS: Final = 100_000
"""A bucket has at most so many distinct rows when it is written."""

MOST_FILES: Final = 8
"""A bucket of so many files is written anew as one."""

_ALL: Final = 1 << 64
_NAME: Final = re.compile(r"([0-9a-f]{16})-([0-9a-f]{16})-[0-9a-f]+\.parquet")
_SLICE: Final = 100_000


def is_bucket(name: str) -> bool:
    """Whether a name is that of a file with a range of hashes."""
    return _NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class File:
    """A file and how many rows it has; its range of hashes is in its name."""

    name: str
    rows: int

    @property
    def range(self) -> tuple[int, int]:
        """The hashes its rows may have: from the first up to before the second. All, if the name is not one of ours."""
        match = _NAME.fullmatch(self.name)
        return (int(match[1], 16), int(match[2], 16) + 1) if match else (0, _ALL)


@dataclass(slots=True)
class Bucket:
    """A range of hashes and the files that hold its rows."""

    low: int
    high: int
    files: list[File]

    @property
    def rows(self) -> int:
        """How many rows its files have."""
        return sum(f.rows for f in self.files)


class Store(Protocol):
    """Where the files are."""

    def read(self, name: str) -> pa.Table:
        """The rows of a file."""

    def write(self, name: str, tables: Iterator[pa.Table]) -> None:
        """Write a new file."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a batch does to the list of files."""

    added: list[File]
    removed: list[File]


def buckets(files: Sequence[File]) -> list[Bucket]:
    """The buckets of some files, in the order of their ranges, which leave no hash out."""
    found: list[Bucket] = []
    for file in sorted(files, key=lambda f: f.range):
        low, high = file.range
        if found and low < found[-1].high:
            found[-1].files.append(file)
            found[-1].high = max(found[-1].high, high)
        else:
            found.append(Bucket(low, high, [file]))
    if not found:
        return [Bucket(0, _ALL, [])]
    found[0].low, found[-1].high = 0, _ALL
    for one, following in pairwise(found):
        one.high = following.low
    return found


def apply(files: Sequence[File], batch: Batch, store: Store, target: str, bucket_rows: int = BUCKET_ROWS) -> Outcome:
    """Write the files that a batch asks for; the caller makes them, and no others, the target's, in one step."""
    there = buckets(files)
    lows = _cuts(there, batch.rows, bucket_rows)
    with TemporaryDirectory(prefix="everview-") as folder:
        pile = _Pile(lows, Path(folder), bucket_rows)
        for chunk in batch.chunks():
            pile.add(changes(chunk, batch.schema, target).net())
        writer = _Writer(store, target, bucket_rows, batch.schema)
        starts = [b.low for b in there]
        pieces: dict[int, list[int]] = defaultdict(list)
        for piece in pile.pieces():
            pieces[bisect_right(starts, lows[piece]) - 1].append(piece)
        for i, wanted in sorted(pieces.items()):
            writer.bucket(there[i], [(lows[p], _end(lows, p), p) for p in wanted], pile.rows)
        writer.flush()
    return Outcome(writer.added, writer.removed)


def _end(lows: Sequence[int], i: int) -> int:
    return lows[i + 1] if i + 1 < len(lows) else _ALL


def _cuts(there: Sequence[Bucket], rows: int, bucket_rows: int) -> list[int]:
    """Where the pieces begin that a batch is sorted into: a bucket is one, or several if much of the batch falls in."""
    lows: list[int] = []
    for bucket in there:
        width = bucket.high - bucket.low
        parts = max(1, ceil(rows * width / _ALL / bucket_rows))
        lows += [bucket.low + width * i // parts for i in range(parts)]
    return lows


class _Pile:
    """The rows of a batch, sorted into pieces by their hashes; on disk when they are many."""

    def __init__(self, lows: Sequence[int], folder: Path, bucket_rows: int) -> None:
        self._lows = np.array(lows, np.uint64)
        self._folder = folder
        self._most = 4 * bucket_rows
        self._held: dict[int, list[Rows]] = defaultdict(list)
        self._size = 0
        self._spilled: dict[int, list[Path]] = defaultdict(list)

    def add(self, rows: Rows) -> None:
        """Take rows in."""
        if not len(rows):
            return
        where: Words = np.searchsorted(self._lows, hashes(rows.columns), side="right") - 1
        order = np.argsort(where, kind="stable")
        sorted_ = where[order]
        ends = [*(np.flatnonzero(np.diff(sorted_)) + 1).tolist(), len(order)]
        for begin, end in pairwise([0, *ends]):
            self._held[int(sorted_[begin])].append(rows.take(order[begin:end]))
        self._size += len(rows)
        if self._size > self._most:
            self._spill()

    def _spill(self) -> None:
        for piece, parts in self._held.items():
            rows = concatenated(parts)
            path = self._folder / f"{piece}-{len(self._spilled[piece])}"
            table = rows.columns.append_column(_unused(rows.columns), rows.weights)
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
            self._spilled[piece].append(path)
        self._held.clear()
        self._size = 0

    def pieces(self) -> list[int]:
        """The pieces that have rows."""
        return sorted(self._held.keys() | self._spilled.keys())

    def rows(self, piece: int) -> Rows:
        """The net of a piece."""
        parts = list(self._held.get(piece, ()))
        for path in self._spilled.get(piece, ()):
            with pa.OSFile(str(path), "rb") as file:
                table = pa.ipc.open_file(file).read_all()
            last = table.num_columns - 1
            parts.append(Rows(table.remove_column(last), table.column(last)))
        return concatenated(parts).net()


def _unused(table: pa.Table) -> str:
    """A name that no column has."""
    return "".join(table.column_names) + "_"


class _Writer:
    """Writes buckets anew, and holds a small one back until it is known whether its neighbour is small too."""

    def __init__(self, store: Store, target: str, bucket_rows: int, schema: pa.Schema) -> None:
        self.added: list[File] = []
        self.removed: list[File] = []
        self._store = store
        self._target = target
        self._most = bucket_rows
        self._schema = schema
        self._pending: tuple[int, int, Rows] | None = None

    def bucket(self, bucket: Bucket, pieces: Sequence[tuple[int, int, int]], load: Callable[[int], Rows]) -> None:
        """Apply the pieces of a batch that fall into a bucket: (low, high, which)."""
        if len(pieces) == 1:
            rows = load(pieces[0][2])
            if not len(rows):
                return
            if self._may_append(bucket, rows):
                self._write(bucket.low, bucket.high, rows)
                return
            self._rewrite(bucket, [(bucket.low, bucket.high, lambda: rows)])
        else:
            self._rewrite(bucket, [(low, high, partial(load, i)) for low, high, i in pieces])

    def _may_append(self, bucket: Bucket, rows: Rows) -> bool:
        return (
            0 < len(bucket.files) < MOST_FILES
            and pc.min(rows.weights).as_py() > 0
            and bucket.rows + pc.sum(rows.weights).as_py() <= self._most
        )

    def _rewrite(self, bucket: Bucket, pieces: Sequence[tuple[int, int, Callable[[], Rows]]]) -> None:
        empty = stored(self._schema.empty_table())
        old = concatenated([empty, *(stored(self._store.read(f.name)) for f in bucket.files)]).net()
        self.removed += bucket.files
        places = hashes(old.columns) if len(pieces) > 1 else np.zeros(0, np.uint64)
        reached = bucket.low
        for low, high, load in pieces:
            if low > reached:  # no change between the pieces, but rows that stay
                self._put(reached, low, _between(old, places, reached, low))
            mine = old if len(pieces) == 1 else _between(old, places, low, high)
            self._put(low, high, self._checked(concatenated([mine, load()]).net()))
            reached = high
        if reached < bucket.high:
            self._put(reached, bucket.high, _between(old, places, reached, bucket.high))

    def _checked(self, rows: Rows) -> Rows:
        if len(rows) and pc.min(rows.weights).as_py() < 0:
            row = rows.columns.slice(pc.index(pc.less(rows.weights, 0), True).as_py(), 1).to_pylist()[0]
            raise over_delete(self._target, row)
        return rows

    def _put(self, low: int, high: int, rows: Rows) -> None:
        """Take the new rows of a range; together with those just before it if both are few."""
        if self._pending is not None:
            first, end, before = self._pending
            if end == low and len(before) + len(rows) <= self._most // 4:
                self._pending = (first, high, concatenated([before, rows]))
                return
            self.flush()
        self._pending = (low, high, rows)

    def flush(self) -> None:
        """Write what was held back, in as many files as it needs."""
        if self._pending is None:
            return
        low, high, rows = self._pending
        self._pending = None
        if len(rows) <= self._most:
            self._write(low, high, rows)
            return
        places = hashes(rows.columns)
        order = np.argsort(places, kind="stable")
        places, rows = places[order], rows.take(order)
        parts = ceil(2 * len(rows) / self._most)
        cuts = sorted({int(places[len(rows) * i // parts]) for i in range(1, parts)} - {low})
        for begin, end in pairwise([low, *cuts, high]):
            i = int(np.searchsorted(places, np.uint64(begin)))
            j = len(rows) if end == _ALL else int(np.searchsorted(places, np.uint64(end)))
            self._write(begin, end, Rows(rows.columns.slice(i, j - i), rows.weights.slice(i, j - i)))

    def _write(self, low: int, high: int, rows: Rows) -> None:
        if not len(rows):
            return
        file = File(f"{low:016x}-{high - 1:016x}-{token_hex(8)}.parquet", pc.sum(rows.weights).as_py())
        self._store.write(file.name, rows.copies(_SLICE))
        self.added.append(file)


def _between(rows: Rows, places: Words, low: int, high: int) -> Rows:
    """The rows whose hashes are in a range."""
    return rows.take(np.flatnonzero((places >= np.uint64(low)) & (places <= np.uint64(high - 1))))


def over_delete(target: str, row: object) -> TargetError:
    """The error for a row that should go and is not there."""
    return TargetError(
        f"{target} lacks a row, or a copy of it, that the batch deletes: {row}",
        hint="someone else has changed the target: drop() it, and begin again with a new checkpoint",
    )
