"""Unpack: from blobs and spill files of changes to the change feed's rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from everview.engine.values.words import arrow_type
from everview.errors import PipelineError
from everview.query.view import Output, View
from everview.spark.exchange.arrow_blob import read_blob
from everview.spark.shard.operator import BAD, CHANGES
from everview.spark.shard.output.spill_file import SpillFile
from everview.spark.types import CHANGE_TYPE, COUNT, VERSION, spark_type
from everview.spark.worker import begin_task

VIEW = "_view"
QUARANTINED = "_quarantined"
QUARANTINE = "quarantine"


def feed_of(packed: DataFrame, views: Sequence[View], *, single: bool, quarantine: bool) -> DataFrame:
    """The change feed of one view, or of several, each in a struct column of its name."""
    wanted = [CHANGES, BAD] if quarantine else [CHANGES]
    unpack = Unpacker(tuple(views), single, quarantine)
    return packed.where(F.col("kind").isin(wanted)).mapInArrow(unpack, feed_schema(views, single, quarantine))


def feed_schema(views: Sequence[View], single: bool, quarantine: bool) -> StructType:
    """The columns of the feed.

    What is never NULL is said to be so: looking for NULLs was half of what Spark spent on reading a row. Rows that are
    put aside have no values, and Spark wants all fields of structs nullable, as Arrow has them.
    """
    fields: list[StructField] = []
    if single:
        fields += [StructField(c.name, spark_type(c.type), c.nullable or quarantine) for c in views[0].columns]
    else:
        fields.append(StructField(VIEW, StringType(), quarantine))
        for view in views:
            own = [StructField(c.name, spark_type(c.type)) for c in view.columns]
            fields.append(StructField(view.name, StructType(own)))
    fields.append(StructField(CHANGE_TYPE, StringType(), nullable=False))
    fields += [StructField(name, LongType(), nullable=False) for name in (VERSION, COUNT)]
    if quarantine:
        fields.append(StructField(QUARANTINED, StringType()))
    return StructType(fields)


@dataclass(frozen=True)
class Unpacker:
    """Runs in Spark's workers."""

    views: tuple[View, ...]
    single: bool
    quarantine: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of every blob and spill file."""
        begin_task()
        for batch in batches:
            for kind, name, version, blob, info in zip(
                *(batch.column(c).to_pylist() for c in ("kind", "name", "version", "blob", "info")), strict=True
            ):
                if kind == CHANGES:
                    for part in SpillFile.of(info).opened() if blob is None else read_blob(blob).to_batches():
                        yield self._changes(part, name, version)
                else:
                    yield self.told(QUARANTINE if kind == BAD else kind, info, version)

    def _changes(self, part: pa.RecordBatch, name: str, version: int) -> pa.RecordBatch:
        size = part.num_rows
        width = part.schema.get_field_index(CHANGE_TYPE)
        arrays: list[pa.Array] = []
        names: list[str] = []
        own = [(c.name, _complete(part.column(i), c)) for i, c in enumerate(self._view(name).columns)]
        if self.single:
            arrays, names = [a for _, a in own], [n for n, _ in own]
        else:
            arrays.append(pa.repeat(pa.scalar(name, pa.string()), size))
            names.append(VIEW)
            for view in self.views:
                struct = pa.struct([pa.field(c.name, arrow_type(c.type)) for c in view.columns])
                here = view.name == name
                arrays.append(
                    pa.StructArray.from_arrays([a for _, a in own], fields=list(struct))
                    if here
                    else pa.nulls(size, struct)
                )
                names.append(view.name)
        arrays += [part.column(width), _repeated(version, size), part.column(COUNT)]
        names += [CHANGE_TYPE, VERSION, COUNT]
        if self.quarantine:
            arrays.append(pa.nulls(size, pa.string()))
            names.append(QUARANTINED)
        return pa.RecordBatch.from_arrays(arrays, names=names)

    def told(self, kind: str, info: str, version: int) -> pa.RecordBatch:
        """What is no change of a view, such as a row that was put aside."""
        arrays: list[pa.Array] = []
        names: list[str] = []
        if self.single:
            for c in self.views[0].columns:
                arrays.append(pa.nulls(1, arrow_type(c.type)))
                names.append(c.name)
        else:
            arrays.append(pa.nulls(1, pa.string()))
            names.append(VIEW)
            for view in self.views:
                arrays.append(pa.nulls(1, pa.struct([pa.field(c.name, arrow_type(c.type)) for c in view.columns])))
                names.append(view.name)
        arrays += [pa.array([kind]), _repeated(version, 1), pa.array([1], pa.int64()), pa.array([info])]
        return pa.RecordBatch.from_arrays(arrays, names=[*names, CHANGE_TYPE, VERSION, COUNT, QUARANTINED])

    def _view(self, name: str) -> View:
        return next(v for v in self.views if v.name == name)


def _complete(values: pa.Array, column: Output) -> pa.Array:
    """A column's values; Spark would take a NULL for 0 where it was told that there is none."""
    if values.null_count and not column.nullable:
        raise PipelineError(
            f"column {column.name} of a view has a NULL, and its query says that it never has",
            hint="this is a fault of Everview's; please report the query",
        )
    return values


def _repeated(word: int, length: int) -> pa.Array:
    return pa.repeat(pa.scalar(word, pa.int64()), length)
