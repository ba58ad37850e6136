"""Window functions: the partitions that a batch touches, found one by one or by a pass over all rows."""

from __future__ import annotations

from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import everview as ev
from everview.engine.operators import windowed
from tests.scale import scaled

WINDOWS = {
    "one": "SELECT id, p, SUM(x) OVER (PARTITION BY p ORDER BY id) AS s FROM t",
    "two": "SELECT id, RANK() OVER (PARTITION BY p, q ORDER BY x) AS r FROM t",
    "all": "SELECT id, COUNT(*) OVER () AS n FROM t",
    "copies": "SELECT p, x % 3 AS m, COUNT(*) OVER (PARTITION BY p, x % 3) AS n FROM t",
}


def row(random: Random, number: int) -> tuple[Any, ...]:
    p, q = (random.choice([*range(40), None]) for _ in range(2))
    return number, p, None if q is None else f"q{q % 3}", random.randrange(50)


@pytest.mark.parametrize("rows_a_lookup", [0, 20, 10**9], ids=["looked up", "as it pays", "passed over"])
def test_partitions_are_found_in_either_way(rows_a_lookup: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windowed, "_ROWS_A_LOOKUP", rows_a_lookup)
    random = Random(17)
    db, oracle = ev.Database(), duckdb.connect()
    for make in (db.sql, oracle.execute):
        make("CREATE TABLE t (id BIGINT, p BIGINT, q VARCHAR(9), x BIGINT)")
    rows = {number: row(random, number) for number in range(400)}
    for name, query in WINDOWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    db.insert("t", list(rows.values()))
    oracle.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", list(rows.values()))
    for step in range(scaled(8, least=3)):
        gone = random.sample(sorted(rows), random.choice([0, 1, 5, 60]))
        come = [row(random, 1_000 * (step + 1) + i) for i in range(random.choice([1, 2, 70]))]
        with db.batch() as batch:
            batch.delete("t", [rows.pop(number) for number in gone])
            batch.insert("t", come)
        rows |= {r[0]: r for r in come}
        for number in gone:
            oracle.execute("DELETE FROM t WHERE id = ?", [number])
        oracle.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", come)
        for name, query in WINDOWS.items():
            assert sorted(map(repr, db.view(name))) == sorted(map(repr, oracle.execute(query).fetchall())), name


def test_a_view_with_windows_is_counted_without_a_second_one() -> None:
    """A count beside it would compute each partition that changes once more."""
    db = ev.Database()
    db.sql("CREATE TABLE t (id BIGINT, p BIGINT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, SUM(id) OVER (PARTITION BY p ORDER BY id) AS s FROM t")
    db.insert("t", [(i, i % 2_000) for i in range(6_000)])
    before = db.nbytes()
    assert len(db.view("v")) == db.view("v").count() == 6_000
    assert db.nbytes() == before
    db.delete("t", [(0, 0)])
    assert len(db.view("v")) == 5_999


@pytest.mark.parametrize(
    ("query", "is_told"),
    [
        ("SELECT id, SUM(x) OVER (PARTITION BY p) AS s FROM t", False),
        ("SELECT id, MAX(x) OVER (PARTITION BY p) AS m, COUNT(DISTINCT x % 2) OVER () AS n FROM t", True),
        ("SELECT id FROM t QUALIFY COUNT(*) OVER (PARTITION BY p) > 2", True),
        ("SELECT id FROM (SELECT id, x, SUM(x) OVER (PARTITION BY p) AS s FROM t) u WHERE x < 10", True),
    ],
    ids=["state only", "unchanged", "condition", "unread"],
)
def test_a_total_costs_no_more_in_large_partitions(query: str, is_told: bool) -> None:
    """As long as no row has to be told of another one: of the orders that values are kept in there is a logarithm."""
    steps = []
    for size in (100, 10_000):
        db = ev.Database()
        db.sql("CREATE TABLE t (id BIGINT NOT NULL, p BIGINT, x BIGINT NOT NULL)")
        db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        ids = list(range(size))
        db.insert("t", pa.table({"id": ids, "p": [i % 4 or None for i in ids], "x": [i % 50 for i in ids]}))
        view = db.view("v")
        feed = view.changes() if is_told else None
        before = view.stats()["steps"]
        for i in range(10):
            db.insert("t", [(size + i, i % 4 or None, i)])
            db.delete("t", [(i, i % 4 or None, i)])
        steps.append(view.stats()["steps"] - before)
        if feed is not None:
            assert sum(batch.num_rows for batch in feed.read()) <= 20
    assert steps[1] < 2 * steps[0], steps
