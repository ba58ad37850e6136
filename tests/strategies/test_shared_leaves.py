"""Two leaves of a join tree that take the same rows share a table: loops, copies, every kind of update."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from everview.kernel.reference import Reference
from everview.query.conjunctive import Atom, ConjunctiveQuery, Semantics
from everview.query.terms import Const, Var
from tests.scale import scaled
from tests.strategies.harness import Driver
from tests.strategies.machines import Both

SHAPES = {
    "three hops": ["ab", "bc", "cd"],
    "four hops": ["ab", "bc", "cd", "de"],
    "there and back": ["ab", "bc", "cb"],
    "star": ["xa", "xb", "xc", "xd"],
    "star of both ends": ["xa", "bx", "xc", "dx"],
    "two arms": ["ab", "bc", "bd", "ce", "df"],
    "product": ["ab", "cd", "ef"],
    "same key": ["ab", "ac"],
}


def query(edges: list[str], head: str, semantics: Semantics) -> ConjunctiveQuery:
    atoms = tuple(Atom("g", tuple(map(Var, e))) for e in edges)
    return complete(ConjunctiveQuery(tuple(map(Var, head)), atoms, semantics=semantics))


def complete(asked: ConjunctiveQuery) -> ConjunctiveQuery:
    """The same with NULL refused in all columns, so that atoms do not differ in that."""
    return replace(asked, not_null=asked.variables)


@pytest.mark.parametrize("semantics", list(Semantics), ids=lambda s: s.value)
@pytest.mark.parametrize("shape", SHAPES)
def test_loops_and_copies(shape: str, semantics: Semantics) -> None:
    for seed in range(scaled(6)):
        r = random.Random(seed)
        letters = sorted(set("".join(SHAPES[shape])))
        head = "".join(letters if r.random() < 0.6 else r.sample(letters, r.randint(1, len(letters))))
        asked = query(SHAPES[shape], head, semantics)
        driver = Driver(asked, Both, with_deltas=r.random() < 0.7)
        domain = r.choice((1, 2, 3))
        for _ in range(r.randint(4, 9)):
            if r.random() < 0.1:
                driver.switch(not driver.with_deltas)
            there = driver.database.get("g", [])
            if there and r.random() < 0.45:
                row = r.choice(there)
                driver.update("g", row, -r.randint(1, there.count(row)))
            else:
                driver.update("g", (r.randint(1, domain), r.randint(1, domain)), r.choice((1, 1, 2)))
            driver.check()
        for row in set(driver.database.get("g", [])):
            driver.update("g", row, -driver.database["g"].count(row))
            driver.check()
        assert driver.rows_left() == {}, seed


def wide_tables(asked: ConjunctiveQuery, sums: tuple[tuple[int, Var], ...] = ()) -> int:
    """How many tables hold whole rows, and not only keys."""
    program = Driver(complete(asked), Reference, sums).maintained.program
    return sum(len(t.key) > 1 or bool(t.key and t.key[0] == "c") for t in program.tables)


def test_the_ends_of_three_hops_are_one_table() -> None:
    asked = query(SHAPES["three hops"], "abcd", Semantics.BAG)
    driver = Driver(asked, Reference)
    assert wide_tables(asked) == 2
    assert [o.atom for e in driver.maintained.entries for o in e.atom_inputs] == [0, 1]


def test_leaves_that_take_other_rows_are_not() -> None:
    atoms = (Atom("g", (Var("a"), Var("b"))), Atom("h", (Var("b"), Var("c"))), Atom("g", (Var("c"), Var("d"))))
    whole = tuple(map(Var, "abcd"))
    assert wide_tables(ConjunctiveQuery(whole, atoms, semantics=Semantics.BAG)) == 2
    assert wide_tables(ConjunctiveQuery(whole, atoms, semantics=Semantics.BAG), ((0, Var("a")),)) == 3
    loop = (*atoms[:2], Atom("g", (Var("c"), Var("c"))))
    assert wide_tables(ConjunctiveQuery(whole[:3], loop)) == 3
    fixed = (*atoms[:2], Atom("g", (Var("c"), Const(1))))
    assert wide_tables(ConjunctiveQuery(whole[:3], fixed)) == 3


def test_null_is_told_apart() -> None:
    """Without NOT NULL, one end of a path may be NULL and the other one not: they take other rows."""
    atoms = tuple(Atom("g", tuple(map(Var, e))) for e in SHAPES["three hops"])
    asked = ConjunctiveQuery(tuple(map(Var, "abcd")), atoms, semantics=Semantics.BAG)
    driver = Driver(asked, Both)
    assert [o.atom for e in driver.maintained.entries for o in e.atom_inputs] == [0, 1, 2]
