"""Bags of rows, and how two of them are compared: by what SQL calls equal, and by rounding for doubles."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from tests.engine.case_data import Row

Bag = Counter[Row]


class Difference(AssertionError):
    """Everview and DuckDB, or two ways to read one view, disagree."""


def expect(holds: bool, message: Callable[[], str] | str) -> None:
    if not holds:
        raise Difference(message if isinstance(message, str) else message())


def plain(value: Any) -> Any:
    """One Python value for all that SQL calls equal."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, date) and not isinstance(value, datetime):  # DuckDB's date_add gives a timestamp
        return datetime(value.year, value.month, value.day)
    if hasattr(value, "asDict"):  # a struct of Spark's
        value = value.asDict()
    if isinstance(value, dict):
        return frozenset((plain(k), plain(v)) for k, v in value.items())
    return tuple(map(plain, value)) if isinstance(value, list) else value


def bag(rows: Iterable[Sequence[Any]]) -> Bag:
    return Counter(tuple(plain(v) for v in row) for row in rows)


def close(a: Any, b: Any) -> bool:
    """Exact, but for floating point (1e-12) and for averages of decimals, which DuckDB gives as doubles."""
    if a == b:
        return True
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-9)
    if isinstance(a, Decimal) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-5)
    return False


def differences(found: Bag, wanted: Bag) -> tuple[Bag, Bag]:
    """What is superfluous and what is missing, after rows that differ by rounding only have been paired."""
    more, fewer = found - wanted, wanted - found
    if more and fewer:
        for row in list(more):
            for other in list(fewer):
                if more[row] and fewer[other] and all(map(close, row, other)):
                    both = min(more[row], fewer[other])
                    more[row] -= both
                    fewer[other] -= both
    return +more, +fewer
