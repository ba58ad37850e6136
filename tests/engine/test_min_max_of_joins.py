"""MIN and MAX that are read off the tree of a join, against DuckDB, through deletions; and how much an update costs."""

from __future__ import annotations

import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import everview as ev
from everview.errors import DataError
from tests.engine.bags import bag
from tests.scale import scaled

TABLES = {
    "r": ("a INT", "b INT", "x BIGINT"),
    "s": ("b INT", "c INT", "y DOUBLE"),
    "t": ("c INT", "z STRING"),
    "u": ("a INT", "w INT"),
}
CHAIN = "FROM r JOIN s ON r.b = s.b JOIN t ON s.c = t.c"
IN_TREE = {
    "star": "SELECT r.a, MAX(x) AS m, MIN(w) AS n, MIN(x) AS o FROM r JOIN u ON r.a = u.a GROUP BY r.a",
    "from_below": f"SELECT r.a, MAX(z) AS m, MIN(y) AS n, MAX(x) AS o, COUNT(*) AS k {CHAIN} GROUP BY r.a",
    "from_above": f"SELECT t.c, MIN(x) AS m, MAX(y) AS n, SUM(x) AS k {CHAIN} GROUP BY t.c",
    "middle": f"SELECT s.b, s.c, MAX(x + 1) AS m, MIN(z) AS n {CHAIN} GROUP BY s.b, s.c",
    "one_group": f"SELECT MAX(z) AS m, MIN(x) AS n, COUNT(*) AS k {CHAIN}",
    "two_branches": "SELECT r.a, MIN(y) AS m, MAX(x) AS n FROM r JOIN s ON r.b = s.b JOIN u ON r.b = u.a GROUP BY r.a",
    "itself": "SELECT p.a, MAX(q.x) AS m, MIN(p.x) AS n FROM r p JOIN r q ON p.b = q.a GROUP BY p.a",
    "alike": "SELECT p.b, MAX(p.x) AS m, COUNT(*) AS k FROM r p JOIN r q ON p.b = q.b JOIN r o ON p.b = o.b "
    "JOIN r n ON p.b = n.b GROUP BY p.b",
    "pairs": f"SELECT r.a, MAX_BY(z, s.c) AS m, MIN_BY(s.b, y) AS n, BOOL_OR(x > 3) AS o {CHAIN} "
    "WHERE z IS NOT NULL AND y IS NOT NULL GROUP BY r.a",
    "product": "SELECT r.a, MAX(z) AS m, MIN(x) AS n FROM r, t GROUP BY r.a",
    "filtered": "SELECT r.a, MAX(x) FILTER (WHERE x > 2) AS m, MIN(w) AS n FROM r JOIN u ON r.a = u.a "
    "WHERE x < 6 GROUP BY r.a HAVING MIN(w) < 4 OR COUNT(*) > 3",
    "text": "SELECT z, MAX(upper(z) || 'q') AS m, MIN(s.b) AS n FROM s JOIN t ON s.c = t.c GROUP BY z",
    "own_key": "SELECT r.a, MAX(r.a) AS m, MIN(u.a + w) AS n FROM r JOIN u ON r.a = u.a GROUP BY r.a",
    "nested": "SELECT a, MAX(k) AS m FROM (SELECT r.a, s.c, SUM(x) AS k FROM r JOIN s ON r.b = s.b "
    "GROUP BY r.a, s.c) GROUP BY a",
}
SAID = {
    "MAX_BY(z, s.c)": "MAX({'k': s.c, 'v': z}).v",
    "MIN_BY(s.b, y)": "MIN({'k': y, 'v': s.b}).v",
}
"""The same for DuckDB, which takes any of several values with the largest key; here the largest value decides."""
BESIDE = {
    "across": f"SELECT r.a, z, MAX(y) AS m {CHAIN} GROUP BY r.a, z",
    "of_both": f"SELECT r.a, MIN(x + s.c) AS m, MAX(x) AS n {CHAIN} GROUP BY r.a",
    "triangle": "SELECT r.a, MAX(x) AS m FROM r JOIN s ON r.b = s.b JOIN u ON s.c = u.w AND u.a = r.a GROUP BY r.a",
    "compared": "SELECT r.a, MAX(x) AS m FROM r JOIN u ON r.a = u.a AND r.x < u.w GROUP BY r.a",
    "distinct_too": "SELECT r.a, MAX(x) AS m, COUNT(DISTINCT w) AS n FROM r JOIN u ON r.a = u.a GROUP BY r.a",
}


