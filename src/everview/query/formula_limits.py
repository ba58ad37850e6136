"""What a formula may cost, judged before there is data: limits, each with an error that says which part is to blame.

That some limits are needed is proven: what an update costs must grow three-fold exponentially with the formula in the
worst case (fo-mod.md section 9). These leave what is kept in practice (section 5).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from everview.errors import FormulaLimitError
from everview.query.formula import Distance, Formula, Quantifier, children, rank, size
from everview.query.locality import CLOSED, GUARDED, UNGUARDED, Locality, QuantifierFacts, ball_bound, radius


@dataclass(frozen=True)
class FormulaLimits:
    """The limits of a formula, and of what an update may take at run time."""

    radius: int = 4
    ball: int = 500
    near_ball: int = 5_000
    arity: int = 3
    rank: int = 4
    sentences: int = 16
    size: int = 400
    """Of how many atoms, connectives and quantifiers a formula may be made."""
    types: int = 50_000
    """Realised types for each radius."""
    steps: int = 10_000_000
    """Steps of evaluation for each changed fact."""


LIMITS = FormulaLimits()


def balls(locality: Locality, degree: int) -> tuple[int, int | None]:
    """How many elements are looked at around an answer, and around one where near pairs are counted; None if not."""
    around = max(1, locality.arity) * ball_bound(degree, locality.reach)
    radii = [2 * q.body_radius + 1 for q in locality.unguarded]
    if locality.arity >= 2:
        radii.append(2 * locality.radius + 1)
    return around, ball_bound(degree, max(radii)) if radii else None


def check_size(formula: Formula, limits: FormulaLimits = LIMITS) -> None:
    """Raise if a formula is too long to be looked at closely."""
    found = size(formula)
    if found > limits.size:
        raise FormulaLimitError(
            f"the formula is made of {found} parts, and may be of {limits.size}",
            limit="SIZE_LIMIT",
            bound=found,
            allowed=limits.size,
            hint="split the query; each 'iff' doubles both of its sides",
        )


def check_limits(locality: Locality, degree: int, limits: FormulaLimits = LIMITS) -> None:
    """Raise if a normalised query costs more than is allowed, and say which part of it does and what to do."""
    if locality.arity > limits.arity:
        raise FormulaLimitError(
            f"{locality.query.name} has {locality.arity} variables in its head, and may have {limits.arity}",
            limit="ARITY_LIMIT",
            bound=locality.arity,
            allowed=limits.arity,
            hint="split the query into several of fewer variables",
        )
    if locality.rank > limits.rank:
        deepest = _deepest(locality.query.formula)
        raise FormulaLimitError(
            f"quantifiers are nested {locality.rank} deep, and may be {limits.rank} deep: {deepest}",
            limit="RANK_LIMIT",
            bound=locality.rank,
            allowed=limits.rank,
            subformula=str(deepest),
            position=deepest.position,
            hint="split the query, or say it with dist(x, y) <= r",
        )
    if len(locality.sentences) > limits.sentences:
        last = locality.sentences[-1]
        raise FormulaLimitError(
            f"the formula has {len(locality.sentences)} closed parts, and may have {limits.sentences}: {last} is one",
            limit="SENTENCE_LIMIT",
            bound=len(locality.sentences),
            allowed=limits.sentences,
            subformula=str(last),
            position=last.position,
            hint="split the query",
        )
    if locality.reach > limits.radius:
        raise _too_far(locality, limits)
    _check_balls(locality, degree, limits)


def _check_balls(locality: Locality, degree: int, limits: FormulaLimits) -> None:
    around, near = balls(locality, degree)
    reach = locality.reach
    if around > limits.ball:
        cause, most = _cause(locality, reach), _largest(degree, limits.ball // max(1, locality.arity))
        raise FormulaLimitError(
            f"with at most {degree} neighbours each, up to {around} elements are within {reach} of an answer, and "
            f"{limits.ball} may be; the radius comes from {cause}",
            limit="BALL_LIMIT",
            bound=around,
            allowed=limits.ball,
            subformula=str(cause),
            position=getattr(cause, "position", None),
            hint=f"lower degree, or {_advice(locality, cause, most)}",
        )
    if near is not None and near > limits.near_ball:
        widest = max(locality.unguarded, key=lambda q: q.body_radius, default=None)
        part = locality.query.formula if widest is None else widest.quantifier
        raise FormulaLimitError(
            f"with at most {degree} neighbours each, up to {near} elements count as near one, and {limits.near_ball} "
            f"may; this comes from {part}",
            limit="BALL_LIMIT",
            bound=near,
            allowed=limits.near_ball,
            subformula=str(part),
            position=getattr(part, "position", None),
            hint=f"lower degree, or {_advice(locality, part, (_largest(degree, limits.near_ball) - 1) // 2)}",
        )


def _largest(degree: int, elements: int) -> int:
    """The largest radius at which a ball has no more than so many elements."""
    return next(radius for radius in count() if ball_bound(degree, radius + 1) > elements)


def _too_far(locality: Locality, limits: FormulaLimits) -> FormulaLimitError:
    cause = _cause(locality, limits.radius + 1)
    return FormulaLimitError(
        f"one has to look {locality.reach} steps around an element, and may look {limits.radius}; this comes from "
        f"{cause}",
        limit="RADIUS_LIMIT",
        bound=locality.reach,
        allowed=limits.radius,
        subformula=str(cause),
        position=getattr(cause, "position", None),
        hint=_advice(locality, cause, limits.radius),
    )


def _cause(locality: Locality, least: int) -> Formula:
    """The innermost part of the query whose own radius is at least this one."""
    formula: Formula = locality.query.formula
    while True:
        below = [c for c in children(formula) if _reach(c) >= least]
        if not below or (radius(formula) >= least and all(radius(c) < least for c in below)):
            return formula
        formula = below[0]


def _reach(formula: Formula) -> int:
    return max([radius(formula), *(_reach(c) for c in children(formula))])


def _deepest(formula: Formula) -> Quantifier:
    """The outermost quantifier of the deepest nesting."""
    while not isinstance(formula, Quantifier):
        formula = max(children(formula), key=rank)
    return formula


def _advice(locality: Locality, cause: Formula, most: int) -> str:
    """What would bring the radius down to ``most``: a shorter distance, a guard for a variable that needs one."""
    if isinstance(cause, Distance):
        return f"ask for a distance of at most {2 * most}, or split the query"
    inside = [q for q in locality.quantifiers if q.kind == UNGUARDED and _contains(cause, q.quantifier)]
    if inside:
        found = inside[-1]
        others = " or ".join(sorted(v.name for v in found.quantifier.free))
        return f"guard variable {found.quantifier.variable} by an atom with {others}, or split the query"
    return "split the query, or have its atoms link variables in fewer steps"


def _contains(formula: Formula, part: Formula) -> bool:
    return formula == part or any(_contains(c, part) for c in children(formula))


def describe_quantifier(found: QuantifierFacts) -> str:
    """Where the witnesses of a quantifier may be, in words."""
    if found.kind == CLOSED:
        return "closed: one truth value for the whole database"
    if found.kind == GUARDED:
        return f"guarded: {found.guard}"
    free = ", ".join(sorted(v.name for v in found.quantifier.free))
    return f"unguarded: witnesses may be anywhere, wherever {free} may be"
