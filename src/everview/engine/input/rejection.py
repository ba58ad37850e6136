"""How data is refused: where the offending value is, what it is, what its column wants, and how to find it quickly."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from everview.engine.values.words import arrow_type
from everview.errors import DataError, MemoryLimitError, RefusedRow, ValueTypeError
from everview.query.types import DataType, Kind

UNFIT: Final = (pa.ArrowException, ValueError, TypeError, OverflowError)
"""What Arrow raises for a value that it cannot convert."""

_SHOWN = 60  # characters of a value in a message

_INTEGER = "an int (no bool, float or text: convert it first)"
_FLOATING = "a float or an int (Decimals and text: convert them with float())"
_TEXT = "a datetime (a date: datetime.combine; text: datetime.fromisoformat)"
_PASS: Final = {
    Kind.BOOLEAN: "True or False (0 and 1: convert them with bool())",
    Kind.TINYINT: _INTEGER,
    Kind.SMALLINT: _INTEGER,
    Kind.INT: _INTEGER,
    Kind.BIGINT: _INTEGER,
    Kind.FLOAT: _FLOATING,
    Kind.DOUBLE: _FLOATING,
    Kind.DECIMAL: "a Decimal or an int (a float is not exact: Decimal(str(x)), or declare the column DOUBLE)",
    Kind.STRING: "a str (bytes: decode them first)",
    Kind.BINARY: "bytes (a str: encode it first)",
    Kind.DATE: "a datetime.date (a datetime: .date(); text: date.fromisoformat)",
    Kind.TIMESTAMP: f"{_TEXT}, without a time zone if it is UTC",
    Kind.TIMESTAMP_NTZ: f"{_TEXT}, without a time zone (.replace(tzinfo=None))",
    Kind.DAY_TIME: "a datetime.timedelta",
    Kind.ARRAY: "a list, or a tuple",
    Kind.STRUCT: "a dict of its fields, or a tuple of as many values",
    Kind.MAP: "a dict, or a list of pairs",
}


@dataclass(frozen=True, slots=True)
class Where:
    """The place in the data that is being read: ``action`` is what is done to ``table``, such as "insert into"."""

    table: str
    action: str
    column: str | None = None
    first: int = 0
    """Where what is looked at begins, if it is a part of the rows."""

    def at(self, column: str) -> Where:
        """The same, in one column."""
        return replace(self, column=column)

    def after(self, rows: int) -> Where:
        """The same, for a part of the rows that begins after so many."""
        return replace(self, first=self.first + rows)

    def refuse(self, error: type[DataError], row: int | None, message: str, hint: str) -> DataError:
        """The error to raise, its message beginning with the place."""
        row = None if row is None else self.first + row
        place = f"{self.action} {self.table}"
        place += "" if row is None else f", row {row}"
        place += "" if self.column is None else f", column {self.column}"
        made = error(f"{place}: {message}", table=self.table, row=row, column=self.column, hint=hint)
        if row is not None:
            made.refused = (RefusedRow(self.table, row, message, error, self.column, hint=hint),)
        return made

    def wrong_type(self, row: int | None, value: object, type_: DataType) -> DataError:
        """The value, of Python or Arrow, is of another type than the column."""
        if isinstance(value, pa.Scalar):
            of, hint = f"{value.type} (Arrow)", f"cast the column to {arrow_type(type_)} first"
            if pa.types.is_floating(value.type) and type_.is_integer:
                hint += "; pandas has floats where integers may be missing: astype('Int64') makes them integers"
        else:
            of, hint = type(value).__name__, f"pass {_PASS.get(type_.kind, 'None, as nothing else is in it')}"
        return self.refuse(ValueTypeError, row, f"{shown(value)} is of type {of}, the column is {type_}", hint)

    def misfit(self, row: int | None, value: object, type_: DataType) -> DataError:
        """The value's type is right, but this value cannot be stored exactly; no row: there is too much of them."""
        if row is None:
            return self.refuse(
                MemoryLimitError, None, "the values are more than 2 GB together", "split the data into smaller batches"
            )
        return self.refuse(
            ValueTypeError, row, f"{shown(value)} does not fit into {type_}", _fit(type_) or f"pass {_PASS[type_.kind]}"
        )


def _fit(type_: DataType) -> str | None:
    if type_.is_integer:
        bits = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INT: 32, Kind.BIGINT: 64}[type_.kind]
        return f"it holds {-(2 ** (bits - 1))} to {2 ** (bits - 1) - 1}: declare a wider type, or correct the value"
    match type_.kind:
        case Kind.FLOAT:
            return "it holds up to 3.4e38: declare the column DOUBLE"
        case Kind.DOUBLE:
            return "integers beyond 2**53 are not exact in it: declare the column BIGINT or DECIMAL, or pass float(x)"
        case Kind.DECIMAL:
            whole = type_.precision - type_.scale
            return (
                f"it holds {whole} digits before the point and {type_.scale} after: round it, or declare a wider type"
            )
        case Kind.STRING:
            return "it is not valid UTF-8: correct it, or declare the column BINARY"
        case Kind.TIMESTAMP | Kind.TIMESTAMP_NTZ:
            return "it holds microseconds: round finer times first"
        case _:
            return None


def shown(value: object) -> str:
    """A value as messages show it: its repr, shortened; whatever it is, this does not fail."""
    if isinstance(value, pa.Scalar):
        value = python_value(value)
    try:
        text = repr(value[: 2 * _SHOWN] if isinstance(value, str | bytes) else value)
    except Exception:  # the value's own __repr__, or an int with thousands of digits
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def shown_text(error: Exception) -> str:
    """What an error says, whatever that is and however long; pandas puts the column behind what Arrow says."""
    try:
        text = ": ".join(map(str, reversed(error.args))) if isinstance(error, pa.ArrowException) else str(error)
    except Exception:
        return "it does not say why"
    return text if len(text) <= 10 * _SHOWN else f"{text[: 10 * _SHOWN]}…"


def python_value(scalar: pa.Scalar) -> object:
    """The value in Python, or the nearest to it: text of a time that Python has not, bytes of invalid UTF-8."""
    for target in (scalar.type, pa.string(), pa.binary()):
        with suppress(*UNFIT):
            return scalar.cast(target).as_py()
    return scalar


def first_unfit(length: int, convert: Callable[[int, int], object]) -> int | None:
    """Where the first element is that ``convert(start, stop)`` fails on, given that it fails on the whole.

    Halves the range, so it converts about as many elements again as there are. None if every element converts alone:
    then the whole was too much.
    """

    def fits(start: int, stop: int) -> bool:
        try:
            convert(start, stop)
        except UNFIT:
            return False
        return True

    low, high = 0, length
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(low, middle) else (low, middle)
    return None if fits(low, high) else low
