"""Rules in, rule text out; and they mean what the same thing means in SQL."""

from __future__ import annotations

import pytest

from everview.query.types import ANY, BIGINT, Kind
from everview.sql import parse_rules
from tests.sql.cases import Case, parameters, schema
from tests.sql.evaluate import Evaluator

SCHEMA = schema()
IN_SQL = [
    (
        "hop(a, c) :- follows(a, b), follows(b, c).",
        "SELECT DISTINCT x.src, y.dst FROM follows x JOIN follows y ON x.dst = y.src",
    ),
    (
        "tri(a, b, c) :- follows(a, b), follows(b, c), follows(c, a).",
        "SELECT DISTINCT x.src, y.src, z.src FROM follows x, follows y, follows z "
        "WHERE x.dst = y.src AND y.dst = z.src AND z.dst = x.src",
    ),
    (
        "q(x, 7, 'w') :- t(x, 2, 'a', _, _, _).",
        "SELECT DISTINCT k, 7, 'w' FROM t WHERE x = 2 AND s = 'a'",
    ),
    (
        "q(x) :- r(x, x).",
        "SELECT DISTINCT a FROM r WHERE a = b",
    ),
    (
        "q(x, y) :- r(x, y), x != y, y < 3, x >= 1.",
        "SELECT DISTINCT a, b FROM r WHERE a <> b AND b < 3 AND a >= 1",
    ),
    (
        "q(x, z) :- r(x, y), r(z, w), y = z.",
        "SELECT DISTINCT p.a, q.a FROM r p, r q WHERE p.b = q.a",
    ),
    (
        "q(x, y) :- r(x, y), y = 2.",
        "SELECT DISTINCT a, b FROM r WHERE b = 2",
    ),
    (
        "q(x, y) :- r(x, _), y = 5.",
        "SELECT DISTINCT a, 5 FROM r",
    ),
    (
        "q(x) :- r(x, _).\nq(y) :- r(_, y). % and the other side\nq(z) :- follows(z, 1). -- and these",
        "SELECT a FROM r UNION SELECT b FROM r UNION SELECT src FROM follows WHERE dst = 1",
    ),
    (
        "q(x, sum(y), count(y), max(y), avg(y)) :- r(x, y).",
        "SELECT a, SUM(DISTINCT b), COUNT(DISTINCT b), MAX(b), AVG(DISTINCT b) FROM r GROUP BY a",
    ),
    (
        "q(x, count(*)) :- r(x, y), follows(y, z).",
        "SELECT a, COUNT(*) FROM (SELECT DISTINCT a, b, dst FROM r JOIN follows ON b = src) GROUP BY a",
    ),
    (
        "q(x, count(*)) :- r(x, y), follows(y, _).",
        "SELECT a, COUNT(*) FROM (SELECT DISTINCT a, b FROM r JOIN follows ON b = src) GROUP BY a",
    ),
    (
        "q(count(*)) :- r(x, y).",
        "SELECT COUNT(*) FROM (SELECT DISTINCT a, b FROM r)",
    ),
    (
        "q(x) :- t(x, _, _, '1995-02-01', _, _).",
        "SELECT DISTINCT k FROM t WHERE d = DATE '1995-02-01'",
    ),
    (
        "q(x) :- t(x, _, _, d, _, _), d > '1995-02-01'.",
        "SELECT DISTINCT k FROM t WHERE d > DATE '1995-02-01'",
    ),
    (
        "q(x) :- r(x, y), y = 1, y = 2.",
        "SELECT DISTINCT a FROM r WHERE FALSE",
    ),
    (
        "q(x) :- t(x, _, 'it''s', _, _, _).",
        "SELECT DISTINCT k FROM t WHERE s = 'it''s'",
    ),
    (
        'q(x) :- u(x, _, "a", _, true), t(_, _, _, _, 0.5, 1.5).',
        "SELECT DISTINCT u.k FROM u, t WHERE u.s = 'a' AND u.b AND v = 0.5 AND m = 1.5",
    ),
]


@pytest.mark.parametrize("case", parameters("*.rules"))
def test_rule_text(case: Case) -> None:
    assert "\n".join(map(str, parse_rules(case.sql, SCHEMA))) == case.expected.strip()


@pytest.mark.parametrize(("rule", "sql"), IN_SQL)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_same_meaning(rule: str, sql: str, seed: int) -> None:
    evaluator = Evaluator(SCHEMA, seed)
    (view,) = parse_rules(rule, SCHEMA)
    assert evaluator.run_view(view) == evaluator.run_text(sql)[1]


def test_views_over_views() -> None:
    evaluator = Evaluator(SCHEMA, 4)
    two, four = parse_rules("two(x, z) :- r(x, y), r(y, z). four(x, z) :- two(x, y), two(y, z).", SCHEMA)
    evaluator.keep(two)
    sql = "SELECT DISTINCT p.a, s.b FROM r p, r q, r t, r s WHERE p.b = q.a AND q.b = t.a AND t.b = s.a"
    assert evaluator.run_view(four) == evaluator.run_text(sql)[1]


def test_order_is_that_of_need() -> None:
    assert [v.name for v in parse_rules("p(x) :- q(x). q(x) :- e(x, _).")] == ["q", "p"]


def test_tables_are_inferred() -> None:
    (view,) = parse_rules("hop(a, c) :- follows(a, b), follows(b, c).")
    assert [c.type for c in view.columns] == [ANY, ANY]
    assert str(view) == "hop(a, c) distinct :- follows(a, b), follows(b, c)."


def test_types_come_from_the_schema() -> None:
    (view,) = parse_rules("q(x, count(*), s) :- t(x, _, s, _, _, _).", SCHEMA)
    assert [c.type.kind for c in view.columns] == [Kind.INT, Kind.BIGINT, Kind.STRING]
    assert [c.name for c in view.columns] == ["x", "count", "s"]
    assert view.columns[1].type == BIGINT
