"""From one step of shards to the next as its tables: what views of the step have changed, routed and packed anew.

So rows go on from a step that checks keys, and from one that makes stages ahead. Catalyst hashes them, as it does the
rows that come from outside: those that are joined meet. Everything passes the step before in one line, as a stateful
operator that two others read from would run twice: rows that only pass by come packed, and go on so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from everview.plan.shards import ShardLevel
from everview.query.schema import Table
from everview.query.view import View
from everview.spark.exchange.arrow_blob import WEIGHT
from everview.spark.exchange.pack import (
    COMING,
    MOST_ROWS,
    REASON,
    Packer,
    hashed_cells,
    packed_rows,
    quoted,
    signs_of_life,
    task_place,
)
from everview.spark.exchange.unpack import QUARANTINE, QUARANTINED, VIEW, Unpacker, feed_schema
from everview.spark.shard.operator import BAD, CHANGES, METRICS, PACKED, ROWS
from everview.spark.types import CHANGE_TYPE, COUNT

_CELL, _BY = "_everview_cell", "_everview_by"


def forwarded(
    stepped: DataFrame, views: Mapping[str, View], levels: Mapping[str, ShardLevel], keys: Sequence[int]
) -> DataFrame:
    """What the step's views have changed, by the tables that they are, packed for levels after it.

    These are given as in ``packed``. Rows that pass by, bad rows and figures go on as they are.
    """
    told = stepped.where(F.col("kind").isin(CHANGES, BAD, METRICS, ROWS))
    own = tuple(views.values())
    rows = told.mapInArrow(Passing(Unpacker(own, False, True)), _schema(own))
    forwarder = Forwarder.of(views, levels, keys)
    cells = []
    for at, packer in enumerate(forwarder.packers):
        place = quoted(views[packer.table.name].name)
        columns = {c.name.lower(): F.col(f"{place}.{quoted(c.name)}") for c in packer.table.columns}
        cells += hashed_cells(packer, columns, f"{_CELL}{at}_")
    return rows.select("*", *cells).mapInArrow(forwarder, PACKED)


def _schema(views: Sequence[View]) -> StructType:
    return StructType([*feed_schema(views, False, True), StructField(_BY, StructType.fromDDL(PACKED))])


def having(levels: Mapping[str, ShardLevel], table: Table) -> dict[str, ShardLevel]:
    """Those of some levels that have a table."""
    return {kind: level for kind, level in levels.items() if any(t.name == table.name for t in level.tables)}


@dataclass(frozen=True)
class Passing:
    """Runs in Spark's workers: unpacks changes; rows that pass by have a column of their own."""

    unpack: Unpacker

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The changes, bad rows and figures, and what passes by, packed as it is."""
        for batch in batches:
            passing = pc.equal(batch.column("kind"), ROWS)
            for part in self.unpack(iter([batch.filter(pc.invert(passing))])):
                yield part.append_column(_BY, pa.nulls(part.num_rows, pa.struct(list(batch.schema))))
            by = batch.filter(passing).to_struct_array()
            for i in range(len(by)):
                yield self.unpack.told(ROWS, "", 0).append_column(_BY, by.slice(i, 1))


@dataclass(frozen=True)
class Forwarder:
    """Runs in Spark's workers, over the changes of the step's views, with the slices that Catalyst has computed."""

    packers: tuple[Packer, ...]
    views: tuple[str, ...]
    """What the views are called that are the packers' tables."""
    keys: tuple[int, ...]

    @staticmethod
    def of(views: Mapping[str, View], levels: Mapping[str, ShardLevel], keys: Sequence[int]) -> Forwarder:
        """What packs tables, which are views of the step, for the shards of levels."""
        tables = {t.name: t for level in levels.values() for t in level.tables if t.name in views}
        packers = tuple(Packer.of(t, having(levels, t), keys, quarantine=True) for t in tables.values())
        return Forwarder(packers, tuple(views[name].name for name in tables), tuple(keys))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Blobs for each shard, a sign of life to all of them, and what is no row."""
        partition, _ = task_place()
        if partition == 0:
            yield signs_of_life(self.keys)
        waiting: list[list[pa.RecordBatch]] = [[] for _ in self.packers]
        for batch in batches:
            yield from self._passed(batch)
            for at, packer in enumerate(self.packers):
                waiting[at].append(self._normalised(batch, at))
                if sum(b.num_rows for b in waiting[at]) >= MOST_ROWS:
                    yield from packer.flushed(waiting[at])
                    waiting[at] = []
        for packer, rest in zip(self.packers, waiting, strict=True):
            yield from packer.flushed(rest)

    def _passed(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Rows that pass by; bad rows and figures, which the first shard hands on."""
        by = batch.column(_BY).drop_null()
        if len(by):
            yield pa.RecordBatch.from_struct_array(by)
        kinds = {QUARANTINE: BAD, METRICS: METRICS}
        others = batch.filter(pc.is_in(batch.column(CHANGE_TYPE), value_set=pa.array(list(kinds))))
        if others.num_rows:
            found = zip(*(others.column(c).to_pylist() for c in (CHANGE_TYPE, QUARANTINED)), strict=True)
            yield packed_rows([(self.keys[0], kinds[kind], "", 1, None, text) for kind, text in found])

    def _normalised(self, batch: pa.RecordBatch, at: int) -> pa.RecordBatch:
        """The changes of one table as a packer takes them: columns, weights, reasons (none), slices."""
        name = self.views[at]
        own = batch.filter(pc.fill_null(pc.equal(batch.column(VIEW), name), False))
        columns = own.column(name).flatten()
        comes = pc.is_in(own.column(CHANGE_TYPE), value_set=pa.array(list(COMING)))
        weight = pc.if_else(comes, own.column(COUNT), pc.negate(own.column(COUNT)))
        cells = [c for c in own.schema.names if c.startswith(f"{_CELL}{at}_")]
        names = [*(c.name for c in self.packers[at].table.columns), WEIGHT, REASON, *cells]
        arrays = [*columns, weight, pa.nulls(own.num_rows, pa.string()), *(own.column(c) for c in cells)]
        return pa.RecordBatch.from_arrays(arrays, names=names)
