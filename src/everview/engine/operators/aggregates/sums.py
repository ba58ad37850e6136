"""How SUM, AVG, COUNT and variance of exact numbers are made of integer sums that a core can keep."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.operators.aggregates.accumulators import rounded_share
from everview.engine.operators.aggregates.packed import Sums
from everview.engine.values.wide import (
    COPIES,
    Numbers,
    decimals_of,
    in_decimals,
    in_word,
    is_positive,
    largest,
    multiplied,
    numbers_of,
    words_for,
)
from everview.engine.values.words import arrow_type
from everview.plan.cores import is_summed, is_watched, summed_at
from everview.query.aggregates import (
    Chosen,
    Combined,
    Counted,
    Gathered,
    Multiplied,
    Ordered,
    Packed,
    Paired,
    Shaped,
    Spread,
    Summed,
)
from everview.query.terms import Const, Expression, Var
from everview.query.types import DataType, Kind
from everview.query.view import Aggregate, Block

VALUE, PRESENT, SQUARE = "value", "present", "square"
_EXACT = 2**53
"""Up to here every integer is a double."""

Result = tuple[pa.Array, pa.Array | None]
"""Values, NULL where they are beyond their type, and where that is so (None: nowhere)."""


class Summand(Protocol):
    """What the rows of one atom give to a sum."""

    @property
    def arguments(self) -> tuple[Expression, ...]:
        """What is to be computed for each row."""

    @property
    def words(self) -> int:
        """How many words its sum over all rows has, for 64 bits of copies."""

    def signature(self, columns: Mapping[Var, Var]) -> Hashable:
        """What decides what a row gives, with variables named by their columns."""

    def change(self, values: Sequence[pa.Array], copies: Numbers, words: int) -> list[pa.Array]:
        """What each row, with the values of its arguments and its copies, adds to the sum, in so many words."""


class Summing(Protocol):
    """A sum that a core keeps: over the products of what the rows of some atoms give."""

    @property
    def parts(self) -> Mapping[int, Summand]:
        """What the atoms' rows give."""

    @property
    def most(self) -> int | None:
        """The limit of the sum's size that somebody must look at it beyond; None if there is none."""

    @property
    def row_most(self) -> int | None:
        """The limit of the product of the largest factors that somebody must look at each row beyond; None: none."""


@dataclass(frozen=True)
class Values:
    """The product of some arguments' values, or of their presence (not NULL), or of their squares; 0 for NULL."""

    arguments: tuple[Expression, ...]
    kind: str

    @cached_property
    def words(self) -> int:
        """As many as the largest product and 64 bits of copies need."""
        if self.kind == PRESENT:
            return 1
        sizes = [largest(argument.type) for argument in self.arguments]
        return words_for(math.prod((size + 1) ** 2 if self.kind == SQUARE else size for size in sizes))

    def signature(self, columns: Mapping[Var, Var]) -> Hashable:
        """What decides what a row gives, with variables named by their columns."""
        return self.kind, *(argument.substitute(columns) for argument in self.arguments)

    def change(self, values: Sequence[pa.Array], copies: Numbers, words: int) -> list[pa.Array]:
        """What each row adds, in so many words."""
        found = copies
        for value in values:
            factor = pc.is_valid(value).cast(pa.int64()) if self.kind == PRESENT else value
            found = multiplied(factor, found, words, squared=self.kind == SQUARE)
        return list(found)


@dataclass(frozen=True)
class Slot:
    """One exact sum: of an argument's values, of its presence (not NULL), or of its squares.

    ``parts`` has the atoms that the core sums it up at, several if the argument is a product across them; none if the
    argument spans several tables in another way, and is summed up afterwards. ``most`` is what the type of a result
    made of it can hold, for a sum that may leave it; ``row_most`` what a row's product can be that may leave its own.
    """

    argument: Expression
    kind: str
    parts: Mapping[int, Values]
    most: int | None = None
    row_most: int | None = None

    @cached_property
    def whole(self) -> Values:
        """What a row of the join gives, where it is summed up afterwards."""
        return Values((self.argument,), self.kind)


