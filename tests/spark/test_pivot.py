"""PIVOT, UNPIVOT and outputs that name earlier ones have the rows and the names that Spark SQL gives."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import everview as ev
from tests.engine.pivots import QUERIES, ROW, row


def test_like_spark(spark: Any) -> None:
    r = Random(5)
    rows = [row(r) for _ in range(20)]
    db = ev.Database()
    db.sql(f"CREATE TABLE r ({ROW})")
    spark.createDataFrame(rows, ROW).createOrReplaceTempView("r")
    for name, query in QUERIES.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    db.insert("r", rows)
    for name, query in QUERIES.items():
        frame = spark.sql(query)
        assert Counter(db.view(name)) == Counter(map(tuple, frame.collect())), name
        assert db.view(name).schema.names == frame.columns, name
