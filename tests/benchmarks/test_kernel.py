"""The workloads of the kernel's benchmark: always the same, and nothing goes that is not there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from benchmarks.kernel import Update, star, window


def left(updates: Iterable[Update]) -> Counter[tuple[int, int]]:
    there: Counter[tuple[int, int]] = Counter()
    for source, target, change in updates:
        there[source, target] += change
        assert there[source, target] >= 0
    return +there


def test_star() -> None:
    first, again = list(star(5_000)), list(star(5_000))
    assert first == again
    assert 0 < left(first).total() < 1_000
    assert {change for _, _, change in first} == {1, -1}


def test_a_window_goes_over_all_edges_and_leaves_none() -> None:
    edges = [(i, i + 1) for i in range(100)]
    updates = list(window(edges))
    assert not left(updates)
    assert left(updates[:120]).total() == 20
