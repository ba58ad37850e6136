"""The functions of Spark SQL that a view may call: what they take and give, as one table.

A parameter is a letter (``n`` number, ``i`` integer, ``s`` string, ``t`` date or timestamp, ``b`` boolean, ``y`` binary
or string, ``x`` anything), ``?`` makes it optional and ``*`` repeats it. The result is a type, or the rule by which it
follows from the arguments: ``same`` as the first, ``common`` to all, and a few by name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from sqlglot import exp
from sqlglot.dialects.spark import Spark

from everview.errors import EverviewError
from everview.query.aggregates import BY_NAME
from everview.query.types import BIGINT, DataType, Kind, common_type, decimal
from everview.sql.source import Source

_TABLE = """
upper(s) lower(s) ucase(s) lcase(s) initcap(s) trim(s,s?) ltrim(s,s?) rtrim(s,s?) btrim(s,s?) reverse(s) soundex(s)
substring(s,i,i?) substr(s,i,i?) left(s,i) right(s,i) lpad(s,i,s?) rpad(s,i,s?) repeat(s,i) replace(s,s,s?)
translate(s,s,s) substring_index(s,s,i) split_part(s,s,i) concat(x*) concat_ws(s,x*) overlay(s,s,i,i?) space(i)
regexp_replace(s,s,s,i?) regexp_extract(s,s,i?) format_number(n,i) md5(y) sha(y) sha1(y) sha2(y,i) hex(x) bin(i) chr(i)
char(i) base64(y) date_format(t,s) from_unixtime(i,s?) dayname(t) monthname(t) elt(i,s*) string(x)
get_json_object(s,s) = STRING

length(y) len(y) char_length(s) character_length(s) octet_length(y) bit_length(y) ascii(s) instr(s,s) locate(s,s,i?)
position(s,s) levenshtein(s,s) find_in_set(s,s) year(t) quarter(t) month(t) day(t) dayofmonth(t) dayofweek(t)
dayofyear(t) weekofyear(t) weekday(t) hour(t) minute(t) second(t) datediff(t,t) date_diff(t,t) hash(x*) bit_count(x)
int(x) = INT

contains(s,s) startswith(s,s) endswith(s,s) isnull(x) isnotnull(x) isnan(n) regexp_like(s,s) rlike(s,s) like(s,s)
regexp(s,s) boolean(x) equal_null(x,x) luhn_check(s) = BOOLEAN

sqrt(n) cbrt(n) exp(n) ln(n) log(n,n?) log2(n) log10(n) log1p(n) expm1(n) power(n,n) pow(n,n) sin(n) cos(n) tan(n)
asin(n) acos(n) atan(n) atan2(n,n) sinh(n) cosh(n) tanh(n) asinh(n) acosh(n) atanh(n) cot(n)
degrees(n) radians(n) pi() e() rint(n) sign(n) signum(n)
months_between(t,t,b?) hypot(n,n) double(x) = DOUBLE

xxhash64(x*) crc32(y) unix_timestamp(t,s?) to_unix_timestamp(t,s?) unix_seconds(t) unix_millis(t) unix_micros(t)
bigint(x) factorial(i) timestampdiff(x,t,t) = BIGINT

date(x) to_date(t,s?) date_add(t,i) date_sub(t,i) dateadd(t,i) add_months(t,i) last_day(t) next_day(t,s) trunc(t,s)
make_date(i,i,i) date_from_unix_date(i) = DATE

timestamp(x) to_timestamp(t,s?) date_trunc(s,t) timestamp_seconds(n) timestamp_millis(i) timestamp_micros(i)
from_utc_timestamp(t,s) to_utc_timestamp(t,s) = TIMESTAMP

