"""Every worked example of the specifications, read from ``examples/*.toml``.

A case is an ``[[case]]`` with ``id``, ``source``, ``query`` (one rule, several rules for a union, or a list of such for
a row of a table that names several queries), ``constraints`` where there are any, and the values to expect. Each key
below is one kind of expectation; a case states as many as its source does.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from everview.query.chase import simplified
from everview.query.conjunctive import ConjunctiveQuery, UnionQuery
from everview.query.constraints import Constraints, drop_implied_atoms, expand, expand_union, unify_by_keys
from everview.query.covers import edge_cover_number, fractional_cover_number
from everview.query.decomposition import Decomposition, decompose
from everview.query.hierarchy import (
    NotHierarchicalError,
    Violation,
    hierarchical_violation,
    is_hierarchical,
    is_q_hierarchical,
    is_t_hierarchical,
    q_violation,
    t_violation,
)
from everview.query.homomorphism import are_equivalent, is_contained, minimal_query, minimal_union
from everview.query.hypergraph import cycle, free_path, is_acyclic, is_free_connex
from everview.query.orders import (
    VariableNode,
    VariableOrder,
    canonical_order,
    enumeration_order,
    free_top_order,
    q_tree,
    supports_order,
)
from everview.query.terms import Var
from everview.query.unions import (
    counting_terms,
    intersection,
    is_exhaustively_q_hierarchical,
    is_strongly_exhaustively_q_hierarchical,
    uncountable_term,
)
from everview.query.widths import widths
from tests.support import constraints, cq, evaluate, isomorphic, same_members, ucq

EXAMPLES = Path(__file__).parent / "examples"
ABOUT = {"id", "source", "query", "constraints", "remark", "data"}


@dataclass(frozen=True)
class Case:
    """One query of an example file with what it is read with."""

    name: str
    text: str
    rules: Constraints
    data: dict[str, list[tuple[int | str, ...]]]
    expected: dict[str, Any]

    @cached_property
    def union(self) -> UnionQuery:
        return ucq(self.text)

    @cached_property
    def query(self) -> ConjunctiveQuery:
        (only,) = self.union.members
        return only

    @cached_property
    def core(self) -> UnionQuery:
        return minimal_union(self.union)

    @cached_property
    def expansion(self) -> UnionQuery:
        expanded = expand_union(self.union, self.rules)
        assert expanded is not None
        return expanded

    @cached_property
    def decomposition(self) -> Decomposition:
        return decompose(self.query.edges)

    @cached_property
    def free_connex_decomposition(self) -> Decomposition:
        return decompose(self.query.edges, self.query.free)


def _all(test: Callable[[ConjunctiveQuery], bool], union: UnionQuery) -> bool:
    return all(map(test, union.members))


def _witness(violation: Violation | None, query: ConjunctiveQuery, wanted: dict[str, Any]) -> bool:
    """The stated condition and pair; in condition (i) neither variable comes first. Atoms are compared if given."""
    assert violation is not None
    pair = [violation.x.name, violation.y.name]
    atoms = [str(query.atoms[i]) for i in violation.atoms]
    if violation.condition == "i" and pair == wanted["pair"][::-1]:
        pair, atoms = pair[::-1], atoms[::-1]
    assert {"condition": violation.condition, "pair": pair} == {k: wanted[k] for k in ("condition", "pair")}
    assert "atoms" not in wanted or atoms == wanted["atoms"]
    assert violation.describe(query)
    return True


def _query_or_empty(found: ConjunctiveQuery | None, wanted: str) -> bool:
    if wanted == "EMPTY":
        return found is None
    return found is not None and isomorphic(found, cq(wanted))


def _common(union: UnionQuery) -> ConjunctiveQuery | None:
    common: ConjunctiveQuery | None = union.members[0]
    for member in union.members[1:]:
        common = None if common is None else intersection(common, member)
    return common


def _terms(union: UnionQuery) -> int:
    return sum(t.coefficient != 0 for t in counting_terms(union))


def _order(build: Callable[[ConjunctiveQuery], VariableOrder], query: ConjunctiveQuery, wanted: str) -> bool:
    if wanted == "NotHierarchical":
        with pytest.raises(NotHierarchicalError):
            build(query)
        return True
    assert build(query).show(query) == wanted
    return True


def _drawn(nodes: tuple[VariableNode, ...]) -> str:
    """Variables as the specification draws them: y→{x1, x2→x3}."""
    shown = [n.variable.name + ("→" + _drawn(n.children) if n.children else "") for n in nodes]
    return shown[0] if len(shown) == 1 else "{" + ", ".join(shown) + "}"


def _tree(query: ConjunctiveQuery, wanted: dict[str, Any]) -> bool:
    hint = [Var(n) for n in wanted["hint"]] if "hint" in wanted else None
    assert _drawn(q_tree(query, hint).roots) == wanted["tree"]
    return True


def _simplified(case: Case, wanted: str) -> bool:
    """What the chase leaves, and which constraints it names."""
    found = simplified(case.query, case.rules)
    assert found is not None
    assert isomorphic(found.query, cq(wanted)), str(found.query)
    return True


def _variables(names: list[str]) -> tuple[Var, ...]:
    return tuple(map(Var, names))


def _bags(decomposition: Decomposition, wanted: list[list[str]]) -> bool:
    assert sorted(sorted(v.name for v in b.variables) for b in decomposition.bags) == sorted(map(sorted, wanted))
    return True


def _results(case: Case, wanted: list[list[int | str]]) -> bool:
    """The written query, its core and what constraints make of it all have this result."""
    rows = {tuple(r) for r in wanted}
    assert set(evaluate(case.union, case.data)) == rows
    assert set(evaluate(case.core, case.data)) == rows
    if case.rules.small_domains:
        assert set(evaluate(case.expansion, case.data)) == rows
    if case.rules.inclusions:
        assert all(set(evaluate(q, case.data)) == rows for q in drop_implied_atoms(case.query, case.rules).queries)
        found = simplified(case.query, case.rules)
        assert found is not None
        assert set(evaluate(found.query, case.data)) == rows
    return True


CHECKS: dict[str, Callable[[Case, Any], bool]] = {
    # the query as written
    "hierarchical": lambda c, v: _all(is_hierarchical, c.union) is v,
    "q": lambda c, v: _all(is_q_hierarchical, c.union) is v,
    "t": lambda c, v: _all(is_t_hierarchical, c.union) is v,
    "acyclic": lambda c, v: is_acyclic(c.query.edges) is v,
    "free_connex": lambda c, v: is_free_connex(c.query.edges, c.query.free) is v,
    "self_join_free": lambda c, v: c.query.is_self_join_free is v,
    "full": lambda c, v: c.query.is_full is v,
    "boolean": lambda c, v: c.query.is_boolean is v,
    "components": lambda c, v: len(c.query.components()) == v,
    "hierarchical_witness": lambda c, v: _witness(hierarchical_violation(c.query), c.query, v),
    "q_witness": lambda c, v: _witness(q_violation(c.query), c.query, v),
    "t_witness": lambda c, v: _witness(t_violation(c.query), c.query, v),
    "cycle": lambda c, v: (found := cycle(c.query)) is not None and found.variables == set(_variables(v)),
    "cycle_atoms": lambda c, v: (
        (found := cycle(c.query)) is not None and [c.query.atoms[i].relation for i in found.atoms] == v
    ),
    "free_path": lambda c, v: (found := free_path(c.query)) is not None and found.path == _variables(v),
    # its core
    "core": lambda c, v: same_members(c.core.members, ucq(v).members),
    "core_q": lambda c, v: _all(is_q_hierarchical, c.core) is v,
    "core_t": lambda c, v: _all(is_t_hierarchical, c.core) is v,
    "core_x": lambda c, v: is_exhaustively_q_hierarchical(c.union) is v,
    "core_q_witness": lambda c, v: _witness(q_violation(minimal_query(c.query)), minimal_query(c.query), v),
    "boolean_core_q": lambda c, v: is_q_hierarchical(minimal_query(c.query.with_head(()))) is v,
    "contained_in": lambda c, v: is_contained(c.query, cq(v)),
    "not_contained_in": lambda c, v: not is_contained(c.query, cq(v)),
    "equivalent_to": lambda c, v: are_equivalent(c.query, cq(v)),
    # orders and q-trees
    "canonical": lambda c, v: _order(canonical_order, c.query, v),
    "free_top": lambda c, v: _order(free_top_order, c.query, v),
    "is_free_top": lambda c, v: canonical_order(c.query).is_free_top(c.query) is v,
    "bound_above_free": lambda c, v: (
        [n.variable for n in canonical_order(c.query).bound_above_free(c.query)] == list(_variables(v))
    ),
    "q_trees": lambda c, v: all(_tree(c.query, one) for one in v),
    "enumeration_order": lambda c, v: enumeration_order(c.query) == _variables(v),
    "orders": lambda c, v: all(supports_order(c.query, _variables(one)) for one in v),
    "no_orders": lambda c, v: not any(supports_order(c.query, _variables(one)) for one in v),
    # widths and covers
    "w": lambda c, v: widths(c.query).w == v,
    "delta": lambda c, v: widths(c.query).delta == v,
    "delta_tight": lambda c, v: widths(c.query).delta_tight == v,
    "cover": lambda c, v: edge_cover_number(c.query.edges, c.query.variables) == v,
    "fractional_cover": lambda c, v: fractional_cover_number(c.query.edges, c.query.variables) == Fraction(v),
    "covers": lambda c, v: all(
        edge_cover_number(c.query.edges, frozenset(_variables(one["of"]))) == one["is"] for one in v
    ),
    # decompositions: any, and free-connex ones
    "bags": lambda c, v: _bags(c.decomposition, v),
    "bag_count": lambda c, v: len(c.decomposition.bags) == v,
    "guards": lambda c, v: sum(len(b.guards) for b in c.decomposition.bags) == v,
    "width": lambda c, v: c.decomposition.width == v,
    "fractional_width": lambda c, v: c.decomposition.fractional_width == Fraction(v),
    "free_bags": lambda c, v: _bags(c.free_connex_decomposition, v),
    "free_connex_bags": lambda c, v: (
        is_free_connex([b.variables for b in c.free_connex_decomposition.bags], c.query.free) is v
    ),
    "free_width": lambda c, v: c.free_connex_decomposition.width == v,
    "free_fractional_width": lambda c, v: c.free_connex_decomposition.fractional_width == Fraction(v),
    # unions
    "strong": lambda c, v: is_strongly_exhaustively_q_hierarchical(c.union) is v,
    "intersection": lambda c, v: _query_or_empty(_common(c.union), v),
    "intersection_equivalent_to": lambda c, v: (found := _common(c.union)) is not None and are_equivalent(found, cq(v)),
    "terms": lambda c, v: _terms(c.core) == v,
    "cancelled": lambda c, v: same_members(
        [t.query for t in counting_terms(c.core) if t.coefficient == 0], [cq(one) for one in v]
    ),
    "uncountable": lambda c, v: (
        (found := uncountable_term(c.union)) is not None
        and isomorphic(found.query, cq(v["query"]))
        and found.coefficient == v["coefficient"]
    ),
    # constraints
    "expansion": lambda c, v: same_members(c.expansion.members, ucq(v).members),
    "expansion_q": lambda c, v: _all(is_q_hierarchical, c.expansion) is v,
    "expansion_t": lambda c, v: _all(is_t_hierarchical, c.expansion) is v,
    "expansion_x": lambda c, v: is_exhaustively_q_hierarchical(c.expansion) is v,
    "expansion_terms": lambda c, v: _terms(c.expansion) == v,
    "raw_expansion": lambda c, v: (
        (found := expand(c.query, c.rules)) is not None and same_members(found.members, ucq(v).members)
    ),
    "raw_expansion_t": lambda c, v: (
        (found := expand(c.query, c.rules)) is not None and _all(is_t_hierarchical, found) is v
    ),
    "irreducible": lambda c, v: same_members(drop_implied_atoms(c.query, c.rules).queries, [cq(one) for one in v]),
    "best": lambda c, v: isomorphic(drop_implied_atoms(c.query, c.rules).queries[0], cq(v)),
    "best_q": lambda c, v: is_q_hierarchical(drop_implied_atoms(c.query, c.rules).queries[0]) is v,
    "simplified": _simplified,
    "unified": lambda c, v: _query_or_empty(unify_by_keys(c.query, c.rules), v),
    # results on the data given
    "result": _results,
}


def _cases() -> Iterator[Case]:
    for path in sorted(EXAMPLES.glob("*.toml")):
        with path.open("rb") as file:
            cases = tomllib.load(file)["case"]
        for case in cases:
            texts = case["query"] if isinstance(case["query"], list) else [case["query"]]
            for i, text in enumerate(texts):
                name = f"{path.stem}-{case['id']}" + (f".{i + 1}" if len(texts) > 1 else "")
                data = {k: [tuple(r) for r in rows] for k, rows in case.get("data", {}).items()}
                expected = {k: v for k, v in case.items() if k not in ABOUT}
                yield Case(name, text, constraints(case.get("constraints", "")), data, expected)


CASES = list(_cases())


@pytest.mark.parametrize(
    ("case", "key"), [pytest.param(c, key, id=f"{c.name}-{key}") for c in CASES for key in c.expected]
)
def test_example(case: Case, key: str) -> None:
    assert CHECKS[key](case, case.expected[key]), f"{key} of {case.text} is not {case.expected[key]}"


def test_examples_are_well_formed() -> None:
    names = [c.name for c in CASES]
    assert len(set(names)) == len(names)
    assert all(c.expected for c in CASES)
    for path in EXAMPLES.glob("*.toml"):
        with path.open("rb") as file:
            assert all(case["source"] for case in tomllib.load(file)["case"])


def test_every_check_is_used() -> None:
    assert {key for c in CASES for key in c.expected} == set(CHECKS)
