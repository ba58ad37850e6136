"""How SUM, AVG, COUNT and variance of exact numbers are made of integer sums that a core can keep."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.rows import ZERO
from everview.engine.words import arrow_type
from everview.plan.cores import covering_atom, is_summed
from everview.query.terms import Expression
from everview.query.types import BIGINT, INT, DataType, Kind
from everview.query.view import Aggregate, AggregateFunction, Block

VALUE, PRESENT, SQUARE = "value", "present", "square"


@dataclass(frozen=True)
class Slot:
    """One integer sum: of an argument's values, of its presence (not NULL), or of its squares.

    ``atom`` is where the core sums it up; None if the argument spans several tables, and it is summed afterwards.
    """

    aggregate: Aggregate
    kind: str
    expression: Expression
    atom: int | None

    @staticmethod
    def result(aggregate: Aggregate, count: pa.Array, sums: Mapping[str, pa.Array]) -> pa.Array:
        """An aggregate's values from its sums, in its type; NULL where no value is present."""
        if aggregate.argument is None:
            return count
        present = sums[PRESENT]
        if aggregate.function is AggregateFunction.COUNT:
            return present
        some = pc.greater(present, ZERO)
        scale = aggregate.argument.type.scale if aggregate.argument.type.kind is Kind.DECIMAL else 0
        if aggregate.function is AggregateFunction.SUM:
            return _or_null(some, _sum(sums[VALUE], scale, aggregate.type))
        if aggregate.function is AggregateFunction.AVG:
            return _or_null(some, _average(sums[VALUE], present, scale, aggregate.type))
        return _spread(aggregate.function, sums[VALUE], sums[SQUARE], present)


def slots_of(block: Block) -> tuple[Slot, ...]:
    """The sums that a grouped block needs beside the count."""
    assert block.grouping is not None
    found = []
    for aggregate in block.grouping.aggregates:
        argument = aggregate.argument
        if argument is None or not is_summed(aggregate):
            continue
        atom = covering_atom(block, argument)
        kinds = [PRESENT] if aggregate.function is AggregateFunction.COUNT else [PRESENT, VALUE]
        if aggregate.function not in (AggregateFunction.COUNT, AggregateFunction.SUM, AggregateFunction.AVG):
            kinds.append(SQUARE)
        found += [Slot(aggregate, kind, _expression(kind, argument), atom) for kind in kinds]
    return tuple(found)


def _expression(kind: str, argument: Expression) -> Expression:
    if kind == PRESENT:
        return Expression(("CASE WHEN (", *argument.parts, ") IS NULL THEN 0 ELSE 1 END"), INT)
    if kind == SQUARE:
        wide = ("CAST((", *argument.parts, ") AS BIGINT)")
        return Expression((*wide, " * ", *wide), BIGINT)
    return argument


def _or_null(some: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(some, values, pa.scalar(None, values.type))


def _sum(total: pa.Array, scale: int, type_: DataType) -> pa.Array:
    if type_.kind is not Kind.DECIMAL:
        return total.cast(arrow_type(type_))
    return (
        total.view(pa.decimal64(18, scale)).cast(arrow_type(type_), safe=False)
        if _short(total)
        else _long(total, scale, type_)
    )


def _short(total: pa.Array) -> bool:
    """True if every number has at most 18 digits."""
    largest = pc.max(pc.abs(total)).as_py()
    return largest is None or largest < 10**18


def _long(total: pa.Array, scale: int, type_: DataType) -> pa.Array:
    from decimal import Decimal

    return pa.array([Decimal(t).scaleb(-scale) for t in total.to_pylist()], arrow_type(type_))


def _average(total: pa.Array, present: pa.Array, scale: int, type_: DataType) -> pa.Array:
    if type_.kind is not Kind.DECIMAL:
        return pc.divide(total.cast(pa.float64(), safe=False), present.cast(pa.float64(), safe=False))
    from decimal import ROUND_HALF_UP, Decimal

    unit = Decimal(1).scaleb(-type_.scale)
    averages = [
        None if not n else (Decimal(t).scaleb(-scale) / n).quantize(unit, ROUND_HALF_UP)
        for t, n in zip(total.to_pylist(), present.to_pylist(), strict=True)
    ]
    return pa.array(averages, arrow_type(type_))


def _spread(function: AggregateFunction, total: pa.Array, squares: pa.Array, present: pa.Array) -> pa.Array:
    """Variance and deviation from exact sums, rounded once."""
    sample = function in (AggregateFunction.VARIANCE, AggregateFunction.STDDEV)
    root = function in (AggregateFunction.STDDEV, AggregateFunction.STDDEV_POP)
    found: list[float | None] = []
    for s, q, n in zip(total.to_pylist(), squares.to_pylist(), present.to_pylist(), strict=True):
        divisor = n * (n - 1) if sample else n * n
        if divisor <= 0:
            found.append(None)
            continue
        variance = (n * q - s * s) / divisor
        found.append(math.sqrt(variance) if root else variance)
    return pa.array(found, pa.float64())
