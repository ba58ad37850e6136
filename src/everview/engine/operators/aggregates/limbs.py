"""Exact numbers of up to 128 bits as limbs, words that a core can sum up: value = Σ limb · 2^(32 i).

The limbs of one value are balanced, from −2³¹ to 2³¹; those of a sum grow to 64 bits, so that any 2³¹ values can be
added up, in any order and with any others in between, without leaving a word. Small values have one limb that is not 0.
Integers are themselves, decimals are scaled to integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from everview.query.types import DataType, Kind

BITS = 32
FEW = 16
"""Up to so many rows Python's own integers are faster than Arrow's calls."""
COPIES = 2 ** (BITS - 1)
"""So many values can be added up whatever they are."""
_LOW = pa.scalar(2**BITS - 1, pa.int64())
_HALF = pa.scalar(2 ** (BITS - 1), pa.int64())
_SHIFT = pa.scalar(BITS, pa.int64())
_NONE, _ALL = pa.scalar(0, pa.int64()), pa.scalar(-1, pa.int64())
_WORD = {Kind.TINYINT: 7, Kind.SMALLINT: 15, Kind.INT: 31, Kind.BIGINT: 63}


def largest(type_: DataType) -> int:
    """The largest value of an exact type, scaled to an integer."""
    return int(10**type_.precision if type_.kind is Kind.DECIMAL else 2 ** _WORD[type_.kind]) - 1


def limbs_for(largest_value: int) -> int:
    """How many limbs hold every value up to this one, with its sign."""
    return -(-(largest_value.bit_length() + 1) // BITS)


# --- values into limbs -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wide:
    """Integers of 128 bits: ``low`` has the lower 64 bits of each, ``high`` the upper ones and the sign."""

    low: pa.Array
    high: pa.Array

    @staticmethod
    def of(values: pa.Array) -> Wide:
        """Integers or decimals, 0 for NULL."""
        if not pa.types.is_decimal(values.type):
            low = pc.fill_null(values.cast(pa.int64()), 0)
            return Wide(low, _sign(low))
        buffer = values.buffers()[1]
        words = pa.Array.from_buffers(pa.int64(), 2 * len(values), [None, buffer], offset=2 * values.offset)
        pairs = pa.FixedSizeListArray.from_arrays(words, 2)
        low, high = pc.list_element(pairs, 0), pc.list_element(pairs, 1)
        if values.null_count:
            there = values.is_valid()
            low, high = pc.if_else(there, low, 0), pc.if_else(there, high, 0)
        return Wide(low, high)

    def squared(self) -> Wide:
        """The squares of numbers that have at most 64 bits."""
        size = pc.abs(self.low).view(pa.uint64())  # that of −2⁶³ is its own word, read without a sign
        low_half = pa.scalar(2**BITS - 1, pa.uint64())
        a, b = pc.shift_right(size, pa.scalar(BITS, pa.uint64())), pc.bit_wise_and(size, low_half)
        small, cross = pc.multiply(b, b), pc.multiply(a, b)
        low = pc.add(small, pc.shift_left(cross, pa.scalar(BITS + 1, pa.uint64())))
        carry = pc.less(low, small).cast(pa.uint64())
        upper = pc.shift_right(cross, pa.scalar(BITS - 1, pa.uint64()))
        high = pc.add(pc.add(pc.multiply(a, a), upper), carry)
        return Wide(low.view(pa.int64()), high.view(pa.int64()))

    def limbs(self, count: int) -> list[pa.Array]:
        """The limbs, the lowest first; the numbers must fit into so many."""
        tops = (self.low, pc.shift_right(self.low, _SHIFT), self.high, pc.shift_right(self.high, _SHIFT))
        found = []
        carry = None
        for top in tops[: count - 1]:
            digit = pc.bit_wise_and(top, _LOW)
            digit = digit if carry is None else pc.add(digit, carry)
            carry = pc.shift_right(pc.add(digit, _HALF), _SHIFT)
            found.append(pc.subtract(digit, pc.shift_left(carry, _SHIFT)))
        last = tops[count - 1]
        return [*found, last if carry is None else pc.add(last, carry)]


def split(values: pa.Array, count: int, *, squared: bool = False) -> list[pa.Array]:
    """The limbs of integers or decimals, or of their squares; 0 for NULL."""
    if len(values) > FEW:
        wide = Wide.of(values)
        return (wide.squared() if squared else wide).limbs(count)
    numbers = _numbers(values)
    found: list[list[int]] = []
    for n in (n * n for n in numbers) if squared else numbers:
        limbs = []
        for _ in range(count - 1):
            limb = (n + COPIES) % 2**BITS - COPIES
            limbs.append(limb)
            n = (n - limb) >> BITS
        found.append([*limbs, n])
    return [pa.array([row[i] for row in found], pa.int64()) for i in range(count)]


def _numbers(values: pa.Array) -> list[int]:
    """Integers, and decimals scaled to them; 0 for NULL."""
    if not pa.types.is_decimal(values.type):
        return [n or 0 for n in values.to_pylist()]
    data = memoryview(values.buffers()[1])[16 * values.offset :] if len(values) else b""
    numbers = [int.from_bytes(data[16 * i : 16 * i + 16], "little", signed=True) for i in range(len(values))]
    if not values.null_count:
        return numbers
    return [n if there else 0 for n, there in zip(numbers, values.is_valid().to_pylist(), strict=True)]


# --- limbs into values -----------------------------------------------------------------------------------------------


def whole(limbs: Sequence[pa.Array]) -> list[int]:
    """The numbers that limbs stand for, as Python's."""
    found: list[int] = limbs[-1].to_pylist()
    for limb in reversed(limbs[:-1]):
        found = [(n << BITS) + part for n, part in zip(found, limb.to_pylist(), strict=True)]
    return found


