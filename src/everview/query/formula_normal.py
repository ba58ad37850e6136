"""A formula in the form in which it is cheapest to keep: variables apart, quantifiers as far in as they go.

What a quantifier's radius is depends on how the formula is written (fo-mod.md sections 3 and 6.1, test case M10). So
conjuncts that do not concern a quantifier move out of it, disjunctions split a plain ``exists``, and the variables of
nested plain ``exists`` are taken in the order that gives the least radius.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, permutations, product
from typing import Final

from everview.query.formula import (
    FALSE,
    TRUE,
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
    Truth,
    conjunction,
    disjunction,
    negation,
    quantifiers,
    rank,
    size,
    subformulas,
    substituted,
)
from everview.query.locality import UNGUARDED, kind, radius
from everview.query.terms import Const, Var

_MOST_ORDERS: Final = 5
"""Of so many variables all orders are tried; of more, the next one is the one that costs least at once."""
_MOST_DISJUNCTS: Final = 16
"""A conjunction of disjunctions is multiplied out, where that helps, to so many disjuncts at most."""


def normalised(query: FormulaQuery) -> FormulaQuery:
    """The same query, written so that its radii are small; all bound variables have different names."""
    formula = _apart(query.formula, _fresh_names(query), set(query.head))
    return replace(query, formula=_cheapest(formula))


def _fresh_names(query: FormulaQuery) -> Iterator[Var]:
    used = {v for f in subformulas(query.formula) for v in f.free} | {q.variable for q in quantifiers(query.formula)}
    names = (Var(f"{letter}{number or ''}") for number in count() for letter in "yzuvw")
    return (name for name in names if name not in used | set(query.head))


def _apart(formula: Formula, fresh: Iterator[Var], seen: set[Var]) -> Formula:
    """The same formula in which no variable is bound twice, or both bound and free."""
    match formula:
        case Not(body):
            return Not(_apart(body, fresh, seen))
        case And(parts):
            return And(tuple(_apart(p, fresh, seen) for p in parts))
        case Or(parts):
            return Or(tuple(_apart(p, fresh, seen) for p in parts))
        case Quantifier(_, variable, body):
            name = next(fresh) if variable in seen else variable
            seen.add(name)
            renamed = substituted(body, {variable: name}) if name != variable else body
            return replace(formula, variable=name, body=_apart(renamed, fresh, seen))
    return formula


def _cheapest(formula: Formula) -> Formula:
    """The formula with what is in it as cheap as it gets, from the inside out."""
    match formula:
        case Not(body):
            return negation(_cheapest(body))
        case And(parts):
            return conjunction(_cheapest(p) for p in parts)
        case Or(parts):
            return disjunction(_cheapest(p) for p in parts)
        case Quantifier(condition, variable, body):
            return _quantified(condition, variable, _cheapest(body), formula)
        case Equal(left, right) if left == right:
            return TRUE
        case Equal(Const() as left, Const() as right):
            return Truth(left == right)
        case Distance(left, right) if left == right:
            return TRUE
    return formula


def _cost(formula: Formula) -> tuple[int, int, int, int]:
    """What is worse in a formula, the worst first: radii, unguarded quantifiers, nesting, length."""
    reach = max([radius(formula), *(radius(q.body) for q in quantifiers(formula))])
    return reach, _unguarded(formula), rank(formula), size(formula)


def _unguarded(formula: Formula) -> int:
    return sum(kind(q) == UNGUARDED for q in quantifiers(formula))


def _quantified(condition: Condition, x: Var, body: Formula, written: Quantifier) -> Formula:
    """The quantifier over a body that is as cheap as it gets."""
    if condition == AtLeast(0):
        return TRUE
    if body == FALSE:
        return Truth(condition.holds(0))
    if condition == AtLeast(1):
        return _exists_any((x,), _parts(body), written)
    inside = [p for p in _parts(body) if x in p.free]
    outside = conjunction(p for p in _parts(body) if x not in p.free)
    if outside != TRUE:
        rest = _quantified(condition, x, conjunction(inside), written)
        none = negation(outside) if condition.holds(0) else FALSE
        return disjunction((conjunction((outside, rest)), none)) if none != FALSE else conjunction((outside, rest))
    for part in inside:
        other = _equated(part, x)
        if other is not None:
            return _of_one(condition, _cheapest(substituted(conjunction(p for p in inside if p != part), {x: other})))
    plain = replace(written, condition=condition, variable=x, body=body)
    apart = [p for p in body.parts if x not in p.free] if isinstance(body, Or) else []
    if not apart:
        return plain
    always = disjunction(apart)
    rest = conjunction((negation(always), body))  # the disjuncts that concern x, where the others are false
    rest = disjunction(p for p in body.parts if x in p.free) if isinstance(body, Or) else rest
    split = disjunction(
        (
            conjunction((always, replace(written, condition=condition, variable=x, body=TRUE))),
            conjunction((negation(always), _quantified(condition, x, rest, written))),
        )
    )
    return min((plain, split), key=_cost)


def _of_one(condition: Condition, holds: Formula) -> Formula:
    """The condition on the number of witnesses where there is one if ``holds``, and else none."""
    one, none = condition.holds(1), condition.holds(0)
    if one is none:
        return Truth(one)
    return holds if one else negation(holds)


def _parts(formula: Formula) -> tuple[Formula, ...]:
    return formula.parts if isinstance(formula, And) else (formula,)


def _equated(part: Formula, x: Var) -> Var | None:
    """The other variable that a conjunct says x is equal to."""
    if isinstance(part, Equal) and len(part.free) == 2 and x in part.free:
        return next(iter(part.free - {x}))
    return None


def _exists_any(variables: Sequence[Var], conjuncts: Sequence[Formula], written: Quantifier) -> Formula:
    """Some elements, one for each variable, make all conjuncts true; nested plain quantifiers are taken along.

    Another order than the one that is written is taken only where it leaves fewer quantifiers unguarded, or none: how
    unguarded ones are nested stays in the hands of who writes them.
    """
    inner = list(variables)
    flat: list[Formula] = []
    waiting = list(conjuncts)
    taken = set(inner).union(*(p.free for p in conjuncts))
    while waiting:
        part = waiting.pop(0)
        if isinstance(part, Quantifier) and part.condition == AtLeast(1) and part.free & set(inner):
            name = next(n for n in _variants(part.variable) if n not in taken)
            inner.append(name)
            taken.add(name)
            waiting[:0] = _parts(substituted(part.body, {part.variable: name}))
        else:
            flat.append(part)
    as_written = _eliminated(inner[::-1], flat, written)
    others = [_eliminated(order, flat, written) for order in _orders(inner, flat, written)]
    most = max(_unguarded(as_written) - 1, 0)
    best = min((as_written, *(f for f in others if _unguarded(f) <= most)), key=_cost)
    if not _unguarded(best):
        return best
    choices = [p.parts if isinstance(p, Or) else (p,) for p in flat]
    number = 1
    for choice in choices:
        number *= len(choice)
    if not 1 < number <= _MOST_DISJUNCTS:
        return best
    split = disjunction(_exists_any(inner, chosen, written) for chosen in product(*choices))
    return min((best, split), key=_cost)


def _variants(variable: Var) -> Iterator[Var]:
    """Names like that of a variable, its own first."""
    yield variable
    yield from (Var(f"{variable}_{number}") for number in count(2))


def _orders(variables: Sequence[Var], conjuncts: Sequence[Formula], written: Quantifier) -> Iterator[Sequence[Var]]:
    """Orders, the innermost variable first, that are worth trying."""
    innermost = list(reversed(variables))
    if len(variables) <= _MOST_ORDERS:
        yield from permutations(innermost)
        return
    order: list[Var] = []
    while innermost:
        best = min(innermost, key=lambda v: _cost(_eliminated([*order, v], conjuncts, written)))
        order.append(best)
        innermost.remove(best)
    yield order


def _eliminated(order: Sequence[Var], conjuncts: Sequence[Formula], written: Quantifier) -> Formula:
    """The conjuncts under a plain quantifier for each variable, each over those conjuncts only that concern it."""
    left = list(conjuncts)
    for x in order:
        inside = [p for p in left if x in p.free]
        left = [p for p in left if x not in p.free]
        left += _parts(_exists(x, inside, written, is_inhabited=any(p.free for p in left)))
    return conjunction(left)


def _exists(x: Var, conjuncts: Sequence[Formula], written: Quantifier, *, is_inhabited: bool) -> Formula:
    """Some element x makes the conjuncts true, each of which concerns it."""
    if not conjuncts and is_inhabited:
        return TRUE
    for part in conjuncts:
        other = _equated(part, x)
        if other is not None:
            return _cheapest(substituted(conjunction(p for p in conjuncts if p != part), {x: other}))
    if len(conjuncts) == 1 and isinstance(conjuncts[0], Or):
        return disjunction(_exists_any((x,), _parts(p), written) for p in conjuncts[0].parts)
    return replace(written, condition=AtLeast(1), variable=x, body=conjunction(conjuncts))


def is_domain_independent(query: FormulaQuery) -> bool:
    """True if no element can matter that stands in no fact of the formula's relations.

    So it is if every variable, of the head and of quantifiers, is bound by a fact wherever what it is in holds.
    """
    bound = all(q.variable in _bound(q.body) for q in quantifiers(query.formula))
    return bound and set(query.head) <= _bound(query.formula)


def _bound(formula: Formula) -> frozenset[Var]:
    """Free variables that must stand in a fact where the formula is true."""
    match formula:
        case Fact():
            return formula.free
        case And(parts):
            found = frozenset[Var]().union(*map(_bound, parts))
            for part in (*parts, *parts):
                if isinstance(part, Equal) and part.free & found:
                    found |= part.free
            return found
        case Or(parts):
            each = [_bound(p) for p in parts]
            return each[0].intersection(*each[1:])
        case Quantifier(AtLeast(least), _, body) if least >= 1:
            return _bound(body) - {formula.variable}
        case Quantifier(Residue(residue, _), _, body) if residue:
            return _bound(body) - {formula.variable}
        case Not(Quantifier(Residue(0, _), variable, body)):
            return _bound(body) - {variable}
        case Truth(False):
            return frozenset()
    return frozenset()