def slots_of(block: Block) -> tuple[Slot, ...]:
    """The sums that a grouped block needs beside the count, each once however many aggregates use it."""
    assert block.grouping is not None
    most: dict[tuple[Expression, str], int | None] = {}
    atoms: dict[Expression, dict[int, tuple[Expression, ...]]] = {}
    risky = {(a.argument, VALUE): a.most for a in block.grouping.aggregates if is_watched(a)}
    for aggregate in block.grouping.aggregates:
        argument = aggregate.argument
        if argument is None or not is_summed(aggregate):
            continue
        atoms[argument] = summed_at(block, aggregate)
        if aggregate.counts is not None:
            most.setdefault((aggregate.counts, VALUE), None)
            atoms.setdefault(aggregate.counts, summed_at(block, replace(aggregate, argument=aggregate.counts)))
        elif not all(_is_always_there(block, part) for part in aggregate.factors or (argument,)):
            most[argument, PRESENT] = None
        if not aggregate.function.is_count:
            found = [x for x in (most.get((argument, VALUE)), _most(aggregate)) if x is not None]
            most[argument, VALUE] = min(found, default=None)
        if aggregate.function.has_squares:
            most[argument, SQUARE] = None
    return tuple(
        Slot(a, kind, {atom: Values(found, kind) for atom, found in atoms[a].items()}, size, risky.get((a, kind)))
        for (a, kind), size in most.items()
    )


def _is_always_there(block: Block, argument: Expression) -> bool:
    """True if the argument is never NULL, so that the count of rows counts its values."""
    return isinstance(argument.term, Const) or argument.term in block.not_null


def _most(aggregate: Aggregate) -> int | None:
    """The largest sum that a result's type has room for; None if nothing brings it beyond that, or it is NULL then."""
    argument, type_, made = aggregate.argument, aggregate.type, aggregate.function.made
    if argument is None or not isinstance(made, Summed) or made.tried:
        return None
    if type_.kind is Kind.DECIMAL:
        most = 10 ** (type_.precision - type_.scale + argument.type.scale) - 1
    elif not made.mean:
        most = largest(type_)
    else:
        return None
    copies = 1 if made.mean else COPIES
    return None if largest(argument.type) * copies <= most else most


def kinds_of(aggregate: Aggregate, slot: Slot) -> tuple[str, ...]:
    """As which of an aggregate's sums a slot serves; none if it is another one's."""
    if aggregate.counts is None:
        return (slot.kind,) if slot.argument == aggregate.argument else ()
    if slot.kind != VALUE:
        return ()
    return tuple(k for k, a in ((VALUE, aggregate.argument), (PRESENT, aggregate.counts)) if slot.argument == a)


def result(aggregate: Aggregate, count: Numbers, sums: Mapping[str, Numbers]) -> Result:
    """An aggregate's values from its sums, in its type; NULL where no value is present."""
    present = sums.get(PRESENT, count)
    if aggregate.argument is None:
        return in_word(count)
    match made := aggregate.function.made:
        case Counted():
            return in_word(present)
        case Summed():
            found, beyond = (_average if made.mean else _sum)(aggregate, sums[VALUE], present)
            if aggregate.type.kind is Kind.DAY_TIME:
                found = found.cast(arrow_type(aggregate.type))
            return found, None if made.tried else beyond
        case Spread():
            return _spread(aggregate, made, numbers_of(sums[VALUE]), numbers_of(sums[SQUARE]), present), None
        case Packed():
            return _packed(aggregate.argument, sums, present), None
        case Ordered() | Chosen() | Gathered() | Combined() | Shaped() | Multiplied() | Paired():
            raise AssertionError(f"{aggregate} is no sum")
        case _:
            assert_never(made)


def in_type(values: Sequence[Any], aggregate: Aggregate) -> Result:
    """An aggregate's values that Python has computed, in its type."""
    type_, made = aggregate.type, aggregate.function.made
    beyond = [v is not None and _is_beyond(v, type_) for v in values]
    if not any(beyond):
        return pa.array(values, arrow_type(type_)), None
    kept = [None if much else v for v, much in zip(values, beyond, strict=True)]
    tried = isinstance(made, Summed) and made.tried
    return pa.array(kept, arrow_type(type_)), None if tried else pa.array(beyond)


