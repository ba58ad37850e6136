"""The worked examples (triangle.md 20), with exact counts of rebalances where these are given."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import pytest

from tests.strategies.machines import Kernel
from tests.strategies.triangle.driver import HALF, Driver, Update

ARITIES = [1, 2, 3]


def total(driver: Driver) -> int:
    return sum(driver.result().values())


@pytest.mark.parametrize("arity", ARITIES)
def test_growth_shrinkage_and_multiplicities(arity: int) -> None:
    """Vector 20.1."""
    driver = Driver(arity)
    steps = [
        ("R", 1, 1, 1, 2, 0),
        ("S", 1, 1, 1, 4, 0),
        ("T", 1, 1, 1, 4, 1),
        ("R", 1, 2, 1, 8, 1),
        ("S", 2, 1, 1, 8, 2),
        ("T", 1, 1, 1, 8, 4),
        ("R", 1, 1, -1, 8, 2),
        ("S", 2, 1, -1, 8, 0),
        ("R", 1, 2, -1, 8, 0),
        ("S", 1, 1, -1, 3, 0),
        ("T", 1, 1, -2, 3, 0),
    ]
    for relation, x, y, change, n, count in steps:
        driver.update(relation, x, y, change)
        driver.check()
        assert (driver.state()["N"], total(driver)) == (n, count)


@pytest.mark.parametrize("arity", ARITIES)
def test_multiplicities_multiply(arity: int) -> None:
    """Vector 20.2; a table refuses to delete more than there is before any view sees it."""
    driver = Driver(arity)
    found = []
    for update in [("R", 1, 2, 2), ("S", 2, 3, 3), ("T", 3, 1, 5), ("R", 1, 2, -1), ("S", 2, 3, 4), ("T", 3, 1, -5)]:
        driver.update(*update)
        driver.check()
        found.append(total(driver))
    assert found == [0, 0, 30, 15, 35, 0]


def test_one_value_is_promoted_and_demoted() -> None:
    """Vector 20.3, for the listing."""
    driver = Driver(3)
    driver.load(R=[(1, i) for i in range(1, 7)], S=[(i, 1) for i in range(1, 13)], T=[(1, 1), (1, 2)])
    state = driver.state()
    assert (state["N"], state["heavy_from"], state["heavy_until"], state["light_until"]) == (41, 7, 4, 10)
    assert total(driver) == 6
    for j in (7, 8, 9):
        driver.update("R", 1, j, 1)
        assert (driver.state()["minors"], total(driver)) == (state["minors"], j)
    driver.update("R", 1, 10, 1)
    assert (driver.state()["minors"], driver.state()["moved"]) == (state["minors"] + 1, state["moved"] + 10)
    assert driver.part("R", "H") == 10
    assert driver.view("VH_RS") == {(1, 1): 10}
    assert driver.view("V_ST") == driver.view("V_TR") == {}
    for j in range(10, 4, -1):
        driver.update("R", 1, j, -1)
        assert driver.view("VH_RS") == {(1, 1): j - 1}
        assert total(driver) == j - 1
        driver.check()
    driver.update("R", 1, 4, -1)
    assert (driver.state()["minors"], driver.state()["moved"]) == (state["minors"] + 2, state["moved"] + 13)
    assert driver.view("V_RS") == {}
    assert total(driver) == 3
    driver.check()


@pytest.mark.parametrize("arity", ARITIES)
def test_a_hub_is_toggled_without_a_loop(arity: int) -> None:
    """Vector 20.4."""
    a, b = 100, 200
    driver = Driver(arity)
    driver.load(S=[(b, i) for i in range(10)], T=[(i, a) for i in range(10)])
    assert driver.state()["N"] == 41
    assert driver.part("S", "H") == driver.part("T", "L") == 10
    assert driver.view("VH_ST" if arity == 3 else "V_ST") == {(a, b): 10}
    if arity == 3:
        assert len(driver.view("V_ST")) == 10
    driver.update("R", a, b, 1)
    assert driver.view("V^#HL") == {(a, b)[: min(arity, 2)]: 10}
    assert total(driver) == 10
    assert driver.part("R", "L") == 1
    driver.check()
    driver.update("R", a, b, 2)
    assert total(driver) == 30
    driver.update("S", b, 0, -1)
    assert total(driver) == 27
    driver.check()
    driver.update("R", a, b, -3)
    assert driver.result() == {}
    driver.check()


def test_pairs_are_in_several_buckets() -> None:
    """Vector 20.5: the tree H(LH)#."""
    a, c0, c1 = 50, 60, 61
    driver = Driver(2)
    driver.load(R=[(a, i) for i in range(10)], S=[(i, c) for i in range(10) for c in (c0, c1)], T=[(c0, a), (c1, a)])
    assert driver.state()["N"] == 65
    assert driver.parts() == {"R.H": 10, "S.LH": 20, "T.LL": 2}
    assert len(driver.view("V_RS")) == 20
    both = {(a, c0): 10, (a, c1): 10}
    assert driver.view("VH_RS") == driver.view("V^H(LH)#") == both
    assert driver.view("ROOT_RS") == {(c0,): 10, (c1,): 10}
    assert driver.result() == {(a, i): 2 for i in range(10)}
    driver.update("T", c0, a, -1)
    assert driver.view("V^H(LH)#") == {(a, c1): 10}
    assert driver.view("ROOT_RS") == {(c1,): 10}
    assert driver.view("VH_RS") == both
    assert driver.result() == {(a, i): 1 for i in range(10)}
    driver.update("T", c1, a, 4)
    assert driver.view("V^H(LH)#") == {(a, c1): 50}
    assert driver.view("ROOT_RS") == {(c1,): 50}
    assert driver.result() == {(a, i): 5 for i in range(10)}
    driver.update("T", c1, a, -5)
    assert driver.view("V^H(LH)#") == driver.view("ROOT_RS") == driver.result() == {}
    assert len(driver.view("V_RS")) == 20
    driver.check()


