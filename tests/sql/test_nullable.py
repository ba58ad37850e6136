"""Which columns of a view can be NULL: what feeds promise, and what the engine does not look for."""

from __future__ import annotations

import pytest

from everview.sql import parse_schema, parse_view

SCHEMA = """
    CREATE TABLE t (a BIGINT, b BIGINT, s STRING, k BIGINT NOT NULL);
    CREATE TABLE u (a BIGINT, c BIGINT);
"""


@pytest.mark.parametrize(
    ("query", "nullable"),
    [
        ("SELECT a, k FROM t", "a"),
        ("SELECT t.a, b, c FROM t JOIN u ON t.a = u.a", "b c"),
        ("SELECT a, b FROM t WHERE a IS NOT NULL", "b"),
        # A comparison of nothing is never true.
        ("SELECT a, b FROM t WHERE a > 0", "b"),
        ("SELECT a, b FROM t WHERE a % 10 = 0", "b"),
        ("SELECT a, b FROM t WHERE a <> b", ""),
        ("SELECT a, b FROM t WHERE -a + 1 < CAST(s AS BIGINT)", "b"),
        ("SELECT a, b FROM t WHERE a BETWEEN b AND 5", "b"),
        ("SELECT a, b FROM t WHERE a IN (1, 2)", "b"),
        ("SELECT a, s FROM t WHERE s LIKE 'x%'", "a"),
        ("SELECT a + 1 AS a, b FROM t WHERE a > 0", "b"),
        ("SELECT a, COUNT(*) AS n, MAX(b) AS m FROM t WHERE a > 0 GROUP BY a", "m"),
        ("SELECT x.a, x.b FROM (SELECT a, b FROM t WHERE a > 0) AS x", "b"),
        # Conditions that hold, or may hold, for NULL.
        ("SELECT a, b FROM t WHERE a IS NULL OR a > 0", "a b"),
        ("SELECT a, b FROM t WHERE a = 1 OR b = 1", "a b"),
        ("SELECT a, b FROM t WHERE COALESCE(a, 1) = 1", "a b"),
        ("SELECT a, b FROM t WHERE a <=> b", "a b"),
        ("SELECT a, b FROM t WHERE NOT (a = 1)", "a b"),
        ("SELECT a, b FROM t WHERE CASE WHEN a = 1 THEN 1 ELSE 2 END > 1", "a b"),
        ("SELECT a, b FROM t WHERE a > 0 UNION ALL SELECT a, c FROM u", "a b"),
    ],
)
def test_nullable_columns(query: str, nullable: str) -> None:
    view = parse_view(query, parse_schema(SCHEMA))
    assert " ".join(c.name for c in view.columns if c.nullable) == nullable
