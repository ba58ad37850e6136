"""The benchmark of constructs: its results are DuckDB's, and steps do not grow with the tables but by a logarithm."""

from __future__ import annotations

import pytest

from benchmarks import constructs


@pytest.mark.parametrize("name", constructs.CASES)
def test_results_are_right_and_steps_stay(name: str) -> None:
    small, large = (constructs.measure(name, size, 80) for size in (500, 8_000))
    assert small["updates"] == 80
    assert large["result"] > 0
    assert small["changed"] > 0
    assert large["steps"] < 1.7 * small["steps"]
    assert f"| {name} |" in constructs.table([small, large])
