"""Functions of dates and timestamps: their parts, the time between them, and their forms as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from everview.query.types import BIGINT, DATE, DOUBLE, INT, STRING, TIMESTAMP, DataType, Kind, decimal
from everview.sql.durations import MICROSECONDS, MONTHS
from everview.sql.functions.entry import Call, function
from everview.sql.functions.intervals import part_taken, part_type
from everview.sql.nodes import call, cast, refused
from everview.sql.sql_text import SqlText

_SHIFTS: Final = ("timestampadd",)
_PARTS: Final = {"DAYOFWEEK": "spark_dayofweek", "DOW": "spark_dayofweek", "SECOND": "spark_seconds"}
_UNITS: Final = {"MM": "MONTH", "MON": "MONTH", "YYYY": "YEAR", "YY": "YEAR", "DD": "DAY"}


def span_type(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    """Check a call whose first argument is a unit of time; ``types`` are those of the others. Gives its type.

    ``datediff(unit, start, end)`` is the whole units between two times, ``timestampadd(unit, number, time)`` a time
    that is so many units later.
    """
    unit, *arguments = node.expressions
    name, units = node.name.lower(), [*MICROSECONDS, *MONTHS]
    if not isinstance(unit, exp.Column) or unit.table or unit.name.upper() not in units:
        raise source.unknown("unit of time", unit.sql(), unit, units, "the units are")
    shifts = name in _SHIFTS
    for argument, type_, is_number in zip(arguments, types, (shifts, False), strict=True):
        if not (type_.is_open or (type_.is_integer if is_number else type_.is_temporal)):
            wanted = (
                "a unit, a whole number and a date or timestamp" if shifts else "a unit and two dates or timestamps"
            )
            raise source.mismatch(f"{name} takes {wanted}, and this is {type_}", argument, hint="CAST it")
    if not shifts:
        return BIGINT
    return TIMESTAMP if types[1].kind is Kind.DATE else types[1]


def part_of(part: str) -> str | None:
    """The function that takes a part of a date or time, where DuckDB's own counts in another way."""
    return _PARTS.get(part.upper().rstrip("S")) or _PARTS.get(part.upper())


