"""Edge covers of variable sets: integral ρ and fractional ρ*, the exponents of all size bounds."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

from everview.query.terms import Var

Edge = frozenset[Var]


def edge_cover_number(edges: Iterable[Edge], variables: Edge) -> int:
    """ρ: the fewest edges that together hold all the variables; nothing to cover takes none."""
    return len(edge_cover(edges, variables))


def edge_cover(edges: Iterable[Edge], variables: Edge) -> tuple[Edge, ...]:
    """A smallest cover itself, as the parts of the edges within the variables."""
    return _cover(_maximal(edges, variables), variables)


def fractional_cover_number(edges: Iterable[Edge], variables: Edge) -> Fraction:
    """ρ*: the same with fractions of edges, exactly; N^ρ* is the largest size the join can have (AGM bound)."""
    return _packing(_maximal(edges, variables), variables)


def _maximal(edges: Iterable[Edge], variables: Edge) -> tuple[Edge, ...]:
    parts = sorted({e & variables for e in edges}, key=lambda e: (-len(e), sorted(e)))
    kept: list[Edge] = []
    for part in parts:
        if part and not any(part <= k for k in kept):
            kept.append(part)
    return tuple(kept)


@lru_cache(maxsize=100_000)
def _cover(edges: tuple[Edge, ...], variables: Edge) -> tuple[Edge, ...]:
    if not variables:
        return ()
    scarce = min(variables, key=lambda v: (sum(v in e for e in edges), v))
    best: tuple[Edge, ...] | None = None
    for edge in edges:
        if scarce in edge:
            rest = variables - edge
            found = (edge, *_cover(_maximal(edges, rest), rest))
            if best is None or len(found) < len(best):
                best = found
    if best is None:
        raise ValueError(f"no edge holds {scarce}")
    return best


@lru_cache(maxsize=100_000)
def _packing(edges: tuple[Edge, ...], variables: Edge) -> Fraction:
    """The dual linear program (most weight on variables, at most 1 an edge), by the simplex method in fractions.

    Bland's rule makes it end; the slack variables are a feasible start.
    """
    columns = sorted(variables)
    if any(not any(v in e for e in edges) for v in columns):
        raise ValueError("a variable lies in no edge")
    width = len(columns) + len(edges)
    rows = [
        [Fraction(v in e) for v in columns] + [Fraction(i == j) for j in range(len(edges))] + [Fraction(1)]
        for i, e in enumerate(edges)
    ]
    basis = [len(columns) + i for i in range(len(edges))]
    goal = [Fraction(-1)] * len(columns) + [Fraction(0)] * (len(edges) + 1)
    while True:
        entering = next((j for j in range(width) if goal[j] < 0), None)
        if entering is None:
            return goal[-1]
        ratios = [(row[-1] / row[entering], basis[i], i) for i, row in enumerate(rows) if row[entering] > 0]
        _, _, leaving = min(ratios)
        pivot = rows[leaving][entering]
        rows[leaving] = [x / pivot for x in rows[leaving]]
        for row in [*(r for i, r in enumerate(rows) if i != leaving), goal]:
            factor = row[entering]
            if factor:
                row[:] = [x - factor * p for x, p in zip(row, rows[leaving], strict=True)]
        basis[leaving] = entering
