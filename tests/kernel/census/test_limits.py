"""What a census refuses, and what it costs: limits at run time, and steps that do not grow with the data."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest

from everview.kernel.census.faults import LimitFault
from everview.kernel.census.program import (
    And,
    CensusProgram,
    CensusRelation,
    Equal,
    Fact,
    Near,
    Node,
    Not,
    Or,
    Quantify,
    Truth,
)
from everview.kernel.census.reference import CensusReference
from tests.kernel.census.harness import MAKERS

EDGE, MARK = CensusRelation("E", 2), CensusRelation("B", 1)
ODD_MARKS = Quantify(1, And((Fact(0, (0, 1)), Fact(1, (1,)))), residue=(1, 2), guard=(0, 1))
"""An odd number of marked elements that an edge leads to: tier A."""
FAR_MARKS = Quantify(1, And((Not(Fact(0, (0, 1))), Fact(1, (1,)))), least=3)
"""At least three marked elements that no edge leads to: tier B."""
PAIRS = And((Fact(1, (0,)), Fact(1, (1,)), Not(Fact(0, (0, 1)))))


def census_of(make, formula: Node, arity: int = 1, degree: int = 4, **limits: int):
    return make(CensusProgram((EDGE, MARK), arity, formula, degree, **limits))


def take(census, edges=(), marks=(), weight: int = 1) -> None:
    census.begin()
    for relation, rows in ((0, list(edges)), (1, [(a,) for a in marks])):
        if rows:
            census.apply(
                relation, [array("q", column) for column in zip(*rows, strict=True)], array("q", [weight] * len(rows))
            )
    census.settle()
    census.commit()


def put(census, relation: int, columns, weights) -> None:
    census.apply(relation, [array("q", column) for column in columns], array("q", weights))


def grid(side: int):
    """The edges of a grid on a torus, so that all elements look alike; every seventh element is marked."""
    edges = []
    for a in range(side * side):
        row, column = divmod(a, side)
        edges += [(a, row * side + (column + 1) % side), (a, (row + 1) % side * side + column)]
    return edges


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(("formula", "arity"), [(ODD_MARKS, 1), (FAR_MARKS, 1), (PAIRS, 2)])
def test_steps_do_not_grow_with_the_data(make, formula: Node, arity: int) -> None:
    steps = []
    for side in (14, 35) if make is CensusReference else (35, 175):
        census = census_of(make, formula, arity)
        take(census, grid(side), range(0, side * side, 7))
        worst = 0
        for a in (1, 2, 15, 37):
            for weight in (1, -1):
                take(census, [(a, a)], [a], weight)
                worst = max(worst, census.stats()["steps"])
        steps.append(worst)
    assert max(steps) <= 1.05 * min(steps), steps


@pytest.mark.parametrize("make", MAKERS)
def test_too_many_types_suspend_the_census(make) -> None:
    census = census_of(make, FAR_MARKS, most_types=2)
    take(census, [(1, 2)])
    before = sorted(census.rows())
    with pytest.raises(LimitFault, match="2 types"):
        take(census, [(2, 3), (3, 4)], [4])
    for read in (census.count, census.truth, census.rows().__next__, census.take_difference, lambda: census.test((1,))):
        with pytest.raises(LimitFault, match="2 types"):
            read()
    assert census.stats()["suspended"] is not None
    take(census, [(2, 3), (3, 4)], [4], weight=-1)  # The facts are there, and go.
    with pytest.raises(LimitFault, match="2 types"):
        census.count()
    census.resume()
    assert census.stats()["suspended"] is None
    assert sorted(census.rows()) == before


@pytest.mark.parametrize("make", MAKERS)
def test_too_many_steps_suspend_the_census(make) -> None:
    census = census_of(make, FAR_MARKS, most_steps=20)
    with pytest.raises(LimitFault, match="20 steps"):
        take(census, [(1, 2), (2, 3), (3, 1)], [1, 2, 3])
    with pytest.raises(LimitFault, match="20 steps"):
        census.resume()
    assert census.stats()["facts"] == 6


@pytest.mark.parametrize("make", MAKERS)
def test_copies_are_counted_and_a_set_is_what_is_seen(make) -> None:
    census = census_of(make, Fact(1, (0,)))
    take(census, marks=[5, 5, 5])
    assert list(census.rows()) == [(5,)]
    take(census, marks=[5, 5], weight=-1)
    assert census.count() == 1
    take(census, marks=[5], weight=-1)
    assert census.count() == 0
    with pytest.raises(ValueError, match="copies"):
        take(census, marks=[5], weight=-1)


@pytest.mark.parametrize("make", MAKERS)
def test_relations_without_edges_and_without_a_domain(make) -> None:
    relations = (EDGE, CensusRelation("Z", 2, has_edges=False), CensusRelation("$c", 1, is_domain=False))
    census = make(CensusProgram(relations, 1, Not(Fact(2, (0,))), 2))
    census.begin()
    put(census, 2, [[7]], [1])
    put(census, 1, [[1, 1, 1], [2, 3, 4]], [1, 1, 1])
    put(census, 0, [[1], [7]], [1])
    census.settle()
    census.commit()
    assert sorted(census.rows()) == [(1,), (2,), (3,), (4,)]  # 1 may have three others in Z, and 7 is $c.
    census.begin()
    put(census, 0, [[1], [7]], [-1])
    put(census, 1, [[1], [4]], [-1])
    census.settle()
    census.commit()
    assert sorted(census.rows()) == [(1,), (2,), (3,)]
    assert not census.test((7,))


@pytest.mark.parametrize("make", MAKERS)
def test_a_listing_ends_with_the_next_change(make) -> None:
    census = census_of(make, FAR_MARKS)
    take(census, [(1, 2)], [3, 4, 5])
    rows = census.rows()
    next(rows)
    take(census, [(2, 3)])
    with pytest.raises(RuntimeError, match="changed"):
        next(rows)


@pytest.mark.parametrize("make", MAKERS)
def test_three_columns_are_neither_counted_nor_told(make) -> None:
    census = census_of(make, Near(0, 1, 2), arity=3)
    with pytest.raises(ValueError, match="not counted"):
        census.count()
    with pytest.raises(ValueError, match="not kept"):
        census.told(True)


def test_a_program_says_what_it_cannot_be() -> None:
    program = CensusProgram((EDGE, MARK), 1, ODD_MARKS, 3)
    assert (program.radius, program.typed_radii, program.slots) == (1, (), 2)
    with pytest.raises(ValueError, match="not in the head"):
        replace(program, formula=Fact(0, (0, 1)))
    with pytest.raises(ValueError, match="bound twice"):
        replace(program, formula=Quantify(0, Truth(True), least=1))
    with pytest.raises(ValueError, match="not used as what it is"):
        replace(program, formula=Fact(1, (0, 0)))
    with pytest.raises(ValueError, match="guard"):
        replace(program, formula=Quantify(1, Equal(0, 1), least=1, guard=(1, 1)))
    with pytest.raises(ValueError, match="least number or a residue"):
        Quantify(1, Or(()))
    with pytest.raises(ValueError, match="unary"):
        CensusRelation("$c", 2, is_domain=False)


@pytest.mark.parametrize("make", MAKERS)
def test_types_that_nobody_has_are_forgotten(make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("everview.kernel.census.reference.IDLE_TYPES", 2)
    monkeypatch.setattr("everview.kernel.census.machine.IDLE_TYPES", 2)
    census = census_of(make, FAR_MARKS)
    take(census, [(a, a + 1) for a in range(20)], [0, 7, 9, 15])
    before = sorted(census.rows())
    for a in range(20):
        take(census, [(a, a)], [a + 100])
        take(census, [(a, a)], [a + 100], weight=-1)
    assert sorted(census.rows()) == before
    stats = census.stats()
    assert sum(stats["types_known"].values()) < sum(stats["types_met"].values())
