"""The examples of all functions' entries, and rows on which embedded views, Spark and ``maintain`` must agree."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

from everview.sql.functions.registry import FUNCTION_BY_NAME, FUNCTIONS

COLUMNS: Final = (  # what examples may name
    "k INT, i INT, l BIGINT, n INT, x DOUBLE, z DOUBLE, p DECIMAL(10, 2), s STRING, u STRING, d DATE, ts TIMESTAMP, "
    "b BOOLEAN, y BINARY, t TINYINT"
)
ROWS: Final[list[tuple[Any, ...]]] = [
    (1, 3, 2**40 + 5, 2, 2.75, 0.5, Decimal("1234.55"), "Hello", "ll", date(2024, 1, 31),
     datetime(2024, 1, 31, 12, 5, 7, 500_000), True, b"abc", 5),
    (2, -7, -9, 1, -0.25, 1.0, Decimal("-0.05"), "a,b, Ünï €", ",", date(1969, 7, 20),
     datetime(1969, 7, 20, 23, 59, 59, 999_999), False, b"\x00\xff", -128),
    (3, 0, 0, 0, 0.0, 0.0, Decimal("0.00"), "", "", date(2000, 2, 29), datetime(2000, 2, 29), True, b"", 0),
    (4, 2**31 - 1, -(2**62), 3, 1e10, -1.0, Decimal("99999999.99"), "49927398716", "9", date(9999, 12, 31),
     datetime(9999, 12, 31, 23, 59, 59), False, b"Robert", 127),
    (5, *[None] * 13),
]  # fmt: skip
"""The last one holds NULL in all columns but the key."""

EXAMPLES: Final = {name: [e for e in entry.examples if f"{name}(" in e] for entry in FUNCTIONS for name in entry.names}
"""By each name; an entry without an example for one of its names has an empty list here."""

UNKNOWN: Final = frozenset(name for name, entry in FUNCTION_BY_NAME.items() if entry.refusal is not None)
"""Those that are refused, whatever their arguments."""


def utc(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row with its instants in UTC, as ``createDataFrame`` must be told."""
    return tuple(v.replace(tzinfo=UTC) if isinstance(v, datetime) else v for v in row)
