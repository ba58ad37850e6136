"""Normalise, route and pack: from a DataFrame of changes to blobs for shards.

What concerns a row alone is done by Catalyst: which way a row counts, whether it may be taken in at all, and the hashes
that say where it goes. The rest is done on Arrow batches, thousands of rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from everview.engine.ingest import table_schema
from everview.errors import BadRowError, PipelineError
from everview.plan.shards import MASK, MOST_OCCURRENCES, Level
from everview.query.schema import Table
from everview.query.terms import Expression, Var
from everview.spark.blobs import WEIGHT, write_blob
from everview.spark.messages import bad_row
from everview.spark.processor import BAD, BEAT, PACKED, ROWS
from everview.spark.types import CHANGE_TYPE, CORRUPT, COUNT
from everview.spark.workers import begin_task

MOST_ROWS = 131_072
"""Rows that are packed together."""
REASON = "_everview_reason"
_CELL = "_everview_cell"
COMING, GOING = ("insert", "update_postimage"), ("delete", "update_preimage")


@dataclass(frozen=True)
class Way:
    """One occurrence's route, for the packer: which hash columns must have which value in each shard."""

    columns: tuple[int, ...]
    wanted: tuple[tuple[int, ...], ...]
    """For each shard the values of those columns; a shard without any is not on this way."""


def packed(frame: DataFrame, table: Table, level: Level, keys: list[int], *, quarantine: bool) -> DataFrame:
    """A table's changes as blobs: the shard's key, the table's name, and the rows."""
    own = {c.lower(): c for c in frame.columns}
    columns = [F.col(_quoted(own[c.name.lower()])).alias(c.name) for c in table.columns]
    weight = _weight(frame, own)
    ways, hashed = ways_of(table, level)
    hashes = [_slice(h, share, own).alias(f"{_CELL}{i}") for i, (h, share) in enumerate(hashed)]
    reason = _reason(table, own).alias(REASON)
    packer = Packer(table, ways, tuple(keys), level.is_masked(table.name), quarantine)
    return frame.select(*columns, weight.alias(WEIGHT), reason, *hashes).mapInArrow(packer, PACKED)


def ways_of(table: Table, level: Level) -> tuple[tuple[Way, ...], list[tuple[tuple[Expression, ...], int]]]:
    """The routes of a table's occurrences, and what is hashed for them into how many slices."""
    places: dict[tuple[tuple[Expression, ...], int], int] = {}
    ways = []
    for grid, route in level.routes(table.name):
        used = []
        for k, (dimension, hashed) in enumerate(zip(grid.dimensions, route.coordinates, strict=True)):
            if hashed is not None:
                used.append((k, places.setdefault((hashed, dimension.share), len(places))))
        wanted = tuple(tuple(grid.coordinates(s)[k] for k, _ in used) for s in range(level.shards))
        ways.append(Way(tuple(at for _, at in used), wanted))
    if len(ways) > MOST_OCCURRENCES:
        raise PipelineError(
            f"{table.name} occurs {len(ways)} times in the views of one query; shards tell {MOST_OCCURRENCES} apart",
            hint="keep some of the views in a query of their own",
        )
    return tuple(ways), list(places)


def _weight(frame: DataFrame, own: dict[str, str]) -> Column:
    """How many copies come or go; 0 if that cannot be known."""
    if CHANGE_TYPE not in own:
        sign = F.lit(1).cast("bigint")
    else:
        kind = F.col(_quoted(own[CHANGE_TYPE]))
        sign = F.when(kind.isin(*COMING), 1).when(kind.isin(*GOING), -1)
        sign = F.coalesce(sign, F.lit(0)).cast("bigint")
    if COUNT in own:
        copies = F.col(_quoted(own[COUNT])).cast("bigint")
        return sign * F.when(copies >= 1, copies).otherwise(0)
    return sign


def _reason(table: Table, own: dict[str, str]) -> Column:
    """Why a row cannot be taken in, as far as the row alone tells; NULL if it can."""
    found = F.lit(None).cast("string")
    for column in table.columns:
        if not column.nullable or column.name in table.primary_key:
            value = F.col(_quoted(own[column.name.lower()]))
            found = F.when(value.isNull(), f"{column.name} is NULL and must not be").otherwise(found)
    if CHANGE_TYPE in own:
        kind = F.col(_quoted(own[CHANGE_TYPE]))
        unknown = F.concat(
            F.lit("unknown _change_type "),
            F.coalesce(kind, F.lit("NULL")),
            F.lit(": it is insert, delete, update_preimage or update_postimage"),
        )
        known = F.coalesce(kind.isin(*COMING, *GOING), F.lit(False))
        found = F.when(~known, unknown).otherwise(found)
    if COUNT in own:
        copies = F.col(_quoted(own[COUNT]))
        found = F.when(copies.isNull() | (copies < 1), "_count is below 1").otherwise(found)
    if CORRUPT in own:
        raw = F.col(_quoted(own[CORRUPT])).cast("string")
        found = F.when(raw.isNotNull(), F.concat(F.lit("it cannot be read as declared: "), raw)).otherwise(found)
    return found


