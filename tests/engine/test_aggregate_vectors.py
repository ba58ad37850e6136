"""Aggregates tied to the tree: the specification's vectors T14 and T15, in SQL and rules, and T7's stream of updates.

Each level of a nested aggregate is a subquery that groups what the one below it gives (q-hierarchical.md 18).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import everview as ev

E = [(1, 1), (1, 2), (1, 3), (2, 4), (2, 8), (2, 9), (3, 2)]
F = [(1, 4, 1), (1, 5, 2), (1, 6, 3), (1, 6, 4), (2, 2, 1), (2, 2, 8), (2, 2, 4), (3, 1, 1), (4, 5, 6)]
JOINED = "f JOIN g ON f.y = g.y AND f.x2 = g.x2 AND f.x3 = g.x3"
SUMS = f"SELECT f.y, f.x2, SUM(f.x3) AS s FROM {JOINED} GROUP BY f.y, f.x2"
VIEWS = {
    "sums": "SELECT e.y, x1, f.x2, SUM(f.x3) AS s FROM e JOIN f ON e.y = f.y "
    "JOIN g ON f.y = g.y AND f.x2 = g.x2 AND f.x3 = g.x3 GROUP BY e.y, x1, f.x2",
    "largest": f"SELECT e.y, x1, MAX(x2 * s) AS m FROM e JOIN ({SUMS}) q ON e.y = q.y GROUP BY e.y, x1",
    "both": "SELECT a.y, n, m FROM (SELECT y, COUNT(DISTINCT x1) AS n FROM e GROUP BY y) a "
    f"JOIN (SELECT y, MAX(x2 * s) AS m FROM ({SUMS}) GROUP BY y) b ON a.y = b.y",
}


RULES = """
ruled_sums(y, x1, x2, sum(x3)) :- e(y, x1), f(y, x2, x3), g(y, x2, x3).
ruled_largest(y, x1, max(prod(x2, sum(x3)))) :- e(y, x1), f(y, x2, x3), g(y, x2, x3).
ruled_both(y, count(x1), max(prod(x2, sum(x3)))) :- e(y, x1), f(y, x2, x3), g(y, x2, x3).
"""


def b1() -> ev.Database:
    db = ev.Database()
    db.sql("CREATE TABLE e (y BIGINT, x1 BIGINT)")
    db.sql("CREATE TABLE f (y BIGINT, x2 BIGINT, x3 BIGINT); CREATE TABLE g (y BIGINT, x2 BIGINT, x3 BIGINT)")
    for name, query in VIEWS.items():
        db.create_view(name, query, history=10)
    db.rules(RULES, history=10)
    with db.batch() as batch:
        for name, rows in (("e", E), ("f", F), ("g", F)):
            batch.insert(name, rows)
    return db


@pytest.mark.parametrize("names", [tuple(VIEWS), tuple(f"ruled_{name}" for name in VIEWS)], ids=["sql", "rules"])
def test_vector_t14(names: tuple[str, ...]) -> None:
    db = b1()
    sums, greatest, both = (db.view(name) for name in names)
    expected: list[tuple[int, ...]] = [(1, b, x2, s) for b in (1, 2, 3) for x2, s in ((4, 1), (5, 2), (6, 7))]
    assert sorted(sums) == [*expected, *((2, c, 2, 13) for c in (4, 8, 9)), (3, 2, 1, 1)]
    largest = [*((1, b, 42) for b in (1, 2, 3)), *((2, c, 26) for c in (4, 8, 9)), (3, 2, 1)]
    assert sorted(greatest) == largest
    assert sorted(both) == [(1, 3, 42), (2, 3, 26), (3, 1, 1)]
    found = {path.split(".")[-1]: sorted(rows.to_pylist(), key=str) for path, rows in both.why((3, 1, 1)).items()}
    both_sides = [{"y": 3, "x2": 1, "x3": 1}]
    assert found == {"e": [{"y": 3, "x1": 2}], "f": both_sides, "g": both_sides}
    if names[0] not in VIEWS:
        assert set(both.why((3, 1, 1))) == {"e", "f", "g"}
    start = db.version
    db.insert("e", [(4, 1)])
    assert sorted(both) == [(1, 3, 42), (2, 3, 26), (3, 1, 1), (4, 1, 30)]
    db.delete("f", [(1, 6, 4)])
    assert sorted(both) == [(1, 3, 18), (2, 3, 26), (3, 1, 1), (4, 1, 30)]
    assert [tuple(row) for row in both[1:3]] == [(2, 3, 26), (3, 1, 1)]
    assert (both.rank((3, 1, 1)), (1, 3, 18) in both, (1, 3, 42) in both) == (2, True, False)
    changed = both.diff(since=start).to_pylist()
    told = Counter((*list(r.values())[:3], r["_change_type"]) for r in changed for _ in range(r["_count"]))
    assert told == Counter([(1, 3, 42, "delete"), (1, 3, 18, "insert"), (4, 1, 30, "insert")])
    assert "verdict     O(log N) per update" in str(both.explain())


@pytest.mark.parametrize("name", ["both", "ruled_both"])
def test_nested_aggregates_change_in_few_steps_whatever_their_size(name: str) -> None:
    steps = []
    for size in (10, 100, 1_000):
        db = b1()
        for table in ("f", "g"):
            db.insert(table, [(7, i % 10, i) for i in range(size)])
        db.insert("e", [(7, i) for i in range(size)])
        view = db.view(name)
        before = view.stats()["steps"]
        with db.batch() as batch:
            for table in ("f", "g"):
                batch.insert(table, [(7, 3, -5)])
            batch.insert("e", [(7, -1)])
        steps.append(view.stats()["steps"] - before)
        largest = max(x2 * sum(i for i in range(size) if i % 10 == x2) for x2 in range(10))
        assert (7, size + 1, largest) in view
    assert max(steps) <= 2 * min(steps), steps  # MAX keeps values in order: O(log N).


def test_vector_t15() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE salary (pid STRING, project STRING, salary BIGINT)")
    db.sql("CREATE TABLE person (pid STRING, name STRING)")
    joined = "FROM salary s JOIN person p ON s.pid = p.pid"
    db.create_view("different", f"SELECT s.pid, name, SUM(DISTINCT salary) AS total {joined} GROUP BY s.pid, name")
    db.create_view("all_of_them", f"SELECT s.pid, name, SUM(salary) AS total {joined} GROUP BY s.pid, name")
    db.create_view("average", f"SELECT project, AVG(salary) AS mean {joined} GROUP BY project")
    db.create_view("totals", f"SELECT project, SUM(salary) AS total {joined} GROUP BY project")
    most = "(SELECT MAX(total) AS most FROM totals)"
    db.create_view("first", f"SELECT project, total FROM totals JOIN {most} m ON total = most")
    joined = "salary(pid, project, salary), person(pid, name)"
    db.rules(f"chosen(pid, name, sum(salary)) :- {joined}.")
    db.rules(f"ruled(pid, name, sum(prod(salary, count(project)))) :- {joined}.")
    db.rules("by_weight(project, wavg(<salary, count(pid)>)) :- salary(pid, project, salary).")
    db.rules("best(argmax(<project, sum(prod(salary, count(pid)))>)) :- salary(pid, project, salary).")
    db.insert("salary", [("ann", "p1", 100), ("ann", "p2", 100), ("bob", "p1", 50)])
    db.insert("person", [("ann", "Ann"), ("bob", "Bob")])
    assert sorted(db.view("different")) == sorted(db.view("chosen")) == [("ann", "Ann", 100), ("bob", "Bob", 50)]
    assert sorted(db.view("all_of_them")) == sorted(db.view("ruled")) == [("ann", "Ann", 200), ("bob", "Bob", 50)]
    assert sorted(db.view("average")) == sorted(db.view("by_weight")) == [("p1", 75.0), ("p2", 100.0)]
    assert (list(db.view("first")), list(db.view("best"))) == ([("p1", 150)], [("p1",)])
    db.delete("salary", [("bob", "p1", 50)])
    assert sorted(db.view("first")) == [("p1", 100), ("p2", 100)]
    assert list(db.view("best")) == [("p2",)]


@pytest.mark.parametrize("as_rule", [False, True])
def test_vector_t7(as_rule: bool) -> None:
    """Constants, a repeated variable and a self-join, through updates."""
    db = ev.Database()
    db.sql("CREATE TABLE e (a BIGINT, b BIGINT); CREATE TABLE t (a BIGINT); CREATE TABLE s (a BIGINT)")
    if as_rule:
        db.rules("v(x, y, 7) :- e(x, x), e(x, y), t(1), s(z).")
    else:
        db.create_view(
            "v",
            "SELECT DISTINCT l.a AS x, r.b AS y, 7 AS seven FROM e l, e r, t, s "
            "WHERE l.a = l.b AND l.a = r.a AND t.a = 1",
        )
    steps: list[tuple[str, str, tuple[int, ...], set[tuple[int, ...]]]] = [
        ("insert", "e", (1, 1), set()),
        ("insert", "e", (1, 2), set()),
        ("insert", "e", (2, 1), set()),
        ("insert", "s", (5,), set()),
        ("insert", "t", (2,), set()),
        ("insert", "t", (1,), {(1, 1, 7), (1, 2, 7)}),
        ("insert", "e", (2, 2), {(1, 1, 7), (1, 2, 7), (2, 1, 7), (2, 2, 7)}),
        ("delete", "e", (1, 1), {(2, 1, 7), (2, 2, 7)}),
        ("delete", "s", (5,), set()),
    ]
    for kind, table, row, expected in steps:
        change: Any = getattr(db, kind)
        change(table, [row])
        view = db.view("v")
        assert (set(view), len(view), view.moments(1)[()]) == (expected, len(expected), len(expected))
