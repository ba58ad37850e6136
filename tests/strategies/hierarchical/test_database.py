"""Views with a dial in a database, against DuckDB after every batch: hubs, NULLs, copies, feeds, saving and loading."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

import everview as ev
from everview.kernel.machine import Part
from tests.scale import scaled

TABLES = {"r": "a b", "s": "b c", "t": "b d", "u": "b", "w": "x y z", "m": "x y k"}
VIEWS = {
    "pairs": "SELECT {d} r.a, s.c FROM r JOIN s ON r.b = s.b",
    "one side": "SELECT {d} r.a FROM r JOIN u ON r.b = u.b",
    "three": "SELECT {d} r.a, s.c, t.d FROM r JOIN s ON r.b = s.b JOIN t ON t.b = r.b",
    "hops": "SELECT {d} p.a, q.b FROM r p JOIN r q ON p.b = q.a",
    "nested": "SELECT {d} w.z, m.k, v.y AS vy FROM w JOIN m ON w.x = m.x AND w.y = m.y JOIN w v ON v.x = w.x",
    "beside": "SELECT {d} r.a, s.c, u.b FROM r JOIN s ON r.b = s.b CROSS JOIN u",
    "filtered": "SELECT {d} r.a, s.c FROM r JOIN s ON r.b = s.b WHERE r.a > 1 AND s.c < 5",
    "counted": "SELECT {d} r.a, count(*) AS n, count(s.c) AS m FROM r JOIN s ON r.b = s.b GROUP BY r.a",
    "by both": "SELECT {d} r.a, s.c, count(*) AS n FROM r JOIN s ON r.b = s.b GROUP BY r.a, s.c",
    "constant": "SELECT {d} s.c FROM r JOIN s ON r.b = s.b WHERE r.a = 0",
}


class Pair:
    """A database and DuckDB with the same tables."""

    def __init__(self, view: str, epsilon: float, seed: str) -> None:
        self.sql = view
        self.db = ev.Database()
        self.other = duckdb.connect()
        self.chance = random.Random(seed)
        self.rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES}
        for name, columns in TABLES.items():
            text = f"CREATE TABLE {name} ({', '.join(f'{c} BIGINT' for c in columns.split())})"
            self.db.sql(text)
            self.other.execute(text)
        self.db.create_view("v", view, epsilon=epsilon)
        self.told: Counter[tuple[Any, ...]] | None = None
        self.feed: Any = None

    def value(self) -> int | None:
        """Small numbers, 0 most of all, which makes hubs; sometimes NULL."""
        if self.chance.random() < 0.04:
            return None
        return 0 if self.chance.random() < 0.35 else self.chance.randrange(8)

    def batch(self, size: int, deletes: float) -> None:
        used = [name for name in TABLES if f"{name} " in self.sql or f"{name}." in self.sql]
        with self.db.batch() as batch:
            for _ in range(size):
                name = self.chance.choice(used)
                rows = self.rows[name]
                if rows and self.chance.random() < deletes:
                    row = rows.pop(self.chance.randrange(len(rows)))
                    batch.delete(name, [row])
                    where = " AND ".join(
                        f"{c} IS NOT DISTINCT FROM {'NULL' if x is None else x}"
                        for c, x in zip(TABLES[name].split(), row, strict=True)
                    )
                    self.other.execute(
                        f"DELETE FROM {name} WHERE rowid = (SELECT min(rowid) FROM {name} WHERE {where})"
                    )
                else:
                    row = tuple(self.value() for _ in TABLES[name].split())
                    rows.append(row)
                    batch.insert(name, [row])
                    self.other.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", list(row))

    def check(self) -> None:
        wanted = Counter(self.other.execute(self.sql).fetchall())
        view = self.db.view("v")
        assert Counter(view) == wanted
        assert Counter(view.page(offset=0, limit=10**6)) == wanted
        assert len(view) == sum(wanted.values())
        for row in list(wanted)[:3]:
            assert row in view
        assert tuple(10**6 for _ in view.schema.names) not in view
        if self.feed is not None:
            assert self.told is not None
            for part in self.feed.read():
                for change in part.to_pylist():
                    kind, count = change.pop("_change_type"), change.pop("_count")
                    del change["_commit_version"]
                    came = kind in ("insert", "update_postimage")
                    self.told[tuple(change.values())] += count if came else -count
            assert +self.told == wanted
            assert not any(n < 0 for n in self.told.values())

    def switch(self) -> None:
        """Open the feed, or close it."""
        if self.feed is None:
            self.feed, self.told = self.db.view("v").changes(), Counter(self.db.view("v"))
        else:
            self.feed.close()
            self.feed = None

    def save_and_load(self, path: Path) -> None:
        if self.feed is not None:
            self.switch()
        self.db.save(path)
        self.db = ev.Database.load(path)
        assert self.db.view("v").stats()["restored"] == "snapshot"


@pytest.mark.parametrize("distinct", ["", "DISTINCT"])
@pytest.mark.parametrize("view", VIEWS)
def test_against_duckdb(view: str, distinct: str, tmp_path: Path) -> None:
    for number, epsilon in enumerate([0, 0.25, 0.5, 0.75, 1][: scaled(5, least=2)]):
        pair = Pair(VIEWS[view].format(d=distinct), epsilon, f"{view} {epsilon}")
        assert pair.db.view("v").explain().strategy == "ivm-eps-hierarchical"
        for size, deletes in ((12, 0.0), (40, 0.1), (25, 0.3), (30, 0.9), (20, 0.3), (40, 0.95), (10, 0.2)):
            pair.batch(size, deletes)
            pair.check()
            if pair.chance.random() < 0.4:
                pair.switch()
            if (size, deletes) == (25, 0.3):
                pair.save_and_load(tmp_path / f"{number}.db")


def test_filled_from_tables_that_are_there() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE r (a BIGINT, b BIGINT)")
    db.insert("r", [(i % 7, i % 3) for i in range(60)])
    view = db.create_view("v", "SELECT DISTINCT p.a, q.a AS other FROM r p JOIN r q ON p.b = q.b", epsilon=0.25)
    assert set(view) == {(a, b) for a in range(7) for b in range(7)}
    (parts,) = view.stats()["parts"]
    assert (parts["epsilon"], parts["heavy_keys"], parts["N"] // 4 <= 42 < parts["N"]) == (0.25, 3, True)


def test_a_refused_batch_changes_nothing() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE s (b BIGINT, c BIGINT)")
    view = db.create_view("v", "SELECT r.a, s.c FROM r JOIN s ON r.b = s.b", epsilon=0.25)
    db.insert("r", [(i, 0) for i in range(9)])
    db.insert("s", [(0, i) for i in range(9)])
    before, parts = Counter(view), view.stats()["parts"]

    def refused() -> None:
        with db.batch() as batch:
            batch.insert("r", [(i, i % 2) for i in range(200)])
            batch.delete("s", [(5, 5)])

    with pytest.raises(ev.errors.EverviewError):
        refused()
    assert Counter(view) == before
    assert view.stats()["parts"] == parts


@pytest.mark.parametrize(
    ("sql", "options", "reason"),
    [
        ("SELECT r.a, s.c FROM r JOIN s ON r.b = s.b", {}, "taken if the option epsilon or optimize asks for it"),
        ("SELECT r.a, r.b, s.c FROM r JOIN s ON r.b = s.b", {"epsilon": 0.5}, "nothing to trade"),
        ("SELECT r.a, s.c FROM r JOIN s ON r.b = s.b WHERE r.a < s.c", {"epsilon": 0.5}, "conditions across relations"),
    ],
)
def test_where_it_is_not_taken(sql: str, options: dict[str, Any], reason: str) -> None:
    db = ev.Database()
    db.sql("CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE s (b BIGINT, c BIGINT)")
    explained = db.create_view("v", sql, **options).explain().to_dict()
    (found,) = [c for c in explained["strategies"] if c["strategy"] == "ivm-eps-hierarchical"]
    assert explained["strategy"] == "crown"
    assert reason in found["reason"]


STATIC = {
    "SELECT DISTINCT r.a FROM r JOIN s ON r.b = s.b": ({"update": "1", "delay": "0", "space": "1"}, []),
    "SELECT r.a, s.c FROM r JOIN s ON r.b = s.b": ({"update": "1/4", "delay": "3/4", "space": "5/4"}, [["b"]]),
    "SELECT r.a, s.c, t.d FROM r JOIN s ON r.b = s.b, t, u WHERE t.b = u.b": (
        {"update": "1", "delay": "3/4", "space": "5/4"},
        [["r_b"]],
    ),
}


@pytest.mark.parametrize("sql", STATIC)
def test_static_mode(sql: str) -> None:
    """What one table has all output of is joined ahead; updates come all the same; ALTER goes back to dynamic mode."""
    pair = Pair(sql, 0.25, sql)
    pair.db.sql("DROP VIEW v")
    with pair.db.batch() as batch:
        for name in "rstu":
            found = [tuple(pair.value() for _ in TABLES[name].split()) for _ in range(12)]
            pair.rows[name] += found
            batch.insert(name, found)
            for row in found:
                pair.other.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", list(row))
    pair.db.sql(f"CREATE MATERIALIZED VIEW v OPTIONS (epsilon = 0.25, mode = 'static') AS {sql}")
    explained = pair.db.view("v").explain().to_dict()
    exponents, split = STATIC[sql]
    assert explained["strategy"] == "ivm-eps-hierarchical"
    assert explained["dial"]["exponents"] == {**exponents, "preprocessing": exponents["space"]}
    core = explained["parts"][0]["cores"][0] if "parts" in explained else explained
    assert [n["variables"] for n in core["split"]] == split
    for size, deletes in ((0, 0.0), (20, 0.3), (40, 0.9)):
        pair.batch(size, deletes)
        pair.check()
        pair.switch()
    pair.db.sql("ALTER MATERIALIZED VIEW v SET OPTIONS (epsilon = 0.75, mode = 'dynamic')")
    assert pair.db.view("v").explain().to_dict()["dial"]["exponents"]["update"] == "3/4"
    pair.check()


@pytest.mark.parametrize(("optimize", "epsilon"), [("updates", 0.0), ("reads", 1.0), ("balanced", 0.5)])
def test_the_dial_by_what_the_view_is_for(optimize: Any, epsilon: float) -> None:
    db = ev.Database()
    db.sql("CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE s (b BIGINT, c BIGINT)")
    view = db.create_view("v", "SELECT r.a, s.c FROM r JOIN s ON r.b = s.b", optimize=optimize)
    db.insert("r", [(1, 1)])
    assert view.explain().strategy == "ivm-eps-hierarchical"
    assert [p["epsilon"] for p in view.stats()["parts"]] == [epsilon]


def test_the_first_batch_is_joined_at_once() -> None:
    """N is 2|D| + 1 then, and nothing has been moved; so it is again once all rows have gone, but not with a feed."""
    db = ev.Database()
    db.sql("CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE s (b BIGINT, c BIGINT)")
    view = db.create_view("v", "SELECT r.a, s.c FROM r JOIN s ON r.b = s.b", epsilon=0.5)

    def fill() -> None:
        with db.batch() as batch:
            batch.insert("r", [(i, 0) for i in range(20)])
            batch.delete("r", [(0, 0)])
            batch.insert("s", [(0, i) for i in range(20)])

    def parts() -> dict[str, Any]:
        (found,) = view.stats()["parts"]
        return {name: found[name] for name in ("N", "heavy_keys", "minor", "major", "moved")}

    fill()
    assert parts() == {"N": 2 * 39 + 1, "heavy_keys": 1, "minor": 0, "major": 0, "moved": 0}
    assert Counter(view) == Counter((a, c) for a in range(1, 20) for c in range(20))
    with db.batch() as batch:
        batch.delete("r", [(i, 0) for i in range(1, 20)])
        batch.delete("s", [(0, i) for i in range(20)])
    assert parts()["heavy_keys"] == len(list(view)) == 0
    fill()
    assert parts()["N"] == 79
    with db.batch() as batch:
        batch.delete("r", [(i, 0) for i in range(1, 20)])
        batch.delete("s", [(0, i) for i in range(20)])
    feed = view.changes()
    fill()
    assert parts()["N"] != 79
    assert sum(part.num_rows for part in feed.read()) == 19 * 20


def test_a_first_batch_that_is_refused_leaves_nothing() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE r (a BIGINT, b BIGINT)")
    sql = "SELECT p.a, q.a AS other FROM r p JOIN r q ON p.b = q.b"
    view = db.create_view("v", sql, epsilon=0.5)

    def refused() -> None:
        with db.batch() as batch:
            batch.insert("r", [(1, 1), (2, 1)])
            batch.delete("r", [(3, 3)])

    with pytest.raises(ev.errors.EverviewError):
        refused()
    assert list(view) == []
    db.insert("r", [(1, 1), (2, 1)])
    assert Counter(view) == Counter([(1, 1), (1, 2), (2, 1), (2, 2)])


MANY_JOINS = (
    "FROM r, " + ", ".join(f"s s{i}" for i in range(8)) + " WHERE " + " AND ".join(f"s{i}.b = r.b" for i in range(8))
)


@pytest.mark.parametrize("epsilon", [0, 0.5, 1])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_group_that_cannot_be_counted_is_refused(epsilon: float, at_once: bool) -> None:
    """250^8 > 2^63: the batch is refused when it comes, not the read after it, and whether it is the first or not."""
    db = ev.Database()
    db.sql("CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE s (b BIGINT)")
    view = db.create_view("v", f"SELECT r.a, count(*) AS n {MANY_JOINS} GROUP BY r.a", epsilon=epsilon)
    assert view.explain().strategy == "ivm-eps-hierarchical"
    if not at_once:
        db.insert("r", [(1, 0)])
        db.insert("s", [(0,)] * 200)
        assert list(view) == [(1, 200**8)]

    def refused() -> None:
        with db.batch() as batch:
            batch.insert("r", [(2, 0)])
            batch.insert("s", [(0,)] * 250)

    before = list(view)
    with pytest.raises(ev.errors.DataError):
        refused()
    assert list(view) == before
    db.insert("s", [(0,)])


def test_many_groups_may_have_more_rows_together() -> None:
    """All rows together are more than 2^63, each group has fewer: every one of them is looked at from then on."""
    db = ev.Database()
    db.sql("CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE s (b BIGINT)")
    view = db.create_view("v", f"SELECT r.a, count(*) AS n {MANY_JOINS} GROUP BY r.a", epsilon=0.5)
    db.insert("s", [(0,)] * 200)
    db.insert("r", [(a, 0) for a in range(5)])
    assert sorted(view) == [(a, 200**8) for a in range(5)]
    db.insert("r", [(7, 0)])
    assert (7, 200**8) in list(view)
    with pytest.raises(ev.errors.DataError):
        db.insert("s", [(0,)] * 100)
    assert sorted(view)[0] == (0, 200**8)


def test_a_page_lists_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """With ε = 0 a row costs up to N steps: a page must not pay for rows that nobody asked for."""
    db = ev.Database()
    db.sql("CREATE TABLE r (a INT, b INT); CREATE TABLE s (b INT, c INT)")
    view = db.create_view("v", "SELECT DISTINCT r.a, s.c FROM r, s WHERE r.b = s.b", epsilon=0)
    db.insert("r", [(a, a % 3) for a in range(90)])
    db.insert("s", [(b % 3, b) for b in range(90)])
    fetched: list[int] = []
    opened = Part.open

    class Counting:
        """A cursor that notes how many rows it has given."""

        def __init__(self, cursor: Any) -> None:
            self.cursor = cursor

        def fetch(self, most: int) -> Any:
            found = self.cursor.fetch(most)
            fetched.append(len(found[0]) if found else 0)
            return found

    monkeypatch.setattr(Part, "open", lambda *given: Counting(opened(*given)))
    page = view.page(offset=0, limit=10)
    assert len(set(page)) == 10
    assert 10 <= sum(fetched) < 100
    fetched.clear()
    assert len(view.page(offset=100, limit=10**6)) == 90 * 30 - 100
    assert sum(fetched) == 90 * 30
    assert 3 <= len(fetched) < 10
