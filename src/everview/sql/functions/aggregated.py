"""What DuckDB is taught for aggregates: of a list of the values, as Spark and a view mean it."""

from __future__ import annotations

from typing import Final

from everview.query.aggregates import Pairing

_NUMBERS: Final = "list_transform(spark_present(l), lambda number: CAST(number AS DOUBLE))"
_READ: Final = "CASE WHEN len(l) = 0 THEN NULL ELSE {} END"
_X, _Y = (f"list_transform(l, lambda half: struct_extract(half, '{name}'))" for name in ("x", "y"))
_PAIRED: Final = {
    Pairing.CORRELATION: "spark_both(l) / nullif(sqrt(spark_squares(x) * spark_squares(y)), 0)",
    Pairing.COVARIANCE: "spark_both(l) / len(l)",
    Pairing.SAMPLE_COVARIANCE: "spark_both(l) / nullif(len(l) - 1, 0)",
    Pairing.MEAN_X: "list_avg(x)",
    Pairing.MEAN_Y: "list_avg(y)",
    Pairing.SQUARES_X: "spark_squares(x)",
    Pairing.SQUARES_Y: "spark_squares(y)",
    Pairing.PRODUCTS: "spark_both(l)",
    Pairing.SLOPE: "spark_both(l) / nullif(spark_squares(x), 0)",
    Pairing.INTERCEPT: "list_avg(y) - list_avg(x) * spark_both(l) / nullif(spark_squares(x), 0)",
    Pairing.FIT: "CASE WHEN spark_squares(x) = 0 THEN NULL WHEN spark_squares(y) = 0 THEN 1 "
    "ELSE power(spark_both(l), 2) / (spark_squares(x) * spark_squares(y)) END",
}
_COUNT_OF: Final = "CAST(struct_extract(entry, 'value') AS BIGINT)"
_BEST: Final = (
    "struct_extract({}(list_transform(map_entries(list_histogram(l)), "
    "lambda entry: {{'n': {}" + _COUNT_OF + ", 'v': struct_extract(entry, 'key')}})), 'v')"
)
AGGREGATE_MACROS: Final = {
    "spark_present(l)": "coalesce(list_filter(l, lambda here: here IS NOT NULL), [])",
    "spark_sorted(l)": "list_sort(spark_present(l))",
    "spark_turned(l, turned)": "CASE WHEN turned THEN list_reverse(l) ELSE l END",
    "spark_set(l)": "list_sort(list_distinct(spark_present(l)))",
    "spark_joined_text(l, mark)": _READ.format("array_to_string(l, mark)"),
    "spark_most(l, turned)": _READ.format(
        f"CASE WHEN turned THEN {_BEST.format('list_max', '')} ELSE {_BEST.format('list_min', '-')} END"
    ),
    "spark_element(l, p)": _READ.format("l[CAST(greatest(1, ceil(p * len(l))) AS BIGINT)]"),
    "spark_nth(l, place)": "l[CAST(place AS BIGINT) + 1]",
    "spark_way_between(l, place)": "CASE WHEN floor(place) = ceil(place) THEN spark_nth(l, place) "
    "ELSE (ceil(place) - place) * spark_nth(l, floor(place)) + (place - floor(place)) * spark_nth(l, ceil(place)) END",
    "spark_between(l, p)": _READ.format("spark_way_between(l, p * (len(l) - 1))"),
    "spark_power(l, k)": "list_sum(list_transform(l, lambda one: power(one - list_avg(l), k)))",
    "spark_skew_of(l)": "sqrt(len(l)) * spark_power(l, 3) / nullif(power(spark_power(l, 2), 1.5), 0)",
    "spark_heavy_of(l)": "len(l) * spark_power(l, 4) / nullif(power(spark_power(l, 2), 2), 0) - 3",
    "spark_skewness(l)": f"spark_skew_of({_NUMBERS})",
    "spark_kurtosis(l)": f"spark_heavy_of({_NUMBERS})",
    "spark_squares(v)": "list_sum(list_transform(v, lambda other: power(other - list_avg(v), 2)))",
    "spark_both(l)": f"list_sum(list_transform(l, lambda pair: (struct_extract(pair, 'x') - list_avg({_X})) "
    f"* (struct_extract(pair, 'y') - list_avg({_Y}))))",
    **{f"spark_paired_{pairing.name.lower()}(l, x, y)": _READ.format(text) for pairing, text in _PAIRED.items()},
    **{
        f"spark_{pairing.name.lower()}(l)": f"spark_paired_{pairing.name.lower()}(l, {_X}, {_Y})" for pairing in _PAIRED
    },
}
"""In DuckDB's dialect, by signature, each after those it calls."""