def test_the_other_tree_of_edges() -> None:
    """Vector 20.6: the tree L#(HL)."""
    b, c0, c1 = 50, 60, 61
    driver = Driver(2)
    driver.load(R=[(i, b) for i in range(10)], S=[(b, c0), (b, c1)], T=[(c, i) for i in range(10) for c in (c0, c1)])
    assert driver.state()["N"] == 65
    assert driver.parts() == {"R.L": 10, "S.LL": 2, "T.HL": 20}
    assert driver.view("VH_TR") == {(b, c0): 10, (b, c1): 10}
    assert driver.view("ROOT_TR") == {(c0,): 10, (c1,): 10}
    assert driver.result() == {(i, b): 2 for i in range(10)}
    driver.update("S", b, c0, 2)
    assert driver.view("V^L#(HL)")[b, c0] == 30
    assert driver.view("ROOT_TR") == {(c0,): 30, (c1,): 10}
    assert driver.result() == {(i, b): 4 for i in range(10)}
    driver.check()


def test_the_tree_of_vertices() -> None:
    """Vector 20.7: the tree (LH)#(HL)."""
    b0, b1, c0, c1 = 50, 51, 60, 61
    driver = Driver(1)
    driver.load(
        R=[(i, b) for i in range(10) for b in (b0, b1)],
        S=[(b, c) for b in (b0, b1) for c in (c0, c1)],
        T=[(c, i) for i in range(10) for c in (c0, c1)],
    )
    assert driver.state()["N"] == 89
    assert driver.parts() == {"R.LH": 20, "S.L": 4, "T.HL": 20}
    four = {(b, c): 10 for b in (b0, b1) for c in (c0, c1)}
    assert len(driver.view("V_TR")) == 40
    assert driver.view("VH_TR") == driver.view("V^(LH)#(HL)") == four
    assert driver.result() == {(i,): 4 for i in range(10)}
    driver.update("S", b0, c0, -1)
    assert (b0, c0) not in driver.view("V^(LH)#(HL)")
    assert driver.view("VH_TR") == four
    assert driver.result() == {(i,): 3 for i in range(10)}
    driver.update("S", b1, c1, 9)
    assert driver.view("V^(LH)#(HL)")[b1, c1] == 100
    assert driver.result() == {(i,): 12 for i in range(10)}
    driver.update("R", 0, b0, -1)
    assert len(driver.view("V_TR")) == 38
    assert driver.view("VH_TR")[b0, c0] == driver.view("VH_TR")[b0, c1] == driver.view("V^(LH)#(HL)")[b0, c1] == 9
    assert driver.result() == {(0,): 11, **{(i,): 12 for i in range(1, 10)}}
    driver.check()


