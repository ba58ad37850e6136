"""Functions of text: its parts, patterns in it, and text made from others, whose size is known before it is made."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from typing import Final

from sqlglot import exp

from everview.query.types import BOOLEAN, INT, STRING, DataType, Kind, array_of
from everview.sql.dialect import EverviewSpark
from everview.sql.functions.conversions import text_of
from everview.sql.functions.elements import as_type
from everview.sql.functions.entry import Call, Function, Spelling, common, function
from everview.sql.macros import MOST_BYTES
from everview.sql.nodes import call, is_whole, refused
from everview.sql.sql_text import SqlText

_MOST_COUNTED: Final = 1024 * 1024
"""In longer texts, matches of regular expressions are not counted: there may be one at each place."""
_ANY_LENGTH: Final = 2**31 - 1
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_SOUNDS: Final = "01230127022455012623017202"
_EACH_SOUND: Final = "123456"
_BYTE_MARKS: Final = 127


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


def _substring(of: Call) -> exp.Expr:
    return substring(of.arguments[0], of.arguments[1], of.arguments[2] if len(of.arguments) > 2 else None)


def _like(of: Call) -> exp.Expr:
    text, pattern = of.arguments
    return exp.paren(like(exp.Like(this=text.copy(), expression=pattern.copy())))


def _joined_type(call_: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    """Arrays are joined to an array, all else to a text."""
    if any(t.kind is Kind.ARRAY for t in types):
        return common(call_, types, source)
    return STRING


def _turned(call_: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    if types[0].kind in (Kind.ARRAY, Kind.STRING) or types[0].is_open:
        return types[0].unbounded
    raise source.mismatch(
        f"reverse takes a string or an array, and this is {types[0]}", call_.expressions[0], hint="CAST the argument"
    )


def _reversed(of: Call) -> exp.Expr | None:
    is_array = of.first_type is not None and of.first_type.kind is Kind.ARRAY
    return call("list_reverse", *of.arguments) if is_array else None


def _joined(of: Call) -> exp.Expr:
    if of.type.kind is Kind.ARRAY:
        first, *others = (as_type(a, t, of.type) for a, t in zip(of.arguments, of.types, strict=True))
        return reduce(lambda found, other: call("spark_joined", found, other), others, first)
    return of.with_arguments(*(text_of(a, t) for a, t in zip(of.arguments, of.types, strict=True)))


def with_last(default: exp.Expr, count: int) -> Spelling:
    """A spelling with so many arguments, the last of which may be left out."""

    def spelled(of: Call) -> exp.Expr:
        return of.with_arguments(*of.arguments, *([default] if len(of.arguments) < count else []))

    return spelled


def _replace(of: Call) -> exp.Expr:
    text, old, *more = of.arguments
    new = more[0] if more else exp.Literal.string("")
    return call("replace", text, old, new) if more and _never_longer(old, new) else of.with_arguments(text, old, new)


def _never_longer(old: exp.Expr, new: exp.Expr) -> bool:
    """True if a text in place of another makes nothing longer, so that no size needs to be looked at."""
    literal = all(isinstance(side, exp.Literal) and side.is_string for side in (old, new))
    return literal and len(new.name.encode()) <= len(old.name.encode())


def _replace_matches(of: Call) -> exp.Expr:
    """Groups are ``$1`` in Spark, and ``\\1`` in DuckDB."""
    new = of.arguments[2]
    if not isinstance(new, exp.Literal) or len(of.arguments) > 3:
        raise refused("regexp_replace", "the new text must be a literal, and the last argument")
    if re.search(r"\$(?![0-9](?![0-9]))", new.name) or "\\" in new.name:
        raise refused(f"regexp_replace by '{new.name}'", "only groups of one digit are known")
    size, groups = (exp.Literal.number(n) for n in (len(new.name.encode()), new.name.count("$")))
    text = exp.Literal.string(re.sub(r"\$([0-9])", r"\\\1", new.name))
    return of.with_arguments(*of.arguments[:2], text, size, groups)


def _split(of: Call) -> exp.Expr:
    """By a regular expression: with a limit, the rest stays in the last part."""
    text, mark, *most = of.arguments
    if not isinstance(mark, exp.Literal) or not mark.name or _may_be_empty(mark.name):
        raise refused("split", "the pattern must be a literal that matches no empty text")
    if not most or (isinstance(most[0], exp.Neg) and is_whole(most[0].this)) or most[0].name == "0":
        name = "spark_split_by" if _SIGNS.intersection(mark.name) else "spark_split"
        return call(name, text, mark)
    if _SIGNS.intersection(mark.name) or not is_whole(most[0]):
        raise refused("split with a limit", "the limit must be a literal, and the pattern without signs")
    return call("spark_split_up", text, mark, most[0])


def _may_be_empty(pattern: str) -> bool:
    try:
        return re.search(pattern, "") is not None or "\\b" in pattern or "^" in pattern.strip("[") or "$" in pattern
    except re.error:
        return True


def _elt(of: Call) -> exp.Expr:
    number, *texts = of.arguments
    ifs = [exp.If(this=exp.Is(this=exp.paren(number), expression=exp.Null()), true=exp.Null())]
    for index, text in enumerate(texts):
        chosen = exp.EQ(this=exp.paren(number), expression=exp.Literal.number(index + 1))
        ifs.append(exp.If(this=chosen, true=text.copy()))
    return exp.Case(ifs=ifs, default=call("spark_no_element", number))


def _check_mark(of: Call) -> None:
    """Spark finds marks that lie over one another; where none can, all ways to look for them are the same."""
    mark = of.arguments[1]
    text = mark.name if isinstance(mark, exp.Literal) and mark.is_string else None
    if text is None or any(text.startswith(text[-size:]) for size in range(1, len(text))):
        shown = mark.sql(EverviewSpark)
        raise refused(f"substring_index by {shown}", "the mark must be a literal that does not end as it begins")


def _collapsed(text: str) -> str:
    """Runs of one code as one; the codes of vowels and of what is no letter stand between others, and go last."""
    for sound in _EACH_SOUND:
        text = f"regexp_replace({text}, '{sound}+', '{sound}', 'g')"
    return text


_SOUND_CODES: Final = (
    f"translate(regexp_replace(x, '[^a-zA-Z]', 'A', 'g'), '{_LETTERS}{_LETTERS.upper()}', '{_SOUNDS}{_SOUNDS}')"
)
_SOUNDEX: Final = (
    "CASE WHEN NOT regexp_matches(x, '^[a-zA-Z]') THEN x ELSE upper(left(x, 1)) || rpad(replace("
    "CASE WHEN left(upper(x), 1) IN ('H', 'W') THEN {codes} ELSE substring({codes}, 2) END, "
    "'0', ''), 3, '0') END".format(codes=_collapsed(f"replace({_SOUND_CODES}, '7', '')"))
)
_SUBSTRING_MACROS: Final = {
    "spark_from(x, start)": "CASE WHEN start > 0 THEN CAST(start AS BIGINT) - 1 WHEN start < 0 THEN length(x) + start "
    "ELSE start END",
    "spark_substring(x, start, n)": "substring(x, spark_atleast(spark_from(x, start)) + 1, spark_atleast("
    "spark_from(x, start) + CAST(n AS BIGINT) - spark_atleast(spark_from(x, start))))",
}
_LOCATE: Final = (
    "CASE WHEN start IS NULL THEN 0 WHEN part IS NULL OR x IS NULL THEN NULL "
    "WHEN start < 1 THEN 0 WHEN part = '' THEN 1 WHEN instr(substring(x, start), part) = 0 THEN 0 "
    "ELSE instr(substring(x, start), part) + start - 1 END"
)
_SPLIT_PART: Final = (
    "CASE WHEN n = 0 THEN error('everview: split_part has no part 0') "
    "WHEN mark = '' THEN CASE WHEN abs(n) = 1 THEN x WHEN x IS NULL THEN NULL ELSE '' END "
    "ELSE split_part(x, mark, n) END"
)
_SUBSTRING_INDEX: Final = (
    "CASE WHEN x IS NULL OR mark IS NULL OR n IS NULL THEN NULL WHEN n = 0 OR "
    "mark = '' THEN '' WHEN n > 0 THEN array_to_string(string_split(x, mark)[1:n], mark) "
    "ELSE array_to_string(string_split(x, mark)[n:], mark) END"
)
_FIND_IN_SET: Final = (
    "CASE WHEN x IS NULL OR texts IS NULL THEN NULL WHEN contains(x, ',') THEN 0 "
    "ELSE coalesce(list_position(string_split(texts, ','), x), 0) END"
)
_REPLACE_MACROS: Final = {
    "spark_occurrences(x, old)": "CASE WHEN old = '' THEN 0 ELSE (strlen(x) - strlen(replace(x, old, ''))) // "
    "strlen(old) END",
    "spark_replace(x, old, new)": "replace(spark_fits(x, strlen(x) + CASE WHEN strlen(new) > strlen(old) THEN "
    "spark_occurrences(x, old) * CAST(strlen(new) - strlen(old) AS HUGEINT) ELSE 0 END), old, new)",
}
_REGEXP_REPLACE: Final = (
    "regexp_replace(spark_fits(x, strlen(x) * "
    f"CAST(1 + groups AS HUGEINT) + size * CASE WHEN (strlen(x) + 1) "
    f"* CAST(size + groups + 1 AS HUGEINT) <= {MOST_BYTES} "
    f"OR strlen(x) > {_MOST_COUNTED} THEN strlen(x) + 1 ELSE length(regexp_extract_all(x, pattern)) END), "
    "pattern, new, 'g')"
)
_LEVENSHTEIN_MACROS: Final = {
    "spark_marks(x)": "array_to_string(list_distinct(regexp_extract_all(x, '(?s).')), '')",
    "spark_marked(x, marks)": "translate(x, marks, substring(array_to_string(list_transform(range(1, "
    f"{_BYTE_MARKS + 1}), lambda k: chr(CAST(k AS INTEGER))), ''), 1, length(marks)))",
    "spark_levenshtein(a, b)": "CASE WHEN strlen(a) = length(a) AND strlen(b) = length(b) THEN levenshtein(a, b) "
    f"WHEN length(spark_marks(a || b)) > {_BYTE_MARKS} THEN error('everview: levenshtein takes texts of up to "
    f"{_BYTE_MARKS} different characters') "
    "ELSE levenshtein(spark_marked(a, spark_marks(a || b)), spark_marked(b, spark_marks(a || b))) END",
}
_LUHN: Final = (
    "CASE WHEN x IS NULL THEN NULL WHEN NOT regexp_full_match(x, '[0-9]+') THEN FALSE ELSE "
    "list_sum(list_transform(range(length(x)), lambda k: CASE WHEN k % 2 = 0 THEN CAST(x[-1 - k] AS INTEGER) "
    "WHEN x[-1 - k] > '4' THEN 2 * CAST(x[-1 - k] AS INTEGER) - 9 ELSE 2 * CAST(x[-1 - k] AS INTEGER) END)) "
    "% 10 = 0 END"
)
_SIGNS: Final = frozenset(r"\^$.|?*+()[]{}")
_SPLIT_UP: Final = (
    "CASE WHEN x IS NULL OR len(string_split(x, mark)) <= n THEN string_split(x, mark) ELSE "
    "list_append(string_split(x, mark)[1:n - 1], array_to_string(string_split(x, mark)[n:], mark)) END"
)
_NOT_NEGATIVE: Final = "CASE WHEN n < 0 THEN 0 ELSE n END"


def _padded(name: str) -> Function:
    macro = (
        "CASE WHEN mark = '' THEN left(x, spark_atleast(n)) "
        f"ELSE {name}(x, spark_fits(n, spark_padding(x, n, mark)), mark) END"
    )
    return function(
        name,
        "s i s?",
        STRING,
        f"{name}(s, 7, '*')",
        f"{name}(s, n)",
        f"{name}(s, 8, 'ab')",
        f"{name}(s, 4, u)",
        macros={f"spark_{name}(x, n, mark)": macro},
        spelling=with_last(exp.Literal.string(" "), 3),
    )


FUNCTIONS: Final = (
    function("upper ucase", "s", STRING, "upper(s)", "ucase(s)", is_strict=True),
    function("lower lcase", "s", STRING, "lower(s)", "lcase(s)", is_strict=True),
    function("initcap", "s", STRING, "initcap(s)"),
    function(
        "trim",
        "s s?",
        STRING,
        "trim(concat('  ', s, ' '))",
        "trim('lo', s)",
        "trim(BOTH 'H' FROM s)",
        is_strict=True,
    ),
    function("ltrim", "s s?", STRING, "ltrim(concat('  ', s, ' '))", "ltrim('H', s)"),
    function("rtrim", "s s?", STRING, "rtrim(concat('  ', s, ' '))", "rtrim('o', s)"),
    function(
        "btrim",
        "s s?",
        STRING,
        "btrim(concat('  ', s, ' '))",
        "btrim(s, 'Ho')",
        "btrim(s, u)",
        macros={"spark_btrim(x, marks)": "trim(x, marks)"},
        spelling=with_last(exp.Literal.string(" "), 2),
    ),
    function("reverse", "x", _turned, "reverse(s)", "reverse(array(i, n, NULL))", spelling=_reversed),
    function(
        "soundex",
        "s",
        STRING,
        "soundex(s)",
        "soundex('Ashcraft')",
        "soundex('Pfister')",
        "soundex('H2o')",
        "soundex('robert-rupert')",
        macros={"spark_soundex(x)": _SOUNDEX},
    ),
    function(
        "substring substr",
        "s i i?",
        STRING,
        "substring(s, 2, 3)",
        "substring(s, i)",
        "substring(s, n, n)",
        "substr(s, 2, 3)",
        "substr(s, -n)",
        macros=_SUBSTRING_MACROS,
        spelling=_substring,
        is_strict=True,
    ),
    function(
        "left", "s i", STRING, "left(s, n)", "left(s, i)", macros={"spark_left(x, n)": f"left(x, {_NOT_NEGATIVE})"}
    ),
    function(
        "right",
        "s i",
        STRING,
        "right(s, n)",
        "right(s, -1)",
        macros={"spark_right(x, n)": f"right(x, {_NOT_NEGATIVE})"},
    ),
    _padded("lpad"),
    _padded("rpad"),
    function(
        "repeat",
        "s i",
        STRING,
        "repeat(s, n)",
        "repeat(s, -1)",
        macros={"spark_repeat(x, n)": "repeat(x, spark_fits(n, strlen(x) * CAST(n AS HUGEINT)))"},
    ),
    function("space", "i", STRING, "space(n)", "space(-1)", macros={"spark_space(n)": "repeat(' ', spark_fits(n, n))"}),
    function(
        "replace",
        "s s s?",
        STRING,
        "replace(s, 'l', 'm')",
        "replace(s, '', '')",
        "replace(s, 'l', 'LL')",
        "replace(s, u)",
        "replace(s, u, 'x')",
        macros=_REPLACE_MACROS,
        spelling=_replace,
    ),
    function("translate", "s s s", STRING, "translate(s, 'le', 'L')", "translate(s, 'ab', 'ba')"),
    function("overlay", "s s i i?", STRING, "overlay(s, 'XY', 2)", "overlay(s, u, 2, 1)"),
    function(
        "split",
        "s s i?",
        array_of(STRING),
        "split(s, ',')",
        "split(s, '[,l]')",
        "split(concat(s, 'ab1ab2'), 'ab', 2)",
        "split(concat(s, '..a.b'), '[.]', -1)",
        "split('', ',')",
        macros={
            "spark_split(x, mark)": "string_split(x, mark)",
            "spark_split_by(x, mark)": "string_split_regex(x, mark)",
            "spark_split_up(x, mark, n)": _SPLIT_UP,
        },
        spelling=_split,
    ),
    function(
        "substring_index",
        "s s i",
        STRING,
        "substring_index(s, ',', n)",
        "substring_index(s, ',', -1)",
        "substring_index(s, 'lo', 1)",
        macros={"spark_substring_index(x, mark, n)": _SUBSTRING_INDEX},
        spelling=_check_mark,
    ),
    function(
        "split_part",
        "s s i",
        STRING,
        "split_part(s, ',', 2)",
        "split_part(s, 'l', -1)",
        macros={"spark_split_part(x, mark, n)": _SPLIT_PART},
    ),
    function(
        "concat",
        "x*",
        _joined_type,
        "concat(s, i, p)",
        "concat(s, d)",
        "concat(s, x)",
        "concat(array(1, i), array(n), array(l))",
        "concat(array(i), CAST(NULL AS ARRAY<INT>))",
        spelling=_joined,
        is_strict=True,
    ),
    function(
        "concat_ws",
        "s x*",
        STRING,
        "concat_ws('-', s, u)",
        "concat_ws(u, s, s)",
        "concat_ws(',', i, s)",
        spelling=_joined,
    ),
    function(
        "elt",
        "i s*",
        STRING,
        "elt(1, s, u)",
        "elt(CASE WHEN n > 0 AND n < 3 THEN n ELSE 1 END, s, u)",
        macros={"spark_no_element(n)": "error('everview: elt has no text number ' || n)"},
        spelling=_elt,
    ),
    function("char_length character_length", "s", INT, "char_length(s)", "character_length(s)"),
    function("ascii", "s", INT, "ascii(s)"),
    function("instr", "s s", INT, "instr(s, u)", "instr(s, 'l')"),
    function(
        "locate",
        "s s i?",
        INT,
        "locate(u, s)",
        "locate('l', s, n)",
        macros={"spark_locate(part, x, start)": _LOCATE},
        spelling=with_last(exp.Literal.number(1), 3),
    ),
    function("position", "s s", INT, "position(u, s)", "position('l' IN s)"),
    function(
        "levenshtein",
        "s s",
        INT,
        "levenshtein(s, u)",
        "levenshtein(s, 'Hallö')",
        "levenshtein(s, 'a;b, Üni €€')",
        macros=_LEVENSHTEIN_MACROS,
    ),
    function(
        "find_in_set",
        "s s",
        INT,
        "find_in_set(u, s)",
        "find_in_set('a', s)",
        "find_in_set('', s)",
        "find_in_set(s, 'x,Hello')",
        macros={"spark_find_in_set(x, texts)": _FIND_IN_SET},
    ),
    function("contains", "s s", BOOLEAN, "contains(s, u)"),
    function("startswith", "s s", BOOLEAN, "startswith(s, 'He')"),
    function("endswith", "s s", BOOLEAN, "endswith(s, 'lo')"),
    function("like", "s s", BOOLEAN, "like(s, 'H%')", spelling=_like),
    function(
        "regexp_replace",
        "s s s i?",
        STRING,
        "regexp_replace(s, 'l+', '<$0>')",
        "regexp_replace(s, '[0-9]', '')",
        macros={"spark_regexp_replace(x, pattern, new, size, groups)": _REGEXP_REPLACE},
        spelling=_replace_matches,
    ),
    function(
        "luhn_check",
        "s",
        BOOLEAN,
        "luhn_check(s)",
        "luhn_check('79927398713')",
        "luhn_check(CAST(l AS STRING))",
        macros={"spark_luhn_check(x)": _LUHN},
    ),
)
