"""Lengths of time as values: kept, joined, grouped, added up and put in order as DuckDB does with microseconds."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import everview as ev
from everview.errors import UnsupportedError, ValueTypeError

MICROSECOND = timedelta(microseconds=1)
HOUR = 3_600_000_000
VIEWS = {
    "kept": "SELECT k, i, j FROM t WHERE i > {hour} OR j IS NULL",
    "grouped": "SELECT j, COUNT(*) AS n, SUM(i) AS s, MIN(i) AS lo, COUNT(DISTINCT i) AS d FROM t GROUP BY j",
    "summed": "SELECT SUM(DISTINCT i) AS s, SUM(i + j) AS sums, SUM(i * 3) AS three FROM t",
    "joined": "SELECT a.k, b.k AS other FROM t a JOIN t b ON a.i = b.j",
    "first": "SELECT k, i FROM t WHERE i IS NOT NULL ORDER BY i DESC, k LIMIT 3",
    "different": "SELECT DISTINCT i FROM t",
    "running": "SELECT k, SUM(j) OVER (ORDER BY k) AS s, LAG(i) OVER (ORDER BY k) AS p FROM t",
}


def in_microseconds(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(v // MICROSECOND if isinstance(v, timedelta) else v for v in row)


def duckdb_says(rows: list[tuple[Any, ...]]) -> dict[str, list[tuple[Any, ...]]]:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (k INT, i BIGINT, j BIGINT)")
        if rows:
            connection.executemany("INSERT INTO t VALUES (?, ?, ?)", [in_microseconds(r) for r in rows])
        said = {name: connection.execute(sql.format(hour=HOUR)).fetchall() for name, sql in VIEWS.items()}
    return {name: sorted(found, key=str) for name, found in said.items()}


def made(*views: str) -> ev.Database:
    db = ev.Database()
    db.sql("CREATE TABLE t (k INT, i INTERVAL DAY TO SECOND, j INTERVAL HOUR)")
    for name in views:
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name].format(hour='INTERVAL 1 HOUR')}")
    return db


def says(db: ev.Database) -> dict[str, list[tuple[Any, ...]]]:
    return {name: sorted((in_microseconds(row) for row in db.view(name)), key=str) for name in VIEWS}


def random_rows(seed: int) -> list[tuple[Any, ...]]:
    random = Random(seed)

    def some(value: timedelta) -> timedelta | None:
        return None if random.random() < 0.1 else value

    return [
        (
            k,
            some(MICROSECOND * random.choice([random.randint(-3, 3) * HOUR, random.randint(-(10**12), 10**12)])),
            some(timedelta(hours=random.randint(-3, 3))),
        )
        for k in range(40)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_views_are_what_duckdb_makes_of_microseconds(seed: int, tmp_path: Path) -> None:
    """Through inserts, deletes and a snapshot."""
    db, rows = made(*VIEWS), random_rows(seed)
    feed = db.view("grouped").changes()
    db.insert("t", rows[:25])
    db.insert("t", pa.Table.from_pylist([dict(zip("kij", r, strict=True)) for r in rows[25:]]))
    assert says(db) == duckdb_says(rows)
    gone, rows = rows[::3], [r for n, r in enumerate(rows) if n % 3]
    db.delete("t", gone)
    assert says(db) == duckdb_says(rows)
    db.save(tmp_path / "saved")
    assert says(ev.Database.load(tmp_path / "saved")) == duckdb_says(rows)
    told = pa.Table.from_batches(feed.read()).select(["s", "lo", "n"])
    assert [field.type for field in told.schema] == [pa.duration("us"), pa.duration("us"), pa.int64()]


def test_times_and_lengths() -> None:
    """Between times, added to times, and compared; as text as Spark writes it; parts of nested values, too."""
    db = ev.Database()
    db.sql("""
        CREATE TABLE t (k INT, a TIMESTAMP_NTZ, b TIMESTAMP_NTZ);
        CREATE MATERIALIZED VIEW v AS
            SELECT k, b - a AS i, a + (b - a) * 2 AS later, CAST(b - a AS STRING) AS s, array(b - a) AS x FROM t;
        CREATE MATERIALIZED VIEW w AS SELECT AVG(i) AS mean, AVG(DISTINCT i) AS d, MAX_BY(k, i) AS k FROM v;
        CREATE MATERIALIZED VIEW u AS SELECT k, AVG(i) OVER () AS mean, x[0] AS e FROM v WHERE i > INTERVAL '30' MINUTE
    """)
    db.insert(
        "t", [(1, datetime(2024, 1, 1), datetime(2024, 1, 2, 3)), (2, datetime(2024, 1, 1), datetime(2023, 12, 31))]
    )
    day, hours = timedelta(days=1), timedelta(days=1, hours=3)
    assert sorted(db.view("v")) == [
        (1, hours, datetime(2024, 1, 3, 6), "INTERVAL '1 03:00:00' DAY TO SECOND", [hours]),
        (2, -day, datetime(2023, 12, 30), "INTERVAL '-1 00:00:00' DAY TO SECOND", [-day]),
    ]
    mean = timedelta(hours=1, minutes=30)
    assert list(db.view("w")) == [(mean, mean, 1)]
    assert list(db.view("u")) == [(1, hours, hours)]
    answer = db.sql("SELECT SUM(i) AS s, AVG(i) AS m, MIN(i) AS lo FROM v")
    assert answer.to_arrow().to_pylist() == [{"s": timedelta(hours=3), "m": mean, "lo": -day}]
    assert (1, hours, datetime(2024, 1, 3, 6), "INTERVAL '1 03:00:00' DAY TO SECOND", [hours]) in db.view("v")


def test_what_a_column_takes() -> None:
    db = made("kept")
    for value, why in ((5, "5 is of type int"), ("1 day", "'1 day' is of type str"), (True, "True is of type bool")):
        with pytest.raises(ValueTypeError, match=f"column i: {why}.*\n.*pass a datetime.timedelta"):
            db.insert("t", [(1, value, None)])
    with pytest.raises(ValueTypeError, match="does not fit into INTERVAL HOUR: it is no whole number of its last unit"):
        db.insert("t", [(1, None, timedelta(minutes=90))])
    with pytest.raises(ValueTypeError, match="column i"):
        db.insert("t", pa.table({"k": [1], "i": pa.array([1], pa.int64()), "j": pa.nulls(1)}))
    db.insert("t", pa.table({"k": [1], "i": pa.array([7200], pa.duration("s")), "j": pa.nulls(1)}))
    assert list(db.view("kept")) == [(1, timedelta(hours=2), None)]
    for column in ("INTERVAL YEAR TO MONTH", "INTERVAL MONTH", "INTERVAL SECOND TO DAY", "INTERVAL"):
        with pytest.raises(UnsupportedError, match="INTERVAL"):
            db.sql(f"CREATE TABLE x (i {column})")
    with pytest.raises(UnsupportedError, match="a view cannot hold intervals of months"):
        db.sql("CREATE MATERIALIZED VIEW x AS SELECT INTERVAL 1 MONTH AS m FROM t")
