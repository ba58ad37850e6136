"""What all rows say together, made ahead of the shards: through Spark, after a crash, and where rows are refused."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from everview.spark import saved_tables
from everview.spark.checkpoint.pins import plan_over
from everview.sql import parse_schema

TABLES = {
    "r": StructType().add("a", "integer").add("b", "string"),
    "t": StructType().add("b", "string").add("c", "integer"),
}
SHARDS = 4  # On fewer, what is compared costs little more whole.
STATIC = StructType().add("m", "integer")
SCHEMA = "CREATE TABLE r (a INT, b STRING); CREATE TABLE t (b STRING, c INT); CREATE TABLE s (m INT)"
VIEWS = {
    "above": "SELECT a, b FROM r WHERE a > (SELECT AVG(c) FROM t)",
    "below": "SELECT COUNT(*) AS n FROM r WHERE a < (SELECT MAX(m) FROM s)",
    "others": "SELECT b FROM r WHERE b NOT IN (SELECT b FROM t WHERE c > 2)",
    "totals": "SELECT a, b, SUM(a) OVER (PARTITION BY b) AS s, COUNT(*) OVER () AS n FROM r",
    "sets": "SELECT b, a, COUNT(*) AS n FROM r GROUP BY GROUPING SETS ((b), (a), ())",
    "compared": "SELECT SUM(a * 0.5D) AS s FROM r WHERE (SELECT SUM(c) FROM t) > "
    "(SELECT SUM(x.a) FROM r x WHERE x.b > r.b)",
    "greater": "SELECT a, b FROM r WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.c > r.a)",
    "first": "SELECT a, b FROM (SELECT a, b, RANK() OVER (ORDER BY a DESC NULLS LAST) AS k FROM r) x WHERE k <= 2",
}


def die_at_the_end(s: Any) -> int:
    """End as if the process had died before Spark knew that the last batch was over; gives its number."""
    s.stop()
    last = max(s.batches)
    for name in (str(last), f".{last}.crc"):
        (s.folder / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    return last


@pytest.mark.slow
def test_views_are_spark_sql_also_after_a_crash(stream: Any, spark: SparkSession) -> None:
    level = plan_over(VIEWS, parse_schema(SCHEMA), SHARDS).distribution.ahead
    assert level is not None
    assert {t.name for t in level.tables} == {"r", "s", "t"}
    assert {f"__{name}_ahead{n}" for name, n in (("compared", 1), ("greater", 0))} <= {v.name for v in level.views}
    s = stream(TABLES)
    static = [(3,), (4,)]
    frames = {"s": spark.createDataFrame(static, STATIC)}
    s.start(VIEWS, shards=SHARDS, schema=SCHEMA, frames=frames)
    r = random.Random(1)
    held: dict[str, list[tuple[Any, ...]]] = {"r": [], "t": [], "s": static}
    for number in range(5):
        changes: dict[str, list[tuple[tuple[Any, ...], str]]] = {}
        for name in TABLES:
            for _ in range(5):
                if len(held[name]) > 3 and r.random() < 0.4:
                    changes.setdefault(name, []).append((held[name].pop(r.randrange(len(held[name]))), "delete"))
                else:
                    value, text = (
                        r.choice([None, 1, 2, 3, 4, 5]),
                        r.choice([None, "x", "y", "z"] if number > 1 else "xyz"),
                    )
                    held[name].append((value, text) if name == "r" else (text, value))
                    changes.setdefault(name, []).append((held[name][-1], "insert"))
        s.put(changes)
        if number == 2:
            told = Counter(s.batches[die_at_the_end(s)])
            s.start(VIEWS, shards=SHARDS, schema=SCHEMA, frames=frames)
            s.query.processAllAvailable()
            assert Counter(s.batches[max(s.batches)]) == told
    frames["s"].createOrReplaceTempView("s")
    for name, sql in VIEWS.items():
        assert s.result(name) == s.expected(sql, {table: held[table] for table in TABLES}), name
    s.stop()
    tables = saved_tables(spark, str(s.folder / "checkpoint"))
    for name, rows in held.items():
        kept = tables[name].collect()
        assert Counter({tuple(row)[:-1]: row["_count"] for row in kept}) == Counter(rows), name
    # Other views take over: all that is made ahead comes anew, once.
    others = VIEWS | {
        "above": "SELECT b FROM r WHERE a > (SELECT MIN(c) FROM t)",
        "greater": VIEWS["greater"].replace(">", ">="),
    }
    s.batches.clear()
    s.start(others, schema=SCHEMA, frames=frames, migrate=True, place=str(s.folder / "checkpoint"))
    held["r"] += [(1, "x"), (9, None)]
    s.put({"r": [((1, "x"), "insert"), ((9, None), "insert")]})
    s.put({"t": [(held["t"].pop(), "delete")]})
    for name, sql in others.items():
        assert s.result(name) == s.expected(sql, {table: held[table] for table in TABLES}), name


@pytest.mark.slow
def test_what_is_put_aside_is_told_once_and_is_in_no_view(stream: Any) -> None:
    """One table goes to the shards and to the step ahead of them, and passes a step by its key before both."""
    keyed = "CREATE TABLE r (a INT NOT NULL, b STRING, PRIMARY KEY (a)); CREATE TABLE t (b STRING, c INT)"
    joined = "r JOIN t ON r.b = t.b"
    views = {
        "above": f"SELECT r.a, r.b, t.c FROM {joined} WHERE r.a > (SELECT AVG(c) FROM {joined})",
        "sets": f"SELECT r.a, t.c, COUNT(*) AS n FROM {joined} GROUP BY GROUPING SETS ((r.a), (t.c), ())",
    }
    plan = plan_over(views, parse_schema(keyed), 2).distribution
    assert plan.ahead is not None
    assert all(level.routes(name) for level in (plan.ahead, plan.first) for name in ("r", "t"))
    s = stream(TABLES)
    s.start(views, shards=2, schema=keyed, bad_rows="quarantine")
    s.put({"r": [((i, "xyz"[i % 3]), "insert") for i in range(9)], "t": [(("x", 1), "insert"), (("y", 5), "insert")]})
    s.put({"r": [((3, "y"), "insert"), ((4, "x"), "delete"), ((11, "x"), "insert")], "t": [(("z", 1), "delete")]})
    s.put({"t": [(("z", 7), "insert"), ((None, 9), "insert")]})
    held = {"r": [*((i, "xyz"[i % 3]) for i in range(9)), (11, "x")], "t": [("x", 1), ("y", 5), ("z", 7), (None, 9)]}
    for name, sql in views.items():
        assert s.result(name) == s.expected(sql, held), name
    found = Counter((b["table"], *b["row"].values(), b["copies"]) for b in s.bad())
    assert found == {("r", 3, "y", 1): 1, ("r", 4, "x", -1): 1, ("t", "z", 1, -1): 1}


@pytest.mark.slow
def test_the_first_batch_may_have_rows_only_for_the_shards(stream: Any) -> None:
    """Neither a step ahead of them nor one by key gets anything before the second batch."""
    s = stream(TABLES)
    keyed = "CREATE TABLE r (a INT, b STRING); CREATE TABLE t (b STRING NOT NULL, c INT, PRIMARY KEY (b))"
    views = {
        "above": VIEWS["above"],
        "by_c": "SELECT x.c, COUNT(*) AS n FROM t x JOIN t y ON x.c = y.c GROUP BY x.c",
    }
    s.start(views, shards=2, schema=keyed, bad_rows="quarantine")
    s.put({"r": [((1, "x"), "insert"), ((5, "y"), "insert")]})
    s.put({"t": [(("x", 4), "insert"), (("z", 2), "insert"), (("z", 1), "insert")]})
    held = {"r": [(1, "x"), (5, "y")], "t": [("x", 4), ("z", 1)]}
    for name, sql in views.items():
        assert s.result(name) == s.expected(sql, held), name
    assert [b["row"] for b in s.bad()] == [{"b": "z", "c": 2}]
