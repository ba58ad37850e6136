"""Functions of patterns: where a regular expression matches and what, and texts made by a format."""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from everview.query.types import BOOLEAN, INT, STRING, DataType, Kind, array_of
from everview.sql.functions.conversions import text_of
from everview.sql.functions.entry import Call, function
from everview.sql.functions.text import with_last
from everview.sql.nodes import call, cast, refused

_PART: Final = re.compile(r"%(?:(?P<at>[0-9]+)\$)?(?P<flag>[-0]?)(?P<width>[1-9][0-9]*)?(?P<kind>[sd%])")
_FILLED: Final = {
    "spark_filled(t, n)": "CASE WHEN length(t) >= n THEN t ELSE lpad(t, n, ' ') END",
    "spark_filled_behind(t, n)": "CASE WHEN length(t) >= n THEN t ELSE rpad(t, n, ' ') END",
    "spark_filled_by_zeros(t, n)": "CASE WHEN length(t) >= n THEN t WHEN t LIKE '-%' THEN '-' || lpad(ltrim(t, '-'), "
    "n - 1, '0') WHEN t = 'null' THEN lpad(t, n, ' ') ELSE lpad(t, n, '0') END",
}
_FILLS: Final = {"": "spark_filled", "-": "spark_filled_behind", "0": "spark_filled_by_zeros"}


def _formatted(of: Call) -> exp.Expr:
    """The parts of a format one after the other; NULL is the word null."""
    format_, *values = of.arguments
    if not isinstance(format_, exp.Literal) or not format_.is_string:
        raise refused(of.name, "the format must be a literal")
    text, at, taken = format_.name, 0, 0
    parts: list[exp.Expr] = [exp.Literal.string("")]
    while at < len(text):
        end = text.find("%", at)
        if end != at:
            end = len(text) if end < 0 else end
            parts.append(exp.Literal.string(text[at:end]))
            at = end
            continue
        found = _PART.match(text, at)
        if found is None or (found["kind"] != "d" and (found["width"] or found["flag"])):
            raise refused(f"{of.name} with '{text[at:]}'", "there are %s, %d, %5d, %-5d, %05d and %%")
        at = found.end()
        if found["kind"] == "%":
            parts.append(exp.Literal.string("%"))
            continue
        place = int(found["at"]) - 1 if found["at"] else taken
        taken += not found["at"]
        if not 0 <= place < len(values):
            raise refused(f"{of.name} with '{text}'", f"there are {len(values)} values")
        parts.append(_shown(of, values[place], of.types[place + 1], found))
    return call("concat", *parts)


def _shown(of: Call, value: exp.Expr, type_: DataType | None, found: re.Match[str]) -> exp.Expr:
    kinds = (Kind.STRING, Kind.BOOLEAN) if found["kind"] == "s" else ()
    if type_ is not None and not (type_.is_integer or type_.kind in kinds or type_.kind is Kind.NULL):
        raise refused(f"%{found['kind']} of {type_}", "CAST it to STRING, and write %s")
    shown = call("coalesce", cast(text_of(value, type_), STRING), exp.Literal.string("null"))
    return call(_FILLS[found["flag"]], shown, exp.Literal.number(int(found["width"]))) if found["width"] else shown


def _place(of: Call) -> exp.Expr:
    """The text before the first match, and one more, is where it begins."""
    text, pattern = of.arguments[:2]
    if not isinstance(pattern, exp.Literal) or not pattern.is_string:
        raise refused("regexp_instr", "the pattern must be a literal")
    before = exp.Literal.string(f"(?s)^(.*?)(?-s:{pattern.name})")
    return of.with_arguments(text, pattern, before)


FUNCTIONS: Final = (
    function(
        "rlike regexp regexp_like",
        "s s",
        BOOLEAN,
        "rlike(s, '^[0-9]+$')",
        "regexp(s, 'e.l')",
        "regexp_like(s, 'l{2}')",
    ),
    function(
        "regexp_extract",
        "s s i?",
        STRING,
        "regexp_extract(s, '([a-z]+)', 1)",
        "regexp_extract(s, 'l+', 0)",
        "regexp_extract(s, '(e)(l)', 2)",
    ),
    function(
        "regexp_count",
        "s s",
        INT,
        "regexp_count(s, '[a-z]')",
        "regexp_count(s, 'l+')",
        macros={"spark_regexp_count(x, pattern)": "CAST(len(regexp_extract_all(x, pattern)) AS INTEGER)"},
    ),
    function(
        "regexp_substr",
        "s s",
        STRING,
        "regexp_substr(s, '[a-z]+')",
        "regexp_substr(s, '9.')",
        macros={
            "spark_regexp_substr(x, pattern)": "CASE WHEN regexp_matches(x, pattern) "
            "THEN regexp_extract(x, pattern) END"
        },
    ),
    function(
        "regexp_extract_all",
        "s s i?",
        array_of(STRING),
        "regexp_extract_all(s, '([a-z])')",
        "regexp_extract_all(s, '([a-z])([a-z])', 2)",
        "regexp_extract_all(s, '[a-z]+', 0)",
        spelling=with_last(exp.Literal.number(1), 3),
    ),
    function(
        "regexp_instr",
        "s s",
        INT,
        "regexp_instr(s, 'l+')",
        "regexp_instr(s, '[0-9]$')",
        "regexp_instr(s, '(b|€)')",
        macros={
            "spark_regexp_instr(x, pattern, before)": "CASE WHEN x IS NULL THEN NULL WHEN regexp_matches(x, pattern) "
            "THEN CAST(length(regexp_extract(x, before, 1)) + 1 AS INTEGER) ELSE 0 END"
        },
        spelling=_place,
    ),
    function(
        "format_string printf",
        "s x*",
        STRING,
        "format_string('%s is %d %%', s, i)",
        "format_string('%05d|%5d|%-5d|', i, n, k)",
        "format_string('%2$s %1$s %s', s, b)",
        "printf('<%s>', l)",
        macros=_FILLED,
        spelling=_formatted,
    ),
)
