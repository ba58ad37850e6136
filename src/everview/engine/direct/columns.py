"""Types of columns as the kernel numbers them, and rows of a table read by it: what is plain, in one pass."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Final

import pyarrow as pa

from everview.kernel import ArrowReader, PythonReader, ReadRows
from everview.query.schema import Enforcement, Table
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
    return [_KINDS.index(type_.kind), type_.precision, type_.scale, int(required)]


def has_code(type_: DataType) -> bool:
    """True if the kernel knows columns of this type."""
    return type_.kind in _KINDS


def number_of_value(value: object, type_: DataType) -> int | None:
    """A constant as the number that its word or decimal is; None if it is of a type that has none."""
    match value:
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


class RowReader:
    """Reads rows of one table: lists of tuples, and Arrow's tables. None: something about them is not plain."""

    def __init__(self, table: Table) -> None:
        keys = {name.lower() for name in table.primary_key}
        is_known = all(has_code(c.type) for c in table.columns)
        codes = [
            type_code(c.type, required=not c.nullable or c.name.lower() in keys) for c in table.columns if is_known
        ]
        self._names = [c.name for c in table.columns]
        enforced = any(d.enforcement is Enforcement.ENFORCED for d in table.small_domains)
        self.is_known = is_known
        """True if the kernel knows the types of all columns."""
        self.is_plain = is_known and not enforced and all(c.type.length is None for c in table.columns)
        """True if the types are all that rows have to keep to."""
        self._python = PythonReader(codes, Decimal)
        self._arrow = ArrowReader(codes)

    def given(self, rows: object) -> ReadRows | None:
        """Rows as the user has given them."""
        if not self.is_plain:
            return None
        if type(rows) is list:
            return self._python.read(rows)
        if isinstance(rows, pa.Table):
            return self._checked(rows) if rows.column_names == self._names else None
        return None

    def of_table(self, table: pa.Table) -> ReadRows | None:
        """Rows that have been checked, as columns of exactly the table's types."""
        if not self.is_known:
            return None
        return self._arrow.read(table.__arrow_c_stream__(), table.num_rows)

    def _checked(self, table: pa.Table) -> ReadRows | None:
        try:
            table.validate(full=True)
        except pa.ArrowException:
            return None  # Who reads it column by column says why.
        return self.of_table(table)


@lru_cache(maxsize=256)
def reader_of(table: Table) -> RowReader:
    """The reader of a table's rows."""
    return RowReader(table)
