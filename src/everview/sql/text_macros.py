"""Functions of text, bytes and numbers that DuckDB lacks, or means otherwise, built from those that it has.

What makes text longer is told its size first: a value of more than ``MOST_BYTES`` bytes is an error, and is not made.
"""

from __future__ import annotations

from typing import Final

MOST_BYTES: Final = 16 * 1024 * 1024
"""A text that an expression makes has no more."""
MOST_COUNTED: Final = 1024 * 1024
"""In longer texts, matches of regular expressions are not counted: there may be one at each place."""
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_SOUNDS: Final = "01230127022455012623017202"
_EACH_SOUND: Final = "123456"
_BYTE_MARKS: Final = 127


def _collapsed(text: str) -> str:
    """Runs of one code as one; the codes of vowels and of what is no letter stand between others, and go last."""
    for sound in _EACH_SOUND:
        text = f"regexp_replace({text}, '{sound}+', '{sound}', 'g')"
    return text


def _crc_table() -> str:
    found = []
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (0xEDB88320 if number & 1 else 0)
        found.append(f"{number}")
    return f"CAST([{', '.join(found)}] AS BIGINT[])"


_SOUND_CODES = (
    f"translate(regexp_replace(x, '[^a-zA-Z]', 'A', 'g'), '{_LETTERS}{_LETTERS.upper()}', '{_SOUNDS}{_SOUNDS}')"
)
_HALF_EVEN = (
    "spark_digits(x) // unit + sign(spark_digits(x)) * CASE WHEN 2 * abs(spark_digits(x) % unit) > unit OR "
    "(2 * abs(spark_digits(x) % unit) = unit AND abs(spark_digits(x) // unit) % 2 = 1) THEN 1 ELSE 0 END"
)

