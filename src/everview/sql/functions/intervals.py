"""Lengths of time, which DuckDB computes as microseconds: written as text and read, their parts, times and shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement
from typing import Final

from sqlglot import exp

from everview.query.types import (
    BIGINT,
    DAY_TIME,
    DAY_TIME_UNITS,
    DOUBLE,
    INT,
    MICROSECONDS_OF,
    MOST_DIGITS,
    TINYINT,
    DataType,
    Kind,
    decimal,
)
from everview.sql.durations import duration_of, text_of
from everview.sql.functions.entry import Call, function
from everview.sql.nodes import call, cast, refused
from everview.sql.sql_text import SqlText

_LIMITS: Final = {"HOUR": "(2[0-3]|[01]?[0-9])", "MINUTE": "([0-5]?[0-9])", "SECOND": "([0-5]?[0-9])"}
_FIRST: Final = "([0-9]{1,10})"
_FRACTION: Final = "(?:[.]([0-9]{1,9}))?"


def keep_units(nodes: Sequence[exp.Expr], types: Sequence[DataType]) -> None:
    """Write out, in the tree, the units of lengths of time: whoever computes it knows those of columns no more."""
    for node, type_ in zip(nodes, types, strict=True):
        if type_.kind is Kind.DAY_TIME and type_ != DAY_TIME and not isinstance(node, exp.Cast | exp.Interval):
            with_units = exp.Cast(to=cast(node, type_).args["to"])
            node.replace(with_units)
            with_units.set("this", node)


def part_type(type_: DataType, field: str, node: exp.Expr, source: SqlText) -> DataType:
    """The type of a part of a length of time."""
    unit = field.removesuffix("S")
    first, last = (DAY_TIME_UNITS.index(end) for end in type_.names)
    if unit not in DAY_TIME_UNITS[first : last + 1]:
        known = ", ".join(DAY_TIME_UNITS[first : last + 1])
        raise source.mismatch(f"{type_} has no {field}", node, hint=f"its parts are: {known}")
    return {"DAY": INT, "SECOND": decimal(8, 6)}.get(unit, TINYINT)


def part_taken(field: str, value: exp.Expr) -> exp.Expr:
    """A part of a length of time."""
    return call(f"spark_{field.upper().removesuffix('S').lower()}_part", value)


def micros(node: exp.Interval) -> exp.Expr:
    """A length of time that is written as one, as its microseconds."""
    found = duration_of(text_of(node) or "")
    if found is None or found[0]:
        raise refused(node.sql(), "it is no length of time")
    number: exp.Expr = exp.Literal.number(abs(found[1]))
    return cast(exp.Neg(this=number) if found[1] < 0 else number, BIGINT)


def later(time: exp.Expr, length: exp.Expr, have: DataType, want: DataType, *, earlier: bool) -> exp.Expr:
    """A date or timestamp so much later; days alone leave a date a date."""
    signed = exp.Neg(this=exp.paren(length.copy())) if earlier else length
    if want.kind is Kind.DATE:
        return call("spark_days_later", time, signed)
    return call("spark_later", time if have.kind is want.kind else cast(time, want), signed)


def between(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """How much later one time is than another."""
    return call("spark_time_between", *(cast(side, DataType(Kind.TIMESTAMP)) for side in (left, right)))


def scaled(sign: str, length: exp.Expr, number: exp.Expr, type_: DataType) -> exp.Expr:
    """A length of time multiplied or divided, rounded to microseconds, halves away from none."""
    name = "spark_times" if sign == "*" else "spark_share"
    if type_.kind in (Kind.FLOAT, Kind.DOUBLE):
        return call(f"{name}_double", length, cast(number, DOUBLE))
    if type_.kind is not Kind.DECIMAL:
        return call(f"{name}_whole", length, number)
    if type_.precision > MOST_DIGITS // 2:
        raise refused(f"a length of time {'times' if sign == '*' else 'by'} {type_}", "CAST it to fewer digits")
    if sign == "*":
        return call("spark_times_decimal", length, number)
    unit = exp.Literal.number(10**type_.scale)
    return call(
        "spark_share_whole", exp.Mul(this=cast(length, decimal(19, 0)), expression=unit), call("spark_digits", number)
    )


def written(length: exp.Expr, type_: DataType) -> exp.Expr:
    """A length of time as text."""
    return call(f"spark_text_of_{_name(type_)}", length)


def converted(value: exp.Expr, have: DataType, want: DataType, *, tried: bool) -> exp.Expr:
    """A text, a number or another length of time as one of these units, or one as a number."""
    if want.kind is not Kind.DAY_TIME:
        return call("spark_in_unit", value, exp.Literal.number(MICROSECONDS_OF[have.names[0]]))
    if have.kind is Kind.STRING:
        bare = call(f"spark_bare_{_name(want)}", value)
        return call(f"spark_read_{_name(want)}", bare, exp.Boolean(this=tried))
    if have.is_integer:
        size = exp.Literal.number(MICROSECONDS_OF[want.names[0]])
        return exp.paren(exp.Mul(this=cast(value, BIGINT), expression=size))
    unit = exp.Literal.number(MICROSECONDS_OF[want.names[1]] if want.names[1] != "SECOND" else 1)
    return call("spark_cut_to", value, unit)


def _name(type_: DataType) -> str:
    return "_to_".join(dict.fromkeys(type_.names)).lower()


def _units(first: str, last: str) -> tuple[str, ...]:
    return DAY_TIME_UNITS[DAY_TIME_UNITS.index(first) : DAY_TIME_UNITS.index(last) + 1]


def _shown(first: str, last: str) -> str:
    """The text of ``i`` in these units."""
    parts, rest = [], "abs(i)"
    for unit in _units(first, last):
        size = MICROSECONDS_OF[unit]
        number = f"CAST({rest} // {size} AS VARCHAR)"
        padding = f"CASE WHEN {rest} < {10 * size} THEN '0' ELSE '' END || "
        parts.append(number if unit == "DAY" else f"{padding}{number}")
        rest = f"({rest} % {size})"
    text = parts[0]
    for part, sign in zip(parts[1:], (" " if first == "DAY" else ":", ":", ":"), strict=False):
        text += f" || '{sign}' || {part}"
    if last == "SECOND":
        text += " || spark_fraction_of_second(i)"
    words = first if first == last else f"{first} TO {last}"
    return f"'INTERVAL ''' || CASE WHEN i < 0 THEN '-' ELSE '' END || {text} || ''' {words}'"


def _read(first: str, last: str) -> str:
    """The microseconds of a text ``x`` in these units."""
    units = _units(first, last)
    pattern = _FIRST
    for unit, sign in zip(units[1:], (" " if first == "DAY" else ":", ":", ":"), strict=False):
        pattern += sign + _LIMITS[unit]
    pattern = f"([+-]?){pattern}{_FRACTION if last == 'SECOND' else ''}"

    def group(number: int) -> str:
        return f"regexp_extract(x, '{pattern}', {number})"

    terms = [f"CAST({group(2 + k)} AS BIGINT) * {MICROSECONDS_OF[unit]}" for k, unit in enumerate(units)]
    if last == "SECOND":
        terms.append(f"CAST(rpad({group(2 + len(units))}, 6, '0') AS BIGINT)")
    found = f"CASE WHEN {group(1)} = '-' THEN -1 ELSE 1 END * ({' + '.join(terms)})"
    return f"CASE WHEN regexp_full_match(x, '{pattern}') THEN {found} ELSE CAST(spark_bad(x, tried) AS BIGINT) END"


def _bare(first: str, last: str) -> str:
    """A text ``x`` without INTERVAL before it and the units behind it."""
    words = first if first == last else rf"{first}\s+TO\s+{last}"
    whole = rf"(?i)\s*INTERVAL\s+''([^'']*)''\s+{words}\s*"
    return f"CASE WHEN regexp_full_match(x, '{whole}') THEN regexp_extract(x, '{whole}', 1) ELSE trim(x) END"


def _macros() -> Mapping[str, str]:
    found = {
        "spark_fraction_of_second(i)": "CASE WHEN i % 1000000 = 0 THEN '' ELSE '.' || "
        "rtrim(lpad(CAST(abs(i) % 1000000 AS VARCHAR), 6, '0'), '0') END",
        "spark_time_between(a, b)": "epoch_us(a) - epoch_us(b)",
        "spark_days_later(d, i)": f"CAST(d AS DATE) + CAST(i // {MICROSECONDS_OF['DAY']} AS INTEGER)",
        "spark_in_unit(i, unit)": "i // unit",
        "spark_cut_to(i, unit)": "i - i % unit",
        "spark_times_whole(i, n)": "i * CAST(n AS BIGINT)",
        "spark_times_double(i, n)": "CAST(round(i * n) AS BIGINT)",
        "spark_times_decimal(i, n)": "CAST(round(CAST(i AS DECIMAL(19, 0)) * n) AS BIGINT)",
        "spark_rounded_share(a, b)": "CAST(sign(a) * sign(b) * ((2 * abs(a) + abs(b)) // (2 * abs(b))) AS BIGINT)",
        "spark_share_whole(i, n)": "CASE WHEN n = 0 THEN CASE WHEN i IS NOT NULL THEN "
        "error('everview: division by zero') END ELSE spark_rounded_share(CAST(i AS HUGEINT), CAST(n AS HUGEINT)) END",
        "spark_share_double(i, n)": "CASE WHEN n = 0 THEN CASE WHEN i IS NOT NULL THEN "
        "error('everview: division by zero') END ELSE CAST(round(i / n) AS BIGINT) END",
        "spark_day_part(i)": f"CAST(i // {MICROSECONDS_OF['DAY']} AS INTEGER)",
        "spark_hour_part(i)": f"CAST(i % {MICROSECONDS_OF['DAY']} // {MICROSECONDS_OF['HOUR']} AS TINYINT)",
        "spark_minute_part(i)": f"CAST(i % {MICROSECONDS_OF['HOUR']} // {MICROSECONDS_OF['MINUTE']} AS TINYINT)",
        "spark_second_part(i)": f"CAST(i % {MICROSECONDS_OF['MINUTE']} AS DECIMAL(8, 0)) * 0.000001",
    }
    for first, last in combinations_with_replacement(DAY_TIME_UNITS, 2):
        name = _name(DataType(Kind.DAY_TIME, names=(first, last)))
        found[f"spark_text_of_{name}(i)"] = _shown(first, last)
        found[f"spark_bare_{name}(x)"] = _bare(first, last)
        found[f"spark_read_{name}(x, tried)"] = _read(first, last)
    return found


def _made(of: Call) -> exp.Expr:
    """Days, hours, minutes and seconds, of which the last may be left out."""
    zeros: list[exp.Expr] = [exp.Literal.number(0) for _ in range(4 - len(of.arguments))]
    *whole, seconds = [*of.arguments, *zeros]
    return of.with_arguments(*(cast(n, BIGINT) for n in whole), cast(seconds, decimal(18, 6)))


FUNCTIONS: Final = (
    function(
        "make_dt_interval",
        "i? i? i? n?",
        DAY_TIME,
        "make_dt_interval(n, 2, i % 60, 4.5)",
        "make_dt_interval(-n, 25)",
        "make_dt_interval(1, 2, 3, z)",
        "make_dt_interval()",
        "CAST(make_dt_interval(n, 2, -i % 60, 4.5) AS STRING)",
        "EXTRACT(HOUR FROM make_dt_interval(n, 2, -i % 60, 4.5))",
        macros={
            **_macros(),
            "spark_make_dt_interval(d, h, m, s)": f"d * {MICROSECONDS_OF['DAY']} + h * {MICROSECONDS_OF['HOUR']} + "
            f"m * {MICROSECONDS_OF['MINUTE']} + CAST(s * 1000000 AS BIGINT)",
        },
        spelling=_made,
    ),
)
