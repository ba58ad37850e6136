"""Spark's types and Everview's, one to one, and a DataFrame's schema as a table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from pyspark.sql import types as spark

from everview.errors import SchemaError
from everview.query.schema import Column, Schema, Table
from everview.query.types import (
    ANY,
    DAY_TIME_UNITS,
    DataType,
    Kind,
    array_of,
    char,
    day_time,
    map_of,
    struct_of,
    varchar,
)
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
DECLARED: Final = "__CHAR_VARCHAR_TYPE_STRING"
"""Where Spark keeps what a text was declared as, if that was CHAR or VARCHAR; Delta, too."""
_SIZED: Final = re.compile(r"(char|varchar)\((\d+)\)")
_KINDS: Final = {type(s): k for k, s in _SPARK.items()}


def spark_type(type_: DataType) -> spark.DataType:
    """The Spark type of a column."""
    if type_.kind is Kind.DECIMAL:
        return spark.DecimalType(type_.precision, type_.scale)
    if type_.kind is Kind.NULL:
        return spark.NullType()
    if type_.kind is Kind.DAY_TIME:
        return spark.DayTimeIntervalType(*(DAY_TIME_UNITS.index(unit) for unit in type_.names))
    if type_.kind is Kind.ARRAY:
        return spark.ArrayType(spark_type(type_.element))
    if type_.kind is Kind.STRUCT:
        fields = zip(type_.names, type_.parts, strict=True)
        return spark.StructType([spark.StructField(name, spark_type(part)) for name, part in fields])
    if type_.kind is Kind.MAP:
        return spark.MapType(spark_type(type_.parts[0]), spark_type(type_.parts[1]))
    return _SPARK[type_.kind]


def data_type(type_: spark.DataType, metadata: Mapping[str, Any] | None = None) -> DataType | None:
    """The type of a Spark column; None if there is none: intervals of months, times, and texts with a collation, which
    are equal where their bytes are not; and what is made of these.

    CHAR and VARCHAR are texts to Spark, which keeps in the column's metadata what it was declared as.
    """
    if isinstance(type_, spark.CharType | spark.VarcharType):
        return sized(type_.simpleString())
    if isinstance(type_, spark.DecimalType):
        return DataType(Kind.DECIMAL, type_.precision, type_.scale) if 0 <= type_.scale <= type_.precision else None
    if isinstance(type_, spark.DayTimeIntervalType):
        return day_time(DAY_TIME_UNITS[type_.startField], DAY_TIME_UNITS[type_.endField])
    if isinstance(type_, spark.StringType) and not is_binary(type_.collation):
        return None
    if isinstance(type_, spark.ArrayType | spark.MapType | spark.StructType):
        return _nested(type_)
    kind = _KINDS.get(type(type_))
    if kind is Kind.STRING and metadata and DECLARED in metadata:
        return sized(str(metadata[DECLARED]))
    return None if kind is None else DataType(kind)


def _nested(type_: spark.ArrayType | spark.MapType | spark.StructType) -> DataType | None:
    """The type of arrays, maps and structs, whose parts may all be NULL here; texts in them have no length."""
    if isinstance(type_, spark.ArrayType):
        parts = [data_type(type_.elementType)]
    elif isinstance(type_, spark.MapType):
        parts = [data_type(type_.keyType), data_type(type_.valueType)]
    else:
        parts = [data_type(field.dataType) for field in type_.fields]
    known = [part for part in parts if part is not None]
    names = [field.name for field in type_.fields] if isinstance(type_, spark.StructType) else []
    if len(known) < len(parts) or not known or len({name.lower() for name in names}) < len(names):
        return None
    if isinstance(type_, spark.ArrayType):
        return array_of(*known)
    return map_of(*known) if isinstance(type_, spark.MapType) else struct_of(zip(names, known, strict=True))


def sized(written: str) -> DataType | None:
    """A ``char(5)`` or ``varchar(5)``, as Spark writes it."""
    found = _SIZED.fullmatch(written.strip().lower())
    return None if found is None else char(int(found[2])) if found[1] == "char" else varchar(int(found[2]))


def is_binary(collation: str) -> bool:
    """Whether texts of a collation are equal, and ordered, as their bytes are; that is how views compare them."""
    return collation.upper() == "UTF8_BINARY"


def closed(column: str, table: str, type_: str) -> str:
    """Why no view can read a column of a type that has no equal here."""
    written = type_.upper() if type_.lower().startswith("string collate") else type_
    why = "and a view compares texts byte by byte" if written != type_ else "which a view cannot hold"
    return f"column {column} of {table} is {written}, {why}"


def column_of(field: spark.StructField, table: str) -> Column:
    """A DataFrame's column as a table's: open to views if its type is one that they can hold."""
    type_ = data_type(field.dataType, field.metadata)
    if type_ is None:
        return Column(field.name, ANY, field.nullable, closed(field.name, table, field.dataType.simpleString()))
    return Column(field.name, type_, field.nullable)


def tables_of(frames: dict[str, spark.StructType], declared: str | Schema | None) -> Schema:
    """DataFrames' schemas as tables; columns that no view can read because of their types are closed.

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
    tables = []
    for name, struct in frames.items():
        columns = [column_of(f, name) for f in struct.fields if f.name.lower() not in FEED_COLUMNS]
        declared_table = given.table(name)
        if declared_table is not None:
            tables.append(_agreeing(declared_table, Table(name, tuple(columns))))
        else:
            if all(c.closed for c in columns):
                why = f": {columns[0].closed}" if columns else ""
                raise SchemaError(f"the DataFrame for table {name} has no column that a view can read{why}")
            tables.append(Table(name, tuple(columns)))
    schema = Schema(tuple(tables))
    schema.check_references()
    return schema


def _declared_type(column: Column, have: Column, table: str) -> DataType:
    """The column's type; the length of a text is the DataFrame's, or the declared one if that has none."""
    if have.type.length is None or str(column.type) == str(have.type):
        return column.type
    if column.type.length is None:
        return have.type
    raise SchemaError(
        f"the schema declares {table}.{column.name} as {column.type}, and the DataFrame has {have.type}",
        hint="declare the type that it has, or leave its length out",
    )


def _agreeing(declared: Table, found: Table) -> Table:
    """The declared table, if the DataFrame has its columns."""
    there = {c.name.lower(): c for c in found.columns}
    columns = []
    for column in declared.columns:
        if column.closed:
            columns.append(column)
            continue
        have = there.get(column.name.lower())
        if have is None:
            raise SchemaError(
                f"the schema declares column {column.name} of table {found.name}, and the DataFrame has none",
                hint=f"the DataFrame has {', '.join(c.name for c in found.columns)}",
            )
        if have.closed and column.name.lower() in {k.lower() for k in declared.primary_key}:
            raise SchemaError(f"the primary key cannot be kept: {have.closed}", hint="CAST it in the DataFrame")
        if have.type != column.type and not have.closed:
            raise SchemaError(
                f"the schema declares {found.name}.{column.name} as {column.type}, and the DataFrame has {have.type}",
                hint="cast the DataFrame's column, or declare its type",
            )
        columns.append(replace(column, type=_declared_type(column, have, found.name), closed=have.closed))
    return replace(declared, name=found.name, columns=tuple(columns))
