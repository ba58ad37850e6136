"""Python's lists, dicts and tuples into a column of arrays, structs or maps: taken apart, and their parts converted.

Each part is converted as a column of its own is, so that what a value may be is said once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.input.rejection import Where
from everview.engine.values.nested import nested_bytes, parts_of
from everview.engine.values.words import arrow_type
from everview.errors import DataError, ValueTypeError
from everview.query.types import DataType, Kind

Convert: TypeAlias = Callable[[Sequence[object], DataType, Where], pa.Array]


def nested_values(values: Sequence[object], type_: DataType, where: Where, convert: Convert) -> pa.Array:
    """Python values as an array of a nested type; ``convert`` makes arrays of parts."""
    there = pa.array([v is not None for v in values], pa.bool_())
    if type_.kind is Kind.STRUCT:
        return _structs(values, type_, where, convert, there)
    nulls = None if all(v is not None for v in values) else pc.invert(there)
    target = arrow_type(type_)
    if type_.kind is Kind.ARRAY:
        lists = [None if v is None else _elements(row, v, type_, where) for row, v in enumerate(values)]
        starts, rows = _laid_out(lists)
        inner = _parts([e for f in lists for e in f or ()], type_.element, rows, where, convert)
        return pa.ListArray.from_arrays(starts, inner, type=target, mask=nulls)
    maps = [None if v is None else _entries(row, v, type_, where) for row, v in enumerate(values)]
    starts, rows = _laid_out(maps)
    keys = _parts([k for f in maps for k, _ in f or ()], type_.parts[0], rows, where, convert)
    items = _parts([i for f in maps for _, i in f or ()], type_.parts[1], rows, where, convert)
    if keys.null_count:
        row = rows[pc.index(keys.is_null(), True).as_py()]
        raise where.refuse(ValueTypeError, row, "a key of a map is None", "leave the entry out")
    return _checked_map(pa.MapArray.from_arrays(starts, keys, items, type=target, mask=nulls), where)


def _laid_out(found: Sequence[Sequence[object] | None]) -> tuple[pa.Array, list[int]]:
    """Where the elements of each row begin among those of all, and the row of each element."""
    starts = [0, *accumulate(0 if f is None else len(f) for f in found)]
    return pa.array(starts, pa.int32()), [row for row, f in enumerate(found) for _ in f or ()]


def check_keys(array: pa.Array, type_: DataType, where: Where) -> None:
    """Refuse maps that have a key twice."""
    if type_.kind is Kind.MAP and len(array):
        _checked_map(array, where)
    for part, inner in zip(parts_of(array), type_.parts, strict=True):
        check_keys(part, inner, where)


def _checked_map(array: pa.Array, where: Where) -> pa.Array:
    try:
        nested_bytes(array)
    except ValueError:
        row = next(i for i in range(len(array)) if _has_twice(array[i]))
        raise where.refuse(
            ValueTypeError, row, "a map has a key twice", "keep one entry for each key (0.0 and -0.0 are one)"
        ) from None
    return array


def _has_twice(value: pa.MapScalar) -> bool:
    try:
        nested_bytes(pa.array([value], value.type))
    except ValueError:
        return True
    return False


def _parts(values: Sequence[object], type_: DataType, rows: Sequence[int], where: Where, convert: Convert) -> pa.Array:
    """Elements of all rows together; an error tells the row that its element is of."""
    try:
        return convert(values, type_, replace(where, first=0))
    except DataError as error:
        if error.row is None:
            raise
        (refused,) = error.refused
        raise where.refuse(type(error), rows[error.row], refused.reason, error.hint or "") from None


def _structs(values: Sequence[object], type_: DataType, where: Where, convert: Convert, there: pa.Array) -> pa.Array:
    found = [None if v is None else _fields(row, v, type_, where) for row, v in enumerate(values)]
    parts = [convert([None if f is None else f[i] for f in found], part, where) for i, part in enumerate(type_.parts)]
    fields = list(arrow_type(type_).fields)
    mask = pc.invert(there) if not all(v is not None for v in values) else None
    return pa.StructArray.from_arrays(parts, fields=fields, mask=mask)


def _elements(row: int, value: object, type_: DataType, where: Where) -> Sequence[object]:
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return value
    raise where.wrong_type(row, value, type_)


def _entries(row: int, value: object, type_: DataType, where: Where) -> Sequence[tuple[object, object]]:
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, list | tuple) and all(isinstance(e, tuple | list) and len(e) == 2 for e in value):
        return [(k, v) for k, v in value]
    raise where.wrong_type(row, value, type_)


def _fields(row: int, value: object, type_: DataType, where: Where) -> Sequence[object]:
    """A struct's fields: by name from a dict, by place from a tuple or a row of Spark."""
    if isinstance(value, Mapping):
        places = {str(name): type_.field(str(name)) for name in value}
        unknown = next((n for n, place in places.items() if place is None), None)
        if unknown is not None:
            known = ", ".join(type_.names)
            raise where.refuse(ValueTypeError, row, f"the struct has no field {unknown}", f"its fields are {known}")
        by_place = {places[str(name)]: v for name, v in value.items()}
        return [by_place.get(i) for i in range(len(type_.parts))]
    if isinstance(value, tuple) and len(value) == len(type_.parts):
        return value
    raise where.wrong_type(row, value, type_)
