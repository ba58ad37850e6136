"""Queries, unions, schemas' constraints and classifications: what they accept, and what they say."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pytest
from hypothesis import given

from everview.errors import UnsafeQueryError
from everview.query.classify import classify
from everview.query.conjunctive import Atom, ConjunctiveQuery, Semantics, UnionQuery, connected_components
from everview.query.constraints import Constraints, constraints_of, drop_implied_atoms
from everview.query.hierarchy import is_hierarchical, is_q_hierarchical, is_t_hierarchical
from everview.query.homomorphism import minimal_query
from everview.query.hypergraph import is_acyclic, is_free_connex
from everview.query.schema import Column, ForeignKey, Schema, SmallDomain, Table
from everview.query.terms import Const, Expression, Value, Var
from everview.query.types import ANY
from tests.scale import thoroughness
from tests.support import Database, constraints, cq, databases, evaluate, legal, queries, ucq

X, Y = Var("x"), Var("y")


@pytest.mark.parametrize("text", ["q(z) :- R(x, y).", "q(x, z) :- R(x, y)."])
def test_a_head_needs_an_atom(text: str) -> None:
    with pytest.raises(UnsafeQueryError, match="the head uses z"):
        cq(text)


def test_a_condition_needs_an_atom() -> None:
    with pytest.raises(UnsafeQueryError, match="a condition uses y"):
        ConjunctiveQuery((), (Atom("R", (X,)),), (Expression((Y, " > 1")),))


def test_a_body_needs_an_atom() -> None:
    with pytest.raises(UnsafeQueryError, match="no atom"):
        ConjunctiveQuery((Const(1),), ())


def test_members_need_the_same_arity() -> None:
    with pytest.raises(UnsafeQueryError, match="1 and 2 columns"):
        ucq("q(x) :- R(x). q(x, x) :- R(x).")


def test_sets_forget_copies_of_atoms_and_bags_do_not() -> None:
    text = "q(x) :- R(x, y), R(x, y)."
    assert len(cq(text).atoms) == 1
    assert len(cq(text, Semantics.BAG).atoms) == 2
    assert cq(text).not_null == cq(text, Semantics.BAG).not_null == {X, Y}


def test_a_union_is_a_bag_only_if_all_its_members_are() -> None:
    bag, plain = cq("q(x) :- R(x).", Semantics.BAG), cq("q(x) :- R(x).")
    assert UnionQuery((bag, bag)).semantics is Semantics.BAG
    assert UnionQuery((bag, plain)).semantics is Semantics.SET
    assert UnionQuery(()).semantics is Semantics.SET
    assert str(UnionQuery(())) == "q is empty."


def test_substitution_moves_not_null() -> None:
    moved = cq("q(x) :- R(x, y), y is not null.").substitute({Y: Var("z")})
    assert str(moved) == "q(x) :- R(x, z), z is not null."
    assert str(moved.substitute({Var("z"): Const("a")})) == "q(x) :- R(x, 'a')."


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (7, "7"),
        (Decimal("1.50"), "1.50"),
        ("it's", "'it''s'"),
        (b"\x0f", "X'0F'"),
        (date(2024, 2, 29), "DATE '2024-02-29'"),
        (datetime(2024, 2, 29, 1, 2), "TIMESTAMP '2024-02-29 01:02:00'"),
    ],
)
def test_constants_as_text(value: Value, text: str) -> None:
    assert str(Const(value)) == text


def test_connected_components() -> None:
    edges = [a.variables for a in cq("q() :- R(x, y), S(z), T(y, z), U(w), B().").atoms]
    assert connected_components(edges) == [(0, 1, 2), (3,), (4,)]
    assert connected_components(edges, without=frozenset({Y})) == [(0,), (1, 2), (3,), (4,)]


def test_constraints_of_a_schema() -> None:
    def columns(*names: str, nullable: bool = True) -> tuple[Column, ...]:
        return tuple(Column(n, ANY, nullable) for n in names)

    city = Table("City", columns("id", "country"), ("ID",), (), (SmallDomain("country", (Const("a"), Const("b"))),))
    person = Table(
        "Person", (*columns("id"), *columns("home", nullable=False)), ("id",), (ForeignKey(("home",), "CITY", ("id",)),)
    )
    assert constraints_of(Schema((city, person))) == constraints("""
        City[1->2] key, Person[1->2] key
        City[2] in {'a', 'b'} or null
        Person[2] <= City[1] unique
        City[1] not null, Person[1] not null, Person[2] not null
    """)


def test_constraints_know_what_they_are_about() -> None:
    known = constraints("S[1] in {1, 2}, E[2] <= T[1], E[1->2], T[1] not null")
    assert known.about(cq("q() :- e(x, y).")) == constraints("E[1->2]")
    assert known.about(cq("q() :- E(x, y), t(y).")) == constraints("E[2] <= T[1], E[1->2], T[1] not null")
    assert known.about(cq("q() :- S(x).")).only_small_domains
    assert not known.only_small_domains
    assert known
    assert not Constraints()


def test_relations_are_named_in_any_case() -> None:
    (dropped,) = drop_implied_atoms(cq("q() :- e(x, y), t(y)."), constraints("E[2] <= T[1]")).queries
    assert [a.relation for a in dropped.atoms] == ["e"]


@thoroughness(150)
@given(queries(max_atoms=4, max_vars=4))
def test_a_classification_is_that_of_the_core(query: ConjunctiveQuery) -> None:
    found, minimal = classify(query), minimal_query(query)
    assert found.minimal == minimal
    assert found.flags() == {
        "acyclic": is_acyclic(minimal.edges),
        "free_connex": is_free_connex(minimal.edges, minimal.free),
        "hierarchical": is_hierarchical(minimal),
        "q_hierarchical": is_q_hierarchical(minimal),
        "t_hierarchical": is_t_hierarchical(minimal),
        "self_join_free": minimal.is_self_join_free,
    }
    assert found.witnesses().keys() == {name for name, holds in found.flags().items() if not holds}
    assert (found.widths is not None) == found.hierarchical


# --- the tools of the tests themselves -------------------------------------------------------------------------------


def test_evaluate_knows_null_copies_and_flags() -> None:
    data: Database = {"R": [(1, None), (1, 2), (1, 2), (None, 2)], "S": [(2,), (None,)], "B": [()]}
    assert evaluate(cq("q(x) :- R(x, y).", Semantics.BAG), data) == {(1,): 3, (None,): 1}
    assert evaluate(cq("q(x) :- R(x, y)."), data) == {(1,): 1, (None,): 1}
    assert evaluate(cq("q(x) :- R(x, y), S(y).", Semantics.BAG), data) == {(1,): 2, (None,): 1}
    assert evaluate(cq("q(y) :- R(x, y), y is not null."), data) == {(2,): 1}
    assert evaluate(cq("q() :- B(), R(x, x)."), data) == {}
    assert evaluate(cq("q() :- B(), R(1, y).", Semantics.BAG), data) == {(): 3}
    assert evaluate(cq("q('a', 1, x) :- S(x), C()."), data) == {}
    assert evaluate(ucq("q(x) :- S(x). q(y) :- R(x, y)."), data) == {(2,): 1, (None,): 1}
    assert evaluate(ucq("q(x) :- S(x). q(x) :- S(x).", Semantics.BAG), data) == {(2,): 2, (None,): 2}
    assert evaluate(UnionQuery(()), data) == {}
    assert evaluate(cq("q(x) :- S(x), R('2', x)."), {"S": [(2,), ("2",)], "R": [("2", "2"), ("2", 3)]}) == {("2",): 1}


@pytest.mark.parametrize("text", ["q(x) : R(x).", "q(x) :- R(x)", "q(x) :- R(x), .", "q(x) :- R(x). !"])
def test_rule_text_is_read_strictly(text: str) -> None:
    with pytest.raises((ValueError, IndexError)):
        ucq(text)


@pytest.mark.parametrize("text", ["S[1]", "S[1] in 1", "S <= T", "E[1->2] maybe"])
def test_constraints_are_read_strictly(text: str) -> None:
    with pytest.raises(ValueError, match="not a constraint"):
        constraints(text)


def test_legal_databases() -> None:
    rules = constraints("S[1] in {1}, E[2] <= T[1], E[1->2], T[1->] key, E[1] not null")
    raw: Database = {
        "S": [(1,), (2,)],
        "E": [(1, 1), (1, 2), (2, 5), (3, None), (None, 1)],
        "T": [(1,), (1,), (None,), (2,)],
    }
    assert legal(raw, rules) == {"S": [(1,)], "E": [(1, 1), (3, None)], "T": [(1,), (2,)]}


@thoroughness(30)
@given(databases(cq("q() :- R(x, y), S(), T(z).")))
def test_databases_fit_their_query(database: Database) -> None:
    assert database.keys() == {"R", "S", "T"}
    assert all(len(row) == {"R": 2, "S": 0, "T": 1}[name] for name, rows in database.items() for row in rows)
