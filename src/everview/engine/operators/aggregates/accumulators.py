"""Aggregates that a core cannot sum up itself and that need no order: DISTINCT ones, and exact sums of doubles.

Each group has one accumulator an aggregate, fed with values and copies. Sums are kept exactly, as whole numbers of one
unit, so that what is inserted and deleted again leaves no trace.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any, Protocol, assert_never

from everview.engine.operators.aggregates.packed import Sums
from everview.query.aggregates import (
    Bits,
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
from everview.query.types import Kind
from everview.query.view import Aggregate

_MANY = 1_000
SLOT_BYTES = sys.getsizeof(dict.fromkeys(range(_MANY))) // _MANY
"""What an entry of a dict takes, apart from the objects in it."""


class Accumulator(Protocol):
    """The state of one aggregate in one group."""

    def add(self, value: Any, copies: int) -> None:
        """Count copies of a value in, or out if negative."""

    def result(self) -> Any:
        """The aggregate's value now; None is NULL."""

    def is_empty(self) -> bool:
        """True if no value is counted in."""

    def nbytes(self) -> int:
        """The memory that it takes, by estimate."""


class Tally:
    """COUNT: how many values there are."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def add(self, value: Any, copies: int) -> None:
        """Count a value in or out; NULL does not count."""
        if value is not None:
            self._count += copies

    def is_empty(self) -> bool:
        """True if there is no value."""
        return self._count == 0

    def nbytes(self) -> int:
        """One number."""
        return sys.getsizeof(self) + sys.getsizeof(self._count)

    def result(self) -> int:
        """The number of values."""
        return self._count


class Moments:
    """Count, sum and sum of squares, all exact; SUM, AVG, variance and deviation come from them.

    Values are counted in units that divide them all: a double is a multiple of the smallest one, a decimal of its last
    digit. So sums are integers, which are quick to add.
    """

    __slots__ = ("_count", "_made", "_odd", "_squared", "_squares", "_sum", "_type", "_unit")

    def __init__(self, aggregate: Aggregate) -> None:
        assert aggregate.argument is not None
        self._made = aggregate.function.made
        self._type = aggregate.type
        kind = aggregate.argument.type
        self._unit = (
            10**kind.scale if kind.kind is Kind.DECIMAL else _DOUBLES if kind.is_numeric and not kind.is_integer else 1
        )
        self._squared = aggregate.function.has_squares
        self._count = 0
        self._sum = 0
        self._squares = 0
        self._odd: dict[str, int] | None = None

    def add(self, value: Any, copies: int) -> None:
        """Count a value in or out; NULL does not count."""
        if value is None:
            return
        self._count += copies
        if isinstance(value, timedelta):
            value //= _MICROSECOND
        try:
            above, below = value.as_integer_ratio()
        except (OverflowError, ValueError):  # infinite, or not a number
            self._add_odd(str(value), copies)
            return
        # what divides a double is a power of 2, and shifting is the quicker way
        units = above << (DOUBLE_BITS - below.bit_length()) if self._unit is _DOUBLES else above * (self._unit // below)
        self._sum += copies * units
        if self._squared:
            self._squares += copies * units * units

    def _add_odd(self, name: str, copies: int) -> None:
        self._odd = self._odd or dict.fromkeys(_ODD, 0)
        self._odd[name] += copies

    def is_empty(self) -> bool:
        """True if there is no value."""
        return self._count == 0

    def nbytes(self) -> int:
        """Numbers, as long as they have become."""
        return sum(map(sys.getsizeof, (self, self._odd, self._count, self._sum, self._squares)))

    def result(self) -> Any:
        """The aggregate's value, rounded once."""
        n = self._count
        if n == 0:
            return None
        made = self._made
        if isinstance(made, Packed):
            odd = self._odd or dict.fromkeys(_ODD, 0)
            return Sums(self._unit, n, self._sum, self._squares, (odd["nan"], odd["inf"], odd["-inf"])).packed()
        if self._odd is not None and any(self._odd.values()):
            return self._odd_result(self._odd)
        match made:
            case Summed():
                return self._in_type(n if made.mean else 1)
            case Spread():
                divisor = made.divisor(n)
                variance = self._variance(divisor) if divisor else None
                return math.sqrt(variance) if made.root and variance is not None else variance
            case Counted() | Ordered() | Chosen() | Gathered() | Combined() | Shaped() | Multiplied() | Paired():
                raise AssertionError("it is no sum")
            case _:
                assert_never(made)

    def _variance(self, divisor: int) -> float:
        """Σ (x − mean)² by so many."""
        n = self._count
        return quotient(n * self._squares - self._sum * self._sum, n * divisor * self._unit * self._unit)

    def _in_type(self, divisor: int) -> Any:
        """The sum by so many."""
        if self._type.kind is Kind.DECIMAL:
            return rounded(Fraction(self._sum, divisor * self._unit), self._type.scale)
        if self._type.kind is Kind.DAY_TIME:
            return rounded_share(self._sum, divisor)
        return self._sum if self._type.is_integer else quotient(self._sum, divisor * self._unit)

    def _odd_result(self, odd: dict[str, int]) -> float:
        if odd["nan"] or (odd["inf"] and odd["-inf"]) or self._squared:
            return math.nan
        return math.inf if odd["inf"] else -math.inf