def _is_beyond(value: Any, type_: DataType) -> bool:
    if type_.kind is Kind.DECIMAL:
        bound = 10 ** (type_.precision - type_.scale)
        return not -bound < value < bound
    is_word = type_.is_integer or type_.kind is Kind.DAY_TIME
    return is_word and not -(2**63) <= value < 2**63


def one_after_the_other(first: Result, then: Result) -> Result:
    """Two results as one."""
    values = pa.concat_arrays([first[0], then[0]])
    if first[1] is None and then[1] is None:
        return values, None
    beyond = [pa.repeat(False, len(found)) if much is None else much for found, much in (first, then)]
    return values, pa.concat_arrays(beyond)


def _sum(aggregate: Aggregate, total: Numbers, present: Numbers) -> Result:
    type_ = arrow_type(aggregate.type)
    values, beyond = in_decimals(total, type_) if pa.types.is_decimal(type_) else in_word(total)
    there = is_positive(present)
    if beyond is not None:
        there = pc.and_(there, pc.invert(beyond))
    return pc.if_else(there, values, pa.scalar(None, values.type)), beyond


def _average(aggregate: Aggregate, total: Numbers, present: Numbers) -> Result:
    """Exact and then rounded once: to the nearest double, or halves away from 0."""
    assert aggregate.argument is not None
    if aggregate.type.kind is Kind.DAY_TIME:
        shared = zip(numbers_of(total), numbers_of(present), strict=True)
        return pa.array([rounded_share(t, n) if n > 0 else None for t, n in shared], pa.int64()), None
    if aggregate.type.kind is not Kind.DECIMAL:
        (short, beyond), (copies, more) = in_word(total), in_word(present)
        if beyond is None and more is None and _is_short(short) and _is_short(copies):
            some = pc.if_else(is_positive([copies]), copies, pa.scalar(None, pa.int64()))
            return pc.divide(short.cast(pa.float64()), some.cast(pa.float64())), None
        pairs = zip(numbers_of(total), numbers_of(present), strict=True)
        return pa.array([t / n if n > 0 else None for t, n in pairs], pa.float64()), None
    scale = 10 ** (aggregate.type.scale - aggregate.argument.type.scale)
    shared = zip(numbers_of(total), numbers_of(present), strict=True)
    averages = [rounded_share(t * scale, n) if n > 0 else None for t, n in shared]
    return decimals_of(averages, arrow_type(aggregate.type))


def _is_short(words: pa.Array) -> bool:
    ends = pc.min_max(words).as_py()
    return ends["min"] is None or (ends["min"] >= -_EXACT and ends["max"] <= _EXACT)


def _spread(aggregate: Aggregate, made: Spread, total: list[int], squares: list[int], present: Numbers) -> pa.Array:
    """Variance and deviation from exact sums, rounded once."""
    assert aggregate.argument is not None
    unit = 100**aggregate.argument.type.scale
    found: list[float | None] = []
    for s, q, n in zip(total, squares, numbers_of(present), strict=True):
        divisor = n * made.divisor(n)
        if divisor <= 0:
            found.append(None)
            continue
        variance = (n * q - s * s) / (divisor * unit)
        found.append(math.sqrt(variance) if made.root else variance)
    return pa.array(found, pa.float64())


def _packed(argument: Expression, sums: Mapping[str, Numbers], present: Numbers) -> pa.Array:
    """A part of a group, for the step that puts parts together."""
    squares = numbers_of(sums[SQUARE]) if SQUARE in sums else [0] * len(present[0])
    found = zip(numbers_of(present), numbers_of(sums[VALUE]), squares, strict=True)
    unit = 10**argument.type.scale
    return pa.array([Sums(unit, n, s, q).packed() if n > 0 else None for n, s, q in found], pa.binary())