def _slice(hashed: tuple[Expression, ...], share: int, own: dict[str, str]) -> Column:
    if not hashed:
        return F.lit(0)
    return F.pmod(F.xxhash64(*(_hashable(e, own) for e in hashed)), F.lit(share)).cast("int")


def _hashable(expression: Expression, own: dict[str, str]) -> Column:
    """A column, integers as wide as they come, so that those of different types hash alike."""
    assert isinstance(expression.term, Var)
    found = F.col(_quoted(own[expression.term.name.lower()]))
    return found.cast("bigint") if expression.type.is_integer else found


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True)
class Packer:
    """Runs in Spark's workers, over a partition's Arrow batches."""

    table: Table
    ways: tuple[Way, ...]
    keys: tuple[int, ...]
    masked: bool
    quarantine: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Blobs for each shard, and a sign of life to all of them."""
        context = begin_task()
        partition = context.partitionId() if context is not None else 0
        version = int((context.getLocalProperty("streaming.sql.batchId") if context is not None else None) or 0)
        if partition == 0:
            yield _rows([(key, BEAT, self.table.name, 0, None, None) for key in self.keys])
        waiting: list[pa.RecordBatch] = []
        first = 0
        for batch in batches:
            good, bad = self._sorted_out(batch, f"batch {version}, partition {partition}", first)
            first += batch.num_rows
            if bad:
                yield _rows([(self.keys[0], BAD, self.table.name, 1, None, text) for text in bad])
            waiting.append(good)
            if sum(b.num_rows for b in waiting) >= MOST_ROWS:
                yield from self._flushed(waiting)
                waiting = []
        yield from self._flushed(waiting)

    def _sorted_out(self, batch: pa.RecordBatch, where: str, first: int) -> tuple[pa.RecordBatch, list[str]]:
        reason = batch.column(self.table.arity + 1)
        if reason.null_count == len(reason):
            return batch, []
        wrong = pc.is_valid(reason)
        rows = batch.filter(wrong)
        names = [c.name for c in self.table.columns]
        shown = [
            dict(zip(names, values, strict=True))
            for values in zip(*(rows.column(i).to_pylist() for i in range(len(names))), strict=True)
        ]
        reasons = rows.column(self.table.arity + 1).to_pylist()
        if not self.quarantine:
            position = first + int(pc.index(wrong, True).as_py())
            raise BadRowError(
                f"a row of {self.table.name} cannot be taken in ({where}, row {position}): {reasons[0]}; "
                f"the row: {shown[0]}",
                table=self.table.name,
                row=position,
                hint="correct the stream, or use bad_rows='quarantine'",
            )
        return batch.filter(pc.invert(wrong)), [
            bad_row(self.table.name, row, f"{why} ({where})") for row, why in zip(shown, reasons, strict=True)
        ]

    def _flushed(self, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if not sum(b.num_rows for b in batches):
            return
        table = pa.Table.from_batches(batches).combine_chunks()
        schema = table_schema(self.table)
        data = [table.column(i).cast(f.type) for i, f in enumerate(schema)]
        data.append(table.column(self.table.arity))
        rows = pa.table(data, names=[*schema.names, WEIGHT])
        cells = [
            table.column(self.table.arity + 2 + i).to_numpy() for i in range(table.num_columns - self.table.arity - 2)
        ]
        found: list[tuple[Any, ...]] = []
        for shard, key in enumerate(self.keys):
            part = self._for_shard(rows, cells, shard)
            if part is not None and part.num_rows:
                found.append((key, ROWS, self.table.name, part.num_rows, write_blob(part, stored=True), None))
        for row in found:
            yield _rows([row])

    def _for_shard(self, rows: pa.Table, cells: list[Any], shard: int) -> pa.Table | None:
        """The rows that a shard gets, with the ways on which they come."""
        mask = np.zeros(rows.num_rows, np.int64)
        for bit, way in enumerate(self.ways):
            fits = np.ones(rows.num_rows, bool)
            for column, wanted in zip(way.columns, way.wanted[shard], strict=True):
                fits &= cells[column] == wanted
            mask |= fits.astype(np.int64) << bit
        chosen = rows.filter(pa.array(mask != 0)) if (mask == 0).any() else rows
        if not self.masked:
            return chosen
        ways = mask[mask != 0] if chosen.num_rows != rows.num_rows else mask
        return chosen.add_column(self.table.arity, MASK, pa.array(ways))


def _rows(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    key, kind, name, count, blob, info = zip(*rows, strict=True)
    arrays = [
        pa.array(key, pa.int32()),
        pa.array(kind, pa.string()),
        pa.array(name, pa.string()),
        pa.nulls(len(rows), pa.int64()),
        pa.array(count, pa.int64()),
        pa.array(blob, pa.binary()),
        pa.array(info, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=[c.split()[0] for c in PACKED.split(", ")])
