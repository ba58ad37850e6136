"""Python values into a column: checked type by type, then converted by Arrow in one go."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from types import NoneType
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.input.from_nested import nested_values
from everview.engine.input.rejection import UNFIT, Where, first_unfit
from everview.engine.values.words import arrow_type
from everview.errors import DataError
from everview.query.types import DataType, Kind

# The types whose values Arrow converts as we want it. Subclasses are looked at one by one: a bool is no int here, and a
# datetime no date.
_TYPES: Final[dict[Kind, tuple[type, ...]]] = {
    Kind.BOOLEAN: (bool,),
    Kind.TINYINT: (int,),
    Kind.SMALLINT: (int,),
    Kind.INT: (int,),
    Kind.BIGINT: (int,),
    Kind.FLOAT: (float, int),
    Kind.DOUBLE: (float, int),
    Kind.DECIMAL: (Decimal, int),
    Kind.STRING: (str,),
    Kind.BINARY: (bytes,),
    Kind.DATE: (date,),
    Kind.TIMESTAMP: (datetime,),
    Kind.TIMESTAMP_NTZ: (datetime,),
    Kind.DAY_TIME: (timedelta,),
}


def from_values(values: Sequence[object], type_: DataType, where: Where) -> pa.Array:
    """Python values as an array of the column's type, each of them exactly; None is NULL.

    Integers also go into floating point and decimals, floats into FLOAT are rounded as Spark does, and a datetime
    without a time zone in a TIMESTAMP column is UTC. Everything else of another type is refused.
    """
    target = arrow_type(type_)
    if type_.is_nested:
        return nested_values(values, type_, where, from_values)
    plain = set(map(type, values)) <= {NoneType, *_TYPES.get(type_.kind, ())}
    if not plain or type_.kind is Kind.TIMESTAMP_NTZ:  # where each may have a time zone or not
        values = [_checked(row, value, type_, where) for row, value in enumerate(values)]
    try:
        array = _convert(values, target)
    except UNFIT:
        row = first_unfit(len(values), lambda start, stop: _convert(values[start:stop], target))
        raise where.misfit(row, None if row is None else values[row], type_) from None
    if isinstance(array, pa.ChunkedArray):
        raise where.misfit(None, None, type_)
    return array


def check_kind(value: object, type_: DataType, where: Where) -> None:
    """Refuse a value of another type than the column's; one that is only too large for it, or too long, is none."""
    if type_.is_nested:
        nested_values([value], type_, where, from_values)
    else:
        _checked(None, value, type_, where)


def plain_value(value: object, type_: DataType) -> object:
    """A value whose type is a relative of Python's own as one of these; NotImplemented if a column does not take it."""
    try:
        found = _checked(0, value, type_, Where("", ""))
    except DataError:
        return NotImplemented
    match found:
        case bool():
            return found
        case datetime():
            return datetime(
                found.year,
                found.month,
                found.day,
                found.hour,
                found.minute,
                found.second,
                found.microsecond,
                found.tzinfo,
                fold=found.fold,
            )
        case date():
            return date(found.year, found.month, found.day)
        case int():
            return int.__add__(found, 0)
        case float():
            return float.__add__(found, 0.0)
        case str():
            return str.__str__(found)
        case Decimal():
            return Decimal(found)
    return found


def narrowed(doubles: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Doubles as floats, rounded; raises ArrowInvalid if one is too large to be a float."""
    singles = doubles.cast(pa.float32())
    if pc.any(pc.and_(pc.is_inf(singles), pc.is_finite(doubles))).as_py():
        raise pa.ArrowInvalid("too large for a float")
    return singles


def _convert(values: Sequence[object], target: pa.DataType) -> pa.Array | pa.ChunkedArray:
    if target == pa.float32():
        return narrowed(pa.array(values, pa.float64()))
    return pa.array(values, target)


def _checked(row: int | None, value: object, type_: DataType, where: Where) -> object:
    """The value, in a form that Arrow converts, if it is of the column's type."""
    if value is None:
        return None
    plain = value
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        plain = value.item()
    if isinstance(plain, bytearray | memoryview):
        plain = bytes(plain)
    if isinstance(plain, bool):
        fits = type_.kind is Kind.BOOLEAN
    elif isinstance(plain, datetime):
        fits = datetime in _TYPES.get(type_.kind, ()) and _exact(plain, type_)
    else:
        fits = isinstance(plain, _TYPES.get(type_.kind, ()))
    if not fits:
        raise where.wrong_type(row, value, type_)
    return plain


def _exact(moment: datetime, type_: DataType) -> bool:
    """Whether nothing of it would get lost: a time zone, or the nanoseconds of a pandas Timestamp (NaT has NaN)."""
    zoned = moment.tzinfo is not None and type_.kind is Kind.TIMESTAMP_NTZ
    return not zoned and not getattr(moment, "nanosecond", 0)