unbase64(s) unhex(s) encode(s,s) binary(x) = BINARY
tinyint(x) = TINYINT
smallint(x) = SMALLINT
float(x) = FLOAT
abs(n) negative(n) positive(n) shiftleft(i,i) shiftright(i,i) = same
coalesce(x*) greatest(x*) least(x*) nvl(x,x) ifnull(x,x) mod(n,n) pmod(n,n) nanvl(n,n) = common
nullif(x,x) nullifzero(n) zeroifnull(n) = same
nvl2(x,x,x) if(b,x,x) = branches
ceil(n) ceiling(n) floor(n) = whole
round(n,i?) bround(n,i?) = rounded
date_part(s,x) extract(s,x) = part
"""

_SPANS = frozenset("datediff date_diff timestampdiff".split())
_SHIFTS = frozenset("dateadd date_add timestampadd".split())
MICROSECONDS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 7 * 86_400_000_000,
}
"""Units of time of one length."""
MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
"""Units of time that are so many months."""

OTHER_AGGREGATES = frozenset(
    "any any_value approx_count_distinct approx_percentile array_agg bit_and bit_or bit_xor bool_and bool_or "
    "collect_list collect_set corr count_min_sketch covar_pop covar_samp every first first_value grouping grouping_id "
    "histogram_numeric hll_sketch_agg kurtosis last last_value listagg max_by median min_by mode percentile "
    "percentile_approx percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 "
    "regr_slope regr_sxx regr_sxy regr_syy skewness some string_agg try_avg try_sum".split()
) - set(BY_NAME)
"""Those of Spark that are no entry here."""
WINDOW_FUNCTIONS = frozenset("row_number rank dense_rank percent_rank cume_dist ntile lag lead nth_value".split())
GENERATORS = frozenset(
    "explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple unnest".split()
)
NON_DETERMINISTIC = frozenset(
    "rand random randn uuid now current_date curdate current_timestamp current_time localtimestamp current_user user "
    "session_user current_database current_schema current_catalog current_timezone monotonically_increasing_id "
    "spark_partition_id input_file_name shuffle randstr uniform version".split()
)
_LETTERS = {
    "n": "a number",
    "i": "an integer",
    "s": "a string",
    "t": "a date or timestamp",
    "b": "a boolean",
    "y": "a string or binary",
    "x": "anything",
}
_STRICT_RESULTS = frozenset("concat upper lower length abs year month day round ceil floor trim substring".split())


@dataclass(frozen=True, slots=True)
class Signature:
    """A function's parameters and the rule for its result."""

    name: str
    parameters: tuple[str, ...]
    result: str

    @property
    def least(self) -> int:
        """How many arguments it needs."""
        return sum(not p.endswith("?") for p in self.parameters)

    @property
    def most(self) -> int | None:
        """How many it takes; None if any number."""
        return None if any(p.endswith("*") for p in self.parameters) else len(self.parameters)

    def parameter(self, index: int) -> str:
        """The letter of the index-th argument."""
        return self.parameters[min(index, len(self.parameters) - 1)][0]


@cache
def signatures() -> dict[str, Signature]:
    """The table, by function name."""
    found: dict[str, Signature] = {}
    for paragraph in re.split(r"(?<=[A-Za-z])\n+(?=[a-z0-9_]+\()", _TABLE.strip()):
        calls, _, result = paragraph.rpartition("=")
        for name, inner in re.findall(r"(\w+)\(([^)]*)\)", calls):
            parameters = tuple(p.strip() for p in inner.split(",") if p.strip())
            found[name] = Signature(name, parameters, result.strip())
    return found


def known_functions() -> list[str]:
    """Every function and aggregate by name, to suggest from."""
    return [*signatures(), *BY_NAME]


def is_strict(name: str) -> bool:
    """True if the function is NULL only where an argument is."""
    return name in _STRICT_RESULTS


def accepts(letter: str, type_: DataType) -> bool:
    """True if an argument of that type fits the parameter."""
    if type_.is_open or letter == "x":
        return True
    return {
        "n": type_.is_numeric,
        "i": type_.is_integer,
        "s": type_.kind is Kind.STRING,
        "t": type_.is_temporal or type_.kind is Kind.STRING,
        "b": type_.kind is Kind.BOOLEAN,
        "y": type_.kind in (Kind.STRING, Kind.BINARY),
    }[letter]


def is_span(call: exp.Anonymous) -> bool:
    """True for ``datediff(unit, start, end)`` and its other names: the whole units between two times."""
    return call.name.lower() in _SPANS and len(call.expressions) == 3


