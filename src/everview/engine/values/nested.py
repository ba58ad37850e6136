"""Arrays, structs and maps as bytes, and back: equal values have equal bytes, which have the order of the values.

The kernel says how (``cpp/values/nested.h``). A map is a set of entries: it is kept in the order of its keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

from everview.kernel import _kernel

_LETTERS: Final = {
    pa.bool_(): "b",
    pa.int8(): "i",
    pa.int16(): "h",
    pa.int32(): "w",
    pa.int64(): "l",
    pa.float32(): "f",
    pa.float64(): "d",
    pa.string(): "s",
    pa.binary(): "s",
    pa.date32(): "w",
    pa.timestamp("us", tz="UTC"): "l",
    pa.timestamp("us"): "l",
    pa.duration("us"): "l",
    pa.null(): "n",
}


def _shape(arrow: pa.DataType) -> str:
    """The type as the kernel reads it."""
    if types.is_list(arrow):
        return f"[{_shape(arrow.value_type)}"
    if types.is_struct(arrow):
        return f"({''.join(_shape(field.type) for field in arrow.fields)})"
    if types.is_map(arrow):
        return f"{{{_shape(arrow.key_type)}{_shape(arrow.item_type)}"
    return "D" if types.is_decimal128(arrow) else _LETTERS[arrow]


def in_numbers(arrow: pa.DataType) -> pa.DataType:
    """The same type with microseconds for lengths of time."""
    if pa.types.is_duration(arrow):
        return pa.int64()
    if pa.types.is_list(arrow):
        return pa.list_(in_numbers(arrow.value_type))
    if pa.types.is_struct(arrow):
        return pa.struct([pa.field(f.name, in_numbers(f.type)) for f in arrow.fields])
    return pa.map_(in_numbers(arrow.key_type), in_numbers(arrow.item_type)) if pa.types.is_map(arrow) else arrow


def nested_bytes(array: pa.Array) -> pa.Array:
    """Nested values as binary; ValueError if a map has a key twice."""
    plain = in_numbers(array.type)
    return pa.array(_kernel.nested_bytes(array if plain == array.type else array.cast(plain), _shape(plain)))


def nested_array(values: pa.Array, arrow: pa.DataType) -> pa.Array:
    """The values that ``nested_bytes`` gave bytes; ValueError if they are none of this type."""
    return _assembled(_kernel.nested_parts(values, _shape(arrow)), arrow)


def is_well_formed(values: pa.Array, arrow: pa.DataType) -> bool:
    """True if binary is what ``nested_bytes`` gives for some values of the type."""
    try:
        found = nested_array(values, arrow)
        found.validate(full=True)
        return bool(nested_bytes(found).equals(values))
    except (ValueError, pa.ArrowException):
        return False


def parts_of(array: pa.Array) -> list[pa.Array]:
    """The elements of all arrays together, the fields of structs, or the keys and the values of maps."""
    if types.is_map(array.type):
        offsets = array.offsets
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        return [part.slice(first, last - first) for part in (array.keys, array.items)]
    if types.is_list(array.type):
        return [array.flatten()]
    return list(array.flatten()) if types.is_struct(array.type) else []


def as_keys(columns: Iterable[Any]) -> list[Any]:
    """Columns by which Arrow can group rows and put them in order: bytes in the place of nested values."""
    return [_each(column, nested_bytes) if types.is_nested(column.type) else column for column in columns]


def from_key(column: Any, arrow: pa.DataType) -> Any:
    """A column of such keys as the values of a type."""
    if not types.is_nested(arrow):
        return column.cast(arrow)
    return _each(column, lambda values: nested_array(values, arrow))


def _each(column: Any, change: Callable[[pa.Array], pa.Array]) -> Any:
    if not isinstance(column, pa.ChunkedArray):
        return change(column)
    return pa.chunked_array([change(c) for c in column.chunks] or [change(pa.array([], column.type))])


def _assembled(parts: Any, arrow: pa.DataType) -> pa.Array:
    length, nulls, buffers, children = parts
    if arrow == pa.null():
        return pa.nulls(length)
    made = [None if b is None else pa.py_buffer(b) for b in buffers]
    if types.is_map(arrow):
        keys, values = map(_assembled, children, (arrow.key_type, arrow.item_type))
        fields = [arrow.key_field, arrow.item_field]
        entries = pa.StructArray.from_arrays([keys, values], fields=fields)
        return pa.Array.from_buffers(arrow, length, made, null_count=nulls, children=[entries])
    inner = [arrow.value_type] if types.is_list(arrow) else [f.type for f in arrow] if types.is_struct(arrow) else []
    found = [_assembled(c, t) for c, t in zip(children, inner, strict=True)]
    return pa.Array.from_buffers(arrow, length, made, null_count=nulls, children=found or None)
