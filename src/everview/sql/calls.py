"""Calls of functions, and casts, in functions that DuckDB is taught (``macros.py``); refused where it has none."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from sqlglot import exp

from everview.query.types import DOUBLE, STRING, DataType, Kind
from everview.sql.dialect import EverviewSpark
from everview.sql.functions import MICROSECONDS, MONTHS, is_span, signatures
from everview.sql.macros import MACROS
from everview.sql.nodes import call, cast, is_whole, refused
from everview.sql.typed_calls import by_type

_TAUGHT: Final = {s.partition("(")[0].removeprefix("spark_") for s in MACROS} & signatures().keys()
_OTHERWISE: Final = {"mod": "spark_mod", "to_unix_timestamp": "unix_timestamp", "regexp": "rlike"}
_CONVERSIONS: Final = frozenset("boolean tinyint smallint int bigint float double string binary date timestamp".split())
_UNITED: Final = frozenset("coalesce greatest least nvl ifnull mod pmod nanvl".split())
_BRANCHES: Final = frozenset("if nvl2".split())
_PARTS: Final = {"DAYOFWEEK": "spark_dayofweek", "DOW": "spark_dayofweek", "SECOND": "spark_seconds"}
_UNITS: Final = {"MM": "MONTH", "MON": "MONTH", "YYYY": "YEAR", "YY": "YEAR", "DD": "DAY"}
_SHIFTS: Final = {"shiftleft": "spark_left", "shiftright": "spark_right"}
_ANY_LENGTH: Final = 2**31 - 1
_MOST_ROUNDED: Final = 15
_SHOWN: Final = frozenset("yyyy yy MMMM MMM MM M dd d HH H hh h mm m ss s EEEE EEE EE E a".split())
_READ: Final = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
_READERS: Final = {
    Kind.DECIMAL: "spark_read_decimal",
    Kind.FLOAT: "spark_read_double",
    Kind.DOUBLE: "spark_read_double",
    Kind.BOOLEAN: "spark_read_boolean",
    Kind.DATE: "spark_read_date",
    Kind.TIMESTAMP: "spark_read_timestamp",
    Kind.TIMESTAMP_NTZ: "spark_read_timestamp",
}


def converted(inner: exp.Expr, have: DataType | None, want: DataType, node: exp.Expr) -> exp.Expr:
    """A cast: Spark cuts fractions off, counts seconds, writes times without their zone, and reads text strictly."""
    if have is None:
        return node
    if want.is_integer and have.kind in (Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE):
        inner = call("spark_cut", inner)
    elif want.is_integer and have.kind is Kind.TIMESTAMP:
        inner = call("spark_unix_seconds", inner)
    elif want.kind is Kind.TIMESTAMP and have.is_integer:
        return call("spark_timestamp_seconds", inner)
    elif want.kind is Kind.STRING:
        return _written(inner, have, node)
    elif want.kind is Kind.BINARY and have.kind is Kind.STRING:
        return call("spark_bytes", inner)
    elif have.kind is Kind.STRING and (want.is_integer or want.kind in _READERS):
        tried = exp.Boolean(this=bool(node.args.get("safe")))
        inner = call(_READERS.get(want.kind, "spark_read_whole"), inner, tried)
    else:
        return node
    return type(node)(this=inner.copy(), to=node.args["to"].copy(), safe=node.args.get("safe"))


def text_of(node: exp.Expr, type_: DataType | None) -> exp.Expr:
    """An argument of a concatenation."""
    return node if type_ is None else _written(node, type_, node)


def _written(inner: exp.Expr, have: DataType, otherwise: exp.Expr) -> exp.Expr:
    if have.kind is Kind.TIMESTAMP:
        return cast(cast(inner, DataType(Kind.TIMESTAMP_NTZ)), STRING)
    if have.kind in (Kind.FLOAT, Kind.DOUBLE):
        return call("spark_fraction", inner)
    return call("spark_text", inner) if have.kind is Kind.BINARY else otherwise


def part_of(part: str) -> str | None:
    """The function that takes a part of a date or time, where DuckDB's own counts in another way."""
    return _PARTS.get(part.upper().rstrip("S")) or _PARTS.get(part.upper())


def substring(text: exp.Expr, start: exp.Expr, length: exp.Expr | None) -> exp.Expr:
    """Part of a text; one that begins and ends at given places means the same everywhere."""
    if is_whole(start) and int(start.name) > 0 and (length is None or is_whole(length)):
        return exp.Substring(this=text.copy(), start=start.copy(), length=length.copy() if length else None)
    return call("spark_substring", text, start, length or exp.Literal.number(_ANY_LENGTH))


