"""Skewness, kurtosis, correlation and regression: of exact sums of powers and products, rounded once at the end.

Every finite double is a whole number of one unit, and so a sum of products is one of its powers: what is inserted and
deleted again leaves no trace, and the order of updates makes no difference.
"""

from __future__ import annotations

import math
import sys
from typing import Any, assert_never

from everview.engine.operators.aggregates.accumulators import DOUBLE_BITS, in_units, quotient
from everview.query.aggregates import Pairing

_UNIT = 2 ** (DOUBLE_BITS - 1)


class Shape:
    """The number of values, and the sums of their first four powers."""

    __slots__ = ("_count", "_heavy", "_odd", "_powers")

    def __init__(self, heavy: bool) -> None:
        self._heavy = heavy
        self._count = 0
        self._odd = 0
        self._powers = [0, 0, 0, 0]

    def add(self, value: Any, copies: int) -> None:
        """Count a value in or out; NULL does not count."""
        if value is None:
            return
        self._count += copies
        units = in_units(value)
        if units is None:
            self._odd += copies
            return
        power = copies
        for i in range(4 if self._heavy else 3):
            power *= units
            self._powers[i] += power

    def is_empty(self) -> bool:
        """True if there is no value."""
        return self._count == 0

    def nbytes(self) -> int:
        """Numbers, as long as they have become."""
        return sum(map(sys.getsizeof, (self, self._powers, *self._powers)))

    def result(self) -> float | None:
        """NULL of no values and of equal ones; NaN if one is infinite or NaN."""
        n = self._count
        if self._odd:
            return math.nan
        first, second, third, fourth = self._powers
        spread = n * second - first**2
        if spread == 0:
            return None
        if self._heavy:
            above = n**3 * fourth - 4 * n**2 * first * third + 6 * n * first**2 * second - 3 * first**4
            return quotient(above, spread**2) - 3.0
        above = n**2 * third - 3 * n * first * second + 2 * first**3
        return math.sqrt(quotient(above**2, spread**3)) * (1 if above > 0 else -1)


class Pairs:
    """The number of pairs (y, x), both sums, and the sums of squares and of products."""

    __slots__ = ("_count", "_odd", "_pairing", "_sums")

    def __init__(self, pairing: Pairing) -> None:
        self._pairing = pairing
        self._count = 0
        self._odd = 0
        self._sums = [0, 0, 0, 0, 0]

    def add(self, value: Any, copies: int) -> None:
        """Count a pair in or out; NULL does not count."""
        if value is None:
            return
        self._count += copies
        y, x = map(in_units, value.values())
        if x is None or y is None:
            self._odd += copies
            return
        for i, product in enumerate((y, x, y * y, x * x, x * y)):
            self._sums[i] += copies * product

    def is_empty(self) -> bool:
        """True if there is no pair."""
        return self._count == 0

    def nbytes(self) -> int:
        """Numbers, as long as they have become."""
        return sum(map(sys.getsizeof, (self, self._sums, *self._sums)))

    def result(self) -> float | None:
        """NULL of no pairs, and where something is divided by 0; NaN if a number is infinite or NaN."""
        n = self._count
        if n == 0:
            return None
        if self._odd:
            return math.nan
        above, below = self._fraction()
        if below == 0:
            return 1.0 if self._pairing is Pairing.FIT and self._spread_x else None
        found = quotient(above, below)
        if self._pairing is Pairing.CORRELATION:
            return math.sqrt(found) * (1 if self._both > 0 else -1)
        return found

    @property
    def _both(self) -> int:
        y, x, _, _, products = self._sums
        return self._count * products - x * y

    @property
    def _spread_x(self) -> int:
        return self._count * self._sums[3] - self._sums[1] ** 2

    @property
    def _spread_y(self) -> int:
        return self._count * self._sums[2] - self._sums[0] ** 2

    def _fraction(self) -> tuple[int, int]:
        """The result as a fraction; of a correlation its square."""
        n, (y, x, *_) = self._count, self._sums
        match self._pairing:
            case Pairing.CORRELATION | Pairing.FIT:
                return self._both**2, self._spread_x * self._spread_y
            case Pairing.COVARIANCE:
                return self._both, (n * _UNIT) ** 2
            case Pairing.SAMPLE_COVARIANCE:
                return self._both, n * (n - 1) * _UNIT**2
            case Pairing.MEAN_X:
                return x, n * _UNIT
            case Pairing.MEAN_Y:
                return y, n * _UNIT
            case Pairing.SQUARES_X:
                return self._spread_x, n * _UNIT**2
            case Pairing.SQUARES_Y:
                return self._spread_y, n * _UNIT**2
            case Pairing.PRODUCTS:
                return self._both, n * _UNIT**2
            case Pairing.SLOPE:
                return self._both, self._spread_x
            case Pairing.INTERCEPT:
                return y * self._spread_x - self._both * x, n * self._spread_x * _UNIT
            case _:
                assert_never(self._pairing)
