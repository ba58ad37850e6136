"""Threads that share a database: they take turns, and each read is of one state."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import pytest

import everview as ev
from everview.errors import EverviewError, StaleReadError

ROWS = 70_000  # more than a step of a read

VIEWS = {
    "plain": "SELECT k, s FROM r",
    "computed": "SELECT k, reverse(s) AS y FROM r",
    "grouped": "SELECT k, COUNT(*) AS c, MAX(s) AS m FROM r GROUP BY k",
    "distinct": "SELECT DISTINCT s FROM r",
    "union": "SELECT k FROM r UNION SELECT k + 1 AS k FROM r",
}


def database(select: str, rows: int = ROWS) -> ev.Database:
    db = ev.Database()
    db.sql("CREATE TABLE r (k INT, s STRING); CREATE TABLE other (k INT)")
    db.sql(f"CREATE MATERIALIZED VIEW v AS {select}")
    db.insert("r", [(i, f"text {i}") for i in range(rows)])
    return db


def together(*tasks: Callable[[], object]) -> list[object]:
    """Run all at the same time; the first failure is raised."""
    barrier = Barrier(len(tasks))

    def begin(task: Callable[[], object]) -> object:
        barrier.wait()
        return task()

    with ThreadPoolExecutor(len(tasks)) as pool:
        return [done.result() for done in [pool.submit(begin, task) for task in tasks]]


def until(done: Event, task: Callable[[], object]) -> None:
    """Again and again, and at least once."""
    task()
    while not done.is_set():
        task()


@pytest.mark.slow
@pytest.mark.parametrize("select", VIEWS.values(), ids=VIEWS)
def test_two_threads_read_one_view(select: str) -> None:
    db = database(select)
    view = db.view("v")
    wanted = sorted(view)
    for found in together(*[lambda: sorted(view)] * 2, lambda: view.to_arrow().num_rows, lambda: len(view)):
        assert found in (wanted, len(wanted))


@pytest.mark.slow
@pytest.mark.parametrize("rows", [10, ROWS])
@pytest.mark.parametrize("select", VIEWS.values(), ids=VIEWS)
def test_a_loop_that_changes_what_it_reads_is_told(select: str, rows: int) -> None:
    db = database(select, rows)
    before = db.version
    rows_read = iter(db.view("v"))
    next(rows_read)
    db.insert("r", [(-1, "new")])
    with pytest.raises(StaleReadError, match="v has changed") as caught:
        list(rows_read)
    assert "to_arrow()" in str(caught.value)
    assert "list(view)" in str(caught.value)
    assert isinstance(caught.value, EverviewError)
    assert db.version == before + 1


def test_a_loop_may_change_other_tables_and_what_it_has_listed() -> None:
    db = database(VIEWS["plain"], 1_000)
    for k, _ in db.view("v"):
        db.insert("other", [(k,)])
    for row in list(db.view("v")):
        db.delete("r", [row])
    assert len(db.view("v")) == 0
    assert db.version == 2_001


def test_listing_one_view_survives_a_change_of_another() -> None:
    """Views over other tables change, come and go; only what changes the view itself ends its listing."""
    db = database(VIEWS["plain"])
    db.sql("CREATE MATERIALIZED VIEW apart AS SELECT k, COUNT(*) AS n FROM other GROUP BY k")
    rows = iter(db.view("v"))
    listed = [next(rows)]
    changes: list[Callable[[], object]] = [
        lambda: db.insert("other", [(1,), (2,)]),
        lambda: db.sql("CREATE MATERIALIZED VIEW more AS SELECT k FROM other WHERE k > 1"),
        lambda: db.delete("other", [(1,)]),
        lambda: db.drop("apart"),
    ]
    for change in changes:
        change()
        listed.append(next(rows))
    assert sorted([*listed, *rows]) == sorted(db.view("v"))


def test_rows_that_are_being_read_survive_a_feed_that_is_opened_meanwhile() -> None:
    """Nothing that is read changes by it."""
    db = database(VIEWS["plain"])
    rows = iter(db.view("v"))
    first = next(rows)
    db.view("v").changes()
    assert sorted([first, *rows]) == sorted(db.view("v"))


def test_a_feed_that_is_opened_meanwhile_is_told_where_it_changes_what_is_read() -> None:
    db = database("SELECT r.k, r.s FROM r JOIN other ON r.k = other.k")
    db.insert("other", [(i,) for i in range(ROWS)])
    rows = iter(db.view("v"))
    next(rows)
    db.view("v").changes()
    with pytest.raises(StaleReadError, match="a feed of it was opened"):
        list(rows)


@pytest.mark.slow
def test_readers_beside_writers_see_whole_batches() -> None:
    """Every batch moves a number from one row to another, so that the sum is always the same."""
    db = ev.Database()
    db.sql("CREATE TABLE r (k INT PRIMARY KEY, x INT, s STRING)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT k, x, reverse(s) AS y FROM r")
    db.sql("CREATE MATERIALIZED VIEW g AS SELECT SUM(x) AS x, COUNT(*) AS n FROM r")
    db.insert("r", [(i, 1, f"text {i}") for i in range(500)])
    feed = db.view("v").changes()
    done = Event()
    changes = [0]

    def write(first: int) -> None:
        for i in range(20):
            db.upsert("r", [(first, 1 - i, "a"), (first + 1, 1 + i, "b")])

    def writers() -> None:
        try:
            together(lambda: write(0), lambda: write(2))
        finally:
            done.set()

    def read() -> None:
        table = db.view("v").to_arrow()
        assert (table.num_rows, sum(table["x"].to_pylist())) == (500, 500)
        assert db.view("g").page(limit=5) == [(500, 500)]
        assert len(db.view("v")) == 500
        assert db.view("v")[-1]

    def iterate() -> None:
        with contextlib.suppress(StaleReadError):
            assert sum(row[1] for row in db.view("v")) == 500

    def follow() -> None:
        for batch in feed.read():
            for kind, x, count in zip(*(batch[n].to_pylist() for n in ("_change_type", "x", "_count")), strict=True):
                changes[0] += x * count * (1 if kind == "insert" else -1)

    together(
        writers,
        lambda: until(done, read),
        lambda: until(done, iterate),
        lambda: until(done, follow),
        lambda: until(done, lambda: db.nbytes() and db.view("v").stats()),
    )
    follow()
    assert changes == [0]
    assert db.version == 41


def test_definitions_and_feeds_beside_writers() -> None:
    db = database(VIEWS["computed"], 1_000)
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT k, reverse(s) AS y FROM r")

    def define() -> None:
        for i in range(8):
            db.sql(f"CREATE TABLE t{i} (a INT); CREATE MATERIALIZED VIEW v{i} AS SELECT k, upper(s) AS u FROM r")

    def write() -> None:
        for i in range(100):
            db.insert("r", [(10_000 + i, "x")])

    def emit_deltas() -> None:
        for _ in range(50):
            with db.view("w").changes() as feed:
                feed.read()

    together(define, write, write, emit_deltas)
    assert {len(db.view(name)) for name in db.views} == {1_200}
    assert len(db.tables) == 10


def test_databases_of_their_own() -> None:
    def work() -> int:
        return len(list(database("SELECT k, reverse(s) AS y FROM r", 5_000).view("v")))

    assert together(*[work] * 4) == [5_000] * 4
