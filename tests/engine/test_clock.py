"""Conditions on now(): against DuckDB with the clock's time written out, after every batch; tables that forget."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

import everview as ev
from everview.engine.direct.batch import DirectBatch
from everview.errors import (
    ClockError,
    ExpressionError,
    KeyViolationError,
    OverDeleteError,
    TypeMismatchError,
    UnsupportedError,
)
from tests.scale import scaled

Row = tuple[Any, ...]
TABLES = {"t": "k INT, ts TIMESTAMP, d DATE, v INT, s STRING", "u": "k INT, b TIMESTAMP, f TIMESTAMP, w INT"}
START = datetime(2024, 1, 28, 9, 30)

ENDING = {
    "last_days": "SELECT * FROM t WHERE ts > now() - INTERVAL 3 DAYS",
    "between": "SELECT k, v FROM t WHERE ts BETWEEN now() - INTERVAL 50 HOURS AND now() + INTERVAL 5 HOURS",
    "turned": "SELECT k, s FROM t WHERE now() - INTERVAL 36 HOURS <= ts AND v > 2",
    "months": "SELECT k, ts FROM t WHERE ts >= now() - INTERVAL 1 MONTH",
    "days": "SELECT k, d FROM t WHERE d > current_date() - INTERVAL 2 DAYS AND d <= current_date()",
    "today": "SELECT k, d FROM t WHERE d = current_date()",
    "month_of_dates": "SELECT k, d FROM t WHERE d >= current_date() - INTERVAL 1 MONTH",
    "times_and_dates": "SELECT k FROM t WHERE ts >= current_date() - INTERVAL 1 DAY AND d < now() + INTERVAL 9 HOURS",
    "computed": "SELECT k, v FROM t WHERE ts + INTERVAL 2 DAYS > now() AND CAST(ts AS DATE) <= current_date()",
    "not_before": "SELECT k, v FROM t WHERE NOT ts < now() - INTERVAL 2 DAYS AND NOT (now() + INTERVAL 1 HOUR <= ts)",
    "differences": "SELECT k, v FROM t WHERE now() - ts < INTERVAL 50 HOURS AND ts - now() < INTERVAL 5 HOURS",
    "this_hour": "SELECT k, ts FROM t WHERE ts >= date_trunc('HOUR', now())",
    "this_week": "SELECT k, ts FROM t WHERE ts >= date_trunc('WEEK', now()) - INTERVAL 1 DAY",
    "this_quarter": "SELECT k, ts FROM t WHERE ts >= date_trunc('QUARTER', now()) AND ts < date_trunc('HOUR', now())",
    "groups": "SELECT k, COUNT(*) AS n, SUM(v) AS s, MIN(v) AS l, MAX(s) AS h FROM t "
    "WHERE ts > now() - INTERVAL 2 DAYS GROUP BY k HAVING COUNT(*) < 9",
    "whole": "SELECT COUNT(*) AS n, SUM(v) AS s FROM t WHERE ts > now() - INTERVAL 1 DAY",
    "different": "SELECT DISTINCT k, s FROM t WHERE ts > now() - INTERVAL 40 HOURS",
    "joined": "SELECT t.k, v, w FROM t JOIN u ON t.k = u.k AND u.f > now() WHERE t.ts > now() - INTERVAL 2 DAYS",
    "itself": "SELECT a.v, c.v AS w FROM t AS a JOIN t AS c ON a.k = c.k AND a.v = c.v "
    "WHERE a.ts > now() - INTERVAL 1 DAY AND c.ts > now() - INTERVAL 3 DAYS",
    "valid": "SELECT k, w FROM u WHERE b <= now() AND now() < f",
    "either": "SELECT k FROM t WHERE ts > now() - INTERVAL 1 DAY UNION SELECT k FROM u WHERE f > now()",
    "in_list": "SELECT k, v FROM t WHERE ts > now() - INTERVAL 4 DAYS AND k IN (SELECT k FROM u WHERE f >= now())",
    "outer_join": "SELECT a.k, a.v, c.w FROM (SELECT * FROM t WHERE ts > now() - INTERVAL 2 DAYS) AS a "
    "LEFT JOIN u AS c ON a.k = c.k AND c.f > now() AND c.b < now()",
}
"""Views that never need a row again once its time is over."""
OTHERS = {
    "begun": "SELECT k, ts FROM t WHERE ts <= now()",
    "old": "SELECT k, COUNT(*) AS n FROM t WHERE ts < now() - INTERVAL 1 MONTH GROUP BY k",
    "without": "SELECT k, v FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.f > now())",
    "latest": "SELECT k, m FROM (SELECT k, MAX(ts) AS m FROM t GROUP BY k) AS g WHERE m > now() - INTERVAL 2 DAYS",
    "outer": "SELECT t.k, v, w FROM t LEFT JOIN u ON t.k = u.k AND u.f > now()",
    "latest_of_all": "SELECT k, v FROM t WHERE ts >= (SELECT MAX(b) FROM u WHERE b <= now()) AND v > 1",
    "scalar": "SELECT k, v, (SELECT COUNT(*) FROM u WHERE u.k = t.k AND u.b <= now()) AS n FROM t WHERE v < 4",
}
ORDERED = {
    "first": (
        "SELECT k, v, ts FROM t WHERE ts > now() - INTERVAL 3 DAYS ORDER BY v DESC LIMIT 3",
        "SELECT k, v, ts FROM t WHERE ts > now() - INTERVAL 3 DAYS ORDER BY v DESC NULLS LAST, k NULLS FIRST, "
        "ts NULLS FIRST LIMIT 3",
    )
}


class Model:
    """What the tables hold, with all rows that ever came and were not deleted, and a clock."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = START
        self.rows: dict[str, list[Row]] = {"t": [], "u": []}

    def time(self) -> datetime | None:
        if self.random.random() < 0.05:
            return None
        return self.now + timedelta(minutes=self.random.choice((1, 30, 60 * 24)) * self.random.randint(-60, 30))

    def row(self, table: str) -> Row:
        draw, ts = self.random, self.time()
        if table == "t":
            day = None if draw.random() < 0.05 else (ts or self.now).date() + timedelta(draw.randint(-2, 2))
            return draw.randrange(4), ts, day, draw.choice((None, 1, 2, 3, 4)), draw.choice("ab")
        end = None if draw.random() < 0.1 else (ts or self.now) + timedelta(hours=draw.randint(-9, 60))
        return draw.randrange(4), ts, end, draw.randrange(3)

    def go_on(self) -> None:
        hours = self.random.choice((0, 0, 1, 5, 23, 24, 24 * 9, 24 * 31))
        self.now += timedelta(hours=hours, minutes=self.random.choice((0, 0, 30)))

    def changes(self) -> dict[str, tuple[list[Row], list[Row]]]:
        """What goes and what comes; some rows are over already."""
        found = {}
        for table, there in self.rows.items():
            gone = self.random.sample(there, self.random.randint(0, min(len(there), 3)))
            come = [self.row(table) for _ in range(self.random.randint(0, 5))]
            come += come[:1]
            self.rows[table] = list((Counter(there) - Counter(gone) + Counter(come)).elements())
            found[table] = gone, come
        return found

    def oracle(self, queries: dict[str, str]) -> dict[str, Counter[Row]]:
        now = f"TIMESTAMP '{self.now}'"
        with duckdb.connect() as connection:
            for table, columns in TABLES.items():
                connection.execute(f"CREATE TABLE {table} ({columns})")
                marks = ", ".join("?" * len(columns.split(",")))
                if self.rows[table]:
                    connection.executemany(f"INSERT INTO {table} VALUES ({marks})", self.rows[table])
            found = {}
            for name, query in queries.items():
                written = query.replace("now()", now).replace("current_date()", f"CAST({now} AS DATE)")
                found[name] = Counter(connection.execute(written).fetchall())
        return found


