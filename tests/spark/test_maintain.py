"""``maintain`` on Spark itself: results equal Spark SQL over the final tables; refusals, stops and migrations."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from everview.errors import PipelineError, QueryError, SchemaError
from everview.spark import maintain, saved_offsets, saved_tables, statistics_of, stats
from everview.spark.shard.server import started
from tests.spark.harness import Stream
from tests.spark.shards import until

GRAPH = {"g": StructType().add("src", "long").add("dst", "long")}
SHOP = {
    "c": StructType().add("id", "integer").add("name", "string").add("since", "date"),
    "o": StructType(
        [
            StructField("id", LongType()),
            StructField("customer", IntegerType()),
            StructField("price", DecimalType(12, 2)),
            StructField("at", TimestampType()),
            StructField("note", StringType()),
            StructField("tags", ArrayType(StringType())),
        ]
    ),
}
PATHS = "SELECT a.src, a.dst AS mid, b.dst FROM g a JOIN g b ON a.dst = b.src"


def edges(r: random.Random, stream: Stream, steps: int) -> Counter[Any]:
    """Random batches of edges that come and go; what is left at the end."""
    there: Counter[Any] = Counter()
    for _ in range(steps):
        batch: list[tuple[tuple[Any, ...], str]] = []
        for _ in range(r.randint(1, 12)):
            if there and r.random() < 0.35:
                row = r.choice(list(there.elements()))
                there[row] -= 1
                batch.append((row, r.choice(["delete", "update_preimage"])))
            else:
                row = (r.randint(0, 4), r.choice([*range(5), None]))
                there[row] += 1
                batch.append((row, r.choice(["insert", "update_postimage"])))
            there = +there
        r.shuffle(batch)
        stream.put({"g": batch})
    return there


def test_several_views_in_one_query(stream: Any) -> None:
    views = {
        "paths": PATHS,
        "degrees": "SELECT src, COUNT(*) AS n, MAX(dst) AS top FROM g GROUP BY src",
        "total": "SELECT COUNT(*) AS n, SUM(b.dst) AS s FROM g a JOIN g b ON a.dst = b.src",
        "ends": "SELECT DISTINCT dst FROM paths WHERE src <> dst",
        "parts": "SELECT COUNT(DISTINCT a.src) AS d, SUM(b.dst / 8) AS s, ROUND(VAR_POP(b.dst), 6) AS v, COUNT(*) AS n "
        "FROM g a JOIN g b ON a.dst = b.src",
    }
    s = stream(GRAPH)
    s.start(views, shards=2)
    r = random.Random(1)
    rows = list(edges(r, s, 3).elements())
    s.stop()
    s.start(views, shards=2)  # from its checkpoint
    more = edges(r, s, 1)
    rows += list(more.elements())
    for name, sql in views.items():
        text = sql.replace("FROM paths", f"FROM ({PATHS})")
        assert s.result(name) == s.expected(text, {"g": rows}), name
    figures = stats(s.query)
    assert figures["bad_rows"] == 0
    assert {(f["level"], f["shard"]) for f in figures["shards"]} >= {(0, 0), (0, 1), (1, 0)}
    assert all(f["last_rebuild"] in ("new", "another version", None) for f in figures["shards"])


def test_types_static_tables_and_columns_that_no_view_reads(stream: Any, spark: SparkSession) -> None:
    s = stream(SHOP)
    customers = [(1, "Ada", date(2020, 1, 2)), (2, None, None), (3, "ü'\n", date(1969, 12, 31))]
    static = spark.createDataFrame(customers, SHOP["c"])
    sql = """SELECT c.name, c.since, SUM(o.price) AS paid, MAX(o.at) AS latest, COUNT(*) AS n
             FROM c JOIN o ON o.customer = c.id GROUP BY c.name, c.since"""
    s.start(sql, shards=2, frames={"c": static})
    at = datetime(2024, 3, 31, 1, 59, 59, 123456, tzinfo=UTC)
    orders = [
        (2**40, 1, Decimal("12.50"), at, "x", ["a", None]),
        (2, 2, Decimal("-0.01"), None, None, None),
        (3, 3, Decimal("9999999999.99"), at, "y", []),
        (4, 1, None, at, "z", None),
        (5, 9, Decimal("1.00"), at, "nobody's", None),
    ]
    s.put({"o": [(row, "insert") for row in orders]})
    s.put(
        {
            "o": [
                (orders[2], "delete"),
                (orders[0], "update_preimage"),
                ((2**40, 2, Decimal("1.25"), at, "x", None), "update_postimage"),
            ]
        }
    )
    final = [orders[1], orders[3], orders[4], (2**40, 2, Decimal("1.25"), at, "x", None)]
    assert s.result() == s.expected(sql, {"c": customers, "o": final})


def test_bad_rows_stop_the_query_or_are_put_aside(stream: Any) -> None:
    wrong = [((1, 2), "insert"), ((1, 2), "upsert"), ((7, 7), "delete"), ((2, 3), "insert")]
    s = stream(GRAPH)
    s.start(PATHS, shards=2)
    with pytest.raises(StreamingQueryException, match=r"unknown _change_type upsert"):
        s.put({"g": wrong})
    s = stream(GRAPH)
    s.start(PATHS, shards=2)
    with pytest.raises(StreamingQueryException, match=r"which is not there"):
        s.put({"g": [wrong[2]]})
    s = stream(GRAPH)
    s.start(PATHS, shards=2, bad_rows="quarantine")
    s.put({"g": wrong})
    s.put({"g": [((2, 3), "delete")]})
    assert s.result() == s.expected(PATHS, {"g": [(1, 2)]})
    found = sorted((b["table"], b["row"]["src"], b["reason"].split(",")[0][:22]) for b in s.bad())
    assert found == [("g", 1, "unknown _change_type u"), ("g", 7, "it deletes (7")]


def test_a_changed_query_is_refused_and_can_be_migrated(stream: Any, spark: SparkSession) -> None:
    s = stream(GRAPH)
    s.start(PATHS, shards=2)
    s.put({"g": [((1, 2), "insert"), ((2, 3), "insert"), ((2, 3), "insert"), ((5, 6), "insert")]})
    s.put({"g": [((5, 6), "delete"), ((3, 4), "insert")]})
    s.stop()
    held = [(1, 2), (2, 3), (2, 3), (3, 4)]
    loops = "SELECT a.src, b.dst FROM g a JOIN g b ON a.dst = b.src"
    for sql, options in ((loops, {"shards": 2}), (PATHS, {"shards": 3})):
        s.start(sql, **options)
        with pytest.raises(StreamingQueryException, match="state of another query") as refused:
            s.put({"g": [((9, 9), "insert")]})
        s.stop()
        assert "maintain(" in str(refused.value)
    # Other views over the same rows, in place: the feed begins with all of the new view.
    s.batches.clear()
    s.start(loops, shards=2, migrate=True)
    s.query.processAllAvailable()
    held += [(9, 9), (9, 9)]  # what the refused batches had brought
    assert s.result() == s.expected(loops, {"g": held})
    s.stop()
    # Another number of shards: a new checkpoint from the old one's rows.
    tables = saved_tables(spark, str(s.folder / "checkpoint"))
    kept = Counter({(row.src, row.dst): row["_count"] for row in tables["g"].collect()})
    assert kept == Counter(held)
    assert saved_offsets(str(s.folder / "checkpoint"))["offsets"]
    fresh = stream(GRAPH)
    fresh.start(PATHS, shards=3, initial=tables)
    fresh.put({"g": [((4, 5), "insert"), ((1, 2), "delete")]})
    held = [(2, 3), (2, 3), (3, 4), (9, 9), (9, 9), (4, 5)]
    assert fresh.result() == fresh.expected(PATHS, {"g": held})


def test_a_query_goes_on_with_other_options(stream: Any) -> None:
    s = stream(GRAPH)
    held = [(1, 2), (2, 3), (5, 6), (3, 5)]
    for options, row in (
        ({"epsilon": 0.5}, (1, 2)),
        ({"mode": "static"}, (2, 3)),
        ({}, (5, 6)),
        ({"mode": "static"}, (3, 5)),
    ):
        s.start(PATHS, shards=2, options=options)
        s.put({"g": [(row, "insert")]})
        s.stop()
    assert s.result() == s.expected(PATHS, {"g": held})


def test_what_cannot_be_maintained_is_refused_at_once(stream: Any, spark: SparkSession) -> None:
    s = stream(SHOP | GRAPH)
    frames = s.frames()
    static = spark.createDataFrame([], GRAPH["g"])
    with pytest.raises(PipelineError, match="none of the DataFrames is streaming"):
        maintain(spark, PATHS, {"g": static})
    with pytest.raises(PipelineError, match="static tables only"):
        maintain(spark, PATHS, {"g": static, "c": frames["c"]})
    with pytest.raises(PipelineError, match="bad_rows"):
        maintain(spark, PATHS, frames, bad_rows="ignore")
    with pytest.raises(PipelineError, match="shards is 0"):
        maintain(spark, PATHS, frames, shards=0)
    with pytest.raises(QueryError, match="flags"):
        maintain(spark, "SELECT flags FROM o", frames)
    with pytest.raises(SchemaError, match="has none"):
        maintain(spark, PATHS, frames, schema="CREATE TABLE g (src BIGINT, target BIGINT)")
    with pytest.raises(SchemaError, match="BIGINT"):
        maintain(spark, PATHS, frames, schema="CREATE TABLE g (src INT, dst BIGINT)")


def test_keys_hold_across_shards(stream: Any) -> None:
    s = stream(GRAPH)
    key = "CREATE TABLE g (src BIGINT NOT NULL, dst BIGINT, PRIMARY KEY (src))"
    s.start(PATHS, shards=2, schema=key)
    s.put({"g": [((1, 2), "insert"), ((2, 3), "insert")]})
    s.put({"g": [((1, 4), "update_postimage"), ((1, 2), "update_preimage"), ((4, 1), "insert")]})
    assert s.result() == s.expected(PATHS, {"g": [(1, 4), (2, 3), (4, 1)]})
    with pytest.raises(StreamingQueryException, match="key"):
        s.put({"g": [((1, 9), "insert")]})


def test_a_memory_limit_fails_the_batch(stream: Any) -> None:
    s = stream(GRAPH)
    s.start(PATHS, shards=1, memory_limit=200_000)
    s.put({"g": [((1, 2), "insert")]})
    with pytest.raises(StreamingQueryException, match="memory"):
        s.put({"g": [((i, i + 1), "insert") for i in range(50_000)]})


def test_the_shards_of_a_stopped_query_end(stream: Any) -> None:
    s = stream(GRAPH)
    s.start(PATHS, shards=2)
    s.put({"g": [((1, 2), "insert"), ((2, 3), "insert")]})
    shards = [f["pid"] for f in stats(s.query)["shards"]]
    assert len(shards) == 2
    assert all(map(started, shards))
    s.stop()
    until(lambda: not any(map(started, shards)))
    s.start(PATHS, shards=2)
    s.put({"g": [((3, 1), "insert")]})
    assert s.result() == s.expected(PATHS, {"g": [(1, 2), (2, 3), (3, 1)]})


def test_statistics(spark: SparkSession) -> None:
    rows = [(1, i) for i in range(8)] + [(2, None), (3, None)]
    found = statistics_of({"g": spark.createDataFrame(rows, GRAPH["g"])})
    assert found.rates == {"g": 10.0}
    assert found.skew == {("g", "src"): 0.8, ("g", "dst"): 0.1}
