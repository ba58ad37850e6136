"""Rows looked up by some of their columns: the same as a filter over all rows, by whatever way they are found."""

from __future__ import annotations

import random
import warnings
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import pytest

import everview as ev
from everview.errors import OptionError, ScanWarning, UnknownNameError
from tests.scale import scaled

TABLES = {"r": ("a", "b"), "s": ("b", "c"), "t": ("a", "d"), "u": ("c",)}
QUERIES = (
    "SELECT a, b FROM r",
    "SELECT r.a, r.b, t.d FROM r JOIN t ON r.a = t.a",
    "SELECT r.a, r.b, s.c FROM r JOIN s ON r.b = s.b",
    "SELECT r.a, r.b, s.c FROM r JOIN s ON r.b = s.b JOIN u ON s.c = u.c",
    "SELECT r.a, r.b, s.c, t.d FROM r JOIN s ON r.b = s.b JOIN t ON r.a = t.a",
    "SELECT r.a, s.c FROM r, s",
    "SELECT r.a, s.b, s.c FROM r, s WHERE r.b = 1",
    "SELECT DISTINCT r.a, s.c FROM r JOIN s ON r.b = s.b",
    "SELECT DISTINCT a FROM r",
    "SELECT a, b + 1 AS x, 7 AS seven FROM r",
    "SELECT a, COUNT(*) AS n, SUM(b) AS total FROM r GROUP BY a",
    "SELECT r.a, s.c, COUNT(*) AS n FROM r JOIN s ON r.b = s.b GROUP BY r.a, s.c",
    "SELECT r.a, r.b, COUNT(*) AS n, MIN(d) AS least FROM r JOIN t ON r.a = t.a GROUP BY r.a, r.b HAVING COUNT(*) > 1",
    "SELECT COUNT(*) AS n, SUM(b) AS total FROM r",
    "SELECT a, b FROM r UNION ALL SELECT b, c FROM s",
    "SELECT a, b FROM r UNION SELECT b, c FROM s",
    "SELECT a FROM r EXCEPT SELECT b FROM s",
    "SELECT r.a, r.b, t.d FROM r JOIN t ON r.a = t.a WHERE r.b < t.d",
)


def looked_up(view: ev.View, **columns: Any) -> Counter[tuple[Any, ...]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScanWarning)
        return Counter(map(tuple, (row.values() for row in view.lookup(**columns).to_pylist())))


def among(rows: list[tuple[Any, ...]], names: list[str], wanted: dict[str, Any]) -> Counter[tuple[Any, ...]]:
    """The rows with these values; NULL is equal to None."""
    return Counter(row for row in rows if all(row[names.index(n)] == v for n, v in wanted.items()))


@pytest.mark.parametrize("number", range(len(QUERIES)))
def test_lookups_are_what_a_filter_leaves(number: int) -> None:
    """Against DuckDB, by every set of columns, with and without the option, with and without a feed."""
    draw = random.Random(number)
    db, oracle = ev.Database(), duckdb.connect()
    for name, columns in TABLES.items():
        listed = ", ".join(f"{c} BIGINT" for c in columns)
        db.sql(f"CREATE TABLE {name} ({listed})")
        oracle.execute(f"CREATE TABLE {name} ({listed})")
    query = QUERIES[number]
    names = db.create_view("asked", query).schema.names
    sets = [c for size in range(1, len(names) + 1) for c in combinations(names, size)]
    views = [db.view("asked"), db.create_view("optional", query, lookup=sets[:16])]
    held: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES}
    feed = None
    for step in range(scaled(12, least=6)):
        with db.batch() as batch:
            for name, columns in TABLES.items():
                new = [tuple(draw.choice([0, 1, 2, 3, None]) for _ in columns) for _ in range(draw.randrange(4))]
                gone = draw.sample(held[name], min(len(held[name]), draw.randrange(3)))
                batch.insert(name, new)
                batch.delete(name, gone)
                for row in gone:
                    held[name].remove(row)
                held[name] += new
        for name, rows in held.items():
            oracle.execute(f"DELETE FROM {name}")
            if rows:
                oracle.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)
        if step == 3:
            feed = views[0].changes()
        elif step == 5 and feed is not None:
            feed.close()
        everything = [tuple(row) for row in oracle.execute(query).fetchall()]
        for columns in draw.sample(sets, min(4, len(sets))):
            row = draw.choice(everything) if everything and draw.random() < 0.7 else None
            wanted = {n: row[names.index(n)] if row else draw.choice([0, 1, 2, None]) for n in columns}
            for view in views:
                assert looked_up(view, **wanted) == among(everything, names, wanted), (query, wanted)
        if everything:
            for view in views:
                assert everything[0] in view
                assert (99,) * len(names) not in view


def star(**options: Any) -> tuple[ev.Database, ev.View]:
    db = ev.Database()
    db.sql("CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE s (a BIGINT, c BIGINT)")
    return db, db.create_view("v", "SELECT a, b, c FROM r JOIN s USING (a)", **options)


