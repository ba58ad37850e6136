"""A triangle in a larger query is a bag of CROWN's: √N does not carry over, as ``explain`` says (triangle.md 18.7).

The bag itself finds what changes in O(√N + |Δ|). It has all three sides, or it may have N² rows.
"""

from __future__ import annotations

import pytest

import everview as ev

TABLES = """
CREATE TABLE r (a INT, b INT, w INT); CREATE TABLE s (b INT, c INT, w INT); CREATE TABLE t (c INT, a INT);
CREATE TABLE u (c INT, d INT);
CREATE TABLE e (x INT, y INT);
"""
TRIANGLE = "r.b = s.b AND s.c = t.c AND t.a = r.a"
SAID = "the √N of triangles alone does not carry over"
FOUND = "that an update changes are found in O(N^(1/2) + |Δ|), amortised"


def explained(query: str) -> str:
    (verdict,) = ev.explain_all(f"{TABLES} CREATE MATERIALIZED VIEW v AS {query};")
    return " ".join(str(verdict).split())


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT r.a, r.b, s.c, u.d FROM r, s, t, u WHERE {TRIANGLE} AND u.c = s.c",
        f"SELECT COUNT(*) AS n FROM r, s, t, u WHERE {TRIANGLE} AND u.c = s.c",
        "SELECT p.x, q.x AS y FROM e p, e q, e w, e z WHERE p.y = q.x AND q.y = w.x AND w.y = p.x AND z.x = p.x",
    ],
)
def test_a_triangle_with_a_tail(query: str) -> None:
    said = explained(query)
    assert "strategy crown" in said
    assert SAID in said


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT COUNT(*) AS n FROM r, s, t WHERE {TRIANGLE}",
        "SELECT r.a, s.b, t.c FROM r, s, t WHERE r.b = s.b AND s.c = t.c",
        "SELECT p.x FROM e p, e q, e w, e z WHERE p.y = q.x AND q.y = w.x AND w.y = z.x AND z.y = p.x",
    ],
)
def test_nothing_is_said_without_a_triangle_in_a_bag(query: str) -> None:
    assert SAID not in explained(query)


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT r.a, r.b, s.c FROM r, s, t WHERE {TRIANGLE}",
        f"SELECT r.a, r.b, s.c FROM r, s, t WHERE {TRIANGLE} AND r.w < 2 AND s.w > r.b",
        f"SELECT r.a, r.b, s.c, u.d FROM r, s, t, u WHERE {TRIANGLE} AND u.c = s.c",
        f"SELECT r.a, r.b, s.c, r.w FROM r, s, t WHERE {TRIANGLE}",
        f"SELECT r.a, r.b, s.c, r.w, s.w AS v FROM r, s, t WHERE {TRIANGLE}",
        f"SELECT r.a, r.b, s.c FROM r, s, t WHERE {TRIANGLE} AND r.w < s.w",
    ],
)
def test_the_bound_of_the_bag(query: str) -> None:
    said = explained(query)
    assert "strategy crown" in said
    assert FOUND in said


def test_no_bound_is_claimed_for_what_is_more_than_a_triangle() -> None:
    square = "SELECT p.x, q.x AS y, w.x AS z FROM e p, e q, e w, e z WHERE p.y = q.x AND q.y = w.x AND w.y = z.x"
    assert FOUND not in explained(f"{square} AND z.y = p.x")
    assert FOUND not in explained(f"{square} AND z.y = p.x AND p.x < 3")


@pytest.mark.parametrize(
    "columns", ["r.a, s.b, t.c, r.w", "r.a, s.b, t.c, r.w, s.w AS v", "r.a, s.b, t.c, s.w, t.w AS v"]
)
def test_two_sides_without_the_third_are_not_stored(columns: str) -> None:
    """A hub in the middle of two sides gives n² pairs; if there is no third side, a bag has none of them."""
    stored = []
    for n in (20, 80):
        db = ev.Database()
        for name, first, second in (("r", "a", "b"), ("s", "b", "c"), ("t", "c", "a")):
            db.sql(f"CREATE TABLE {name} ({first} INT, {second} INT, w INT)")
        view = db.create_view("v", f"SELECT {columns} FROM r, s, t WHERE {TRIANGLE}")
        for name, hub in (("r", 0), ("s", 1), ("t", 2)):
            db.insert(name, [(hub + 10, 100 + i, i) for i in range(n)])
            db.insert(name, [(100 + i, (hub + 1) % 3 + 10, i) for i in range(n)])
        assert list(view) == []
        stored.append(sum(node["rows"] for node in view.stats()["nodes"]))
    assert stored[1] <= 4.5 * stored[0]
