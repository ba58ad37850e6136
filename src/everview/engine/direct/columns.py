"""Types of columns, and values of theirs, as the kernel numbers them."""

from __future__ import annotations

import struct
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final

from everview.query.types import DataType, Kind

_KINDS: Final = (
    Kind.BOOLEAN,
    Kind.TINYINT,
    Kind.SMALLINT,
    Kind.INT,
    Kind.BIGINT,
    Kind.FLOAT,
    Kind.DOUBLE,
    Kind.DECIMAL,
    Kind.STRING,
    Kind.BINARY,
    Kind.DATE,
    Kind.TIMESTAMP,
    Kind.TIMESTAMP_NTZ,
)
"""In the order of the kernel's numbers (``cpp/batch/types.h``)."""
_EPOCH: Final = datetime(1970, 1, 1)


def type_code(type_: DataType, *, required: bool = False) -> list[int]:
    """A type as the kernel takes it; a ``required`` column has no NULL."""
    length = -1 if type_.length is None else type_.length
    return [_KINDS.index(type_.kind), type_.precision, type_.scale, int(required), length, int(type_.padded)]


def has_code(type_: DataType) -> bool:
    """True if the kernel knows columns of this type."""
    return type_.kind in _KINDS


def number_of_value(value: object, type_: DataType) -> int | None:
    """A constant as the number that its word or decimal is; None if it is of a type that has none."""
    match value:
        case float():
            return int(struct.unpack("<q", struct.pack("<d", value + 0.0))[0])
        case bool() | int():
            return int(value) * int(10**type_.scale)
        case Decimal():
            scaled = value.scaleb(type_.scale)
            return int(scaled) if scaled == int(scaled) else None
        case datetime():
            plain = value.replace(tzinfo=None) - (value.utcoffset() or timedelta(0))
            return (plain - _EPOCH) // timedelta(microseconds=1)
        case date():
            return (value - _EPOCH.date()).days
    return None
