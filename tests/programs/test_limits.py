"""Limits: a product of stored numbers is known to be within one exactly as long as the product of the largest is."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.kernel.program import Add, Procedure, Program, Reg, Table, ValueOf
from everview.kernel.verifier import verify
from everview.kernel.wide_numbers import words_of
from everview.programs.limits import BEYOND, LARGEST, Factor, Limit, Limits
from tests.strategies.machines import Both

COUNTS = [Factor(name, "n", is_signed=False) for name in "abc"]
SUM = Factor("d", "n", 3)
MOST = 10**38 - 1


def program(limits: Limits, factors: list[Factor]) -> Program:
    """A table and a procedure ``add`` for each factor."""
    row = Reg("row")
    tables, procedures = [], list(limits.procedures)
    for factor in factors:
        name, change = factor.table, Reg("change", factor.words)
        tables.append(Table(name, ("k",), ("n",), widths=(factor.words,)))
        noted = limits.noted(factor, ValueOf(row, name, 0))
        added = Add(row, name, (Reg("k"),), (change,), noted, (), noted)
        procedures.append(Procedure(name, (Reg("k"), change), (added,)))
    found = Program((*tables, *limits.tables), (), tuple(procedures))
    verify(found)
    return found


@given(
    st.lists(st.sampled_from(COUNTS), max_size=3),
    st.sampled_from([2**20, 2**63 - 1, MOST]),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(-(10**6), 2**62)), max_size=12),
)
def test_it_is_known_when_the_largest_multiply_to_more(
    others: list[Factor], most: int, changes: list[tuple[int, int, int]]
) -> None:
    limit, count = Limit(most, (SUM, *others)), Limit(2**63 - 1, tuple(COUNTS))
    limits, factors = Limits([limit, count]), [*COUNTS, SUM]
    machine = Both(program(limits, factors))
    kept: dict[tuple[Factor, int], int] = {}
    largest = dict(limits.shares)
    assert prod(largest[f] for f in limit.factors) <= limit.most
    passed = None
    for update, (which, k, size) in enumerate(changes):
        factor = factors[which]
        change = size * 2**65 if factor is SUM else abs(size) >> 20
        if (factor is not SUM and change + kept.get((factor, k), 0) >= 2**63) or not change:
            continue
        kept[factor, k] = kept.get((factor, k), 0) + change
        machine.apply(factor.table, [[k], *([w] for w in words_of(change, factor.words))])
        largest[factor] = max(largest[factor], abs(kept[factor, k]))
        if any(prod(largest[f] for f in each.factors) > each.most for each in (limit, count)):
            passed = update if passed is None else passed
        assert bool(machine.dump(BEYOND)) == (passed is not None)
        seen = {factors_of(limits)[key[0]]: sizes[0] for key, sizes, _ in machine.dump(LARGEST)}
        assert seen == {f: n for f, n in largest.items() if n > limits.shares[f]}


def factors_of(limits: Limits) -> list[Factor]:
    return list(limits.shares)


def test_the_update_is_known_by_which_a_limit_was_passed_first() -> None:
    machine = Both(program(Limits([Limit(5, (COUNTS[0],))]), COUNTS[:1]))
    machine.apply("a", [[1, 2, 1, 1, 2], [3, 5, 2, 1, 4]])
    assert machine.dump(BEYOND) == [((), (3,), 0)]


def test_a_number_that_cannot_pass_its_share_costs_nothing() -> None:
    limits = Limits([Limit(2**63 - 1, (COUNTS[0],))])
    assert (limits.tables, limits.procedures, limits.noted(COUNTS[0], Reg("n"))) == ((), (), ())
    assert Limits().tables == ()


def test_a_limit_whose_square_has_no_room_is_refused() -> None:
    with pytest.raises(ValueError, match="square"):
        Limits([Limit(2**192, (SUM,))])
