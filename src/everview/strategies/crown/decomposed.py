"""The relations that a tree is over: the atoms of a query, or bags of them where it is cyclic (crown.md 8).

Bags are those of least width, and keys make them smaller (ucq-constraints.md 9.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from everview.query.conjunctive import ConjunctiveQuery
from everview.query.decomposition import Decomposition, decompose
from everview.query.dependencies import Dependency
from everview.query.hypergraph import is_free_connex
from everview.query.show import atom_labels
from everview.strategies.crown.tree import Edge

TRIANGLE = 3
"""A triangle's atoms."""


@dataclass(frozen=True)
class Relation:
    """A node of the tree's input: an atom, or a bag of several that is kept materialised."""

    label: str
    variables: Edge
    atoms: tuple[int, ...]
    guards: tuple[int, ...] = ()

    @property
    def is_bag(self) -> bool:
        """True if it is a join that must be maintained itself."""
        return len(self.atoms) + len(self.guards) > 1


def is_triangle(edges: Sequence[Edge]) -> bool:
    """True for the sides of a triangle: three edges that have a corner in pairs, and no variables of their own."""
    return (
        len(edges) == TRIANGLE
        and _meet_in_pairs(*edges)
        and all(edge <= frozenset().union(*(other for other in edges if other is not edge)) for edge in edges)
    )


def is_triangle_bag(query: ConjunctiveQuery, relation: Relation) -> bool:
    """True if a bag is a triangle and nothing else."""
    return is_triangle([query.edges[i] & relation.variables for i in (*relation.atoms, *relation.guards)])


def has_triangle(query: ConjunctiveQuery, relation: Relation) -> bool:
    """True if three atoms of a bag meet in pairs, each pair in a variable that the third does not have."""
    edges = [query.edges[i] for i in (*relation.atoms, *relation.guards)]
    return any(_meet_in_pairs(*three) for three in combinations(edges, TRIANGLE))


def _meet_in_pairs(a: Edge, b: Edge, c: Edge) -> bool:
    return bool((a & b) - c and (b & c) - a and (c & a) - b)


def by_keys(
    query: ConjunctiveQuery, dependencies: tuple[Dependency, ...]
) -> tuple[tuple[Dependency, ...], Decomposition]:
    """Bags, and the keys that make them smaller; none where they do not, as guards for keys are further work."""
    plain = _decomposition(query, ())
    if not dependencies or plain.fractional_width <= 1:
        return (), plain
    least = _decomposition(query, dependencies).fractional_width
    if least >= plain.fractional_width:
        return (), plain
    for d in dependencies:
        fewer = tuple(other for other in dependencies if other != d)
        if fewer and _decomposition(query, fewer).fractional_width == least:
            dependencies = fewer
    return dependencies, _decomposition(query, dependencies)


def smaller_by(dependencies: Sequence[Dependency]) -> list[str]:
    """What keys do to bags, in words."""
    if not dependencies:
        return []
    relied = "; one of them is relied on and not checked" if any(d.is_relied_on for d in dependencies) else ""
    return [f"bags are smaller by {', '.join(dict.fromkeys(d.name for d in dependencies))}{relied}"]


def _decomposition(query: ConjunctiveQuery, dependencies: Sequence[Dependency]) -> Decomposition:
    """Bags that keep the output together where that costs no width, else bags of least width.

    Columns that nothing else mentions play no part: with them, an atom inside a bag would look like one beside it. A
    condition on one atom filters its rows before they come to a bag.
    """
    joined = frozenset(v for v, atoms in query.atoms_of.items() if len(atoms) > 1)
    across = [p.variables for p in query.predicates if not any(p.variables <= e for e in query.edges)]
    relevant = joined.union(query.free, *across)
    edges = [e & relevant for e in query.edges]
    least = decompose(edges, None, dependencies)
    if is_free_connex([b.variables for b in least.bags], query.free):
        return least
    together = decompose(edges, query.free, dependencies)
    same = (together.width, together.fractional_width) <= (least.width, least.fractional_width)
    return together if same else least


def relations_of(query: ConjunctiveQuery, decomposition: Decomposition | None) -> tuple[Relation, ...]:
    """The atoms, or the bags that they are decomposed into."""
    labels = atom_labels(query)
    if decomposition is None:
        return tuple(Relation(labels[i], e, (i,)) for i, e in enumerate(query.edges))
    found = []
    for bag in decomposition.bags:
        parts = [labels[i] for i in bag.edges] + [f"π {labels[i]}" for i in bag.guards]
        label = parts[0] if len(parts) == 1 else " ⋈ ".join(parts)
        found.append(Relation(label, bag.variables, bag.edges, bag.guards))
    return tuple(found)
