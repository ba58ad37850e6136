"""Subqueries that groups are made by, and that say which rows are the first: beside DuckDB after every batch."""

from __future__ import annotations

import random

import duckdb

import everview as ev
from tests.engine.bags import bag

QUERIES = (
    "SELECT COUNT(*) AS n FROM r GROUP BY a IN (SELECT b FROM t)",
    "SELECT a IN (SELECT b FROM t) AS m, COUNT(*) AS n FROM r GROUP BY a IN (SELECT b FROM t)",
    "SELECT (SELECT MAX(c) FROM t WHERE t.b = r.a) AS m, COUNT(*) AS n, SUM(r.b) AS s FROM r GROUP BY m",
    "SELECT (SELECT MAX(c) FROM t WHERE t.b = r.a) AS m, a FROM r GROUP BY a, (SELECT MAX(c) FROM t WHERE t.b = r.a)",
    "SELECT EXISTS (SELECT 1 FROM t WHERE t.b = r.a) AS m, COUNT(*) AS n, (SELECT COUNT(*) FROM t) AS k FROM r "
    "GROUP BY ALL",
    "SELECT a > (SELECT AVG(c) FROM t) AS q, COUNT(*) AS n FROM r GROUP BY 1 HAVING a > (SELECT AVG(c) FROM t)",
    "SELECT a, b FROM r ORDER BY (SELECT MAX(c) FROM t WHERE t.b = r.a) NULLS FIRST, a NULLS FIRST, b NULLS FIRST "
    "LIMIT 4",
    "SELECT a FROM r ORDER BY b IN (SELECT b FROM t) DESC NULLS LAST, a NULLS FIRST LIMIT 3",
)


def test_keys_may_have_subqueries() -> None:
    r, db = random.Random(3), ev.Database()
    db.sql("CREATE TABLE r (a INT, b INT); CREATE TABLE t (b INT, c INT)")
    for i, query in enumerate(QUERIES):
        db.create_view(f"v{i}", query)
    there: dict[str, list[tuple[int | None, int | None]]] = {"r": [], "t": []}
    with duckdb.connect() as other:
        other.execute("CREATE TABLE r (a INT, b INT); CREATE TABLE t (b INT, c INT)")
        for _ in range(5):
            with db.batch() as batch:
                for name, rows in there.items():
                    gone = r.sample(rows, len(rows) // 2)
                    come = [(r.choice((None, 0, 1, 2, 3)), r.choice((None, 0, 1, 2))) for _ in range(4)]
                    batch.delete(name, gone)
                    batch.insert(name, come)
                    for row in gone:
                        rows.remove(row)
                    rows += come
                    other.execute(f"DELETE FROM {name}")
                    other.executemany(f"INSERT INTO {name} VALUES (?, ?)", rows)
            for i, query in enumerate(QUERIES):
                assert bag(db.view(f"v{i}")) == bag(other.execute(query).fetchall()), query


def test_calls_that_are_written_out() -> None:
    """Expected by what Python says of the same rows."""
    db = ev.Database()
    db.sql("CREATE TABLE t (a INT, s STRING, xs ARRAY<INT>)")
    db.create_view("decoded", "SELECT decode(a, 1, 'one', NULL, 'none', 'other') AS d, decode(a, 1, 'x') AS e FROM t")
    db.create_view("by", "SELECT array_sort(xs, (l, r) -> r % 10 - l % 10) AS z FROM t")
    db.create_view(
        "laid", "SELECT overlay(s PLACING 'XX' FROM 2 FOR 1) AS z, overlay(s PLACING 'Y' FROM 1) AS y FROM t"
    )
    db.sql("CREATE VIEW written (k, v) AS VALUES (1, 'x'), (2, NULL); CREATE VIEW all_of_it AS TABLE t")
    rows = [(1, "hello", [31, 12, 11, 5, 42]), (None, None, []), (3, "x", None)]
    db.insert("t", rows)
    assert bag(db.view("decoded")) == bag([("one", "x"), ("none", None), ("other", None)])
    wanted = [(sorted(xs, key=lambda x: -(x % 10)) if xs is not None else None,) for _, _, xs in rows]
    assert bag(db.view("by")) == bag(wanted)
    assert bag(db.view("laid")) == bag([("hXXllo", "Yello"), (None, None), ("xXX", "Y")])
    assert bag(db.view("written")) == bag([(1, "x"), (2, None)])
    assert bag(db.view("all_of_it")) == bag(rows)
