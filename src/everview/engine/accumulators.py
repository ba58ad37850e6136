"""Aggregates that a core cannot sum up itself: MIN, MAX, DISTINCT ones, and exact sums of doubles.

Each group has one accumulator an aggregate, fed with values and copies. Sums are kept exactly, as fractions, so that
what is inserted and deleted again leaves no trace.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol

from sortedcontainers import SortedDict

from everview.query.types import DataType, Kind
from everview.query.view import Aggregate, AggregateFunction

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


class Extreme:
    """MIN or MAX: the group's values in order, O(log n) a change. NaN is the largest double, as in Spark."""

    def __init__(self, highest: bool) -> None:
        self._highest = highest
        self._values: Any = SortedDict()
        self._bytes = 0

    def add(self, value: Any, copies: int) -> None:
        """Count a value in or out."""
        if value is None:
            return
        key = _orderly(value)
        old = self._values.get(key, 0)
        count = old + copies
        if count:
            self._values[key] = count
        else:
            del self._values[key]
        self._bytes += (bool(count) - bool(old)) * (
            sys.getsizeof(key) + sys.getsizeof(value) + SLOT_BYTES + _LINK_BYTES
        )

    def is_empty(self) -> bool:
        """True if there is no value."""
        return not self._values

    def nbytes(self) -> int:
        """Values, and what it takes to keep them in order."""
        return sys.getsizeof(self) + _EMPTY_BYTES + self._bytes

    def result(self) -> Any:
        """The lowest or highest value."""
        if not self._values:
            return None
        return self._values.peekitem(-1 if self._highest else 0)[0][1]


_LINK_BYTES = sys.getsizeof([None]) - sys.getsizeof([])
_EMPTY = SortedDict()
_EMPTY_BYTES = sum(map(sys.getsizeof, (_EMPTY, vars(_EMPTY), *vars(_EMPTY).values())))


def _orderly(value: Any) -> tuple[bool, Any]:
    """NaN compares with nothing, so it is put behind everything."""
    return (True, math.nan) if isinstance(value, float) and math.isnan(value) else (False, value)


class Tally:
    """COUNT: how many values there are."""

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
    """Count, sum and sum of squares, all exact; SUM, AVG, variance and deviation come from them."""

    def __init__(self, aggregate: Aggregate) -> None:
        self._function = aggregate.function
        self._type = aggregate.type
        self._count = 0
        self._sum = Fraction(0)
        self._squares = Fraction(0)
        self._odd = {"nan": 0, "inf": 0, "-inf": 0}

    def add(self, value: Any, copies: int) -> None:
        """Count a value in or out; NULL does not count."""
        if value is None:
            return
        self._count += copies
        if isinstance(value, float) and not math.isfinite(value):
            self._odd[str(value)] += copies
            return
        exact = Fraction(value)
        self._sum += copies * exact
        self._squares += copies * exact * exact

    def is_empty(self) -> bool:
        """True if there is no value."""
        return self._count == 0

    def nbytes(self) -> int:
        """Numbers, as long as they have become."""
        numbers = (
            self._count,
            self._sum.numerator,
            self._sum.denominator,
            self._squares.numerator,
            self._squares.denominator,
        )
        return sum(map(sys.getsizeof, (self, vars(self), self._odd, self._sum, self._squares, *numbers)))

    def result(self) -> Any:
        """The aggregate's value, rounded once."""
        n = self._count
        if n == 0:
            return None
        if any(self._odd.values()):
            return self._odd_result()
        match self._function:
            case AggregateFunction.SUM:
                return _in_type(self._sum, self._type)
            case AggregateFunction.AVG:
                return _in_type(self._sum / n, self._type)
            case AggregateFunction.VARIANCE_POP:
                return _double(self._spread() / n)
            case AggregateFunction.STDDEV_POP:
                return math.sqrt(_double(self._spread() / n))
            case AggregateFunction.VARIANCE:
                return _double(self._spread() / (n - 1)) if n > 1 else None
            case _:
                return math.sqrt(_double(self._spread() / (n - 1))) if n > 1 else None

    def _spread(self) -> Fraction:
        """Σ (x − mean)²."""
        return self._squares - self._sum * self._sum / self._count

    def _odd_result(self) -> float:
        plain = self._function in (AggregateFunction.SUM, AggregateFunction.AVG)
        if self._odd["nan"] or (self._odd["inf"] and self._odd["-inf"]) or not plain:
            return math.nan
        return math.inf if self._odd["inf"] else -math.inf


def _in_type(value: Fraction, type_: DataType) -> Any:
    if type_.kind is Kind.DECIMAL:
        return rounded(value, type_.scale)
    return int(value) if type_.is_integer else _double(value)


def rounded(value: Fraction, scale: int) -> Decimal:
    """A decimal with so many places, halves away from 0; exact, whatever its size."""
    scaled = value * 10**scale
    whole = (2 * abs(scaled.numerator) + scaled.denominator) // (2 * scaled.denominator)
    return Decimal((scaled < 0, tuple(map(int, str(whole))), -scale))


def _double(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:  # beyond the largest double: infinite, as adding doubles up would be
        return math.inf if value > 0 else -math.inf


def accumulator_for(aggregate: Aggregate) -> Callable[[], Accumulator]:
    """How to make an empty accumulator for an aggregate."""
    if not aggregate.function.has_inverse:
        highest = aggregate.function is AggregateFunction.MAX
        return lambda: Extreme(highest)
    if aggregate.function is AggregateFunction.COUNT:
        return Tally
    return lambda: Moments(aggregate)
