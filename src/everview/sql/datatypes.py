"""Types in SQL text: reading them, and the result types of arithmetic as Spark computes them."""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp
from sqlglot.expressions import DType

from everview.errors import EverviewError, Position
from everview.query.types import (
    DAY_TIME,
    DAY_TIME_UNITS,
    DOUBLE,
    INT,
    INTERVAL,
    MOST_DIGITS,
    STRING,
    DataType,
    Kind,
    adjusted,
    array_of,
    as_decimal,
    char,
    common_type,
    day_time,
    decimal,
    map_of,
    struct_of,
    varchar,
)
from everview.sql.dialect import WRITTEN
from everview.sql.sql_text import SqlText

_KINDS = {
    DType.BOOLEAN: Kind.BOOLEAN,
    DType.TINYINT: Kind.TINYINT,
    DType.SMALLINT: Kind.SMALLINT,
    DType.INT: Kind.INT,
    DType.BIGINT: Kind.BIGINT,
    DType.FLOAT: Kind.FLOAT,
    DType.DOUBLE: Kind.DOUBLE,
    DType.DECIMAL: Kind.DECIMAL,
    DType.TEXT: Kind.STRING,
    DType.VARCHAR: Kind.STRING,
    DType.CHAR: Kind.STRING,
    DType.BINARY: Kind.BINARY,
    DType.DATE: Kind.DATE,
    DType.TIMESTAMP: Kind.TIMESTAMP,
    DType.TIMESTAMPTZ: Kind.TIMESTAMP,
    DType.TIMESTAMPLTZ: Kind.TIMESTAMP,
    DType.TIMESTAMPNTZ: Kind.TIMESTAMP_NTZ,
    DType.INTERVAL: Kind.INTERVAL,
    DType.NULL: Kind.NULL,
}

_SIZES: Final = {DType.DECIMAL: 2, DType.VARCHAR: 1, DType.CHAR: 1}
"""How many sizes may stand after a type's name."""
_WORDS: Final = frozenset(
    "BOOLEAN BOOL TINYINT BYTE SMALLINT SHORT INT INTEGER BIGINT LONG FLOAT REAL DOUBLE DECIMAL DEC NUMERIC STRING "
    "TEXT VARCHAR CHAR CHARACTER BINARY DATE TIMESTAMP TIMESTAMP_NTZ TIMESTAMP_LTZ INTERVAL VOID NULL "
    "L S Y D F BD".split()
)
"""Spark's names of types and letters after numbers, and two names more that cannot mean anything else."""
BINARY_COLLATION: Final = "UTF8_BINARY"


def read_type(node: exp.Expr, source: SqlText, where: exp.Expr | None = None) -> DataType:
    """The type that a type name means; those that Spark does not have are refused, at ``where`` if given.

    What stands after the name counts: a collation but the binary one, and a size where Spark has none, are refused.
    """
    if isinstance(node, exp.DataType) and node.args.get("nested"):
        return _read_nested(node, source, where)
    if isinstance(node, exp.DataType) and isinstance(node.this, exp.Interval):
        return _read_interval(node, source, where)
    kind = _KINDS.get(node.this) if isinstance(node, exp.DataType) else None
    written = str(node.meta.get(WRITTEN, ""))
    if isinstance(node, exp.DataType) and node.this is DType.USERDEFINED:
        name = written.partition(" ")[0]
        raise _refused(source, node, where, name, f"there is no type {name}")
    if kind is None or not _is_spark(written):
        name = node.this.value if isinstance(node, exp.DataType) and isinstance(node.this, DType) else node.sql()
        if isinstance(node, exp.DataType) and node.this is DType.UNKNOWN:
            name = node.sql()
        raise _refused(source, node, where, written.partition(" (")[0] if kind is not None and written else name)
    refuse_collation(node.args.get("collate"), source, node)
    if written.startswith("TIMESTAMP WITHOUT"):
        node.set("this", DType.TIMESTAMPNTZ)
        return DataType(Kind.TIMESTAMP_NTZ)
    sizes = [int(size.name) for size in node.expressions if size.name.isdigit()]
    if len(sizes) != len(node.expressions) or len(sizes) > _SIZES.get(node.this, 0):
        raise _refused(source, node, where, _joined(written) or kind.value)
    if node.this in (DType.VARCHAR, DType.CHAR):
        name = "CHAR" if node.this is DType.CHAR else "VARCHAR"
        if not sizes:
            raise source.mismatch(
                f"{name} needs a length", where or _place(source, node, name), hint=f"write {name}(10), or STRING"
            )
        return char(sizes[0]) if node.this is DType.CHAR else varchar(sizes[0])
    if kind is not Kind.DECIMAL:
        return DataType(kind)
    precision, scale = (sizes + [10, 0][len(sizes) :])[:2]
    if not 1 <= precision <= MOST_DIGITS or scale > precision:
        raise source.mismatch(
            f"DECIMAL({precision}, {scale}) is not a type", node, hint="1 ≤ precision ≤ 38 and 0 ≤ scale ≤ precision"
        )
    return decimal(precision, scale)


