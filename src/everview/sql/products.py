"""Products in aggregates: SUM(a.x * b.y), and what it is the product of, if that can be summed up table by table."""

from __future__ import annotations

import math
from typing import Final

from sqlglot import exp

from everview.query.terms import Expression
from everview.query.types import DataType, Kind, as_decimal
from everview.sql.check import Checker
from everview.sql.session import written

MOST_PRODUCT: Final = 10**38
"""No exact number is so large, without its point."""
_BITS: Final = {Kind.TINYINT: 7, Kind.SMALLINT: 15, Kind.INT: 31, Kind.BIGINT: 63}


def factors_of(value: exp.Expr, checker: Checker) -> tuple[tuple[Expression, ...], int | None]:
    """What an argument is the exact product of, none if it is no such product, and its limit, if it may leave its type.

    A row's product that does is an error in Spark, which nobody would see if only sums were multiplied. So while the
    product of the factors' largest sizes is within the limit no row's is beyond it, nor is any that it is made of.
    """
    if not isinstance(value.unnest(), exp.Mul):
        return (), None
    most: int | None = None
    if _size(value, checker) is None:
        most = _most(value, checker)
        if most is None:
            return (), None
    waiting, found = [value], []
    while waiting:
        node = waiting.pop().unnest()
        if isinstance(node, exp.Mul):
            waiting += [node.expression, node.this]
        else:
            found.append(written(node, checker, checker_type(checker, node)))
    return tuple(found), most


def _most(value: exp.Expr, checker: Checker) -> int | None:
    """The smallest limit of the products that a product is made of, itself among them; None if one is not exact."""
    node = value.unnest()
    type_ = checker_type(checker, node)
    if not isinstance(node, exp.Mul):
        return MOST_PRODUCT if _is_exact(type_) else None
    sides = [_most(side, checker) for side in (node.this, node.expression)]
    if None in sides or not _is_exact(type_):
        return None
    scale = sum(as_decimal(checker_type(checker, side)).scale for side in (node.this, node.expression))
    return min(_largest(type_), *(s for s in sides if s is not None)) if scale == as_decimal(type_).scale else None


def _size(node: exp.Expr, checker: Checker) -> int | None:
    """The largest size of an exact number, without its point; None if it may not fit its type, or is rounded."""
    node = node.unnest()
    type_ = checker_type(checker, node)
    if not _is_exact(type_):
        return None
    if isinstance(node, exp.Cast) and _is_exact(inner := checker_type(checker, node.this)):
        scale = as_decimal(type_).scale - as_decimal(inner).scale
        size = _size(node.this, checker)
        if size is not None and scale >= 0 and size * 10**scale <= _largest(type_):
            return size * int(10**scale)
    if not isinstance(node, exp.Mul):
        return _largest(type_) + 1
    sides = [_size(side, checker) for side in (node.this, node.expression)]
    scale = sum(as_decimal(checker_type(checker, side)).scale for side in (node.this, node.expression))
    if any(side is None for side in sides) or scale != as_decimal(type_).scale:
        return None
    size = math.prod(side for side in sides if side is not None)
    return size if size <= _largest(type_) + (type_.kind is Kind.DECIMAL) else None


def _is_exact(type_: DataType) -> bool:
    return type_.is_integer or type_.kind is Kind.DECIMAL


def _largest(type_: DataType) -> int:
    return int(10**type_.precision if type_.kind is Kind.DECIMAL else 2 ** _BITS[type_.kind]) - 1


def checker_type(checker: Checker, value: exp.Expr) -> DataType:
    """The type of an aggregate's argument, which was checked before."""
    inner = Checker(checker.scope, checker.place)
    type_ = inner.check(value).type
    checker.cells.update(inner.cells)
    return type_
