"""How SUM, AVG, COUNT and variance of exact numbers are made of integer sums that a core can keep."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.operators.aggregates.limbs import (
    BITS,
    COPIES,
    decimals,
    decimals_of,
    largest,
    limbs_for,
    split,
    whole,
    word,
)
from everview.engine.operators.aggregates.packed import Sums
from everview.engine.values.rows import ZERO
from everview.engine.values.words import arrow_type
from everview.plan.cores import covering_atom, is_summed
from everview.query.aggregates import Counted, Ordered, Packed, Spread, Summed
from everview.query.terms import Const, Expression
from everview.query.types import DataType, Kind
from everview.query.view import Aggregate, Block

VALUE, PRESENT, SQUARE = "value", "present", "square"
_EXACT = 2**53
"""Up to here every integer is a double."""

Limbs = Sequence[pa.Array]
Result = tuple[pa.Array, pa.Array | None]
"""Values, NULL where they are beyond their type, and where that is so (None: nowhere)."""


@dataclass(frozen=True)
class Slot:
    """One exact sum, kept as limbs: of an argument's values, of its presence (not NULL), or of its squares.

    ``atom`` is where the core sums it up; None if the argument spans several tables, and it is summed afterwards.
    ``limit`` is for a sum that may leave its type: while its highest limb is not beyond it, it has not.
    """

    argument: Expression
    kind: str
    atom: int | None
    limit: int | None = None

    @cached_property
    def limbs(self) -> int:
        """How many words it is kept in."""
        if self.kind == PRESENT:
            return 1
        size = largest(self.argument.type)
        return limbs_for((size + 1) ** 2 if self.kind == SQUARE else size)

    def split(self, values: pa.Array) -> list[pa.Array]:
        """The limbs that each of the argument's values adds to the sum; 0 for NULL."""
        if self.kind == PRESENT:
            return [pc.is_valid(values).cast(pa.int64())]
        return split(values, self.limbs, squared=self.kind == SQUARE)


def slots_of(block: Block) -> tuple[Slot, ...]:
    """The sums that a grouped block needs beside the count, each once however many aggregates use it."""
    assert block.grouping is not None
    limits: dict[tuple[Expression, str], int | None] = {}
    for aggregate in block.grouping.aggregates:
        argument = aggregate.argument
        if argument is None or not is_summed(aggregate):
            continue
        if aggregate.counts is not None:
            limits.setdefault((aggregate.counts, VALUE), None)
        elif not _is_always_there(block, argument):
            limits[argument, PRESENT] = None
        if not aggregate.function.is_count:
            found = [x for x in (limits.get((argument, VALUE)), _limit(aggregate)) if x is not None]
            limits[argument, VALUE] = min(found, default=None)
        if aggregate.function.has_squares:
            limits[argument, SQUARE] = None
    return tuple(Slot(a, kind, covering_atom(block, a), limit) for (a, kind), limit in limits.items())


def _is_always_there(block: Block, argument: Expression) -> bool:
    """True if the argument is never NULL, so that the count of rows counts its values."""
    return isinstance(argument.term, Const) or argument.term in block.not_null


def _limit(aggregate: Aggregate) -> int | None:
    """Half of what the highest limb of a sum may be, for results that as many values as can be may bring beyond."""
    argument, type_, made = aggregate.argument, aggregate.type, aggregate.function.made
    if argument is None or not isinstance(made, Summed):
        return None
    if type_.kind is Kind.DECIMAL:
        bound = 10 ** (type_.precision - type_.scale + argument.type.scale)
    elif not made.mean:
        bound = largest(type_) + 1
    else:
        return None
    size = largest(argument.type)
    copies = 1 if made.mean else COPIES
    return None if size * copies < bound else bound >> (BITS * (limbs_for(size) - 1) + 1)


def kinds_of(aggregate: Aggregate, slot: Slot) -> tuple[str, ...]:
    """As which of an aggregate's sums a slot serves; none if it is another one's."""
    if aggregate.counts is None:
        return (slot.kind,) if slot.argument == aggregate.argument else ()
    if slot.kind != VALUE:
        return ()
    return tuple(k for k, a in ((VALUE, aggregate.argument), (PRESENT, aggregate.counts)) if slot.argument == a)