TEXT_MACROS: Final = {
    "spark_fits(value, size)": f"CASE WHEN size > {MOST_BYTES} THEN error('everview: a text of ' || size || "
    f"' bytes would be made, and a text has at most {MOST_BYTES}') ELSE value END",
    "spark_repeat(x, n)": "repeat(x, spark_fits(n, strlen(x) * CAST(n AS HUGEINT)))",
    "spark_space(n)": "repeat(' ', spark_fits(n, n))",
    "spark_padding(x, n, mark)": "CASE WHEN strlen(x) > length(x) OR strlen(mark) > length(mark) THEN 4 ELSE 1 END "
    "* CAST(n AS BIGINT)",
    "spark_lpad(x, n, mark)": "CASE WHEN mark = '' THEN left(x, spark_atleast(n)) "
    "ELSE lpad(x, spark_fits(n, spark_padding(x, n, mark)), mark) END",
    "spark_rpad(x, n, mark)": "CASE WHEN mark = '' THEN left(x, spark_atleast(n)) "
    "ELSE rpad(x, spark_fits(n, spark_padding(x, n, mark)), mark) END",
    "spark_occurrences(x, old)": "CASE WHEN old = '' THEN 0 ELSE (strlen(x) - strlen(replace(x, old, ''))) // "
    "strlen(old) END",
    "spark_replace(x, old, new)": "replace(spark_fits(x, strlen(x) + CASE WHEN strlen(new) > strlen(old) THEN "
    "spark_occurrences(x, old) * CAST(strlen(new) - strlen(old) AS HUGEINT) ELSE 0 END), old, new)",
    "spark_regexp_replace(x, pattern, new, size, groups)": "regexp_replace(spark_fits(x, strlen(x) * "
    f"CAST(1 + groups AS HUGEINT) + size * CASE WHEN (strlen(x) + 1) "
    f"* CAST(size + groups + 1 AS HUGEINT) <= {MOST_BYTES} "
    f"OR strlen(x) > {MOST_COUNTED} THEN strlen(x) + 1 ELSE length(regexp_extract_all(x, pattern)) END), "
    "pattern, new, 'g')",
    "spark_btrim(x, marks)": "trim(x, marks)",
    "spark_soundex(x)": "CASE WHEN NOT regexp_matches(x, '^[a-zA-Z]') THEN x ELSE upper(left(x, 1)) || rpad(replace("
    "CASE WHEN left(upper(x), 1) IN ('H', 'W') THEN {codes} ELSE substring({codes}, 2) END, "
    "'0', ''), 3, '0') END".format(codes=_collapsed(f"replace({_SOUND_CODES}, '7', '')")),
    "spark_substring_index(x, mark, n)": "CASE WHEN x IS NULL OR mark IS NULL OR n IS NULL THEN NULL WHEN n = 0 OR "
    "mark = '' THEN '' WHEN n > 0 THEN array_to_string(string_split(x, mark)[1:n], mark) "
    "ELSE array_to_string(string_split(x, mark)[n:], mark) END",
    "spark_find_in_set(x, texts)": "CASE WHEN x IS NULL OR texts IS NULL THEN NULL WHEN contains(x, ',') THEN 0 "
    "ELSE coalesce(list_position(string_split(texts, ','), x), 0) END",
    "spark_marks(x)": "array_to_string(list_distinct(regexp_extract_all(x, '(?s).')), '')",
    "spark_marked(x, marks)": "translate(x, marks, substring(array_to_string(list_transform(range(1, "
    f"{_BYTE_MARKS + 1}), lambda k: chr(CAST(k AS INTEGER))), ''), 1, length(marks)))",
    "spark_levenshtein(a, b)": "CASE WHEN strlen(a) = length(a) AND strlen(b) = length(b) THEN levenshtein(a, b) "
    f"WHEN length(spark_marks(a || b)) > {_BYTE_MARKS} THEN error('everview: levenshtein takes texts of up to "
    f"{_BYTE_MARKS} different characters') "
    "ELSE levenshtein(spark_marked(a, spark_marks(a || b)), spark_marked(b, spark_marks(a || b))) END",
    "spark_bytes_of(y)": "list_transform(regexp_extract_all(hex(y), '..'), lambda h: CAST('0x' || h AS BIGINT))",
    "spark_crc32(y)": f"CASE WHEN y IS NOT NULL THEN xor(list_reduce(list_prepend(CAST(4294967295 AS BIGINT), "
    f"spark_bytes_of(y)), lambda crc, byte: xor(crc >> 8, {_crc_table()}[(xor(crc, byte) & 255) + 1])), "
    "CAST(4294967295 AS BIGINT)) END",
    "spark_luhn_check(x)": "CASE WHEN x IS NULL THEN NULL WHEN NOT regexp_full_match(x, '[0-9]+') THEN FALSE ELSE "
    "list_sum(list_transform(range(length(x)), lambda k: CASE WHEN k % 2 = 0 THEN CAST(x[-1 - k] AS INTEGER) "
    "WHEN x[-1 - k] > '4' THEN 2 * CAST(x[-1 - k] AS INTEGER) - 9 ELSE 2 * CAST(x[-1 - k] AS INTEGER) END)) "
    "% 10 = 0 END",
    "spark_no_element(n)": "error('everview: elt has no text number ' || n)",
    "spark_octets(y)": "octet_length(y)",
    "spark_text_octets(x)": "strlen(x)",
    "spark_factorial(n)": "CASE WHEN n BETWEEN 0 AND 20 THEN factorial(CAST(n AS INTEGER)) END",
    "spark_hypot(a, b)": "CASE WHEN a IS NULL OR b IS NULL THEN NULL "
    "WHEN isinf(a) OR isinf(b) THEN CAST('inf' AS DOUBLE) WHEN a = 0 AND b = 0 THEN "
    "CAST(0 AS DOUBLE) ELSE greatest(abs(a), abs(b)) "
    "* sqrt(1 + pow(least(abs(a), abs(b)) / greatest(abs(a), abs(b)), 2)) END",
    "spark_expm1(x)": "CASE WHEN exp(x) = 1 THEN x WHEN exp(x) - 1 = -1 THEN CAST(-1 AS DOUBLE) "
    "WHEN isinf(exp(x)) THEN exp(x) ELSE (exp(x) - 1) * x / ln(exp(x)) END",
    "spark_log1p(x)": "CASE WHEN x <= -1 THEN NULL WHEN 1 + x = 1 THEN x WHEN isinf(x) THEN x "
    "ELSE ln(1 + x) * x / (1 + x - 1) END",
    "spark_half_even(x, unit)": _HALF_EVEN,
    "spark_bround(x, digits)": "CASE WHEN abs(x) < 1e16 THEN CAST(CAST(spark_half_even(CAST(CAST(x AS VARCHAR) AS "
    "DECIMAL(38, 20)), CAST(pow(10, 20 - digits) AS HUGEINT)) AS VARCHAR) || 'e' || (-digits) AS DOUBLE) ELSE x END",
    "spark_shown(x, digits)": "CASE WHEN isnan(x) THEN 'NaN' WHEN isinf(x) THEN CASE WHEN x < 0 THEN '-∞' ELSE '∞' END "
    "ELSE format('{:,.' || digits || 'f}', x) END",
    "spark_grouped(t)": "CASE WHEN t LIKE '-%' THEN '-' ELSE '' END || ltrim(reverse(regexp_replace(reverse(ltrim("
    "split_part(t, '.', 1), '-')), '([0-9]{3})', '\\1,', 'g')), ',')",
    "spark_shown_exactly(t, digits)": "spark_grouped(t) || CASE WHEN digits = 0 THEN '' ELSE '.' || "
    "rpad(split_part(t, '.', 2), digits, '0') END",
}
"""As ``macros.MACROS``."""
