"""The worked examples of counts: totals, bases, rebalances and moved rows (triangle.md 20)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import pytest

from tests.strategies.triangle.counting import CORNERS, EPSILONS, HALF, MAKES, Driver, Row, over, path, shared

R, S, T = range(3)
KINDS = ("heavy", "single", "double")


def triangle(kind: str, epsilon: Fraction = HALF) -> Driver:
    return Driver(over(CORNERS, kind)(epsilon, [])[0])


@pytest.mark.parametrize("kind", KINDS)
def test_growth_and_shrinking(kind: str) -> None:
    """spec 20.1."""
    steps = [
        (R, 1, 1, 1, 2, 0), (S, 1, 1, 1, 4, 0), (T, 1, 1, 1, 4, 1), (R, 1, 2, 1, 8, 1), (S, 2, 1, 1, 8, 2),
        (T, 1, 1, 1, 8, 4), (R, 1, 1, -1, 8, 2), (S, 2, 1, -1, 8, 0), (R, 1, 2, -1, 8, 0), (S, 1, 1, -1, 3, 0),
        (T, 1, 1, -2, 3, 0),
    ]  # fmt: skip
    driver = triangle(kind)
    for j, x, y, change, base, total in steps:
        driver.update(j, (x, y), change)
        assert (driver.state()["N"], driver.total()) == (base, [total])
    driver = triangle(kind)
    bases = []
    for change in (1, -1):
        for i in range(1, 10):
            driver.update(R, (i, 1), change)
            bases.append(driver.state()["N"])
    assert bases == [2, 4, 4, 8, 8, 8, 8, 16, 16, 16, 16, 16, 16, 16, 7, 7, 7, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_multiplicities(kind: str) -> None:
    """spec 20.2."""
    driver = triangle(kind)
    found = []
    for j, row, change in (
        (R, (0, 1), 2),
        (S, (1, 2), 3),
        (T, (2, 0), 5),
        (R, (0, 1), -1),
        (S, (1, 2), 4),
        (T, (2, 0), -5),
    ):
        driver.update(j, row, change)
        found.append(driver.total()[0])
    assert found == [0, 0, 30, 15, 35, 0]


def loaded(kind: str, *relations: Sequence[Row], epsilon: Fraction = HALF) -> Driver:
    driver = triangle(kind, epsilon)
    for j, rows in enumerate(relations):
        for row in rows:
            driver.update(j, row, 1)
    driver.machine.apply("rebase", [[0]])
    return driver


def test_one_value_becomes_heavy_and_light() -> None:
    """spec 20.3, singly partitioned."""
    driver = loaded("single", [(1, i) for i in range(1, 7)], [(i, 1) for i in range(1, 13)], [(1, 1), (1, 2)])
    before = driver.state()
    assert (before["N"], before["heavy"], driver.total()) == (41, 0, [6])
    for i in (7, 8, 9):
        driver.update(R, (1, i), 1)
        assert (driver.total(), driver.state()["heavy"]) == ([i], 0)
    driver.update(R, (1, 10), 1)
    state = driver.state()
    assert (state["minors"] - before["minors"], state["moved"] - before["moved"]) == (1, 10)
    assert (driver.total(), [driver.view(f"pairs {j}") for j in range(3)]) == ([10], [{(1, 1): 10}, {}, {}])
    for i in range(10, 4, -1):
        driver.update(R, (1, i), -1)
        assert (driver.view("pairs 0"), driver.total()) == ({(1, 1): i - 1}, [i - 1])
    driver.update(R, (1, 4), -1)
    state = driver.state()
    assert (state["minors"] - before["minors"], state["moved"] - before["moved"]) == (2, 13)
    assert (driver.view("pairs 0"), driver.total()) == ({}, [3])


@pytest.mark.parametrize("kind", KINDS)
def test_hub_toggle(kind: str) -> None:
    """spec 20.4: what the hubs have in common is read, not walked."""
    driver = loaded(kind, [], [(100, i) for i in range(10)], [(i, 200) for i in range(10)])
    assert driver.state()["N"] == 41
    view = driver.view("heavy pairs 0" if kind == "heavy" else "pairs 1")
    assert view == {(200, 100) if kind == "heavy" else (100, 200): 10}
    totals = []
    for j, row, change in ((R, (200, 100), 1), (R, (200, 100), 2), (S, (100, 0), -1), (R, (200, 100), -3)):
        driver.update(j, row, change)
        totals.append(driver.total()[0])
    assert totals == [10, 30, 27, 0]


def test_part_of_a_new_row_is_by_its_values() -> None:
    """spec 20.8."""
    driver = loaded("double", [*((0, i) for i in range(7)), *((i, i) for i in range(100, 113))])
    assert (driver.state()["N"], driver.heavy(0), driver.heavy(1)) == (41, {(0,)}, set())
    before = driver.state()
    for i, change in ((7, 1), (8, 1), (0, -1), (1, -1), (2, -1), (3, -1), (8, -1)):
        driver.update(R, (0, i), change)
        driver.check_parts()
        assert driver.heavy(0) == {(0,)}
    driver.update(R, (0, 7), -1)
    driver.check_parts()
    assert driver.heavy(0) == set()
    assert driver.state()["moved"] - before["moved"] == 3


DENSE = {"single": (6, 21, [4, 4, 0]), "double": (9, 33, [4, 4, 4, 4, 0, 0])}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(1, 4), HALF, Fraction(3, 4), Fraction(1)])
def test_dense_grid(kind: str, epsilon: Fraction) -> None:
    """spec 20.10."""
    driver = triangle(kind, epsilon)
    for j in range(3):
        for row in product(range(4), repeat=2):
            driver.update(j, row, 1)
    state = driver.state()
    assert (driver.total(), state["N"], state["majors"]) == ([64], 64, 6)
    if kind == "heavy":
        return
    minors, moved, heavy = DENSE[kind]
    if epsilon == Fraction(1, 4):
        assert (state["minors"], state["moved"]) == (minors, moved)
        assert [len(driver.heavy(i)) for i in range(len(heavy))] == heavy
    elif epsilon > 0:
        assert (state["minors"], state["heavy"]) == (0, 0)


@pytest.mark.parametrize("kind", ["single", "double"])
def test_dense_grid_loaded(kind: str) -> None:
    """spec 20.10: in bulk N = 97, and everything is heavy."""
    grid = list(product(range(4), repeat=2))
    driver = loaded(kind, grid, grid, grid, epsilon=Fraction(1, 4))
    assert (driver.state()["N"], driver.total()) == (97, [64])
    assert all(len(driver.heavy(i)) == 4 for i in range(len(driver.program.statuses)))


def rotating(driver: Driver, one_table: bool = False) -> list[tuple[int, int]]:
    """The rotating hub of spec 20.11; (minors, moved) after each phase."""
    found = []
    for h in range(4):
        for j in range(40):
            changes = [(h, j, 1)]
            changes += [(j, h, 1)] * (j != h)
            changes += [(h - 1, j, -1)] * (h > 0)
            changes += [(j, h - 1, -1)] * (h > 0 and j != h - 1)
            for k in range(1 if one_table else 3):
                for x, y, change in changes:
                    driver.update(k, (x, y), change)
        assert driver.total() == [118]
        state = driver.state()
        found.append((state["minors"], state["moved"]))
    return found


TRACES = {
    ("single", "0"): [(0, 0)] * 4,
    ("double", "0"): [(0, 0)] * 4,
    ("single", "1/4"): [(0, 0), (6, 21), (12, 42), (18, 63)],
    ("double", "1/4"): [(1, 3), (13, 45), (25, 87), (37, 129)],
    ("single", "1/3"): [(2, 10), (8, 49), (14, 88), (20, 127)],
    ("double", "1/3"): [(5, 25), (17, 103), (29, 181), (41, 259)],
    ("single", "1/2"): [(2, 34), (8, 127), (14, 220), (20, 313)],
    ("double", "1/2"): [(5, 85), (17, 271), (29, 457), (41, 643)],
    ("single", "3/4"): [(0, 0)] * 4,
    ("double", "3/4"): [(0, 0)] * 4,
    ("single", "1"): [(0, 0)] * 4,
    ("double", "1"): [(0, 0)] * 4,
}


@pytest.mark.parametrize(("kind", "epsilon"), TRACES)
def test_rotating_hub(kind: str, epsilon: str) -> None:
    """spec 20.11: exactly as many rebalances and moved rows."""
    driver = triangle(kind, Fraction(epsilon))
    assert rotating(driver) == TRACES[kind, epsilon]
    state = driver.state()
    assert (state["N"], state["majors"], state["size"]) == (256, 8, 237)


def test_rotating_hub_of_one_edge_table() -> None:
    driver = Driver(shared(HALF, [])[0])
    rotating(driver, one_table=True)
    assert (driver.state()["size"], driver.state()["N"]) == (79, 128)


def test_complete_graph() -> None:
    """spec 20.12: the totals with one edge table, N and majors with three copies of it."""
    edges = [(a, b) for a, b in product(range(1, 5), repeat=2) if a != b]
    totals = [0, 0, 0, 0, 0, 0, 3, 6, 6, 12, 18, 24]
    one = Driver(shared(HALF, [])[0])
    copies = triangle("single")
    for edge, total in zip(edges, totals, strict=True):
        one.update(0, edge, 1)
        for j in range(3):
            copies.update(j, edge, 1)
        assert one.total() == copies.total() == [total]
    state = copies.state()
    assert (state["size"], state["N"], state["majors"], state["minors"]) == (36, 64, 6, 0)
    for edge in ((1, 2), (2, 1)):
        one.update(0, edge, -1)
    assert one.total() == [12]


@pytest.mark.parametrize("kind", KINDS)
def test_online_vector_matrix_vector(kind: str) -> None:
    """spec 20.13."""
    driver = triangle(kind)
    for i, row in enumerate(["101", "010", "110"]):
        for j, cell in enumerate(row):
            if cell == "1":
                driver.update(S, (i, j), 1)
    answers = []
    for u, v in (("100", "010"), ("010", "010"), ("001", "001"), ("110", "100")):
        for j, vector in ((R, u), (T, v)):
            for i, cell in enumerate(vector):
                row = (9, i) if j == R else (i, 9)
                change = int(cell) - int(row in driver.rows[j])
                if change:
                    driver.update(j, row, change)
        answers.append(int(driver.total()[0] > 0))
    assert answers == [0, 1, 0, 1]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_extensions(epsilon: Fraction) -> None:
    """spec 20.14: Loomis-Whitney of degree 4, and a path of four relations."""
    driver = Driver(MAKES["Loomis-Whitney 4"](epsilon, [])[0])
    for j in range(4):
        for row in product((1, 2), repeat=3):
            driver.update(j, row, 1)
    assert driver.total() == [16]
    driver.update(0, (1, 1, 1), -1)
    assert driver.total() == [14]
    driver = Driver(path(epsilon, [])[0])
    for b, copies in ((1, 2),):
        driver.update(0, (b,), copies)
    for row in ((1, 1), (1, 2)):
        driver.update(1, row, 1)
    for row in ((1, 1), (2, 1), (2, 2)):
        driver.update(2, row, 1)
    for d, copies in ((1, 1), (2, 2)):
        driver.update(3, (d,), copies)
    assert driver.total() == [8]
