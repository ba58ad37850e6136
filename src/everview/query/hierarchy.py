"""Hierarchical, q-hierarchical and t-hierarchical queries (q-hierarchical.md 2.1, 2.2; ucq-constraints.md 4)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, permutations

from everview.query.conjunctive import ConjunctiveQuery
from everview.query.terms import Var, names


@dataclass(frozen=True, slots=True)
class Violation:
    """Why a query is outside a class: the condition broken, two variables, and the atoms (by index) that show it."""

    condition: str
    x: Var
    y: Var
    atoms: tuple[int, ...]

    def describe(self, query: ConjunctiveQuery) -> str:
        """The violation in words."""
        shown = [str(query.atoms[i]) for i in self.atoms]
        if self.condition == "i":
            only_x, both, only_y = shown
            return f"{self.x} and {self.y} meet in {both}, but {only_x} has only {self.x} and {only_y} only {self.y}"
        both, only_y = shown
        return f"{self.x} is output and {self.y} is not, but {only_y} has {self.y} without {self.x} ({both} has both)"


def hierarchical_violation(query: ConjunctiveQuery) -> Violation | None:
    """The first pair of variables whose atom sets overlap without containment; None for a hierarchical query."""
    return next(filter(None, (_overlap(query, x, y) for x, y in combinations(query.telling, 2))), None)


def q_violation(query: ConjunctiveQuery) -> Violation | None:
    """Why the query is not q-hierarchical; None if it is. The inclusion of condition (ii) is strict."""
    broken = hierarchical_violation(query)
    if broken:
        return broken
    atoms_of = query.atoms_of
    for x, y in permutations(query.telling, 2):
        if x in query.free and y not in query.free and atoms_of[x] < atoms_of[y]:
            return _outside(query, x, y)
    return None


def t_violation(query: ConjunctiveQuery) -> Violation | None:
    """Why membership cannot be tested in constant time: the query is not t-hierarchical; None if it is."""
    atoms_of = query.atoms_of
    bound = [v for v in query.telling if v not in query.free]
    for x, y in combinations(bound, 2):
        broken = _overlap(query, x, y)
        if broken:
            return broken
    for x in query.telling:
        for y in bound:
            if x in query.free and atoms_of[x] & atoms_of[y] and not atoms_of[y] <= atoms_of[x]:
                return _outside(query, x, y)
    return None


def is_hierarchical(query: ConjunctiveQuery) -> bool:
    """True if any two variables have atom sets that are disjoint or nested."""
    return hierarchical_violation(query) is None


def is_q_hierarchical(query: ConjunctiveQuery) -> bool:
    """Hierarchical, and no output variable below one that is summed out."""
    return q_violation(query) is None


def is_t_hierarchical(query: ConjunctiveQuery) -> bool:
    """True if membership of a tuple can be tested in constant time under updates."""
    return t_violation(query) is None


def _overlap(query: ConjunctiveQuery, x: Var, y: Var) -> Violation | None:
    a, b = query.atoms_of[x], query.atoms_of[y]
    if not a & b or a <= b or b <= a:
        return None
    return Violation("i", x, y, (min(a - b), min(a & b), min(b - a)))


def _outside(query: ConjunctiveQuery, x: Var, y: Var) -> Violation:
    a, b = query.atoms_of[x], query.atoms_of[y]
    return Violation("ii", x, y, (min(a & b), min(b - a)))


class NotHierarchicalError(ValueError):
    """A structure that only hierarchical (or q-hierarchical) queries have was asked of another query."""

    def __init__(self, query: ConjunctiveQuery, violation: Violation) -> None:
        super().__init__(f"{names((violation.x, violation.y))}: {violation.describe(query)}")
        self.violation = violation
