"""The types of columns and expressions: those of Spark SQL that a view can hold."""

from __future__ import annotations

import re
from collections.abc import Iterable
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
    DAY_TIME = "INTERVAL DAY TO SECOND"
    ARRAY = "ARRAY"
    STRUCT = "STRUCT"
    MAP = "MAP"
    NULL = "NULL"
    ANY = "ANY"


_INTEGERS = (Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT)
_FRACTIONS = (Kind.FLOAT, Kind.DOUBLE)
_TIMES = (Kind.DATE, Kind.TIMESTAMP_NTZ, Kind.TIMESTAMP)
MOST_DIGITS = 38
"""A decimal has no more."""
DAY_TIME_UNITS = ("DAY", "HOUR", "MINUTE", "SECOND")
"""The units that a length of time is made of."""
MICROSECONDS_OF = {"DAY": 86_400_000_000, "HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000}
"""How long each of them is."""
_NESTED = (Kind.ARRAY, Kind.STRUCT, Kind.MAP)
_DIGITS = {Kind.TINYINT: 3, Kind.SMALLINT: 5, Kind.INT: 10, Kind.BIGINT: 20}


@dataclass(frozen=True, slots=True)
class DataType:
    """A column's or an expression's type; precision and scale matter for DECIMAL only.

    ``parts`` are the types that a nested one is made of: that of an ARRAY's elements, those of a STRUCT's fields, which
    have ``names``, or those of a MAP's keys and values.

    ``length`` is that of a column of type VARCHAR or, if it is ``padded`` with blanks, CHAR: how many characters its
    values may have. They are strings in all other respects, so two types that differ in it are equal.

    Of a length of time, ``names`` are its first and its last unit; it is kept in microseconds whatever they are. An
    INTERVAL without them is one of months, or not known before it is computed: it is added to times, and never kept.
    """

    kind: Kind
    precision: int = 0
    scale: int = 0
    length: int | None = field(default=None, compare=False, repr=False)
    padded: bool = field(default=False, compare=False, repr=False)
    parts: tuple[DataType, ...] = ()
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.kind is Kind.STRUCT:
            fields = (f"{_field_name(n)}: {t}" for n, t in zip(self.names, self.parts, strict=True))
            return f"STRUCT<{', '.join(fields)}>"
        if self.is_nested:
            return f"{self.kind.value}<{', '.join(map(str, self.parts))}>"
        if self.kind is Kind.DAY_TIME:
            first, last = self.names
            return f"INTERVAL {first}" if first == last else f"INTERVAL {first} TO {last}"
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
    def is_nested(self) -> bool:
        """True for arrays, structs and maps."""
        return self.kind in _NESTED

    @property
    def element(self) -> DataType:
        """The type of an array's elements."""
        return self.parts[0]

    @property
    def has_order(self) -> bool:
        """True if values can be compared, as Spark has it: a map, or what holds one, cannot."""
        return self.kind is not Kind.MAP and all(part.has_order for part in self.parts)

    def holds(self, kind: Kind) -> bool:
        """True if values are of a kind, or parts of them are."""
        return self.kind is kind or any(part.holds(kind) for part in self.parts)

    def field(self, name: str) -> int | None:
        """The place of a struct's field by its name, in any case; None if there is none."""
        return next((i for i, n in enumerate(self.names) if n.lower() == name.lower()), None)

    @property
    def is_open(self) -> bool:
        """True where any type fits: an undeclared column or a bare NULL."""
        return self.kind in (Kind.ANY, Kind.NULL)


def same_words(have: DataType, want: DataType) -> bool:
    """True if a value of one type has the same word in the other, as the engine keeps it."""
    if have.is_nested and have.kind is want.kind and len(have.parts) == len(want.parts):
        return all(a == b or same_words(a, b) for a, b in zip(have.parts, want.parts, strict=True))
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
DAY_TIME = DataType(Kind.DAY_TIME, names=("DAY", "SECOND"))
NULL = DataType(Kind.NULL)
ANY = DataType(Kind.ANY)


def array_of(element: DataType) -> DataType:
    """An array of values of a type, any of which may be NULL."""
    return DataType(Kind.ARRAY, parts=(element.unbounded,))


def struct_of(fields: Iterable[tuple[str, DataType]]) -> DataType:
    """A struct of fields with these names and types, any of which may be NULL."""
    names, types = zip(*fields, strict=True)
    return DataType(Kind.STRUCT, parts=tuple(t.unbounded for t in types), names=tuple(names))


def map_of(key: DataType, value: DataType) -> DataType:
    """A map; no key is NULL."""
    return DataType(Kind.MAP, parts=(key.unbounded, value.unbounded))


def _field_name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else "`" + name.replace("`", "``") + "`"


def day_time(first: str, last: str) -> DataType:
    """A length of time in the units from one to another."""
    return DataType(Kind.DAY_TIME, names=(first, last))


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
    """The type in which values of both can be united, or None if there is none.

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
    if left.kind is right.kind is Kind.DAY_TIME:
        firsts, lasts = ([DAY_TIME_UNITS.index(t.names[end]) for t in (left, right)] for end in (0, 1))
        return day_time(DAY_TIME_UNITS[min(firsts)], DAY_TIME_UNITS[max(lasts)])
    if left.is_nested and left.kind is right.kind and len(left.parts) == len(right.parts):
        return _common_nested(left, right)
    return None


def compared_in(left: DataType, right: DataType) -> DataType | None:
    """The type in which values of both can be compared, or None: of maps, nobody can say which is less."""
    found = common_type(left, right)
    return found if found is not None and found.has_order else None


def _common_nested(left: DataType, right: DataType) -> DataType | None:
    """Part by part; fields of structs have the same names, in any case."""
    if [n.lower() for n in left.names] != [n.lower() for n in right.names]:
        return None
    parts = [common_type(a, b) for a, b in zip(left.parts, right.parts, strict=True)]
    known = tuple(p for p in parts if p is not None)
    return replace(left, parts=known) if len(known) == len(parts) else None


def _common_numeric(left: DataType, right: DataType) -> DataType:
    kinds = (left.kind, right.kind)
    if Kind.DOUBLE in kinds or (Kind.FLOAT in kinds and left.kind is not right.kind):
        return DOUBLE
    if Kind.DECIMAL in kinds:
        a, b = as_decimal(left), as_decimal(right)
        scale, whole = max(a.scale, b.scale), max(a.precision - a.scale, b.precision - b.scale)
        scale = max(0, min(scale, MOST_DIGITS - whole))  # above 38 digits whole ones stay, and others are given up
        return decimal(whole + scale, scale)
    return max(left, right, key=lambda t: _INTEGERS.index(t.kind))


def as_decimal(type_: DataType) -> DataType:
    """The decimal type that holds every value of an integer or decimal type."""
    return type_ if type_.kind is Kind.DECIMAL else decimal(_DIGITS[type_.kind], 0)
