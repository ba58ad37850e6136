"""The memory limit of a database: what it may be, and that a new view keeps within it."""

from __future__ import annotations

from typing import Any

import pytest

import everview as ev
from everview.errors import MemoryLimitError

VIEWS = {
    "join": "SELECT a.k, a.s, b.s AS t FROM r a JOIN r b ON a.k = b.k",
    "computed": "SELECT k, reverse(s) AS y FROM r",
    "grouped": "SELECT s, COUNT(*) AS c, SUM(k) AS x FROM r GROUP BY s",
    "extreme": "SELECT k, MAX(s) AS m FROM r GROUP BY k",
    "distinct": "SELECT DISTINCT s FROM r",
    "union": "SELECT s FROM r UNION SELECT reverse(s) AS s FROM r",
}


def filled(rows: int = 20_000) -> ev.Database:
    db = ev.Database()
    db.sql("CREATE TABLE r (k INT, s STRING)")
    db.insert("r", [(i, f"text {i}") for i in range(rows)])
    return db


@pytest.mark.parametrize("limit", [0, -1, True, False, 1e9, "1GB"])
def test_a_limit_that_is_none_is_refused(limit: Any) -> None:
    with pytest.raises(MemoryLimitError, match="no number of bytes"):
        ev.Database(memory_limit=limit)


@pytest.mark.parametrize("select", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("share", [0.0, 0.5, 0.95])
def test_a_view_that_does_not_fit_is_not_made(select: str, share: float) -> None:
    db = filled()
    before = db.nbytes()
    db.sql(f"CREATE MATERIALIZED VIEW whole AS {select}")
    needed = db.nbytes() - before
    db = filled()
    db.memory_limit = before + int(share * needed)
    size, version = db.nbytes(), db.version
    for _ in range(3):
        with pytest.raises(MemoryLimitError, match="filling v needs more memory than the limit of"):
            db.sql(f"CREATE MATERIALIZED VIEW v AS {select}")
        assert (db.views, db.version) == ((), version)
    assert db.nbytes() <= 1.25 * size  # the dictionary keeps room for ids of computed strings
    db.memory_limit = before + 2 * needed + 200_000
    db.sql(f"CREATE MATERIALIZED VIEW v AS {select}")
    assert len(db.view("v")) == len(set(db.view("v")))
    db.insert("r", [(-1, "more")])
    assert all(m.memory_limit is None for m in db._views["v"].machines)


def test_a_script_is_made_whole_or_not_at_all() -> None:
    db = filled()
    views = [f"CREATE MATERIALIZED VIEW v{i} AS SELECT k, s FROM r" for i in range(4)]
    db.memory_limit = int(db.nbytes() * 2)
    with pytest.raises(MemoryLimitError):
        db.sql(";".join(views))
    assert db.views == ()
    db.insert("r", [(-1, "more")])


def test_an_empty_view_is_made_under_any_limit() -> None:
    db = ev.Database(memory_limit=1)
    db.sql("CREATE TABLE r (k INT, s STRING); CREATE MATERIALIZED VIEW v AS SELECT s FROM r")
    with pytest.raises(MemoryLimitError):
        db.insert("r", [(1, "x")])
    assert list(db.view("v")) == []
