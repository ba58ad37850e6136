"""EXPLODE and its like: embedded views against DuckDB's UNNEST, through updates, feeds, failures and snapshots."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

import everview as ev
from everview.errors import DataError, EverviewError
from tests.engine.bags import bag
from tests.engine.exploded import QUERIES, TABLES, row
from tests.scale import scaled

DUCKDB = {
    "view": "SELECT k, unnest(a) AS e FROM r",
    "with_null": "SELECT r.k, v.p, v.e FROM r LEFT JOIN LATERAL (SELECT generate_subscripts(r.a, 1) - 1 AS p, "
    "unnest(r.a) AS e) v ON true",
    "map": "SELECT k, unnest(map_entries(m), recursive := true) FROM r",
    "listed": "SELECT k, unnest(a) AS e FROM r WHERE k > 1",
    "positions": "SELECT generate_subscripts(a, 1) - 1, unnest(a) FROM r",
    "structs": "SELECT k, unnest(b, recursive := true) FROM r",
    "grouped": "SELECT e, COUNT(*), SUM(k) FROM (SELECT k, unnest(a) AS e FROM r) GROUP BY e",
    "in_from": "SELECT k, unnest(a) AS e FROM r",
    "numbers": "SELECT r.k, id FROM r JOIN range(3) t(id) ON r.k = id",
    "unqualified": "SELECT k, id FROM r JOIN range(3) t(id) ON k >= id",
    "of_unqualified": "SELECT k, e, (SELECT COUNT(*) FROM u WHERE u.k = e) AS n FROM (SELECT k, unnest(a) AS e FROM r) "
    "WHERE e > k AND n < k",
    "twice": "SELECT e, unnest(b).x FROM (SELECT unnest(a) AS e, b FROM r)",
    "joined": "SELECT u.x, v.e FROM u JOIN r ON u.k = r.k LEFT JOIN LATERAL (SELECT unnest(r.a) AS e) v ON true "
    "WHERE u.x > 0 AND (v.e IS NULL OR v.e > 1)",
    "json": "SELECT k, CAST(k AS VARCHAR) FROM r",
    "back": "SELECT DISTINCT u.x FROM u WHERE u.x IN (SELECT unnest(a) FROM r)",
    "entries": "SELECT k, unnest(map_entries(m), recursive := true) FROM r",
    "fields": "SELECT k, unnest(b, recursive := true) FROM r",
    "whole": "SELECT k, s.x FROM (SELECT k, unnest(b) AS s FROM r)",
    "numbered": "SELECT r.k, v.e, v.n FROM r LEFT JOIN LATERAL (SELECT generate_subscripts(r.a, 1) AS n, "
    "unnest(r.a) AS e) v ON true",
}
UNNESTED = {
    "entries": "SELECT k, f.key, v FROM r CROSS JOIN UNNEST(r.m) AS f (key, v)",
    "fields": "SELECT k, f.a, f.b FROM r, UNNEST(b) AS f (a, b)",
    "whole": "SELECT k, s.x FROM r, UNNEST(b) AS f (s)",
    "numbered": "SELECT k, e, n FROM r LEFT JOIN UNNEST(a) WITH ORDINALITY AS f (e, n) ON TRUE",
}
"""UNNEST as other systems have it, which Spark has not."""
VIEWS = QUERIES | UNNESTED


def connected() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE r (k INT, a INT[], b STRUCT(x INT, y VARCHAR)[], m MAP(VARCHAR, INT))")
    connection.execute("CREATE TABLE u (k INT, x INT)")
    return connection


@pytest.mark.parametrize("seed", range(scaled(2)))
def test_like_duckdb(seed: int, tmp_path: Path) -> None:
    r = random.Random(seed)
    db = ev.Database()
    db.sql(TABLES)
    for name, query in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    feeds = {(name, each): db.view(name).changes(per_update=each) for name in VIEWS for each in (False, True)}
    told: dict[Any, Counter[Any]] = {key: Counter() for key in feeds}
    there: list[tuple[Any, ...]] = []
    duck = connected()
    for step in range(5):
        new = [row(r) for _ in range(r.randint(1, 5))]
        gone = r.sample(there, r.randint(0, len(there)))
        with db.batch():
            db.delete("r", gone)
            db.insert("r", new)
            db.insert("u", [(r.randint(0, 3), step)])
        for old in gone:
            there.remove(old)
        there += new
        duck.execute("DELETE FROM r")
        duck.executemany("INSERT INTO r VALUES (?, ?, ?, ?)", there)
        duck.execute("DELETE FROM u")
        duck.executemany("INSERT INTO u VALUES (?, ?)", list(db.table("u")))
        if step == 3:
            db.save(tmp_path / "saved")
            again = ev.Database.load(tmp_path / "saved")
            assert {name: bag(again.view(name)) for name in VIEWS} == {n: bag(db.view(n)) for n in VIEWS}
        for name in VIEWS:
            assert bag(db.view(name)) == bag(duck.execute(DUCKDB[name]).fetchall()), name
        for key, feed in feeds.items():
            for batch in feed.read():
                names = [n for n in batch.schema.names if not n.startswith("_")]
                for change in batch.to_pylist():
                    kind, copies = change["_change_type"], change["_count"]
                    sign = 1 if kind in ("insert", "update_postimage") else -1
                    told[key][tuple(change[n] for n in names)] += sign * copies
            assert +told[key] == Counter(tuple(row) for row in db.view(key[0])), key
    db.delete("r", there)
    assert [name for name in VIEWS if len(db.view(name))] == []


def test_what_a_row_gives_costs_its_elements_whatever_is_there() -> None:
    def steps(size: int) -> float:
        db = ev.Database()
        db.sql("CREATE TABLE r (k INT, a ARRAY<INT>)")
        db.sql("CREATE VIEW v AS SELECT e, COUNT(*) AS n FROM r LATERAL VIEW explode(a) t AS e GROUP BY e")
        db.insert("r", [(i, [i % 7, i % 5]) for i in range(size)])
        before = db.view("v").stats()["steps"]
        for i in range(10):
            db.insert("r", [(i, [i, 1, 2])])
        return float(db.view("v").stats()["steps"] - before)

    assert steps(3_200) <= 1.2 * steps(100) + 20


def test_a_refused_batch_changes_nothing() -> None:
    db = ev.Database()
    db.sql(TABLES)
    db.sql("CREATE VIEW v AS SELECT k, 10 div e AS d FROM r LATERAL VIEW explode(a) t AS e")
    db.insert("r", [(1, [1, 2], None, None)])
    with pytest.raises(DataError):
        db.insert("r", [(2, [5], None, None), (3, [4, 0], None, None)])
    assert sorted(db.view("v")) == [(1, 5), (1, 10)]


def test_explain_says_what_is_done() -> None:
    db = ev.Database()
    db.sql(TABLES)
    db.sql(f"CREATE VIEW v AS {QUERIES['with_null']}")
    said = str(db.view("v").explain())
    assert "one row for each element of array, with its position, or one with NULL" in said


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT k, explode(k) FROM r", "explode takes an array or a map, and this is INT"),
        ("SELECT k, inline(a) FROM r", "inline takes an array of structs"),
        ("SELECT explode(a), explode(a) FROM r", "several generators"),
        ("SELECT explode(a) + 1 AS e FROM r", "EXPLODE"),
        ("SELECT COUNT(*), explode(a) FROM r", "EXPLODE beside groups"),
        ("SELECT k FROM r LATERAL VIEW explode(m) v AS x", "explode gives 2 columns, and 1 names are given"),
        ("SELECT id FROM range(3, 1)", "no numbers"),
    ],
)
def test_refused(query: str, message: str) -> None:
    db = ev.Database()
    db.sql(TABLES)
    with pytest.raises(EverviewError, match=re.escape(message)):
        db.sql(f"CREATE VIEW v AS {query}")


def test_an_answer_is_that_of_a_view() -> None:
    db = ev.Database()
    db.sql(TABLES)
    db.insert("r", [(1, [2, 3], None, None)])
    assert list(db.sql("SELECT explode(a) AS e FROM r ORDER BY e DESC") or ()) == [(3,), (2,)]


def test_stack_gives_rows_of_values() -> None:
    """As the SELECTs that DuckDB is asked: the last row is filled up with NULL."""
    db = ev.Database()
    db.sql("CREATE TABLE t (a INT, b INT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT k, x FROM t LATERAL VIEW stack(2, 'a', a, 'b', b) s AS k, x")
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT a, stack(2, 1, b, 3) AS (p, q) FROM t")
    db.insert("t", [(1, 2), (3, None)])
    asked = (
        "SELECT 'a', a FROM t UNION ALL SELECT 'b', b FROM t",
        "SELECT a, 1, b FROM t UNION ALL SELECT a, 3, NULL FROM t",
    )
    for name, query in zip("vw", asked, strict=True):
        with duckdb.connect() as connection:
            connection.execute("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 2), (3, NULL)")
            wanted = connection.execute(query).fetchall()
        assert sorted(map(repr, db.view(name))) == sorted(map(repr, wanted))
    db.delete("t", [(1, 2)])
    assert sorted(map(repr, db.view("v"))) == ["('a', 3)", "('b', None)"]
