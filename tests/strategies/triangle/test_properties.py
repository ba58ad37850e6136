"""What must hold on any stream of updates (triangle.md 5, 6, 12): results, invariants, ceilings, and their spacing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from random import Random

import pytest

from everview.query.conjunctive import Semantics
from tests.scale import scaled
from tests.strategies.machines import Both, Kernel
from tests.strategies.triangle.driver import EPSILONS, HALF, Driver, Update

ARITIES = [1, 2, 3]
MANY = [*EPSILONS, Fraction(1, 3)]


def stream(random: Random, length: int, values: int = 8) -> Iterator[Update]:
    """Skewed inserts and deletes of up to 3 copies, in phases that grow and shrink; value 0 is a hub."""
    known = {relation: Counter[tuple[int, int]]() for relation in "RST"}
    for i in range(length):
        relation = random.choice("RST")
        have = known[relation]
        if have and random.random() < (0.3 if i % (length // 2) < length // 3 else 0.8):
            edge = random.choice(sorted(have))
            change = -random.randint(1, have[edge])
        else:
            edge = (random.choice([0, random.randrange(values)]), random.choice([0, random.randrange(values)]))
            change = random.randint(1, 3)
        have[edge] += change
        if not have[edge]:
            del have[edge]
        yield relation, *edge, change


@pytest.mark.parametrize("epsilon", MANY, ids=str)
@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize("arity", ARITIES)
def test_random_streams(arity: int, semantics: Semantics, epsilon: Fraction) -> None:
    """Kernel and reference agree; results, feeds, pieces and I1 to I8 hold; the feed opens and closes on the way.

    For sets there is a database before the first update.
    """
    random = Random(f"{arity} {epsilon}")
    driver = Driver(arity, epsilon, Both, semantics)
    if semantics is Semantics.SET:
        edges = sorted({(random.choice([0, random.randrange(8)]), random.randrange(8)) for _ in range(9)})
        driver.load(R=edges, S=[edge[::-1] for edge in edges], T=edges[:6])
        driver.check()
    for i, update in enumerate(stream(random, scaled(100, 40))):
        if random.random() < 0.05:
            driver.switch(not driver.with_deltas)
        driver.update(*update)
        if i % 5 == 0:
            driver.check()
    driver.check()


@pytest.mark.parametrize("arity", ARITIES)
def test_all_that_comes_may_go(arity: int) -> None:
    """Every table is empty again, but for the row of N."""
    random = Random(arity)
    driver = Driver(arity, HALF)
    edges = sorted({(r, random.randrange(6), random.randrange(6)) for r in "RST" for _ in range(25)})
    driver.run((*edge, 2) for edge in edges)
    random.shuffle(edges)
    driver.run((*edge, -2) for edge in edges)
    assert driver.result() == {}
    assert driver.state()["size"] == driver.state()["heavy"] == 0
    for table in driver.maintained.program.tables:
        assert table.name == "parts" or driver.machine.dump(table.name) == []


def test_results_do_not_depend_on_the_order_or_the_corners() -> None:
    """The same edges in any order; a listing summed up is what the others have (spec 21: across engines)."""
    random = Random(21)
    edges = [(r, random.choice([0, random.randrange(9)]), random.randrange(9), 1) for r in "RST" for _ in range(60)]
    results = {}
    for arity in ARITIES:
        for epsilon in (Fraction(1, 4), Fraction(3, 4)):
            random.shuffle(edges)
            driver = Driver(arity, epsilon, Kernel)
            driver.run(edges)
            results[arity, epsilon] = driver.result()
    listed = results[3, Fraction(1, 4)]
    for (arity, _), result in results.items():
        summed: Counter[tuple[int, ...]] = Counter()
        for corners, copies in listed.items():
            summed[corners[:arity]] += copies
        assert dict(summed) == result


@pytest.mark.parametrize("arity", ARITIES)
def test_updates_are_right_whatever_is_heavy(arity: int) -> None:
    """Statuses that have nothing to do with degrees: views equal their definitions, so updates do not rely on them."""
    driver = Driver(arity, HALF, Kernel)
    random = Random(f"statuses {arity}")
    turns = [p for p in driver.maintained.program.procedures if p.name.endswith((" heavy", " light"))]
    assert len(turns) == 2 * (3 + len(driver.design.double))
    for update in stream(random, scaled(80, 40), 6):
        driver.update(*update)
        for _ in range(2):
            turn = random.choice(turns)
            driver.machine.apply(turn.name, [[random.randrange(6)] for _ in turn.parameters])
        driver.check_views()
        assert driver.result() == driver.expected()


CEILING = {3: Fraction(7, 2), 2: Fraction(11, 2), 1: Fraction(7)}


@pytest.mark.parametrize("epsilon", [Fraction(1, 4), HALF, Fraction(3, 4)], ids=str)
@pytest.mark.parametrize("arity", ARITIES)
def test_loops_are_as_short_as_proven(arity: int, epsilon: Fraction) -> None:
    """Steps of an update that moves nothing, against spec 21's ceiling of loop iterations, each of a few steps."""
    driver = Driver(arity, epsilon, Kernel)
    random = Random(5)
    worst = 0.0
    size = scaled(1500, 500)
    for i in range(size):
        relation = random.choice("RST")
        edge = random.choice([(0, i), (i, 0), (random.randrange(30), random.randrange(30))])
        if edge in driver.relations["RST".index(relation)]:
            continue
        before, steps = driver.state(), driver.machine.machine.steps
        driver.update(relation, *edge, 1)
        after = driver.state()
        if all(before[c] == after[c] for c in ("majors", "minors")) and after["size"] > size // 4:
            used = driver.machine.machine.steps - steps
            worst = max(worst, used / float(after["N"]) ** float(max(epsilon, 1 - epsilon)))
    assert 0 < worst <= 40 * CEILING[arity]


def test_rebalances_keep_their_distance() -> None:
    """At least N/4 updates between majors; more than θ/2 updates of a value before it moves."""
    driver = Driver(3, HALF, Kernel)
    random = Random(12)
    last, base = 0, 1
    for i, update in enumerate(stream(random, scaled(1500, 600), 40)):
        before = driver.state()
        driver.update(*update)
        after = driver.state()
        if after["majors"] > before["majors"]:
            assert i - last >= base // 4 - 1
            last, base = i, after["N"]
            assert after["minors"] == before["minors"]


def test_a_value_moves_only_after_many_updates_of_it() -> None:
    """More than θ/2 updates that touch a value lie between two of its moves, or a major and a move."""
    driver = Driver(3, HALF, Kernel)
    touched = 0
    moves = 0
    for i in range(60):
        for relation in "RST":
            driver.update(relation, i + 100, i + 200, 1)
    for _ in range(3):
        for change, values in ((1, range(60)), (-1, range(59, -1, -1))):
            for value in values:
                before = driver.state()
                driver.update("R", 0, value, change)
                touched += 1
                after = driver.state()
                if after["majors"] > before["majors"]:
                    touched = 0
                elif after["minors"] > before["minors"]:
                    assert 2 * touched > float(after["N"]) ** 0.5
                    touched, moves = 0, moves + 1
    assert moves >= 4
