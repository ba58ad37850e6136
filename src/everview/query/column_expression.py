"""Simple row expressions as trees: what can be computed column by column without a database."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from everview.query.terms import Const, Var
from everview.query.types import DataType


@dataclass(frozen=True, slots=True)
class Leaf:
    """A variable or a constant, in its type."""

    term: Var | Const
    type: DataType


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator over arguments that have the types it needs already.

    Arithmetic (``+ - *``, ``&`` and ``%`` by a positive constant) is on integers of the result's type, and fails beyond
    it; ``neg`` likewise. Comparisons (``= <> < <= > >=`` and ``in``, whose further arguments are constants) are on two
    values of one type, and NULL where one is. ``and``, ``or`` and ``not`` have SQL's three values. ``null`` says
    whether its argument is NULL. ``cast`` gives the same value in a wider type, or fails.
    """

    operator: str
    arguments: tuple[ColumnExpression, ...]
    type: DataType


ColumnExpression: TypeAlias = Leaf | Operation


def walk(column_expression: ColumnExpression) -> Iterator[ColumnExpression]:
    """Every part of a formula, what an operation is over before itself, from left to right; chains may be long."""
    waiting = [(column_expression, False)]
    while waiting:
        part, is_ready = waiting.pop()
        if is_ready or isinstance(part, Leaf):
            yield part
        else:
            waiting.append((part, True))
            waiting += [(argument, False) for argument in reversed(part.arguments)]
