"""The examples of all aggregates' entries, and rows on which embedded views, DuckDB and Spark must agree on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from random import Random
from typing import Any, Final

from everview.query.aggregates import AggregateFunction

COLUMNS: Final = (
    "g INT, k INT, n INT, l BIGINT, x DOUBLE, p DECIMAL(10, 2), s STRING, d DATE, b BOOLEAN"  # what examples may name
)
EXAMPLES: Final = [example for function in AggregateFunction for example in function.examples]


def query(examples: Sequence[str]) -> str:
    """Some of them, by group."""
    return f"SELECT g, {', '.join(f'{e} AS y{i}' for i, e in enumerate(examples))} FROM r GROUP BY g"


QUERY: Final = query(EXAMPLES)


def rows(seed: int = 19) -> list[tuple[Any, ...]]:
    """Groups of one row, of few and of many, one of NULLs only, and values that are there more than once."""
    random = Random(seed)
    made: list[tuple[Any, ...]] = [
        (0, 0, *[None] * 7),
        (1, 1, 3, 2**40, 0.5, Decimal("1.25"), "a", date(2024, 2, 29), True),
    ]
    for k in range(2, 60):
        row = (
            random.randint(-3, 3),
            random.randint(-(2**50), 2**50),
            random.randint(-40, 40) / 8,
            Decimal(random.randint(-(10**5), 10**5)).scaleb(-2),
            random.choice(["", "a", "b", "Ünï", "€"]),
            date(2024, random.randint(1, 12), random.randint(1, 28)),
            random.random() < 0.5,
        )
        made.append((random.choice([None, 2, 3, 4]), k, *(None if random.random() < 0.2 else value for value in row)))
    return made


def differences(found: dict[Any, Any], wanted: dict[Any, Any], examples: Sequence[str] = EXAMPLES) -> list[str]:
    """Where two results, by group, differ by more than the rounding of doubles."""
    assert found.keys() == wanted.keys()
    return [
        f"{example}, group {g}: {mine!r}, and it should be {theirs!r}"
        for g in wanted
        for example, mine, theirs in zip(examples, found[g], wanted[g], strict=True)
        if not same(mine, theirs)
    ]


def same(left: Any, right: Any) -> bool:
    """Equal but for the rounding of doubles."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float | Decimal) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-12, abs_tol=1e-6 if isinstance(left, Decimal) else 0.0)
    return bool(left == right)
