"""Every aggregate over windows: of a partition it is what DuckDB gives of the group, of a frame what of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest

import everview as ev
from everview.sql import parse_schema
from everview.sql.duckdb import duckdb_query, open_duckdb
from tests.engine.aggregates import COLUMNS, EXAMPLES, QUERY, differences, rows

CHOSEN = ("any_value", "first", "last")
"""What of a window is a row's value, as its frame and its order say, and not the least or greatest of a group."""
WINDOWED = [e for e in EXAMPLES if not any(name in e for name in CHOSEN) and "sort_array" not in e]
SCHEMA = f"CREATE TABLE r ({COLUMNS})"


def in_duckdb(there: Sequence[tuple[Any, ...]], query: str) -> list[tuple[Any, ...]]:
    with open_duckdb(locked=False) as connection:
        connection.execute(SCHEMA.replace("STRING", "VARCHAR"))
        connection.executemany(f"INSERT INTO r VALUES ({', '.join('?' * len(there[0]))})", there)
        found: list[tuple[Any, ...]] = connection.execute(duckdb_query(query, parse_schema(SCHEMA))).fetchall()
        return found


def windowed(over: str, examples: Sequence[str] = WINDOWED) -> ev.Database:
    listed = ", ".join(f"{e} OVER ({over}) AS y{i}" for i, e in enumerate(examples))
    db = ev.Database()
    db.sql(f"{SCHEMA}; CREATE MATERIALIZED VIEW v AS SELECT g, k, {listed} FROM r")
    return db


@pytest.mark.parametrize("seed", range(2))
def test_of_whole_partitions(seed: int) -> None:
    """Each row has what its group has."""
    places = [EXAMPLES.index(e) for e in WINDOWED]
    there = rows(seed)
    db = windowed("PARTITION BY g")
    db.insert("r", there)
    for step in range(3):
        by_group = {row[0]: [row[1:][i] for i in places] for row in in_duckdb(there, QUERY)}
        found = {(row[0], row[1]): list(row[2:]) for row in db.view("v")}
        assert differences(found, {key: by_group[key[0]] for key in found}, WINDOWED) == []
        assert {k for _, k in found} == {row[1] for row in there}
        gone = there[step::4]
        there = [row for row in there if row not in gone]
        db.delete("r", gone)


FRAMES = {
    "ORDER BY k ROWS BETWEEN 3 PRECEDING AND 1 FOLLOWING": "s.k BETWEEN t.k - 3 AND t.k + 1",
    "ORDER BY k": "s.k <= t.k",
    "ORDER BY x RANGE BETWEEN 1.5 PRECEDING AND 0.25 FOLLOWING": "s.x BETWEEN t.x - 1.5 AND t.x + 0.25",
    "ORDER BY d DESC RANGE BETWEEN INTERVAL '20' DAY PRECEDING AND CURRENT ROW": "s.d BETWEEN t.d AND t.d + 20",
    "ORDER BY tm RANGE BETWEEN INTERVAL 1 DAY 2 HOURS PRECEDING AND INTERVAL '03:30' HOUR TO MINUTE FOLLOWING": (
        "s.tm BETWEEN t.tm - INTERVAL '1 day 2 hours' AND t.tm + INTERVAL '3 hours 30 minutes'"
    ),
}
"""Windows, and which rows ``s`` are in that of a row ``t``, where what they are in the order of is not NULL."""
OVER_FRAMES = {
    "count(DISTINCT n)": "count(DISTINCT s.n)",
    "sum(DISTINCT n)": "sum(DISTINCT s.n)",
    "max_by(k, l)": "max_by(s.k, s.l)",
    "collect_list(k)": "list(s.k ORDER BY s.k)",
    "median(x)": "median(s.x)",
    "bit_xor(l)": "bit_xor(s.l)",
    "covar_pop(n, x)": "covar_pop(s.n, s.x)",
    "count(DISTINCT n, b)": "count(DISTINCT (s.n, s.b)) FILTER (WHERE s.n IS NOT NULL AND s.b IS NOT NULL)",
    "listagg(s, ',') FILTER (WHERE b)": "string_agg(s.s, ',' ORDER BY s.s) FILTER (WHERE s.b)",
}


@pytest.mark.parametrize("window", FRAMES)
def test_of_frames(window: str) -> None:
    """Each row has what a join with the rows of its frame gives."""
    columns = f"{COLUMNS}, tm TIMESTAMP_NTZ"
    listed = ", ".join(f"{e} OVER ({window}) AS y{i}" for i, e in enumerate(OVER_FRAMES))
    db = ev.Database()
    db.sql(f"CREATE TABLE r ({columns}); CREATE MATERIALIZED VIEW v AS SELECT g, k, {listed} FROM r")
    by = window.split()[2]
    place = [c.split()[0] for c in columns.replace("DECIMAL(10, 2)", "DECIMAL").split(", ")].index(by)
    made = [(*row, None if row[7] is None else day(row[7], row[1])) for row in rows(5)]
    there = [row for row in made if row[place] is not None]
    db.insert("r", there)
    for step in range(2):
        joined = ", ".join(f"{e} AS y{i}" for i, e in enumerate(OVER_FRAMES.values()))
        with open_duckdb(locked=False) as connection:
            connection.execute(
                f"CREATE TABLE r ({columns.replace('STRING', 'VARCHAR').replace('TIMESTAMP_NTZ', 'TIMESTAMP')})"
            )
            connection.executemany(f"INSERT INTO r VALUES ({', '.join('?' * len(there[0]))})", there)
            query = f"SELECT t.g, t.k, {joined} FROM r t JOIN r s ON {FRAMES[window]} GROUP BY t.g, t.k"
            wanted = {row[:2]: row[2:] for row in connection.execute(query).fetchall()}
        found = {row[:2]: row[2:] for row in db.view("v")}
        assert differences(found, wanted, list(OVER_FRAMES)) == []
        gone = there[step::5]
        there = [row for row in there if row not in gone]
        db.delete("r", gone)
        if "ROWS" in window:
            return  # what is three places before is no longer three less


def day(of: date, hours: int) -> Any:
    """Some time of a day."""
    from datetime import datetime, timedelta

    return datetime(of.year, of.month, of.day) + timedelta(hours=hours % 24)


def test_after_a_snapshot(tmp_path: Any) -> None:
    db = windowed("PARTITION BY g ORDER BY k", ["mode(n)", "max_by(s, x)", "count(DISTINCT n)"])
    db.insert("r", rows(3))
    db.save(tmp_path / "saved")
    again = ev.Database.load(tmp_path / "saved")
    for one in (db, again):
        one.delete("r", rows(3)[10:20])
    assert sorted(map(repr, db.view("v"))) == sorted(map(repr, again.view("v")))
