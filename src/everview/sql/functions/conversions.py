"""Casts, written as CAST and as functions named after types: Spark cuts fractions, and reads text strictly."""

from __future__ import annotations

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
)
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
    if want.is_integer and have.kind in (Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE):
        inner = call("spark_cut", inner)
    elif want.is_integer and have.kind is Kind.TIMESTAMP:
        inner = call("spark_unix_seconds", inner)
    elif want.kind is Kind.TIMESTAMP and have.is_integer:
        return call("spark_timestamp_seconds", inner)
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


def text_of(node: exp.Expr, type_: DataType | None) -> exp.Expr:
    """An argument of a concatenation."""
    return node if type_ is None else _written(node, type_, node)


def bytes_of(node: exp.Expr, type_: DataType) -> exp.Expr:
    """The bytes of a text or of binary data."""
    return call("spark_bytes", node) if type_.kind is Kind.STRING else node


def _written(inner: exp.Expr, have: DataType, otherwise: exp.Expr) -> exp.Expr:
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


FUNCTIONS: Final = (
    _named_after(BOOLEAN, "boolean(i)", "boolean(n)"),
    _named_after(DataType(Kind.TINYINT), "tinyint(n)"),
    _named_after(DataType(Kind.SMALLINT), "smallint(z)"),
    _named_after(INT, "int(p)", "int(b)"),
    _named_after(BIGINT, "bigint(x)", "bigint(ts)"),
    _named_after(DataType(Kind.FLOAT), "float(z)"),
    _named_after(DOUBLE, "double(i)", "double(p)"),
    _named_after(STRING, "string(i)", "string(p)", "string(x)", "string(b)", "string(d)", "string(ts)"),
    _named_after(BINARY, "binary(s)"),
    _named_after(DATE, "date(ts)", "date('2024-02-03')"),
    _named_after(TIMESTAMP, "timestamp(d)"),
)
