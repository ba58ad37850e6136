"""How far around an element one has to look to know whether a formula holds there (fo-mod.md section 6.1).

A quantifier is *guarded* if its witnesses lie within a known distance of one of its free variables, *closed* if it has
none, and otherwise *unguarded*: then witnesses may be anywhere, and the census tells how many there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Final, TypeAlias

from everview.query.formula import (
    And,
    AtLeast,
    Condition,
    Distance,
    Equal,
    Fact,
    Formula,
    FormulaQuery,
    Not,
    Or,
    Quantifier,
    Residue,
    quantifiers,
    rank,
)
from everview.query.terms import Var

Links: TypeAlias = dict[frozenset[Var], int]
"""For pairs of variables how far apart they are at most where a formula is true."""


def links(formula: Formula) -> Links:
    """For pairs of free variables an upper bound of their distance that follows from the formula."""
    match formula:
        case Fact():
            return {frozenset(pair): 1 for pair in combinations(sorted(formula.free), 2)}
        case Equal() if len(formula.free) == 2:
            return {formula.free: 0}
        case Distance(_, _, bound) if len(formula.free) == 2:
            return {formula.free: bound}
        case And(parts):
            return _closed([links(p) for p in parts])
        case Or(parts):
            each = [links(p) for p in parts]
            pairs = set(each[0]).intersection(*each[1:])
            return {pair: max(found[pair] for found in each) for pair in pairs}
        case Quantifier(condition, variable, body) if _needs_witness(condition):
            return _without(variable, links(body))
        case Not(Quantifier(condition, variable, body)) if _needs_witness(condition, negated=True):
            return _without(variable, links(body))
    return {}


def _needs_witness(condition: Condition, *, negated: bool = False) -> bool:
    """True if there is a witness where the condition holds, or where it does not."""
    match condition:
        case AtLeast(least):
            return not negated and least >= 1
        case Residue(residue, _):
            return (residue == 0) is negated


def _without(variable: Var, found: Links) -> Links:
    return {pair: bound for pair, bound in found.items() if variable not in pair}


def _closed(each: list[Links]) -> Links:
    """The least bound of each pair in any of these, by whatever way leads from one to the other."""
    best: Links = {}
    for found in each:
        for pair, bound in found.items():
            best[pair] = min(bound, best.get(pair, bound))
    variables = sorted(frozenset[Var]().union(*best))
    for middle in variables:
        for left, right in combinations(variables, 2):
            first, second = best.get(frozenset((left, middle))), best.get(frozenset((middle, right)))
            if middle not in (left, right) and first is not None and second is not None:
                pair = frozenset((left, right))
                best[pair] = min(first + second, best.get(pair, first + second))
    return best


@dataclass(frozen=True)
class Guard:
    """The witnesses of a quantifier lie within ``distance`` of what ``variable`` stands for."""

    variable: Var
    distance: int

    def __str__(self) -> str:
        return f"within {self.distance} of {self.variable}"


CLOSED: Final = "closed"
GUARDED: Final = "guarded"
UNGUARDED: Final = "unguarded"


def guard(quantifier: Quantifier) -> Guard | None:
    """The free variable nearest to which all witnesses are, if there is one."""
    found = links(quantifier.body)
    bounds = ((found.get(frozenset((quantifier.variable, y))), y) for y in sorted(quantifier.free))
    return min((Guard(y, s) for s, y in bounds if s is not None), key=lambda g: g.distance, default=None)


def kind(quantifier: Quantifier) -> str:
    """Where its witnesses may be: CLOSED, GUARDED or UNGUARDED."""
    if not quantifier.free:
        return CLOSED
    return UNGUARDED if guard(quantifier) is None else GUARDED


def radius(formula: Formula) -> int:
    """Whether the formula holds depends on what is within this distance of its free variables, and on global counts."""
    match formula:
        case Distance(_, _, bound):
            return (bound + 1) // 2
        case Not(body):
            return radius(body)
        case And(parts) | Or(parts):
            return max(map(radius, parts))
        case Quantifier(_, _, body):
            if not formula.free:
                return 0
            nearest = guard(formula)
            return 3 * radius(body) + 1 if nearest is None else radius(body) + nearest.distance
    return 0


def ball_bound(degree: int, radius: int) -> int:
    """How many elements are within a radius of one, where each has at most so many neighbours (fo-mod.md section 2)."""
    degree = max(degree, 2)
    if degree == 2:
        return 2 * radius + 1
    return int(1 + degree * ((degree - 1) ** radius - 1) // (degree - 2))


@dataclass(frozen=True)
class QuantifierFacts:
    """What is known of one quantifier of a formula."""

    quantifier: Quantifier
    kind: str
    guard: Guard | None
    body_radius: int
    radius: int


@dataclass(frozen=True)
class Locality:
    """What the analysis of a normalised query says: guards, radii, and what has to be counted."""

    query: FormulaQuery

    @cached_property
    def quantifiers(self) -> tuple[QuantifierFacts, ...]:
        """Each quantifier once, from the outside in."""
        return tuple(
            QuantifierFacts(q, kind(q), guard(q) if q.free else None, radius(q.body), radius(q))
            for q in quantifiers(self.query.formula)
        )

    @property
    def arity(self) -> int:
        """Of how many elements an answer is."""
        return len(self.query.head)

    @cached_property
    def radius(self) -> int:
        """That of the formula itself: an answer depends on what is so near, and on global counts."""
        return radius(self.query.formula)

    @cached_property
    def rank(self) -> int:
        """How deep quantifiers are nested."""
        return rank(self.query.formula)

    @cached_property
    def sentences(self) -> tuple[Quantifier, ...]:
        """The closed quantifiers: each has one truth value at a time."""
        return tuple(q.quantifier for q in self.quantifiers if q.kind == CLOSED)

    @cached_property
    def unguarded(self) -> tuple[QuantifierFacts, ...]:
        """The quantifiers with free variables whose witnesses may be anywhere."""
        return tuple(q for q in self.quantifiers if q.kind == UNGUARDED)

    @cached_property
    def counted_radii(self) -> tuple[int, ...]:
        """The radii of the bodies of closed and unguarded quantifiers: of so large types elements are counted."""
        return tuple(sorted({q.body_radius for q in self.quantifiers if q.kind != GUARDED}))

    @cached_property
    def reach(self) -> int:
        """The largest radius that an element's surroundings are looked at to: r* of fo-mod.md section 5."""
        return max((self.radius, *self.counted_radii))

    @property
    def caching_class(self) -> str:
        """G0: no global counts are asked for; G1: only closed sentences; G2: counts of what is far (section 6.6)."""
        if self.unguarded:
            return "G2"
        return "G1" if self.sentences else "G0"

    @property
    def tier(self) -> str:
        """A: cheap; B: dearer; C: three elements an answer, which are listed and tested only (section 5)."""
        if self.arity >= 3:
            return "C"
        return "B" if self.arity == 2 or self.unguarded or self.reach > 2 else "A"
