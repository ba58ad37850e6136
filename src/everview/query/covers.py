"""Edge covers of variable sets: integral ρ and fractional ρ*, the exponents of all size bounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from everview.query.terms import Var

Edge = frozenset[Var]
MOST_STEPS = 2_000
"""A smallest cover is looked for in so many steps; then the greedy one is taken, which is not proven smallest."""
MOST_PIVOTS = 300
"""The linear program is given up after so many pivots; then the integral cover bounds the fractional one."""


def edge_cover_number(edges: Iterable[Edge], variables: Edge) -> int:
    """ρ: the fewest edges that together hold all the variables; nothing to cover takes none."""
    return len(edge_cover(edges, variables))


def edge_cover(edges: Iterable[Edge], variables: Edge) -> tuple[Edge, ...]:
    """A smallest cover itself, as the parts of the edges within the variables."""
    return _cover(_maximal(edges, variables), variables).edges


def are_proven(edges: Iterable[Edge], variables: Edge) -> bool:
    """True if neither cover's search was cut, so that both numbers are the least there are."""
    maximal = _maximal(edges, variables)
    return _cover(maximal, variables).proven and _packing(maximal, variables)[1]


def fractional_cover_number(edges: Iterable[Edge], variables: Edge) -> Fraction:
    """ρ*: the same with fractions of edges, exactly; N^ρ* is the largest size the join can have (AGM bound)."""
    return _packing(_maximal(edges, variables), variables)[0]


def _maximal(edges: Iterable[Edge], variables: Edge) -> tuple[Edge, ...]:
    parts = sorted({e & variables for e in edges}, key=lambda e: (-len(e), sorted(e)))
    kept: list[Edge] = []
    for part in parts:
        if part and not any(part <= k for k in kept):
            kept.append(part)
    return tuple(kept)


@dataclass(frozen=True, slots=True)
class _Cover:
    edges: tuple[Edge, ...]
    proven: bool


@lru_cache(maxsize=20_000)
def _cover(edges: tuple[Edge, ...], variables: Edge) -> _Cover:
    columns = sorted(variables)
    place = {v: i for i, v in enumerate(columns)}
    search = _CoverSearch([sum(1 << place[v] for v in e) for e in edges], (1 << len(columns)) - 1)
    lost = search.everything & ~search.within
    if lost:
        raise ValueError(f"no edge holds {columns[(lost & -lost).bit_length() - 1]}")
    masks = search.best()
    parts = (frozenset(v for i, v in enumerate(columns) if mask >> i & 1) for mask in masks)
    return _Cover(tuple(parts), search.steps >= 0)


class _CoverSearch:
    """Branch and bound over variables as bits: of all smallest covers the first, trying large edges first."""

    def __init__(self, edges: Sequence[int], everything: int) -> None:
        self.edges = edges
        self.everything = everything
        self.within = 0
        for edge in edges:
            self.within |= edge
        self.steps = MOST_STEPS
        self.found: tuple[int, ...] = ()
        self.limit = 0

    def best(self) -> tuple[int, ...]:
        self.found = self._greedy()
        self.limit = len(self.found) + 1
        self._extend(self.everything, ())
        return self.found

    def _greedy(self) -> tuple[int, ...]:
        left, chosen = self.everything, []
        while left:
            part = max((e & left for e in self.edges), key=int.bit_count)
            chosen.append(part)
            left &= ~part
        return tuple(chosen)

    def _extend(self, left: int, chosen: tuple[int, ...]) -> None:
        self.steps -= 1
        if self.steps < 0:
            return
        if not left:
            self.found, self.limit = chosen, len(chosen)
            return
        parts = _largest({e & left for e in self.edges})
        if len(chosen) - (-left.bit_count() // parts[0].bit_count()) >= self.limit:
            return
        scarce = min(_bits(left), key=lambda bit: sum(bool(p & bit) for p in parts))
        for part in parts:
            if part & scarce:
                self._extend(left & ~part, (*chosen, part))


def _largest(masks: Iterable[int]) -> list[int]:
    """The masks that no other one contains, the largest first, and of equal ones those with the first variables."""
    ordered = sorted(masks, key=lambda m: (-m.bit_count(), _bits(m)))
    kept: list[int] = []
    for mask in ordered:
        if mask and not any(mask | k == k for k in kept):
            kept.append(mask)
    return kept


def _bits(mask: int) -> list[int]:
    found = []
    while mask:
        found.append(mask & -mask)
        mask &= mask - 1
    return found


@lru_cache(maxsize=20_000)
def _packing(edges: tuple[Edge, ...], variables: Edge) -> tuple[Fraction, bool]:
    """The dual linear program (most weight on variables, at most 1 an edge), and whether it was solved to its end.

    The simplex method over whole numbers with one common denominator, the last pivot: divisions leave no rest. Bland's
    rule makes it end; the slack variables are a feasible start. Variables that the same edges hold share one weight.
    """
    holders = {v: tuple(v in e for e in edges) for v in sorted(variables)}
    columns = list(dict.fromkeys(holders.values()))
    if any(not any(column) for column in columns):
        raise ValueError("a variable lies in no edge")
    width = len(columns) + len(edges)
    rows = [
        [int(column[i]) for column in columns] + [int(i == j) for j in range(len(edges))] + [1]
        for i in range(len(edges))
    ]
    basis = [len(columns) + i for i in range(len(edges))]
    goal = [-1] * len(columns) + [0] * (len(edges) + 1)
    denominator = 1
    for _ in range(MOST_PIVOTS):
        entering = next((j for j in range(width) if goal[j] < 0), None)
        if entering is None:
            return Fraction(goal[-1], denominator), True
        ratios = [(Fraction(row[-1], row[entering]), basis[i], i) for i, row in enumerate(rows) if row[entering] > 0]
        _, _, leaving = min(ratios)
        chosen = rows[leaving]
        pivot = chosen[entering]
        for row in [*(r for i, r in enumerate(rows) if i != leaving), goal]:
            factor = row[entering]
            row[:] = [(x * pivot - factor * p) // denominator for x, p in zip(row, chosen, strict=True)]
        denominator = pivot
        basis[leaving] = entering
    return Fraction(len(_cover(edges, variables).edges)), False
