"""Copies stand side by side, whatever gives them: positions, pages, ranks and short loops go by one list, always."""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice
from typing import Any

import duckdb
import pytest

import everview as ev
from everview.engine import positions
from everview.engine.view import View
from tests.scale import scaled

SCHEMA = "CREATE TABLE e (a INT, b INT); CREATE TABLE f (a INT, b INT); CREATE TABLE s (a INT, t STRING)"
VIEWS = {
    "one_order": "SELECT a, b FROM e UNION ALL SELECT a, b FROM f UNION ALL SELECT a, b FROM e WHERE b > 1",
    "turned": "SELECT a, b FROM e UNION ALL SELECT b, a FROM f",
    "texts": "SELECT a, t FROM s UNION ALL SELECT a, t FROM s WHERE a > 1",
    "joins": "SELECT a, b FROM e UNION ALL SELECT e.a, f.b FROM e, f WHERE e.b = f.a",
    "marked": "SELECT a, 'e' AS side FROM e UNION ALL SELECT a, 'f' FROM f",
    "groups": "SELECT a, COUNT(*) AS n FROM e GROUP BY a UNION ALL SELECT a, COUNT(*) FROM f GROUP BY a",
    "ends": "SELECT e.a, f.b FROM e, f WHERE e.b = f.a",
    "half": "SELECT f.b FROM e, f WHERE e.b = f.a",
    "computed": "SELECT upper(t) AS u FROM s",
    "hidden": "SELECT COUNT(*) AS n FROM e GROUP BY a",
    "minus": "SELECT a FROM e EXCEPT ALL SELECT b FROM f",
    "first": "SELECT a, b FROM e ORDER BY b NULLS FIRST, a NULLS FIRST LIMIT 5",
    "outer_join": "SELECT e.a, s.t FROM e LEFT JOIN s ON e.b = s.a",
    "over": "SELECT n FROM hidden UNION ALL SELECT a FROM half_of_it",
    "half_of_it": "SELECT b AS a FROM half WHERE b > 1",
}
ORDER = [*(name for name in VIEWS if name != "over"), "over"]


def listed(view: ev.View) -> list[Any]:
    return list(zip(*(c.to_pylist() for c in view.to_arrow().columns), strict=True))


def check(view: ev.View, expected: Counter[Any], r: random.Random) -> None:
    pages: list[Any] = []
    while page := view.page(offset=len(pages), limit=r.choice([1, 2, 7, 100])):
        pages += page
    assert Counter(pages) == expected == Counter(listed(view))
    assert list(view) == pages == view[:] == [view[j] for j in range(len(view))]
    assert view[::-2] == pages[::-2]
    for row, copies in expected.items():
        first = view.rank(row)
        assert [view[first + i] for i in range(copies)] == [row] * copies
        assert pages.index(row) == first
    assert Counter(view.sample(len(pages), seed=1)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(scaled(3)))
def test_copies_stand_side_by_side(seed: int) -> None:
    r = random.Random(seed)
    db, other = ev.Database(), duckdb.connect()
    db.sql(SCHEMA)
    other.execute(SCHEMA.replace("STRING", "VARCHAR"))
    for name in ORDER:
        db.create_view(name, VIEWS[name], **({"lookup": "b"} if name == "half" and seed % 2 else {}))
        other.execute(f"CREATE VIEW {name} AS {VIEWS[name]}")
    held: dict[str, list[Any]] = {"e": [], "f": [], "s": []}
    for _ in range(5):
        with db.batch() as batch:
            for table, rows in held.items():
                gone = [rows.pop(r.randrange(len(rows))) for _ in range(min(len(rows), r.randrange(4)))]
                new = [
                    (r.choice([None, 0, 1, 2, 3]), r.choice(["a", "A", None]) if table == "s" else r.randrange(4))
                    for _ in range(r.randrange(6))
                ]
                batch.delete(table, gone)
                batch.insert(table, new)
                rows += new
        for table, rows in held.items():
            other.execute(f"DELETE FROM {table}")
            if rows:
                other.executemany(f"INSERT INTO {table} VALUES (?, ?)", rows)
        for name in ORDER:
            check(db.view(name), Counter(other.execute(f"SELECT * FROM {name}").fetchall()), r)


def test_each_way_gives_the_same_places() -> None:
    """Rows whose copies are looked up, all of them added up, and sides that are merged: whatever is read first."""
    r = random.Random(5)
    rows = {t: [(r.randrange(150), r.randrange(150)) for _ in range(12_000)] for t in "ef"}
    both = Counter(rows["e"]) + Counter(rows["f"])
    other = "SELECT a, b FROM e UNION ALL SELECT a, b FROM f"
    for options in ({}, {"access": False}):
        db = ev.Database()
        db.sql(SCHEMA)
        view = db.create_view("v", other, **options)
        for table, new in rows.items():
            db.insert(table, new)
        page = view.page(limit=10)
        assert not db._places  # Its sides are merged, or copies looked up.
        whole = view[:]
        assert Counter(whole) == both
        assert whole[:10] == page
        assert list(view) == whole
        assert view.page(offset=4_321, limit=10) == whole[4_321:4_331] == [view[j] for j in range(4_321, 4_331)]
        assert view.rank(whole[-1]) == whole.index(whole[-1])
        assert bool(db._places) == (options == {"access": False})
        db.insert("f", [(1, 1)])
        assert not db._places  # A batch ends it.
        assert Counter(view[:]) == both + Counter([(1, 1)])