def _read_interval(node: exp.DataType, source: SqlText, where: exp.Expr | None) -> DataType:
    """INTERVAL DAY TO SECOND and the like."""
    unit = node.this.args.get("unit")
    ends = (unit.this, unit.expression) if isinstance(unit, exp.IntervalSpan) else (unit, unit)
    first, last = (str(end.name).upper() if end is not None else "" for end in ends)
    known = [DAY_TIME_UNITS.index(name) for name in (first, last) if name in DAY_TIME_UNITS]
    if len(known) < 2 or known != sorted(known):
        name = f"INTERVAL {first}" if first == last else f"INTERVAL {first} TO {last}"
        raise source.unsupported(
            f"{name} type",
            where or _place(source, node, "INTERVAL"),
            message=f"columns of type {name} are not supported",
            hint="use INTERVAL DAY TO SECOND, or a part of it; a number of months is an INT",
        )
    return day_time(first, last)


def _read_nested(node: exp.DataType, source: SqlText, where: exp.Expr | None) -> DataType:
    """ARRAY<T>, MAP<K, V> or STRUCT<name: T, …>."""
    parts = list(node.expressions)
    place = where or _place(source, node, str(node.this.value) if isinstance(node.this, DType) else "")
    if node.this is DType.STRUCT:
        fields = [(f.name, f.args.get("kind")) for f in parts if isinstance(f, exp.ColumnDef)]
        known = [(name, type_) for name, type_ in fields if isinstance(type_, exp.DataType)]
        if parts and len(known) == len(parts):
            twice = {n.lower() for n, _ in known}
            if len(twice) == len(known):
                return struct_of((name, read_type(t, source, where)) for name, t in known)
            raise source.mismatch(
                "two fields of a STRUCT have one name",
                where or _place(source, node, "STRUCT"),
                hint="rename one of them",
            )
    elif node.this is DType.ARRAY and len(parts) == 1:
        return array_of(read_type(parts[0], source, where))
    elif node.this is DType.MAP and len(parts) == 2:
        key, value = (read_type(p, source, where) for p in parts)
        if not key.has_order:
            raise source.mismatch(f"{key} cannot be the key of a MAP", place, hint="use a type without MAP")
        return map_of(key, value)
    name = node.this.value if isinstance(node.this, DType) else node.sql()
    raise _refused(source, node, where, name, f"{name} with these parts is no type that is known")


def refuse_collation(collation: exp.Expr | None, source: SqlText, where: exp.Expr, what: str = "text") -> None:
    """Raise if text is to be compared by another rule than byte by byte."""
    if collation is not None and collation.name.upper() != BINARY_COLLATION:
        raise source.unsupported(
            "COLLATE",
            where,
            message=f"{what} has the collation {collation.name}: Everview compares text byte by byte",
            hint=f"leave COLLATE out, or use {BINARY_COLLATION}; lower(x) compares without case",
        )


def _is_spark(written: str) -> bool:
    words = written.split(" ")
    return not written or (words[0] in _WORDS and "WITH" not in words)


def _joined(written: str) -> str:
    return written.replace(" ( ", "(").replace(" )", ")").replace(" ,", ",")


def _refused(
    source: SqlText, node: exp.Expr, where: exp.Expr | None, name: str, message: str | None = None
) -> EverviewError:
    return source.unsupported(
        f"{name} type",
        where or _place(source, node, re.split("[<(]", name)[0]),
        message=message or f"columns of type {name} are not supported",
        hint="use BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), STRING, VARCHAR(n), CHAR(n), "
        "BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ, ARRAY<T>, MAP<K, V> or STRUCT<name: T>",
    )


def _place(source: SqlText, node: exp.Expr, name: str) -> Position:
    return source.clause(node.parent or node, None, (name,))


def spark_name(type_: DataType) -> str:
    """The type as CAST writes it."""
    if type_.kind is Kind.STRUCT:
        names = ("`" + name.replace("`", "``") + "`" for name in type_.names)
        fields = zip(names, map(spark_name, type_.parts), strict=True)
        return f"STRUCT<{', '.join(f'{n}: {t}' for n, t in fields)}>"
    if type_.is_nested:
        return f"{type_.kind.value}<{', '.join(map(spark_name, type_.parts))}>"
    return {Kind.NULL: "STRING", Kind.ANY: "STRING"}.get(type_.kind, str(type_.unbounded))


