"""The search for join trees: examples of the specs, and properties on random queries."""

from __future__ import annotations

import tomllib
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.query.conjunctive import ConjunctiveQuery
from everview.query.hierarchy import is_q_hierarchical
from everview.query.hypergraph import is_acyclic, is_free_connex
from everview.strategies.crown.choose import choose_tree
from everview.strategies.crown.connex import fewest_added_outputs
from everview.strategies.crown.search import join_trees
from tests.plan.independent import depth_cost, faults, height
from tests.scale import thoroughness
from tests.support import cq, queries

CASES = tomllib.loads((Path(__file__).parent / "examples" / "trees.toml").read_text(encoding="utf-8"))["case"]
FIELDS = {"id", "source", "query", "tree", "height", "all", "none", "added", "height_without_generalized"}


def labels(query: ConjunctiveQuery) -> list[str]:
    return [a.relation for a in query.atoms]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["id"])
def test_example(case: dict[str, Any]) -> None:
    assert set(case) <= FIELDS
    query = cq(case["query"])
    choice = choose_tree(query.edges, query.free)
    every = list(join_trees(query.edges, query.free, None))
    if case.get("none"):
        assert choice is None
        assert every == []
    else:
        assert choice is not None
        assert not choice.cut
        assert choice.tree.height == height(choice.tree.root) == case["height"] == min(t.height for t in every)
    if "tree" in case:
        assert choice is not None
        assert choice.tree.show(labels(query)) == case["tree"]
    if "all" in case:
        assert sorted(t.show(labels(query)) for t in every) == sorted(case["all"])
    if "added" in case:
        assert sorted(v.name for v in fewest_added_outputs(query.edges, query.free).variables) == case["added"]
    if "height_without_generalized" in case:
        plain = [t for t in every if not any(n.is_generalized for n in t.root.walk())]
        assert min(t.height for t in plain) == case["height_without_generalized"]


small = queries(max_atoms=5, max_vars=5, max_arity=3)


@thoroughness(250)
@given(small)
def test_chosen_tree_has_every_property(query: ConjunctiveQuery) -> None:
    choice = choose_tree(query.edges, query.free)
    assert (choice is not None) == is_free_connex(query.edges, query.free)
    if choice is not None:
        assert faults(choice.tree.root, query.edges, query.free) == []


@thoroughness(120)
@given(queries(max_atoms=4, max_vars=4, max_arity=3))
def test_listed_trees_have_every_property_and_the_best_is_chosen(query: ConjunctiveQuery) -> None:
    every = list(join_trees(query.edges, query.free, None))
    assert bool(every) == is_free_connex(query.edges, query.free)
    assert len({t.root for t in every}) == len(every)
    for tree in islice(every, 60):
        assert faults(tree.root, query.edges, query.free) == []
    choice = choose_tree(query.edges, query.free)
    if choice is not None:
        best = min((height(t.root), depth_cost(t.root)) for t in every)
        assert (height(choice.tree.root), depth_cost(choice.tree.root)) == best


@thoroughness(250)
@given(small)
def test_height_one_is_q_hierarchical(query: ConjunctiveQuery) -> None:
    choice = choose_tree(query.edges, query.free)
    assert is_q_hierarchical(query) == (choice is not None and choice.tree.height <= 1)


@thoroughness(120)
@given(queries(max_atoms=4, max_vars=4, max_arity=3), st.data())
def test_statistics_move_busy_relations_up(query: ConjunctiveQuery, data: st.DataObject) -> None:
    updates = data.draw(st.lists(st.integers(0, 9).map(Fraction), min_size=len(query.atoms), max_size=len(query.atoms)))
    choice = choose_tree(query.edges, query.free, updates)
    if choice is not None:
        every = list(join_trees(query.edges, query.free, None))
        assert (choice.tree.height, choice.tree.cost(updates)) == min((t.height, t.cost(updates)) for t in every)


def test_busy_relation_becomes_the_root() -> None:
    query = cq("q(b, c) :- R(a, b), S(b, c), T(c, d).")
    busy = [choose_tree(query.edges, query.free, [Fraction(n) for n in counts]) for counts in ((9, 1, 1), (1, 1, 9))]
    assert [c.tree.show(labels(query)) for c in busy if c] == ["[b]→{R, S→T}", "[c]→{S→R, T}"]


@thoroughness(150)
@given(small)
def test_added_outputs_are_enough_and_fewest(query: ConjunctiveQuery) -> None:
    if not is_acyclic(query.edges):
        return
    added = fewest_added_outputs(query.edges, query.free)
    assert not added.cut
    assert added.variables <= query.bound
    assert is_free_connex(query.edges, query.free | added.variables)
    fewer = _subsets(sorted(query.bound), len(added.variables) - 1)
    assert not any(is_free_connex(query.edges, query.free | extra) for extra in fewer)


def _subsets(variables: list[Any], largest: int) -> list[frozenset[Any]]:
    found: list[frozenset[Any]] = [frozenset()]
    for v in variables:
        found += [s | {v} for s in found]
    return [s for s in found if len(s) <= largest]


def test_cut_search_still_mends_a_long_path() -> None:
    atoms = ", ".join(f"R{i}(x{i}, x{i + 1})" for i in range(24))
    query = cq(f"q(x0, x24) :- {atoms}.")
    added = fewest_added_outputs(query.edges, query.free)
    assert added.cut
    assert is_free_connex(query.edges, query.free | added.variables)
