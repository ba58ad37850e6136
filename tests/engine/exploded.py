"""Views that give a row an element, over tables of arrays, structs and maps; and rows for these."""

from __future__ import annotations

from random import Random
from typing import Any, Final

ROW: Final = "k INT, a ARRAY<INT>, b ARRAY<STRUCT<x: INT, y: STRING>>, m MAP<STRING, INT>"
TABLES: Final = f"CREATE TABLE r ({ROW}); CREATE TABLE u (k INT, x INT)"
QUERIES: Final = {
    "view": "SELECT k, e FROM r LATERAL VIEW explode(a) v AS e",
    "with_null": "SELECT k, p, e FROM r LATERAL VIEW OUTER posexplode(a) v AS p, e",
    "map": "SELECT k, key, value FROM r LATERAL VIEW explode(m) v",
    "listed": "SELECT k, explode(a) AS e FROM r WHERE k > 1",
    "positions": "SELECT posexplode(a) AS (p, e) FROM r",
    "structs": "SELECT k, inline(b) FROM r",
    "grouped": "SELECT e, COUNT(*) AS n, SUM(k) AS s FROM r LATERAL VIEW explode(a) v AS e GROUP BY e",
    "in_from": "SELECT r.k, t.e FROM r, LATERAL explode(r.a) AS t(e)",
    "numbers": "SELECT r.k, id FROM r JOIN range(3) ON r.k = id",
    "unqualified": "SELECT k, id FROM r JOIN range(3) ON k >= id",
    "of_unqualified": "SELECT k, e, n FROM r JOIN LATERAL explode(a) AS v(e) ON e > k "
    "JOIN LATERAL (SELECT COUNT(*) AS n FROM u WHERE u.k = e) w ON n < k",
    "twice": "SELECT e, f.x FROM r LATERAL VIEW explode(a) v AS e LATERAL VIEW explode(b) w AS f",
    "joined": "SELECT u.x, e FROM u JOIN r ON u.k = r.k LATERAL VIEW OUTER explode(r.a) v AS e "
    "WHERE u.x > 0 AND (e IS NULL OR e > 1)",
    "json": "SELECT k, v.x FROM r LATERAL VIEW json_tuple(concat('{\"a\": ', k, '}'), 'a', 'b') v AS x, y "
    "WHERE y IS NULL",
    "back": "SELECT DISTINCT u.x FROM u WHERE u.x IN (SELECT explode(a) FROM r)",
}


def row(r: Random) -> tuple[Any, ...]:
    """One with arrays that are NULL, empty, or have elements that are NULL or there twice."""
    a = r.choice([None, [], [1], [r.randint(0, 3), None, r.randint(0, 3)], [2, 2]])
    b = r.choice([None, [], [{"x": r.randint(0, 2), "y": "p"}, {"x": None, "y": None}]])
    m = r.choice([None, {}, {"a": 1, "b": None}, {"c": r.randint(0, 3)}])
    return r.randint(0, 3), a, b, m
