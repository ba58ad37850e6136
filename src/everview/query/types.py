"""The types of columns and expressions: those of Spark SQL that a view can hold."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum


class Kind(Enum):
    """The family of a type. ``ANY`` is a rule's column, whose type nobody declared; ``NULL`` is that of a bare NULL."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    STRING = "STRING"
    BINARY = "BINARY"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_NTZ = "TIMESTAMP_NTZ"
    INTERVAL = "INTERVAL"
    NULL = "NULL"
    ANY = "ANY"


_INTEGERS = (Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT)
_FRACTIONS = (Kind.FLOAT, Kind.DOUBLE)
_TIMES = (Kind.DATE, Kind.TIMESTAMP_NTZ, Kind.TIMESTAMP)
MOST_DIGITS = 38
"""A decimal has no more."""
_DIGITS = {Kind.TINYINT: 3, Kind.SMALLINT: 5, Kind.INT: 10, Kind.BIGINT: 20}


@dataclass(frozen=True, slots=True)
class DataType:
    """A column's or an expression's type; precision and scale matter for DECIMAL only.

    ``length`` is that of a column of type VARCHAR or, if it is ``padded`` with blanks, CHAR: how many characters its
    values may have. They are strings in all other respects, so two types that differ in it are equal.
    """

    kind: Kind
    precision: int = 0
    scale: int = 0
    length: int | None = field(default=None, compare=False, repr=False)
    padded: bool = field(default=False, compare=False, repr=False)

    def __str__(self) -> str:
        if self.length is not None:
            return f"{'CHAR' if self.padded else 'VARCHAR'}({self.length})"
        return f"DECIMAL({self.precision}, {self.scale})" if self.kind is Kind.DECIMAL else self.kind.value

    @property
    def unbounded(self) -> DataType:
        """The type of what is computed from a column of this one: a string of any length."""
        return self if self.length is None else replace(self, length=None, padded=False)

    @property
    def is_integer(self) -> bool:
        """True for the four integer types."""
        return self.kind in _INTEGERS

    @property
    def is_numeric(self) -> bool:
        """True for integers, decimals and floating point."""
        return self.is_integer or self.kind in _FRACTIONS or self.kind is Kind.DECIMAL

    @property
    def is_temporal(self) -> bool:
        """True for dates and timestamps."""
        return self.kind in _TIMES

    @property
    def is_open(self) -> bool:
        """True where any type fits: an undeclared column or a bare NULL."""
        return self.kind in (Kind.ANY, Kind.NULL)


def same_words(have: DataType, want: DataType) -> bool:
    """True if a value of one type has the same word in the other, as the engine keeps it."""
    return have == want or want.is_open or (have.is_integer and want.is_integer)


BOOLEAN = DataType(Kind.BOOLEAN)
INT = DataType(Kind.INT)
BIGINT = DataType(Kind.BIGINT)
TINYINT = DataType(Kind.TINYINT)
DOUBLE = DataType(Kind.DOUBLE)
STRING = DataType(Kind.STRING)
BINARY = DataType(Kind.BINARY)
DATE = DataType(Kind.DATE)
TIMESTAMP = DataType(Kind.TIMESTAMP)
INTERVAL = DataType(Kind.INTERVAL)
NULL = DataType(Kind.NULL)
ANY = DataType(Kind.ANY)


def varchar(length: int) -> DataType:
    """A string of up to so many characters; a longer value is a bad row."""
    return DataType(Kind.STRING, length=length)


def char(length: int) -> DataType:
    """A string of so many characters; a shorter value is padded with blanks where it comes in."""
    return DataType(Kind.STRING, length=length, padded=True)


def decimal(precision: int, scale: int) -> DataType:
    """A decimal type, its precision cut at Spark's limit of 38 digits."""
    return DataType(Kind.DECIMAL, min(max(precision, 1), 38), min(max(scale, 0), 38))


def adjusted(precision: int, scale: int) -> DataType:
    """Spark's DecimalType.adjustPrecisionScale: above 38 digits, give up scale before whole digits."""
    if precision <= MOST_DIGITS:
        return decimal(precision, scale)
    return decimal(MOST_DIGITS, max(MOST_DIGITS - (precision - scale), min(scale, 6)))


def common_type(left: DataType, right: DataType) -> DataType | None:
    """The type in which values of both can be compared or united, or None if there is none.

    Follows Spark's ANSI rules without the implicit casts from strings: those are the business of literals.
    """
    if left == right or right.is_open:
        return left
    if left.is_open:
        return right
    if left.is_numeric and right.is_numeric:
        return _common_numeric(left, right)
    if left.is_temporal and right.is_temporal:
        return max(left, right, key=lambda t: _TIMES.index(t.kind))
    return None


def _common_numeric(left: DataType, right: DataType) -> DataType:
    kinds = (left.kind, right.kind)
    if Kind.DOUBLE in kinds or (Kind.FLOAT in kinds and left.kind is not right.kind):
        return DOUBLE
    if Kind.DECIMAL in kinds:
        a, b = as_decimal(left), as_decimal(right)
        scale = max(a.scale, b.scale)
        return decimal(max(a.precision - a.scale, b.precision - b.scale) + scale, scale)
    return max(left, right, key=lambda t: _INTEGERS.index(t.kind))


def as_decimal(type_: DataType) -> DataType:
    """The decimal type that holds every value of an integer or decimal type."""
    return type_ if type_.kind is Kind.DECIMAL else decimal(_DIGITS[type_.kind], 0)
