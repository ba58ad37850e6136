"""Spark's types and Everview's, one to one, and a DataFrame's schema as a table."""

from __future__ import annotations

from typing import Final

from pyspark.sql import types as spark

from everview.errors import SchemaError
from everview.query.schema import Column, Schema, Table
from everview.query.types import DataType, Kind
from everview.sql import parse_schema

CHANGE_TYPE: Final = "_change_type"
COUNT: Final = "_count"
VERSION: Final = "_commit_version"
CORRUPT: Final = "_corrupt_record"
"""Where Spark's readers of text (CSV, JSON, XML) put what they could not read as declared; such a row is a bad one."""
FEED_COLUMNS: Final = (CHANGE_TYPE, COUNT, VERSION, "_commit_timestamp", "_update", CORRUPT)
"""What feeds, Delta's too, and readers say about a row; a table has no columns of these names."""

_SPARK: Final[dict[Kind, spark.DataType]] = {
    Kind.BOOLEAN: spark.BooleanType(),
    Kind.TINYINT: spark.ByteType(),
    Kind.SMALLINT: spark.ShortType(),
    Kind.INT: spark.IntegerType(),
    Kind.BIGINT: spark.LongType(),
    Kind.FLOAT: spark.FloatType(),
    Kind.DOUBLE: spark.DoubleType(),
    Kind.STRING: spark.StringType(),
    Kind.BINARY: spark.BinaryType(),
    Kind.DATE: spark.DateType(),
    Kind.TIMESTAMP: spark.TimestampType(),
    Kind.TIMESTAMP_NTZ: spark.TimestampNTZType(),
}
_KINDS: Final = {type(s): k for k, s in _SPARK.items()}


def spark_type(type_: DataType) -> spark.DataType:
    """The Spark type of a column."""
    if type_.kind is Kind.DECIMAL:
        return spark.DecimalType(type_.precision, type_.scale)
    if type_.kind is Kind.NULL:
        return spark.NullType()
    return _SPARK[type_.kind]


def data_type(type_: spark.DataType) -> DataType | None:
    """The type of a Spark column; None if there is none (arrays, maps, structs, intervals)."""
    if isinstance(type_, spark.DecimalType):
        return DataType(Kind.DECIMAL, type_.precision, type_.scale)
    kind = _KINDS.get(type(type_))
    return None if kind is None else DataType(kind)


def tables_of(
    frames: dict[str, spark.StructType], declared: str | Schema | None
) -> tuple[Schema, dict[str, list[str]]]:
    """DataFrames' schemas as tables, and for each the columns that no view can read because of their types.

    ``declared`` are CREATE TABLE statements for some of them, with what a DataFrame cannot say: keys, NOT NULL, small
    domains. Their columns must be the DataFrame's.
    """
    given = parse_schema(declared) if isinstance(declared, str) else declared or Schema()
    unknown = [t.name for t in given if t.name.lower() not in {n.lower() for n in frames}]
    if unknown:
        raise SchemaError(
            f"the schema declares table {unknown[0]}, for which there is no DataFrame",
            hint=f"the DataFrames are: {', '.join(frames)}",
        )
    tables, closed = [], {}
    for name, struct in frames.items():
        own = [f for f in struct.fields if f.name.lower() not in FEED_COLUMNS]
        closed[name] = [f"{f.name} ({f.dataType.simpleString()})" for f in own if data_type(f.dataType) is None]
        columns = [Column(f.name, t, f.nullable) for f in own if (t := data_type(f.dataType)) is not None]
        declared_table = given.table(name)
        if declared_table is not None:
            tables.append(_agreeing(declared_table, Table(name, tuple(columns))))
        else:
            if not columns:
                raise SchemaError(f"the DataFrame for table {name} has no column that a view can read")
            tables.append(Table(name, tuple(columns)))
    schema = Schema(tuple(tables))
    schema.check_references()
    return schema, closed


def _agreeing(declared: Table, found: Table) -> Table:
    """The declared table, if the DataFrame has its columns."""
    types = {c.name.lower(): c.type for c in found.columns}
    for column in declared.columns:
        have = types.get(column.name.lower())
        if have is None:
            raise SchemaError(
                f"the schema declares column {column.name} of table {found.name}, and the DataFrame has none",
                hint=f"the DataFrame has {', '.join(c.name for c in found.columns)}",
            )
        if have != column.type:
            raise SchemaError(
                f"the schema declares {found.name}.{column.name} as {column.type}, and the DataFrame has {have}",
                hint="cast the DataFrame's column, or declare its type",
            )
    return Table(found.name, declared.columns, declared.primary_key, declared.foreign_keys, declared.small_domains)
