"""The benchmark of formulas: its counts are DuckDB's, and steps do not grow with the data."""

from __future__ import annotations

import pytest

from benchmarks import formula


@pytest.mark.parametrize("case", formula.CASES, ids=lambda case: f"{case.tier}-{case.make.__name__}")
def test_counts_are_right_and_steps_stay(case: formula.Case) -> None:
    small, large = (formula.measure(case, size, 200) for size in (1_000, 8_000))
    assert small["updates"] == 200
    assert large["rows"] > 0
    assert large["steps"] < 1.25 * small["steps"]
    assert case.title in formula.table([small, large])