def like(node: exp.Expr) -> exp.Expr:
    """Spark's patterns have an escape character without being told."""
    pattern = node.expression
    if isinstance(pattern, exp.Literal) and re.search(r"\\(?![\\%_])", pattern.name.replace("\\\\", "")):
        raise refused(f"LIKE '{pattern.name}'", "a \\ stands before %, _ or another \\ only")
    return exp.Escape(this=node.copy(), expression=exp.Literal.string("\\"))


def shifted(name: str, sides: Sequence[exp.Expr], type_: DataType) -> exp.Expr:
    """Bits moved by an amount that is taken modulo the width."""
    if type_.kind not in (Kind.INT, Kind.BIGINT):
        raise refused(f"{name} of {type_}", "Spark makes it INT")
    return call(f"{_SHIFTS[name]}_{type_.kind.value.lower()}", *sides)


def called(node: exp.Anonymous, type_: DataType, types: Mapping[int, DataType]) -> exp.Expr:
    """A call of a function."""
    name, arguments = node.name.lower(), node.expressions
    kinds = [types.get(id(a)) for a in arguments]
    first = kinds[0] if arguments else None
    if is_span(node):
        return _span(*arguments)
    if name in _CONVERSIONS and len(arguments) == 1:
        return converted(arguments[0], first, type_, cast(arguments[0], type_))
    if name in ("to_date", "to_timestamp", "unix_timestamp", "to_unix_timestamp"):
        return _moment(name, arguments, first, type_)
    if name in ("concat", "concat_ws"):
        return call(name, *(text_of(a, k) for a, k in zip(arguments, kinds, strict=True)))
    if name in ("trunc", "date_trunc"):
        return call(name, *(_unit(a) for a in arguments))
    if name == "round" and first is not None and first.kind in (Kind.FLOAT, Kind.DOUBLE):
        return _rounded(node, first)
    if name in _UNITED | _BRANCHES and type_.kind is Kind.DOUBLE:
        arguments = [
            cast(a, DOUBLE) if k is not None and k.kind is Kind.FLOAT and (i or name not in _BRANCHES) else a
            for i, (a, k) in enumerate(zip(arguments, kinds, strict=True))
        ]
    if name in ("date_format", "from_unixtime") and len(arguments) == 2:
        _check_shown(name, arguments[1])
    return (
        _strings(name, arguments, kinds, type_)
        or by_type(name, arguments, kinds, type_)
        or _plain(name, arguments, node)
    )


def _span(unit: exp.Expr, *times: exp.Expr) -> exp.Expr:
    """The whole units between two times, cut towards none."""
    word = unit.name.upper()
    function = "spark_span_of_months" if word in MONTHS else "spark_span"
    length = exp.Literal.number(MONTHS.get(word) or MICROSECONDS[word])
    return call(function, length, *(cast(t, DataType(Kind.TIMESTAMP_NTZ)) for t in times))


def _plain(name: str, arguments: Sequence[exp.Expr], node: exp.Anonymous) -> exp.Expr:
    other = _OTHERWISE.get(name) or (f"spark_{name}" if name in _TAUGHT else None)
    return call(other, *arguments) if other else call(node.name, *arguments)


def _strings(
    name: str, arguments: Sequence[exp.Expr], kinds: Sequence[DataType | None], type_: DataType
) -> exp.Expr | None:
    """Functions whose arguments say how they are to be computed, or whether they can."""
    if name in ("substr", "substring") and len(arguments) > 1:
        return substring(arguments[0], arguments[1], arguments[2] if len(arguments) > 2 else None)
    if name == "like":
        return exp.paren(like(exp.Like(this=arguments[0].copy(), expression=arguments[1].copy())))
    if name == "log":
        return call("spark_ln" if len(arguments) == 1 else "spark_logarithm", *arguments)
    if name == "locate":
        return call("spark_locate", *arguments, *([exp.Literal.number(1)] if len(arguments) == 2 else []))
    if name in ("date_part", "extract"):
        function = part_of(arguments[0].name)
        return call(function, arguments[1]) if function else None
    if name in _SHIFTS:
        return shifted(name, arguments, type_)
    if name == "months_between":
        if len(arguments) > 2 or not all(k is not None and k.is_temporal for k in kinds):
            raise refused(name, "it takes two dates or timestamps here")
        return call("spark_months_between", *(cast(a, DataType(Kind.TIMESTAMP_NTZ)) for a in arguments))
    return _coded(name, arguments)


