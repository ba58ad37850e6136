"""The days and instants that there are, years 1 to 9999: those of SQL, of Spark and of Python's datetime."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.values.nested import parts_of
from everview.query.types import DataType, Kind

YEARS: Final = "0001-01-01 to 9999-12-31"
"""The range, for messages."""

_EPOCH: Final = datetime(1970, 1, 1)
_DAYS: Final = tuple((d - _EPOCH.date()).days for d in (date.min, date.max))
_INSTANTS: Final = tuple((t - _EPOCH) // timedelta(microseconds=1) for t in (datetime.min, datetime.max))
_RANGES: Final = {
    Kind.DATE: (pa.int32(), _DAYS),
    Kind.TIMESTAMP: (pa.int64(), _INSTANTS),
    Kind.TIMESTAMP_NTZ: (pa.int64(), _INSTANTS),
}


def _has_beyond(array: pa.Array, type_: DataType) -> bool:
    """True if there is one in a nested value."""
    parts = zip(parts_of(array), type_.parts, strict=True)
    return len(array) > 0 and any(first_beyond(part, inner) is not None for part, inner in parts)


def first_beyond(array: pa.Array, type_: DataType) -> int | None:
    """The position of the first date or timestamp out of range; None if there is none, or the type is another."""
    if type_.is_nested:
        if not _has_beyond(array, type_):
            return None
        return next(i for i in range(len(array)) if _has_beyond(array.slice(i, 1), type_))
    if type_.kind not in _RANGES:
        return None
    plain, (least, most) = _RANGES[type_.kind]
    numbers = array.view(plain)
    found = pc.min_max(numbers)
    low, high = found["min"].as_py(), found["max"].as_py()
    if low is None or (least <= low and high <= most):
        return None
    outside = pc.or_(pc.less(numbers, pa.scalar(least, plain)), pc.greater(numbers, pa.scalar(most, plain)))
    return int(pc.index(outside, pa.scalar(True)).as_py())
