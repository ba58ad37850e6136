"""Calls of functions that are spelled out by the types, or the literals, that they are called with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from everview.query.types import BIGINT, DOUBLE, MOST_DIGITS, DataType, Kind
from everview.sql.dialect import EverviewSpark
from everview.sql.nodes import call, cast, is_whole, refused

_DEFAULTS: Final = {("lpad", 2): " ", ("rpad", 2): " ", ("replace", 2): "", ("btrim", 1): " "}
"""The last argument of those that can do without."""
_OF_DOUBLES: Final = frozenset("hypot expm1 log1p".split())
_LENGTHS: Final = frozenset("length len octet_length bit_length".split())
_MOST_ROUNDED: Final = 15


def by_type(
    name: str, arguments: Sequence[exp.Expr], kinds: Sequence[DataType | None], type_: DataType
) -> exp.Expr | None:
    """The call, spelled out; None if it is as it stands."""
    default = _DEFAULTS.get((name, len(arguments)))
    if default is not None:
        return call(f"spark_{name}", *arguments, exp.Literal.string(default))
    if name == "replace" and _never_longer(*arguments[1:]):
        return call("replace", *arguments)
    if name in _OF_DOUBLES:
        return call(f"spark_{name}", *(cast(a, DOUBLE) for a in arguments))
    if name == "elt":
        return _elt(arguments)
    if name == "substring_index":
        _check_mark(arguments[1])
    if name in ("hash", "xxhash64"):
        raise refused(name, "Spark's hash functions are not known here; md5, sha1, sha2 and crc32 are")
    first = kinds[0] if kinds else None
    return None if first is None else _of(name, arguments, first, type_)


def _never_longer(old: exp.Expr, new: exp.Expr) -> bool:
    """True if a text in place of another makes nothing longer, so that no size needs to be looked at."""
    literal = all(isinstance(side, exp.Literal) and side.is_string for side in (old, new))
    return literal and len(new.name.encode()) <= len(old.name.encode())


def _of(name: str, arguments: Sequence[exp.Expr], first: DataType, type_: DataType) -> exp.Expr | None:
    value = arguments[0]
    if name in _LENGTHS:
        return _length(name, value, first)
    if name in ("base64", "crc32"):
        return call("base64" if name == "base64" else "spark_crc32", _bytes(value, first))
    if name == "bit_count":
        if not (first.is_integer or first.kind in (Kind.BOOLEAN, Kind.NULL)):
            raise refused(f"bit_count of {first}", "it takes integers and booleans")
        return call(name, cast(value, BIGINT))
    if name == "bround":
        return _half_even(arguments, first, type_)
    return _shown(arguments, first) if name == "format_number" else None


def _bytes(value: exp.Expr, type_: DataType) -> exp.Expr:
    return call("spark_bytes", value) if type_.kind is Kind.STRING else value


def _length(name: str, value: exp.Expr, type_: DataType) -> exp.Expr | None:
    binary = type_.kind is Kind.BINARY
    if name in ("length", "len"):
        return call("spark_octets", value) if binary else None
    octets = call("spark_octets" if binary else "spark_text_octets", value)
    return octets if name == "octet_length" else exp.paren(exp.Mul(this=octets, expression=exp.Literal.number(8)))


def _elt(arguments: Sequence[exp.Expr]) -> exp.Expr:
    number, *texts = arguments
    ifs = [exp.If(this=exp.Is(this=exp.paren(number), expression=exp.Null()), true=exp.Null())]
    for index, text in enumerate(texts):
        chosen = exp.EQ(this=exp.paren(number), expression=exp.Literal.number(index + 1))
        ifs.append(exp.If(this=chosen, true=text.copy()))
    return exp.Case(ifs=ifs, default=call("spark_no_element", number))


def _check_mark(mark: exp.Expr) -> None:
    """Spark finds marks that lie over one another; where none can, all ways to look for them are the same."""
    text = mark.name if isinstance(mark, exp.Literal) and mark.is_string else None
    if text is None or any(text.startswith(text[-size:]) for size in range(1, len(text))):
        shown = mark.sql(EverviewSpark)
        raise refused(f"substring_index by {shown}", "the mark must be a literal that does not end as it begins")


def _half_even(arguments: Sequence[exp.Expr], first: DataType, type_: DataType) -> exp.Expr:
    value = arguments[0]
    digits = arguments[1] if len(arguments) > 1 else exp.Literal.number(0)
    if not is_whole(digits) or int(digits.name) > _MOST_ROUNDED:
        raise refused("bround", f"the number of digits must be a literal from 0 to {_MOST_ROUNDED}")
    if first.kind in (Kind.FLOAT, Kind.DOUBLE):
        found = call("spark_bround", cast(value, DOUBLE), digits)
        return found if first.kind is Kind.DOUBLE else cast(found, first)
    kept = int(digits.name)
    if first.kind is not Kind.DECIMAL or kept >= first.scale:
        return cast(value, type_)
    unit = exp.Literal.number(10 ** (first.scale - kept))
    whole = call("spark_half_even", cast(value, DataType(Kind.DECIMAL, MOST_DIGITS, first.scale)), unit)
    least = cast(exp.Literal.string(f"{10**-kept:.{kept}f}"), DataType(Kind.DECIMAL, MOST_DIGITS, kept))
    exact = exp.Mul(this=cast(whole, DataType(Kind.DECIMAL, MOST_DIGITS, 0)), expression=least)
    return cast(exp.paren(exact), type_)


def _shown(arguments: Sequence[exp.Expr], first: DataType) -> exp.Expr:
    value, digits = arguments
    if not is_whole(digits) or int(digits.name) > _MOST_ROUNDED:
        raise refused("format_number", f"the number of digits must be a literal from 0 to {_MOST_ROUNDED}")
    if first.kind in (Kind.FLOAT, Kind.DOUBLE):
        return call("spark_shown", cast(value, DOUBLE), digits)
    if first.kind is Kind.DECIMAL and int(digits.name) < first.scale:
        raise refused(f"format_number of {first} with {digits.name} digits", f"it has {first.scale}: use bround before")
    return call("spark_shown_exactly", cast(value, DataType(Kind.STRING)), digits)
