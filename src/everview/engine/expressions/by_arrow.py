"""Formulas computed by Arrow, a column at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.values.words import arrow_type
from everview.query.column_expression import ColumnExpression, Leaf, Operation, walk
from everview.query.terms import Const, Var
from everview.query.types import MOST_DIGITS, DataType, Kind

Columns = Mapping[Var, pa.Array]
Compiled = Callable[[Columns], Any]
"""From columns to an array; to a scalar, where no column is needed."""

_BINARY: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "&": pc.bit_wise_and,
    "and": pc.and_kleene,
    "or": pc.or_kleene,
    "%": lambda a, b: pc.subtract(a, pc.multiply(pc.divide(a, b), b)),  # of the dividend's sign: division truncates
}
_UNARY: Final[dict[str, Callable[[Any], Any]]] = {"neg": pc.negate_checked, "not": pc.invert, "null": pc.is_null}
_UNKNOWN: Final = pa.scalar(None, pa.bool_())


def compiled(column_expression: ColumnExpression) -> Compiled:
    """A function that computes the formula; ``pa.ArrowInvalid`` where a value does not fit its type."""
    steps = [_step(part) for part in walk(column_expression)]

    def compute(columns: Columns) -> Any:
        values: list[Any] = []
        for count, step in steps:
            arguments = values[len(values) - count :]
            del values[len(values) - count :]
            values.append(step(columns, *arguments))
        return values.pop()

    return compute


def _step(part: ColumnExpression) -> tuple[int, Callable[..., Any]]:
    """How many values a part of a formula takes, and what it computes of the columns and those."""
    if isinstance(part, Leaf):
        term = part.term
        if isinstance(term, Var):
            return 0, lambda columns: columns[term]
        value = _scalar(term, part.type)
        return 0, lambda columns: value
    count = len(part.arguments)
    if part.operator == "in":
        return count, _member(part.arguments[0], part.arguments[1:])
    if part.operator == "cast":
        target = arrow_type(part.type)
        return count, lambda columns, argument: argument.cast(target)
    if part.operator in _UNARY:
        unary = _UNARY[part.operator]
        return count, lambda columns, argument: unary(argument)
    binary = _BINARY[part.operator]
    if part.type.kind is Kind.DECIMAL and part.type.precision == MOST_DIGITS:
        return count, _rounded(binary, part)
    return count, lambda columns, left, right: binary(left, right)


def _rounded(binary: Callable[[Any, Any], Any], column_expression: Operation) -> Callable[..., Any]:
    """A result of so many digits that some may be cut: computed with all of them, halves rounded away from zero."""
    a, b = (pa.decimal256(side.type.precision, side.type.scale) for side in column_expression.arguments)
    scale = column_expression.type.scale
    ending, target = pa.decimal256(2 * MOST_DIGITS, scale), arrow_type(column_expression.type)
    half = pa.scalar(Decimal((0, (5,), -scale - 1)), pa.decimal256(scale + 1, scale + 1))
    less = pc.negate(half)

    def compute(columns: Columns, left: Any, right: Any) -> Any:
        exact = binary(left.cast(a), right.cast(b))
        if exact.type.scale > scale:  # Arrow's own rounding is wrong for some numbers of more than 38 digits
            exact = pc.add(exact, pc.if_else(pc.less(exact, pa.scalar(0, exact.type)), less, half))
            exact = exact.cast(ending, safe=False)
        return exact.cast(target)

    return compute


def _member(tested: ColumnExpression, members: tuple[ColumnExpression, ...]) -> Callable[..., Any]:
    listed = [_scalar(m.term, m.type) for m in members if isinstance(m, Leaf) and isinstance(m.term, Const)]
    values = pa.array([v.as_py() for v in listed], arrow_type(tested.type))

    def test(columns: Columns, array: Any, *members: Any) -> Any:
        found = pc.is_in(array, value_set=values)
        return pc.if_else(pc.is_valid(array), found, _UNKNOWN) if array.null_count else found

    return test


def _scalar(constant: Const, type_: DataType) -> pa.Scalar:
    value = constant.value
    if type_.kind is Kind.DECIMAL and isinstance(value, int):
        value = Decimal(value)
    if type_.kind is Kind.TIMESTAMP and isinstance(value, datetime) and value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return pa.scalar(value, arrow_type(type_))
