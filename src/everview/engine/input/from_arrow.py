"""Arrow columns into a column of a table: checked and converted as a whole, without looking at single values."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from everview.engine.input.from_nested import check_keys
from everview.engine.input.from_python import narrowed
from everview.engine.input.rejection import UNFIT, Where, first_unfit, shown_text
from everview.engine.values.nested import parts_of
from everview.engine.values.words import arrow_type
from everview.errors import ValueTypeError
from everview.query.types import DataType, Kind

_Test = Callable[[pa.DataType], bool]

_STRINGS: Final[tuple[_Test, ...]] = (types.is_string, types.is_large_string, types.is_string_view)
_BINARIES: Final[tuple[_Test, ...]] = (
    types.is_binary,
    types.is_large_binary,
    types.is_binary_view,
    types.is_fixed_size_binary,
)
_INTEGERS: Final[tuple[_Test, ...]] = (types.is_integer,)
_NUMBERS: Final[tuple[_Test, ...]] = (types.is_integer, types.is_floating)

# Which Arrow types a column takes; whether each value fits is another question.
_TAKES: Final[dict[Kind, tuple[_Test, ...]]] = {
    Kind.BOOLEAN: (types.is_boolean,),
    Kind.TINYINT: _INTEGERS,
    Kind.SMALLINT: _INTEGERS,
    Kind.INT: _INTEGERS,
    Kind.BIGINT: _INTEGERS,
    Kind.FLOAT: _NUMBERS,
    Kind.DOUBLE: _NUMBERS,
    Kind.DECIMAL: (types.is_decimal, types.is_integer),
    Kind.STRING: _STRINGS,
    Kind.BINARY: _BINARIES,
    Kind.DATE: (types.is_date,),
    Kind.TIMESTAMP: (types.is_timestamp,),
    Kind.TIMESTAMP_NTZ: (lambda t: types.is_timestamp(t) and t.tz is None,),
    Kind.DAY_TIME: (types.is_duration,),
    Kind.ARRAY: (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view),
    Kind.STRUCT: (types.is_struct,),
    Kind.MAP: (types.is_map,),
}


_TAKEN: Final = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
"""Types whose values are brought into another one before they can be picked, as a dictionary's are."""


def from_arrow(column: pa.ChunkedArray, type_: DataType, where: Where) -> pa.Array:
    """A column of Arrow data as an array of the table's type, each value exactly.

    Shares memory if the type is the table's already and the data is one chunk. A timestamp without a time zone is UTC
    in a TIMESTAMP column.
    """
    target = arrow_type(type_)
    column = unpacked(column, type_, where)
    if column.null_count == len(column):
        return pa.nulls(len(column), target)
    if not is_taken(column.type, type_):
        row = first_true(pc.is_valid(column))
        raise where.wrong_type(row, column[row], type_)
    converted = _attempt(column, lambda part: _convert(part, target), type_, where)
    found = converted.chunk(0) if converted.num_chunks == 1 else _joined(converted, type_, where)
    if type_.is_nested:
        check_keys(found, type_, where)
    return found


def is_taken(have: pa.DataType, type_: DataType) -> bool:
    """True if a column takes values of this Arrow type; whether each fits is another question."""
    if type_.kind is Kind.NULL or types.is_null(have):
        return True
    if types.is_dictionary(have):
        return is_taken(have.value_type, type_)
    if not any(takes(have) for takes in _TAKES[type_.kind]):
        return False
    if type_.kind is Kind.ARRAY:
        return is_taken(have.value_type, type_.element)
    if type_.kind is Kind.MAP:
        return is_taken(have.key_type, type_.parts[0]) and is_taken(have.item_type, type_.parts[1])
    if type_.kind is Kind.STRUCT:
        names = [field.name.lower() for field in have.fields]
        places = [type_.field(name) for name in names]
        if None in places or len(set(names)) < len(names):
            return False
        return all(is_taken(f.type, type_.parts[p]) for f, p in zip(have.fields, places, strict=True) if p is not None)
    return True


def unpacked(column: pa.ChunkedArray, type_: DataType, where: Where) -> pa.ChunkedArray:
    """The column, valid, and plain if it comes as dictionary (pandas' categories) or run-end encoded."""
    _validate(column, type_, where)
    if not types.is_dictionary(column.type) and not types.is_run_end_encoded(column.type):
        return column
    plain = _TAKEN.get(column.type.value_type, column.type.value_type)
    try:
        return pa.chunked_array([_plain(chunk, plain) for chunk in column.chunks], plain)
    except pa.ArrowException as error:
        raise where.refuse(
            ValueTypeError,
            None,
            f"Arrow data of type {column.type} cannot be read: {shown_text(error)}",
            f"cast the column to {arrow_type(type_)} first",
        ) from error


