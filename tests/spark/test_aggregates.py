"""Every aggregate's examples (``query/aggregates.py``) have Spark SQL's values and types, embedded and on shards."""

from __future__ import annotations

from typing import Any

import everview as ev
from everview.spark.types import spark_type
from tests.engine.aggregates import COLUMNS, EXAMPLES, QUERY, differences, rows
from tests.engine.differential import plain

ROWS = rows()


def by_spark(spark: Any, there: list[tuple[Any, ...]]) -> tuple[dict[Any, Any], list[Any]]:
    spark.createDataFrame(there, COLUMNS).createOrReplaceTempView("r")
    frame = spark.sql(QUERY)
    return {row[0]: tuple(row)[1:] for row in frame.collect()}, [f.dataType for f in frame.schema][1:]


def test_embedded_views_give_what_spark_gives(spark: Any) -> None:
    db = ev.Database()
    db.sql(f"CREATE TABLE r ({COLUMNS}); CREATE MATERIALIZED VIEW v AS {QUERY}")
    db.insert("r", ROWS)
    wanted, types = by_spark(spark, ROWS)
    assert differences({row[0]: row[1:] for row in db.view("v")}, wanted) == []
    mine = [spark_type(column.type) for column in db._views["v"].view.columns[1:]]
    assert dict(zip(EXAMPLES, mine, strict=True)) == dict(zip(EXAMPLES, types, strict=True))
    db.delete("r", ROWS[::2])
    wanted, _ = by_spark(spark, ROWS[1::2])
    assert differences({row[0]: row[1:] for row in db.view("v")}, wanted) == []


def test_maintain_gives_what_spark_gives(spark: Any, stream: Any) -> None:
    """One view with all aggregates, on two shards, through insertions and deletions."""
    found = stream({"r": spark.createDataFrame([], COLUMNS).schema})
    found.start(QUERY, shards=2)
    found.put({"r": [(row, "insert") for row in ROWS]})
    found.put({"r": [(row, "delete") for row in ROWS[::2]]})
    result = found.result()
    assert set(result.values()) == {1}
    wanted = {group: tuple(map(plain, values)) for group, values in by_spark(spark, ROWS[1::2])[0].items()}
    assert differences({row[0]: row[1:] for row in result}, wanted) == []
