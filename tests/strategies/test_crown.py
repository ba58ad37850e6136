"""CROWN programs against DuckDB: after every update the listed result and the summed deltas equal the query."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everview.kernel.printer import show_program
from everview.kernel.reference import Reference
from everview.query.conjunctive import ConjunctiveQuery, Semantics
from tests.strategies.harness import Driver
from tests.support import cq, queries, relations_of


@st.composite
def runs(draw: st.DrawFn, semantics: Semantics) -> tuple[ConjunctiveQuery, list[tuple[str, tuple[int, ...], bool]]]:
    """A query and a list of updates over a tiny domain; deletes take what is there."""
    query = draw(queries(max_atoms=4, max_vars=4, max_arity=2, semantics=semantics, head_extras=False))
    arities = relations_of(query)
    relation = st.sampled_from(sorted(arities))
    updates = draw(st.lists(st.tuples(relation, st.tuples(st.integers(1, 2), st.integers(1, 3)), st.booleans()), max_size=14))
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
    for table in driver.crown.program.tables:
        assert driver.machine.dump(table.name) == [], table.name


@pytest.mark.parametrize("semantics", list(Semantics), ids=lambda s: s.value)
@pytest.mark.parametrize("loud", [True, False], ids=["loud", "quiet"])
def test_random_runs(semantics: Semantics, loud: bool) -> None:
    @settings(max_examples=120)
    @given(runs(semantics))
    def check(run: tuple[ConjunctiveQuery, list[tuple[str, tuple[int, ...], bool]]]) -> None:
        query, updates = run
        play(Driver(query, Reference, loud=loud), updates)

    check()


def test_program_prints() -> None:
    driver = Driver(cq("q(a, b, c) :- r(a, b), s(b, c)."), Reference)
    text = show_program(driver.crown.program)
    assert "procedure input0(@a, @b, change)" in text
    assert "cursor result()" in text
