"""The memory limit of a database: what it may be, and that a new view keeps within it."""

from __future__ import annotations

import resource
from typing import Any

import pytest

import everview as ev
from everview.errors import FeedError, MemoryLimitError

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


@pytest.mark.slow
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
    views = [f"CREATE MATERIALIZED VIEW v{i} AS SELECT k, s FROM r" for i in range(8)]
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


# --- feeds -----------------------------------------------------------------------------------------------------------

LIMIT = 4_000_000


def fed(limit: int | None) -> tuple[ev.Database, Any]:
    """A table that stays empty, and a feed of all that comes and goes."""
    db = ev.Database(memory_limit=limit)
    db.sql("CREATE TABLE r (k INT, s STRING); CREATE MATERIALIZED VIEW v AS SELECT k, s FROM r")
    return db, db.view("v").changes(per_update=True)


def come_and_go(db: ev.Database, rows: int) -> None:
    long = [(i, f"{i:05}" * 2_000) for i in range(rows)]
    with db.batch() as batch:
        batch.insert("r", long)
        batch.delete("r", long)


def test_an_unread_feed_counts_and_gives_up_within_the_limit() -> None:
    db, feed = fed(LIMIT)
    version = db.version
    for _ in range(60):
        come_and_go(db, 10)
        assert db.nbytes() <= LIMIT
    assert db.version == version + 60
    with pytest.raises(FeedError, match="bytes, all that it may hold, and they were dropped"):
        feed.read()
    feed.close()
    again = db.view("v").changes(per_update=True)
    come_and_go(db, 10)
    assert db.nbytes() > db.state_nbytes() + 190_000
    assert sum(b.num_rows for b in again.read()) == 20
    assert db.nbytes() == db.state_nbytes()


def test_a_feed_that_gives_up_does_so_while_its_batch_is_told() -> None:
    """One batch whose changes are many times the limit: pieces are made only until the feed has given up."""
    db, feed = fed(LIMIT)
    db.sql("CREATE TABLE many (k INT); CREATE MATERIALIZED VIEW w AS SELECT m.k, r.s FROM many m JOIN r ON r.k = 0")
    db.insert("many", [(i,) for i in range(20_000)])
    wide = db.view("w").changes()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    db.insert("r", [(0, "x" * 20_000)])  # 400 MB of changes
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 250_000
    with pytest.raises(FeedError):
        wide.read()
    assert len(feed.read()) == 1


def test_feeds_make_room_for_state() -> None:
    """A batch that fits is taken whatever feeds hold; they give up then, the largest first."""
    db, feed = fed(LIMIT)
    small = db.view("v").changes()
    for _ in range(15):
        come_and_go(db, 10)
    assert feed.nbytes > LIMIT // 2
    db.insert("r", [(i, f"{i:04}" * 500) for i in range(800)])
    assert db.nbytes() <= LIMIT
    assert len(db.table("r")) == 800
    with pytest.raises(FeedError):
        feed.read()
    assert small.nbytes == 0 or sum(b.num_rows for b in small.read()) == 800


def test_a_feed_never_refuses_a_batch() -> None:
    db, feed = fed(LIMIT)
    db.insert("r", [(i, f"{i:04}" * 500) for i in range(1_200)])
    for i in range(100):
        db.apply("r", [(1, "y" * 3_000, kind) for kind in ("insert", "delete")])
        assert db.version == i + 2
    with pytest.raises(MemoryLimitError):
        db.insert("r", [(i, f"{i:05}" * 500) for i in range(3_000)])
    with pytest.raises(FeedError):
        feed.read()
