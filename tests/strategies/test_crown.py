"""CROWN programs against DuckDB: after every update the listed result and the summed deltas equal the query."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.kernel.printer import show_program
from everview.kernel.program import Program
from everview.kernel.reference import Reference
from everview.query.conjunctive import Atom, ConjunctiveQuery, Semantics
from everview.query.terms import Var
from tests.scale import scaled, thoroughness
from tests.strategies import shapes
from tests.strategies.harness import Driver
from tests.strategies.machines import Both, Kernel
from tests.support import cq, queries, relations_of


@st.composite
def runs(draw: st.DrawFn, semantics: Semantics) -> tuple[ConjunctiveQuery, list[tuple[str, tuple[int, ...], bool]]]:
    """A query and a list of updates over a tiny domain; deletes take what is there."""
    query = draw(queries(max_atoms=4, max_vars=4, max_arity=2, semantics=semantics, head_extras=False))
    arities = relations_of(query)
    relation = st.sampled_from(sorted(arities))
    updates = draw(
        st.lists(st.tuples(relation, st.tuples(st.integers(1, 2), st.integers(1, 3)), st.booleans()), max_size=14)
    )
    return query, [(r, tuple(row[: arities[r]]), delete) for r, row, delete in updates]


def play(driver: Driver, updates: list[tuple[str, tuple[int, ...], bool]]) -> None:
    driver.check()
    for relation, row, delete in updates:
        there = driver.database.get(relation, [])
        if delete and there:
            driver.update(relation, there[0], -1)
        else:
            driver.update(relation, row, 1)
        driver.check()
    for relation, rows in list(driver.database.items()):
        for row in list(rows):
            driver.update(relation, row, -1)
    driver.check()
    assert driver.rows_left() == {}


@pytest.mark.parametrize("semantics", list(Semantics), ids=lambda s: s.value)
@pytest.mark.parametrize("with_deltas", [True, False], ids=["with_deltas", "state_only"])
@pytest.mark.parametrize("machine", [Reference, Kernel], ids=["reference", "kernel"])
def test_random_runs(semantics: Semantics, with_deltas: bool, machine: Callable[[Program], Any]) -> None:
    @thoroughness(40)
    @given(runs(semantics))
    def check(run: tuple[ConjunctiveQuery, list[tuple[str, tuple[int, ...], bool]]]) -> None:
        query, updates = run
        play(Driver(query, machine, with_deltas=with_deltas), updates)

    check()


def hard_run(seed: int, machine: Callable[[Program], Any]) -> None:
    """A query of a hard shape, with sums where they make sense, its feed opened and closed on the way."""
    r = random.Random(seed)
    query = shapes.query(r, r.choice(list(Semantics)))
    sums: list[tuple[int, Var]] = []
    if query.semantics is Semantics.BAG:
        places = [(i, t) for i, a in enumerate(query.atoms) for t in a.terms if isinstance(t, Var)]
        sums = r.choices(places, k=r.choice((0, 0, 1, 2, 3))) if places else []
    driver = Driver(query, machine, tuple(sums), with_deltas=r.random() < 0.6)
    driver.check()
    arities = relations_of(query)
    most = 16 if len(arities) == len(query.atoms) else 8  # copies multiply in self-joins
    for relation, row, delete in shapes.updates(r, arities, r.randint(3, most)):
        if r.random() < 0.08:
            driver.switch(not driver.with_deltas)
        there = driver.database.get(relation, [])
        if delete and there:
            driver.update(relation, r.choice([there[0], r.choice(there)]), -1)
        else:
            driver.update(relation, row, 1)
        if r.random() < 0.6:
            driver.check()
    driver.check()
    rest = [(relation, row) for relation, rows in driver.database.items() for row in rows]
    r.shuffle(rest)
    for relation, row in rest:
        driver.update(relation, row, -1)
    driver.check()
    assert driver.rows_left() == {}


@pytest.mark.parametrize("part", range(4))
def test_hard_shapes(part: int) -> None:
    """Cycles, deep trees, hidden parts and products, on both machines, which agree to the letter."""
    for seed in range(part * 1_000_000, part * 1_000_000 + scaled(24)):
        try:
            hard_run(seed, Both)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {shapes_of(seed)}") from error


def shapes_of(seed: int) -> str:
    r = random.Random(seed)
    return str(shapes.query(r, r.choice(list(Semantics))))


def test_two_atoms_of_one_label() -> None:
    """The aliases of two expanded subqueries may be the same; tables and procedures go by labels."""
    atoms = [Atom("r", (Var(a), Var(b)), alias="y") for a, b in ("ab", "bc", "cd")]
    driver = Driver(ConjunctiveQuery((Var("a"), Var("d")), tuple(atoms), semantics=Semantics.BAG), Both)
    play(driver, [("r", (1, 2), False), ("r", (2, 2), False), ("r", (2, 1), False), ("r", (1, 2), True)])


def test_program_prints() -> None:
    driver = Driver(cq("q(a, b, c) :- r(a, b), s(b, c)."), Reference)
    text = show_program(driver.maintained.program)
    assert "procedure update r(0@a, 0@b, 0?, change)" in text
    assert "add row'" in text
    assert "cursor result()" in text