def span_type(call: exp.Anonymous, types: Sequence[DataType], source: Source) -> DataType:
    """Check such a call, of which the types of start and end are given, and give its type."""
    unit, *times = call.expressions
    name, units = call.name.lower(), [*MICROSECONDS, *MONTHS]
    if not isinstance(unit, exp.Column) or unit.table or unit.name.upper() not in units:
        raise source.unknown("unit of time", unit.sql(), unit, units, "the units are")
    for argument, type_ in zip(times, types, strict=True):
        if not (type_.is_temporal or type_.is_open):
            raise source.mismatch(
                f"{name} takes a unit and two dates or timestamps, and this is {type_}", argument, hint="CAST it"
            )
    return BIGINT


def refuse_shift(call: exp.Anonymous, source: Source) -> None:
    """Raise for ``dateadd(unit, number, time)``, which has another form here."""
    if call.name.lower() in _SHIFTS and len(call.expressions) == 3:
        raise source.unsupported(
            f"{call.name.lower()} with a unit",
            call,
            message=f"{call.name.lower()} with a unit of time is not known here",
            hint="write d + INTERVAL 1 DAY, date_add(d, days) or add_months(d, months)",
        )


def call_type(call: exp.Anonymous, types: Sequence[DataType], source: Source) -> DataType:
    """Check a function call's arguments and give its type."""
    name = call.name.lower()
    signature = signatures().get(name)
    if signature is None:
        raise _foreign(call, source)
    _check_count(call, signature, len(types), source)
    for index, (argument, type_) in enumerate(zip(call.expressions, types, strict=True)):
        letter = signature.parameter(index)
        if not accepts(letter, type_):
            raise source.mismatch(
                f"{name} takes {_LETTERS[letter]} as argument {index + 1}, and this is {type_}",
                argument,
                hint="CAST the argument",
            )
    return _result(call, signature.result, types, source)


def _check_count(call: exp.Anonymous, signature: Signature, given: int, source: Source) -> None:
    least, most = signature.least, signature.most
    if given >= least and (most is None or given <= most):
        return
    wanted = f"{least}" if least == most else f"at least {least}" if most is None else f"{least} to {most}"
    plural = "" if wanted == "1" or (most is None and least == 1) else "s"
    raise source.mismatch(f"{signature.name} takes {wanted} argument{plural}, and here are {given}", call)


def _result(call: exp.Anonymous, rule: str, types: Sequence[DataType], source: Source) -> DataType:
    if rule in Kind.__members__:
        return DataType(Kind[rule])
    if rule == "same":
        return types[0]
    if rule == "branches":
        return _common(call, types[1:], source)
    if rule == "common":
        return _common(call, types, source)
    if rule == "part":
        seconds = call.expressions[0].name.upper() in ("SECOND", "SECONDS")
        return decimal(8, 6) if seconds else DataType(Kind.INT)
    type_ = types[0]
    if type_.kind is not Kind.DECIMAL:
        return BIGINT if rule == "whole" and not type_.is_open else type_
    if rule == "whole":
        return decimal(type_.precision - type_.scale + 1, 0)
    digits = call.expressions[1] if len(call.expressions) > 1 else None
    scale = int(digits.name) if isinstance(digits, exp.Literal) and digits.name.isdigit() else 0 if not digits else None
    scale = type_.scale if scale is None else min(scale, type_.scale)
    return decimal(type_.precision - type_.scale + scale + 1, scale)


def _common(call: exp.Anonymous, types: Sequence[DataType], source: Source) -> DataType:
    result = types[0]
    for type_ in types[1:]:
        united = common_type(result, type_)
        if united is None:
            raise source.mismatch(
                f"the arguments of {call.name.lower()} have types {result} and {type_}, which do not go together",
                call,
                hint="CAST them to one type",
            )
        result = united
    return result


def _foreign(call: exp.Anonymous, source: Source) -> EverviewError:
    """The error for a function that is not in the table: what nobody has compared with Spark is not computed."""
    name = call.name.lower()
    if name.upper() not in Spark.Parser.FUNCTIONS:
        return source.unknown("function", name, call, known_functions(), "")
    return source.unsupported(
        f"function {name}", call, message=f"the function {name} is not known here", hint="use another function"
    )