def word(limbs: Sequence[pa.Array]) -> tuple[pa.Array, pa.Array | None]:
    """Limbs as 64-bit integers, and where they do not fit (None: all do)."""
    if len(limbs) == 1:
        return limbs[0], None
    if len(limbs[0]) <= FEW:
        numbers = whole(limbs)
        fits = [-(2**63) <= n < 2**63 for n in numbers]
        kept = pa.array([n if fit else 0 for n, fit in zip(numbers, fits, strict=True)], pa.int64())
        return kept, None if all(fits) else pa.array([not fit for fit in fits])
    (low,), carry = _words(limbs, 1)
    return low, _some(pc.not_equal(carry, _sign(low)))


def decimals(limbs: Sequence[pa.Array], type_: pa.Decimal128Type) -> tuple[pa.Array, pa.Array | None]:
    """Limbs as decimals whose scale they have, and where those have too many digits (None: nowhere)."""
    if len(limbs[0]) <= FEW:
        return decimals_of(whole(limbs), type_)
    if len(limbs) == 1:
        low, high, beyond = limbs[0], _sign(limbs[0]), None
    else:
        (low, high), carry = _words(limbs, 2)
        beyond = pc.not_equal(carry, _sign(high))
    bound = 10**type_.precision
    if len(limbs) > 1 or bound < 2**63:
        much = pc.or_(_at_least(low, high, bound), pc.invert(_at_least(low, high, 1 - bound)))
        beyond = much if beyond is None else pc.or_(beyond, much)
    halves = [w.view(pa.binary(8)).cast(pa.binary()) for w in (low, high)]
    joined = pc.binary_join_element_wise(*halves, b"")
    values = pa.Array.from_buffers(type_, len(low), [None, joined.buffers()[2]])
    return values, None if beyond is None else _some(beyond)


def decimals_of(numbers: Sequence[int | None], type_: pa.Decimal128Type) -> tuple[pa.Array, pa.Array | None]:
    """Scaled integers as decimals, None as NULL, and where they have too many digits (None: nowhere)."""
    bound = 10**type_.precision
    kept = [n if n is not None and abs(n) < bound else None for n in numbers]
    data = pa.py_buffer(b"".join((n or 0).to_bytes(16, "little", signed=True) for n in kept))
    if None not in kept:
        return pa.Array.from_buffers(type_, len(kept), [None, data]), None
    there = pa.array([n is not None for n in kept], pa.bool_())
    values = pa.Array.from_buffers(type_, len(kept), [there.buffers()[1], data])
    beyond = [n is not None and k is None for n, k in zip(numbers, kept, strict=True)]
    return values, pa.array(beyond, pa.bool_()) if any(beyond) else None


def _words(limbs: Sequence[pa.Array], size: int) -> tuple[list[pa.Array], pa.Array]:
    """The lower 64-bit words of what limbs stand for, and what is left above them."""
    zero = pa.repeat(pa.scalar(0, pa.int64()), len(limbs[0]))
    digits = []
    carry = zero
    for i in range(2 * size):
        limb = limbs[i] if i < len(limbs) else zero
        digit = pc.add(pc.bit_wise_and(limb, _LOW), pc.bit_wise_and(carry, _LOW))
        digits.append(pc.bit_wise_and(digit, _LOW))
        upper = pc.add(pc.shift_right(limb, _SHIFT), pc.shift_right(carry, _SHIFT))
        carry = pc.add(upper, pc.shift_right(digit, _SHIFT))
    found = [pc.bit_wise_or(digits[2 * i], pc.shift_left(digits[2 * i + 1], _SHIFT)) for i in range(size)]
    return found, carry


def _sign(words: pa.Array) -> pa.Array:
    """The word above: −1 for negative ones. (Arrow does not shift by 63.)"""
    return pc.if_else(pc.less(words, _NONE), _ALL, _NONE)


def _at_least(low: pa.Array, high: pa.Array, bound: int) -> pa.Array:
    above, below = pa.scalar(bound >> 64, pa.int64()), pa.scalar(bound % 2**64, pa.uint64())
    same = pc.and_(pc.equal(high, above), pc.greater_equal(low.view(pa.uint64()), below))
    return pc.or_(pc.greater(high, above), same)


def _some(mask: pa.Array) -> pa.Array | None:
    return mask if pc.any(mask).as_py() else None
