"""A shard's changes as blobs or spill files: to the feed, or on to the shards of a second step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.values.nested import parts_of
from everview.spark.exchange.arrow_blob import WEIGHT, write_blob
from everview.spark.shard.messages import FEED, MergeShards
from everview.spark.shard.output.change_buffer import ChangeBuffer
from everview.spark.shard.output.spill_file import SpillFile

Hashes = np.ndarray[tuple[int], np.dtype[np.uint64]]
_FACTOR = np.uint64(0x9E3779B97F4A7C15)

Sent = dict[tuple[str, int], list[tuple[bytes | SpillFile, int]]]


def sent(changes: Mapping[str, ChangeBuffer], merge_shards: MergeShards | None) -> Sent:
    """Blobs by view and where they go; or the spill file in which changes for the feed are already."""
    found: Sent = {}
    for name, buffer in changes.items():
        spill_file = buffer.spill_file()
        if spill_file is not None:
            found[name, FEED] = [(spill_file, spill_file.rows)]
        elif merge_shards is not None and name in merge_shards.columns:
            for batch in buffer:
                for shard, part in _spread(_weighted(batch), merge_shards.columns[name], merge_shards.shards):
                    found.setdefault((name, shard), []).append((write_blob(part, stored=True), part.num_rows))
        else:
            blobs = [(write_blob(batch, stored=False), batch.num_rows) for batch in buffer]
            if blobs:
                found[name, FEED] = [*blobs]
    return found


def _weighted(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A feed's rows with weights, as tables take them."""
    width = batch.schema.get_field_index("_change_type")
    comes = pc.is_in(batch.column(width), pa.array(["insert", "update_postimage"]))
    count = batch.column("_count")
    weight = pc.if_else(comes, count, pc.negate(count))
    names = [*batch.schema.names[:width], WEIGHT]
    return pa.RecordBatch.from_arrays([*batch.columns[:width], weight], names=names)


def _spread(batch: pa.RecordBatch, columns: Sequence[int], shards: int) -> list[tuple[int, pa.RecordBatch]]:
    """Rows by the hash of some columns; by none: all to the first shard."""
    if not columns:
        return [(0, batch)]
    total = np.zeros(batch.num_rows, np.uint64)
    for i in columns:
        total = total * _FACTOR + _hashed(batch.column(i))
    total ^= total >> np.uint64(32)
    shard = (total % np.uint64(shards)).astype(np.int64)
    found = []
    for s in range(shards):
        mask = pa.array(shard == s)
        part = batch.filter(mask)
        if part.num_rows:
            found.append((s, part))
    return found


def _hashed(column: pa.Array) -> Hashes:
    """A number for each value, the same for equal values of any integer type, and whatever else the batch holds."""
    if pa.types.is_nested(column.type):
        hashed = _hashed_parts(column)
    else:
        from pandas.util import hash_array

        if pa.types.is_integer(column.type):
            column = column.cast(pa.int64())
        elif pa.types.is_floating(column.type):
            column = pc.add(column.cast(pa.float64()), 0.0)
        else:
            column = column.cast(pa.large_binary()) if pa.types.is_binary(column.type) else _text(column)
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            values = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
        else:
            values = np.array([v if v is not None else "" for v in column.to_pylist()], dtype=object)
        hashed = hash_array(values, categorize=False)
    hashed[column.is_null().to_numpy(zero_copy_only=False)] = 0
    return hashed


def _hashed_parts(column: pa.Array) -> Hashes:
    """A number for each nested value, made of those of its parts: of a list in their order, of a map in any."""
    total: Hashes = np.zeros(len(column), np.uint64)
    if pa.types.is_struct(column.type):
        for field in parts_of(column):
            total = total * _FACTOR + _hashed(field)
        return total
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    rows = np.repeat(np.arange(len(column)), lengths)
    if pa.types.is_map(column.type):
        keys, values = (_hashed(part) for part in parts_of(column))
        np.add.at(total, rows, (keys ^ _FACTOR) * (values + _FACTOR))
        return total
    places = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    powers = np.cumprod(np.full(int(lengths.max(initial=0)), _FACTOR, np.uint64))
    np.add.at(total, rows, (_hashed(parts_of(column)[0]) + _FACTOR) * powers[places])
    return total


def _text(column: pa.Array) -> pa.Array:
    if pa.types.is_string(column.type):
        return column
    if pa.types.is_timestamp(column.type):
        return column.view(pa.int64())
    return column.cast(pa.string())
