"""What Spark SQL has beside the functions with an entry, by what it is: so that a refusal can say why."""

from __future__ import annotations

from everview.query.aggregates import BY_NAME

_SHIFTS = frozenset("dateadd date_add".split())

OTHER_AGGREGATES = frozenset(
    "any any_value approx_count_distinct approx_percentile array_agg bit_and bit_or bit_xor bool_and bool_or "
    "collect_list collect_set corr count_min_sketch covar_pop covar_samp every first first_value "
    "histogram_numeric hll_sketch_agg kurtosis last last_value listagg max_by median min_by mode percentile "
    "percentile_approx percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 "
    "regr_slope regr_sxx regr_sxy regr_syy skewness some string_agg try_avg try_sum".split()
) - set(BY_NAME)
"""Those of Spark that are no entry of ``query/aggregates.py``."""
WINDOW_FUNCTIONS = frozenset("row_number rank dense_rank percent_rank cume_dist ntile lag lead nth_value".split())
GENERATORS = frozenset(
    "explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple unnest".split()
)
CLOCK = ("now", "current_timestamp", "current_date", "curdate")
"""What the clock says: a condition may be about it."""
NON_DETERMINISTIC = frozenset(
    "rand random randn uuid now current_date curdate current_timestamp current_time localtimestamp current_user user "
    "session_user current_database current_schema current_catalog current_timezone monotonically_increasing_id "
    "spark_partition_id input_file_name shuffle randstr uniform version".split()
)

_SPANS = "window(ts, '10 minutes').start"
INSTEAD = {
    "arg_max": "max_by(x, k)",
    "arg_min": "min_by(x, k)",
    "count_star": "count(*)",
    "date_bin": _SPANS,
    "generate_series": "explode(sequence(first, last))",
    "mz_logical_timestamp": "now(), in a condition",
    "mz_now": "now(), in a condition",
    "proctime": "now(), in a condition",
    "split_index": "split_part(text, mark, n), which counts from 1",
    "time_bucket": _SPANS,
    "timestamp_trunc": "date_trunc('HOUR', ts)",
    "to_bitmap": "count(DISTINCT x), which is exact here",
    "tostartofday": "date_trunc('DAY', ts)",
    "tostartofhour": "date_trunc('HOUR', ts)",
    "todate": "to_date(text)",
}
"""What to write for functions that other systems have."""
