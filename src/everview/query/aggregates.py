"""The aggregates that a view may hold, one entry each: a further one of a known kind is an entry here and nothing else.

An entry says by which names SQL calls the aggregate, what its value is *made* of, what type it has, and gives examples,
which the tests compute embedded, by DuckDB and by Spark SQL, and compare. Who maintains aggregates goes by what they
are made of, kind by kind and without a default: where a new kind is not dealt with yet, the type checker says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from everview.query.types import BIGINT, BINARY, DOUBLE, DataType, Kind, adjusted, decimal


@dataclass(frozen=True, slots=True)
class Counted:
    """The number of values, or of rows: it can be subtracted from, and is never NULL."""


@dataclass(frozen=True, slots=True)
class Summed:
    """The sum of the values, or, if ``mean``, that by their number: both can be subtracted from. NULL of no values."""

    mean: bool


@dataclass(frozen=True, slots=True)
class Spread:
    """From the number of values, their sum and that of their squares: the variance, or its ``root``.

    Of a ``sample`` the divisor is one less than the number of values, and one value has none.
    """

    sample: bool
    root: bool

    def divisor(self, count: int) -> int:
        """By what Σ (x − mean)² is divided; 0 if there is no value."""
        return max(0, count - 1 if self.sample else count)


@dataclass(frozen=True, slots=True)
class Ordered:
    """The first or the last of the values in their order: all must be kept, as nothing can be subtracted."""

    highest: bool


@dataclass(frozen=True, slots=True)
class Packed:
    """A part of a group for another step: the number of values, their exact sum and that of ``squares``, as bytes.

    SQL has no name for it. Sums and means, or with squares what spreads, are put together from such parts.
    """

    squares: bool


Made: TypeAlias = Counted | Summed | Spread | Ordered | Packed


def _whole(_: DataType) -> DataType:
    return BIGINT


def _same(argument: DataType) -> DataType | None:
    return argument if argument.has_order and argument.kind is not Kind.INTERVAL else None


def _sum(argument: DataType) -> DataType | None:
    if argument.kind is Kind.DECIMAL:
        return decimal(argument.precision + 10, argument.scale)
    if argument.is_open:
        return argument
    return BIGINT if argument.is_integer else _double(argument)


def _mean(argument: DataType) -> DataType | None:
    if argument.kind is Kind.DECIMAL:
        return adjusted(argument.precision + 4, argument.scale + 4)
    return _double(argument)


def _double(argument: DataType) -> DataType | None:
    return DOUBLE if argument.is_numeric or argument.is_open else None


def _bytes(argument: DataType) -> DataType | None:
    return BINARY if argument.is_numeric else None


class AggregateFunction(Enum):
    """The aggregates, by the name under which they are saved: SQL's names, what they are made of, type, examples."""

    _value_: str
    names: tuple[str, ...]
    made: Made
    examples: tuple[str, ...]

    def __new__(
        cls, names: str, made: Made, type_: Callable[[DataType], DataType | None], *examples: str
    ) -> AggregateFunction:
        """The first of the names is the one that is saved, and DuckDB's."""
        entry = object.__new__(cls)
        entry._value_, *_ = names.split()
        entry.names = () if isinstance(made, Packed) else tuple(names.split())
        entry.made = made
        entry._type = type_
        entry.examples = examples
        return entry

    COUNT = "count count_if", Counted(), _whole, "count(*)", "count(s)", "count(DISTINCT n)", "count_if(n > 1)"
    SUM = "sum", Summed(mean=False), _sum, "sum(n)", "sum(l)", "sum(x)", "sum(p)", "sum(DISTINCT n)"
    AVG = "avg mean", Summed(mean=True), _mean, "avg(n)", "avg(x)", "avg(p)", "mean(l)", "avg(DISTINCT n)"
    MIN = "min", Ordered(highest=False), _same, "min(n)", "min(x)", "min(p)", "min(s)", "min(d)", "min(b)"
    MAX = "max", Ordered(highest=True), _same, "max(n)", "max(x)", "max(p)", "max(s)", "max(d)", "max(b)"
    VARIANCE = "var_samp variance", Spread(sample=True, root=False), _double, "var_samp(n)", "variance(x)"
    VARIANCE_POP = "var_pop", Spread(sample=False, root=False), _double, "var_pop(n)", "var_pop(p)"
    STDDEV = "stddev_samp stddev std", Spread(sample=True, root=True), _double, "stddev_samp(n)", "stddev(x)", "std(p)"
    STDDEV_POP = "stddev_pop", Spread(sample=False, root=True), _double, "stddev_pop(n)", "stddev_pop(x)"
    SUMS = "sums", Packed(squares=False), _bytes
    MOMENTS = "moments", Packed(squares=True), _bytes

    _type: Callable[[DataType], DataType | None]

    def type_of(self, argument: DataType | None) -> DataType | None:
        """The type of the result over an argument (None: over rows); None if it cannot take it."""
        return BIGINT if argument is None else self._type(argument)

    @property
    def has_inverse(self) -> bool:
        """True if a deletion can be subtracted; else the values must be kept."""
        return not isinstance(self.made, Ordered)

    @property
    def has_squares(self) -> bool:
        """True if it is made of the sum of squares, too: variances, and what they are put together from."""
        return isinstance(self.made, Spread) or self.made == Packed(squares=True)

    @property
    def is_count(self) -> bool:
        """True if it counts: of rows as well as of values, and never NULL."""
        return isinstance(self.made, Counted)


def saved_as(name: str) -> AggregateFunction:
    """The aggregate that is saved under a name; ValueError if there is none."""
    found = next((function for function in AggregateFunction if function.value == name), None)
    if found is None:
        raise ValueError(f"there is no aggregate {name!r}")
    return found


BY_NAME = {name: function for function in AggregateFunction for name in function.names}
"""Every aggregate by each of its names in SQL."""
