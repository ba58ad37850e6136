"""Windows of time, sliding ones and sessions: against DuckDB after every batch, their feeds, costs and refusals."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import duckdb
import pytest

import everview as ev
from everview.errors import SizeError, TypeMismatchError, UnknownNameError, UnsupportedError
from tests.engine.spans import COLUMNS, FLINK, SPANS, a_row
from tests.scale import scaled

VIEWS = SPANS | FLINK


def plain(row: Any) -> tuple[Any, ...]:
    return tuple(v.replace(tzinfo=None) if isinstance(v, datetime) else v for v in row)


def a_database() -> ev.Database:
    db = ev.Database()
    db.sql(f"CREATE TABLE t ({COLUMNS})")
    return db


@pytest.mark.slow
def test_views_are_what_duckdb_computes_and_feeds_add_up_to_them() -> None:
    draw = random.Random(5)
    for _ in range(scaled(2)):
        db, there = a_database(), list[tuple[Any, ...]]()
        for name, (query, _) in VIEWS.items():
            db.create_view(name, query)
        feeds = {name: db.view(name).changes(per_update=draw.random() < 0.5) for name in VIEWS}
        told: dict[str, Counter[Any]] = {name: Counter() for name in VIEWS}
        for _ in range(3):
            gone = draw.sample(there, draw.randrange(len(there) // 2 + 1))
            come = [a_row(draw) for _ in range(draw.randrange(1, 15))]
            with db.batch() as batch:
                batch.delete("t", gone)
                batch.insert("t", come)
            there = list((Counter(there) - Counter(gone) + Counter(come)).elements())
            compare(db, there, feeds, told)


def compare(db: ev.Database, there: list[Any], feeds: dict[str, Any], told: dict[str, Counter[Any]]) -> None:
    with duckdb.connect() as oracle:
        oracle.execute("CREATE TABLE t (k INT, ts TIMESTAMP, n TIMESTAMP, d DATE, v INT)")
        oracle.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", there)
        for name, (_, query) in VIEWS.items():
            wanted = Counter(oracle.execute(query).fetchall())
            assert Counter(map(plain, db.view(name))) == wanted, name
            for batch in feeds[name].read():
                for change in batch.to_pylist():
                    values = plain(value for column, value in change.items() if not column.startswith("_"))
                    sign = -1 if change["_change_type"] in ("delete", "update_preimage") else 1
                    told[name][values] += sign * change["_count"]
            assert +told[name] == wanted, name


def test_a_window_of_fixed_width_costs_what_a_group_does() -> None:
    bounds = ev.explain(SPANS["tumbling"][0], schema=f"CREATE TABLE t ({COLUMNS})").to_dict()["bounds"]
    assert bounds["update"] == "O(1)"


def test_the_names_of_outputs_are_those_of_the_fields() -> None:
    db = a_database()
    db.create_view("v", "SELECT window.start, window(ts, '1 hour').end, k FROM t GROUP BY window(ts, '1 hour'), k")
    assert db.view("v").to_arrow().column_names == ["start", "end", "k"]


@pytest.mark.parametrize(
    ("query", "error", "text"),
    [
        ("SELECT window(ts, '1 month').start AS x FROM t", UnsupportedError, "time window of months"),
        ("SELECT window(ts, '10 apples').start AS x FROM t", TypeMismatchError, "a length of time is expected"),
        ("SELECT window(ts, '0 seconds').start AS x FROM t", TypeMismatchError, "longer than nothing"),
        ("SELECT window(ts, '5 minutes', '10 minutes').start AS x FROM t", TypeMismatchError, "slides by more"),
        ("SELECT window(ts, '1 day', '1 second').start AS x FROM t", SizeError, "more than 100 windows"),
        ("SELECT window(v, '1 day').start AS x FROM t", TypeMismatchError, "goes by a date or timestamp"),
        ("SELECT window(ts).start AS x FROM t", TypeMismatchError, "window takes 2 to 4 arguments"),
        ("SELECT window(ts, '1 day').begin AS x FROM t", UnknownNameError, "there is no field begin"),
        ("SELECT session_window(ts, '1 day').start AS x FROM t", UnsupportedError, "session window without groups"),
        (
            "SELECT window(ts, '1 day').start AS x, window(ts, '2 days').start AS y FROM t",
            UnsupportedError,
            "several time windows",
        ),
        ("SELECT * FROM TUMBLE(t, INTERVAL 1 DAY)", TypeMismatchError, "TUMBLE takes a table, its column of time"),
        ("SELECT * FROM other(t)", UnsupportedError, "table function"),
    ],
)
def test_refusals_say_what_is_wrong_and_where(query: str, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as raised:
        a_database().create_view("v", query)
    assert raised.value.line == 1  # type: ignore[attr-defined]


def test_a_query_is_answered_as_by_a_view() -> None:
    db, draw = a_database(), random.Random(8)
    db.insert("t", [a_row(draw) for _ in range(20)])
    for name in ("tumbling", "sessions"):
        db.create_view(name, VIEWS[name][0])
        assert Counter(db.sql(VIEWS[name][0]) or ()) == Counter(db.view(name)) != Counter()


@pytest.mark.parametrize("step", [2, 50])
def test_cumulate_has_windows_that_begin_together_and_grow(step: int) -> None:
    db = ev.Database()
    db.sql("CREATE TABLE t (k INT, q INT, ts TIMESTAMP_NTZ)")
    function = f"TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '{step}' MINUTES, INTERVAL '{5 * step}' MINUTES))"
    db.sql(f"CREATE VIEW v AS SELECT window_start, window_end, k, SUM(q) AS s FROM {function} GROUP BY 1, 2, 3")
    r = random.Random(1)
    day = datetime(2020, 1, 1)
    rows = [(r.randrange(2), r.randrange(5), day + timedelta(seconds=r.randrange(3000))) for _ in range(60)]
    db.insert("t", [*rows, (1, 1, None), (0, 7, day), (0, 8, day + timedelta(minutes=2))])
    db.delete("t", rows[:20])
    there = [*rows[20:], (0, 7, day), (0, 8, day + timedelta(minutes=2))]
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (k INT, q INT, ts TIMESTAMP)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", there)
        begin = f"time_bucket(INTERVAL {5 * step} MINUTE, ts, TIMESTAMP '1970-01-01')"
        wanted = connection.execute(
            f"SELECT b, b + n * INTERVAL {step} MINUTE AS e, k, SUM(q) "
            f"FROM (SELECT *, {begin} AS b FROM t), range(1, 6) AS r(n) "
            f"WHERE ts < b + n * INTERVAL {step} MINUTE GROUP BY ALL"
        ).fetchall()
    assert sorted(db.view("v")) == sorted(wanted)
    with pytest.raises(TypeMismatchError, match="multiple of its step"):
        db.sql("CREATE VIEW w AS SELECT window_end FROM CUMULATE(t, ts, INTERVAL 3 MINUTES, INTERVAL 10 MINUTES)")
