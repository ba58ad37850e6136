"""Measured exponents of triangles with corners in their output: an update, a delay and all of a static evaluation.

Steps are counted by the kernel, so they repeat exactly. The sequences are:

- *hub toggle* (triangle.md 20): b and a have N neighbours in common, and R(a, b) comes and goes;
- *growing hubs*: one value is joined with everything in all three relations, so it must become heavy on the way;
- *threshold*: every value has about N^ε edges in each relation, as many as a light one may have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import pytest

from tests.strategies.machines import Kernel
from tests.strategies.triangle.driver import Driver, Update

ARITIES = [1, 2, 3]
EPSILONS = [Fraction(0), Fraction(1, 2), Fraction(1)]
SIZES = (128, 512, 2048)
TOLERANCE = 0.1


def hub_toggle(size: int, _: Fraction) -> Iterator[Update]:
    for i in range(size // 2):
        yield "S", 0, i, 1
        yield "T", i, 0, 1
    for _ in range(size // 4):
        yield "R", 0, 0, 1
        yield "R", 0, 0, -1


def growing_hubs(size: int, _: Fraction) -> Iterator[Update]:
    for i in range(1, size // 6):
        for relation in "RST":
            yield relation, 0, i, 1
            yield relation, i, 0, 1


def threshold(size: int, epsilon: Fraction) -> Iterator[Update]:
    degree = max(1, int(0.7 * size ** float(epsilon)))
    values = max(1, size // (3 * degree))
    for i in range(degree):
        for x in range(values):
            for relation in "RST":
                yield relation, x, (x + i) % max(values, degree), 1


SEQUENCES: dict[str, Callable[[int, Fraction], Iterator[Update]]] = {
    "hub toggle": hub_toggle,
    "growing hubs": growing_hubs,
    "threshold": threshold,
}


def slope(points: dict[int, float]) -> float:
    """The slope of log cost against log N, by least squares."""
    xs, ys = [math.log(n) for n in points], [math.log(c) for c in points.values()]
    mx, my = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True)) / sum((x - mx) ** 2 for x in xs)


def driven(arity: int, epsilon: Fraction, updates: Iterator[Update]) -> tuple[Driver, int]:
    """A driver after some updates, and their number."""
    driver = Driver(arity, epsilon, Kernel)
    known = list(updates)
    driver.run(known)
    return driver, len(known)


@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("arity", ARITIES)
def test_steps_per_update(arity: int, epsilon: Fraction, name: str) -> None:
    """Amortised, rebalances included, from the empty database on: N^max(ε, 1−ε)."""
    points = {}
    for size in SIZES:
        driver, count = driven(arity, epsilon, SEQUENCES[name](size, epsilon))
        points[size] = driver.machine.machine.steps / count
    assert slope(points) <= float(max(epsilon, 1 - epsilon)) + TOLERANCE, points


@pytest.mark.parametrize("arity", ARITIES)
def test_a_toggled_hub_is_flat(arity: int) -> None:
    """Vector 20.4: one lookup, whatever the hub's size; a first-order method walks along all of it."""
    found = set()
    for size in (256, 1024):
        driver, _ = driven(arity, Fraction(1, 2), hub_toggle(size, Fraction(1, 2)))
        before = driver.machine.machine.steps
        driver.update("R", 0, 0, 1)
        found.add(driver.machine.machine.steps - before)
    assert len(found) == 1


def most_between_rows(driver: Driver, rows: int) -> int:
    """The most steps to the first row, between two, and to the end, over so many rows."""
    cursor = driver.machine.machine.open("result")
    most = before = 0
    for _ in range(rows):
        columns = cursor.fetch(1)
        most, before = max(most, cursor.steps - before), cursor.steps
        if not len(columns[0]):
            break
    return most


def crossed(size: int, epsilon: Fraction) -> Iterator[Update]:
    """Heavy corners that all overlap: each row is in the bucket of every one of them."""
    hubs = max(1, int(size ** float(1 - epsilon) / 4))
    few = max(1, size // (3 * hubs))
    for i in range(few):
        for h in range(hubs):
            yield "S", i, h, 1
            yield "R", i, h, 1
            yield "T", h, i, 1


@pytest.mark.parametrize(("arity", "delays"), [(1, (0, 1, 0)), (2, (0, 0.5, 0)), (3, (0, 0, 0))])
def test_delay(arity: int, delays: tuple[float, ...]) -> None:
    """N^min(1, (3 − arity)(1 − ε)), and O(1) at ε = 0, where nothing is in a bucket; the end counts, too."""
    for epsilon, bound in zip(EPSILONS, delays, strict=True):
        points = {}
        for size in (128, 512, 1024):
            driver, _ = driven(arity, epsilon, crossed(size, epsilon))
            points[size] = float(most_between_rows(driver, 80))
        assert slope(points) <= bound + TOLERANCE, (epsilon, points)


def test_static_evaluation_by_updates() -> None:
    """A dense graph inserted at ε = 1/2, and listed: |D|^(3/2) steps, as many as there may be rows."""
    points = {}
    for side in (6, 12, 24):
        grid = ((relation, x, y, 1) for relation in "RST" for x in range(side) for y in range(side))
        driver, count = driven(3, Fraction(1, 2), grid)
        cursor = driver.machine.machine.open("result")
        listed = 0
        while rows := len(cursor.fetch(1000)[0]):
            listed += rows
        assert listed == side**3
        points[count] = float(driver.machine.machine.steps + cursor.steps)
    assert slope(points) <= 1.5 + TOLERANCE, points


def test_steps_repeat_exactly() -> None:
    first, second = (driven(2, Fraction(1, 2), growing_hubs(256, Fraction(1, 2)))[0] for _ in range(2))
    assert first.machine.machine.steps == second.machine.machine.steps