def result(aggregate: Aggregate, count: pa.Array, sums: Mapping[str, Limbs]) -> Result:
    """An aggregate's values from its sums, in its type; NULL where no value is present."""
    if aggregate.argument is None:
        return count, None
    present = word(sums[PRESENT])[0] if PRESENT in sums else count
    match made := aggregate.function.made:
        case Counted():
            return present, None
        case Summed():
            return (_average if made.mean else _sum)(aggregate, sums[VALUE], present)
        case Spread():
            return _spread(aggregate, made, whole(sums[VALUE]), whole(sums[SQUARE]), present), None
        case Packed():
            return _packed(aggregate.argument, sums, present), None
        case Ordered():
            raise AssertionError(f"{aggregate} is no sum")
        case _:
            assert_never(made)


def in_type(values: Sequence[Any], type_: DataType) -> Result:
    """Values that Python has computed, in their type."""
    beyond = [v is not None and _is_beyond(v, type_) for v in values]
    if not any(beyond):
        return pa.array(values, arrow_type(type_)), None
    kept = [None if much else v for v, much in zip(values, beyond, strict=True)]
    return pa.array(kept, arrow_type(type_)), pa.array(beyond)


def _is_beyond(value: Any, type_: DataType) -> bool:
    if type_.kind is Kind.DECIMAL:
        bound = 10 ** (type_.precision - type_.scale)
        return not -bound < value < bound
    return type_.is_integer and not -(2**63) <= value < 2**63


def one_after_the_other(first: Result, then: Result) -> Result:
    """Two results as one."""
    values = pa.concat_arrays([first[0], then[0]])
    if first[1] is None and then[1] is None:
        return values, None
    beyond = [pa.repeat(False, len(found)) if much is None else much for found, much in (first, then)]
    return values, pa.concat_arrays(beyond)


def _sum(aggregate: Aggregate, total: Limbs, present: pa.Array) -> Result:
    type_ = arrow_type(aggregate.type)
    values, beyond = decimals(total, type_) if pa.types.is_decimal(type_) else word(total)
    there = pc.greater(present, ZERO)
    if beyond is not None:
        there = pc.and_(there, pc.invert(beyond))
    return pc.if_else(there, values, pa.scalar(None, values.type)), beyond


def _average(aggregate: Aggregate, total: Limbs, present: pa.Array) -> Result:
    """Exact and then rounded once: to the nearest double, or halves away from 0."""
    assert aggregate.argument is not None
    if aggregate.type.kind is not Kind.DECIMAL:
        if len(total) == 1 and _is_short(total[0]):
            some = pc.if_else(pc.greater(present, ZERO), present, pa.scalar(None, pa.int64()))
            return pc.divide(total[0].cast(pa.float64()), some.cast(pa.float64())), None
        pairs = zip(whole(total), present.to_pylist(), strict=True)
        return pa.array([t / n if n > 0 else None for t, n in pairs], pa.float64()), None
    more = 10 ** (aggregate.type.scale - aggregate.argument.type.scale)
    averages: list[int | None] = []
    for t, n in zip(whole(total), present.to_pylist(), strict=True):
        size = (2 * abs(t) * more + n) // (2 * n) if n > 0 else 0
        averages.append((-size if t < 0 else size) if n > 0 else None)
    return decimals_of(averages, arrow_type(aggregate.type))


def _is_short(words: pa.Array) -> bool:
    ends = pc.min_max(words).as_py()
    return ends["min"] is None or (ends["min"] >= -_EXACT and ends["max"] <= _EXACT)


def _spread(aggregate: Aggregate, made: Spread, total: list[int], squares: list[int], present: pa.Array) -> pa.Array:
    """Variance and deviation from exact sums, rounded once."""
    assert aggregate.argument is not None
    unit = 100**aggregate.argument.type.scale
    found: list[float | None] = []
    for s, q, n in zip(total, squares, present.to_pylist(), strict=True):
        divisor = n * made.divisor(n)
        if divisor <= 0:
            found.append(None)
            continue
        variance = (n * q - s * s) / (divisor * unit)
        found.append(math.sqrt(variance) if made.root else variance)
    return pa.array(found, pa.float64())


def _packed(argument: Expression, sums: Mapping[str, Limbs], present: pa.Array) -> pa.Array:
    """A part of a group, for the step that puts parts together."""
    squares = whole(sums[SQUARE]) if SQUARE in sums else [0] * len(present)
    found = zip(present.to_pylist(), whole(sums[VALUE]), squares, strict=True)
    unit = 10**argument.type.scale
    return pa.array([Sums(unit, n, s, q).packed() if n > 0 else None for n, s, q in found], pa.binary())
