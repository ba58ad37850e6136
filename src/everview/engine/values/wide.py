"""Exact numbers of several words as columns: one column for each word, the lowest first, as the kernel keeps them.

Integers are themselves, decimals are scaled to integers. How many words a sum has is fixed when a view is defined: as
many as the value (or its square) and 64 bits of copies need, so that nothing wraps on the way.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.values.rows import ZERO, words_array
from everview.kernel import machine
from everview.kernel.program import MOST_WORDS
from everview.kernel.wide_numbers import words_of
from everview.query.types import DataType, Kind

BITS = 64
COPIES = 2**63 - 1
"""So many copies a row may have, and so many rows COUNT can tell of."""
_BITS_OF = {Kind.TINYINT: 7, Kind.SMALLINT: 15, Kind.INT: 31, Kind.BIGINT: 63, Kind.DAY_TIME: 63}
_LOW = 2**BITS - 1

Numbers = Sequence[pa.Array]


def largest(type_: DataType) -> int:
    """The largest value of an exact type, scaled to an integer."""
    return int(10**type_.precision if type_.kind is Kind.DECIMAL else 2 ** _BITS_OF[type_.kind]) - 1


def words_for(largest_value: int) -> int:
    """How many words hold a sum of values up to this size, of either sign, with 64 bits of copies."""
    return min(MOST_WORDS, -(-(largest_value.bit_length() + 1 + BITS) // BITS))


def multiplied(values: pa.Array, factors: Numbers, words: int, *, squared: bool = False) -> list[pa.Array]:
    """Integers or decimals, 0 for NULL, or their squares, times a factor each; ``OverflowError`` beyond so many words.

    The error has the number of the first such row.
    """
    if pa.types.is_decimal(values.type):
        if values.null_count:
            values = values.fill_null(pa.scalar(0, values.type))
        width, data = 2, values.buffers()[1]
        plain = pa.Array.from_buffers(pa.int64(), 2 * len(values), [None, data], offset=2 * values.offset)
    else:
        width, plain = 1, values.cast(pa.int64())
        if plain.null_count:
            plain = plain.fill_null(0)
    columns, beyond = machine.multiplied(plain, width, squared, factors, words)
    if beyond is not None:
        raise OverflowError(beyond)
    return [words_array(c) for c in columns]


def numbers_of(columns: Numbers) -> list[int]:
    """The numbers that columns of words hold, as Python's."""
    found: list[int] = columns[-1].to_pylist()
    for column in reversed(columns[:-1]):
        found = [(n << BITS) + (low & _LOW) for n, low in zip(found, column.to_pylist(), strict=True)]
    return found


def columns_of(number: int, words: int) -> tuple[pa.Array, ...]:
    """One number as columns of one row."""
    return tuple(pa.array([word], pa.int64()) for word in words_of(number, words))


def is_positive(columns: Numbers) -> pa.Array:
    """Where numbers are above 0."""
    above = pc.greater(columns[-1], ZERO)
    if len(columns) == 1:
        return above
    low = pc.not_equal(columns[0], ZERO)
    for column in columns[1:-1]:
        low = pc.or_(low, pc.not_equal(column, ZERO))
    return pc.or_(above, pc.and_(pc.equal(columns[-1], ZERO), low))


def in_word(columns: Numbers) -> tuple[pa.Array, pa.Array | None]:
    """Numbers as BIGINT, 0 where they do not fit, and where that is (None: nowhere).

    The lowest word stands for NULL, and for no number of several words.
    """
    if len(columns) == 1:
        return columns[0], None
    return _narrowed(columns, COPIES, 1)


def in_decimals(columns: Numbers, type_: pa.Decimal128Type) -> tuple[pa.Array, pa.Array | None]:
    """Numbers as decimals whose scale they have, 0 where those have too many digits, and where (None: nowhere)."""
    data, beyond = machine.narrowed(columns, len(columns[0]), words_of(10**type_.precision - 1, 2), 2)
    values = pa.Array.from_buffers(type_, len(columns[0]), [None, pa.py_buffer(data)])
    return values, _mask(beyond)


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


def _narrowed(columns: Numbers, most: int, words: int) -> tuple[pa.Array, pa.Array | None]:
    data, beyond = machine.narrowed(columns, len(columns[0]), words_of(most, words), words)
    return words_array(data), _mask(beyond)


def _mask(column: object | None) -> pa.Array | None:
    return None if column is None else pc.not_equal(words_array(column), ZERO)