def plain(row: Any) -> Row:
    return tuple(v.replace(tzinfo=None) if isinstance(v, datetime) else v for v in row)


def a_database(model: Model, queries: dict[str, str]) -> ev.Database:
    db = ev.Database(clock=lambda: model.now)
    for table, columns in TABLES.items():
        db.sql(f"CREATE TABLE {table} ({columns})")
    for name, query in queries.items():
        db.create_view(name, query)
    return db


def told(feed: Any) -> Iterator[tuple[Row, int, int | None]]:
    """What a feed says: rows, how many copies more, and by which update."""
    for batch in feed.read():
        for change in batch.to_pylist():
            row = plain(v for c, v in change.items() if c[0] != "_")
            sign = -1 if change["_change_type"] in ("delete", "update_preimage") else 1
            yield row, sign * change["_count"], change.get("_update")


def refused_batch(db: ev.Database, model: Model) -> None:
    with db.batch() as batch:
        batch.insert("t", [model.row("t") for _ in range(3)])
        batch.delete("t", [(99, model.now, model.now.date(), 1, "a")])


def go_through(
    seed: int, queries: dict[str, str], steps: int, path: Path, *, oracles: dict[str, str] | None = None
) -> ev.Database:
    """Random batches, moves of the clock, refused batches and snapshots; views and feeds are DuckDB's after each."""
    model = Model(seed)
    draw = model.random
    db = a_database(model, queries)
    feeds: dict[str, Any] = {}
    shown: dict[str, Counter[Row]] = {}

    def open_feeds() -> None:
        for name in queries:
            feeds[name] = db.view(name).changes(per_update=draw.random() < 0.3)
            shown[name] = Counter(map(plain, db.view(name)))

    open_feeds()
    saved = draw.randrange(steps)
    for step in range(steps):
        if draw.random() < 0.8:
            model.go_on()
        if step == saved:
            db.save(path / "clock.db")
            db = ev.Database.load(path / "clock.db", verify=draw.random() < 0.3, clock=lambda: model.now)
            open_feeds()
        if draw.random() < 0.2:
            before = {name: Counter(db.view(name)) for name in queries}, db.now
            with pytest.raises(OverDeleteError):
                refused_batch(db, model)
            assert ({name: Counter(db.view(name)) for name in queries}, db.now) == before
        if draw.random() < 0.3:
            db.advance()
        else:
            with db.batch() as batch:
                for table, (gone, come) in model.changes().items():
                    batch.delete(table, gone)
                    batch.insert(table, come)
        assert db.now == model.now.replace(tzinfo=UTC)
        for name, wanted in model.oracle(oracles or queries).items():
            assert Counter(map(plain, db.view(name))) == wanted, f"{name} {step}"
            assert len(db.view(name)) == wanted.total()
            for row, copies, _ in told(feeds[name]):
                shown[name][row] += copies
            assert +shown[name] == wanted, f"the feed of {name} {step}"
            assert not -shown[name]
    return db


