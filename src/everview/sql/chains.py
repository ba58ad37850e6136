"""Long chains of operators, which are no nesting.

sqlglot reads ``a OR b OR c OR …`` as a tree as deep as the chain is long, and whoever walks that by recursion fails on
a few hundred conditions. AND, OR and ``||`` are associative: a chain of them means the same as a balanced tree, and is
written with the same text. Arithmetic is not: ``a - b + c`` is computed from left to right, where sums may overflow and
decimals gain digits with each step. Such a tree stays deep, on its left side; whoever walks it goes down its left spine
in a loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlglot import exp
from sqlglot.generator import Generator

_ASSOCIATIVE: Final = (exp.And, exp.Or, exp.DPipe)
_LEFT_TO_RIGHT: Final = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.DPipe),
    *(exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor),
)
_SHORT: Final = 8
"""Chains of so few operands stay as they are."""


class ChainWriter(Generator):
    """A generator that writes sums and differences by turns in a loop, as sqlglot does with chains of one operator."""

    def binary(self, expression: exp.Binary, op: str) -> str:
        """The text of a chain, from left to right."""
        if not isinstance(expression, exp.Add | exp.Sub):
            return super().binary(expression, op)
        pieces: list[str] = []
        node: exp.Expr = expression
        while isinstance(node, exp.Add | exp.Sub):
            pieces += [self.sql(node.expression), " + " if isinstance(node, exp.Add) else " - "]
            node = node.this
        return "".join([self.sql(node), *reversed(pieces)])


def left_spine(node: exp.Expr) -> list[exp.Expr]:
    """The operators on the left of an operator's left side, and so on, innermost first; the node itself is not one."""
    found: list[exp.Expr] = []
    while isinstance(node, _LEFT_TO_RIGHT) and isinstance(node.this, _LEFT_TO_RIGHT):
        node = node.this
        found.append(node)
    return found[::-1]


def conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    """What a condition joins by AND, from left to right."""
    bare = node
    while isinstance(bare, exp.Paren):
        bare = bare.this
    if isinstance(bare, exp.And):
        # Long chains lean to the left: walk them without recursion.
        chain: list[exp.Expr] = []
        while isinstance(bare, exp.And):
            chain.append(bare.expression)
            bare = bare.this
        yield from conjuncts(bare)
        for part in reversed(chain):
            yield from conjuncts(part)
    else:
        yield bare


def balanced(tree: exp.Expr) -> exp.Expr:
    """The tree, changed in place, with its long chains balanced; the order of what they chain is kept."""
    for node in list(tree.find_all(*_ASSOCIATIVE)):
        kind = type(node)
        if type(node.parent) is kind:
            continue
        operands = _operands(node)
        if len(operands) > _SHORT:
            others = {name: value for name, value in node.args.items() if name not in ("this", "expression")}
            middle = len(operands) // 2
            node.set("this", _joined(kind, operands[:middle], others))
            node.set("expression", _joined(kind, operands[middle:], others))
    return tree


def _operands(node: exp.Expr) -> list[exp.Expr]:
    """What a chain joins, from left to right."""
    found, waiting = [], [node]
    while waiting:
        last = waiting.pop()
        if type(last) is type(node):
            waiting += [last.this, last.expression]
        else:
            found.append(last)
    return found[::-1]


def _joined(kind: type[exp.Expr], operands: list[exp.Expr], others: dict[str, object]) -> exp.Expr:
    if len(operands) == 1:
        return operands[0]
    middle = len(operands) // 2
    sides = {"this": _joined(kind, operands[:middle], others), "expression": _joined(kind, operands[middle:], others)}
    return kind(**sides, **others)