def same_word(left: DataType, right: DataType) -> bool:
    """True if equal values of the two types are equal as stored words, so that a join need not convert them."""
    if left.is_open or right.is_open or (left.is_integer and right.is_integer):
        return True
    if left.is_nested and left.kind is right.kind and len(left.parts) == len(right.parts):
        return all(same_word(a, b) for a, b in zip(left.parts, right.parts, strict=True))
    return left.kind is right.kind and (left.kind is not Kind.DECIMAL or left.scale == right.scale)


def arithmetic(operator: str, left: DataType, right: DataType) -> DataType | None:
    """The type of ``left operator right`` for + - * / % div; None if there is none."""
    if left.is_open and right.is_open:
        return DOUBLE if operator == "/" else left
    if left.is_open or right.is_open:
        known = right if left.is_open else left
        if known.is_numeric:
            return arithmetic(operator, known, known)
        if known.kind is Kind.DAY_TIME:
            return known
        left = left if not left.is_open else (INTERVAL if operator == "+" else known)
        right = right if not right.is_open else INTERVAL
    if left.is_numeric and right.is_numeric:
        return _numeric(operator, left, right)
    return _temporal(operator, left, right)


def _numeric(operator: str, left: DataType, right: DataType) -> DataType | None:
    if operator == "div":
        return DataType(Kind.BIGINT)
    if Kind.DECIMAL in (left.kind, right.kind) and not {left.kind, right.kind} & {Kind.FLOAT, Kind.DOUBLE}:
        return _decimal(operator, as_decimal(left), as_decimal(right))
    return DOUBLE if operator == "/" else common_type(left, right)


def _decimal(operator: str, left: DataType, right: DataType) -> DataType:
    p1, s1, p2, s2 = left.precision, left.scale, right.precision, right.scale
    scale = max(s1, s2)
    if operator in "+-":
        return adjusted(max(p1 - s1, p2 - s2) + scale + 1, scale)
    if operator == "*":
        return adjusted(p1 + p2 + 1, s1 + s2)
    if operator == "/":
        scale = max(6, s1 + p2 + 1)
        return adjusted(p1 - s1 + s2 + scale, scale)
    return adjusted(min(p1 - s1, p2 - s2) + scale, scale)


def _temporal(operator: str, left: DataType, right: DataType) -> DataType | None:
    if operator == "-" and left.is_temporal and right.is_temporal:
        return day_time("DAY", "DAY") if left.kind is right.kind is Kind.DATE else DAY_TIME
    if operator == "+" and right.is_temporal:
        left, right = right, left
    if operator in "+-" and left.is_temporal:
        if right.kind is Kind.DAY_TIME:
            return left if left.kind is not Kind.DATE or right.names == ("DAY", "DAY") else DataType(Kind.TIMESTAMP)
        if right.kind is Kind.INTERVAL:
            return left
        if left.kind is Kind.DATE and right.is_integer:
            return left
    if operator in "+-" and left.kind is right.kind and left.kind in (Kind.INTERVAL, Kind.DAY_TIME):
        return common_type(left, right)
    if operator == "*" and left.is_numeric:
        left, right = right, left
    if operator in "*/" and right.is_numeric:
        return {Kind.INTERVAL: INTERVAL, Kind.DAY_TIME: DAY_TIME}.get(left.kind)
    return None


def can_cast(source: DataType, target: DataType) -> bool:
    """True if CAST makes sense between the two types."""
    if source.is_open or source == target:
        return True
    if source.is_nested or target.is_nested:
        alike = source.kind is target.kind and len(source.parts) == len(target.parts)
        return alike and all(can_cast(a, b) for a, b in zip(source.parts, target.parts, strict=True))
    if STRING in (source, target):
        return Kind.INTERVAL not in (source.kind, target.kind)
    if Kind.DAY_TIME in (source.kind, target.kind):
        return source.kind is target.kind or all(
            t.is_integer or t.names[:1] == t.names[1:] != () for t in (source, target)
        )
    if (source.is_numeric or source.kind is Kind.BOOLEAN) and (target.is_numeric or target.kind is Kind.BOOLEAN):
        return True
    if source.is_temporal and target.is_temporal:
        return True
    return Kind.TIMESTAMP in (source.kind, target.kind) and (source.is_numeric or target.is_numeric)


def integer_literal(digits: str) -> DataType:
    """The type of an integer as written: the first of INT, BIGINT, DECIMAL that holds it."""
    value = int(digits)
    if value < 2**31:
        return INT
    return DataType(Kind.BIGINT) if value < 2**63 else decimal(len(digits), 0)
