"""Rows with weights, as Arrow: what a chunk of a feed changes, its net, and the hash that spreads rows over files.

A row's weight is how many copies of it come (or, negative, go). Doubles have one zero and one NaN, as in Spark's GROUP
BY and in the kernel, so equal rows are equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.values.nested import as_keys, from_key
from everview.errors import TargetError
from everview.spark.targets.base import CHANGE_TYPE, COUNT

_GAINS: Final = pa.array(["insert", "update_postimage"])
_LOSSES: Final = pa.array(["delete", "update_preimage"])
_WEIGHT: Final = "w"
Words = Any
"""A NumPy array of unsigned 64-bit words."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows and the weight of each."""

    columns: pa.Table
    weights: pa.ChunkedArray

    def __len__(self) -> int:
        return int(self.columns.num_rows)

    def take(self, positions: Any) -> Rows:
        """The rows at some positions."""
        where = pa.array(positions)
        return Rows(self.columns.take(where), self.weights.take(where))

    def net(self) -> Rows:
        """Each row once, with the sum of its weights; none whose sum is zero."""
        names = [str(i) for i in range(self.columns.num_columns)]
        table = pa.table([*as_keys(self.columns.columns), self.weights], names=[*names, _WEIGHT])
        summed = table.group_by(names, use_threads=False).aggregate([(_WEIGHT, "sum")])
        summed = summed.filter(pc.not_equal(summed[f"{_WEIGHT}_sum"], 0))
        schema = self.columns.schema
        values = [from_key(summed[name], field.type) for name, field in zip(names, schema, strict=True)]
        columns = pa.table(values, schema=schema)
        return Rows(columns, summed[f"{_WEIGHT}_sum"])

    def copies(self, most: int) -> Iterator[pa.Table]:
        """The rows themselves, each as often as its weight says, in tables of at most so many rows."""
        ends = np.cumsum(self.weights.to_numpy())
        total = int(ends[-1]) if len(ends) else 0
        for begin in range(0, total, most):
            wanted = np.arange(begin, min(begin + most, total))
            yield self.columns.take(pa.array(np.searchsorted(ends, wanted, side="right")))


def concatenated(parts: Sequence[Rows]) -> Rows:
    """Some rows and more rows; there must be at least one part."""
    weights = pa.chunked_array([chunk for p in parts for chunk in p.weights.chunks], pa.int64())
    return Rows(pa.concat_tables([p.columns for p in parts]), weights)


def stored(table: pa.Table) -> Rows:
    """Rows as they are in a target: each there once for every copy."""
    return Rows(table, pa.chunked_array([pa.array(np.ones(table.num_rows, np.int64))]))


def tidy(column: Any, type_: pa.DataType) -> Any:
    """A column of a feed in its own type, with one zero and one NaN."""
    column = column.cast(type_)
    if pa.types.is_floating(type_):
        column = pc.add(column, pa.scalar(0.0, type_))  # -0.0 + 0.0 is 0.0
        return pc.if_else(pc.is_nan(column), pa.scalar(nan, type_), column)
    return column


def changes(chunk: pa.RecordBatch, schema: pa.Schema, target: str) -> Rows:
    """What a chunk of a feed changes: its rows, each with the copies that come or go."""
    kinds, counts = chunk.column(CHANGE_TYPE), chunk.column(COUNT).cast(pa.int64())
    gains, losses = pc.is_in(kinds, _GAINS), pc.is_in(kinds, _LOSSES)
    if not pc.all(pc.or_(gains, losses), min_count=0).as_py():
        odd = kinds.filter(pc.invert(pc.or_(gains, losses)))[0].as_py()
        raise TargetError(
            f"a row for {target} has the _change_type {odd!r}",
            column=CHANGE_TYPE,
            hint="it is one of insert, delete, update_preimage, update_postimage: write what maintain gives",
        )
    if counts.null_count or not pc.all(pc.greater(counts, 0), min_count=0).as_py():
        raise TargetError(
            f"a row for {target} has a _count that is NULL or less than 1",
            column=COUNT,
            hint="it is the number of copies that come or go: write what maintain gives",
        )
    columns = pa.table([tidy(chunk.column(f.name), f.type) for f in schema], schema=schema)
    return Rows(columns, pa.chunked_array([pc.if_else(gains, counts, pc.negate(counts))]))


# --- the hash --------------------------------------------------------------------------------------------------------

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)
_NULL: Final = np.uint64(0xD6E8FEB86659FD93)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)


def hashes(table: pa.Table) -> Words:
    """A 64-bit hash for every row: the same for equal rows in every process and version, for files are named by it."""
    found: Words = np.zeros(table.num_rows, np.uint64)
    for column in table.columns:
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        words = _words(array)
        if array.null_count:
            words = np.where(array.is_null().to_numpy(zero_copy_only=False), _NULL, words)
        found = _mixed(found * _ODD + words)
    return found


def _mixed(words: Words) -> Words:
    """The finaliser of SplitMix64: every bit of the input moves every bit of the output."""
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))


def _words(array: pa.Array) -> Words:
    type_ = array.type
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return _texts(array.cast(pa.large_binary()))
    if pa.types.is_decimal128(type_):
        halves = np.frombuffer(array.buffers()[1], np.uint64).reshape(-1, 2)[array.offset : array.offset + len(array)]
        return halves[:, 0] * _ODD + halves[:, 1]
    if pa.types.is_floating(type_):
        doubles = pc.fill_null(array, 0).to_numpy(zero_copy_only=False).astype(np.float64)
        return doubles.view(np.uint64)
    if pa.types.is_date32(type_):
        array = array.view(pa.int32())
    elif pa.types.is_timestamp(type_):
        array = array.view(pa.int64())
    whole = pc.fill_null(array.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return whole.view(np.uint64)


def _texts(array: pa.Array) -> Words:
    """A polynomial in each text's bytes, all of them at once: the sum of a prefix less that of the prefix before."""
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    begins, lengths = offsets[:-1], np.diff(offsets)
    if not len(array) or not offsets[-1]:
        return np.zeros(len(array), np.uint64)
    data = np.frombuffer(array.buffers()[2], np.uint8)[offsets[0] : offsets[-1]].astype(np.uint64) + np.uint64(1)
    powers = np.multiply.accumulate(np.full(int(lengths.max()) + 1, _ODD))
    places = np.arange(len(data)) - np.repeat(begins - offsets[0], lengths)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(data * powers[places], dtype=np.uint64)])
    return sums[offsets[1:] - offsets[0]] - sums[begins - offsets[0]] + lengths.astype(np.uint64)
