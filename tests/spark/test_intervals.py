"""Lengths of time in expressions, aggregates and columns are what Spark makes of them, embedded and on shards."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import everview as ev
from everview.spark.types import spark_type
from tests.engine.functions import COLUMNS, ROWS
from tests.spark.test_functions import _by_spark, _differences, _embedded

EXPRESSIONS = [
    "ts - TIMESTAMP '2024-01-01'", "d - DATE '2024-01-01'", "ts - d", "INTERVAL 3 DAYS",
    "INTERVAL '1 2:3:4.5' DAY TO SECOND", "INTERVAL '-1 2' DAY TO HOUR", "INTERVAL 1 DAY 2 HOURS", "INTERVAL 2 WEEKS",
    "INTERVAL 5 MILLISECONDS", "(ts - d) + INTERVAL 1 DAY", "(ts - d) * n", "(ts - d) * z", "(ts - d) * p",
    "n * INTERVAL '2' HOUR", "(ts - d) / 7", "(ts - d) / (z + 3)", "(ts - d) / 1.5", "-(ts - d)",
    "d + INTERVAL 1 DAY * (-n)", "d - INTERVAL 1 HOUR * n", "ts - INTERVAL '1' HOUR * n",
    "TIMESTAMP '2020-01-01' + (ts - d)", "d + (DATE '2024-01-01' - DATE '2024-01-05')", "d - INTERVAL 3 HOURS",
    "d - INTERVAL '1 02:30' DAY TO MINUTE", "ts - d > INTERVAL 1 HOUR", "d - DATE '2000-01-01' < INTERVAL '3' DAY",
    "CASE WHEN b THEN ts - d ELSE INTERVAL '1' DAY END", "coalesce(ts - d, INTERVAL 0 DAYS)",
    "greatest(ts - d, INTERVAL '5' HOUR)", "EXTRACT(DAY FROM ts - TIMESTAMP '2024-01-01')",
    "EXTRACT(HOUR FROM ts - TIMESTAMP '2024-01-01')", "EXTRACT(MINUTE FROM ts - TIMESTAMP '2024-01-01')",
    "EXTRACT(SECOND FROM ts - TIMESTAMP '2024-01-01')", "date_part('SECONDS', ts - TIMESTAMP '2024-01-01')",
    "CAST(ts - TIMESTAMP '2024-01-01' AS STRING)", "CAST(d - DATE '2024-01-01' AS STRING)",
    "CAST(CAST(ts - TIMESTAMP '2024-01-01' AS INTERVAL DAY TO HOUR) AS STRING)",
    "CAST(CAST(ts - TIMESTAMP '2024-01-01' AS INTERVAL HOUR TO SECOND) AS STRING)",
    "CAST(CAST(ts - TIMESTAMP '2024-01-01' AS INTERVAL HOUR TO MINUTE) AS STRING)",
    "CAST(CAST(ts - TIMESTAMP '2024-01-01' AS INTERVAL MINUTE TO SECOND) AS STRING)",
    "CAST(CAST(ts - TIMESTAMP '2024-01-01' AS INTERVAL SECOND) AS STRING)",
    "CAST(CAST(ts - TIMESTAMP '2024-01-01' AS INTERVAL MINUTE) AS STRING)", "CAST(INTERVAL '5.25' SECOND AS STRING)",
    "CAST('3 04:05:06.5' AS INTERVAL DAY TO SECOND)", "CAST('-3 04:05:06' AS INTERVAL DAY TO SECOND)",
    "CAST(\"INTERVAL '3 04' DAY TO HOUR\" AS INTERVAL DAY TO HOUR)", "CAST('12' AS INTERVAL MINUTE)",
    "CAST('65:06.5' AS INTERVAL MINUTE TO SECOND)", "TRY_CAST(s AS INTERVAL DAY TO SECOND)",
    "CAST(n AS INTERVAL HOUR)", "CAST(INTERVAL '3' DAY AS INT)", "CAST(d - DATE '2024-01-01' AS BIGINT)",
    "concat('a', ts - d)", "typeof(d - d)", "CAST(NULL AS INTERVAL DAY TO SECOND)",
]  # fmt: skip
QUERY = f"SELECT k, {', '.join(f'{e} AS y{i}' for i, e in enumerate(EXPRESSIONS))} FROM r"
TABLE = "k INT, i INTERVAL DAY TO SECOND, j INTERVAL DAY, h INTERVAL HOUR TO MINUTE"
GROUPS = (
    "SELECT j, COUNT(*) AS n, SUM(i) AS s, AVG(i) AS a, AVG(j) AS b, MIN(i) AS lo, MAX(h) AS hi, try_sum(h) AS t, "
    "SUM(DISTINCT i) AS d, CAST(MAX(h) AS STRING) AS shown FROM t GROUP BY j"
)
JOINED = "SELECT a.k, b.k AS other, a.i + b.h AS x FROM t a JOIN t b ON a.i = b.j WHERE b.h > INTERVAL '1' HOUR"
HOUR = timedelta(hours=1)
SOME = [
    (1, 24 * HOUR, 24 * HOUR, 90 * HOUR / 60),
    (2, 24 * HOUR, 48 * HOUR, 5 * HOUR),
    (3, timedelta(microseconds=-7), 24 * HOUR, None),
    (4, timedelta(microseconds=-2), 24 * HOUR, -HOUR),
    (5, None, None, 2 * HOUR),
]


def test_expressions(spark: Any) -> None:
    """Values and types, over rows with NULLs and edges."""
    values, types = _embedded(QUERY, COLUMNS, ROWS)
    theirs, their_types = _by_spark(spark, QUERY, COLUMNS, ROWS)
    assert _differences(values, theirs, EXPRESSIONS) == []
    assert dict(zip(EXPRESSIONS, types, strict=True)) == dict(zip(EXPRESSIONS, their_types, strict=True))


def test_columns(spark: Any, stream: Any) -> None:
    """Groups and joins of columns, embedded and on shards; a Spark table's columns come and go as such."""
    frame = spark.createDataFrame(SOME, TABLE)
    frame.createOrReplaceTempView("t")
    wanted = {name: spark.sql(query) for name, query in {"g": GROUPS, "o": JOINED}.items()}
    db = ev.Database()
    db.sql(f"CREATE TABLE t ({TABLE})")
    for name, query in {"g": GROUPS, "o": JOINED}.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    db.insert("t", SOME)
    found = stream({"t": frame.schema})
    found.start({"g": GROUPS, "o": JOINED}, shards=2)
    found.put({"t": [(row, "insert") for row in SOME]})
    rows = [row for batch in found.batches.values() for row in batch]
    for name, there in wanted.items():
        expected = sorted(map(tuple, there.collect()), key=str)
        assert sorted(db.view(name), key=str) == expected
        types = [spark_type(c.type).simpleString() for c in db._views[name].view.columns]
        assert types == [f.dataType.simpleString() for f in there.schema]
        assert sorted((tuple(row[name]) for row in rows if row[name] is not None), key=str) == expected
