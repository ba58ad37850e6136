"""Numbers as text: by a base, and by a pattern of digits."""

from __future__ import annotations

import math
from typing import Final

from sqlglot import exp

from everview.query.types import STRING
from everview.sql.functions.entry import Call, function
from everview.sql.nodes import call, is_whole, refused

_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_WORD: Final = 2**64


def _converted(of: Call) -> exp.Expr:
    """By literal bases: how many digits there may be follows from them."""
    text, old, new = of.arguments
    signed = isinstance(new, exp.Neg)
    target = new.this if isinstance(new, exp.Neg) else new
    if not (is_whole(old) and is_whole(target) and all(2 <= int(b.name) <= 36 for b in (old, target))):
        raise refused("conv", "the bases are literals from 2 to 36")
    base, other = int(old.name), int(target.name)
    places = math.ceil(64 / math.log2(other))
    listed = exp.Literal.string(_DIGITS[:base])
    found = call("spark_numeral", text, exp.Literal.string(f"[{_DIGITS[:base]}]*"), listed, exp.Literal.number(base))
    negative = call("spark_is_below", text)
    word = call("spark_conv_signed" if signed else "spark_conv", found, negative)
    shown = call("spark_in_base", word, exp.Literal.number(other), exp.Literal.number(places))
    return call("spark_minus_zero", shown, negative) if signed else shown


FUNCTIONS: Final = (
    function(
        "conv",
        "x i i",
        STRING,
        "conv('100', 2, 10)",
        "conv(i, 10, 16)",
        "conv(l, 10, 2)",
        "conv(l, 10, -36)",
        "conv(s, 16, 10)",
        "conv('ff', 16, -10)",
        "conv('-ff', 16, -10)",
        "conv('-1', 10, 16)",
        "conv('FFFFFFFFFFFFFFFF', 16, -10)",
        "conv(' 12z3 ', 10, 7)",
        "conv('-', 10, 7)",
        "conv('-', 10, -7)",
        macros={
            "spark_is_below(x)": "starts_with(trim(CAST(x AS VARCHAR)), '-')",
            "spark_leading(x, digits)": "regexp_extract(upper(trim(CAST(x AS VARCHAR))), '^-?(' || digits || ')', 1)",
            "spark_numeral(x, digits, list, base)": "CASE WHEN trim(CAST(x AS VARCHAR)) <> '' THEN list_reduce("
            "list_transform(string_split(spark_leading(x, digits), ''), lambda d: CAST(strpos(list, d) - 1 AS "
            f"HUGEINT)), lambda a, d: CASE WHEN a >= {_WORD} THEN a ELSE a * base + d END, CAST(0 AS HUGEINT)) END",
            "spark_minus_zero(t, below)": "CASE WHEN below AND t = '0' THEN '-0' ELSE t END",
            "spark_in_word(v)": f"CASE WHEN v >= {_WORD} THEN error('everview: conv: the number is beyond 64 bits') "
            "ELSE v END",
            "spark_conv(v, below)": f"CASE WHEN below AND spark_in_word(v) > {_WORD // 2 - 1} THEN {_WORD - 1} "
            f"WHEN below AND v > 0 THEN {_WORD} - v ELSE spark_in_word(v) END",
            "spark_conv_signed(v, below)": f"CASE WHEN spark_in_word(v) >= {_WORD // 2} THEN v - {_WORD} "
            "WHEN below THEN -v ELSE v END",
            "spark_in_base(v, base, places)": "CASE WHEN v = 0 THEN '0' ELSE CASE WHEN v < 0 THEN '-' ELSE '' END || "
            "ltrim(array_to_string(list_transform(range(places), lambda i: "
            f"'{_DIGITS}'[CAST(abs(v) // list_reduce(list_transform(range(places - 1 - i), lambda j: CAST(base AS "
            "HUGEINT)), lambda a, b: a * b, CAST(1 AS HUGEINT)) % base AS INTEGER) + 1]), ''), '0') END",
        },
        spelling=_converted,
    ),
)
