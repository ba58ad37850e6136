"""Counts by heavy and light keys under random updates: totals, what is told, parts and views, against brute force."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import pytest

from everview.strategies.triangle.count_program import Status
from tests.scale import scaled
from tests.strategies.machines import Both, Kernel
from tests.strategies.triangle.counting import CORNERS, EPSILONS, HALF, MAKES, WORDS, Driver, Measure, Row, over
from tests.strategies.triangle.driver import Driver as Listed

FEW: list[list[Measure]] = [[], [{0: 0}], [{0: 0}, {1: 0}], [{0: 0, 1: 0, 2: 0}], [{0: 0, 1: 0}, {0: 0, 2: 1}, {2: 1}]]


def random_measures(draw: random.Random, atoms: int) -> list[Measure]:
    """Sums over products of any atoms' numbers, some of them alike over some relations."""
    measures = [{atom: draw.randrange(len(WORDS)) for atom in range(atoms) if draw.random() < 0.6} for _ in range(3)]
    return [m for m in measures if m]


def relations_in(name: str) -> int:
    """How many relations a count of this kind has."""
    return 4 if name in ("4-path", "Loomis-Whitney 4") else 3


@pytest.mark.parametrize("name", MAKES)
def test_random_updates_with_copies_loops_and_sums(name: str) -> None:
    for case in range(scaled(6)):
        draw = random.Random(f"{name} {case}")
        epsilon, measures = draw.choice(EPSILONS), draw.choice([*FEW, random_measures(draw, relations_in(name))])
        program, words, roles = MAKES[name](epsilon, measures)
        driver = Driver(program, Both if case % 8 == 0 else Kernel, roles, measures)
        domain = draw.choice([2, 3] if len(words[0]) > 2 else [3, 5, 9])
        steps = 60 if case % 8 == 0 else 120
        for step in range(steps):
            driver.tells = case % 2 == 0 or step > steps // 2
            j = draw.randrange(len(program.relations))
            rows = driver.rows[j]
            if not rows or draw.random() < (0.7 if step < steps * 0.6 else 0.3):
                row = tuple(min(draw.randrange(domain), draw.randrange(domain)) for _ in program.relations[j].words)
                driver.update(j, row, draw.choice([1, 1, 2]), [draw.randint(-3, 3) for _ in range(len(WORDS))])
            else:
                row = draw.choice(list(rows))
                whole = draw.random() < 0.6 or rows[row][0] == 1
                taken = [-s for s in rows[row][1:]] if whole else [draw.randint(-2, 2) for _ in range(len(WORDS))]
                driver.update(j, row, -rows[row][0] if whole else -1, taken)
            driver.check_parts()
            if step % 6 == 5:
                wanted = driver.expected(words)
                assert driver.total() == driver.told == wanted
                driver.check_views()
        driver.empty()


@pytest.mark.parametrize(
    "name", ["one edge table", "heavy, triangle", "single, triangle", "double, triangle", "4-path"]
)
def test_numbers_of_several_words(name: str) -> None:
    """A product of copies has more than 64 bits, and so have views and totals."""
    draw = random.Random(name)
    measures = [{0: 0}, {0: 1, 1: 1, 2: 1}]
    program, words, roles = MAKES[name](HALF, measures)
    driver = Driver(program, Both, roles, measures)
    for _ in range(40):
        j = draw.randrange(len(program.relations))
        row = tuple(draw.choice([0, 0, 1, 2]) for _ in program.relations[j].words)
        numbers = [draw.randint(-(2**50), 2**50), draw.randint(-(2**100), 2**100)]
        driver.update(j, row, draw.randint(1, 2**50), numbers)
    wanted = driver.expected(words)
    assert wanted[0] > 2**100
    assert driver.total() == driver.told == wanted
    driver.check_views()
    driver.empty()


def keys_of_either_status(driver: Driver) -> Iterator[tuple[Status, Row]]:
    """The keys that hysteresis lets be heavy or light."""
    state, relations = driver.state(), driver.program.relations
    for status in driver.program.statuses:
        rows = driver.rows[relations.index(status.stored)]
        for key, degree in Counter(status.key(row) for row in rows).items():
            if state["heavy_until"] <= degree < state["light_until"]:
                yield status, key