class BitCounts:
    """How many values there are, and how many of them have each of the 64 bits."""

    __slots__ = ("_bits", "_count", "_counts")

    def __init__(self, bits: Bits) -> None:
        self._bits = bits
        self._count = 0
        self._counts = [0] * _WORD

    def add(self, value: Any, copies: int) -> None:
        """Count a value in or out; NULL does not count."""
        if value is None:
            return
        self._count += copies
        left = value % 2**_WORD
        while left:
            lowest = left & -left
            self._counts[lowest.bit_length() - 1] += copies
            left ^= lowest

    def is_empty(self) -> bool:
        """True if there is no value."""
        return self._count == 0

    def nbytes(self) -> int:
        """So many numbers."""
        return sys.getsizeof(self) + sys.getsizeof(self._counts) + (_WORD + 1) * sys.getsizeof(self._count)

    def result(self) -> int | None:
        """The bits that all have, one has, or an odd number of them; NULL of no values."""
        if self._count == 0:
            return None
        match self._bits:
            case Bits.AND:
                is_set = [count == self._count for count in self._counts]
            case Bits.OR:
                is_set = [count > 0 for count in self._counts]
            case Bits.XOR:
                is_set = [count % 2 == 1 for count in self._counts]
            case _:
                assert_never(self._bits)
        word = sum(1 << place for place, yes in enumerate(is_set) if yes)
        return word - 2**_WORD if is_set[-1] else word


_WORD = 64


class PartMoments(Moments):
    """The same from parts of a group, as ``SUMS`` and ``MOMENTS`` give them."""

    __slots__ = ()

    def add(self, value: Any, copies: int) -> None:
        """Count all that a part has in or out; NULL has nothing."""
        if value is None:
            return
        part = Sums.unpacked(value)
        self._unit = part.unit
        self._count += copies * part.count
        self._sum += copies * part.total
        self._squares += copies * part.squares
        for name, count in zip(_ODD, part.odd, strict=True):
            if count:
                self._add_odd(name, copies * count)


_MICROSECOND = timedelta(microseconds=1)
_ODD = ("nan", "inf", "-inf")
_DOUBLES = 2**1074
"""Every finite double is a multiple of 1 / 2¹⁰⁷⁴."""
DOUBLE_BITS = _DOUBLES.bit_length()


def in_units(value: Any) -> int | None:
    """A number as a double, which is a whole number of the smallest one; None if it is infinite, or not a number."""
    try:
        above, below = float(value).as_integer_ratio()
    except (OverflowError, ValueError):
        return None
    # what divides a double is a power of 2, and shifting is the quicker way
    whole: int = above << (DOUBLE_BITS - below.bit_length())
    return whole


def rounded(value: Fraction, scale: int) -> Decimal:
    """A decimal with so many places, halves away from 0; exact, whatever its size."""
    scaled = value * 10**scale
    whole = (2 * abs(scaled.numerator) + scaled.denominator) // (2 * scaled.denominator)
    return Decimal((scaled < 0, tuple(map(int, str(whole))), -scale))


def rounded_share(total: int, count: int) -> int:
    """A number divided by a count, halves away from 0."""
    size = (2 * abs(total) + count) // (2 * count)
    return -size if total < 0 else size


def quotient(above: int, below: int) -> float:
    """The double next to a quotient."""
    try:
        return above / below
    except OverflowError:  # beyond the largest double: infinite, as adding doubles up would be
        return math.inf if above > 0 else -math.inf


def accumulator_for(aggregate: Aggregate) -> Callable[[], Accumulator]:
    """How to make an empty accumulator for an aggregate."""
    from everview.engine.operators.aggregates.product import Product
    from everview.engine.operators.aggregates.shapes import Pairs, Shape

    match made := aggregate.function.made:
        case Ordered() | Chosen() | Gathered():
            raise AssertionError("values that are kept in order have no accumulators")
        case Counted():
            return Tally
        case Combined():
            return partial(BitCounts, made.bits)
        case Shaped():
            return partial(Shape, made.heavy)
        case Multiplied():
            return Product
        case Paired():
            return partial(Pairs, made.pairing)
        case Summed() | Spread() | Packed():
            are_parts = aggregate.argument is not None and aggregate.argument.type.kind is Kind.BINARY
            return lambda: PartMoments(aggregate) if are_parts else Moments(aggregate)
        case _:
            assert_never(made)