@pytest.mark.parametrize("seed", range(scaled(4)))
def test_views_are_duckdbs_at_the_clocks_time(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    chosen = dict(draw.sample(sorted((ENDING | OTHERS).items()), 6))
    go_through(seed, chosen, 10, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(scaled(3)))
def test_all_views_together(seed: int, tmp_path: Path) -> None:
    go_through(100 + seed, ENDING | OTHERS, 12, tmp_path)


@pytest.mark.parametrize("seed", range(scaled(4)))
def test_tables_forget_what_nobody_reads_any_more(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    chosen = dict(draw.sample(sorted(ENDING.items()), 4))
    chosen["groups"] = ENDING["groups"]
    db = go_through(seed, chosen, 12, tmp_path)
    assert not db.readers.expiring.keys() - {"t", "u"}
    assert "t" in db.readers.expiring
    db.advance(to=datetime(2060, 1, 1))
    kept = [plain(row) for row in db.table("t")]
    assert all(row[1] is None or row[2] is None for row in kept), "what has no time is never over"
    assert db.view("groups").count() == 0


def test_what_is_first_follows_the_clock(tmp_path: Path) -> None:
    queries = {name: both[0] for name, both in ORDERED.items()}
    go_through(5, queries, 12, tmp_path, oracles={name: both[1] for name, both in ORDERED.items()})


def test_one_batch_is_as_many() -> None:
    model = Model(3)
    queries = dict(list(ENDING.items())[::3])
    together, single = a_database(model, queries), a_database(model, queries)
    for _ in range(6):
        model.go_on()
        changes = model.changes()
        with together.batch() as batch:
            for table, (gone, come) in changes.items():
                batch.delete(table, gone)
                batch.insert(table, come)
        for table, (gone, come) in changes.items():
            for row in gone:
                single.delete(table, [row])
            for row in come:
                single.insert(table, [row])
        single.advance()
        for name in queries:
            assert Counter(together.view(name)) == Counter(single.view(name)), name


def a_window(days: int = 7) -> tuple[ev.Database, Any]:
    moment = [datetime(2024, 5, 10, 12)]
    db = ev.Database(clock=lambda: moment[0])
    db.sql("CREATE TABLE e (id INT PRIMARY KEY, ts TIMESTAMP)")
    db.sql(f"CREATE MATERIALIZED VIEW recent AS SELECT id FROM e WHERE ts > now() - INTERVAL {days} DAYS")
    return db, moment


def ids(db: ev.Database) -> set[int]:
    return {row[0] for row in db.view("recent")}


def test_feeds_tell_what_the_clock_does_before_a_batchs_updates() -> None:
    for per_update in (False, True):
        db, moment = a_window()
        feed = db.view("recent").changes(per_update=per_update)
        db.insert("e", [(1, moment[0]), (2, moment[0] + timedelta(hours=1))])
        version = db.version
        moment[0] += timedelta(days=7)
        db.insert("e", [(3, moment[0])])
        assert db.version == version + 1
        found = list(told(feed))
        come = [((i,), 1, i - 1 if per_update else None) for i in (1, 2)]
        assert sorted(found[:2]) == come
        assert sorted(found[2:], key=str) == [((1,), -1, None), ((3,), 1, 0 if per_update else None)]
        feed.close()


def test_the_clock_is_stored_and_never_goes_back(tmp_path: Path) -> None:
    db, moment = a_window()
    assert db.now == datetime(2024, 5, 10, 12, tzinfo=UTC), "a view by the clock has a time to begin with"
    db.insert("e", [(1, moment[0]), (2, moment[0] + timedelta(days=1)), (3, moment[0] + timedelta(days=30))])
    assert ids(db) == {1, 2, 3}, "nothing says that later rows are to wait"
    db.advance(to=datetime(2024, 5, 17, 12))
    assert ids(db) == {2, 3}
    db.save(tmp_path / "db")
    with pytest.raises(ClockError, match="stands at 2024-05-17 12:00:00 UTC and cannot go back to 2024-05-17 11:59:59"):
        db.advance(to=datetime(2024, 5, 17, 11, 59, 59))
    moment[0] = datetime(2020, 1, 1)
    db.insert("e", [(4, datetime(2024, 5, 9))])
    assert ids(db) == {2, 3}
    assert db.now == datetime(2024, 5, 17, 12, tzinfo=UTC), "the machine's own clock was set back"
    db.advance(to=date(2024, 5, 19))
    assert ids(db) == {3}
    for verify in (False, True):
        loaded = ev.Database.load(tmp_path / "db", verify=verify, clock=lambda: moment[0])
        assert loaded.now == datetime(2024, 5, 17, 12, tzinfo=UTC)
        assert ids(loaded) == {2, 3}
        loaded.advance(to=datetime(2024, 5, 18, 14, tzinfo=UTC))
        assert ids(loaded) == {3}
    with pytest.raises(ClockError, match="'noon' is no time"):
        db.advance(to="noon")  # type: ignore[arg-type]


def test_a_view_that_is_defined_later_is_of_the_clocks_time() -> None:
    db, moment = a_window()
    db.insert("e", [(1, moment[0]), (2, moment[0] + timedelta(days=2))])
    moment[0] += timedelta(days=8)
    db.create_view("days", "SELECT id FROM e WHERE ts > now() - INTERVAL 7 DAYS AND id > 0")
    assert set(db.view("days")) == set(db.view("recent")) == {(1,), (2,)}, "no batch has come, so no time has passed"
    db.advance()
    assert set(db.view("days")) == set(db.view("recent")) == {(2,)}


def test_rows_that_nobody_reads_any_more_leave_and_may_be_deleted_again() -> None:
    db, moment = a_window()
    old = [(i, moment[0] - timedelta(days=8 - i)) for i in range(5)]
    db.insert("e", old)
    assert ids(db) == {2, 3, 4}
    assert {row[0] for row in db.table("e")} == {2, 3, 4}
    db.insert("e", [(5, moment[0])])
    moment[0] += timedelta(days=3)
    db.advance()
    assert {row[0] for row in db.table("e")} == {5}
    db.delete("e", old)  # They have gone already.
    db.delete("e", keys=[0, 1, 2, 3])
    db.upsert("e", [(1, old[1][1]), (5, moment[0] + timedelta(days=1))])
    assert ids(db) == {5}
    with pytest.raises(OverDeleteError, match="row 1 of the changes to e deletes"):
        db.delete("e", [old[0], (7, moment[0])])
    with pytest.raises(KeyViolationError):
        db.insert("e", [(5, moment[0])])
    db.create_view("all_ids", "SELECT id FROM e")
    moment[0] += timedelta(days=30)
    db.advance()
    assert {row[0] for row in db.table("e")} == {5}, "one reads it"
    with pytest.raises(OverDeleteError):
        db.delete("e", [old[0]])
    db.drop("all_ids")
    db.advance()
    assert not db.table("e").count()


def test_rows_that_are_never_there_leave_too() -> None:
    db = ev.Database(clock=lambda: START)
    db.sql("CREATE TABLE s (id INT, b TIMESTAMP, f TIMESTAMP)")
    db.create_view("valid", "SELECT id FROM s WHERE b <= now() AND f > now()")
    db.create_view("month", "SELECT id FROM s WHERE b < now() - INTERVAL 1 MONTH AND f >= now() AND f >= now()")
    hour = timedelta(hours=1)
    rows = [(1, START + 3 * hour, START + 2 * hour), (2, START - hour, START + hour), (3, START, START - hour)]
    db.insert("s", [*rows, rows[0]])
    assert set(db.view("valid")) == {(2,)}
    assert sorted(row[0] for row in db.table("s")) == [1, 1, 2]
    db.delete("s", [rows[0]])
    db.advance(to=START + hour)
    assert sorted(row[0] for row in db.table("s")) == [1, 2], "the second view has >="
    db.advance(to=START + 2 * hour + timedelta(microseconds=1))
    assert db.table("s").count() == 0
    assert not db.view("valid")


def test_a_table_at_which_others_point_forgets_nothing() -> None:
    db, moment = a_window()
    db.sql("CREATE TABLE c (id INT REFERENCES e (id))")
    db.insert("e", [(1, moment[0])])
    db.insert("c", [(1,)])
    moment[0] += timedelta(days=30)
    db.advance()
    assert not ids(db)
    assert db.table("e").count() == 1
    db.drop("c")
    db.advance()
    assert db.table("e").count() == 0


def test_append_only_tables_forget_and_queues_do_not() -> None:
    db, moment = a_window()
    for kind in ("append", "fifo"):
        db.create_table(kind, "ts TIMESTAMP", updates=kind)
        db.create_view(f"of_{kind}", f"SELECT ts FROM {kind} WHERE ts > now() - INTERVAL 1 DAY")
        db.insert(kind, [(moment[0],)])
    moment[0] += timedelta(days=2)
    db.advance()
    assert (db.table("append").count(), db.table("fifo").count()) == (0, 1)
    assert not db.view("of_append")
    assert not db.view("of_fifo")
    db.delete("fifo", [(moment[0] - timedelta(days=2),)])
    assert db.table("fifo").count() == 0


def test_views_over_views_go_with_them() -> None:
    db, moment = a_window()
    db.create_view("n", "SELECT COUNT(*) AS n FROM recent")
    db.create_view("doubled", "SELECT a.id FROM recent AS a JOIN recent AS b ON a.id = b.id")
    feeds = {name: db.view(name).changes(per_update=True) for name in ("n", "doubled")}
    db.insert("e", [(1, moment[0]), (2, moment[0] + timedelta(days=1))])
    list(told(feeds["n"])), list(told(feeds["doubled"]))
    moment[0] += timedelta(days=7)
    db.advance()
    assert list(told(feeds["n"])) == [((2,), -1, None), ((1,), 1, None)]
    assert list(told(feeds["doubled"])) == [((1,), -1, None)]


def test_a_time_that_cannot_be_computed() -> None:
    db = ev.Database(clock=lambda: START)
    db.sql("CREATE TABLE p (id INT, said STRING)")
    db.create_view("q", "SELECT id FROM p WHERE CAST(said AS TIMESTAMP) > now() - INTERVAL 1 DAY")
    with pytest.raises(ExpressionError, match="q"):
        db.insert("p", [(1, "2024-01-28 09:00:00"), (2, "yesterday")])
    db.insert("p", [(1, "2024-01-28 09:00:00"), (3, None), (4, "2024-01-01 00:00:00")])
    assert set(db.view("q")) == {(1,)}
    assert {row[0] for row in db.table("p")} == {1, 3}
    db.advance(to=datetime(2024, 1, 29, 9))
    assert {row[0] for row in db.table("p")} == {3}


def test_why_and_lookups_of_views_by_the_clock() -> None:
    db, moment = a_window()
    db.insert("e", [(1, moment[0]), (2, moment[0] + timedelta(days=1))])
    found = db.view("recent").why((1,))
    assert {alias: rows.column("id").to_pylist() for alias, rows in found.items()} == {"e": [1]}
    assert db.view("recent").lookup(id=2).num_rows == 1
    moment[0] += timedelta(days=7)
    db.advance()
    assert db.view("recent").lookup(id=1).num_rows == 0
    assert (1,) not in db.view("recent")
    assert (2,) in db.view("recent")


REFUSED = [
    ("SELECT id, now() AS n FROM e", "now gives another value each time"),
    ("SELECT id FROM e WHERE ts > now() - INTERVAL 1 DAY OR id = 1", "now gives another value each time"),
    ("SELECT COUNT(*) AS n FROM e HAVING MAX(ts) > now()", "now gives another value each time"),
    ("SELECT id FROM e WHERE ts <> now()", "now() in such a condition"),
    ("SELECT id FROM e WHERE ts + (now() - now()) > now()", "now() on both sides"),
    ("SELECT id FROM e WHERE now() - INTERVAL 1 DAY < TIMESTAMP '2024-01-01 00:00:00'", "columns of one table"),
    ("SELECT a.id FROM e AS a JOIN e AS b ON a.id = b.id WHERE greatest(a.ts, b.ts) > now()", "columns of one table"),
    ("SELECT id FROM e AS a WHERE EXISTS (SELECT 1 FROM e WHERE id = a.id + 1 AND a.ts > now())", "of one table"),
    ("SELECT id FROM e WHERE ts > date_trunc('CENTURY', now())", "what is made of now() here"),
    ("SELECT id FROM e WHERE ts > now() - INTERVAL 1 DAY * id", "what is made of now() here"),
]


@pytest.mark.parametrize(("query", "said"), REFUSED)
def test_refused(query: str, said: str) -> None:
    db, _ = a_window()
    with pytest.raises(UnsupportedError) as caught:
        db.create_view("v", query)
    assert said in caught.value.message
    assert caught.value.position is not None
    assert caught.value.hint


def test_other_ways_to_say_the_same() -> None:
    db = ev.Database(clock=lambda: START)
    db.sql("CREATE TABLE x (id INT, ts TIMESTAMP, d DATE)")
    last = "SELECT id FROM x WHERE ts > now() - INTERVAL 7 DAYS"
    days = "SELECT id FROM x WHERE d >= date_sub(current_date(), 6)"
    ways = {
        "SELECT id FROM x WHERE ts > timestampadd(DAY, -7, now())": last,
        "SELECT id FROM x WHERE INTERVAL 7 DAYS > current_timestamp() - ts": last,
        "SELECT id FROM x WHERE ts + INTERVAL 7 DAYS > now()": last,
        "SELECT id FROM x WHERE NOT (now() - INTERVAL '1' WEEK >= ts)": last,
        "SELECT id FROM x WHERE datediff(now(), d) < 7": days,
        "SELECT id FROM x WHERE d > current_date - 7": days,
        "SELECT id FROM x WHERE 7 > datediff(current_date(), d)": days,
        "SELECT id FROM x WHERE d > to_date(now()) - INTERVAL 7 DAYS": days,
    }
    for i, (query, same) in enumerate(ways.items()):
        db.create_view(f"a{i}", query)
        db.create_view(f"b{i}", same)
    edges = [START - timedelta(days=7) + timedelta(microseconds=n) for n in (-1, 0, 1)]
    edges += [START - timedelta(days=n, hours=h) for n in (0, 5, 6, 7, 8) for h in (0, 9, 10)]
    db.insert("x", [(i, ts, ts.date()) for i, ts in enumerate(edges)])
    for hours in (0, 1, 14, 15, 24, 100):
        db.advance(to=START + timedelta(hours=hours))
        for i, query in enumerate(ways):
            assert set(db.view(f"a{i}")) == set(db.view(f"b{i}")), (query, hours)


def test_other_refusals() -> None:
    db, _ = a_window()
    with pytest.raises(TypeMismatchError, match="INT is compared with now"):
        db.create_view("v", "SELECT id FROM e WHERE id > now()")
    with pytest.raises(TypeMismatchError, match="no row can be so far away"):
        db.create_view("v", "SELECT id FROM e WHERE ts > now() - INTERVAL 1000000 YEARS")
    with pytest.raises(UnsupportedError, match="a condition of its own, with AND"):
        db.sql("SELECT id FROM e WHERE ts > now() OR id = 1")
    db.sql("CREATE TABLE named (now INT, d DATE)")
    db.insert("named", [(3, date(2024, 1, 1))])
    db.create_view("plain", "SELECT now FROM named WHERE now > 2 AND d < DATE '2025-01-01'")
    assert list(db.view("plain")) == [(3,)]
    assert not db.view("plain").explain().plan.timed


def test_explain_says_what_it_costs() -> None:
    db, _ = a_window()
    db.sql("CREATE TABLE f (id INT, ts TIMESTAMP)")
    one = "SELECT e.id FROM e JOIN f ON e.id = f.id WHERE e.ts > now() - INTERVAL {} AND f.ts > now() - INTERVAL {}"
    same = db.create_view("same", one.format("7 DAYS", "7 DAYS")).explain()
    found = same.to_dict()
    assert found["constant_update_for"] == ["fifo"]
    assert "log N" in found["bounds"]["update"]
    assert any("while rows come in the order of their times" in note for note in found["notes"])
    assert "e.ts" not in str(same)
    assert "rows while ts > now() - 7 days: they are queued" in " ".join(str(same).split())
    other = db.create_view("other", one.format("7 DAYS", "1 MONTH")).explain().to_dict()
    assert other["constant_update_for"] == []
    assert "now() - 1 month" in str(db.view("other").explain())


def test_other_batches_go_the_direct_way_while_nothing_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    db, moment = a_window()
    db.sql("CREATE TABLE o (k INT, v INT)")
    db.create_view("sums", "SELECT k, SUM(v) AS s FROM o GROUP BY k")
    db.create_view("late", "SELECT id FROM e WHERE ts <= now()")
    db.advance()
    went: list[bool] = []
    of = DirectBatch.of
    monkeypatch.setattr(
        DirectBatch,
        "of",
        staticmethod(lambda *given: went.append(True) or of(*given)),  # type: ignore[func-returns-value]  # append gives None
    )
    db.insert("e", [(1, moment[0]), (2, moment[0] + timedelta(hours=2))])
    assert not went, "views by the clock are behind it"
    db.insert("o", [(1, 2)])
    assert went == [True]
    moment[0] += timedelta(hours=2)
    db.insert("o", [(1, 3)])
    assert went == [True], "a row comes by the clock"
    assert set(db.view("late")) == {(1,), (2,)}
    db.insert("o", [(1, 4)])
    assert went == [True, True]
    assert db.now == moment[0].replace(tzinfo=UTC)
    assert list(db.view("sums")) == [(1, 9)]


def test_steps_of_a_move_are_those_of_what_is_due() -> None:
    """A window of n rows: one that comes and one that goes cost O(log n), whatever n is."""
    taken = []
    for size in (500, 8_000):
        moment = [datetime(2024, 1, 1)]
        db = ev.Database(clock=lambda moment=moment: moment[0])
        db.sql("CREATE TABLE e (id INT, ts TIMESTAMP)")
        second = timedelta(seconds=1)
        window = f"WHERE ts > now() - INTERVAL {size} SECONDS"
        db.create_view("w", f"SELECT id % 5 AS g, COUNT(*) AS n FROM e {window} GROUP BY 1")
        db.insert("e", [(i, moment[0] + i * second) for i in range(size)])
        moment[0] += (size - 1) * second
        db.advance()
        steps = db.view("w").stats()["steps"]
        for i in range(size, size + 20):
            moment[0] += second
            db.insert("e", [(i, moment[0])])
        taken.append(db.view("w").stats()["steps"] - steps)
        assert sum(n for _, n in db.view("w")) == size == db.table("e").count()
    assert taken[1] <= 1.5 * taken[0], taken


def test_who_asks_why_keeps_no_rows_that_are_over() -> None:
    """Reading why, by whatever way, is no further reader of a table whose rows leave it when they are over."""
    db, moment = a_window()
    db.create_view("counted", "SELECT x.id, COUNT(*) AS n FROM e x WHERE x.ts > now() - INTERVAL 7 DAYS GROUP BY x.id")
    db.insert("e", [(1, moment[0]), (2, moment[0] + timedelta(days=1))])
    assert list(db.view("counted").why((1, 1))) == ["x"]
    db.view("recent").why((1,))
    moment[0] += timedelta(days=7, hours=1)
    db.advance()
    assert [row[0] for row in db.table("e")] == [2]
    db.delete("e", [(1, moment[0] - timedelta(days=7, hours=1))])  # It is over, which nobody need know.
    assert list(db.view("counted")) == [(2, 1)]
