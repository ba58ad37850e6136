"""The row of an aggregate without GROUP BY over no input: where it fails, the view has no result, and goes on."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import everview as ev
from everview.errors import ExpressionError
from everview.spark.exchange.arrow_blob import WEIGHT
from everview.spark.shard.shard import Shard, ShardSpec
from everview.sql import parse_schema, parse_view
from tests.engine.test_judged_by_the_end import CONNECTION, _translated, schema_of, told
from tests.scale import scaled

TABLES = {"t": ("k", "x"), "u": ("y",)}
VIEWS = {
    "ratio": "SELECT 10 / COUNT(*) AS q FROM t",
    "of_values": "SELECT COUNT(*) / COUNT(x) AS q FROM t WHERE x > 0",
    "counts": "SELECT m / n AS r FROM (SELECT COUNT(*) AS m FROM t) p, (SELECT COUNT(*) AS n FROM u) q",
    "named": "WITH c AS (SELECT COUNT(*) AS n FROM t) SELECT 10 / n AS q FROM c",
    "once": "SELECT DISTINCT 10 / COUNT(*) AS q FROM t",
    "united": "SELECT 10 / COUNT(*) AS q FROM t UNION SELECT 10 / COUNT(*) FROM u",
    "both": "SELECT 10 / COUNT(*) AS q FROM t UNION ALL SELECT 10 / COUNT(*) FROM u",
    "without": "SELECT 10 / COUNT(*) AS q FROM t EXCEPT SELECT 10 / COUNT(*) FROM u",
    "shared": "SELECT 10 / COUNT(*) AS q FROM t INTERSECT SELECT 10 / COUNT(*) FROM u",
    "filtered": "SELECT n FROM (SELECT COUNT(*) AS n FROM t) c WHERE 10 / n > 1",
    "of_counts": "SELECT COUNT(*) AS n FROM t HAVING 10 / COUNT(*) > 1",
    "extreme": "SELECT MAX(x) AS m, 10 / COUNT(*) AS q FROM t",
    "across": "SELECT 10 / COUNT(*) AS q FROM t JOIN u ON t.x = u.y",
    "beside": "SELECT t.k, t.x / c.n AS q FROM t, (SELECT COUNT(*) AS n FROM u) c",
}
STACKED = {
    "base": "SELECT 10 / COUNT(*) AS q FROM t",
    "over": "SELECT q + 1 AS r FROM base",
    "counted": "SELECT COUNT(*) AS n FROM base",
    "plain": "SELECT COUNT(*) AS n FROM t",
    "over_plain": "SELECT 10 / n AS q FROM plain",
}


def made(*views: str) -> ev.Database:
    db = ev.Database()
    for table, columns in TABLES.items():
        db.sql(f"CREATE TABLE {table} ({', '.join(f'{c} INT' for c in columns)})")
    for name in views:
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {(VIEWS | STACKED)[name]}")
    return db


def duckdb_says(db: ev.Database, query: str) -> Counter[Any] | None:
    """What DuckDB gives over the tables as they are; None if it fails."""
    schema = schema_of(db)
    for name in TABLES:
        CONNECTION.register(name, db.table(name).to_arrow())
    try:
        for name, text in ((n, t) for n, t in STACKED.items() if n in db.views):
            CONNECTION.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {_translated(text, schema)}")
        return Counter(CONNECTION.sql(_translated(query, schema)).fetchall())
    except duckdb.Error:
        return None
    finally:
        for name in STACKED:
            CONNECTION.execute(f"DROP VIEW IF EXISTS {name}")


def rows(view: ev.View) -> Counter[Any] | None:
    """The view's rows; None if it has no result, whichever way it is asked."""
    try:
        found = Counter(view)
    except ExpressionError:
        for ask in (len, list, lambda v: v.to_arrow(), lambda v: (1,) * len(v.schema) in v, lambda v: v.page(limit=1)):
            with pytest.raises(ExpressionError, match="has no result now"):
                ask(view)
        return None
    assert len(view) == view.to_arrow().num_rows == found.total()
    return found


@pytest.mark.parametrize("filled", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [*VIEWS, "stacked"])
def test_views_have_a_result_where_duckdb_has_one(name: str, filled: bool, tmp_path: Path) -> None:
    """Defined before any row or over rows, through batches that empty the tables, saved and loaded on the way."""
    r = random.Random(f"{name} {filled}")
    views = tuple(STACKED) if name == "stacked" else (name,)
    db = made(*(() if filled else views))
    if filled:
        db.insert("t", [(1, 2)])
        for view in views:
            db.sql(f"CREATE MATERIALIZED VIEW {view} AS {(VIEWS | STACKED)[view]}")
    feeds = {v: db.view(v).changes() for v in views}
    seen = {v: rows(db.view(v)) for v in views}
    there: dict[str, list[tuple[int, ...]]] = {"t": [(1, 2)] if filled else [], "u": []}
    without = 0
    for step in range(scaled(14, least=8)):
        with db.batch() as batch:
            for table, width in (("t", 2), ("u", 1)):
                if there[table] and r.random() < 0.5:
                    batch.delete(table, there[table])
                    there[table] = []
                elif r.random() < 0.5:
                    new = [tuple(r.randint(1, 3) for _ in range(width)) for _ in range(r.randint(1, 3))]
                    batch.insert(table, new)
                    there[table] += new
        for v in views:
            expected = duckdb_says(db, (VIEWS | STACKED)[v])
            if v == "counted":  # As a whole it has no result, though COUNT(*) needs no value of what it counts.
                expected = expected if there["t"] else None
            found = rows(db.view(v))
            assert found == expected, (v, there)
            assert (db.view(v).stats()["failing"] is None) == (found is not None)
            assert db.view(v).explain()
            news, before = told(feeds[v]), seen[v]
            if before is not None:
                before.update(news)
                assert found is None or +before == found
            else:  # What a feed begins with is the first result that there is.
                seen[v] = found
            without += found is None
        if step % 8 == 7:
            db.save(tmp_path / "db")
            loaded = ev.Database.load(tmp_path / "db")
            assert all(rows(loaded.view(v)) == rows(db.view(v)) for v in views)
            loaded.insert("t", [(1, 1)])
            loaded.insert("u", [(1,)])
            for v in views:
                assert rows(loaded.view(v)) == duckdb_says(loaded, (VIEWS | STACKED)[v]), v
    assert without


