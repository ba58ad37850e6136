"""Long chains of one operator, as trees that are not deep.

sqlglot reads ``a OR b OR c OR …`` as a tree as deep as the chain is long, and whoever walks that by recursion fails on
a few hundred conditions. AND, OR and ``||`` are associative: a chain of them means the same as a balanced tree, and is
written with the same text.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

_ASSOCIATIVE: Final = (exp.And, exp.Or, exp.DPipe)
_SHORT: Final = 8
"""Chains of so few operands stay as they are."""


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
