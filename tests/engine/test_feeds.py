"""Feeds: slices of large deltas, rollback in the middle of one, and subscribers that change things."""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import everview as ev
from everview.engine import change_feed as feed
from everview.engine import transaction
from everview.engine.change_feed import MOST_IN_BATCH
from everview.engine.operators import join
from everview.engine.operators.join import _EntryRuntime
from everview.engine.values.rows import SLICE, Changes, WordRows
from everview.engine.view_runtime import ViewRuntime
from everview.errors import ClosedError, DataError, FeedError
from everview.kernel.machine import change_columns, pair_rows
from tests.engine.ways import the_other_way

SIDE = 800
ROWS = SIDE * SIDE


def _product() -> ev.Database:
    """A view whose size is the product of two tables' sizes."""
    db = ev.Database()
    db.sql("CREATE TABLE r (k BIGINT, a BIGINT)")
    db.sql("CREATE TABLE s (k BIGINT, b BIGINT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT a, b FROM r JOIN s ON r.k = s.k")
    db.insert("r", [(1, i) for i in range(SIDE)])
    return db


@pytest.mark.slow
@pytest.mark.parametrize("per_update", [True, False])
def test_a_large_delta_comes_in_slices(per_update: bool) -> None:
    """Together they are the whole delta, each row told once and with its update."""
    db = _product()
    with db.view("v").changes(per_update=per_update) as feed:
        db.insert("s", [(1, i) for i in range(SIDE)])
        batches = feed.read()
    assert all(b.num_rows <= max(MOST_IN_BATCH, SLICE + SIDE) for b in batches)
    assert not per_update or len(batches) > 1
    told = pa.Table.from_batches(batches)
    assert sorted(zip(told["a"].to_pylist(), told["b"].to_pylist(), strict=True)) == sorted(db.view("v"))
    assert set(told["_change_type"].to_pylist()) == {"insert"}
    assert set(told["_count"].to_pylist()) == {1}
    assert set(told["_commit_version"].to_pylist()) == {db.version}
    if per_update:
        assert told["_update"].equals(told["b"])


@pytest.mark.parametrize("per_update", [True, False])
def test_a_batch_that_fails_after_some_slices_changes_nothing(per_update: bool) -> None:
    """What had been taken from the kernel before is not told, and the state is as before."""
    db = _product()
    limit = 2**62
    with db.view("v").changes(per_update=per_update) as feed:
        changes = [(1, i, "insert", 1) for i in range(SIDE)] + [(1, SIDE, "insert", limit)]
        names = ["k", "b", "_change_type", "_count"]
        db.apply("r", pa.table([[1], [0], ["insert"], [3]], names=["k", "a", "_change_type", "_count"]))
        feed.read()
        with pytest.raises(DataError):
            db.apply("s", pa.table([list(c) for c in zip(*changes, strict=True)], names=names))
        assert feed.read() == []
        assert len(db.view("v")) == 0
        db.insert("s", [(1, 5)])
        assert sum(pc.sum(b["_count"]).as_py() for b in feed.read()) == len(db.view("v")) == SIDE + 3


def test_names_and_counts_of_weights() -> None:
    """The kernel writes both; counts only where they are not all 1."""
    runs = [*[1] * 40, *[-1] * 77, *[1] * 33]
    for weights in ([], [1], [-1, 1, 1, -1], [2, -3, 1, -(2**62)], runs, [*runs, *[2] * 64], [*runs, *[-1] * 31, 1]):
        names, counts = change_columns(pa.array(weights, pa.int64()))
        text = bytes(memoryview(names).cast("B"))[: 6 * len(weights)]
        assert text == b"".join(b"insert" if w > 0 else b"delete" for w in weights)
        if all(abs(w) == 1 for w in weights):
            assert counts is None
        else:
            assert pa.array(counts).to_pylist() == [abs(w) for w in weights]


def _single() -> ev.Database:
    db = ev.Database()
    db.sql("CREATE TABLE r (a BIGINT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT a FROM r")
    return db


