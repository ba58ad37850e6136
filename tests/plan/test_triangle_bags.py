"""A triangle in a larger query is a bag of CROWN's: √N does not carry over, as ``explain`` says (triangle.md 18.7)."""

from __future__ import annotations

import pytest

import everview as ev

TABLES = """
CREATE TABLE r (a INT, b INT); CREATE TABLE s (b INT, c INT); CREATE TABLE t (c INT, a INT);
CREATE TABLE u (c INT, d INT);
CREATE TABLE e (x INT, y INT);
"""
TRIANGLE = "r.b = s.b AND s.c = t.c AND t.a = r.a"
SAID = "the √N of triangles alone does not carry over"


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