def test_feeds_tell_the_old_row_and_later_the_new_one() -> None:
    db = made("ratio")
    feed = db.view("ratio").changes()
    for change, wanted in (
        (db.insert, {(10.0,): 1}),
        (db.delete, {(10.0,): -1}),
        (db.insert, {(10.0,): 1}),
    ):
        change("t", [(1, 1)])
        assert told(feed) == Counter(wanted)


def test_an_average_by_hand_is_null_over_no_input() -> None:
    """As in Spark, where NULL divided by zero is NULL."""
    db = ev.Database()
    db.sql("CREATE TABLE t (x INT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT SUM(x) / COUNT(x) AS q FROM t")
    assert list(db.view("v")) == [(None,)]
    db.insert("t", [(1,), (2,), (None,)])
    assert list(db.view("v")) == [(1.5,)]


def test_what_fails_for_another_reason_is_refused_all_the_same() -> None:
    db = made("ratio")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT SUM(10 div x) / COUNT(*) AS q FROM t")
    with pytest.raises(ExpressionError, match="v: 10 DIV x"):
        db.insert("t", [(1, 0)])
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT 10 / SUM(x) AS q FROM t")
    with pytest.raises(ExpressionError, match="w: column q"):
        db.insert("t", [(1, 1), (1, -1)])
    assert len(db.table("t")) == 0


def test_the_message_says_what_and_why() -> None:
    db = made("base", "over")
    with pytest.raises(ExpressionError) as caught:
        list(db.view("over"))
    for part in ("over has no result now", "row of base", "no input", "10 / count(*)", "division by zero"):
        assert part in caught.value.message


def test_a_condition_on_a_fixed_column_stays_with_its_table() -> None:
    """Seed 93002968: it became one without columns, and was put to the count, which has a row over no input."""
    db = made()
    db.sql("CREATE MATERIALIZED VIEW counted AS SELECT COUNT(*) AS n FROM u")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT n, k FROM counted JOIN t ON n = k WHERE x = 1 AND 7 % (x - 1) <> 1")
    assert list(db.view("v")) == []
    with pytest.raises(ExpressionError, match="division by zero"):
        db.insert("t", [(0, 1)])
    db.insert("t", [(0, 2)])
    assert list(db.view("v")) == []


def test_a_shard_has_no_row_and_its_figures_say_why() -> None:
    schema = parse_schema("CREATE TABLE t (x BIGINT)")
    shard = Shard(ShardSpec(tuple(schema), (parse_view("SELECT 10 / COUNT(*) AS q FROM t", schema, "v"),)))
    told_rows = []
    for sign in (1, -1, 1):
        outcome = shard.apply({"t": [pa.table({"x": [5], WEIGHT: pa.array([sign], pa.int64())})]})
        told_rows += [r["_change_type"] for b in outcome.changes["v"] for r in b.to_pylist()]
        failing = shard.stats()["views"]["v"]["failing"]
        assert (failing is None) == (sign > 0)
        assert [b.num_rows for _, b in shard.contents() if b.num_rows] == ([1] if sign > 0 else [])
    assert told_rows == ["insert", "delete", "insert"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, 10 / SUM(x) AS q FROM t GROUP BY k EXCEPT SELECT 1, CAST(n AS DOUBLE) FROM counted_u",
        "SELECT k, 10 / x AS q FROM t UNION ALL SELECT 1, CAST(n AS DOUBLE) FROM counted_u",
        "SELECT k, 10 / x AS q FROM t UNION ALL SELECT 1, CAST(n AS DOUBLE) FROM (SELECT COUNT(*) AS n FROM u) c",
        "SELECT k, n FROM t CROSS JOIN counted_u WHERE 10 / x > 1",
        "SELECT k, n, 10 / x AS q FROM t CROSS JOIN counted_u",
        "SELECT k, n, 10 / x AS q FROM t CROSS JOIN (SELECT COUNT(*) AS n FROM u) c",
    ],
)
def test_rows_of_other_tables_are_no_input_either(query: str) -> None:
    """A row of t that failed by itself was let in for as long as a count beside it was over no input."""
    db = made()
    db.sql(f"CREATE MATERIALIZED VIEW counted_u AS SELECT COUNT(*) AS n FROM u; CREATE MATERIALIZED VIEW v AS {query}")
    with pytest.raises(ExpressionError):
        db.insert("t", [(1, 0)])
    assert len(db.table("t")) == 0
    db.insert("t", [(1, 5)])
    db.insert("u", [(1,)])
    assert duckdb_says(db, query.replace("counted_u", "(SELECT COUNT(*) AS n FROM u) c")) == Counter(db.view("v"))