def test_a_subscriber_may_change_tables() -> None:
    """Its own batch is applied at once, and told to everybody after the one that it was told of."""
    db = _single()
    view = db.view("v")
    heard: list[tuple[str, list[int], int]] = []

    def note(name: str, batch: pa.RecordBatch) -> None:
        heard.append((name, batch["a"].to_pylist(), batch["_commit_version"][0].as_py()))

    def first(batch: pa.RecordBatch) -> None:
        note("first", batch)
        if db.version == 1:
            db.insert("r", [(2,)])
            assert len(view) == 2

    view.subscribe(first)
    view.subscribe(lambda batch: note("second", batch))
    db.insert("r", [(1,)])
    assert heard == [("first", [1], 1), ("second", [1], 1), ("first", [2], 2), ("second", [2], 2)]


def test_a_subscriber_may_open_and_close_feeds() -> None:
    """One that is closed hears nothing more, not even of this batch; one that is opened hears of the next."""
    db = _single()
    view = db.view("v")
    heard: list[int] = []
    opened: list[Any] = []

    def meddle(batch: pa.RecordBatch) -> None:
        victim.close()
        own.close()
        opened.append(view.changes())

    own = view.subscribe(meddle)
    victim = view.subscribe(lambda batch: heard.append(batch.num_rows))
    db.insert("r", [(1,)])
    db.insert("r", [(2,)])
    assert heard == []
    assert len(opened) == 1
    assert [b["a"].to_pylist() for b in opened[0].read()] == [[2]]


@pytest.mark.parametrize(
    ("view", "lookup"),
    [
        ("SELECT r.a AS a, r.k AS k, s.b AS b FROM r JOIN s ON r.k = s.k", True),
        ("SELECT r.a AS a, r.k AS k, s.b AS b FROM r JOIN s ON r.k = s.k WHERE a < b", True),
        ("SELECT DISTINCT a, b FROM r JOIN s ON r.k = s.k", True),
        ("SELECT a, b FROM r JOIN s ON r.k = s.k", None),
        ("SELECT a + 1 AS a, b FROM r JOIN s ON r.k = s.k", False),
    ],
)
def test_membership(view: str, lookup: bool | None) -> None:
    """Looked up where the columns say which row it is; the same as listing everywhere."""
    db = ev.Database()
    db.sql("CREATE TABLE r (k BIGINT, a INT)")
    db.sql("CREATE TABLE s (k BIGINT, b STRING)" if "a < b" not in view else "CREATE TABLE s (k BIGINT, b INT)")
    db.sql(f"CREATE MATERIALIZED VIEW v AS {view}")
    values: list[Any] = [None, 1, 2] if "a < b" in view else [None, "x", "y"]
    db.insert("r", [(k, a) for k in (None, 1, 2) for a in (None, 1, 2)])
    db.insert("s", [(k, b) for k in (None, 1, 3) for b in values])
    listed = set(db.view("v"))
    width = len(db.view("v").schema)
    candidates = [(*(a, k)[: width - 1], b) for a in (None, 1, 2, 3) for k in (None, 1, 2) for b in values]
    for row in candidates:
        assert (row in db.view("v")) == (row in listed), row
    if lookup is not None:
        db._views["v"].rows = lambda **_: pytest.fail("rows were listed") if lookup else iter(())  # type: ignore[method-assign]
        assert (next(iter(listed)) in db.view("v")) is lookup


def test_single_updates_of_groups_and_of_distinct_rows_are_told_apart_in_one_run() -> None:
    """What each update changes, told of a batch that is run at once: the same as of updates that come alone."""
    together, alone = ev.Database(), ev.Database()
    changes = [(i % 3, i % 2, "insert") for i in range(12)] + [(i % 3, i % 2, "delete") for i in range(11)]
    told: list[list[Any]] = []
    for db, size in ((together, len(changes)), (alone, 1)):
        db.sql("CREATE TABLE r (k BIGINT, a BIGINT)")
        db.sql("CREATE MATERIALIZED VIEW sums AS SELECT k, SUM(a) AS s, COUNT(*) AS n FROM r GROUP BY k")
        db.sql("CREATE MATERIALIZED VIEW large AS SELECT DISTINCT SUM(a) AS s FROM r GROUP BY k HAVING COUNT(*) > 1")
        db.sql("CREATE MATERIALIZED VIEW total AS SELECT SUM(a) AS s FROM r")
        db.sql("CREATE MATERIALIZED VIEW kinds AS SELECT DISTINCT a + 1 AS b FROM r")
        found: list[Any] = []
        feeds = {name: db.view(name).changes(per_update=True) for name in db.views}
        for first in range(0, len(changes), size):
            columns = list(zip(*changes[first : first + size], strict=True))
            db.apply("r", pa.table([list(c) for c in columns], names=["k", "a", "_change_type"]))
            for name, opened in feeds.items():
                for row in (r for batch in opened.read() for r in batch.to_pylist()):
                    row.update({"_commit_version": 0, "_update": row["_update"] + first, "": name})
                    found.append(sorted(row.items(), key=repr))
        told.append(sorted(found, key=repr))
    assert told[0] == told[1]
    assert len(told[0]) > len(changes)