def _coded(name: str, arguments: Sequence[exp.Expr]) -> exp.Expr | None:
    if name == "sha2":
        if not (is_whole(arguments[1]) and int(arguments[1].name) in (0, 256)):
            raise refused(f"sha2 of {arguments[1].sql(EverviewSpark)} bits", "it is known for 256 bits only")
        return call("sha256", arguments[0])
    if name == "encode":
        if arguments[1].name.lower() not in ("utf-8", "utf8") or not isinstance(arguments[1], exp.Literal):
            raise refused(f"encode to {arguments[1].sql(EverviewSpark)}", "it is known for 'UTF-8' only")
        return call("spark_bytes", arguments[0])
    return _replaced(arguments) if name == "regexp_replace" else None


def _replaced(arguments: Sequence[exp.Expr]) -> exp.Expr:
    """Groups are ``$1`` in Spark, and ``\\1`` in DuckDB."""
    new = arguments[2]
    if not isinstance(new, exp.Literal) or len(arguments) > 3:
        raise refused("regexp_replace", "the new text must be a literal, and the last argument")
    if re.search(r"\$(?![0-9](?![0-9]))", new.name) or "\\" in new.name:
        raise refused(f"regexp_replace by '{new.name}'", "only groups of one digit are known")
    size, groups = (exp.Literal.number(n) for n in (len(new.name.encode()), new.name.count("$")))
    text = exp.Literal.string(re.sub(r"\$([0-9])", r"\\\1", new.name))
    return call("spark_regexp_replace", *arguments[:2], text, size, groups)


def _rounded(node: exp.Anonymous, type_: DataType) -> exp.Expr:
    digits = node.expressions[1] if len(node.expressions) > 1 else None
    if digits is None or isinstance(digits, exp.Neg) or digits.name == "0":
        return node
    if not is_whole(digits) or int(digits.name) > _MOST_ROUNDED:
        raise refused(node.sql(EverviewSpark), f"the number of digits must be a literal up to {_MOST_ROUNDED}")
    inner = call("spark_rounded", cast(node.expressions[0], DOUBLE), digits)
    return inner if type_.kind is Kind.DOUBLE else cast(inner, type_)


def _moment(name: str, arguments: Sequence[exp.Expr], have: DataType | None, want: DataType) -> exp.Expr:
    """Dates, timestamps and seconds since 1970, of text or of one another."""
    moment = want if want.is_temporal else DataType(Kind.TIMESTAMP)
    if have is not None and have.kind is Kind.STRING and (len(arguments) > 1 or not want.is_temporal):
        form = arguments[1] if len(arguments) > 1 else exp.Literal.string("yyyy-MM-dd HH:mm:ss")
        found = cast(_parsed(name, arguments[0], form), moment)
    else:
        found = converted(arguments[0], have, moment, cast(arguments[0], moment))
    return found if want.is_temporal else call("spark_unix_timestamp", found)


def _parsed(name: str, text: exp.Expr, form: exp.Expr) -> exp.Expr:
    runs = _runs(form)
    if runs is None or not all(r in _READ or not _is_letter(r) for r in runs):
        raise refused(f"{name} by {form.sql(EverviewSpark)}", f"known are {', '.join(_READ)} and what is no letter")
    pattern = "".join(f"[0-9]{{{len(r)}}}" if r in _READ else re.escape(r) for r in runs)
    shape = "".join(_READ.get(r, r.replace("%", "%%")) for r in runs)
    return call("spark_parsed", text, exp.Literal.string(pattern), exp.Literal.string(shape))


def _check_shown(name: str, form: exp.Expr) -> None:
    runs = _runs(form)
    if runs is None or not all(r in _SHOWN or not (_is_letter(r) or r[0] == "%") for r in runs):
        known = ", ".join(sorted(_SHOWN))
        raise refused(f"{name} by {form.sql(EverviewSpark)}", f"known are {known} and what is no letter")


def _runs(form: exp.Expr) -> list[str] | None:
    """A pattern of Spark's for dates as runs of one character; None if it is not known, or has quotes or brackets."""
    if not isinstance(form, exp.Literal) or not form.is_string or re.search(r"['\[\]{}#\\]", form.name):
        return None
    return [found.group() for found in re.finditer(r"(.)\1*", form.name, re.DOTALL)]


def _is_letter(run: str) -> bool:
    return run[0].isascii() and run[0].isalpha()


def _unit(node: exp.Expr) -> exp.Expr:
    """Spark's short names for units of time."""
    known = _UNITS.get(node.name.upper()) if isinstance(node, exp.Literal) else None
    return exp.Literal.string(known) if known else node
