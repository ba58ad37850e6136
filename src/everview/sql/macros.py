"""Functions that DuckDB is taught so that it computes what Spark SQL means."""

from __future__ import annotations

from typing import Final

from everview.sql.text_macros import TEXT_MACROS

_FLOORED = "(({x}) - ((({x}) % {unit}) + {unit}) % {unit}) // {unit}"
_BY_ZERO = "CASE WHEN a IS NOT NULL THEN error('everview: division by zero') END"  # NULL / 0 is NULL.
_WITHOUT_ZERO = f"CASE WHEN b = 0 THEN {_BY_ZERO} ELSE {{}} END"
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


MACROS: Final = {
    "spark_digits(x)": "CAST(replace(CAST(x AS VARCHAR), '.', '') AS HUGEINT)",
    "spark_decimal(a, b, shift, unit)": _WITHOUT_ZERO.format(
        "CAST(sign(a) * sign(b) * ((abs(spark_digits(a)) * shift + abs(spark_digits(b)) // 2) // abs(spark_digits(b)))"
        " AS DECIMAL(38, 0)) * unit"
    ),
    "spark_whole(a, b)": _WITHOUT_ZERO.format("spark_digits(a) // spark_digits(b)"),
    "spark_ratio(a, b)": _WITHOUT_ZERO.format("CAST(a AS DOUBLE) / CAST(b AS DOUBLE)"),
    "spark_div(a, b)": _WITHOUT_ZERO.format("a // b"),
    "spark_mod(a, b)": _WITHOUT_ZERO.format("a % b"),
    "spark_pmod(a, b)": _WITHOUT_ZERO.format("CASE WHEN a % b < 0 THEN (a % b + b) % b ELSE a % b END"),
    "spark_cut(x)": "trunc(x)",
    "spark_isnull(x)": "x IS NULL",
    "spark_isnotnull(x)": "x IS NOT NULL",
    "spark_isnan(x)": "coalesce(isnan(CAST(x AS DOUBLE)), FALSE)",
    "spark_nanvl(a, b)": "CASE WHEN isnan(a) THEN b ELSE a END",
    "spark_nullifzero(x)": "nullif(x, 0)",
    "spark_zeroifnull(x)": "coalesce(x, 0)",
    "spark_negative(x)": "-x",
    "spark_positive(x)": "x",
    "spark_rint(x)": "round_even(x, 0)",
    "spark_e()": "exp(1.0)",
    "spark_ln(x)": "CASE WHEN x > 0 THEN ln(CAST(x AS DOUBLE)) END",
    "spark_log2(x)": "CASE WHEN x > 0 THEN log2(CAST(x AS DOUBLE)) END",
    "spark_log10(x)": "CASE WHEN x > 0 THEN log10(CAST(x AS DOUBLE)) END",
    "spark_logarithm(b, x)": "spark_ln(x) / spark_ln(b)",
    "spark_rounded(x, digits)": "CASE WHEN abs(x) < 1e16 THEN CAST(CAST(round(CAST(CAST(x AS VARCHAR) AS "
    "DECIMAL(38, 20)), digits) AS VARCHAR) AS DOUBLE) ELSE x END",
    "spark_wrapped(x, size)": "((x + size // 2) % size + size) % size - size // 2",
    "spark_left_int(x, n)": "CAST(spark_wrapped(CAST(x AS HUGEINT) * (CAST(1 AS HUGEINT) << (n & 31)), 4294967296) "
    "AS INTEGER)",
    "spark_left_bigint(x, n)": "CAST(spark_wrapped(CAST(x AS HUGEINT) * (CAST(1 AS HUGEINT) << (n & 63)), "
    "18446744073709551616) AS BIGINT)",
    "spark_right_int(x, n)": "x >> (n & 31)",
    "spark_right_bigint(x, n)": "x >> (n & 63)",
    "spark_left(x, n)": "left(x, CASE WHEN n < 0 THEN 0 ELSE n END)",
    "spark_right(x, n)": "right(x, CASE WHEN n < 0 THEN 0 ELSE n END)",
    "spark_from(x, start)": "CASE WHEN start > 0 THEN CAST(start AS BIGINT) - 1 WHEN start < 0 THEN length(x) + start "
    "ELSE start END",
    "spark_atleast(n)": "CASE WHEN n < 0 THEN 0 ELSE n END",
    "spark_substring(x, start, n)": "substring(x, spark_atleast(spark_from(x, start)) + 1, spark_atleast("
    "spark_from(x, start) + CAST(n AS BIGINT) - spark_atleast(spark_from(x, start))))",
    "spark_locate(part, x, start)": "CASE WHEN start IS NULL THEN 0 WHEN part IS NULL OR x IS NULL THEN NULL "
    "WHEN start < 1 THEN 0 WHEN part = '' THEN 1 WHEN instr(substring(x, start), part) = 0 THEN 0 "
    "ELSE instr(substring(x, start), part) + start - 1 END",
    "spark_char(n)": "CASE WHEN n < 0 THEN '' ELSE chr(CAST(n & 255 AS INTEGER)) END",
    "spark_chr(n)": "spark_char(n)",
    "spark_split_part(x, mark, n)": "CASE WHEN n = 0 THEN error('everview: split_part has no part 0') "
    "WHEN mark = '' THEN CASE WHEN abs(n) = 1 THEN x WHEN x IS NULL THEN NULL ELSE '' END "
    "ELSE split_part(x, mark, n) END",
    "spark_bytes(x)": "encode(x)",
    "spark_text(x)": "decode(x)",
    "spark_dayofweek(x)": "dayofweek(x) + 1",
    "spark_weekday(x)": "isodow(x) - 1",
    "spark_dayname(x)": "left(dayname(x), 3)",
    "spark_monthname(x)": "left(monthname(x), 3)",
    "spark_seconds(x)": "CAST((epoch_us(x) % 60000000 + 60000000) % 60000000 AS DECIMAL(8, 0)) * 0.000001",
    "spark_unix_seconds(x)": _FLOORED.format(x="epoch_us(x)", unit=1_000_000),
    "spark_unix_millis(x)": _FLOORED.format(x="epoch_us(x)", unit=1_000),
    "spark_unix_timestamp(x)": "epoch_us(x) // 1000000",
    "spark_timestamp_seconds(x)": "make_timestamptz(CAST(x * 1000000 AS BIGINT))",
    "spark_timestamp_millis(x)": "make_timestamptz(CAST(x AS BIGINT) * 1000)",
    "spark_timestamp_micros(x)": "make_timestamptz(CAST(x AS BIGINT))",
    "spark_from_utc_timestamp(x, zone)": "timezone('UTC', timezone(zone, x))",
    "spark_months(a, b)": "(year(a) - year(b)) * 12 + month(a) - month(b)",
    "spark_second_of_month(x)": "day(x) * 86400 + hour(x) * 3600 + minute(x) * 60 + second(x)",
    "spark_is_last(x)": "day(x) = day(last_day(x))",
    "spark_months_between(a, b)": "CASE WHEN day(a) = day(b) OR (spark_is_last(a) AND spark_is_last(b)) "
    "THEN CAST(spark_months(a, b) AS DOUBLE) ELSE floor((spark_months(a, b) + (spark_second_of_month(a) "
    "- spark_second_of_month(b)) / CAST(2678400 AS DOUBLE)) * 1e8 + 0.5) / 1e8 END",
    "spark_span(unit, a, b)": "(epoch_us(b) - epoch_us(a)) // unit",
    "spark_last_whole_day(a, b)": "CASE WHEN CAST(b AS DATE) > CAST(a AS DATE) AND CAST(b AS TIME) < CAST(a AS TIME) "
    "THEN CAST(b AS DATE) - 1 WHEN CAST(b AS DATE) < CAST(a AS DATE) AND CAST(b AS TIME) > CAST(a AS TIME) "
    "THEN CAST(b AS DATE) + 1 ELSE CAST(b AS DATE) END",
    "spark_in_month(x)": "(year(x) * 12 + month(x)) * 32 + day(x)",
    "spark_span_of_months(unit, a, b)": "CAST((spark_in_month(spark_last_whole_day(a, b)) - spark_in_month(a)) // 32 "
    "// unit AS BIGINT)",
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
    **TEXT_MACROS,
}
"""In DuckDB's dialect, by signature, each after those it calls; one that has a function's name stands for it."""
