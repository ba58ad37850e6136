"""Windows of time on Spark: views give what Spark SQL itself computes, embedded and on shards."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import everview as ev
from tests.engine.spans import COLUMNS, SPANS, a_row
from tests.engine.test_spans import plain

ROWS = [a_row(draw) for draw in [random.Random(3)] for _ in range(80)]


def by_spark(spark: Any, there: list[tuple[Any, ...]], query: str) -> Counter[tuple[Any, ...]]:
    spark.createDataFrame(there, COLUMNS).createOrReplaceTempView("t")
    return Counter(plain(row) for row in spark.sql(query).collect())


def test_embedded_views_give_what_spark_gives(spark: Any) -> None:
    db = ev.Database()
    db.sql(f"CREATE TABLE t ({COLUMNS})")
    for name, (query, _) in SPANS.items():
        db.create_view(name, query)
    db.insert("t", ROWS)
    for name, (query, _) in SPANS.items():
        assert Counter(map(plain, db.view(name))) == by_spark(spark, ROWS, query), name


def test_maintain_gives_what_spark_gives(spark: Any, stream: Any) -> None:
    """Overlapping windows on two shards, through insertions and deletions."""
    query, _ = SPANS["overlapping"]
    found = stream({"t": spark.createDataFrame([], COLUMNS).schema})
    found.start(query, shards=2)
    found.put({"t": [(row, "insert") for row in ROWS]})
    found.put({"t": [(row, "delete") for row in ROWS[::2]]})
    assert Counter(map(plain, found.result())) == by_spark(spark, ROWS[1::2], query)
