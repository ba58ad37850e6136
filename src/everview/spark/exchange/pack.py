"""Normalise, route and pack: from a DataFrame of changes to blobs for shards.

What concerns a row alone is done by Catalyst: which way a row counts, whether it may be taken in at all, and the hashes
that say where it goes. The rest is done on Arrow batches, thousands of rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from everview.engine.input.read import table_schema
from everview.errors import BadRowError
from everview.plan.shards import MASK, ShardLevel
from everview.query.schema import Table
from everview.query.terms import Expression, Var
from everview.query.types import DataType
from everview.spark.exchange.arrow_blob import WEIGHT, write_blob
from everview.spark.exchange.routing import Routing, Slice
from everview.spark.shard.messages import bad_row
from everview.spark.shard.operator import BAD, BEAT, PACKED
from everview.spark.types import CHANGE_TYPE, CORRUPT, COUNT
from everview.spark.worker import begin_task

MOST_ROWS = 131_072
"""Rows that are packed together."""
REASON = "_everview_reason"
_CELL = "_everview_cell"
COMING, GOING = ("insert", "update_postimage"), ("delete", "update_preimage")


def normalised(frame: DataFrame, table: Table) -> DataFrame:
    """A table's changes: its columns, how many copies come or go, and why a row cannot be taken in, if so."""
    own = {c.lower(): F.col(quoted(c)) for c in frame.columns}
    columns = [stored(own[c.name.lower()], c.type).alias(c.name) for c in table.columns]
    return frame.select(*columns, _weight(own).alias(WEIGHT), _reason(table, own).alias(REASON))


def packed(
    rows: DataFrame,
    table: Table,
    levels: Mapping[str, ShardLevel],
    keys: list[int],
    *,
    quarantine: bool,
    skip: int | None = None,
) -> DataFrame:
    """A table's normalised changes as blobs: the shard's key, the table's name, and the rows.

    ``levels`` are those that get them: the next one as ROWS, one after it as what the next hands ONWARD.
    """
    own = {c.name.lower(): F.col(quoted(c.name)) for c in table.columns}
    packer = Packer.of(table, levels, keys, quarantine=quarantine, skip=skip)
    return rows.select("*", *hashed_cells(packer, own)).mapInArrow(packer, PACKED)


def hashed_cells(packer: Packer, own: Mapping[str, Column], prefix: str = _CELL) -> list[Column]:
    """The slices of a table's rows that Catalyst computes, given the table's columns by name."""
    return [_slice(s, own).alias(f"{prefix}{i}") for i, s in enumerate(packer.given)]


def stored(value: Column, type_: DataType) -> Column:
    """A value as its column holds it: blanks beyond the length of a VARCHAR go, those that a CHAR lacks come.

    One that does not fit stays as it is: it is a bad row's.
    """
    if type_.length is None:
        return value
    fitting = F.rpad(value, type_.length, " ") if type_.padded else F.substring(value, 1, type_.length)
    return F.when(_too_long(value, type_.length), value).otherwise(fitting)


def _too_long(value: Column, length: int) -> Column:
    return F.length(F.rtrim(value)) > length


def _weight(own: Mapping[str, Column]) -> Column:
    """How many copies come or go; 0 if that cannot be known."""
    if CHANGE_TYPE not in own:
        sign = F.lit(1).cast("bigint")
    else:
        kind = own[CHANGE_TYPE].cast("string")
        sign = F.when(kind.isin(*COMING), 1).when(kind.isin(*GOING), -1)
        sign = F.coalesce(sign, F.lit(0)).cast("bigint")
    if COUNT in own:
        copies = own[COUNT].cast("bigint")
        return sign * F.when(copies >= 1, copies).otherwise(0)
    return sign


def _reason(table: Table, own: Mapping[str, Column]) -> Column:
    """Why a row cannot be taken in, as far as the row alone tells; NULL if it can."""
    found = F.lit(None).cast("string")
    for column in table.columns:
        value = own[column.name.lower()]
        if not column.nullable or column.name in table.primary_key:
            found = F.when(value.isNull(), f"{column.name} is NULL and must not be").otherwise(found)
        if column.type.length is not None:
            why = (F.lit(f"{column.name} has "), F.length(value), F.lit(f" characters and is {column.type}"))
            found = F.when(_too_long(value, column.type.length), F.concat(*why)).otherwise(found)
    if CHANGE_TYPE in own:
        kind = own[CHANGE_TYPE].cast("string")
        unknown = F.concat(
            F.lit("unknown _change_type "),
            F.coalesce(kind, F.lit("NULL")),
            F.lit(": it is insert, delete, update_preimage or update_postimage"),
        )
        known = F.coalesce(kind.isin(*COMING, *GOING), F.lit(False))
        found = F.when(~known, unknown).otherwise(found)
    if COUNT in own:
        copies = own[COUNT]
        found = F.when(copies.isNull() | (copies < 1), "_count is below 1").otherwise(found)
    if CORRUPT in own:
        raw = own[CORRUPT].cast("string")
        found = F.when(raw.isNotNull(), F.concat(F.lit("it cannot be read as declared: "), raw)).otherwise(found)
    return found


def _slice(given: Slice, own: Mapping[str, Column]) -> Column:
    return F.pmod(F.xxhash64(*(_hashable(e, own) for e in given.hashed)), F.lit(given.share)).cast("int")


def _hashable(expression: Expression, own: Mapping[str, Column]) -> Column:
    """A column, integers as wide as they come, so that those of different types hash alike."""
    assert isinstance(expression.term, Var)
    found = own[expression.term.name.lower()]
    return found.cast("bigint") if expression.type.is_integer else found


