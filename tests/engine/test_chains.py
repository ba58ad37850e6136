"""Hundreds of conditions in one chain, and lists of thousands of values, are no nesting: they are computed."""

from __future__ import annotations

import duckdb
import pytest

import everview as ev
from everview.sql.chains import balanced
from everview.sql.parse import parse_statements

ROWS = [(a, b, None if a % 7 == 0 else f"s{a}") for a in range(-3, 40) for b in (a, a + 1, 0)]
CHAINS = {
    "OR": " OR ".join(f"a = {3 * i}" for i in range(500)),
    "AND": " AND ".join(f"a <> {3 * i}" for i in range(500)),
    "OR of AND": " OR ".join(f"(a = {i} AND b = {i + 1})" for i in range(0, 600, 2)),
    "OR in one expression": " OR ".join(f"a + b = {3 * i}" for i in range(500)),
    "AND under NOT": f"NOT ({' AND '.join(f'a + b <> {3 * i}' for i in range(500))})",
    "a common condition": " OR ".join(f"(b > 5 AND a = {i})" for i in range(0, 600, 2)),
    "both by turns": " OR ".join(f"a = {i} AND b = {i} OR b = {i + 100}" for i in range(0, 500, 2)),
    "IN": f"a IN ({', '.join(str(3 * i) for i in range(10_000))})",
    "text": f"length({' || '.join(['s'] * 500)}) > 1000",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHAINS)
def test_long_chains_are_computed(name: str) -> None:
    query = f"SELECT a, b FROM t WHERE {CHAINS[name]}"
    db = ev.Database()
    db.sql(f"CREATE TABLE t (a INT, b INT, s STRING); CREATE VIEW v AS {query}")
    db.insert("t", ROWS)
    oracle = duckdb.connect()
    oracle.execute("CREATE TABLE t (a INT, b INT, s VARCHAR)")
    oracle.executemany("INSERT INTO t VALUES (?, ?, ?)", ROWS)
    expected = sorted(oracle.execute(query).fetchall())
    assert 0 < len(expected) < len(ROWS)
    assert sorted(db.view("v")) == expected


@pytest.mark.slow
def test_a_condition_of_a_chain_guards_those_after_it() -> None:
    db = ev.Database()
    tests = " OR ".join(["a = 0", *(f"10 / a = {i}" for i in range(2, 300))])
    db.sql(f"CREATE TABLE t (a INT); CREATE VIEW v AS SELECT a FROM t WHERE {tests}")
    db.insert("t", [(0,), (5,), (3,)])
    assert sorted(db.view("v")) == [(0,), (5,)]


def test_a_balanced_chain_reads_as_before() -> None:
    text = "SELECT a FROM t WHERE " + " OR ".join(f"a = {i}" for i in range(300))
    _, (tree,) = parse_statements(text)
    assert tree.sql("spark") == text
    where = tree.args["where"].this
    assert max(node.depth for node in where.walk()) - where.depth < 15
    assert balanced(tree).sql("spark") == text


def test_a_chain_that_is_not_associative_is_refused_in_words() -> None:
    with pytest.raises(ev.errors.SqlSyntaxError, match="nested too deeply"):
        ev.explain(f"SELECT {' - '.join(['a'] * 3000)} AS x FROM t", "CREATE TABLE t (a INT)")
