"""PRODUCT: of exact numbers from which values can be taken away again, and which stay short however many there are.

A product of many values has as many digits as all of them together, and dividing what is rounded leaves traces. So the
logarithms of the values are added up, as whole numbers of one very small unit: adding those is exact, in whatever order
values come and go. Zeros, signs and powers of two are counted beside them (q-hierarchical.md 11.1).
"""

from __future__ import annotations

import math
import sys
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache
from typing import Any, Final

from everview.engine.operators.aggregates.accumulators import quotient

_UNITS: Final = 1 << 192
"""A logarithm is a whole number of such parts of 1: 2⁴⁰ of them are off by less than 2⁻¹⁵² together."""
_DIGITS: Final = Context(prec=80, rounding=ROUND_HALF_EVEN, Emin=-(10**6), Emax=10**6)
_SHOWN: Final = 128
"""Of so many bits what is rounded to a double is known."""
_MOST: Final = 4_000
"""Doubles lie between powers of two with smaller exponents than this."""


class Product:
    """How many values there are, how many of them are 0 or negative, and the logarithm of all others."""

    __slots__ = ("_count", "_infinite", "_logarithm", "_nan", "_negative", "_twos", "_zeros")

    def __init__(self) -> None:
        self._count = 0
        self._zeros = 0
        self._negative = 0
        self._infinite = 0
        self._nan = 0
        self._twos = 0
        self._logarithm = 0

    def add(self, value: Any, copies: int) -> None:
        """Count a value in or out; NULL does not count."""
        if value is None:
            return
        self._count += copies
        try:
            above, below = value.as_integer_ratio()
        except ValueError:
            self._nan += copies
            return
        except OverflowError:
            self._infinite += copies
            self._negative += copies if value < 0 else 0
            return
        if not above:
            self._zeros += copies
            return
        self._negative += copies if above < 0 else 0
        for number, way in ((abs(above), copies), (below, -copies)):
            twos = (number & -number).bit_length() - 1
            self._twos += way * twos
            self._logarithm += way * _logarithm(number >> twos)

    def is_empty(self) -> bool:
        """True if there is no value."""
        return self._count == 0

    def nbytes(self) -> int:
        """A few numbers."""
        return sum(sys.getsizeof(getattr(self, name)) for name in self.__slots__) + sys.getsizeof(self)

    def result(self) -> float | None:
        """The double next to the product of all values; NULL of none."""
        if self._count == 0:
            return None
        if self._nan or (self._infinite and self._zeros):
            return math.nan
        if self._zeros:
            return 0.0
        size = math.inf if self._infinite else self._size()
        return -size if self._negative % 2 else size

    def _size(self) -> float:
        """Without its sign: e to the logarithm, of which whole powers of two are taken out first."""
        twos, rest = divmod(self._logarithm, _logarithm(2))
        shift = twos + self._twos - _SHOWN
        if abs(shift) > _MOST:
            return math.inf if shift > 0 else 0.0
        power = _DIGITS.exp(_DIGITS.divide(Decimal(rest), Decimal(_UNITS)))
        whole = int(_DIGITS.to_integral_value(_DIGITS.multiply(power, Decimal(1 << _SHOWN))))
        return quotient(whole << max(0, shift), 1 << max(0, -shift))


@lru_cache(maxsize=1 << 14)
def _logarithm(number: int) -> int:
    """The natural logarithm of a whole number, to the next unit."""
    return int(_DIGITS.to_integral_value(_DIGITS.multiply(_DIGITS.ln(Decimal(number)), Decimal(_UNITS))))
