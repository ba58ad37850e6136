"""Hundreds of conditions in one chain, and lists of thousands of values, are no nesting: they are computed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

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


BY_TURNS = "a" + "".join(f" {'-+'[i % 2]} {'ab'[i % 2]}" for i in range(999))
COMPUTED = {
    "sum": (" + ".join(["a"] * 2_000), [(3, 4), (-5, 0), (None, 1), (1_000_000, 7)]),
    "difference": (" - ".join(["a"] * 600), [(3, 4), (-5, 0), (None, 1)]),
    "product": (" * ".join(["a", *["b"] * 599]), [(7, 1), (7, -1), (None, 2)]),
    "by turns": (BY_TURNS, [(2_000_000_000, 2_000_000_000), (5, 4), (None, 1)]),
    "sum of products": (" + ".join(["a * b"] * 500), [(2, 3), (-2, 5), (0, None)]),
    "bits": (" & ".join(["a", *["b"] * 599]), [(13, 7), (-1, 12), (None, 1)]),
    "within calls": (f"abs({' - '.join(['a'] * 600)}) + 1", [(3, 4), (-5, 0), (None, 1)]),
    "floats": (" - ".join(["CAST(a AS DOUBLE)", *["0.25D"] * 500]), [(3, 4), (-5, 0), (None, 1)]),
    "decimals": (" + ".join(["CAST(a AS DECIMAL(12, 2))"] * 300), [(3, 4), (-5, 0), (None, 1)]),
    "text": (f"length({' || '.join(['s'] * 600)})", [(3, 4), (None, 1)]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPUTED)
def test_long_chains_are_computed_from_left_to_right(name: str, tmp_path: Path) -> None:
    text, pairs = COMPUTED[name]
    rows = [(a, b, None if a is None else f"s{a}") for a, b in pairs]
    query = f"SELECT {text} AS x, b FROM t"
    db = ev.Database()
    db.sql(f"CREATE TABLE t (a INT, b INT, s STRING); CREATE VIEW v AS {query}")
    db.insert("t", rows)
    oracle = duckdb.connect(config={"max_expression_depth": 5_000})
    oracle.execute("SET disabled_optimizers = 'common_subexpressions'")
    oracle.execute("CREATE TABLE t (a INT, b INT, s VARCHAR)")
    oracle.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    expected = Counter(oracle.execute(query.replace("0.25D", "0.25")).fetchall())
    assert len(expected) == len(rows)
    assert Counter(db.view("v")) == expected
    assert Counter(db.sql(query)) == expected
    verdict = db.view("v").explain()
    assert str(verdict)
    assert verdict.to_dict()
    assert verdict.to_svg()
    db.save(tmp_path / "chain.everview")
    loaded = ev.Database.load(tmp_path / "chain.everview")
    loaded.delete("t", rows[:1])
    assert Counter(loaded.view("v")) == Counter(r for r in expected if r[1] != rows[0][1])


@pytest.mark.parametrize("signs", ["+-", "-+"])
def test_a_chain_overflows_where_it_does_from_left_to_right(signs: str) -> None:
    """a + a - a - a + … is beyond INT after its second term, a - a + a - … never is."""
    chain = "a" + "".join(f" {signs[i % 2]} a" for i in range(998))
    db = ev.Database()
    db.sql(f"CREATE TABLE t (a INT); CREATE VIEW v AS SELECT {chain} AS x FROM t")
    if signs == "+-":
        with pytest.raises(ev.errors.ExpressionError):
            db.insert("t", [(2_000_000_000,)])
        assert list(db.view("v")) == []
    else:
        db.insert("t", [(2_000_000_000,)])
        assert list(db.view("v")) == [(2_000_000_000,)]


def test_decimals_of_a_chain_have_the_digits_that_each_step_gives_them() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE t (d DECIMAL(10, 2))")
    for terms, digits in ((9, 18), (20, 29), (300, 38)):
        db.sql(f"CREATE VIEW v{terms} AS SELECT {' + '.join(['d'] * terms)} AS x FROM t")
        assert str(db.view(f"v{terms}").to_arrow().schema.field("x").type) == f"decimal128({digits}, 2)"


@pytest.mark.parametrize(
    ("chain", "said"),
    [
        (" / ".join(["a"] * 500), "calls within calls"),
        (" % ".join(["a"] * 900), "nested too deeply"),
        (" - ".join(["a"] * 3_000), "5999 parts"),
    ],
    ids=["division", "remainder", "too long"],
)
def test_chains_that_are_too_long_are_refused_in_words(chain: str, said: str) -> None:
    db = ev.Database()
    db.sql("CREATE TABLE t (a INT)")
    with pytest.raises(ev.errors.EverviewError, match=said):
        db.sql(f"CREATE VIEW v AS SELECT {chain} AS x FROM t")
