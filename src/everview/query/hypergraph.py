"""Acyclicity and free-connexity by GYO reduction (crown.md 2, q-hierarchical.md 2.6), with witnesses."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from everview.query.conjunctive import ConjunctiveQuery
from everview.query.terms import Var

Edge = frozenset[Var]


@dataclass(frozen=True, slots=True)
class Cycle:
    """A smallest part that makes a query cyclic: its variables, and the atoms (by index) that link two of them.

    No variable can be left out: it is a cycle without chords, or a clique that no atom covers.
    """

    atoms: tuple[int, ...]
    variables: frozenset[Var]


@dataclass(frozen=True, slots=True)
class FreePath:
    """Two output variables joined only through variables that are not output: why a query is not free-connex.

    The path runs from one free variable through bound ones to another free one; neighbours share an atom, others do
    not.
    """

    path: tuple[Var, ...]


def gyo_residue(edges: Sequence[Edge]) -> dict[int, Edge]:
    """What is left when isolated vertices and contained edges are removed as long as there are any; empty: acyclic."""
    left = dict(enumerate(edges))
    changed = True
    while changed:
        changed = False
        occurrences: dict[Var, int] = {}
        for edge in left.values():
            for v in edge:
                occurrences[v] = occurrences.get(v, 0) + 1
        for i, edge in left.items():
            shared = frozenset(v for v in edge if occurrences[v] > 1)
            if shared != edge:
                left[i] = shared
                changed = True
        holders: dict[Var, set[int]] = {}
        for i, edge in left.items():
            for v in edge:
                holders.setdefault(v, set()).add(i)
        for i in list(left):
            near = min((holders[v] for v in left[i]), key=len, default=left.keys())
            if any(j != i and left[i] <= left[j] for j in near):
                for v in left.pop(i):
                    holders[v].discard(i)
                changed = True
    return {} if len(left) <= 1 else left


def is_acyclic(edges: Sequence[Edge]) -> bool:
    """α-acyclic: a join tree exists."""
    return not gyo_residue(edges)


def is_free_connex(edges: Sequence[Edge], free: Edge) -> bool:
    """Acyclic, and still so with one more edge over the output variables."""
    return is_acyclic(edges) and is_acyclic([*edges, free])


def cycle(query: ConjunctiveQuery) -> Cycle | None:
    """The witness of cyclicity, or None for an acyclic query.

    Restricting an acyclic hypergraph to some of its vertices leaves it acyclic, so vertices can be taken away one by
    one for as long as the rest is cyclic.
    """
    residue = gyo_residue(query.edges)
    if not residue:
        return None
    left = frozenset().union(*residue.values())
    for v in sorted(left):
        if not is_acyclic([e & (left - {v}) for e in query.edges]):
            left -= {v}
    return Cycle(tuple(i for i, e in enumerate(query.edges) if len(e & left) > 1), left)


def free_path(query: ConjunctiveQuery) -> FreePath | None:
    """A shortest witness that an acyclic query is not free-connex, or None if it is.

    An acyclic query fails to be free-connex exactly if such a path exists; a shortest one has no chords.
    """
    telling = frozenset(query.telling)
    neighbours: dict[Var, set[Var]] = {v: set() for v in telling}
    for edge in query.edges:
        for v in edge & telling:
            neighbours[v] |= edge & telling
    best: tuple[Var, ...] | None = None
    for start in sorted(query.free & telling):
        path = _bound_path(start, query.free, neighbours)
        if path and (best is None or len(path) < len(best)):
            best = path
    return FreePath(best) if best else None


def _bound_path(start: Var, free: Edge, neighbours: dict[Var, set[Var]]) -> tuple[Var, ...] | None:
    """A shortest path from ``start`` through bound variables to a free one that shares no atom with ``start``."""
    previous: dict[Var, Var] = {}
    queue = deque([start])
    while queue:
        here = queue.popleft()
        for v in sorted(neighbours[here] - {start}):
            if v in previous:
                continue
            if v in free:
                if here != start and v not in neighbours[start]:
                    path = [v, here]
                    while path[-1] != start:
                        path.append(previous[path[-1]])
                    return tuple(reversed(path))
                continue
            previous[v] = here
            queue.append(v)
    return None