def _part(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    field = node.expressions[0].name.upper()
    if types[1].kind is Kind.DAY_TIME:
        return part_type(types[1], field, node.expressions[1], source)
    return decimal(8, 6) if field in ("SECOND", "SECONDS") else INT


def _part_taken(of: Call) -> exp.Expr | None:
    if of.types[1] is not None and of.types[1].kind is Kind.DAY_TIME:
        return part_taken(of.arguments[0].name, of.arguments[1])
    function_ = part_of(of.arguments[0].name)
    return call(function_, of.arguments[1]) if function_ else None


def _span(of: Call) -> exp.Expr | None:
    """The whole units between two times, cut towards none."""
    if len(of.arguments) < 3:
        return None
    unit, *times = of.arguments
    word = unit.name.upper()
    macro = "spark_span_of_months" if word in MONTHS else "spark_span"
    length = exp.Literal.number(MONTHS.get(word) or MICROSECONDS[word])
    return call(macro, length, *(cast(t, DataType(Kind.TIMESTAMP_NTZ)) for t in times))


def _shifted(of: Call) -> exp.Expr | None:
    """A time that is so many units later; a date becomes its first moment."""
    if len(of.arguments) < 3:
        return None
    unit, number, time = of.arguments
    word = unit.name.upper()
    if word in MONTHS:
        return call("spark_months_later", time, exp.Mul(this=exp.Paren(this=number), expression=_whole(MONTHS[word])))
    moment = cast(time, of.type)
    return call("spark_later", moment, exp.Mul(this=cast(number, BIGINT), expression=_whole(MICROSECONDS[word])))


def _whole(number: int) -> exp.Expr:
    return exp.Literal.number(number)


def _months_between(of: Call) -> exp.Expr:
    if len(of.arguments) > 2 or not all(t is not None and t.is_temporal for t in of.types):
        raise refused(of.name, "it takes two dates or timestamps here")
    return of.with_arguments(*(cast(a, DataType(Kind.TIMESTAMP_NTZ)) for a in of.arguments))


def _cut_to_unit(of: Call) -> exp.Expr:
    return of.with_arguments(*(_unit(a) for a in of.arguments))


def _unit(node: exp.Expr) -> exp.Expr:
    """Spark's short names for units of time."""
    known = _UNITS.get(node.name.upper()) if isinstance(node, exp.Literal) else None
    return exp.Literal.string(known) if known else node


_SPAN_MACROS: Final = {
    "spark_span(unit, a, b)": "(epoch_us(b) - epoch_us(a)) // unit",
    "spark_last_whole_day(a, b)": "CASE WHEN CAST(b AS DATE) > CAST(a AS DATE) AND CAST(b AS TIME) < CAST(a AS TIME) "
    "THEN CAST(b AS DATE) - 1 WHEN CAST(b AS DATE) < CAST(a AS DATE) AND CAST(b AS TIME) > CAST(a AS TIME) "
    "THEN CAST(b AS DATE) + 1 ELSE CAST(b AS DATE) END",
    "spark_in_month(x)": "(year(x) * 12 + month(x)) * 32 + day(x)",
    "spark_span_of_months(unit, a, b)": "CAST((spark_in_month(spark_last_whole_day(a, b)) - spark_in_month(a)) // 32 "
    "// unit AS BIGINT)",
}
_LATER_MACROS: Final = {
    "spark_later(x, micros)": "x + to_microseconds(micros)",
    "spark_months_later(x, months)": "x + to_months(CAST(months AS INTEGER))",
}
_MONTHS_BETWEEN_MACROS: Final = {
    "spark_months(a, b)": "(year(a) - year(b)) * 12 + month(a) - month(b)",
    "spark_second_of_month(x)": "day(x) * 86400 + hour(x) * 3600 + minute(x) * 60 + second(x)",
    "spark_is_last(x)": "day(x) = day(last_day(x))",
    "spark_months_between(a, b)": "CASE WHEN day(a) = day(b) OR (spark_is_last(a) AND spark_is_last(b)) "
    "THEN CAST(spark_months(a, b) AS DOUBLE) ELSE floor((spark_months(a, b) + (spark_second_of_month(a) "
    "- spark_second_of_month(b)) / CAST(2678400 AS DOUBLE)) * 1e8 + 0.5) / 1e8 END",
}
_SECONDS: Final = "CAST((epoch_us(x) % 60000000 + 60000000) % 60000000 AS DECIMAL(8, 0)) * 0.000001"

FUNCTIONS: Final = (
    function("year", "t", INT, "year(d)", "year(ts)", is_strict=True),
    function("quarter", "t", INT, "quarter(d)"),
    function("month", "t", INT, "month(d)", is_strict=True),
    function("day dayofmonth", "t", INT, "day(d)", "dayofmonth(ts)", is_strict=True),
    function("dayofweek", "t", INT, "dayofweek(d)", macros={"spark_dayofweek(x)": "dayofweek(x) + 1"}),
    function("dayofyear", "t", INT, "dayofyear(d)"),
    function("weekofyear", "t", INT, "weekofyear(d)"),
    function("weekday", "t", INT, "weekday(d)", macros={"spark_weekday(x)": "isodow(x) - 1"}),
    function("hour", "t", INT, "hour(ts)"),
    function("minute", "t", INT, "minute(ts)"),
    function("second", "t", INT, "second(ts)"),
    function(
        "date_part datepart extract",
        "s x",
        _part,
        "extract(MONTH FROM d)",
        "extract(DOW FROM ts)",
        "date_part('YEAR', d)",
        "date_part('SECONDS', ts)",
        "datepart('dow', d)",
        macros={"spark_seconds(x)": _SECONDS},
        spelling=_part_taken,
    ),
    function("dayname", "t", STRING, "dayname(d)", macros={"spark_dayname(x)": "left(dayname(x), 3)"}),
    function("monthname", "t", STRING, "monthname(d)", macros={"spark_monthname(x)": "left(monthname(x), 3)"}),
    function(
        "timestampdiff",
        "x t t",
        BIGINT,
        *(f"timestampdiff({u}, ts, TIMESTAMP '2000-05-31 06:00:00')" for u in (*MICROSECONDS, *MONTHS)),
        *(f"timestampdiff({u}, DATE '1999-03-20', ts)" for u in (*MICROSECONDS, *MONTHS)),
        "timestampdiff(MONTH, d, DATE '2024-02-29')",
        macros=_SPAN_MACROS,
        spelling=_span,
        takes_unit=True,
    ),
    function(
        "datediff date_diff",
        "t t",
        INT,
        "datediff(d, DATE '2000-01-01')",
        "datediff(d, ts)",
        "datediff(DAY, ts, TIMESTAMP '2024-02-28 11:00:00')",
        "datediff(month, ts, TIMESTAMP '2024-02-29 12:05:07')",
        "date_diff(DATE '2000-01-01', d)",
        "date_diff(WEEK, d, ts)",
        spelling=_span,
        takes_unit=True,
    ),
    function(
        "months_between",
        "t t b?",
        DOUBLE,
        "months_between(d, DATE '2023-11-15')",
        "months_between(ts, TIMESTAMP '2023-11-30 06:00:00')",
        macros=_MONTHS_BETWEEN_MACROS,
        spelling=_months_between,
    ),
    function("date_add dateadd", "t i", DATE, "date_add(d, -n)", "dateadd(d, -n)"),
    function(
        "timestampadd",
        "x i t",
        TIMESTAMP,
        *(f"timestampadd({u}, -n, ts)" for u in (*MICROSECONDS, *MONTHS)),
        "timestampadd(DAY, -n, d)",
        "timestampadd(MICROSECOND, l % 1000000000, CAST(ts AS TIMESTAMP_NTZ))",
        macros=_LATER_MACROS,
        spelling=_shifted,
        takes_unit=True,
    ),
    function("date_sub", "t i", DATE, "date_sub(d, n)"),
    function("add_months", "t i", DATE, "add_months(d, -1)", "add_months(d, -n)"),
    function("last_day", "t", DATE, "last_day(d)"),
    function("next_day", "t s", DATE, "next_day(DATE '2024-01-31', 'MO')", "next_day(date_sub(d, 9), 'Friday')"),
    function(
        "trunc",
        "t s",
        DATE,
        "trunc(d, 'MM')",
        "trunc(d, 'YEAR')",
        "trunc(d, 'QUARTER')",
        "trunc(d, 'WEEK')",
        spelling=_cut_to_unit,
    ),
    function(
        "date_trunc",
        "s t",
        TIMESTAMP,
        "date_trunc('HOUR', ts)",
        "date_trunc('WEEK', ts)",
        "date_trunc('DAY', ts)",
        spelling=_cut_to_unit,
    ),
)