def random_row(r: random.Random, table: str) -> tuple[Any, ...]:
    key, value = [1, 2, 3, None], [*range(8), None]
    match table:
        case "r":
            return r.choice(key), r.choice(key), r.choice(value)
        case "s":
            return r.choice(key), r.choice(key), r.choice([-1.5, -0.0, 2.25, 1e300, float("inf"), None])
        case "t":
            return r.choice(key), r.choice(["", "a", "ab", "Z", "ü", None])
    return r.choice(key), r.choice(value)


TYPES = {"INT": pa.int32(), "BIGINT": pa.int64(), "DOUBLE": pa.float64(), "STRING": pa.string()}


class Oracle:
    """The same tables in DuckDB."""

    def __init__(self) -> None:
        self.connection = duckdb.connect()
        self.connection.execute("SET threads = 1")
        self.rows: dict[str, list[tuple[Any, ...]]] = {table: [] for table in TABLES}

    def fill(self) -> None:
        for table, rows in self.rows.items():
            fields = [pa.field(name, TYPES[type_]) for name, type_ in map(str.split, TABLES[table])]
            columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(fields)]
            self.connection.register(table, pa.table(columns, schema=pa.schema(fields)))

    def answer(self, query: str) -> Counter[Any]:
        for ours, theirs in SAID.items():
            query = query.replace(ours, theirs)
        return bag(self.connection.execute(query).fetchall())


def database(views: dict[str, str]) -> ev.Database:
    db = ev.Database()
    for table, columns in TABLES.items():
        db.sql(f"CREATE TABLE {table} ({', '.join(columns)})")
    for name, query in views.items():
        db.create_view(name, query)
    return db


def test_which_are_read_off_the_tree() -> None:
    db = database({**IN_TREE, **BESIDE})
    for name in IN_TREE:
        cores = db.view(name).explain().to_dict()["parts"][-1]["cores"]
        assert [c["role"] for c in cores] == ["result"], name
    for name in ("across", "of_both", "triangle", "compared"):
        cores = db.view(name).explain().to_dict()["parts"][-1]["cores"]
        assert [c["role"] for c in cores][:1] == ["result"], name
        assert len(cores) > 1, name
    assert "in order" in str(db.view("star").explain())


TURNS = 9


@pytest.mark.parametrize("seed", range(scaled(8)))
def test_like_duckdb(seed: int, tmp_path: Path) -> None:
    """With feeds, which must add up to the views, and without; saved and loaded on the way."""
    r, told = random.Random(f"min max {seed}"), seed % 2 == 1
    views = dict(r.sample(sorted(IN_TREE.items()), 7) + r.sample(sorted(BESIDE.items()), 1))
    db, oracle = database(views), Oracle()
    feeds = {name: (db.view(name).changes(), bag(db.view(name))) for name in views} if told else {}
    for turn in range(TURNS):
        if turn == 5 and not told:
            db.save(tmp_path / "saved")
            db = ev.Database.load(tmp_path / "saved")
            assert all(db.view(name).stats()["restored"] == "snapshot" for name in views)
        with db.batch() as batch:
            for table, rows in oracle.rows.items():
                most = len(rows) if turn == TURNS - 1 else min(r.choice([0, 1, len(rows)]), len(rows))
                gone = [
                    rows.pop(r.randrange(len(rows))) for _ in range(r.randint(0, most) if turn < TURNS - 1 else most)
                ]
                new = [random_row(r, table) for _ in range(r.randint(0, 7) if turn < TURNS - 1 else 0)]
                first, then = (batch.insert, batch.delete) if r.random() < 0.5 else (batch.delete, batch.insert)
                first(table, new if first == batch.insert else gone)
                then(table, new if then == batch.insert else gone)
                rows += new
        oracle.fill()
        for name, query in views.items():
            wanted = oracle.answer(query)
            assert bag(db.view(name)) == wanted, (name, turn)
            if not told:
                continue
            feed, total = feeds[name]
            for change in (c for b in feed.read() for c in b.to_pylist()):
                sign = 1 if change.pop("_change_type") in ("insert", "update_postimage") else -1
                count = sign * change.pop("_count")
                del change["_commit_version"]
                total.update({next(iter(bag([tuple(change.values())]))): count})
            assert +total == wanted, (name, turn)