STACKED = {
    "g": "SELECT x.k AS k, COUNT(*) AS n, SUM(y.a) AS s FROM r x JOIN r y ON x.a = y.k GROUP BY x.k",
    "joined": "SELECT g.k, g.n, r.a FROM g JOIN r ON g.n = r.k",
    "extremes": "SELECT n, MIN(s) AS low, MAX(s) AS high, COUNT(DISTINCT s) AS c FROM g GROUP BY n",
    "staged": "SELECT q.n, COUNT(*) AS c FROM (SELECT k, COUNT(*) AS n FROM r GROUP BY k) q GROUP BY q.n",
}


@pytest.mark.parametrize("seed", range(12))
def test_a_view_over_groups_that_are_told_apart_sees_them_whole(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A feed of single updates on one view changes nothing in those that read it: the same rows, as DuckDB has them.

    And to no reader, a view or a later part of one, does a row go that has not come.
    """
    chance = random.Random(seed)
    copies: Counter[tuple[Any, ...]] = Counter()
    run = _EntryRuntime.run

    def watched(self: _EntryRuntime, changes: Changes, *rest: Any) -> Any:
        columns = [c.to_pylist() for c in (*changes.rows.columns, changes.rows.weight)]
        for *row, weight in zip(*columns, strict=True):
            copies[(id(self), *row)] += weight
            assert copies[(id(self), *row)] >= 0, (changes.relation, row)
        return run(self, changes, *rest)

    monkeypatch.setattr(_EntryRuntime, "run", watched)
    db, other = ev.Database(), duckdb.connect()
    db.sql("CREATE TABLE r (k BIGINT, a BIGINT)")
    other.execute("CREATE TABLE r (k BIGINT, a BIGINT)")
    for name, sql in STACKED.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        other.execute(f"CREATE VIEW {name} AS {sql}")
    feed = db.view("g").changes(per_update=True)
    rows: list[tuple[int, int]] = []
    for _ in range(6):
        with db.batch() as batch:
            for _ in range(1 + seed % 6):
                if rows and chance.random() < 0.4:
                    row = rows.pop(chance.randrange(len(rows)))
                    batch.delete("r", [row])
                    other.execute("DELETE FROM r WHERE rowid = (SELECT MIN(rowid) FROM r WHERE (k, a) = (?, ?))", row)
                else:
                    row = chance.randrange(4), chance.randrange(4)
                    rows.append(row)
                    batch.insert("r", [row])
                    other.execute("INSERT INTO r VALUES (?, ?)", row)
        for name in STACKED:
            assert Counter(db.view(name)) == Counter(other.execute(f"SELECT * FROM {name}").fetchall()), name
    assert feed.read()


def test_a_view_over_groups_tells_each_update_apart() -> None:
    """It hears of the groups' changes with the numbers of the updates that made them."""
    db = ev.Database()
    db.sql("CREATE TABLE r (k BIGINT, a BIGINT)")
    db.sql("CREATE MATERIALIZED VIEW groups AS SELECT k, COUNT(*) AS n FROM r GROUP BY k")
    db.sql("CREATE MATERIALIZED VIEW pairs AS SELECT DISTINCT x.k FROM groups x JOIN groups y ON x.k = y.k")
    feed = db.view("pairs").changes(per_update=True)
    with db.batch() as batch:
        batch.insert("r", [(1, 1)])
        batch.delete("r", [(1, 1)])
        batch.insert("r", [(1, 2)])
    told = [(r["_update"], r["_change_type"], r["_count"]) for b in feed.read() for r in b.to_pylist()]
    assert sorted(told) == [(0, "insert", 1), (1, "delete", 1), (2, "insert", 1)]


@pytest.fixture
def other_way() -> Iterator[None]:
    """What is tested is how Python adds up and cuts what is told."""
    with the_other_way():
        yield


@pytest.mark.usefixtures("other_way")
@pytest.mark.parametrize(
    ("columns", "before", "operations", "nets"),
    [
        ("e.a, e.b, f.b AS c", [(1, 2)], [("insert", [(2, 3), (2, 4), (4, 4)])], False),
        ("e.a, e.b, f.b AS c", [(1, 2), (2, 3), (3, 3)], [("delete", [(2, 3), (3, 3)])], False),
        ("e.a, e.b, f.b AS c, e.a + f.b AS s", [(1, 2)], [("insert", [(2, 3)])], False),
        ("e.a, e.b, f.b AS c", [(1, 2)], [("insert", [(2, 3), (2, 3)])], True),
        ("e.a, e.b, f.b AS c", [(1, 2)], [("insert", [(2, 3), (1, 2)])], True),
        ("e.a, e.b, f.b AS c", [(1, 2), (2, 3)], [("delete", [(2, 3)]), ("insert", [(2, 3)])], False),
        ("e.a, e.b, f.b AS c", [(1, 2), (2, 3)], [("insert", [(2, 4)]), ("delete", [(1, 2)])], False),
        ("e.a, f.b AS c", [(1, 2), (1, 3)], [("insert", [(2, 4), (3, 4)])], True),
        ("DISTINCT e.a, e.b, f.b AS c", [(1, 2)], [("insert", [(2, 3)])], True),
    ],
)
def test_changes_are_added_up_only_where_a_row_can_come_twice(
    columns: str,
    before: list[tuple[int, int]],
    operations: list[tuple[str, list[tuple[int, int]]]],
    nets: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    db = ev.Database()
    db.sql("CREATE TABLE e (a BIGINT, b BIGINT)")
    db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {columns} FROM e JOIN e f ON e.b = f.a")
    db.insert("e", before)
    view = db.view("v")
    total, calls, netted = Counter(view), [], ViewRuntime.netted

    def counted(self: ViewRuntime, *parts: Any, **options: Any) -> Any:
        calls.append(parts)
        return netted(self, *parts, **options)

    monkeypatch.setattr(ViewRuntime, "netted", counted)
    with view.changes() as feed:
        with db.batch() as batch:
            for kind, rows in operations:
                getattr(batch, kind)("e", rows)
        told = [row for b in feed.read() for row in b.to_pylist()]
    shown = [tuple(row[c.name] for c in view.schema) for row in told]
    assert len(set(shown)) == len(shown)
    for row, change in zip(shown, told, strict=True):
        total[row] += change["_count"] if change["_change_type"] == "insert" else -change["_count"]
    assert +total == Counter(view)
    assert bool(calls) == nets


@pytest.mark.usefixtures("other_way")
@pytest.mark.parametrize("slice_", [1, 8, 1_000])
def test_pieces_told_as_they_come_say_the_same_as_updates_one_by_one(
    slice_: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A piece that is large enough is written for the feed at once, smaller ones wait; copies come and go with both."""
    for module in (join, feed):
        monkeypatch.setattr(module, "SLICE", slice_)
    monkeypatch.setattr(feed, "MOST_IN_BATCH", 5)
    made: list[bool] = []
    as_feed_rows = feed.as_feed_rows

    def watched(rows: WordRows) -> WordRows | feed.FeedRows:
        told = as_feed_rows(rows)
        made.append(isinstance(told, feed.FeedRows))
        return told

    monkeypatch.setattr(transaction, "as_feed_rows", watched)
    r = random.Random(slice_)
    together, apart = _joined(), _joined()
    with together.view("v").changes(per_update=True) as all_at_once, apart.view("v").changes() as one_by_one:
        there: dict[str, list[tuple[int, int]]] = {"r": [], "s": []}
        for _ in range(25):
            wanted = []
            with together.batch() as batch:
                for update in range(r.randint(1, 40)):
                    table = r.choice("rs")
                    row = (
                        r.choice(there[table])
                        if there[table] and r.random() < 0.4
                        else (r.randint(0, 3), r.randint(0, 9))
                    )
                    gone = row in there[table] and r.random() < 0.7
                    (there[table].remove if gone else there[table].append)(row)
                    for db in (batch, apart):
                        (db.delete if gone else db.insert)(table, [row])
                    wanted += [(update, *told) for told in _told(one_by_one.read())]
            found = all_at_once.read()
            updates = [u for b in found for u in b.column("_update").to_pylist()]
            assert updates == sorted(updates)
            told = [(u, *t) for u, t in zip(updates, _told(found), strict=True)]
            assert Counter(told) == Counter(wanted)
            assert all(b.num_rows <= 5 for b in found)
    assert set(made) == ({False} if slice_ == 1_000 else {True, False})


def test_a_feed_of_the_net_changes_beside_one_of_single_updates_is_told_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one feed could be told as it comes must still be added up for the other."""
    for module in (join, feed):
        monkeypatch.setattr(module, "SLICE", 1)
    db = _joined()
    with db.view("v").changes() as net, db.view("v").changes(per_update=True) as single:
        with db.batch() as batch:
            batch.insert("r", [(1, 1), (1, 2)])
            batch.insert("s", [(1, 5)])
            batch.delete("r", [(1, 2)])
        assert _told(net.read()) == [(1, 1, 5, "insert", 1)]
        assert [t[1::2] for t in _told(single.read())] == [(1, "insert"), (2, "insert"), (2, "delete")]


def _joined() -> ev.Database:
    db = ev.Database()
    db.sql("CREATE TABLE r (k BIGINT, a BIGINT); CREATE TABLE s (k BIGINT, b BIGINT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT r.k, a, b FROM r JOIN s ON r.k = s.k")
    return db


def _told(batches: list[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    """The rows of a feed, with what happened and how often."""
    names = ("k", "a", "b", "_change_type", "_count")
    return [row for b in batches for row in zip(*(b.column(n).to_pylist() for n in names), strict=True)]


@pytest.mark.parametrize("seed", range(20))
def test_old_and_new_rows_of_a_group_are_put_side_by_side(seed: int) -> None:
    """Each pair where its first row was, everything else in its order; a plain loop says what is right."""
    r = random.Random(seed)
    groups = r.sample([(u, k) for u in range(12) for k in (-3, 0, 2**40)], r.randint(0, 30))
    rows = [(g, w) for g in groups for w in r.choice([(-1,), (2,), (-1, 1), (3, -2)])]
    r.shuffle(rows)
    order, happened = [], []
    for i, (group, weight) in enumerate(rows):
        others = [j for j, (g, _) in enumerate(rows) if g == group and j != i]
        if not others:
            order.append(i)
            happened.append(0 if weight > 0 else 1)
        elif i < others[0]:
            order += [others[0], i] if weight > 0 else [i, others[0]]
            happened += [2, 3]
    columns = [pa.array([g[i] for g, _ in rows], pa.int64()) for i in (0, 1)]
    found = pair_rows(columns, pa.array([w for _, w in rows], pa.int64()))
    assert [pa.array(c).to_pylist() for c in found] == [order, happened]


def test_rows_that_are_to_be_paired_have_columns_of_one_length() -> None:
    """The kernel would read beyond the shorter one."""
    with pytest.raises(ValueError, match="lengths differ"):
        pair_rows([pa.array([1, 2])], pa.array([1]))


# --- waiting, and giving up ------------------------------------------------------------------------------------------


def _values(batches: Iterable[pa.RecordBatch]) -> list[Any]:
    return [value for batch in batches for value in batch.column("a").to_pylist()]


def test_a_read_with_a_timeout_gives_what_is_there_or_waits_so_long() -> None:
    db = _single()
    with db.view("v").changes() as feed:
        start = monotonic()
        assert feed.read(timeout=0.2) == []
        assert monotonic() - start >= 0.19
        db.insert("r", [(1,)])
        assert _values(feed.read(timeout=math.inf)) == [1]
        assert feed.read(timeout=0) == feed.read() == []
    with pytest.raises(ClosedError):
        feed.read(timeout=1)


def test_a_waiting_read_is_woken_by_a_batch_and_holds_nobody_up() -> None:
    """The batches of this thread go on while the other one waits, which they could not if it held the lock."""
    db = _single()
    with db.view("v").changes() as feed, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(feed.read, timeout=60)
        db.sql("CREATE TABLE other (b BIGINT)")
        db.insert("other", [(1,)])
        assert not waiting.done()
        db.insert("r", [(7,)])
        assert _values(waiting.result(timeout=60)) == [7]


def test_whole_batches_only_are_read() -> None:
    """What is pushed piece by piece is read together, however often another thread looks."""
    db = _product()
    view = db.view("v")
    seen: list[int] = []
    with view.changes(per_update=True) as feed, ThreadPoolExecutor(1) as pool:
        done = pool.submit(lambda: db.insert("s", [(1, i) for i in range(SIDE)]))
        while not (finished := done.done()) or not seen:
            if batches := feed.read():
                seen.append(sum(b.num_rows for b in batches))
            if finished and not seen:
                seen.append(sum(b.num_rows for b in feed.read()))
    assert seen == [ROWS]


def test_a_loop_over_a_feed_ends_when_it_is_closed() -> None:
    db = _single()
    feed = db.view("v").changes()
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(lambda: _values(feed))
        for i in range(20):
            db.insert("r", [(i,)])
        while feed.nbytes:
            assert not reader.done()
        feed.close()
        assert reader.result(timeout=60) == list(range(20))
    assert list(feed) == []


def test_a_loop_that_is_left_loses_nothing() -> None:
    db = _single()
    with db.view("v").changes() as feed:
        for i in range(3):
            db.insert("r", [(i,)])
        assert _values([next(iter(feed))]) == [0]
        assert _values(feed.read()) == [1, 2]
        assert feed.nbytes == 0


def test_two_readers_share_what_there_is() -> None:
    db = _single()
    feed = db.view("v").changes()
    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(lambda: _values(feed)) for _ in range(2)]
        for i in range(50):
            db.insert("r", [(i,)])
        while feed.nbytes:
            pass
        feed.close()
        found = [reader.result(timeout=60) for reader in readers]
    assert sorted(found[0] + found[1]) == list(range(50))


def test_asynchronous_loops() -> None:
    """Changes come from another thread and from the loop's own; other tasks run while the feed waits."""
    db = _single()
    feed = db.view("v").changes()

    async def collect() -> list[Any]:
        return [value async for batch in feed for value in batch.column("a").to_pylist()]

    async def main() -> list[Any]:
        reader = asyncio.create_task(collect())
        cancelled = asyncio.create_task(collect())
        await asyncio.sleep(0)
        cancelled.cancel()
        for i in range(5):
            await asyncio.to_thread(db.insert, "r", [(i,)])
        db.insert("r", [(5,)])
        while feed.nbytes:
            await asyncio.sleep(0)
        feed.close()
        return await asyncio.wait_for(reader, 60)

    assert asyncio.run(main()) == [0, 1, 2, 3, 4, 5]
    assert feed._waiting == []


def test_an_unread_feed_is_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("everview.engine.database.MOST_BYTES", 100_000)
    db = ev.Database()
    db.sql("CREATE TABLE r (a STRING); CREATE MATERIALIZED VIEW v AS SELECT a FROM r")
    short, long = db.view("v").changes(), db.view("v").changes()
    for i in range(40):
        db.insert("r", [(str(i) * 5_000,)])
        assert len(short.read()) == 1
    assert long.nbytes == 0
    for _ in range(2):
        with pytest.raises(FeedError, match="took more than 100,000 bytes"):
            long.read()
    with pytest.raises(FeedError):
        list(long)
    long.close()
    db.insert("r", [("x",)])
    assert _values(short.read()) == ["x"]
    short.close()


def test_a_large_delta_of_long_strings_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MOST_BATCH_BYTES", 1 << 20)
    db = ev.Database()
    db.sql("CREATE TABLE r (a STRING, b BIGINT); CREATE MATERIALIZED VIEW v AS SELECT a, b FROM r")
    with db.view("v").changes() as opened:
        rows = [(str(i % 9) * 5_000, i) for i in range(2_000)]
        db.insert("r", rows)
        batches = opened.read()
    assert len(batches) >= 8
    assert max(b.nbytes for b in batches) < 2 << 20
    assert [(r["a"], r["b"]) for b in batches for r in b.to_pylist()] == rows


def test_a_feed_shows_what_there_is_to_read() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
    feed = db.view("v").changes()
    db.insert("t", [(1,)])
    assert repr(feed) == "<ChangeFeed of v: 1 row to read>"
    feed.close()
    assert repr(feed) == "<ChangeFeed of v: closed>"
