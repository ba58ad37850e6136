"""Functions of moments: dates and timestamps made from text, numbers and parts, and shown in these; zones of time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from sqlglot import exp

from everview.query.types import BIGINT, DATE, INT, STRING, TIMESTAMP, DataType, Kind
from everview.sql.dialect import EverviewSpark
from everview.sql.functions.conversions import converted
from everview.sql.functions.entry import Call, Function, function
from everview.sql.nodes import call, cast, refused
from everview.sql.sql_text import SqlText

NTZ: Final = DataType(Kind.TIMESTAMP_NTZ)

_SHOWN: Final = {
    "yyyy": "%Y",
    "yy": "%y",
    "MMMM": "%B",
    "MMM": "%b",
    "MM": "%m",
    "M": "%-m",
    "DDD": "%j",
    "dd": "%d",
    "d": "%-d",
    "HH": "%H",
    "H": "%-H",
    "hh": "%I",
    "h": "%-I",
    "mm": "%M",
    "m": "%-M",
    "ss": "%S",
    "s": "%-S",
    "SSS": "%g",
    "SSSSSS": "%f",
    "EEEE": "%A",
    "EEE": "%a",
    "EE": "%a",
    "E": "%a",
    "a": "%p",
}
"""Spark's letters for parts of times, and those of DuckDB's ``strftime``."""
_DIGITS: Final = {"yyyy": "4", "SSS": "3", "SSSSSS": "6", "M": "1,2", "d": "1,2", "H": "1,2"} | dict.fromkeys(
    ("MM", "dd", "HH", "mm", "ss"), "2"
)
"""How many digits stand for those that are read."""
_QUOTE: Final = "'"
_FLOORED: Final = "(({x}) - ((({x}) % {unit}) + {unit}) % {unit}) // {unit}"


def _moment(of: Call) -> exp.Expr:
    """Dates, timestamps and seconds since 1970, of text or of one another."""
    arguments, have, want = of.arguments, of.first_type, of.type
    moment = want if want.is_temporal else TIMESTAMP
    tried = of.name.startswith("try")
    if have is not None and have.kind is Kind.STRING and (len(arguments) > 1 or not want.is_temporal):
        form = arguments[1] if len(arguments) > 1 else exp.Literal.string("yyyy-MM-dd HH:mm:ss")
        found = cast(_parsed(of.name, arguments[0], form, tried), moment)
    else:
        plain = cast(arguments[0], moment)
        read = exp.TryCast(this=plain.this, to=plain.args["to"], safe=True) if tried else plain
        found = converted(arguments[0], have, moment, read)
    return found if want.is_temporal else of.with_arguments(found)


def _parsed(name: str, text: exp.Expr, form: exp.Expr, tried: bool) -> exp.Expr:
    runs = _runs(form)
    if runs is None or "yyyy" not in runs or not all(r in _DIGITS or not _is_letter(r) for r in runs):
        known = f"known are {', '.join(_DIGITS)} and what is no letter, and yyyy is needed"
        raise refused(f"{name} by {form.sql(EverviewSpark)}", known)
    for run, after in pairwise(runs):
        if "," in _DIGITS.get(run, "") and _is_letter(after):
            raise refused(f"{name} by {form.sql(EverviewSpark)}", f"it is not known where the digits of {run} end")
    pattern = "".join(f"[0-9]{{{_DIGITS[r]}}}" if r in _DIGITS else re.escape(_plain(r)) for r in runs)
    return call("spark_tried_parsed" if tried else "spark_parsed", text, exp.Literal.string(pattern), _shape(runs))


def _shown(of: Call) -> exp.Expr:
    """A date or timestamp as text: text is read as a timestamp before."""
    value, have = of.arguments[0], of.first_type
    form = of.arguments[1] if len(of.arguments) > 1 else exp.Literal.string("yyyy-MM-dd HH:mm:ss")
    runs = _runs(form)
    if runs is None or not all(r in _SHOWN or not _is_letter(r) for r in runs):
        known = ", ".join(sorted(_SHOWN))
        raise refused(f"{of.name} by {form.sql(EverviewSpark)}", f"known are {known} and what is no letter")
    if of.name == "from_unixtime":
        value = call("spark_timestamp_seconds", cast(value, BIGINT))
    elif have is not None and have.kind is Kind.STRING:
        value = converted(value, have, TIMESTAMP, cast(value, TIMESTAMP))
    return call("strftime", cast(value, NTZ), _shape(runs))


def _shape(runs: Sequence[str]) -> exp.Expr:
    """Runs as DuckDB writes and reads them."""
    return exp.Literal.string("".join(_SHOWN.get(r) or _plain(r).replace("%", "%%") for r in runs))


def _runs(form: exp.Expr) -> list[str] | None:
    """A pattern of Spark's for dates as runs of one character; text in quotes is a run behind a quote.

    None if it is not known, or has brackets.
    """
    if not isinstance(form, exp.Literal) or not form.is_string or re.search(r"[\[\]{}#\\]", form.name):
        return None
    runs = [found.group() for found in re.finditer(r"'[^']+'|(.)\1*", form.name, re.DOTALL)]
    if any(set(run) == {_QUOTE} for run in runs):
        return None
    return [run.rstrip(_QUOTE) if run[0] == _QUOTE else run for run in runs]


def _plain(run: str) -> str:
    return run.removeprefix(_QUOTE)


def _is_letter(run: str) -> bool:
    return run[0].isascii() and run[0].isalpha()


def _seconds(of: Call) -> exp.Expr | None:
    wide = of.first_type is not None and of.first_type.is_integer
    return of.with_arguments(cast(of.arguments[0], BIGINT)) if wide else None


def _of_parts(of: Call) -> exp.Expr:
    found = of.with_arguments(*of.arguments)
    return cast(call("spark_try", found) if of.name.startswith("try") else found, of.type)


def _zoned(call_: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    """The last argument is the time, and those before it are zones."""
    for node, type_, is_time in zip(call_.expressions, types, [False] * (len(types) - 1) + [True], strict=True):
        if not (type_.kind is Kind.STRING or type_.is_open or (is_time and type_.is_temporal)):
            raise source.mismatch(f"convert_timezone takes zones and then a time, and this is {type_}", node, "CAST it")
    return NTZ


def _between_zones(of: Call) -> exp.Expr:
    *zones, time = of.arguments
    moment = converted(time, of.types[-1], NTZ, cast(time, NTZ))
    source = zones[0] if len(zones) > 1 else exp.Literal.string("UTC")
    return call("timezone", zones[-1], call("timezone", source, moment))


def _made_of_parts(names: str, type_: DataType, *examples: str) -> Function:
    macros = {
        "spark_try(x)": "TRY(x)",
        f"spark_{names.partition(' ')[0]}(y, m, d, h, i, s)": "make_timestamp(y, m, d, h, i, CAST(s AS DOUBLE))",
    }
    return function(names, "i i i i i n", type_, *examples, macros=macros, spelling=_of_parts)


FUNCTIONS: Final = (
    function(
        "date_format",
        "t s",
        STRING,
        "date_format(ts, 'yyyy-MM-dd HH:mm:ss')",
        "date_format(d, 'EEE d MMM yy')",
        "date_format(ts, \"yyyy-MM-dd'T'HH:mm:ss.SSS'Z'\")",
        "date_format('2024-02-03 04:05:06', 'DDD hh:mm a SSSSSS %')",
        spelling=_shown,
    ),
    function(
        "from_unixtime",
        "i s?",
        STRING,
        "from_unixtime(n)",
        "from_unixtime(i, 'yyyy-MM-dd')",
        spelling=_shown,
    ),
    function(
        "unix_timestamp to_unix_timestamp",
        "t s?",
        BIGINT,
        "unix_timestamp(ts)",
        "unix_timestamp(d)",
        "to_unix_timestamp(ts)",
        macros={"spark_unix_timestamp(x)": "epoch_us(x) // 1000000"},
        spelling=_moment,
    ),
    function(
        "unix_seconds",
        "t",
        BIGINT,
        "unix_seconds(ts)",
        macros={"spark_unix_seconds(x)": _FLOORED.format(x="epoch_us(x)", unit=1_000_000)},
    ),
    function(
        "unix_millis",
        "t",
        BIGINT,
        "unix_millis(ts)",
        macros={"spark_unix_millis(x)": _FLOORED.format(x="epoch_us(x)", unit=1_000)},
    ),
    function("unix_micros", "t", BIGINT, "unix_micros(ts)"),
    function(
        "to_date try_to_date",
        "t s?",
        DATE,
        "to_date(ts)",
        "to_date('03.02.2024', 'dd.MM.yyyy')",
        "to_date('3/2/2024', 'd/M/yyyy')",
        "try_to_date(s)",
        "try_to_date('2024-02-30', 'yyyy-MM-dd')",
        "try_to_date('20240229', 'yyyyMMdd')",
        macros={
            "spark_tried_parsed(x, pattern, form)": "CASE WHEN regexp_full_match(x, pattern) "
            "THEN try_strptime(x, form) END"
        },
        spelling=_moment,
    ),
    function("make_date", "i i i", DATE, "make_date(2024, n + 1, n + 1)"),
    function(
        "unix_date",
        "t",
        INT,
        "unix_date(d)",
        macros={"spark_unix_date(x)": "CAST(CAST(x AS DATE) - DATE '1970-01-01' AS INTEGER)"},
    ),
    _made_of_parts(
        "make_timestamp try_make_timestamp make_timestamp_ltz try_make_timestamp_ltz",
        TIMESTAMP,
        "make_timestamp(2024, n + 1, n + 1, 10, 20, 30.25)",
        "make_timestamp(2024, 2, 29, 23, 59, n)",
        "make_timestamp_ltz(2024, 2, 29, 23, 59, n)",
        "try_make_timestamp(2024, n, 30, 1, 2, 3.5)",
        "try_make_timestamp_ltz(2024, 2, 29, i, 2, 3)",
    ),
    _made_of_parts(
        "make_timestamp_ntz try_make_timestamp_ntz",
        NTZ,
        "make_timestamp_ntz(2024, n + 1, n + 1, 10, 20, 30.25)",
        "try_make_timestamp_ntz(2024, n, 30, 1, 2, 3.5)",
    ),
    function("date_from_unix_date", "i", DATE, "date_from_unix_date(n)"),
    function(
        "to_timestamp to_timestamp_ltz try_to_timestamp",
        "t s?",
        TIMESTAMP,
        "to_timestamp(d)",
        "to_timestamp('2024-02-29 01:02:03', 'yyyy-MM-dd HH:mm:ss')",
        "to_timestamp(\"2024-02-29T01:02:03.125Z\", \"yyyy-MM-dd'T'HH:mm:ss.SSS'Z'\")",
        "to_timestamp_ltz('2024-02-29 01:02:03')",
        "try_to_timestamp(s)",
        "try_to_timestamp(concat('2024-', n, '-30 1:2:3'))",
        "try_to_timestamp('2024-02-30 01:02', 'yyyy-MM-dd HH:mm')",
        spelling=_moment,
    ),
    function(
        "to_timestamp_ntz",
        "t s?",
        NTZ,
        "to_timestamp_ntz(d)",
        "to_timestamp_ntz('2024-02-29 01:02:03.5')",
        "to_timestamp_ntz('29.02.2024', 'dd.MM.yyyy')",
        spelling=_moment,
    ),
    function(
        "convert_timezone",
        "s x t?",
        _zoned,
        "convert_timezone('Europe/Oslo', TIMESTAMP_NTZ '2024-07-01 12:00:00')",
        "convert_timezone('America/New_York', 'Asia/Tokyo', ts - INTERVAL 1 DAY)",
        "convert_timezone('America/New_York', 'Asia/Tokyo', '2024-02-29')",
        spelling=_between_zones,
    ),
    function(
        "timestamp_seconds",
        "n",
        TIMESTAMP,
        "timestamp_seconds(i)",
        "timestamp_seconds(x)",
        macros={"spark_timestamp_seconds(x)": "make_timestamptz(CAST(x * 1000000 AS BIGINT))"},
        spelling=_seconds,
    ),
    function(
        "timestamp_millis",
        "i",
        TIMESTAMP,
        "timestamp_millis(i)",
        macros={"spark_timestamp_millis(x)": "make_timestamptz(CAST(x AS BIGINT) * 1000)"},
    ),
    function(
        "timestamp_micros",
        "i",
        TIMESTAMP,
        "timestamp_micros(i)",
        macros={"spark_timestamp_micros(x)": "make_timestamptz(CAST(x AS BIGINT))"},
    ),
    function(
        "from_utc_timestamp",
        "t s",
        TIMESTAMP,
        "from_utc_timestamp(ts - INTERVAL 1 DAY, 'Europe/Oslo')",
        macros={"spark_from_utc_timestamp(x, zone)": "timezone('UTC', timezone(zone, x))"},
    ),
    function(
        "to_utc_timestamp",
        "t s",
        TIMESTAMP,
        "to_utc_timestamp(ts - INTERVAL 1 DAY, 'Europe/Oslo')",
    ),
)
