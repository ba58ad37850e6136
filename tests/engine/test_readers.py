"""A batch looks at the tables that it changes and at the views behind them: what is idle costs it nothing."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import everview as ev

SCHEMA = """
CREATE TABLE r (a BIGINT, b BIGINT);
CREATE TABLE s (b BIGINT, c BIGINT);
CREATE MATERIALIZED VIEW joined AS SELECT r.a, s.c FROM r JOIN s ON r.b = s.b;
CREATE MATERIALIZED VIEW counted AS SELECT a, COUNT(*) AS n FROM joined GROUP BY a;
"""


def calls_of_an_insert(idle: int) -> int:
    """The calls of Python functions that one row takes beside so many tables, and views of these."""
    db = ev.Database()
    db.sql(SCHEMA)
    for i in range(idle):
        db.sql(f"CREATE TABLE idle{i} (x BIGINT PRIMARY KEY, y BIGINT)")
        db.sql(f"CREATE MATERIALIZED VIEW seen{i} AS SELECT y, COUNT(*) AS n FROM idle{i} GROUP BY y")
    db.insert("s", [(1, 2)])
    db.insert("r", [(0, 1)])
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        db.insert("r", [(7, 1)])
    finally:
        sys.setprofile(None)
    assert sorted(db.view("counted")) == [(0, 1), (7, 1)]
    return calls


def test_idle_tables_and_views_cost_a_batch_nothing() -> None:
    assert abs(calls_of_an_insert(12) - calls_of_an_insert(2)) < 20


def test_what_definitions_change_is_seen_by_the_next_batch() -> None:
    """Views over views that come, go, are replaced and altered, and a foreign key that goes with its table."""
    db = ev.Database()
    db.sql(SCHEMA)
    db.insert("s", [(1, 2)])
    db.insert("r", [(0, 1)])
    db.sql("CREATE MATERIALIZED VIEW above AS SELECT SUM(n) AS n FROM counted")
    db.insert("r", [(0, 1)])
    assert list(db.view("above")) == [(2,)]
    db.sql("CREATE OR REPLACE VIEW joined AS SELECT r.a, s.b AS c FROM r JOIN s ON r.b = s.b JOIN s o ON o.b = s.b")
    db.insert("s", [(1, 3)])
    assert list(db.view("above")) == [(8,)]
    db.sql("ALTER VIEW counted SET OPTIONS (epsilon = 0.5)")
    db.insert("r", [(5, 1)])
    assert list(db.view("above")) == [(12,)]
    feed = db.view("counted").changes()
    db.drop("above")
    db.insert("r", [(5, 1)])
    assert sum(len(batch) for batch in feed.read()) == 2
    db.sql("CREATE TABLE p (k BIGINT PRIMARY KEY); CREATE TABLE q (k BIGINT REFERENCES p)")
    try:
        db.insert("q", [(1,)])
        raise AssertionError("a row that points at nothing was taken")
    except ev.errors.ReferenceViolationError:
        pass
    db.drop("p", cascade=True)
    db.insert("q", [(1,)])
    assert list(db.table("q")) == [(1,)]
