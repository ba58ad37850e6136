"""Values as the kernel keeps them, 64-bit signed words, and back: one array of a type to one array of words.

Two values of one type are equal in SQL's GROUP BY exactly when their words are. NULL is one reserved word, -2**63, in
every type: no double has it (it would be -0.0, which is stored as 0.0), and no id; a BIGINT or timestamp of that value
cannot be stored, and ``input/read.py`` refuses it.
"""

from __future__ import annotations

from math import nan
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.values.dictionary import NULL, Dictionary
from everview.errors import ValueTypeError
from everview.query.types import DAY_TIME, DataType, Kind, array_of, map_of, struct_of

__all__ = ["NARROW_DIGITS", "NULL", "arrow_type", "data_type", "from_words", "is_wide", "ordered_words", "to_words"]

NARROW_DIGITS: Final = 18
"""Decimals of up to so many digits are words themselves, scaled to integers; longer ones go through the dictionary."""

_ARROW: Final = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.TINYINT: pa.int8(),
    Kind.SMALLINT: pa.int16(),
    Kind.INT: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Kind.TIMESTAMP_NTZ: pa.timestamp("us"),
    Kind.DAY_TIME: pa.duration("us"),
    Kind.NULL: pa.null(),
}
_NULL_WORD: Final = pa.scalar(NULL, pa.int64())
_ABSENT: Final = pa.scalar(None, pa.int64())
_ZERO: Final = pa.scalar(0, pa.int64())
_ALL_BUT_SIGN: Final = pa.scalar(2**63 - 1, pa.int64())
_KINDS: Final = {arrow: kind for kind, arrow in _ARROW.items()}


def arrow_type(type_: DataType) -> pa.DataType:
    """The Arrow type that holds the values of a column or expression."""
    if type_.kind is Kind.DECIMAL:
        return pa.decimal128(type_.precision, type_.scale)
    if type_.kind is Kind.ARRAY:
        return pa.list_(arrow_type(type_.element))
    if type_.kind is Kind.STRUCT:
        return pa.struct([pa.field(n, arrow_type(t)) for n, t in zip(type_.names, type_.parts, strict=True)])
    if type_.kind is Kind.MAP:
        return pa.map_(*map(arrow_type, type_.parts))
    if type_.kind not in _ARROW:
        raise ValueTypeError(f"a value of type {type_} cannot be stored", hint="CAST it to a type that tables can have")
    return _ARROW[type_.kind]


def data_type(arrow: pa.DataType) -> DataType:
    """The type whose ``arrow_type`` this is."""
    if pa.types.is_decimal128(arrow) and arrow.scale >= 0:
        return DataType(Kind.DECIMAL, arrow.precision, arrow.scale)
    if pa.types.is_list(arrow):
        return array_of(data_type(arrow.value_type))
    if pa.types.is_struct(arrow):
        return struct_of((f.name, data_type(f.type)) for f in arrow.fields)
    if pa.types.is_map(arrow):
        return map_of(data_type(arrow.key_type), data_type(arrow.item_type))
    if arrow == _ARROW[Kind.DAY_TIME]:
        return DAY_TIME
    if arrow not in _KINDS:
        raise ValueTypeError(f"Everview has no type for Arrow's {arrow}", hint="cast it to one of Everview's types")
    return DataType(_KINDS[arrow])


def is_wide(type_: DataType) -> bool:
    """Whether words of this type are ids of the dictionary, and so have to be retained and released."""
    kind = type_.kind
    return (
        kind is Kind.STRING
        or kind is Kind.BINARY
        or type_.is_nested
        or (kind is Kind.DECIMAL and type_.precision > NARROW_DIGITS)
    )


def to_words(array: pa.Array, type_: DataType, dictionary: Dictionary) -> pa.Array:
    """An array of ``arrow_type(type_)`` as words: int64 without nulls, sharing memory where the words are the values.

    Integers, days and microseconds are as they are, booleans 0 and 1, floating point a double's bits with one zero and
    one NaN, decimals scaled integers, and everything wide an id of the dictionary.
    """
    if array.type != arrow_type(type_):
        raise TypeError(f"words of {type_} are made from {arrow_type(type_)}, not from {array.type}")
    if is_wide(type_):
        return dictionary.encode(array)
    words = _bits(array, type_)
    return pc.fill_null(words, NULL) if words.null_count else words


def _bits(array: pa.Array, type_: DataType) -> pa.Array:
    match type_.kind:
        case Kind.FLOAT | Kind.DOUBLE:
            doubles = pc.add(array.cast(pa.float64()), 0.0)  # -0.0 + 0.0 is 0.0
            return pc.if_else(pc.is_nan(doubles), nan, doubles).view(pa.int64())
        case Kind.DECIMAL:
            return array.cast(pa.decimal64(type_.precision, type_.scale)).view(pa.int64())
        case Kind.DATE:
            return array.view(pa.int32()).cast(pa.int64())
        case Kind.TIMESTAMP | Kind.TIMESTAMP_NTZ | Kind.DAY_TIME:
            return array.view(pa.int64())
        case Kind.BIGINT:
            return array
        case _:
            return array.cast(pa.int64())


def from_words(words: pa.Array, type_: DataType, dictionary: Dictionary, *, nullable: bool = True) -> pa.Array:
    """The values of words, as an array of ``arrow_type(type_)``: the inverse of ``to_words``.

    Shares the words' memory where they are the values and none is NULL, which is not looked for if ``nullable`` is
    false.
    """
    if is_wide(type_):
        return dictionary.decode(words, arrow_type(type_))
    if type_.kind is Kind.NULL:
        return pa.nulls(len(words))
    if nullable and pc.min(words).as_py() == NULL:  # It is the least of all words.
        words = pc.if_else(pc.equal(words, _NULL_WORD), _ABSENT, words)
    match type_.kind:
        case Kind.BIGINT:
            return words
        case Kind.FLOAT | Kind.DOUBLE:
            return words.view(pa.float64()).cast(arrow_type(type_))
        case Kind.DECIMAL:
            return words.view(pa.decimal64(type_.precision, type_.scale)).cast(arrow_type(type_))
        case Kind.DATE:
            return words.cast(pa.int32()).view(arrow_type(type_))
        case Kind.TIMESTAMP | Kind.TIMESTAMP_NTZ | Kind.DAY_TIME:
            return words.view(arrow_type(type_))
        case _:
            return words.cast(arrow_type(type_))


def ordered_words(words: pa.Array, type_: DataType) -> pa.Array:
    """Words that compare, as integers, as the values do: doubles by their size, NaN above all. Its own inverse.

    A double's bits grow with it as long as it is positive; those of negative ones fall, so all but the sign are turned.
    NULL stays the least of all.
    """
    if type_.kind not in (Kind.FLOAT, Kind.DOUBLE):
        return words
    turned = pc.and_(pc.less(words, _ZERO), pc.not_equal(words, _NULL_WORD))
    return pc.if_else(turned, pc.bit_wise_xor(words, _ALL_BUT_SIGN), words)
