"""Literals: their types, their values as constants of a column's type, and strings read as dates and numbers."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from math import isfinite

from sqlglot import exp

from everview.query.terms import Const, Value
from everview.query.types import BOOLEAN, DOUBLE, NULL, STRING, DataType, Kind, decimal
from everview.sql.datatypes import integer_literal, spark_name
from everview.sql.dialect import EverviewSpark
from everview.sql.sql_text import SqlText

_DATE = re.compile(r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?")
_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[ T]|$)")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_FRACTION = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_ENDLESS = re.compile(r"(?i)[+-]?inf(?:inity)?|nan")
_BOOLEANS = dict.fromkeys(("t", "true", "y", "yes", "1"), True) | dict.fromkeys(("f", "false", "n", "no", "0"), False)
_WHOLE_FLOATS = 2**24
_RANGES = {Kind.TINYINT: 7, Kind.SMALLINT: 15, Kind.INT: 31, Kind.BIGINT: 63}


def literal_type(node: exp.Expr) -> DataType | None:
    """The type of a literal node; None if it is not one."""
    if isinstance(node, exp.Boolean):
        return BOOLEAN
    if isinstance(node, exp.Null):
        return NULL
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return STRING
    text = node.name
    if text.isdigit():
        return integer_literal(text)
    if "e" in text.lower():
        return DOUBLE
    whole, _, fraction = text.partition(".")
    return decimal(len(whole.lstrip("0")) + len(fraction), len(fraction))


def is_string_literal(node: exp.Expr) -> bool:
    """True for a quoted string as it stands."""
    return isinstance(_bare(node), exp.Literal) and bool(_bare(node).is_string)


def constant(node: exp.Expr, type_: DataType) -> Const | None:
    """The constant that a literal is in a column's type; None if it is none, or the type cannot hold it exactly."""
    value = _value(node)
    return None if value is None else fit(value, type_)


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _value(node: exp.Expr) -> Value | None:
    node = _bare(node)
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Neg):
        inner = _value(node.this)
        return -inner if isinstance(inner, int | float | Decimal) and not isinstance(inner, bool) else None
    if isinstance(node, exp.Cast) and is_string_literal(node.this):
        kind = {"DATE": Kind.DATE, "TIMESTAMP": Kind.TIMESTAMP, "TIMESTAMP_NTZ": Kind.TIMESTAMP_NTZ}.get(
            node.to.sql(EverviewSpark)
        )
        return parse_string(_bare(node.this).name, DataType(kind)) if kind else None
    if isinstance(node, exp.HexString):
        try:
            return bytes.fromhex(node.name)
        except ValueError:
            return None
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return node.name
    if node.name.isdigit():
        return int(node.name)
    return float(node.name) if "e" in node.name.lower() else Decimal(node.name)


def fit(value: Value, type_: DataType) -> Const | None:
    """A value as a constant of a type; None if the type cannot hold it exactly."""
    kind = type_.kind
    if kind is Kind.ANY:
        return Const(value)
    if isinstance(value, bool):
        return Const(value) if kind is Kind.BOOLEAN else None
    if isinstance(value, str):
        return Const(value) if kind is Kind.STRING else None
    if isinstance(value, bytes):
        return Const(value) if kind is Kind.BINARY else None
    if isinstance(value, datetime):
        return Const(value) if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ) else None
    if isinstance(value, date):
        return Const(value) if kind is Kind.DATE else None
    return _fitted_number(value, type_)


def _fitted_number(value: int | float | Decimal, type_: DataType) -> Const | None:
    if type_.is_integer:
        whole = int(value)
        return Const(whole) if isinstance(value, int) and abs(whole) < 2 ** _RANGES[type_.kind] else None
    if type_.kind in (Kind.FLOAT, Kind.DOUBLE):
        exact = type_.kind is Kind.DOUBLE or (float(value).is_integer() and abs(float(value)) <= _WHOLE_FLOATS)
        return Const(float(value)) if exact else None
    if type_.kind is Kind.DECIMAL and not isinstance(value, float):
        number = Decimal(value)
        try:
            rounded = number.quantize(Decimal(1).scaleb(-type_.scale))
        except InvalidOperation:
            return None
        return Const(rounded) if rounded == number and abs(number) < 10 ** (type_.precision - type_.scale) else None
    return None


def parse_string(text: str, type_: DataType) -> Value | None:
    """A string as Spark casts it to a date, time, number or boolean; None if it is not one."""
    text = text.strip()
    try:
        if type_.kind is Kind.DATE:
            found = _DATE.fullmatch(text)
            return date(*(int(part or 1) for part in found.groups())) if found else None
        if type_.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ):
            moment = datetime.fromisoformat(text if _TIMESTAMP.match(text) else "")
            return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
        if type_.is_integer:
            return int(text) if _WHOLE.fullmatch(text) else None
        if type_.kind is Kind.DECIMAL:
            return Decimal(text) if _FRACTION.fullmatch(text) else None
        if type_.kind in (Kind.FLOAT, Kind.DOUBLE):
            return float(text) if _FRACTION.fullmatch(text) or _ENDLESS.fullmatch(text) else None
        if type_.kind is Kind.BOOLEAN:
            return _BOOLEANS.get(text.lower())
    except (ValueError, InvalidOperation):
        return None
    return None


def coerce(node: exp.Expr, type_: DataType, source: SqlText) -> exp.Expr:
    """Put a string literal into the type of what it is compared with, in the tree; raises if it does not parse."""
    literal = _bare(node)
    value = parse_string(literal.name, type_)
    if value is None:
        what = {Kind.DATE: "a date", Kind.TIMESTAMP: "a timestamp", Kind.TIMESTAMP_NTZ: "a timestamp"}.get(
            type_.kind, f"of type {type_}"
        )
        form = {Kind.DATE: "YYYY-MM-DD", Kind.TIMESTAMP: "YYYY-MM-DD HH:MM:SS"}.get(type_.kind)
        hint = f"write it as '{form}'" if form else "compare values of one type, or CAST one of them"
        raise source.mismatch(f"'{literal.name}' is not {what}", literal, hint=hint)
    new: exp.Expr
    if isinstance(value, bool):
        new = exp.Boolean(this=value)
    elif isinstance(value, float) and not isfinite(value):
        new = exp.cast(exp.Literal.string(str(value)), exp.DataType.build("DOUBLE", dialect=EverviewSpark))
    elif isinstance(value, int | float | Decimal):
        shown = f"{abs(value):f}" if isinstance(value, Decimal) else str(abs(value))
        new = exp.Literal.number(shown) if value >= 0 else exp.Neg(this=exp.Literal.number(shown))
    else:
        shown = value.isoformat(sep=" ") if isinstance(value, datetime) else value.isoformat()  # type: ignore[union-attr]
        inner = exp.Literal.string(shown)
        inner.meta.update(literal.meta)
        new = exp.cast(inner, exp.DataType.build(spark_name(type_), dialect=EverviewSpark))
    new.meta.update(literal.meta)
    node.replace(new)
    return new


def literal_value_type(value: Value) -> DataType:
    """The type of a constant that no column gives a type."""
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, int):
        return integer_literal(str(abs(value)))
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        scale = -exponent if isinstance(exponent, int) and exponent < 0 else 0
        return decimal(max(len(value.as_tuple().digits), scale), scale)
    if isinstance(value, float):
        return DOUBLE
    if isinstance(value, datetime):
        return DataType(Kind.TIMESTAMP)
    if isinstance(value, date):
        return DataType(Kind.DATE)
    return DataType(Kind.BINARY) if isinstance(value, bytes) else STRING
