"""The benchmark of the dial: what it counts is a trade-off, and is the same again."""

from __future__ import annotations

from fractions import Fraction

from benchmarks.dial import QUERIES, measure
from benchmarks.results import read


def test_updates_become_dearer_and_reads_cheaper_along_the_dial() -> None:
    title, rule = next(iter(QUERIES.items()))
    low, middle, high = (measure(title, rule, Fraction(i, 2)) for i in range(3))
    assert low["steps_per_update"] < middle["steps_per_update"] < high["steps_per_update"]
    assert low["steps_per_row"] > middle["steps_per_row"] > high["steps_per_row"]
    assert low["rows_read"] == middle["rows_read"] == high["rows_read"] == 300


def test_steps_repeat_exactly() -> None:
    _, *kept = read("dial")
    title, rule = list(QUERIES.items())[1]
    (before,) = (r for r in kept if (r["query"], r["epsilon"]) == (title, "1/2"))
    again = measure(title, rule, Fraction(1, 2))
    counted = ("updates", "steps_per_update", "rows_read", "steps_per_row", "most_steps_per_row")
    assert {name: again[name] for name in counted} == {name: before[name] for name in counted}
