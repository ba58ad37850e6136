"""Formulas computed by Arrow, a column at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.words import arrow_type
from everview.query.formula import Formula, Leaf, Operation
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


def compiled(formula: Formula) -> Compiled:
    """A function that computes the formula; ``pa.ArrowInvalid`` where a value does not fit its type."""
    if isinstance(formula, Leaf):
        term = formula.term
        if isinstance(term, Var):
            return lambda columns: columns[term]
        value = _scalar(term, formula.type)
        return lambda columns: value
    if formula.operator == "in":
        return _member(formula.arguments[0], formula.arguments[1:])
    inner = [compiled(a) for a in formula.arguments]
    if formula.operator == "cast":
        (argument,), target = inner, arrow_type(formula.type)
        return lambda columns: argument(columns).cast(target)
    if formula.operator in _UNARY:
        (argument,), unary = inner, _UNARY[formula.operator]
        return lambda columns: unary(argument(columns))
    (left, right), binary = inner, _BINARY[formula.operator]
    if formula.type.kind is Kind.DECIMAL and formula.type.precision == MOST_DIGITS:
        return _rounded(binary, left, right, formula)
    return lambda columns: binary(left(columns), right(columns))


def _rounded(binary: Callable[[Any, Any], Any], left: Compiled, right: Compiled, formula: Operation) -> Compiled:
    """A result of so many digits that some may be cut: computed with all of them, halves rounded away from zero."""
    a, b = (pa.decimal256(side.type.precision, side.type.scale) for side in formula.arguments)
    scale = formula.type.scale
    ending, target = pa.decimal256(2 * MOST_DIGITS, scale), arrow_type(formula.type)
    half = pa.scalar(Decimal((0, (5,), -scale - 1)), pa.decimal256(scale + 1, scale + 1))
    less = pc.negate(half)

    def compute(columns: Columns) -> Any:
        exact = binary(left(columns).cast(a), right(columns).cast(b))
        if exact.type.scale > scale:  # Arrow's own rounding is wrong for some numbers of more than 38 digits
            exact = pc.add(exact, pc.if_else(pc.less(exact, pa.scalar(0, exact.type)), less, half))
            exact = exact.cast(ending, safe=False)
        return exact.cast(target)

    return compute


def _member(tested: Formula, members: tuple[Formula, ...]) -> Compiled:
    argument = compiled(tested)
    listed = [_scalar(m.term, m.type) for m in members if isinstance(m, Leaf) and isinstance(m.term, Const)]
    values = pa.array([v.as_py() for v in listed], arrow_type(tested.type))

    def test(columns: Columns) -> Any:
        array = argument(columns)
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