def test_columns_above_the_others_are_found_from_the_first_question_on(tmp_path: Path) -> None:
    db, view = star()
    db.insert("r", [(1, 1), (1, 1), (2, 3)])
    db.insert("s", [(1, 5), (1, 6), (3, 1)])
    assert sorted(view.lookup(a=1).column("c").to_pylist()) == [5, 5, 6, 6]
    assert view._runtime.view.options.lookup == (("a",),)
    assert "look-up     by a: constant delay" in str(view.explain())
    assert view.lookup(A=2).num_rows == view.lookup(a=None).num_rows == view.lookup(a=2**70).num_rows == 0
    assert view.lookup(a=1, b=1).num_rows == 4
    assert view.lookup(a=1, b=1, c=6).num_rows == 2
    with pytest.warns(ScanWarning, match=r"OPTIONS \(lookup = \(b\)\) keeps an index"):
        assert view.lookup(b=1).num_rows == 4
    db.save(tmp_path / "saved")
    loaded = ev.Database.load(tmp_path / "saved").view("v")
    assert loaded.stats()["restored"] == "snapshot"
    assert loaded.lookup(a=1) == view.lookup(a=1)


def test_an_index_serves_where_the_tree_does_not(tmp_path: Path) -> None:
    db = ev.Database()
    db.sql("CREATE TABLE r (a BIGINT, name STRING)")
    view = db.create_view("v", "SELECT a, upper(name) AS big FROM r", lookup="big")
    db.insert("r", [(1, "x"), (2, "x"), (3, None)])
    assert sorted(view.lookup(big="X").to_pydict()["a"]) == [1, 2]
    assert view.lookup(big=None).to_pydict()["a"] == [3]
    assert view.lookup(big="nobody").num_rows == 0
    db.save(tmp_path / "saved")
    loaded = ev.Database.load(tmp_path / "saved")
    assert loaded.view("v").stats()["restored"] == "snapshot"
    loaded.delete("r", [(1, "x")])
    assert loaded.view("v").lookup(big="X").to_pydict()["a"] == [2]
    db.delete("r", [(1, "x"), (2, "x"), (3, None)])
    assert db.view("v").lookup(big="X").num_rows == 0


def test_many_keys_at_once() -> None:
    db, view = star()
    db.insert("r", [(a, a + 10) for a in range(50)])
    db.insert("s", [(a, a + 20) for a in range(50)])
    found = view.lookup_many([{"a": 3}, {"a": 7}, {"a": 3}, {"a": 99}])
    assert sorted(found.column("b").to_pylist()) == [13, 17]
    with pytest.warns(ScanWarning):
        assert sorted(view.lookup_many([{"c": 23}, {"c": 27}, {"c": 23}]).column("a").to_pylist()) == [3, 7]
    assert view.lookup_many(found.select(["a"])).num_rows == 2
    assert view.lookup_many([]).schema == view.schema
    for wrong in ([{"a": 1}, {"b": 1}], [3], [{}]):
        with pytest.raises(TypeError):
            view.lookup_many(wrong)


def steps_of(view: ev.View, **columns: Any) -> int:
    unit = view._runtime.unit
    before = unit.steps
    view.lookup(**columns)
    return int(unit.steps - before)


def test_steps_do_not_grow_with_what_is_not_asked_for() -> None:
    """A key with one row, beside ones with all others; also where one side has many rows and the other none."""
    for query, key in (
        ("SELECT a, b, c FROM r JOIN s USING (a)", "a"),
        ("SELECT r.a, s.a AS e, b, c FROM r, s", "e"),
        ("SELECT a, COUNT(*) AS n FROM r GROUP BY a", "a"),
    ):
        taken = []
        for size in (1_000, 10_000, 100_000):
            db = ev.Database()
            db.sql("CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE s (a BIGINT, c BIGINT)")
            view = db.create_view("v", query, lookup=key)
            db.insert("r", [(i % 7, i) for i in range(size)])
            db.insert("s", [(8 + i % 7, i) for i in range(size)])
            if "USING" in query:
                db.insert("r", [(-1, 0)])
                db.insert("s", [(-1, 0)])
            assert view.lookup(**{key: 3 if key == "e" else -1}).num_rows == ("USING" in query)
            taken.append(steps_of(view, **{key: 3 if key == "e" else -1}))
        assert taken[0] == taken[1] == taken[2], (query, taken)


def test_a_group_is_tested_without_listing_all() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE r (a BIGINT, b BIGINT)")
    view = db.create_view("v", "SELECT a, COUNT(*) AS n, SUM(b) AS total FROM r GROUP BY a")
    db.insert("r", [(i, i) for i in range(20_000)])
    unit = view._runtime.unit
    before = unit.steps
    assert (17, 1, 17) in view
    assert (17, 2, 17) not in view
    assert (-1, 1, 1) not in view
    assert unit.steps - before < 100


def test_what_is_refused() -> None:
    db, view = star()
    with pytest.raises(UnknownNameError, match="no column x"):
        view.lookup(x=1)
    with pytest.raises(TypeError, match="by which columns"):
        view.lookup()
    with pytest.raises(OptionError, match="looked up by x, which is no column"):
        db.create_view("w", "SELECT a FROM r", lookup="x")
    for value in ("3", "(a + 1)", "()", "(a, a)"):
        with pytest.raises(OptionError):
            db.sql(f"CREATE MATERIALIZED VIEW w OPTIONS (lookup = {value}) AS SELECT a, b FROM r")
    db.sql("CREATE MATERIALIZED VIEW w OPTIONS (lookup = ((a), (a, b))) AS SELECT a, b FROM r")
    assert db.view("w")._runtime.view.options.lookup == (("a",), ("a", "b"))
