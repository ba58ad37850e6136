"""Which row expressions may fail on the data, so that whoever computes them late must look at them in time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlglot import exp
from sqlglot.errors import SqlglotError

from everview.query.column_expression import ColumnExpression, Leaf, walk
from everview.query.terms import Const, Expression, Var
from everview.query.types import DataType, Kind, common_type
from everview.sql.column_expressions import column_expression
from everview.sql.duckdb import read_expression

_TOTAL: Final = frozenset({"=", "<>", "<", "<=", ">", ">=", "in", "and", "or", "not", "null", "%", "&"})
"""The operations of formulas that have a value for all arguments."""

_ALWAYS: Final[tuple[type[exp.Expr], ...]] = (
    exp.Column,
    exp.Identifier,
    exp.Literal,
    exp.Paren,
    exp.Null,
    exp.And,
    exp.Or,
    exp.Not,
    exp.EQ,
    exp.NEQ,
    exp.NullSafeEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.Is,
    exp.Coalesce,
    exp.Case,
    exp.If,
)
_OF_TEXT: Final[tuple[type[exp.Expr], ...]] = (
    *_ALWAYS,
    exp.Upper,
    exp.Lower,
    exp.Trim,
    exp.Length,
    exp.Concat,
    exp.DPipe,
    exp.Like,
)
_OF_FLOATS: Final[tuple[type[exp.Expr], ...]] = (*_ALWAYS, exp.Add, exp.Sub, exp.Mul, exp.Neg)


def may_fail(expression: Expression, types: Mapping[Var, DataType]) -> bool:
    """False only if the expression is known to have a value, or NULL, whatever its variables of these types hold."""
    if expression.term is not None:
        return False
    found = column_expression(expression, types)
    return any(map(_fails, walk(found))) if found is not None else not _is_harmless(expression, types)


def _fails(node: ColumnExpression) -> bool:
    """True if an operation, its arguments apart, has no value for some of them."""
    if isinstance(node, Leaf):
        return False
    if node.operator == "cast":
        return common_type(node.arguments[0].type, node.type) != node.type
    if node.operator == "&" and node.type.kind is Kind.BIGINT and not any(map(_is_natural, node.arguments)):
        return True  # It may be the least BIGINT, which cannot be kept.
    return node.operator not in _TOTAL


def _is_natural(node: ColumnExpression) -> bool:
    value = node.term.value if isinstance(node, Leaf) and isinstance(node.term, Const) else None
    return isinstance(value, int) and value >= 0


def _is_harmless(expression: Expression, types: Mapping[Var, DataType]) -> bool:
    """True for what is made of text alone, or of floating-point numbers alone, by operations that never fail."""
    kinds = {types[v].kind for v in expression.variables}
    if kinds == {Kind.STRING}:
        allowed, text = _OF_TEXT, True
    elif kinds and kinds <= {Kind.FLOAT, Kind.DOUBLE}:
        allowed, text = _OF_FLOATS, False
    else:
        return False
    try:
        tree = read_expression(expression, {v: f"v{i}" for i, v in enumerate(sorted(expression.variables))})
    except SqlglotError:
        return False
    for node in tree.walk():
        if type(node) not in allowed or (isinstance(node, exp.Literal) and node.is_string is not text):
            return False
        if isinstance(node, exp.Like) and not isinstance(node.expression, exp.Literal):
            return False  # a pattern may end in its escape character
    return True
