"""Casts, written as CAST and as functions named after types: Spark cuts fractions, and reads text strictly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from everview.query.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    DataType,
    Kind,
    decimal,
)
from everview.sql.functions import intervals
from everview.sql.functions.entry import Call, Function, function
from everview.sql.nodes import call, cast

_READERS: Final = {
    Kind.DECIMAL: "spark_read_decimal",
    Kind.FLOAT: "spark_read_double",
    Kind.DOUBLE: "spark_read_double",
    Kind.BOOLEAN: "spark_read_boolean",
    Kind.DATE: "spark_read_date",
    Kind.TIMESTAMP: "spark_read_timestamp",
    Kind.TIMESTAMP_NTZ: "spark_read_timestamp",
}


def converted(inner: exp.Expr, have: DataType | None, want: DataType, node: exp.Expr) -> exp.Expr:
    """A cast: Spark cuts fractions off, counts seconds, writes times without their zone, and reads text strictly."""
    if have is None:
        return node
    if have.is_nested and have.kind is want.kind and have != want:
        return _converted_parts(inner, have, want, node)
    if Kind.DAY_TIME in (have.kind, want.kind) and not have.is_open:
        if want.kind is Kind.STRING:
            return intervals.written(inner, have)
        found = intervals.converted(inner, have, want, tried=bool(node.args.get("safe")))
        return found if want.kind is Kind.DAY_TIME else cast(found, want)
    if want.is_integer and have.kind in (Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE):
        inner = call("spark_cut", inner)
    elif want.is_integer and have.kind is Kind.TIMESTAMP:
        inner = call("spark_unix_seconds", inner)
    elif want.kind is Kind.TIMESTAMP and have.is_integer:
        return call("spark_timestamp_seconds", cast(inner, BIGINT))
    elif want.kind is Kind.STRING:
        return _written(inner, have, node)
    elif want.kind is Kind.BINARY and have.kind is Kind.STRING:
        return call("spark_bytes", inner)
    elif have.kind is Kind.STRING and (want.is_integer or want.kind in _READERS):
        tried = exp.Boolean(this=bool(node.args.get("safe")))
        inner = call(_READERS.get(want.kind, "spark_read_whole"), inner, tried)
    else:
        return node
    return type(node)(this=inner.copy(), to=node.args["to"].copy(), safe=node.args.get("safe"))


def _converted_parts(inner: exp.Expr, have: DataType, want: DataType, node: exp.Expr) -> exp.Expr:
    """A nested value whose parts are converted one by one, each as a value by itself would be."""
    name = f"_c{max(_depth(t) for t in (have, want))}"
    part = exp.column(name)

    def part_of(value: exp.Expr, at: int) -> exp.Expr:
        if have.parts[at] == want.parts[at]:
            return value
        as_written = type(node)(this=value, to=cast(value, want.parts[at]).args["to"], safe=node.args.get("safe"))
        return converted(value, have.parts[at], want.parts[at], as_written)

    def fields(names: Sequence[str]) -> exp.Expr:
        found: list[exp.Expr] = []
        for at, (old, new) in enumerate(zip(names, want.names or names, strict=True)):
            value = call("struct_extract", part, exp.Literal.string(old))
            found += [exp.Literal.string(new), part_of(value, at)]
        return call("named_struct", *found)

    if have.kind is Kind.ARRAY:
        return call("list_transform", inner, exp.Lambda(this=part_of(part, 0), expressions=[exp.to_identifier(name)]))
    if have.kind is Kind.MAP:
        over = exp.Lambda(this=fields(("key", "value")), expressions=[exp.to_identifier(name)])
        return call("map_from_entries", call("list_transform", call("map_entries", inner), over))
    over = exp.Lambda(this=fields(have.names), expressions=[exp.to_identifier(name)])
    made = call("list_extract", call("list_transform", call("list_value", inner), over), exp.Literal.number(1))
    return exp.Case(ifs=[exp.If(this=exp.Not(this=exp.Is(this=inner.copy(), expression=exp.Null())), true=made)])


def _depth(type_: DataType) -> int:
    return 1 + max((_depth(p) for p in type_.parts), default=0)


def text_of(node: exp.Expr, type_: DataType | None) -> exp.Expr:
    """An argument of a concatenation."""
    return node if type_ is None else _written(node, type_, node)


def bytes_of(node: exp.Expr, type_: DataType) -> exp.Expr:
    """The bytes of a text or of binary data."""
    return call("spark_bytes", node) if type_.kind is Kind.STRING else node


def _written(inner: exp.Expr, have: DataType, otherwise: exp.Expr) -> exp.Expr:
    if have.kind is Kind.DAY_TIME:
        return intervals.written(inner, have)
    if have.kind is Kind.TIMESTAMP:
        return cast(cast(inner, DataType(Kind.TIMESTAMP_NTZ)), STRING)
    if have.kind in (Kind.FLOAT, Kind.DOUBLE):
        return call("spark_fraction", inner)
    return call("spark_text", inner) if have.kind is Kind.BINARY else otherwise


def _conversion(of: Call) -> exp.Expr:
    (value,) = of.arguments
    return converted(value, of.first_type, of.type, cast(value, of.type))


def _named_after(type_: DataType, *examples: str) -> Function:
    return function(type_.kind.value.lower(), "x", type_, *examples, spelling=_conversion)


DECIMAL: Final = decimal(10, 0)
FUNCTIONS: Final = (
    _named_after(BOOLEAN, "boolean(i)", "boolean(n)"),
    _named_after(DataType(Kind.TINYINT), "tinyint(n)"),
    _named_after(DataType(Kind.SMALLINT), "smallint(z)"),
    _named_after(INT, "int(p)", "int(b)"),
    _named_after(BIGINT, "bigint(x)", "bigint(ts)"),
    _named_after(DataType(Kind.FLOAT), "float(z)"),
    _named_after(DOUBLE, "double(i)", "double(p)"),
    _named_after(DECIMAL, "decimal(i)", "decimal(z)"),
    _named_after(STRING, "string(i)", "string(p)", "string(x)", "string(b)", "string(d)", "string(ts)"),
    _named_after(BINARY, "binary(s)"),
    _named_after(DATE, "date(ts)", "date('2024-02-03')"),
    _named_after(TIMESTAMP, "timestamp(d)", "timestamp(i)"),
)
