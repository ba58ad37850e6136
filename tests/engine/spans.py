"""Views over spans of time, and the same in DuckDB's words: for the tests embedded and on Spark."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta
from typing import Any, Final

COLUMNS: Final = "k INT, ts TIMESTAMP, n TIMESTAMP_NTZ, d DATE, v INT"
_BOTH: Final = "count(*) AS c, sum(v) AS s"
_HOPS: Final = (
    "(SELECT k, v, b, b + INTERVAL 10 MINUTE AS e FROM (SELECT k, v, t, time_bucket(INTERVAL 4 MINUTE, t, "
    "TIMESTAMP '1970-01-01 00:01:00') - i * INTERVAL 4 MINUTE AS b FROM (SELECT k, v, {t} AS t FROM t) AS m, "
    "range(3) AS r(i)) AS h WHERE t < b + INTERVAL 10 MINUTE)"
)
_SESSIONS: Final = (
    "(SELECT *, sum(first) OVER (PARTITION BY k ORDER BY ts) AS number FROM (SELECT *, CASE WHEN ts <= lag(ts) OVER "
    "(PARTITION BY k ORDER BY ts) + INTERVAL 5 MINUTE THEN 0 ELSE 1 END AS first FROM t WHERE ts IS NOT NULL))"
)
_TEN: Final = "time_bucket(INTERVAL 10 MINUTE, {}, TIMESTAMP '1970-01-01')"

SPANS: Final = {
    "tumbling": (
        f"SELECT k, window.start, window.end, {_BOTH} FROM t GROUP BY k, window(ts, '10 minutes')",
        f"SELECT k, {_TEN.format('ts')} AS b, b + INTERVAL 10 MINUTE, {_BOTH} FROM t WHERE ts IS NOT NULL "
        "GROUP BY k, b",
    ),
    "without_zone": (
        "SELECT w.start, w.fin, COUNT(*) AS c FROM (SELECT window(n, '10 minutes').start AS start, "
        "window(n, '10 minutes').end AS fin FROM t WHERE v > 2) AS w GROUP BY w.start, w.fin",
        f"SELECT {_TEN.format('n')} AS b, b + INTERVAL 10 MINUTE, count(*) FROM t WHERE v > 2 AND n IS NOT NULL "
        "GROUP BY b",
    ),
    "overlapping": (
        f"SELECT k, window.start AS b, window.end AS e, {_BOTH} FROM t "
        "GROUP BY window(ts, '10 minutes', '4 minutes', '1 minute'), k",
        f"SELECT k, b, e, {_BOTH} FROM {_HOPS.format(t='ts')} GROUP BY k, b, e",
    ),
    "overlapping_without_zone": (
        f"SELECT window.start AS b, {_BOTH} FROM t GROUP BY window(n, '10 minutes', '4 minutes', '1 minute')",
        f"SELECT b, {_BOTH} FROM {_HOPS.format(t='n')} GROUP BY b",
    ),
    "by_day": (
        "SELECT window(d, '7 days').start AS b, SUM(v) AS s FROM t GROUP BY 1",
        "SELECT time_bucket(INTERVAL 7 DAY, d, DATE '1970-01-01')::TIMESTAMP AS b, sum(v) FROM t WHERE d IS NOT NULL "
        "GROUP BY b",
    ),
    "each_row": (
        "SELECT k, window(ts, '1 hour').end AS e FROM t",
        "SELECT k, time_bucket(INTERVAL 1 HOUR, ts) + INTERVAL 1 HOUR FROM t WHERE ts IS NOT NULL",
    ),
    "sessions": (
        f"SELECT k, session_window.start, session_window.end, {_BOTH} FROM t "
        "GROUP BY session_window(ts, '5 minutes'), k HAVING count(*) > 1",
        f"SELECT k, min(ts), max(ts) + INTERVAL 5 MINUTE, {_BOTH} FROM {_SESSIONS} GROUP BY k, number "
        "HAVING count(*) > 1",
    ),
}
"""Views in Spark's words, and queries in DuckDB's."""

FLINK: Final = {
    "tumble": (
        "SELECT window_start, window_end, k, MAX(v) AS m FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' "
        "MINUTES)) GROUP BY window_start, window_end, k",
        f"SELECT {_TEN.format('ts')} AS b, b + INTERVAL 10 MINUTE, k, max(v) FROM t WHERE ts IS NOT NULL GROUP BY k, b",
    ),
    "hop": (
        "SELECT h.k, h.window_start, h.window_time FROM HOP(t, n, INTERVAL '4' MINUTE, INTERVAL '10 minutes', "
        "INTERVAL 1 MINUTE) AS h WHERE h.v > 3",
        f"SELECT k, b, e - INTERVAL 1 MICROSECOND FROM {_HOPS.format(t='n')} WHERE v > 3",
    ),
    "group_tumble": (
        "SELECT k, TUMBLE_START(ts, INTERVAL '10' MINUTE) AS b, TUMBLE_END(ts, INTERVAL '10' MINUTE) AS e, "
        "COUNT(*) AS c FROM t GROUP BY k, TUMBLE(ts, INTERVAL '10' MINUTE)",
        f"SELECT k, {_TEN.format('ts')} AS b, b + INTERVAL 10 MINUTE, count(*) FROM t WHERE ts IS NOT NULL "
        "GROUP BY k, b",
    ),
    "group_hop": (
        "SELECT HOP_ROWTIME(n, INTERVAL '1' HOUR, INTERVAL '12' HOUR) AS r, HOP_END(n, INTERVAL '1' HOUR, "
        "INTERVAL '12' HOUR) AS e, k, COUNT(*) AS c FROM t "
        "GROUP BY ROLLUP(HOP(n, INTERVAL '1' HOUR, INTERVAL '12' HOUR), k)",
        "SELECT e - INTERVAL 1 MICROSECOND, e, k, count(*) FROM (SELECT k, time_bucket(INTERVAL 1 HOUR, n) + i * "
        "INTERVAL 1 HOUR AS e FROM t, range(1, 13) AS r(i) WHERE n IS NOT NULL) "
        "GROUP BY GROUPING SETS ((e, k), (e), ()) HAVING count(*) > 0",
    ),
    "group_session": (
        "SELECT k, SESSION_START(ts, INTERVAL '5' MINUTE) AS b, COUNT(*) AS c FROM t "
        "GROUP BY k, SESSION(ts, INTERVAL '5' MINUTE)",
        f"SELECT k, min(ts), count(*) FROM {_SESSIONS} GROUP BY k, number",
    ),
}
"""The same in the words of Flink, which Spark does not know."""


def a_row(draw: random.Random) -> tuple[Any, ...]:
    """A row of some hours around 1970 or in 2024, on the edges of windows now and then, some of it NULL."""
    first = draw.choice((datetime(2024, 1, 1), datetime(1969, 12, 31, 22)))

    def moment() -> datetime | None:
        if draw.random() < 0.05:
            return None
        micros = draw.choice((0, 0, 1, 999_999, 500_000))
        return first + timedelta(minutes=draw.randrange(240), seconds=draw.choice((0, 0, 59)), microseconds=micros)

    day = None if draw.random() < 0.05 else date(1969, 12, 20) + timedelta(days=draw.randrange(40))
    return (draw.choice((1, 2, None)), moment(), moment(), day, draw.randrange(6))
