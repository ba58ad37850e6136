"""The fewest output variables to add so that an acyclic query becomes free-connex (crown.md 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.query.conjunctive import Atom, ConjunctiveQuery
from everview.query.hypergraph import free_path, is_free_connex
from everview.query.terms import Var

Edge = frozenset[Var]
MOST_WORK = 20_000
"""So many edges are looked at, over all sets of variables that are tried; then whole paths are added greedily."""


@dataclass(frozen=True, slots=True)
class AddedOutputs:
    """The variables added, and whether the search was cut before it could prove that fewer will not do."""

    variables: Edge
    cut: bool = False


def fewest_added_outputs(edges: Sequence[Edge], free: Edge) -> AddedOutputs:
    """A smallest set of variables that makes an acyclic query free-connex.

    A chordless path between two output variables through others stays a witness until one of its inner variables is
    output, so only those need be tried: breadth first, smallest sets first.
    """
    layer = {frozenset[Var]()}
    seen = 0
    while layer:
        following: set[Edge] = set()
        for added in sorted(layer, key=sorted):
            seen += 1
            path = _path(edges, free | added)
            if path is None:
                return AddedOutputs(added)
            following |= {added | {v} for v in path}
        if (seen + len(following)) * len(edges) > MOST_WORK:
            return AddedOutputs(_greedy(edges, free), cut=True)
        layer = following
    raise AssertionError("all variables as output make any acyclic query free-connex")


def _greedy(edges: Sequence[Edge], free: Edge) -> Edge:
    """Whole paths are added until none is left, then every variable that turns out not to be needed goes again."""
    added: Edge = frozenset()
    path = _path(edges, free)
    while path is not None:
        added |= path
        path = _path(edges, free | added)
    for v in sorted(added):
        if is_free_connex(edges, free | (added - {v})):
            added -= {v}
    return added


def _path(edges: Sequence[Edge], free: Edge) -> Edge | None:
    """The inner variables of a witness path."""
    body = tuple(Atom(f"e{i}", tuple(sorted(e))) for i, e in enumerate(edges))
    witness = free_path(ConjunctiveQuery(tuple(sorted(free)), body))
    return frozenset(witness.path[1:-1]) if witness else None