def test_a_look_up_of_a_group_and_a_batch_that_is_refused() -> None:
    db = database({"v": "SELECT a, MAX(10 div x) AS m, MIN(b) AS n FROM r GROUP BY a"})
    view = db.view("v")
    db.insert("r", [(1, 5, 2), (1, 4, 5), (2, 1, None)])
    assert sorted(view) == [(1, 5, 4), (2, None, 1)]
    assert view.lookup(a=1).to_pylist() == [{"a": 1, "m": 5, "n": 4}]
    assert (1, 5, 4) in view
    assert (1, 5, 5) not in view
    with pytest.raises(DataError, match="10 DIV x, which is aggregated"):
        db.insert("r", [(1, 0, 1), (3, 3, 0)])
    assert sorted(view) == [(1, 5, 4), (2, None, 1)]
    with db.batch() as batch:
        batch.insert("r", [(1, 0, 0)])
        batch.delete("r", [(1, 0, 0), (1, 5, 2)])
    assert sorted(view) == [(1, 2, 4), (2, None, 1)]


def steps_of(db: ev.Database, view: str, table: str, row: tuple[Any, ...]) -> int:
    """The kernel's steps for a row that comes, and goes again."""
    before = db.view(view).stats()["steps"]
    db.insert(table, [row])
    db.delete(table, [row])
    return int(db.view(view).stats()["steps"] - before)


REGIONS = "SELECT s.c, MAX(x) AS m, MIN(w) AS n FROM s JOIN r ON s.b = r.b JOIN u ON s.b = u.a GROUP BY s.c"


MILLION = pytest.param(False, (1_000, 10_000, 100_000, 1_000_000), marks=pytest.mark.slow)


@pytest.mark.parametrize(("told", "sizes"), [(False, (1_000, 100_000)), (True, (1_000, 100_000)), MILLION])
def test_an_update_takes_logarithmic_time_though_the_whole_group_joins_anew(told: bool, sizes: tuple[int, ...]) -> None:
    """One group of N rows: a row beside it makes all of them join, or none; a new largest value replaces the old one.

    The steps are counted. Of what a listing would change N rows would come and go.
    """
    found: dict[int, list[int]] = {}
    for size in sizes:
        db = database({"star": IN_TREE["star"], "region": REGIONS})
        feeds = [db.view(v).changes() for v in ("star", "region") if told]
        db.insert("r", pa.table({"a": [1] * size, "b": [1] * size, "x": list(range(size))}))
        db.insert("s", [(1, 7, 0.5)])
        joined = steps_of(db, "star", "u", (1, 5))
        region = steps_of(db, "region", "u", (1, 5))
        db.insert("u", [(1, 3), (1, 9)])
        moved = steps_of(db, "region", "s", (1, 8, 0.5))
        largest = [steps_of(db, view, "r", (1, 1, size + 5)) for view in ("star", "region")]
        smaller = [steps_of(db, view, "r", (1, 1, size // 2)) for view in ("star", "region")]
        assert list(db.view("star")) == [(1, size - 1, 3, 0)]
        assert list(db.view("region")) == [(7, size - 1, 3)]
        found[size] = [joined, region, moved, *largest, *smaller]
        for feed in feeds:
            feed.close()
    for each in zip(*found.values(), strict=True):
        assert max(each) - min(each) <= 25 * math.log10(sizes[-1] / sizes[0]), found
