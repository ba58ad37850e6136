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

from everview.query.types import BIGINT, BINARY, DAY_TIME, DOUBLE, STRING, DataType, Kind, adjusted, array_of, decimal


@dataclass(frozen=True, slots=True)
class Counted:
    """The number of values, or of rows: it can be subtracted from, and is never NULL."""


@dataclass(frozen=True, slots=True)
class Summed:
    """The sum of the values, or, if ``mean``, that by their number: both can be subtracted from. NULL of no values.

    ``tried``: NULL, too, where it is beyond its type, which is an error otherwise.
    """

    mean: bool
    tried: bool = False


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
class Chosen:
    """Of pairs, a key and a value each, the value beside the first or the last key; of equal keys the value decides."""

    highest: bool


SIMPLE = (Counted, Summed, Spread, Ordered)
"""What every engine finds of the values themselves, over a window as over a group."""


class Reading(Enum):
    """What is read from a group's values in their order."""

    ARRAY = "array"
    """All of them, each as often as it is there."""
    SET = "set"
    """Each of them once."""
    TEXT = "text"
    """All of them with a separator between, which is the parameter; of pairs, by their keys, the values."""
    MOST_FREQUENT = "most frequent"
    """The one that is there most often; of several the first."""
    BETWEEN = "between"
    """For each percentage, which are the parameters, what is so far on the way from the first to the last."""
    ELEMENT = "element"
    """For each percentage p the first value that so many of all n are not above: number ⌈pn⌉."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """Read from all values, which are kept in order. ``turned``: the first parameter says if the last comes first."""

    reading: Reading
    turned: bool = False


class Bits(Enum):
    """How the bits of all values are put together."""

    AND = "and"
    OR = "or"
    XOR = "xor"


@dataclass(frozen=True, slots=True)
class Combined:
    """From the number of values, and how many of them have each bit: both can be subtracted from."""

    bits: Bits


@dataclass(frozen=True, slots=True)
class Shaped:
    """From the number of values and sums of their first four powers: how they lean, or how ``heavy`` the ends are."""

    heavy: bool


@dataclass(frozen=True, slots=True)
class Multiplied:
    """The product of the values: it can be divided by one, apart from zeros, which are counted. NULL of no values."""


class Pairing(Enum):
    """What is made of pairs (y, x), by their number, both sums, and those of both squares and of the products."""

    CORRELATION = "correlation"
    COVARIANCE = "covariance"
    SAMPLE_COVARIANCE = "sample covariance"
    MEAN_X = "mean of x"
    MEAN_Y = "mean of y"
    SQUARES_X = "squares of x"
    SQUARES_Y = "squares of y"
    PRODUCTS = "products"
    SLOPE = "slope"
    INTERCEPT = "intercept"
    FIT = "fit"


@dataclass(frozen=True, slots=True)
class Paired:
    """From exact sums over pairs of doubles, rounded once."""

    pairing: Pairing


@dataclass(frozen=True, slots=True)
class Packed:
    """A part of a group for another step: the number of values, their exact sum and that of ``squares``, as bytes.

    SQL has no name for it. Sums and means, or with squares what spreads, are put together from such parts.
    """

    squares: bool


Made: TypeAlias = (
    Counted | Summed | Spread | Ordered | Chosen | Gathered | Combined | Shaped | Multiplied | Paired | Packed
)


class Taken(Enum):
    """What a call takes, of which one value is made that is aggregated."""

    VALUE = "value"
    ROW = "row"
    """Several values, which are one row; it counts for nothing if one of them is NULL."""
    PAIR = "pair"
    """Two numbers as doubles, which count for nothing if one of them is NULL."""
    VALUE_BY_KEY = "value by key"
    """A value and a key, by which it is chosen; they count for nothing if the key is NULL."""


def _whole(_: DataType) -> DataType:
    return BIGINT


def _same(argument: DataType) -> DataType | None:
    return argument if argument.has_order and argument.kind is not Kind.INTERVAL else None


def _truth(argument: DataType) -> DataType | None:
    return argument if argument.kind is Kind.BOOLEAN or argument.is_open else None


def _bits(argument: DataType) -> DataType | None:
    return argument if argument.is_integer or argument.is_open else None


def _number(argument: DataType) -> DataType | None:
    return argument if argument.is_numeric or argument.is_open else None


def _text(argument: DataType) -> DataType | None:
    value = argument.parts[-1] if argument.kind is Kind.STRUCT else argument
    return STRING if value.kind is Kind.STRING or value.is_open else None


def _array(argument: DataType) -> DataType | None:
    return array_of(argument) if _same(argument) is not None else None


def _chosen(argument: DataType) -> DataType | None:
    return argument.parts[-1] if argument.kind is Kind.STRUCT and _same(argument) is not None else None


def _pair(argument: DataType) -> DataType | None:
    return DOUBLE if argument.kind is Kind.STRUCT else None


def _sum(argument: DataType) -> DataType | None:
    if argument.kind is Kind.DECIMAL:
        return decimal(argument.precision + 10, argument.scale)
    if argument.is_open:
        return argument
    if argument.kind is Kind.DAY_TIME:
        return argument
    return BIGINT if argument.is_integer else _double(argument)


def _mean(argument: DataType) -> DataType | None:
    if argument.kind is Kind.DECIMAL:
        return adjusted(argument.precision + 4, argument.scale + 4)
    if argument.kind is Kind.DAY_TIME:
        return DAY_TIME
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
        cls, names: str, made: Made, type_: Callable[[DataType], DataType | None], examples: tuple[str, ...]
    ) -> AggregateFunction:
        """The first of the names is the one that is saved."""
        entry = object.__new__(cls)
        entry._value_, *_ = names.split()
        entry.names = () if isinstance(made, Packed) else tuple(names.split())
        entry.made = made
        entry._type = type_
        entry.examples = examples
        return entry

    COUNT = (
        "count count_if",
        Counted(),
        _whole,
        (
            "count(*)",
            "count(s)",
            "count(n, s)",
            "count(DISTINCT n)",
            "count(DISTINCT n, b)",
            "count(DISTINCT *)",
            "count_if(n > 1)",
        ),
    )
    DIFFERENT = "approx_count_distinct", Counted(), _whole, ("approx_count_distinct(b)",)
    SUM = "sum", Summed(mean=False), _sum, ("sum(n)", "sum(l)", "sum(x)", "sum(p)", "sum(DISTINCT n)")
    AVG = "avg mean", Summed(mean=True), _mean, ("avg(n)", "avg(x)", "avg(p)", "mean(l)", "avg(DISTINCT n)")
    TRY_SUM = (
        "try_sum",
        Summed(mean=False, tried=True),
        _sum,
        (
            "try_sum(n)",
            "try_sum(x)",
            "try_sum(p)",
            "try_sum(9223372036854775000 - k)",
            "try_sum(DISTINCT 9223372036854775000 - n)",
        ),
    )
    TRY_AVG = "try_avg", Summed(mean=True, tried=True), _mean, ("try_avg(n)", "try_avg(x)", "try_avg(p)")
    MIN = "min", Ordered(highest=False), _same, ("min(n)", "min(x)", "min(p)", "min(s)", "min(d)", "min(b)")
    MAX = "max", Ordered(highest=True), _same, ("max(n)", "max(x)", "max(p)", "max(s)", "max(d)", "max(b)")
    ALL_TRUE = "bool_and every", Ordered(highest=False), _truth, ("bool_and(b)", "every(n > 0)")
    SOME_TRUE = (
        "bool_or any some",
        Ordered(highest=True),
        _truth,
        (
            "bool_or(b)",
            "any(n > 2)",
            "some(n IS NULL)",
            "bool_or(b) FILTER (WHERE n > 0)",
        ),
    )
    FIRST = (
        "any_value first first_value",
        Ordered(highest=False),
        _same,
        (
            "any_value(g)",
            "first(g)",
            "first_value(g, true)",
            "first(g) IGNORE NULLS",
        ),
    )
    LAST = "last last_value", Ordered(highest=True), _same, ("last(g)", "last_value(g)")
    MAX_BY = (
        "max_by",
        Chosen(highest=True),
        _chosen,
        ("max_by(s, k)", "max_by(k, -k)", "max_by(k, d) FILTER (WHERE k < 0)"),
    )
    MIN_BY = "min_by", Chosen(highest=False), _chosen, ("min_by(x, k)", "min_by(p, k + 1)")
    BIT_AND = "bit_and", Combined(Bits.AND), _bits, ("bit_and(n)", "bit_and(l)")
    BIT_OR = "bit_or", Combined(Bits.OR), _bits, ("bit_or(n)", "bit_or(l)")
    BIT_XOR = "bit_xor", Combined(Bits.XOR), _bits, ("bit_xor(n)", "bit_xor(DISTINCT n)")
    LIST = (
        "collect_list array_agg",
        Gathered(Reading.ARRAY),
        _array,
        (
            "sort_array(collect_list(n))",
            "sort_array(array_agg(s))",
            "sort_array(collect_list(DISTINCT d))",
            "sort_array(collect_list(k) FILTER (WHERE b))",
        ),
    )
    SET = "collect_set", Gathered(Reading.SET), _array, ("sort_array(collect_set(n))", "sort_array(collect_set(p))")
    TEXT = (
        "listagg string_agg",
        Gathered(Reading.TEXT, turned=True),
        _text,
        (
            "listagg(s, '+') WITHIN GROUP (ORDER BY s)",
            "string_agg(s) WITHIN GROUP (ORDER BY s DESC)",
            "listagg(DISTINCT s, ', ') WITHIN GROUP (ORDER BY s)",
            "listagg(s, '') WITHIN GROUP (ORDER BY k)",
        ),
    )
    MODE = (
        "mode",
        Gathered(Reading.MOST_FREQUENT, turned=True),
        _same,
        (
            "mode(n, true)",
            "mode() WITHIN GROUP (ORDER BY s)",
            "mode() WITHIN GROUP (ORDER BY p DESC)",
        ),
    )
    PERCENTILE = (
        "percentile percentile_cont median",
        Gathered(Reading.BETWEEN, turned=True),
        _double,
        (
            "percentile(n, 0.3)",
            "percentile(x, array(0, 0.5, 1))",
            "percentile_cont(0.25) WITHIN GROUP (ORDER BY p)",
            "percentile_cont(0.9) WITHIN GROUP (ORDER BY x DESC)",
            "median(l)",
            "median(p) FILTER (WHERE b)",
        ),
    )
    PERCENTILE_DISC = (
        "percentile_disc",
        Gathered(Reading.ELEMENT, turned=True),
        _double,
        (
            "percentile_disc(0.4) WITHIN GROUP (ORDER BY n)",
            "percentile_disc(0.4) WITHIN GROUP (ORDER BY x DESC)",
        ),
    )
    PERCENTILE_APPROX = (
        "percentile_approx approx_percentile",
        Gathered(Reading.ELEMENT, turned=True),
        _number,
        (
            "percentile_approx(n, 0.5)",
            "approx_percentile(p, array(0.25, 0.75), 10000)",
        ),
    )
    VARIANCE = "var_samp variance", Spread(sample=True, root=False), _double, ("var_samp(n)", "variance(x)")
    VARIANCE_POP = "var_pop", Spread(sample=False, root=False), _double, ("var_pop(n)", "var_pop(p)")
    STDDEV = (
        "stddev_samp stddev std",
        Spread(sample=True, root=True),
        _double,
        ("stddev_samp(n)", "stddev(x)", "std(p)"),
    )
    STDDEV_POP = "stddev_pop", Spread(sample=False, root=True), _double, ("stddev_pop(n)", "stddev_pop(x)")
    SKEWNESS = "skewness", Shaped(heavy=False), _double, ("skewness(n)", "skewness(x)")
    KURTOSIS = "kurtosis", Shaped(heavy=True), _double, ("kurtosis(x)", "kurtosis(p)")
    PRODUCT = "product", Multiplied(), _double, ("product(n)", "product(x)", "product(p)", "product(DISTINCT n)")
    CORR = "corr", Paired(Pairing.CORRELATION), _pair, ("corr(n, x)", "corr(x, p)")
    COVAR_POP = "covar_pop", Paired(Pairing.COVARIANCE), _pair, ("covar_pop(n, x)",)
    COVAR_SAMP = "covar_samp", Paired(Pairing.SAMPLE_COVARIANCE), _pair, ("covar_samp(x, n)",)
    REGR_AVGX = "regr_avgx", Paired(Pairing.MEAN_X), _pair, ("regr_avgx(n, x)",)
    REGR_AVGY = "regr_avgy", Paired(Pairing.MEAN_Y), _pair, ("regr_avgy(n, x)",)
    REGR_COUNT = "regr_count", Counted(), _whole, ("regr_count(n, x)",)
    REGR_INTERCEPT = "regr_intercept", Paired(Pairing.INTERCEPT), _pair, ("regr_intercept(n, x)",)
    REGR_R2 = "regr_r2", Paired(Pairing.FIT), _pair, ("regr_r2(n, x)",)
    REGR_SLOPE = "regr_slope", Paired(Pairing.SLOPE), _pair, ("regr_slope(n, x)",)
    REGR_SXX = "regr_sxx", Paired(Pairing.SQUARES_X), _pair, ("regr_sxx(n, x)",)
    REGR_SXY = "regr_sxy", Paired(Pairing.PRODUCTS), _pair, ("regr_sxy(n, x)",)
    REGR_SYY = "regr_syy", Paired(Pairing.SQUARES_Y), _pair, ("regr_syy(n, x)",)
    SUMS = "sums", Packed(squares=False), _bytes, ()
    MOMENTS = "moments", Packed(squares=True), _bytes, ()

    _type: Callable[[DataType], DataType | None]

    def type_of(self, argument: DataType | None) -> DataType | None:
        """The type of the result over an argument (None: over rows); None if it cannot take it."""
        return BIGINT if argument is None else self._type(argument)

    @property
    def takes(self) -> Taken:
        """What a call takes beside parameters."""
        if isinstance(self.made, Chosen):
            return Taken.VALUE_BY_KEY
        if isinstance(self.made, Paired) or self is AggregateFunction.REGR_COUNT:
            return Taken.PAIR
        return Taken.ROW if self is AggregateFunction.COUNT else Taken.VALUE

    @property
    def has_inverse(self) -> bool:
        """True if a deletion can be subtracted; else the values must be kept."""
        return not isinstance(self.made, Ordered | Chosen | Gathered)

    @property
    def ignores_copies(self) -> bool:
        """True if it makes no difference how often a value is there."""
        return isinstance(self.made, Ordered | Chosen) or self.made == Gathered(Reading.SET)

    @property
    def is_always_distinct(self) -> bool:
        """True if it is of the different values by its name."""
        return self is AggregateFunction.DIFFERENT

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
