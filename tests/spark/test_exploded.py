"""EXPLODE and its like give what Spark SQL gives, embedded and on shards."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import everview as ev
from tests.engine.exploded import QUERIES, ROW, TABLES, row


def test_like_spark(spark: Any) -> None:
    r = Random(3)
    rows, others = [row(r) for _ in range(12)], [(k, x) for k in range(4) for x in range(2)]
    db = ev.Database()
    db.sql(TABLES)
    spark.createDataFrame(rows, ROW).createOrReplaceTempView("r")
    spark.createDataFrame(others, "k INT, x INT").createOrReplaceTempView("u")
    for name, query in QUERIES.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    db.insert("r", rows)
    db.insert("u", others)
    for name, query in QUERIES.items():
        frame = spark.sql(query)
        assert Counter(db.view(name)) == Counter(map(tuple, frame.collect())), name
        assert db.view(name).schema.names == frame.columns, name


def test_on_shards(spark: Any, stream: Any) -> None:
    r = Random(4)
    rows = [row(r) for _ in range(12)]
    view = "LATERAL VIEW OUTER posexplode(a) v AS p, e"
    query = f"SELECT e, COUNT(*) AS n, SUM(p) AS s FROM r {view} WHERE k > 0 GROUP BY e"
    found = stream({"r": spark.createDataFrame([], ROW).schema})
    found.start(query, shards=2)
    found.put({"r": [(one, "insert") for one in rows]})
    found.put({"r": [(one, "delete") for one in rows[::2]]})
    spark.createDataFrame(rows[1::2], ROW).createOrReplaceTempView("r")
    assert found.result() == Counter(map(tuple, spark.sql(query).collect()))
