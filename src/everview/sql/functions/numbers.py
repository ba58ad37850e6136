"""Functions of numbers: arithmetic, rounding, bits, logarithms and angles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from everview.query.types import BIGINT, DOUBLE, INT, MOST_DIGITS, STRING, TINYINT, DataType, Kind
from everview.sql.dialect import EverviewSpark
from everview.sql.functions.choices import united
from everview.sql.functions.entry import Call, Function, common, function, rounded, same, whole
from everview.sql.macros import WITHOUT_ZERO
from everview.sql.nodes import call, cast, is_whole, refused
from everview.sql.sql_text import SqlText

_SHIFTS: Final = {
    "shiftleft": "spark_left",
    "shiftright": "spark_right",
    "shiftrightunsigned": "spark_unsigned_right",
}
_MOST_ROUNDED: Final = 15


def shifted(name: str, sides: Sequence[exp.Expr], type_: DataType) -> exp.Expr:
    """Bits moved by an amount that is taken modulo the width."""
    if type_.kind not in (Kind.INT, Kind.BIGINT):
        raise refused(f"{name} of {type_}", "Spark makes it INT")
    return call(f"{_SHIFTS[name]}_{type_.kind.value.lower()}", *sides)


def _shifted(of: Call) -> exp.Expr:
    return shifted(of.name, of.arguments, of.type)


def _logarithm(of: Call) -> exp.Expr:
    return call("spark_ln" if len(of.arguments) == 1 else "spark_logarithm", *of.arguments)


def _of_doubles(of: Call) -> exp.Expr:
    return of.with_arguments(*(cast(a, DOUBLE) for a in of.arguments))


def _in_doubles(of: Call) -> exp.Expr:
    """All but the last argument."""
    *values, count = of.arguments
    return of.with_arguments(*(cast(v, DOUBLE) for v in values), cast(count, BIGINT))


def _wide_first(of: Call) -> exp.Expr:
    value, place = of.arguments
    width = _WIDTHS.get(of.first_type.kind, 64) if of.first_type is not None else 64
    return of.with_arguments(cast(value, BIGINT), place, exp.Literal.number(width))


_WIDTHS: Final = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INT: 32}


_BUCKET: Final = (
    "CASE WHEN v IS NULL OR low IS NULL OR high IS NULL OR n IS NULL THEN NULL "
    "WHEN n <= 0 OR low = high OR isnan(v) OR NOT isfinite(low) OR NOT isfinite(high) THEN NULL "
    "WHEN low < high AND v < low THEN 0 WHEN low < high AND v >= high THEN n + 1 "
    "WHEN low > high AND v > low THEN 0 WHEN low > high AND v <= high THEN n + 1 "
    "ELSE CAST(floor(n * (v - low) / (high - low)) AS BIGINT) + 1 END"
)


def _bits(of: Call) -> exp.Expr | None:
    type_ = of.first_type
    if type_ is None:
        return None
    if not (type_.is_integer or type_.kind in (Kind.BOOLEAN, Kind.NULL)):
        raise refused(f"bit_count of {type_}", "it takes integers and booleans")
    return of.with_arguments(cast(of.arguments[0], BIGINT))


def _rounded(of: Call) -> exp.Expr | None:
    type_ = of.first_type
    if type_ is None or type_.kind not in (Kind.FLOAT, Kind.DOUBLE):
        return None
    digits = of.arguments[1] if len(of.arguments) > 1 else None
    if digits is None or isinstance(digits, exp.Neg) or digits.name == "0":
        return None
    if not is_whole(digits) or int(digits.name) > _MOST_ROUNDED:
        shown = of.with_arguments(*of.arguments).sql(EverviewSpark)
        raise refused(shown, f"the number of digits must be a literal up to {_MOST_ROUNDED}")
    inner = call("spark_rounded", cast(of.arguments[0], DOUBLE), digits)
    return inner if type_.kind is Kind.DOUBLE else cast(inner, type_)


def _half_even(of: Call) -> exp.Expr | None:
    value, first = of.arguments[0], of.first_type
    if first is None:
        return None
    digits = of.arguments[1] if len(of.arguments) > 1 else exp.Literal.number(0)
    if not is_whole(digits) or int(digits.name) > _MOST_ROUNDED:
        raise refused("bround", f"the number of digits must be a literal from 0 to {_MOST_ROUNDED}")
    if first.kind in (Kind.FLOAT, Kind.DOUBLE):
        found = of.with_arguments(cast(value, DOUBLE), digits)
        return found if first.kind is Kind.DOUBLE else cast(found, first)
    kept = int(digits.name)
    if first.kind is not Kind.DECIMAL or kept >= first.scale:
        return cast(value, of.type)
    unit = exp.Literal.number(10 ** (first.scale - kept))
    integer = call("spark_half_even", cast(value, DataType(Kind.DECIMAL, MOST_DIGITS, first.scale)), unit)
    least = cast(exp.Literal.string(f"{10**-kept:.{kept}f}"), DataType(Kind.DECIMAL, MOST_DIGITS, kept))
    exact = exp.Mul(this=cast(integer, DataType(Kind.DECIMAL, MOST_DIGITS, 0)), expression=least)
    return cast(exp.paren(exact), of.type)


def _shown(of: Call) -> exp.Expr | None:
    first = of.first_type
    if first is None:
        return None
    value, digits = of.arguments
    if not is_whole(digits) or int(digits.name) > _MOST_ROUNDED:
        raise refused("format_number", f"the number of digits must be a literal from 0 to {_MOST_ROUNDED}")
    if first.kind in (Kind.FLOAT, Kind.DOUBLE):
        return call("spark_shown", cast(value, DOUBLE), digits)
    if first.kind is Kind.DECIMAL and int(digits.name) < first.scale:
        raise refused(f"format_number of {first} with {digits.name} digits", f"it has {first.scale}: use bround before")
    return call("spark_shown_exactly", cast(value, STRING), digits)


def _tried_type(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    found = common(node, types, source)
    if found.kind is Kind.DECIMAL:
        name = node.name.lower()
        raise source.unsupported(f"{name} of {found}", node, hint="CAST to more digits, and use the operator")
    return found if found.is_integer or found.is_open else DOUBLE


def _tried(name: str, sign: str, *examples: str) -> Function:
    """Arithmetic that is NULL beyond its type."""

    def spelled(of: Call) -> exp.Expr:
        if of.type.is_integer:
            return call(f"spark_{name}_{of.type.kind.value.lower()}", *of.arguments)
        return call(f"spark_{name}_double", *(cast(a, DOUBLE) for a in of.arguments))

    macros = {
        f"spark_{name}_{kind.value.lower()}(a, b)": f"TRY_CAST(CAST(a AS HUGEINT) {sign} CAST(b AS HUGEINT) AS {words})"
        for kind, words in _WORDS.items()
    }
    macros[f"spark_{name}_double(a, b)"] = f"a {sign} b"
    return function(name, "n n", _tried_type, *examples, macros=macros, spelling=spelled)


_WORDS: Final = {Kind.TINYINT: "TINYINT", Kind.SMALLINT: "SMALLINT", Kind.INT: "INTEGER", Kind.BIGINT: "BIGINT"}


def _double(names: str, *examples: str) -> Function:
    """A function of one number that is a DOUBLE in Spark and in DuckDB."""
    return function(names, "n", DOUBLE, *examples)


def _positive_only(name: str, duckdb: str, example: str) -> Function:
    """A logarithm, which is NULL for what has none."""
    macro = {f"spark_{name}(x)": f"CASE WHEN x > 0 THEN {duckdb}(CAST(x AS DOUBLE)) END"}
    return function(name, "n", DOUBLE, example, macros=macro)


_HALF_EVEN: Final = (
    "spark_digits(x) // unit + sign(spark_digits(x)) * CASE WHEN 2 * abs(spark_digits(x) % unit) > unit OR "
    "(2 * abs(spark_digits(x) % unit) = unit AND abs(spark_digits(x) // unit) % 2 = 1) THEN 1 ELSE 0 END"
)
_SHIFT_LEFT_MACROS: Final = {
    "spark_wrapped(x, size)": "((x + size // 2) % size + size) % size - size // 2",
    "spark_left_int(x, n)": "CAST(spark_wrapped(CAST(x AS HUGEINT) * (CAST(1 AS HUGEINT) << (n & 31)), 4294967296) "
    "AS INTEGER)",
    "spark_left_bigint(x, n)": "CAST(spark_wrapped(CAST(x AS HUGEINT) * (CAST(1 AS HUGEINT) << (n & 63)), "
    "18446744073709551616) AS BIGINT)",
}
_ROUND_MACROS: Final = {
    "spark_rounded(x, digits)": "CASE WHEN abs(x) < 1e16 THEN CAST(CAST(round(CAST(CAST(x AS VARCHAR) AS "
    "DECIMAL(38, 20)), digits) AS VARCHAR) AS DOUBLE) ELSE x END",
}
_BROUND_MACROS: Final = {
    "spark_half_even(x, unit)": _HALF_EVEN,
    "spark_bround(x, digits)": "CASE WHEN abs(x) < 1e16 THEN CAST(CAST(spark_half_even(CAST(CAST(x AS VARCHAR) AS "
    "DECIMAL(38, 20)), CAST(pow(10, 20 - digits) AS HUGEINT)) AS VARCHAR) || 'e' || (-digits) AS DOUBLE) ELSE x END",
}
_FORMAT_MACROS: Final = {
    "spark_shown(x, digits)": "CASE WHEN isnan(x) THEN 'NaN' WHEN isinf(x) THEN CASE WHEN x < 0 THEN '-∞' ELSE '∞' END "
    "ELSE format('{:,.' || digits || 'f}', x) END",
    "spark_grouped(t)": "CASE WHEN t LIKE '-%' THEN '-' ELSE '' END || ltrim(reverse(regexp_replace(reverse(ltrim("
    "split_part(t, '.', 1), '-')), '([0-9]{3})', '\\1,', 'g')), ',')",
    "spark_shown_exactly(t, digits)": "spark_grouped(t) || CASE WHEN digits = 0 THEN '' ELSE '.' || "
    "rpad(split_part(t, '.', 2), digits, '0') END",
}
_HYPOT: Final = (
    "CASE WHEN a IS NULL OR b IS NULL THEN NULL "
    "WHEN isinf(a) OR isinf(b) THEN CAST('inf' AS DOUBLE) WHEN a = 0 AND b = 0 THEN "
    "CAST(0 AS DOUBLE) ELSE greatest(abs(a), abs(b)) "
    "* sqrt(1 + pow(least(abs(a), abs(b)) / greatest(abs(a), abs(b)), 2)) END"
)
_EXPM1: Final = (
    "CASE WHEN exp(x) = 1 THEN x WHEN exp(x) - 1 = -1 THEN CAST(-1 AS DOUBLE) "
    "WHEN isinf(exp(x)) THEN exp(x) ELSE (exp(x) - 1) * x / ln(exp(x)) END"
)
_LOG1P: Final = (
    "CASE WHEN x <= -1 THEN NULL WHEN 1 + x = 1 THEN x WHEN isinf(x) THEN x ELSE ln(1 + x) * x / (1 + x - 1) END"
)
_FACTORIAL: Final = "CASE WHEN n BETWEEN 0 AND 20 THEN factorial(CAST(n AS INTEGER)) END"

FUNCTIONS: Final = (
    function("abs", "d", same, "abs(i)", "abs(p)", "abs(x)", "abs(d - DATE '2001-01-01')", is_strict=True),
    function(
        "negative", "d", same, "negative(x)", "negative(p)", "negative(ts - d)", macros={"spark_negative(x)": "-x"}
    ),
    function("positive", "d", same, "positive(i)", macros={"spark_positive(x)": "x"}),
    _tried("try_add", "+", "try_add(i, 2147483640)", "try_add(l, i)", "try_add(x, n)", "try_add(t, t)"),
    _tried("try_subtract", "-", "try_subtract(i, 2147483640)", "try_subtract(x, z)", "try_subtract(l, -9)"),
    _tried("try_multiply", "*", "try_multiply(l, l)", "try_multiply(i, i)", "try_multiply(z, i)"),
    function("sign signum", "d", DOUBLE, "sign(x)", "sign(ts - d)", "sign(i)", "signum(p)"),
    function(
        "mod",
        "n n",
        common,
        "mod(i, 4)",
        "mod(x, 2)",
        macros={"spark_mod(a, b)": WITHOUT_ZERO.format("a % b")},
        spelling=united,
        is_widened=True,
    ),
    function(
        "pmod",
        "n n",
        common,
        "pmod(i, 4)",
        "pmod(l, 7)",
        macros={"spark_pmod(a, b)": WITHOUT_ZERO.format("CASE WHEN a % b < 0 THEN (a % b + b) % b ELSE a % b END")},
        spelling=united,
    ),
    function("ceil ceiling", "n", whole, "ceil(x)", "ceil(p)", "ceiling(x)", is_strict=True),
    function("floor", "n", whole, "floor(x)", "floor(p)", is_strict=True),
    function(
        "round",
        "n i?",
        rounded,
        "round(x, 1)",
        "round(p, 1)",
        "round(p)",
        "round(x)",
        "round(i)",
        macros=_ROUND_MACROS,
        spelling=_rounded,
        is_strict=True,
    ),
    function(
        "bround",
        "n i?",
        rounded,
        "bround(x, 1)",
        "bround(p, 1)",
        "bround(p)",
        "bround(x)",
        "bround(i)",
        macros=_BROUND_MACROS,
        spelling=_half_even,
    ),
    function("rint", "n", DOUBLE, "rint(x)", "rint(z)", macros={"spark_rint(x)": "round_even(x, 0)"}),
    function(
        "format_number",
        "n i",
        STRING,
        "format_number(x, 2)",
        "format_number(p, 2)",
        "format_number(l, 0)",
        "format_number(i, 3)",
        "format_number(x, 0)",
        macros=_FORMAT_MACROS,
        spelling=_shown,
    ),
    function(
        "shiftleft",
        "i i",
        same,
        "shiftleft(i, n)",
        "shiftleft(l, 33)",
        macros=_SHIFT_LEFT_MACROS,
        spelling=_shifted,
    ),
    function(
        "shiftright",
        "i i",
        same,
        "shiftright(i, n)",
        "shiftright(l, 2)",
        macros={"spark_right_int(x, n)": "x >> (n & 31)", "spark_right_bigint(x, n)": "x >> (n & 63)"},
        spelling=_shifted,
    ),
    function(
        "shiftrightunsigned",
        "i i",
        same,
        "shiftrightunsigned(i, n)",
        "shiftrightunsigned(l, 3)",
        macros={
            "spark_unsigned_right_int(x, n)": "CAST(spark_wrapped(((CAST(x AS HUGEINT) + 4294967296) % 4294967296) "
            ">> (n & 31), 4294967296) AS INTEGER)",
            "spark_unsigned_right_bigint(x, n)": "CAST(spark_wrapped(((CAST(x AS HUGEINT) + 18446744073709551616) "
            "% 18446744073709551616) >> (n & 63), 18446744073709551616) AS BIGINT)",
        },
        spelling=_shifted,
    ),
    function(
        "bit_count",
        "x",
        INT,
        "bit_count(i)",
        "bit_count(l)",
        "bit_count(t)",
        "bit_count(b)",
        spelling=_bits,
    ),
    function(
        "width_bucket",
        "n n n i",
        BIGINT,
        "width_bucket(x, -1, 3, 4)",
        "width_bucket(x, 3.0, -1.0, 5)",
        "width_bucket(z, 0, 1, n)",
        "width_bucket(x, 1, 1, 4)",
        macros={"spark_width_bucket(v, low, high, n)": _BUCKET},
        spelling=_in_doubles,
    ),
    function(
        "bit_get getbit",
        "i i",
        TINYINT,
        "bit_get(l, 3)",
        "getbit(i, n)",
        macros={
            "spark_bit_get(x, n, width)": "CASE WHEN n < 0 OR n >= width THEN error('everview: there is no bit ' || n) "
            "ELSE CAST((x >> CAST(n AS INTEGER)) & 1 AS TINYINT) END"
        },
        spelling=_wide_first,
    ),
    function("sec", "n", DOUBLE, "sec(z)", macros={"spark_sec(x)": "1 / cos(x)"}, spelling=_of_doubles),
    function("csc", "n", DOUBLE, "csc(z + 0.5)", macros={"spark_csc(x)": "1 / sin(x)"}, spelling=_of_doubles),
    function(
        "factorial",
        "i",
        BIGINT,
        "factorial(n)",
        "factorial(i)",
        "factorial(20)",
        macros={"spark_factorial(n)": _FACTORIAL},
    ),
    _double("sqrt", "sqrt(x)", "sqrt(n)"),
    _double("cbrt", "cbrt(x)", "cbrt(i)"),
    _double("exp", "exp(z)"),
    function(
        "expm1",
        "n",
        DOUBLE,
        "expm1(z)",
        "expm1(1e-10)",
        macros={"spark_expm1(x)": _EXPM1},
        spelling=_of_doubles,
    ),
    _positive_only("ln", "ln", "ln(x)"),
    function(
        "log",
        "n n?",
        DOUBLE,
        "log(x)",
        "log(2, x)",
        macros={"spark_logarithm(b, x)": "spark_ln(x) / spark_ln(b)"},
        spelling=_logarithm,
    ),
    _positive_only("log2", "log2", "log2(x)"),
    _positive_only("log10", "log10", "log10(p)"),
    function(
        "log1p",
        "n",
        DOUBLE,
        "log1p(x)",
        "log1p(1e-10)",
        "log1p(z)",
        macros={"spark_log1p(x)": _LOG1P},
        spelling=_of_doubles,
    ),
    function("power pow", "n n", DOUBLE, "power(x, 2)", "power(z, -1)", "pow(x, n)"),
    function(
        "hypot",
        "n n",
        DOUBLE,
        "hypot(x, z)",
        "hypot(3, 4)",
        "hypot(1e200, 1e200)",
        macros={"spark_hypot(a, b)": _HYPOT},
        spelling=_of_doubles,
    ),
    function("pi", "", DOUBLE, "pi()"),
    function("e", "", DOUBLE, "e()", macros={"spark_e()": "exp(1.0)"}),
    _double("sin", "sin(x)"),
    _double("cos", "cos(x)"),
    _double("tan", "tan(z)"),
    _double("cot", "cot(z)"),
    _double("asin", "asin(z)", "asin(x)"),
    _double("acos", "acos(z)", "acos(x)"),
    _double("atan", "atan(x)"),
    function("atan2", "n n", DOUBLE, "atan2(x, z)"),
    _double("sinh", "sinh(z)"),
    _double("cosh", "cosh(z)"),
    _double("tanh", "tanh(z)"),
    _double("asinh", "asinh(x)"),
    _double("acosh", "acosh(x)", "acosh(n)"),
    _double("atanh", "atanh(z)", "atanh(x)"),
    _double("degrees", "degrees(z)"),
    _double("radians", "radians(x)"),
)
