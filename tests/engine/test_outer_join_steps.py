"""Outer and anti joins by equality, and subqueries tied by equality, cost an update by the rows that it changes."""

from __future__ import annotations

import pytest

import everview as ev

QUERIES = {
    "left join": "SELECT l.k, l.x, r.y FROM l LEFT JOIN r ON l.k = r.k",
    "full join": "SELECT l.k, l.x, r.y FROM l FULL JOIN r ON l.k = r.k",
    "not exists": "SELECT k, x FROM l WHERE NOT EXISTS (SELECT * FROM r WHERE r.k = l.k)",
    "not in": "SELECT k, x FROM l WHERE k NOT IN (SELECT k FROM r)",
    "value": "SELECT k, (SELECT COUNT(*) FROM r WHERE r.k = l.k) AS n FROM l",
    "truth": "SELECT k, x FROM l WHERE x = 3 OR EXISTS (SELECT * FROM r WHERE r.k = l.k)",
    "unequal": "SELECT k, x FROM l WHERE NOT EXISTS (SELECT * FROM r WHERE r.k = l.k AND r.y <> l.x)",
}


def steps(query: str, size: int) -> int:
    """What some updates of both tables take, of keys with and without a partner."""
    db = ev.Database()
    db.sql("CREATE TABLE l (k INT NOT NULL, x INT); CREATE TABLE r (k INT NOT NULL, y INT)")
    db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    feed = db.view("v").changes()
    db.insert("l", [(i, i % 7) for i in range(size)])
    db.insert("r", [(2 * i, i % 5) for i in range(size // 2)])
    feed.read()
    before = db.view("v").stats()["steps"]
    for key in (1, 11, 24):
        db.insert("r", [(key, 1)])
        db.delete("l", [(key, key % 7)])
        db.insert("l", [(key, 9)])
        db.delete("r", [(key, 1)])
    assert sum(batch.num_rows for batch in feed.read()) > 3
    return int(db.view("v").stats()["steps"] - before)


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_steps_do_not_grow_with_the_tables(query: str) -> None:
    few, many = steps(query, 200), steps(query, 6_400)
    assert many <= 1.1 * few + 20