def quoted(name: str) -> str:
    """A name as Spark SQL reads it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True)
class Packer:
    """Runs in Spark's workers, over a partition's Arrow batches."""

    table: Table
    ways: tuple[tuple[str, Routing, bool], ...]
    """Through the step that gets the rows, and through one to which it hands them on: as what they travel there; and
    whether they say on which ways they have come."""
    keys: tuple[int, ...]
    quarantine: bool
    skip: int | None = None
    """The number of a batch of which every row is put aside."""

    @staticmethod
    def of(
        table: Table,
        levels: Mapping[str, ShardLevel],
        keys: Sequence[int],
        *,
        quarantine: bool,
        skip: int | None = None,
    ) -> Packer:
        """What packs a table's rows for the shards of levels."""
        ways = tuple((kind, Routing.of(table, level), level.is_masked(table.name)) for kind, level in levels.items())
        return Packer(table, ways, tuple(keys), quarantine, skip)

    @property
    def given(self) -> list[Slice]:
        """The slices that come with the rows, for one level after the other."""
        return [s for _, routing, _ in self.ways for s in routing.given]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Blobs for each shard, and a sign of life to all of them."""
        partition, version = task_place()
        if partition == 0:
            yield signs_of_life(self.keys, self.table.name)
        waiting: list[pa.RecordBatch] = []
        first = 0
        for batch in batches:
            if version == self.skip:
                good, bad = batch.slice(0, 0), self._skipped(batch, version)
            else:
                good, bad = self._sorted_out(batch, f"batch {version}, partition {partition}", first)
            first += batch.num_rows
            if bad:
                yield packed_rows([(self.keys[0], BAD, self.table.name, 1, None, text) for text in bad])
            waiting.append(good)
            if sum(b.num_rows for b in waiting) >= MOST_ROWS:
                yield from self.flushed(waiting)
                waiting = []
        yield from self.flushed(waiting)

    def _sorted_out(self, batch: pa.RecordBatch, where: str, first: int) -> tuple[pa.RecordBatch, list[str]]:
        reason = batch.column(self.table.arity + 1)
        if reason.null_count == len(reason):
            return batch, []
        wrong = pc.is_valid(reason)
        rows = batch.filter(wrong)
        shown = self._shown(rows)
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
        copies = rows.column(self.table.arity).to_pylist()
        return batch.filter(pc.invert(wrong)), [
            bad_row(self.table.name, row, f"{why} ({where})", n)
            for row, why, n in zip(shown, reasons, copies, strict=True)
        ]

    def _skipped(self, batch: pa.RecordBatch, version: int) -> list[str]:
        """Every row, as one that was put aside."""
        copies, reasons = (batch.column(self.table.arity + i).to_pylist() for i in range(2))
        skipped = f"batch {version} is skipped"
        return [
            bad_row(self.table.name, row, skipped if why is None else f"{skipped}; {why}", n)
            for row, n, why in zip(self._shown(batch), copies, reasons, strict=True)
        ]

    def _shown(self, rows: pa.RecordBatch) -> list[dict[str, Any]]:
        names = [c.name for c in self.table.columns]
        values = zip(*(rows.column(i).to_pylist() for i in range(len(names))), strict=True)
        return [dict(zip(names, row, strict=True)) for row in values]

    def flushed(self, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Blobs of rows for each shard that needs them."""
        if not sum(b.num_rows for b in batches):
            return
        table = pa.Table.from_batches(batches).combine_chunks()
        schema = table_schema(self.table)
        data = [table.column(i).cast(f.type) for i, f in enumerate(schema)]
        data.append(table.column(self.table.arity))
        rows = pa.table(data, names=[*schema.names, WEIGHT])
        first = self.table.arity + 2
        given = [table.column(i).to_numpy() for i in range(first, table.num_columns)]
        named = dict(zip(schema.names, data, strict=False))
        for kind, routing, masked in self.ways:
            cells = routing.cells(named, given[: len(routing.given)], rows.num_rows)
            given = given[len(routing.given) :]
            kept = routing.kept(named)
            for shard, key in enumerate(self.keys):
                part = self._chosen(rows, routing.masks(cells, kept, shard, rows.num_rows), masked)
                if part.num_rows:
                    blob = write_blob(part, stored=True)
                    yield packed_rows([(key, kind, self.table.name, part.num_rows, blob, None)])

    def _chosen(self, rows: pa.Table, mask: npt.NDArray[np.int64], masked: bool) -> pa.Table:
        """The rows that a shard gets, with the ways on which they come."""
        chosen = rows.filter(pa.array(mask != 0)) if (mask == 0).any() else rows
        if not masked:
            return chosen
        ways = mask[mask != 0] if chosen.num_rows != rows.num_rows else mask
        return chosen.add_column(self.table.arity, MASK, pa.array(ways))


def task_place() -> tuple[int, int]:
    """The partition and the batch that a worker is at."""
    context = begin_task()
    if context is None:
        return 0, 0
    return context.partitionId(), int(context.getLocalProperty("streaming.sql.batchId") or 0)


def signs_of_life(keys: Sequence[int], name: str = "") -> pa.RecordBatch:
    """What makes every shard look whether there is something to do."""
    return packed_rows([(key, BEAT, name, 0, None, None) for key in keys])


def packed_rows(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    """Rows of what travels packed: shard, kind, name, number of rows, blob, text."""
    key, kind, name, count, blob, info = zip(*rows, strict=True)
    arrays = [
        pa.array(key, pa.int32()),
        pa.array(kind, pa.string()),
        pa.array(name, pa.string()),
        pa.repeat(pa.scalar(0, pa.int64()), len(rows)),  # Only what shards say has a version.
        pa.array(count, pa.int64()),
        pa.array(blob, pa.binary()),
        pa.array(info, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=[c.split()[0] for c in PACKED.split(", ")])
