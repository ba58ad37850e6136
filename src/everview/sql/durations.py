"""Lengths of time as they are written: '10 minutes', INTERVAL '1' HOUR, INTERVAL 7 DAYS."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from sqlglot import exp

from everview.errors import EverviewError
from everview.query.types import DAY_TIME_UNITS, INTERVAL, DataType, day_time
from everview.sql.sql_text import SqlText

MICROSECONDS: Final = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}
"""Units of time of one length."""
MONTHS: Final = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
"""Units of time that are so many months."""
_SHORT: Final = {
    "US": "MICROSECOND",
    "MS": "MILLISECOND",
    "S": "SECOND",
    "SEC": "SECOND",
    "MIN": "MINUTE",
    "M": "MINUTE",
    "H": "HOUR",
    "HR": "HOUR",
    "D": "DAY",
    "W": "WEEK",
    "MON": "MONTH",
    "Y": "YEAR",
}
_PART: Final = re.compile(r"\s*([+-]?\s*[0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]+)\s*")
Duration = tuple[int, int]
"""Months and microseconds: how long a month is goes by when it is."""


def duration(source: SqlText, node: exp.Expr) -> Duration:
    """A length of time that stands in the text."""
    text = text_of(node)
    found = None if text is None else duration_of(text)
    if found is None:
        raise source.mismatch("a length of time is expected here", node, hint="write '10 minutes' or INTERVAL 1 HOUR")
    return found


def fixed_duration(source: SqlText, node: exp.Expr) -> int:
    """The same in microseconds; there are no months in it, whose length varies."""
    months, micros = duration(source, node)
    if months:
        raise _no_months(source, node)
    return micros


def _no_months(source: SqlText, node: exp.Expr) -> EverviewError:
    return source.unsupported(
        "time window of months", node, hint="group by date_trunc('MONTH', ts), or by year(ts) and month(ts)"
    )


def text_of(node: exp.Expr) -> str | None:
    """What is written, as number and unit."""
    if isinstance(node, exp.Paren):
        return text_of(node.this)
    if isinstance(node, exp.Literal) and node.is_string:
        return re.sub(r"(?i)^\s*interval\s+", "", node.name)
    if isinstance(node, exp.Add) and isinstance(node.expression, exp.Interval):  # INTERVAL 1 DAY 2 HOURS
        parts = text_of(node.this), text_of(node.expression)
        return None if None in parts else f"{parts[0]} {parts[1]}"
    if isinstance(node, exp.Interval) and isinstance(node.this, exp.Literal | exp.Neg):
        inner = node.this
        sign = "-" if isinstance(inner, exp.Neg) else ""
        unit = node.args.get("unit")
        if isinstance(unit, exp.IntervalSpan):
            return _spanned(sign + str(inner.this.name if sign else inner.name), unit)
        return f"{sign}{inner.this.name if sign else inner.name} {unit.name if unit is not None else ''}"
    return None


_FIELDS: Final[tuple[tuple[str, ...], ...]] = (("YEAR", "MONTH"), DAY_TIME_UNITS)
"""What may stand in one text between two units, as in INTERVAL '1 02:30' DAY TO MINUTE."""


def _spanned(text: str, unit: exp.IntervalSpan) -> str | None:
    """A text with a number for each unit between two, as numbers and units."""
    first, last = unit.this.name.upper(), unit.expression.name.upper()
    fields = next((f for f in _FIELDS if first in f and last in f), ())
    fields = fields[fields.index(first) : fields.index(last) + 1] if fields else ()
    sign = "-" if text.strip().startswith("-") else ""
    numbers = re.split(r"[-: ]", text.strip().lstrip("+-").strip())
    if not fields or len(numbers) != len(fields):
        return None
    return " ".join(f"{sign}{number} {field}" for number, field in zip(numbers, fields, strict=True))


def duration_of(text: str) -> Duration | None:
    """``1 hour 30 minutes`` as months and microseconds; None if it is no length of time."""
    months, micros, at = 0, Decimal(0), 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            return None
        at = part.end()
        number, word = Decimal(part[1].replace(" ", "")), part[2].upper()
        unit = _SHORT.get(word) or word.removesuffix("S")
        if unit in MONTHS and number == int(number):
            months += MONTHS[unit] * int(number)
        elif unit in MICROSECONDS:
            micros += MICROSECONDS[unit] * number
        else:
            return None
    return (months, int(micros)) if text.strip() and micros == int(micros) else None


def length_type(node: exp.Expr) -> DataType:
    """The type of a length of time that is written as one: its units, or INTERVAL if there are months in it."""
    unit = node.args.get("unit") if isinstance(node, exp.Interval) else None
    if isinstance(unit, exp.IntervalSpan):
        kept = [unit.this.name.upper(), unit.expression.name.upper()]
    else:
        words = [found[2].upper() for found in _PART.finditer(text_of(node) or "")]
        names = [_SHORT.get(word) or word.removesuffix("S") for word in words]
        kept = [_KEPT.get(name, name) for name in names]
    if not kept or not set(kept) <= set(DAY_TIME_UNITS):
        return INTERVAL
    places = [DAY_TIME_UNITS.index(name) for name in kept]
    return day_time(DAY_TIME_UNITS[min(places)], DAY_TIME_UNITS[max(places)])


_KEPT: Final = {"WEEK": "DAY", "MILLISECOND": "SECOND", "MICROSECOND": "SECOND"}


def interval_of(micros: int) -> exp.Interval:
    """So many microseconds as SQL writes them, in the largest unit in which they are a whole number."""
    units = ("DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
    unit = next(u for u in units if micros % MICROSECONDS[u] == 0)
    return exp.Interval(this=exp.Literal.string(str(micros // MICROSECONDS[unit])), unit=exp.Var(this=unit))
