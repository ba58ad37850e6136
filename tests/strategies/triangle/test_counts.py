"""Counts by heavy and light keys under random updates: totals, what is told, parts and views, against brute force."""

from __future__ import annotations

import random

import pytest

from tests.scale import scaled
from tests.strategies.machines import Both, Kernel
from tests.strategies.triangle.counting import EPSILONS, HALF, MAKES, Driver


@pytest.mark.parametrize("name", MAKES)
def test_random_updates_with_copies_loops_and_sums(name: str) -> None:
    for case in range(scaled(6)):
        draw = random.Random(f"{name} {case}")
        epsilon, summed = draw.choice(EPSILONS), draw.choice([[], [0], [0, 0] if name == "one edge table" else [0, 1]])
        program, words, roles = MAKES[name](epsilon, summed)
        driver = Driver(program, Both if case % 8 == 0 else Kernel, roles)
        domain = draw.choice([2, 3] if len(words[0]) > 2 else [3, 5, 9])
        steps = 60 if case % 8 == 0 else 120
        for step in range(steps):
            driver.tells = case % 2 == 0 or step > steps // 2
            j = draw.randrange(len(program.relations))
            rows, sums = driver.rows[j], len(program.relations[j].sums)
            if not rows or draw.random() < (0.7 if step < steps * 0.6 else 0.3):
                row = tuple(min(draw.randrange(domain), draw.randrange(domain)) for _ in program.relations[j].words)
                driver.update(j, row, draw.choice([1, 1, 2]), [draw.randint(-3, 3) for _ in range(sums)])
            else:
                row = draw.choice(list(rows))
                whole = draw.random() < 0.6 or rows[row][0] == 1
                taken = [-s for s in rows[row][1:]] if whole else [draw.randint(-2, 2) for _ in range(sums)]
                driver.update(j, row, -rows[row][0] if whole else -1, taken)
            driver.check_parts()
            if step % 6 == 5:
                wanted = driver.expected(words, summed)
                assert driver.total() == driver.told == wanted
                driver.check_views()
        driver.empty()


@pytest.mark.parametrize(
    "name", ["one edge table", "heavy, triangle", "single, triangle", "double, triangle", "4-path"]
)
def test_numbers_of_several_words(name: str) -> None:
    """A product of copies has more than 64 bits, and so have views and totals."""
    draw = random.Random(name)
    program, words, roles = MAKES[name](HALF, [0])
    driver = Driver(program, Both, roles)
    for _ in range(40):
        j = draw.randrange(len(program.relations))
        row = tuple(draw.choice([0, 0, 1, 2]) for _ in program.relations[j].words)
        sums = [draw.randint(-(2**50), 2**50) for _ in program.relations[j].sums]
        driver.update(j, row, draw.randint(1, 2**50), sums)
    wanted = driver.expected(words, [0])
    assert wanted[0] > 2**100
    assert driver.total() == driver.told == wanted
    driver.check_views()
    driver.empty()
