"""Planning takes little time whatever the statement: columns that nobody reads cost nothing worth mentioning."""

from __future__ import annotations

from time import process_time

import pytest

import everview as ev
from everview.errors import SizeError
from everview.plan.view_plan import plan_view
from everview.query.conjunctive import ConjunctiveQuery
from everview.query.hierarchy import Violation, q_violation, t_violation
from everview.query.schema import Schema
from everview.query.terms import Var
from everview.sql import parse_rules


def table(columns: int) -> str:
    return f"CREATE TABLE t (g INT, {', '.join(f'c{i} INT' for i in range(columns))})"


def test_unread_columns_cost_no_planning_time() -> None:
    kinds = ("SUM", "MIN", "MAX", "AVG")
    aggregates = ", ".join(f"{kinds[i % 4]}(c{i}) AS a{i}" for i in range(40))
    database = ev.Database()
    start = process_time()
    database.sql(f"{table(400)}; CREATE VIEW v AS SELECT g, {aggregates} FROM t GROUP BY g")
    text = str(database.view("v").explain())
    assert process_time() - start < 8  # it took a minute and more
    assert "min(c1)" in text.lower()
    row = (1, *range(400))
    database.insert("t", [row])
    assert list(database.view("v")) == [(1, *(float(i) if i % 4 == 3 else i for i in range(40)))]


def test_tables_of_very_many_columns_can_be_explained() -> None:
    start = process_time()
    for query in ("SELECT * FROM t", "SELECT c1, MAX(c2) AS m FROM t GROUP BY c1"):
        verdict = ev.explain(query, table(1500))
        orders = verdict.to_dict()["parts"][0]["cores"][0]["variable_orders"]
        assert orders["canonical"].count("-") == 1501
        assert orders["free_top"].count("-") == 1501
    assert process_time() - start < 20


def core(rule: str) -> ConjunctiveQuery:
    (view,) = parse_rules(rule)
    return plan_view(view, Schema()).main.query


def test_witnesses_are_the_first_of_their_kind() -> None:
    query = core("v(a, b, x) :- r(a, p, y), s(y, q, x), t(b, y, z, w).")
    assert {v.name for v in query.telling} == {"a", "b", "p", "q", "w", "x", "y"}
    assert q_violation(query) == Violation("ii", Var("a"), Var("y"), (0, 1))
    assert t_violation(query) == Violation("ii", Var("a"), Var("y"), (0, 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "said"),
    [
        (" AND ".join(f"a <> {i}" for i in range(10_000)), "words and signs"),
        (f"a IN ({', '.join(map(str, range(100_000)))})", "words and signs"),
        (f"{'string(double(' * 12}a{'))' * 12} = 'x'", "named as types"),
    ],
    ids=["10,000 ANDs", "IN of 100,000", "conversions"],
)
def test_what_the_parser_would_take_long_for_is_refused_before_it_begins(condition: str, said: str) -> None:
    with pytest.raises(SizeError, match=said) as refused:
        ev.explain(f"SELECT a FROM t WHERE {condition}", schema="CREATE TABLE t (a INT)")
    assert refused.value.line == 1
    assert refused.value.hint


@pytest.mark.slow
def test_ten_thousand_values_and_a_thousand_conditions_are_read() -> None:
    listed = f"SELECT a FROM t WHERE a IN ({', '.join(map(str, range(10_000)))})"
    chained = f"SELECT a FROM t WHERE {' AND '.join(f'a <> {i}' for i in range(1_000))}"
    for sql in (listed, chained):
        assert ev.explain(sql, schema="CREATE TABLE t (a INT)").to_dict()["strategy"] == "crown"