def test_parts_are_chosen_by_values() -> None:
    """Vector 20.8, with R of the numbers by vertex: a new edge of a heavy value goes where the value's edges are."""
    driver = Driver(1)
    x = 99
    driver.load(R=[*((x, i) for i in range(7)), *((100 + i, 200 + i) for i in range(13))])
    assert driver.state()["N"] == 41
    assert driver.parts() == {"R.HL": 7, "R.LL": 13}
    for j in (7, 8):
        driver.update("R", x, j, 1)
    assert driver.parts() == {"R.HL": 9, "R.LL": 13}
    for j in (0, 1, 2, 3, 8):
        driver.update("R", x, j, -1)
        driver.check()
    assert driver.part("R", "HL") == 4
    before = driver.state()
    driver.update("R", x, 7, -1)
    after = driver.state()
    assert (after["minors"] - before["minors"], after["moved"] - before["moved"]) == (1, 3)
    assert driver.parts() == {"R.LL": 16}
    driver.check()


def test_a_union_of_buckets_gives_every_pair() -> None:
    """Vector 20.9: the union as it was printed stops after the first 12 pairs."""
    driver = Driver(2)
    two = [(i, c) for i in range(12) for c in (101, 102)]
    driver.load(
        R=[(1, i) for i in range(24)],
        S=[*two, *((i, 103) for i in range(12, 24))],
        T=[(c, 1) for c in (101, 102, 103)],
    )
    assert driver.state()["N"] == 127
    assert driver.parts() == {"R.H": 24, "S.LH": 36, "T.LL": 3}
    assert set(driver.view("ROOT_RS")) == {(101,), (102,), (103,)}
    assert driver.result() == {(1, i): 2 if i < 12 else 1 for i in range(24)}


GRID = [(i, j) for i in range(4) for j in range(4)]


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(1, 4), HALF, Fraction(3, 4), Fraction(1)], ids=str)
@pytest.mark.parametrize("arity", ARITIES)
def test_a_dense_grid(arity: int, epsilon: Fraction) -> None:
    """Vector 20.10. Majors move keys instead of computing everything anew: parts and minors are the same."""
    driver = Driver(arity, epsilon)
    driver.run((relation, x, y, 1) for relation in "RST" for x, y in GRID)
    state = driver.state()
    assert (state["majors"], state["N"]) == (6, 64)
    rows, each = {3: (64, 1), 2: (16, 4), 1: (4, 16)}[arity]
    assert (len(driver.result()), set(driver.result().values())) == (rows, {each})
    quarter = {
        3: ((6, 21), {"R.H": 16, "S.H": 16, "T.L": 16}),
        2: ((9, 33), {"R.H": 16, "S.HH": 16, "T.LL": 16}),
        1: ((6, 21), {"R.HH": 16, "S.H": 16, "T.LL": 16}),
    }
    counts, parts = quarter[arity] if epsilon == Fraction(1, 4) else ((0, 0), None)
    assert (state["minors"], state["moved"]) == counts
    letter = "H" if epsilon == 0 else "L"
    assert driver.parts() == parts or (
        parts is None and all(set(name.split(".")[1]) == {letter} for name in driver.parts())
    )
    driver.check()


@pytest.mark.parametrize("arity", ARITIES)
def test_a_dense_grid_that_is_loaded(arity: int) -> None:
    driver = Driver(arity, Fraction(1, 4))
    driver.load(R=GRID, S=GRID, T=GRID)
    assert driver.state()["N"] == 97
    assert all(set(name.split(".")[1]) == {"H"} for name in driver.parts())
    driver.check()


