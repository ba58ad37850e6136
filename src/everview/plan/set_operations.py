"""The set operations of a part: what they do with the rows of their sides, and which of them keep rows for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from everview.plan.ordering import said_of
from everview.plan.unions import Combination
from everview.query.terms import Const
from everview.query.types import Kind
from everview.query.view import Block, Body, Cut, Exploded, FormulaBody, SetOperation, SetOperator, Timed, Windowed

Constants = frozenset[Const] | None
_ROUNDED: Final = (Kind.FLOAT, Kind.DOUBLE)


def is_set_union(body: Body) -> bool:
    """True if duplicates never matter below: UNION all the way down."""
    if isinstance(body, Cut | Windowed | Timed | Exploded):
        return False
    if not isinstance(body, SetOperation):
        return True
    same = body.operator is SetOperator.UNION and not body.all
    return same and is_set_union(body.left) and is_set_union(body.right)


def only_concatenates(body: Body) -> bool:
    """True if set operations pass rows on and count nothing: UNION ALL all the way down."""
    if isinstance(body, Cut | Windowed | Timed | Exploded):
        return False
    if not isinstance(body, SetOperation):
        return True
    passes = body.operator is SetOperator.UNION and body.all
    return passes and only_concatenates(body.left) and only_concatenates(body.right)


def are_disjoint(sides: Sequence[Body]) -> bool:
    """True if no row can be on two sides, as in some column each has constants of its own."""
    return any(_differ(column) for column in zip(*map(_constants, sides), strict=True))


def _differ(column: Sequence[Constants]) -> bool:
    """True if what a column has on each side is known, of one kind, and on no other side."""
    known = [found for found in column if found is not None]
    together = frozenset[Const]().union(*known)
    is_known = len(known) == len(column) and len({c.kind for c in together}) == 1
    return is_known and len(together) == sum(map(len, known))


def _constants(body: Body) -> list[Constants]:
    """For each column the numbers or texts that stand in it; None where others may."""
    match body:
        case Block():
            terms = ((o.expression.term, o.type.kind) for o in body.outputs)
            return [
                frozenset((t,)) if isinstance(t, Const) and t.kind in ("int", "str") and kind not in _ROUNDED else None
                for t, kind in terms
            ]
        case SetOperation(operator=SetOperator.UNION):
            sides = zip(_constants(body.left), _constants(body.right), strict=True)
            return [None if one is None or other is None else one | other for one, other in sides]
        case SetOperation():
            return _constants(body.left)
        case Cut():
            return _constants(body.body)[: len(body.columns)]
    return [None] * len(body.columns)


_COMBINED = {
    Combination.TESTED: "each row once, as its members are asked for it; nothing is kept",
    Combination.ASKED: "a row is there if one of them has it; nothing is kept, or listed",
    Combination.DISJOINT: "pass their rows on, as no two have one in common",
    Combination.COUNTED: "count how many members hold each row",
}


def operators(body: Body, members: int, combination: Combination | None) -> tuple[str, ...]:
    """What is done with the rows of its sides, in words, the innermost first."""
    if isinstance(body, Block | FormulaBody) or (members == 1 and isinstance(body, SetOperation)):
        return ()
    if is_set_union(body):
        return (f"union of {members}: {_COMBINED[combination or Combination.COUNTED]}",)
    return tuple(_set_operators(body))


def _set_operators(body: Body) -> list[str]:
    if isinstance(body, Cut | Windowed | Timed | Exploded):
        return [*_set_operators(body.body), said_of(body)]
    if not isinstance(body, SetOperation):
        return []
    below = _set_operators(body.left) + _set_operators(body.right)
    if body.operator is SetOperator.UNION:
        own = "union all: pass both sides on" if body.all else "union: count how many sides hold each row"
    else:
        own = f"{body.operator.value}{' all' if body.all else ''}: count each side's copies of a row"
    return [*below, own]


def operations(body: Body) -> list[SetOperation]:
    """The set operations of a body."""
    if isinstance(body, SetOperation):
        return [body, *operations(body.left), *operations(body.right)]
    return operations(body.body) if isinstance(body, Cut | Windowed | Timed | Exploded) else []
