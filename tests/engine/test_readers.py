"""A batch looks at the tables that it changes and at the views behind them: what is idle costs it nothing."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

import everview as ev

SCHEMA = """
CREATE TABLE r (a BIGINT, b BIGINT);
CREATE TABLE s (b BIGINT, c BIGINT);
CREATE MATERIALIZED VIEW joined AS SELECT r.a, s.c FROM r JOIN s ON r.b = s.b;
CREATE MATERIALIZED VIEW counted AS SELECT a, COUNT(*) AS n FROM joined GROUP BY a;
"""


def calls_of(act: Callable[[], None]) -> Counter[str]:
    """The calls of Python functions in something that is done, by the files that they are in."""
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            calls[frame.f_code.co_filename] += 1

    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(None)
    return calls


def calls_of_an_insert(idle: int) -> int:
    """The calls of Python functions that one row takes beside so many tables, and views of these."""
    db = ev.Database()
    db.sql(SCHEMA)
    for i in range(idle):
        db.sql(f"CREATE TABLE idle{i} (x BIGINT PRIMARY KEY, y BIGINT)")
        db.sql(f"CREATE MATERIALIZED VIEW seen{i} AS SELECT y, COUNT(*) AS n FROM idle{i} GROUP BY y")
    db.insert("s", [(1, 2)])
    db.insert("r", [(0, 1)])
    calls = calls_of(lambda: db.insert("r", [(7, 1)]))
    assert sorted(db.view("counted")) == [(0, 1), (7, 1)]
    return calls.total()


def test_idle_tables_and_views_cost_a_batch_nothing() -> None:
    assert abs(calls_of_an_insert(12) - calls_of_an_insert(2)) < 20


OURS = str(Path(ev.__file__).parent)
"""Where our modules are."""
SALES = """
CREATE TABLE shops (shop BIGINT PRIMARY KEY, city STRING);
CREATE TABLE sales (id BIGINT, shop BIGINT, amount DECIMAL(12, 2));
CREATE MATERIALIZED VIEW v AS SELECT city, COUNT(*) AS n, SUM(amount) AS total
    FROM sales JOIN shops ON sales.shop = shops.shop WHERE amount > 1 GROUP BY city
"""


@pytest.mark.parametrize("form", ["tuples", "dicts", "Arrow", "changes"])
def test_an_update_of_a_grouped_view_passes_few_modules_and_calls(form: str) -> None:
    db = ev.Database()
    db.sql(SALES)
    db.insert("shops", [(1, "Rome"), (2, "Oslo")])
    feed = db.view("v").changes()
    found: list[Any] = []

    def update(number: int) -> Callable[[], None]:
        row = {"id": number, "shop": number % 2 + 1, "amount": Decimal(number)}
        table = pa.Table.from_pylist([row], schema=db.table("sales").schema)
        changes = table.append_column("_change_type", pa.array(["insert"]))
        given: dict[str, Any] = {"tuples": [tuple(row.values())], "dicts": [row], "Arrow": table}

        def run() -> None:
            db.apply("sales", changes) if form == "changes" else db.insert("sales", given[form])
            found.extend(feed.read())

        return run

    for number in range(5):
        update(number)()
    found.clear()
    calls = calls_of(update(7))
    assert [row["total"] for batch in found for row in batch.to_pylist()] == [Decimal(3), Decimal(10)]
    assert calls.total() <= 100
    assert sum(name.startswith(OURS) for name in calls) <= 12


def test_views_that_an_update_does_not_reach_cost_no_calls() -> None:
    """Neither those whose condition the row does not meet, nor those in which it has no partner."""

    def calls(views: int) -> int:
        db = ev.Database()
        db.sql("CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE s (b BIGINT, c BIGINT)")
        for i in range(views):
            db.sql(f"CREATE MATERIALIZED VIEW f{i} AS SELECT b, COUNT(*) AS n FROM r WHERE a > {10 + i} GROUP BY b")
            db.sql(f"CREATE MATERIALIZED VIEW j{i} AS SELECT a, c FROM r JOIN s ON r.b = s.b WHERE c <> {i}")
        feeds = [db.view(name).changes() for name in db.views]
        db.insert("r", [(0, 1)])
        assert not any(feed.read() for feed in feeds)
        return calls_of(lambda: db.insert("r", [(7, 1)])).total()

    assert calls(20) == calls(2)


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