def rotating(phase: int) -> Iterator[Update]:
    """The edges of hub ``phase`` come, those of the one before it go."""
    for j in range(40):
        for relation in "RST":
            yield relation, phase, j, 1
            if j != phase:
                yield relation, j, phase, 1
            if phase > 0:
                yield relation, phase - 1, j, -1
                if j != phase - 1:
                    yield relation, j, phase - 1, -1


NONE = [(0, 0)] * 4
TRACES = {
    Fraction(0): (NONE, NONE),
    Fraction(1, 4): ([(0, 0), (6, 21), (12, 42), (18, 63)], [(1, 3), (11, 38), (21, 73), (31, 108)]),
    Fraction(1, 3): ([(2, 10), (8, 49), (14, 88), (20, 127)], [(4, 20), (14, 85), (24, 150), (34, 215)]),
    HALF: ([(2, 34), (8, 127), (14, 220), (20, 313)], [(4, 68), (14, 223), (24, 378), (34, 533)]),
    Fraction(3, 4): (NONE, NONE),
    Fraction(1): (NONE, NONE),
}


@pytest.mark.parametrize("epsilon", TRACES, ids=str)
@pytest.mark.parametrize("arity", ARITIES)
def test_a_rotating_hub(arity: int, epsilon: Fraction) -> None:
    """Vector 20.11, the golden trace of rebalancing."""
    driver = Driver(arity, epsilon, Kernel)
    rows = {1: 40, 2: 79, 3: 118}[arity]
    for phase, counts in enumerate(TRACES[epsilon][0 if arity == 3 else 1]):
        driver.run(rotating(phase))
        state = driver.state()
        assert (state["size"], state["N"], state["majors"]) == (237, 256, 8)
        assert (len(driver.result()), total(driver)) == (rows, 118)
        assert (state["minors"], state["moved"]) == counts
    driver.check()


@pytest.mark.parametrize("arity", ARITIES)
def test_a_complete_graph(arity: int) -> None:
    """Vector 20.12: each edge goes into all three."""
    driver = Driver(arity)
    found = []
    for edge in [(i, j) for i in range(1, 5) for j in range(1, 5) if i != j]:
        driver.run((relation, *edge, 1) for relation in "RST")
        found.append(total(driver))
    assert found == [0, 0, 0, 0, 0, 0, 3, 6, 6, 12, 18, 24]
    state = driver.state()
    assert (state["size"], state["N"], state["majors"], state["minors"]) == (36, 64, 6, 0)
    rows, each = {3: (24, 1), 2: (12, 2), 1: (4, 6)}[arity]
    assert (len(driver.result()), set(driver.result().values())) == (rows, {each})
    driver.run((relation, *edge, -1) for edge in ((1, 2), (2, 1)) for relation in "RST")
    assert (total(driver), len(driver.result())) == (12, {3: 12, 2: 10, 1: 4}[arity])
    driver.check()


@pytest.mark.parametrize("arity", ARITIES)
def test_products_of_vectors_and_a_matrix(arity: int) -> None:
    """Vector 20.13, the reduction from OuMv."""
    driver = Driver(arity)
    matrix = [[1, 0, 1], [0, 1, 0], [1, 1, 0]]
    driver.run(("S", i, j, 1) for i in range(3) for j in range(3) if matrix[i][j])
    answers = []
    now = {"R": [0] * 3, "T": [0] * 3}
    for u, v in [("100", "010"), ("010", "010"), ("001", "001"), ("110", "100")]:
        for relation, bits in (("R", u), ("T", v)):
            for i, bit in enumerate(map(int, bits)):
                change = bit - now[relation][i]
                if change:
                    driver.update(relation, *((9, i) if relation == "R" else (i, 9)), change)
                now[relation][i] = bit
        answers.append(int(bool(driver.result())))
        driver.check()
    assert answers == [0, 1, 0, 1]