def test_a_loop_over_many_rows_begins_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a hundred million rows that come about apart a loop takes the first ones, and never has all."""
    db = ev.Database()
    db.sql(SCHEMA)
    view = db.create_view("v", VIEWS["ends"])
    db.insert("e", [(i % 100, 0) for i in range(10_000)])
    db.insert("f", [(0, i % 100) for i in range(10_000)])
    first = list(islice(view, 3))
    assert len(view) == 10**8
    assert all(row in view for row in first)
    assert not db._places
    db.delete("e", [(i % 100, 0) for i in range(9_990)])
    monkeypatch.setattr(positions, "_FEW", 1_000)
    assert Counter(view) == Counter({(a, b): 100 for a in range(90, 100) for b in range(100)})


def test_the_list_is_added_up_once_a_version(monkeypatch: pytest.MonkeyPatch) -> None:
    db = ev.Database()
    db.sql(SCHEMA)
    view = db.create_view("v", VIEWS["ends"])
    db.insert("e", [(i % 7, i % 5) for i in range(200)])
    db.insert("f", [(i % 5, i % 3) for i in range(200)])
    calls = []
    rows = View._rows
    monkeypatch.setattr(View, "_rows", lambda self, **how: calls.append(1) or rows(self, **how))  # type: ignore[func-returns-value]  # append gives None
    whole = [row for offset in range(0, view.count(), 500) for row in db.view("v").page(offset=offset, limit=500)]
    assert [view.rank(row) for row in set(whole)] == [whole.index(row) for row in set(whole)]
    assert (list(view) == whole, len(view)) == (True, len(whole))
    assert len(calls) == 1
    db.delete("e", [(0, 0)])
    assert len(view[:]) == len(view) < len(whole)
    assert len(calls) == 2
    db.memory_limit = db.nbytes()
    db.delete("e", [(0, 0)])
    assert view[:] == list(view)
    assert not db._places  # There is no room to keep it.


def test_rows_of_a_cut_stand_in_its_order_though_copies_are_apart() -> None:
    """The one exception: a view that says its order has that one, also by columns that it does not show."""
    db = ev.Database()
    db.sql("CREATE TABLE log (who STRING, at INT)")
    db.insert("log", [("a", 1), ("b", 2), ("a", 3), ("c", 0)])
    view = db.create_view("latest", "SELECT who FROM log ORDER BY at DESC LIMIT 3")
    assert list(view) == view[:] == [("a",), ("b",), ("a",)]
    assert [view.rank(row) for row in (("a",), ("b",))] == [0, 1]


SAID = [
    ("SELECT a, b FROM e UNION ALL SELECT a, b FROM f", "O(log N)", "merged in the order of a, b: a row by position"),
    ("SELECT a, 1 AS n FROM e UNION ALL SELECT a, 2 FROM f", "O(log N)", None),
    ("SELECT a, b FROM e UNION ALL SELECT a + 1, b FROM f", "O(|Q|)", "apart: the whole list is added up once"),
    ("SELECT a, b FROM e UNION ALL SELECT e.a, f.b FROM e, f WHERE e.b = f.a", "O(|Q|)", "apart: the whole list"),
    ("SELECT DISTINCT a FROM e UNION ALL SELECT DISTINCT a FROM f", "O(log N)", "merged in the order of a"),
    (VIEWS["ends"], "O(|Q|)", "apart: the whole list is added up once, and kept until the next batch"),
    (VIEWS["groups"], "O(|Q|)", "apart: the copies of the rows before the position are looked up, or"),
    ("SELECT e.a, e.b, f.b AS c FROM e, f WHERE e.b = f.a AND e.a < f.b", "O(|Q|)", "the rows before the position are"),
    ("SELECT a, COUNT(*) AS n FROM e GROUP BY a", "O(|Q|)", "the rows before the position are listed"),
    (VIEWS["hidden"], "O(|Q|)", "apart: the whole list is added up once"),
    (VIEWS["minus"], "O(|Q|)", "the rows before the position are listed"),
]


@pytest.mark.parametrize(("query", "time", "how"), SAID)
def test_explain_says_what_a_position_costs(query: str, time: str, how: str | None) -> None:
    """And the operators do what it says."""
    db = ev.Database()
    db.sql(SCHEMA)
    view = db.create_view("v", query)
    said = view.explain()
    kept = said.to_dict()["tasks"]["access"]["kept"]
    assert kept["time"] == time
    assert (how or "") in kept.get("how", "")
    assert ("how" in kept) == (how is not None)
    assert ("\npositions" in str(said)) == ("apart" in (how or "") or "merged" in (how or ""))
    view.page(limit=0)
    assert (view._ask(lambda rows: rows.access(())) is None) == (time == "O(|Q|)")
    assert (view._ask(lambda rows: rows.placed(partly=True)) is None) == ("apart" in (how or ""))
    whole = frozenset(range(len(view.schema)))
    assert "looked up" not in (how or "") or view._ask(lambda rows: rows.looks_up(whole))


@pytest.mark.parametrize("query", ["SELECT x, k FROM d", "SELECT x, k FROM d UNION ALL SELECT x, k FROM d WHERE k > 0"])
def test_doubles_below_zero_are_found_by_their_values(query: str) -> None:
    """Rows are kept in the order of their words, which is another one; the first row at or after one is not."""
    db = ev.Database()
    db.sql("CREATE TABLE d (x DOUBLE, k INT)")
    view = db.create_view("v", query)
    numbers = [-7.25, -1.5, -0.0, 0.5, 2.0, float("-inf")]
    db.insert("d", [(x, k) for x in numbers for k in (-1, 0, 1)])
    assert view[:] == list(view) == [view[j] for j in range(len(view))]  # The first read by position orders them.
    for row, copies in Counter(view).items():
        assert [view[view.rank(row) + i] for i in range(copies)] == [row] * copies
    for asked in [(x, k) for x in (*numbers, -3.0) for k in (-2, 0, 2)]:
        assert view.first_at_or_after(asked) == min((row for row in view if row >= asked), default=None)
