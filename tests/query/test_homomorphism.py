"""Homomorphisms where there is more to a query than atoms: conditions, computed columns, NULL, and little patience."""

from __future__ import annotations

from dataclasses import replace

import pytest

from everview.query.classify import classify
from everview.query.conjunctive import Atom, Computed, ConjunctiveQuery
from everview.query.homomorphism import Budget, are_equivalent, find_homomorphism, is_contained, minimal_query
from everview.query.terms import Const, Expression, Var
from everview.query.unions import intersection
from tests.support import cq

X, Y, Z, U, W = map(Var, "xyzuw")


def above(v: Var, bound: int) -> Expression:
    return Expression((v, f" > {bound}"))


def upper(term: Var, of: Var) -> Computed:
    return Computed(term, Expression(("upper(", of, ")")))


def relations(query: ConjunctiveQuery) -> list[str]:
    return list(map(str, query.atoms))


def test_an_atom_with_a_condition_is_not_folded_away() -> None:
    query = replace(cq("q(x) :- R(x, y), R(x, z)."), predicates=(above(Z, 1),))
    minimal = minimal_query(query)
    assert relations(minimal) == ["R(x, z)"]
    assert minimal.predicates == (above(Z, 1),)


def test_equal_conditions_fold() -> None:
    query = replace(cq("q(x) :- R(x, y), R(x, z)."), predicates=(above(Z, 1), above(Y, 1)))
    assert len(minimal_query(query).atoms) == 1
    assert len(minimal_query(query).predicates) == 1


def test_different_conditions_do_not_fold() -> None:
    query = replace(cq("q(x) :- R(x, y), R(x, z)."), predicates=(above(Z, 1), above(Y, 2)))
    assert minimal_query(query) == query


def test_a_condition_across_atoms_holds_both() -> None:
    query = replace(cq("q(x) :- R(x, y), R(x, z)."), predicates=(Expression((Y, " < ", Z)),))
    assert minimal_query(query) == query


def test_a_condition_is_part_of_containment() -> None:
    loose = cq("q(x) :- R(x, y).")
    tight = replace(loose, predicates=(above(Y, 1),))
    assert is_contained(tight, loose)
    assert not is_contained(loose, tight)


def test_intersection_keeps_all_conditions() -> None:
    one = replace(cq("q(x) :- R(x, y)."), predicates=(above(Y, 1),))
    other = replace(cq("q(y) :- R(y, x)."), predicates=(above(X, 2), above(Y, 3)))
    both = intersection(one, other)
    assert both is not None
    assert len(both.atoms) == 2
    (head,) = both.head
    (other_y,) = both.variables - {head, Y}
    assert set(both.predicates) == {above(Y, 1), above(other_y, 2), above(X, 3)}


def test_intersection_refuses_what_either_refuses() -> None:
    both = intersection(cq("q(x) :- R(x, y), y is not null."), cq("q(x) :- S(x, z), z is not null."))
    assert both is not None
    assert both.not_null == {X, Y, Z}


def test_computed_columns_map_by_their_expression() -> None:
    plain, computing = Atom("R", (X, Y)), Atom("R", (X, Z), (upper(U, Z),))
    assert relations(minimal_query(ConjunctiveQuery((X,), (plain, computing)))) == ["R(x, z, u = upper(z))"]
    twice = ConjunctiveQuery((X,), (Atom("R", (X, Y), (upper(W, Y),)), computing))
    assert len(minimal_query(twice).atoms) == 1
    free = ConjunctiveQuery((X, U, W), twice.atoms)
    assert minimal_query(free) == free


def test_a_computed_column_is_only_met_by_its_own_expression() -> None:
    source = ConjunctiveQuery((X,), (Atom("R", (X, Y), (upper(U, Y),)),))
    target = ConjunctiveQuery((X,), (Atom("R", (X, Y), (Computed(U, Expression(("lower(", Y, ")"))),)),))
    assert find_homomorphism(source, target) is None
    assert find_homomorphism(source, source) == {X: X, Y: Y, U: U}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("q(x) :- R(x, y), R(x, z), y is not null.", "q(x) :- R(x, y), x is not null, y is not null."),
        ("q(x) :- R(x, y), R(x, z).", "q(x) :- R(x, z), x is not null."),
        ("q() :- R(x, y), R(z, z).", "q() :- R(z, z)."),
        ("q() :- R(x, 1), R(2, y), R(2, 1).", "q() :- R(2, 1)."),
    ],
)
def test_null_stays_refused_where_it_was(query: str, expected: str) -> None:
    assert minimal_query(cq(query)) == cq(expected)


def test_a_not_null_variable_is_stricter() -> None:
    assert not are_equivalent(cq("q(x) :- R(x, y)."), cq("q(x) :- R(x, y), y is not null."))
    assert is_contained(cq("q(x) :- R(x, 1)."), cq("q(x) :- R(x, y), y is not null."))


def test_constants_of_different_types_are_different() -> None:
    assert Const(1) != Const(True) != Const(1.0)
    one = ConjunctiveQuery((), (Atom("R", (Const(1),)), Atom("R", (Const(1.0),)), Atom("R", (Const(True),))))
    assert minimal_query(one) == one
    assert not is_contained(cq("q() :- R(1)."), cq("q() :- R('1')."))


def test_a_cut_search_leaves_the_query_as_it_is() -> None:
    query = cq("q() :- E(x, y), E(y, z), E(z, u), E(u, u).")
    budget = Budget(1)
    assert minimal_query(query, budget) == query
    assert budget.exhausted
    assert len(minimal_query(query).atoms) == 1
    assert classify(query).is_proven_minimal
