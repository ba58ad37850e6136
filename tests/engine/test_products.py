"""SUM, AVG and COUNT of products across tables: DuckDB's results, and constant steps where each table has a factor."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

import everview as ev
from everview.engine.operators.build import grouped_blocks
from tests.scale import scaled

TABLES = (
    "CREATE TABLE a (k BIGINT, x INT, p DECIMAL(10,2));"
    "CREATE TABLE b (k BIGINT, y INT, q DECIMAL(8,3));"
    "CREATE TABLE c (k BIGINT, g BIGINT, z SMALLINT)"
)
VIEWS = {
    "global": "SELECT SUM(CAST(a.x AS BIGINT) * b.y) AS s, COUNT(*) AS n, COUNT(p * q) AS m FROM a JOIN b ON a.k = b.k",
    "groups": "SELECT c.k, SUM(a.p * b.q) AS s, SUM(CAST(a.x AS BIGINT) * c.z) AS t, COUNT(p * q * c.z) AS n "
    "FROM a JOIN b ON a.k = b.k JOIN c ON c.k = b.k GROUP BY c.k",
    "elsewhere": "SELECT c.g, SUM(a.p * b.q) AS s FROM a JOIN b ON a.k = b.k JOIN c ON c.k = b.k GROUP BY c.g",
    "three": "SELECT SUM((a.p * b.q) * (c.z * 2.5BD)) AS s FROM a JOIN b ON a.k = b.k JOIN c ON c.k = b.k",
    "within": "SELECT b.k, SUM(a.p * b.q * (1 - b.q)) AS s, SUM(p * p) AS t FROM a JOIN b ON a.k = b.k GROUP BY b.k",
    "cycle": "SELECT SUM(a.p * b.q) AS s, COUNT(*) AS n FROM a JOIN b ON a.k = b.k JOIN c ON c.k = a.x AND c.g = b.y",
    "itself": "SELECT l.k, SUM(l.p * r.p) AS s FROM a l JOIN a r ON l.k = r.k GROUP BY l.k",
    "having": "SELECT a.k, SUM(a.p * b.q) AS s FROM a JOIN b ON a.k = b.k GROUP BY a.k HAVING SUM(a.p * b.q) > 0",
    "conditions": "SELECT a.k, SUM(a.p * b.q) AS s FROM a JOIN b ON a.k = b.k WHERE a.x < b.y GROUP BY a.k",
    "fits not": "SELECT a.k, SUM(a.x * b.y) AS s, AVG(a.x * b.y) AS m FROM a JOIN b ON a.k = b.k GROUP BY a.k",
}
FACTORED = {"global", "groups", "elsewhere", "within", "three", "cycle", "itself", "having", "conditions", "fits not"}


def parts_of(db: ev.Database, name: str) -> int:
    """At how many tables the core sums up a sum's factors, at most."""
    (block,) = grouped_blocks(db._views[name].result)
    return max(len(slot.parts) for slot in block.slots)


def random_row(drawn: random.Random, table: str) -> tuple[Any, ...]:
    def maybe(value: Any) -> Any:
        return None if drawn.random() < 0.1 else value

    if table == "a":
        return drawn.randrange(4), maybe(drawn.randrange(-3, 4)), maybe(Decimal(drawn.randrange(-999, 999)) / 100)
    if table == "b":
        return drawn.randrange(4), maybe(drawn.randrange(-3, 4)), maybe(Decimal(drawn.randrange(-999, 999)) / 1000)
    return drawn.randrange(4), drawn.randrange(-3, 4), maybe(drawn.randrange(-5, 5))


def test_random_updates_against_duckdb(tmp_path: Path) -> None:
    for seed in range(scaled(2)):
        drawn = random.Random(seed)
        db, oracle = ev.Database(), duckdb.connect()
        db.sql(TABLES)
        oracle.sql(TABLES)
        for name, query in VIEWS.items():
            db.create_view(name, query)
        feed = db.view("groups").changes()
        rows: dict[str, list[tuple[Any, ...]]] = {"a": [], "b": [], "c": []}
        for step in range(12):
            with db.batch() as batch:
                for _ in range(drawn.randrange(1, 12)):
                    table = drawn.choice("abc")
                    if rows[table] and drawn.random() < 0.4:
                        batch.delete(table, [rows[table].pop(drawn.randrange(len(rows[table])))])
                    else:
                        rows[table].append(random_row(drawn, table))
                        batch.insert(table, [rows[table][-1]])
            if step == 6:
                db.save(tmp_path / "db")
                db = ev.Database.load(tmp_path / "db")
                feed = db.view("groups").changes()
            for table, found in rows.items():
                oracle.execute(f"DELETE FROM {table}")
                if found:
                    oracle.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", found)
            for name, query in VIEWS.items():
                expected = oracle.sql(query.replace("BD", "")).fetchall()
                assert sorted(db.view(name), key=str) == sorted(map(tuple, expected), key=str), name
        assert {name for name in VIEWS if parts_of(db, name) > 1} == FACTORED
        assert feed.read()


def test_a_group_takes_constant_steps_whatever_its_size() -> None:
    steps = []
    for size in (1000, 10_000):
        db = ev.Database()
        db.sql("CREATE TABLE a (k BIGINT, p DECIMAL(10,2)); CREATE TABLE b (k BIGINT, q DECIMAL(10,2))")
        db.create_view("v", "SELECT a.k, SUM(a.p * b.q) AS s FROM a JOIN b ON a.k = b.k GROUP BY a.k")
        assert db.view("v").explain().to_dict()["bounds"]["update"] == "O(1)"
        db.insert("a", [(1, i) for i in range(size)])
        db.insert("b", [(1, i) for i in range(size)])
        before = db.view("v").stats()["steps"]
        db.insert("a", [(1, 7)])
        db.delete("b", [(1, 3)])
        steps.append(db.view("v").stats()["steps"] - before)
        total = sum(range(size))
        assert list(db.view("v")) == [(1, (total + 7) * (total - 3))]
    assert steps[0] == steps[1]


def test_a_row_s_product_that_leaves_its_type_is_refused() -> None:
    """Of sums nobody would see it: the products are made for each row once the largest factors are too large."""
    db = ev.Database()
    db.sql("CREATE TABLE a (k BIGINT, x BIGINT); CREATE TABLE b (k BIGINT, y BIGINT)")
    db.create_view("v", "SELECT SUM(a.x * b.y) AS s FROM a JOIN b ON a.k = b.k")
    db.insert("a", [(1, 2**62), (2, 3)])
    db.insert("b", [(1, 1), (2, 5), (3, 2**62)])
    assert list(db.view("v")) == [(2**62 + 15,)]
    with pytest.raises(ev.errors.ExpressionError):
        db.insert("b", [(1, 4)])
    assert list(db.view("v")) == [(2**62 + 15,)]