def _plain(chunk: pa.Array, plain: pa.DataType) -> pa.Array:
    """A chunk's values one by one; Arrow (26.0) cannot pick values out of an array of views."""
    if types.is_dictionary(chunk.type):
        return pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(plain)).dictionary_decode()
    if chunk.type.value_type != plain:
        whole = pa.RunEndEncodedArray.from_arrays(chunk.run_ends, chunk.values.cast(plain))
        chunk = whole.slice(chunk.offset, len(chunk))
    return pc.run_end_decode(chunk)


def _validate(column: pa.ChunkedArray, type_: DataType, where: Where) -> None:
    """Refuse what breaks Arrow's rules. Where that is its layout, no value may be looked at: it would crash."""
    try:
        column.validate(full=True)
    except UNFIT as error:
        if not _is_sound(column):
            raise where.refuse(
                ValueTypeError,
                None,
                f"the Arrow data is not valid: {error}",
                "correct what makes it: .validate(full=True)",
            ) from None
        _attempt(column, lambda part: part.validate(full=True), type_, where)


def _is_sound(column: pa.ChunkedArray) -> bool:
    """Whether values can be looked at all the same: they have a fixed width, or are text that is valid as binary."""
    if types.is_primitive(column.type) or types.is_decimal(column.type):
        return True
    plain = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}
    if column.type not in plain:
        return False
    try:
        for chunk in column.chunks:
            chunk.view(plain[column.type]).validate(full=True)
    except UNFIT:
        return False
    return True


def is_text(arrow: pa.DataType) -> bool:
    """Whether an Arrow type is one of its string types."""
    return any(test(arrow) for test in _STRINGS)


def first_true(mask: pa.Array | pa.ChunkedArray) -> int:
    """The position of the first true value; -1 if there is none."""
    return int(pc.index(mask, pa.scalar(True)).as_py())


def _attempt(
    column: pa.ChunkedArray, convert: Callable[[pa.ChunkedArray], pa.ChunkedArray], type_: DataType, where: Where
) -> pa.ChunkedArray:
    """Convert the column; if that fails, say which value was the first that it failed on."""
    try:
        return convert(column)
    except UNFIT:
        row = first_unfit(len(column), lambda start, stop: convert(column.slice(start, stop - start)))
        raise where.misfit(row, None if row is None else column[row], type_) from None


def _convert(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    if column.type == target:
        return column
    if types.is_nested(target):
        return pa.chunked_array([_nested(chunk, target) for chunk in column.chunks], target)
    if target == pa.float32():
        return narrowed(column.cast(pa.float64()))
    if types.is_decimal(target) and types.is_integer(column.type):
        column = column.cast(pa.decimal128(20, 0))  # Arrow wants room for any integer, not for those that are there.
    if types.is_decimal256(column.type):  # Arrow (26.0) cannot bring some of these to a smaller scale
        return pa.chunked_array([pa.array(_shortest(column.to_pylist()), target)], target)
    return column.cast(target)


def _nested(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Nested values in another type of the same shape: their parts are converted as columns are."""
    if array.type == target:
        return array
    if types.is_null(array.type):
        return pa.nulls(len(array), target)
    nulls = array.is_null() if array.null_count else None
    if types.is_struct(target):
        parts = dict(zip((f.name.lower() for f in array.type.fields), array.flatten(), strict=True))
        made = [
            _part(parts[f.name.lower()], f.type) if f.name.lower() in parts else pa.nulls(len(array), f.type)
            for f in target.fields
        ]
        return pa.StructArray.from_arrays(made, fields=list(target.fields), mask=nulls)
    if types.is_map(target):
        keys, items = parts_of(array)
        starts = pc.subtract(array.offsets, array.offsets[0])
        keys, items = _part(keys, target.key_type), _part(items, target.item_type)
        return pa.MapArray.from_arrays(starts, keys, items, type=target, mask=nulls)
    lists = array.cast(pa.list_(array.type.value_type))
    counts = pc.fill_null(pc.list_value_length(lists), 0).cast(pa.int64())
    starts = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(counts)]).cast(pa.int32())
    return pa.ListArray.from_arrays(starts, _part(lists.flatten(), target.value_type), type=target, mask=nulls)


def _part(array: pa.Array, target: pa.DataType) -> pa.Array:
    column = _convert(pa.chunked_array([array]), target)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _shortest(values: list[Decimal | None]) -> list[Decimal | None]:
    """Decimals without zeros at their end, so that none has to be divided to fit."""
    exact = Context(prec=80)
    return [None if v is None else exact.normalize(v) for v in values]


def _joined(column: pa.ChunkedArray, type_: DataType, where: Where) -> pa.Array:
    try:
        array = column.combine_chunks()
    except pa.ArrowException:
        raise where.misfit(None, None, type_) from None
    if isinstance(array, pa.ChunkedArray):
        raise where.misfit(None, None, type_)
    return array
