"""Which rows of a keyed table there are, decided before the shards get them, where no shard alone could decide it.

Under ``bad_rows="quarantine"`` a second row of a key is put aside. Where rows are spread by other columns than the
key, two rows of one key come to different shards, and a shard that has taken one in cannot know of the other. So
such tables pass a step of their own first, a stateful operator whose shards are spread by key. It keeps each table's
rows, puts aside what it refuses, and forwards the others:

    stream ─► normalise ─► by key: one row a key ─► route ─► pack ─► shards

The step is a level of shards as any other, with one view a table: the table itself. What changes in that view is what
was taken in, and goes on. Tables that do not change are checked by Catalyst alone, when they are loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from everview.plan.shards import Dimension, Grid, Route, ShardLevel
from everview.query.conjunctive import Atom
from everview.query.schema import Table
from everview.query.terms import Expression, Var
from everview.query.view import Block, Output, View
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
from everview.spark.shard.operator import BAD, CHANGES, METRICS, PACKED
from everview.spark.shard.shard import same_batch
from everview.spark.types import CHANGE_TYPE, COUNT

_CELL, _KEPT, _PART = "_everview_cell", "_everview_kept", "_everview_part"


def tables_with_spread_keys(level: ShardLevel) -> tuple[Table, ...]:
    """The keyed tables of which rows of one key may come to different shards."""
    return tuple(t for t in level.tables if t.checked_key and not level.keeps_keys_together(t))


def key_shard_level(tables: Sequence[Table], shards: int) -> ShardLevel:
    """The step's shards: tables spread by their keys, and one view a table, which is the table."""
    return ShardLevel(shards, tuple(tables), tuple(map(_whole, tables)), tuple(_by_key(t, shards) for t in tables))


def _whole(table: Table) -> View:
    variables = [Var(c.name) for c in table.columns]
    outputs = [Output(c.name, Expression.of(v, c.type)) for c, v in zip(table.columns, variables, strict=True)]
    return View(_view_of(table), Block((Atom(table.name, tuple(variables), alias=table.name),), (), tuple(outputs)))


def _view_of(table: Table) -> str:
    return f"__accepted_{table.name}"


def _by_key(table: Table, shards: int) -> Grid:
    own = [table.columns[i] for i in table.positions(table.primary_key)]
    hashed = tuple(Expression.of(Var(c.name), c.type) for c in own)
    route = Route(_view_of(table), table.name, table.name, (hashed,))
    return Grid(_view_of(table), (Dimension("key", shards),), (route,))


# --- from the step to the shards -------------------------------------------------------------------------------------


def forwarded(stepped: DataFrame, step: ShardLevel, level: ShardLevel, keys: Sequence[int]) -> DataFrame:
    """What the step has taken in, packed for the shards of the next level; bad rows and figures go on as they are."""
    told = stepped.where(F.col("kind").isin(CHANGES, BAD, METRICS))
    rows = told.mapInArrow(Unpacker(step.views, False, True), feed_schema(step.views, False, True))
    forwarder = Forwarder.of(step, level, keys)
    cells = []
    for at, packer in enumerate(forwarder.packers):
        place = quoted(_view_of(packer.table))
        own = {c.name.lower(): F.col(f"{place}.{quoted(c.name)}") for c in packer.table.columns}
        cells += hashed_cells(packer.routing, own, f"{_CELL}{at}_")
    return rows.select("*", *cells).mapInArrow(forwarder, PACKED)


@dataclass(frozen=True)
class Forwarder:
    """Runs in Spark's workers, over the changes of the step's views, with the slices that Catalyst has computed."""

    packers: tuple[Packer, ...]
    keys: tuple[int, ...]

    @staticmethod
    def of(step: ShardLevel, level: ShardLevel, keys: Sequence[int]) -> Forwarder:
        """What packs the step's tables for the shards of a level."""
        return Forwarder(tuple(Packer.of(t, level, keys, quarantine=True) for t in step.tables), tuple(keys))

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
        """Bad rows and figures: the first shard hands them on."""
        kinds = {QUARANTINE: BAD, METRICS: METRICS}
        others = batch.filter(pc.is_in(batch.column(CHANGE_TYPE), value_set=pa.array(list(kinds))))
        if others.num_rows:
            found = zip(*(others.column(c).to_pylist() for c in (CHANGE_TYPE, QUARANTINED)), strict=True)
            yield packed_rows([(self.keys[0], kinds[kind], "", 1, None, text) for kind, text in found])

    def _normalised(self, batch: pa.RecordBatch, at: int) -> pa.RecordBatch:
        """The changes of one table as a packer takes them: columns, weights, reasons (none), slices."""
        name = _view_of(self.packers[at].table)
        own = batch.filter(pc.fill_null(pc.equal(batch.column(VIEW), name), False))
        columns = own.column(name).flatten()
        comes = pc.is_in(own.column(CHANGE_TYPE), value_set=pa.array(list(COMING)))
        weight = pc.if_else(comes, own.column(COUNT), pc.negate(own.column(COUNT)))
        cells = [c for c in own.schema.names if c.startswith(f"{_CELL}{at}_")]
        names = [*(c.name for c in self.packers[at].table.columns), WEIGHT, REASON, *cells]
        arrays = [*columns, weight, pa.nulls(own.num_rows, pa.string()), *(own.column(c) for c in cells)]
        return pa.RecordBatch.from_arrays(arrays, names=names)


# --- tables that do not change ---------------------------------------------------------------------------------------


def one_row_a_key(rows: DataFrame, table: Table) -> DataFrame:
    """A static table's normalised rows, net; of those with one key all but the least by value have a reason to go."""
    names = [c.name for c in table.columns]
    key = [table.columns[i].name for i in table.positions(table.primary_key)]
    whole = rows.where(F.col(REASON).isNull()).groupBy(*map(quoted, names)).agg(F.sum(WEIGHT).alias(WEIGHT))
    place = F.row_number().over(Window.partitionBy(*map(quoted, key)).orderBy(*map(quoted, names)))
    comes = whole.where(F.col(WEIGHT) > 0).withColumn(_KEPT, F.when(place == 1, 1).otherwise(0).cast("bigint"))
    parts = F.array(
        F.struct(F.col(_KEPT).alias(WEIGHT), F.lit(None).cast("string").alias(REASON)),
        F.struct((F.col(WEIGHT) - F.col(_KEPT)).alias(WEIGHT), F.lit(same_batch(table)).alias(REASON)),
    )
    own = [F.col(quoted(n)) for n in names]
    judged = comes.select(*own, F.explode(parts).alias(_PART)).select(*own, f"{_PART}.{WEIGHT}", f"{_PART}.{REASON}")
    goes = whole.where(F.col(WEIGHT) < 0).withColumn(REASON, F.lit(None).cast("string"))
    return judged.where(F.col(WEIGHT) > 0).union(goes).union(rows.where(F.col(REASON).isNotNull()))
