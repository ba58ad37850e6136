"""What DuckDB is taught for casts, operators and several functions, so that it computes what Spark SQL means.

Macros of single functions stand in their entries (``functions/``). What makes text longer is told its size first: a
value of more than ``MOST_BYTES`` bytes is an error, and is not made.
"""

from __future__ import annotations

from typing import Final

MOST_BYTES: Final = 16 * 1024 * 1024
"""A text that an expression makes has no more."""
_BY_ZERO = "CASE WHEN a IS NOT NULL THEN error('everview: division by zero') END"  # NULL / 0 is NULL.
WITHOUT_ZERO: Final = f"CASE WHEN b = 0 THEN {_BY_ZERO} ELSE {{}} END"
"""What is computed of ``a`` and ``b``, unless ``b`` is 0."""
_WHOLE = "[+-]?[0-9]+"
_FRACTION = "[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?"
_DOUBLE = f"(?i){_FRACTION}|[+-]?(inf|infinity)|nan"
_DAY = "[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_TIME = "[0-9]{1,2}:[0-9]{1,2}(:[0-9]{1,2}([.][0-9]{1,6})?)?"
_ZONE = "(Z| ?UTC|[+-][0-9]{2}:[0-9]{2})?"
_TRUE, _FALSE = "('t', 'true', 'y', 'yes', '1')", "('f', 'false', 'n', 'no', '0')"


def _guarded(pattern: str) -> str:
    """Text that looks as it must, without the blanks around it; NULL for other text if it is only tried."""
    return f"CASE WHEN regexp_full_match(spark_bare(x), '{pattern}') THEN spark_bare(x) ELSE spark_bad(x, tried) END"


SHARED_MACROS: Final = {
    "spark_digits(x)": "CAST(replace(CAST(x AS VARCHAR), '.', '') AS HUGEINT)",
    "spark_decimal(a, b, shift, unit)": WITHOUT_ZERO.format(
        "CAST(sign(a) * sign(b) * ((abs(spark_digits(a)) * shift + abs(spark_digits(b)) // 2) // abs(spark_digits(b)))"
        " AS DECIMAL(38, 0)) * unit"
    ),
    "spark_whole(a, b)": WITHOUT_ZERO.format("spark_digits(a) // spark_digits(b)"),
    "spark_ratio(a, b)": WITHOUT_ZERO.format("CAST(a AS DOUBLE) / CAST(b AS DOUBLE)"),
    "spark_div(a, b)": WITHOUT_ZERO.format("a // b"),
    "spark_cut(x)": "trunc(x)",
    "spark_atleast(n)": "CASE WHEN n < 0 THEN 0 ELSE n END",
    "spark_bytes(x)": "encode(x)",
    "spark_text(x)": "decode(x)",
    "spark_bare(x)": "trim(x, ' ' || chr(9) || chr(10) || chr(13))",
    "spark_bad(x, tried)": "CASE WHEN tried OR x IS NULL THEN NULL "
    "ELSE error('everview: ''' || x || ''' cannot be cast') END",
    "spark_read_whole(x, tried)": _guarded(_WHOLE),
    "spark_read_decimal(x, tried)": _guarded(_FRACTION),
    "spark_read_double(x, tried)": _guarded(_DOUBLE),
    "spark_read_boolean(x, tried)": f"CASE WHEN lower(spark_bare(x)) IN {_TRUE} THEN 'true' "
    f"WHEN lower(spark_bare(x)) IN {_FALSE} THEN 'false' ELSE spark_bad(x, tried) END",
    "spark_day_of(x)": "CASE WHEN regexp_full_match(x, '[0-9]{4}') THEN x || '-01-01' "
    "WHEN regexp_full_match(x, '[0-9]{4}-[0-9]{1,2}') THEN x || '-01' END",
    "spark_read_date(x, tried)": f"CASE WHEN regexp_full_match(spark_bare(x), '{_DAY}([ T].*)?') THEN "
    f"regexp_extract(spark_bare(x), '^{_DAY}') ELSE coalesce(spark_day_of(spark_bare(x)), spark_bad(x, tried)) END",
    "spark_read_timestamp(x, tried)": f"CASE WHEN regexp_full_match(spark_bare(x), '{_DAY}([ T]{_TIME}{_ZONE})?') THEN "
    "spark_bare(x) ELSE coalesce(spark_day_of(spark_bare(x)), spark_bad(x, tried)) END",
    "spark_parsed(x, pattern, form)": "CASE WHEN regexp_full_match(x, pattern) THEN strptime(x, form) "
    "ELSE CAST(spark_bad(x, FALSE) AS TIMESTAMP) END",
    "spark_head(t)": "split_part(split_part(t, 'e', 1), '.', 1)",
    "spark_figures(t)": "spark_head(t) || split_part(split_part(t, 'e', 1), '.', 2)",
    "spark_exponent(t)": "length(spark_head(t)) - 1 + coalesce(TRY_CAST(split_part(t, 'e', 2) AS INTEGER), 0) "
    "- length(spark_figures(t)) + length(ltrim(spark_figures(t), '0'))",
    "spark_science(s)": "s[1] || '.' || CASE WHEN length(s) > 1 THEN s[2:] ELSE '0' END",
    "spark_long(t)": "spark_science(trim(spark_figures(t), '0')) || 'E' || spark_exponent(t)",
    "spark_fraction(x)": "CASE WHEN isnan(x) THEN 'NaN' WHEN isinf(x) THEN CASE WHEN x > 0 THEN 'Infinity' "
    "ELSE '-Infinity' END WHEN x = 0 OR (abs(x) >= 0.001 AND abs(x) < 10000000) THEN CAST(x AS VARCHAR) "
    "ELSE CASE WHEN x < 0 THEN '-' ELSE '' END || spark_long(CAST(abs(x) AS VARCHAR)) END",
    "spark_octets(y)": "octet_length(y)",
    "spark_text_octets(x)": "strlen(x)",
    "spark_fits(value, size)": f"CASE WHEN size > {MOST_BYTES} THEN error('everview: a text of ' || size || "
    f"' bytes would be made, and a text has at most {MOST_BYTES}') ELSE value END",
    "spark_padding(x, n, mark)": "CASE WHEN strlen(x) > length(x) OR strlen(mark) > length(mark) THEN 4 ELSE 1 END "
    "* CAST(n AS BIGINT)",
}
"""In DuckDB's dialect, by signature, each after those it calls."""