@pytest.mark.parametrize("name", [n for n in MAKES if not n.startswith("double") and n != "4-path"])
def test_updates_are_right_whatever_may_be_heavy(name: str) -> None:
    """Any status that hysteresis allows: views equal their definitions, and so do totals (spec 21)."""
    draw, flips = random.Random(f"statuses {name}"), 0
    program, words, roles = MAKES[name](HALF, [])
    driver = Driver(program, Kernel, roles)
    for _ in range(scaled(60, 30)):
        j = draw.randrange(len(program.relations))
        row = tuple(min(draw.randrange(4), draw.randrange(4)) for _ in program.relations[j].words)
        driver.update(j, row, draw.choice([1, 1, 2]) if row not in driver.rows[j] else -driver.rows[j][row][0])
        found = list(keys_of_either_status(driver))
        for status, key in draw.sample(found, min(2, len(found))):
            driver.machine.apply(f"{status.table}.flip", [[word] for word in key])
            flips += 1
        driver.check_views()
        assert driver.total() == driver.expected(words)
    assert flips > 20


def test_a_listing_summed_up_is_the_count() -> None:
    """Across engines (spec 21): at all times, what is listed has as many copies as every kind of count gives."""
    draw = random.Random(21)
    counts = [Driver(over(CORNERS, kind)(HALF, [])[0]) for kind in ("heavy", "single", "double")]
    listed = [Listed(arity, Fraction(1, 4), Kernel) for arity in (1, 2, 3)]
    for step in range(90):
        j, row = draw.randrange(3), (draw.choice([0, draw.randrange(6)]), draw.choice([0, draw.randrange(6)]))
        change = -counts[0].rows[j][row][0] if row in counts[0].rows[j] else draw.randint(1, 3)
        for driver in counts:
            driver.update(j, row, change)
        for engine in listed:
            engine.update("RST"[j], *row, change)
        if step % 10 == 9:
            totals = {driver.total()[0] for driver in counts} | {sum(e.result().values()) for e in listed}
            assert len(totals) == 1


CEILING = {"single": 7, "double": 9}


@pytest.mark.parametrize("epsilon", [Fraction(1, 4), HALF, Fraction(3, 4)], ids=str)
@pytest.mark.parametrize("kind", CEILING)
def test_loops_are_as_short_as_proven(kind: str, epsilon: Fraction) -> None:
    """Steps of an update that moves nothing, against spec 21's ceiling of loop iterations, each of a few steps."""
    driver, draw, worst = Driver(over(CORNERS, kind)(epsilon, [])[0]), random.Random(5), 0.0
    size = scaled(1200, 500)
    for i in range(size):
        j, row = draw.randrange(3), draw.choice([(0, i), (i, 0), (draw.randrange(30), draw.randrange(30))])
        if row in driver.rows[j]:
            continue
        before, steps = driver.state(), driver.machine.machine.steps
        driver.update(j, row, 1)
        after = driver.state()
        if all(before[c] == after[c] for c in ("majors", "minors")) and after["size"] > size // 4:
            used = driver.machine.machine.steps - steps
            worst = max(worst, used / float(after["N"]) ** float(max(epsilon, 1 - epsilon)))
    assert 0 < worst <= 20 * CEILING[kind]


def test_rebalances_keep_their_distance() -> None:
    """At least N/4 updates between majors; more than θ/2 updates of a value between its moves (spec 13)."""
    driver = Driver(over(CORNERS, "single")(HALF, [])[0])
    last, base, touched, majors, moves = 0, 1, 0, 0, 0
    updates = [(j, (i + 100, i + 200), 1) for i in range(60) for j in range(3)]
    for _ in range(3):
        updates += [(0, (0, i), 1) for i in range(60)] + [(0, (0, i), -1) for i in range(59, -1, -1)]
    updates += [(j, (i + 100, i + 200), -1) for i in range(60) for j in range(3)]
    for i, (j, row, change) in enumerate(updates):
        before = driver.state()
        driver.update(j, row, change)
        after = driver.state()
        touched += row[0] == 0
        if after["majors"] > before["majors"]:
            assert i - last >= base // 4 - 1
            assert after["minors"] == before["minors"]
            last, base, touched, majors = i, after["N"], 0, majors + 1
        elif after["minors"] > before["minors"]:
            assert 2 * touched > float(after["N"]) ** 0.5
            touched, moves = 0, moves + 1
    assert majors >= 8
    assert moves >= 4
