"""From a pipeline's sources and tables to DataFrames."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from everview.errors import PipelineError
from everview.query.schema import Table
from everview.redaction import scrubbed
from everview.spark.pipeline.model import DELTA, FILES, TEXTS, Pipeline, Source, TableSpec
from everview.spark.sources import delta
from everview.spark.types import CHANGE_TYPE, CORRUPT, COUNT, data_type, spark_type


def tables(spark: SparkSession, pipeline: Pipeline) -> tuple[dict[str, DataFrame], dict[str, DataFrame]]:
    """The DataFrame of every table, and of the rows that some begin with."""
    frames, initial = {}, {}
    for name, spec in pipeline.tables.items():
        source = pipeline.sources[spec.source]
        frames[name] = table(read(spark, source), spec, changes=source.streaming)
        if spec.initial is not None:
            initial[name] = table(read(spark, pipeline.sources[spec.initial]), spec, changes=False)
    return frames, initial


def read(spark: SparkSession, source: Source) -> DataFrame:
    """A source's rows: a stream, or read once."""
    reader = spark.readStream if source.streaming else spark.read
    format_, options, struct = source.format, dict(source.options), _struct(source.table)
    if format_ == DELTA:
        if "io.delta" in (spark.conf.get("spark.sql.extensions", "") or ""):
            options |= {"readChangeFeed": "true"} if source.streaming else {}
        else:
            spark.dataSource.register(delta.DeltaChanges)
            format_, options = delta.NAME, options | {"path": source.path or ""}
    if source.format in TEXTS and not {o.lower() for o in options} & {"mode", "columnnameofcorruptrecord"}:
        # Else Spark makes NULLs of what it cannot read, and nobody hears of it.
        options |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
        if not any(f.name.lower() == CORRUPT for f in struct.fields):
            struct = struct.add(CORRUPT, StringType())
    if source.format in FILES or format_ == delta.NAME:
        reader = reader.schema(struct)
    reader = reader.format(format_).options(**options)
    try:
        frame = reader.load() if source.path is None or format_ == delta.NAME else reader.load(source.path)
    except Exception as error:
        raise PipelineError(f"source {source.name} cannot be read: {_first_line(error)}") from scrubbed(error)
    _check(frame, source)
    return frame


def table(frame: DataFrame, spec: TableSpec, *, changes: bool) -> DataFrame:
    """A source's rows with the table's columns, and what happened to them under the name that ``maintain`` knows."""
    columns: list[Column] = []
    open_ = [taken for taken in spec.columns if not taken.column.closed]
    for taken in open_:
        column = F.expr(taken.origin) if taken.is_expression else F.col(_quoted(taken.origin))
        columns.append(column.alias(taken.column.name))
    if spec.change_type is not None and changes:
        columns.append(_change(F.col(_quoted(spec.change_type.column)), spec.change_type.meaning).alias(CHANGE_TYPE))
    columns += [F.col(name) for name in (COUNT, CORRUPT) if any(c.lower() == name for c in frame.columns)]
    try:
        found = frame.select(*columns)
    except Exception as error:
        raise PipelineError(f"table {spec.table.name} cannot be read: {_first_line(error)}") from scrubbed(error)
    for taken in open_:
        have = data_type(found.schema[taken.column.name].dataType)
        if have != taken.column.type:
            raise PipelineError(
                f"column {taken.column.name} of table {spec.table.name} is declared as {taken.column.type}, and its "
                f"expression gives {have or found.schema[taken.column.name].dataType.simpleString()}",
                hint=f"write CAST({taken.origin} AS {taken.column.type}), or declare what it gives",
            )
    return found


def _change(kind: Column, meaning: Mapping[str, str]) -> Column:
    """What happened to a row; values without a meaning of their own stay as they are."""
    text = kind.cast("string")
    found = text
    for value, change in meaning.items():
        found = F.when(text == value, change).otherwise(found)
    return found


def _struct(table: Table) -> StructType:
    return StructType([StructField(c.name, spark_type(c.type)) for c in table.columns if not c.closed])


def _check(frame: DataFrame, source: Source) -> None:
    """What a format says of itself must be what the file declares."""
    there = {f.name.lower(): f.dataType for f in frame.schema.fields}
    for column in source.table.columns:
        if column.closed:
            continue
        type_ = there.get(column.name.lower())
        if type_ is None:
            raise PipelineError(
                f"source {source.name} declares column {column.name}, and Spark finds none in it",
                hint=f"it has {', '.join(frame.columns)}",
            )
        if data_type(type_) != column.type:
            raise PipelineError(
                f"source {source.name} declares {column.name} as {column.type}, and Spark says {type_.simpleString()}",
                hint="declare the type that it has; a table's column can be an expression over it",
            )


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
