"""Bags are as small as keys make them: bounds of Q5 of TPC-H, and joins of random data that keep dependencies."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from itertools import product

import duckdb
import pytest

import everview as ev
from everview.query.decomposition import Bag, decompose
from everview.query.dependencies import Dependency, closure
from everview.query.hypergraph import is_acyclic
from everview.query.terms import Var
from tests.scale import scaled

Edge = frozenset[Var]
Row = dict[Var, int]

SCHEMA = """
CREATE TABLE nation (n_nationkey INT PRIMARY KEY, n_name STRING, n_regionkey INT);
CREATE TABLE supplier (s_suppkey INT {supplier}, s_nationkey INT);
CREATE TABLE customer (c_custkey INT {customer}, c_nationkey INT);
CREATE TABLE orders (o_orderkey INT PRIMARY KEY, o_custkey INT);
CREATE TABLE lineitem (l_orderkey INT, l_linenumber INT, l_suppkey INT, l_price DECIMAL(12,2),
  PRIMARY KEY (l_orderkey, l_linenumber))
"""
Q5 = """SELECT n_name, SUM(l_price) AS revenue FROM customer, orders, lineitem, supplier, nation
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey
  AND s_nationkey = n_nationkey GROUP BY n_name"""
KEY = "PRIMARY KEY"


@pytest.mark.parametrize(
    ("supplier", "customer", "size"), [(KEY, KEY, "O(N)"), ("", "", "O(N^2)"), (f"{KEY} NOT ENFORCED", "", "O(N^2)")]
)
def test_the_bags_of_q5(supplier: str, customer: str, size: str) -> None:
    verdict = ev.explain(Q5, schema=SCHEMA.format(supplier=supplier, customer=customer))
    bounds = verdict.to_dict()["bounds"]
    assert bounds["space"] == size
    assert bounds["update"].startswith(size.removesuffix(")"))
    notes = " ".join(verdict.to_dict()["notes"])
    assert ("bags are smaller by the primary key of" in notes) is (size == "O(N)")
    assert "relied on" not in notes


def test_a_key_that_is_relied_on_is_said() -> None:
    key = f"{KEY} NOT ENFORCED RELY"
    verdict = ev.explain(Q5, schema=SCHEMA.format(supplier=key, customer=key))
    assert verdict.to_dict()["bounds"]["space"] == "O(N)"
    assert "relied on and not checked" in " ".join(verdict.to_dict()["notes"])


def test_closures_are_taken_within_the_bag() -> None:
    """A chain of keys over a variable that is not in the bag bounds nothing there: its atoms are not joined in it."""
    a, b, c = map(Var, "abc")
    chain = [Dependency(0, frozenset({a}), frozenset({b})), Dependency(1, frozenset({b}), frozenset({c}))]
    assert closure(frozenset({a}), frozenset({a, b, c}), chain) == {a, b, c}
    assert closure(frozenset({a}), frozenset({a, c}), chain) == {a}
    assert closure(frozenset({c}), frozenset({a, b, c}), chain) == {c}


def drawn(draw: random.Random) -> tuple[list[Edge], list[Dependency]]:
    """A random cyclic query, and dependencies of some of its edges."""
    while True:
        variables = [Var(f"v{i}") for i in range(draw.randint(3, 6))]
        edges = [frozenset(draw.sample(variables, draw.randint(2, 3))) for _ in range(draw.randint(3, 6))]
        if frozenset().union(*edges) == frozenset(variables) and not is_acyclic(edges):
            break
    found = []
    for i, edge in enumerate(edges):
        if draw.random() < 0.6:
            determinant = frozenset(draw.sample(sorted(edge), draw.randint(1, len(edge) - 1)))
            found.append(Dependency(i, determinant, edge - determinant))
    return edges, found


def filled(draw: random.Random, edges: list[Edge], dependencies: list[Dependency], values: int) -> list[list[Row]]:
    """Rows for each edge, as many as there can be: all combinations of what determines the rest."""
    tables = []
    for i, edge in enumerate(edges):
        mine = next((d for d in dependencies if d.edge == i), None)
        free = sorted(edge if mine is None else mine.determinant)
        rows = [dict(zip(free, chosen, strict=True)) for chosen in product(range(values), repeat=len(free))]
        constant = draw.random() < 0.5
        for row in rows:
            row.update({v: 0 if constant else draw.randrange(values) for v in sorted(edge - set(free))})
        tables.append(rows)
    return tables


def joined(bag: Bag, tables: list[list[Row]]) -> int:
    """How many rows a bag has: the join of its edges, and of what its guards have of its variables."""
    rows: list[Row] = [{}]
    for i in (*bag.edges, *bag.guards):
        parts = {tuple(sorted((v.name, x) for v, x in row.items() if v in bag.variables)) for row in tables[i]}
        found = []
        for row in rows:
            for part in parts:
                mine = {Var(name): x for name, x in part}
                if all(row.get(v, x) == x for v, x in mine.items()):
                    found.append(row | mine)
        rows = found
    return len({tuple(sorted((v.name, x) for v, x in row.items())) for row in rows})


def test_bags_of_random_data_are_within_their_bounds() -> None:
    smaller = 0
    for seed in range(scaled(60, least=20)):
        draw = random.Random(seed)
        edges, dependencies = drawn(draw)
        found = decompose(edges, None, dependencies)
        plain = decompose(edges)
        assert found.fractional_width <= plain.fractional_width
        smaller += found.fractional_width < plain.fractional_width
        assert is_acyclic([bag.variables for bag in found.bags])
        assert sorted(i for bag in found.bags for i in bag.edges) == list(range(len(edges)))
        tables = filled(draw, edges, dependencies, 4)
        most = max(map(len, tables))
        for bag in found.bags:
            assert bag.variables <= frozenset().union(*(edges[i] for i in (*bag.edges, *bag.guards)))
            assert joined(bag, tables) <= float(most) ** float(found.fractional_width) + 1e-6, (seed, bag)
    assert smaller >= 10


def test_guards_for_keys_are_no_more_than_it_takes() -> None:
    """A bag whose own edges have the keys needs no guard; without any of its guards another one would be larger."""
    a, b, c, d = map(Var, "abcd")
    edges = [frozenset(e) for e in ((a, b), (b, c), (c, d), (d, a))]
    keys = [Dependency(1, frozenset({b}), frozenset({c})), Dependency(3, frozenset({a}), frozenset({d}))]
    found = decompose(edges, None, keys)
    assert found.fractional_width == Fraction(1)
    assert decompose(edges).fractional_width == 2


VIEWS = (
    ("CREATE TABLE r (a INT, b INT); CREATE TABLE s (b INT PRIMARY KEY, c INT);"
     "CREATE TABLE t (c INT, d INT); CREATE TABLE u (a INT PRIMARY KEY, d INT)",
     "SELECT r.a, r.b, s.c, t.d FROM r, s, t, u WHERE r.b = s.b AND s.c = t.c AND t.d = u.d AND u.a = r.a"),
    ("CREATE TABLE r (a INT, b INT); CREATE TABLE s (b INT PRIMARY KEY, c INT);"
     "CREATE TABLE t (c INT, d INT); CREATE TABLE u (a INT PRIMARY KEY, d INT)",
     "SELECT r.b, COUNT(*) AS n, SUM(t.d) AS total FROM r, s, t, u "
     "WHERE r.b = s.b AND s.c = t.c AND t.d = u.d AND u.a = r.a GROUP BY r.b"),
    ("CREATE TABLE r (a INT, b INT); CREATE TABLE s (b INT PRIMARY KEY, c INT);"
     "CREATE TABLE t (c INT, d INT); CREATE TABLE u (a INT PRIMARY KEY, d INT)",
     "SELECT DISTINCT t.d, r.b FROM r, s, t, u WHERE r.b = s.b AND s.c = t.c AND t.d = u.d AND u.a = r.a"),
)  # fmt: skip


@pytest.mark.parametrize("number", range(len(VIEWS)))
def test_views_over_keyed_bags(number: int) -> None:
    """Rows that come and go, with copies and NULLs, against DuckDB."""
    tables, query = VIEWS[number]
    draw = random.Random(number)
    db, other = ev.Database(), duckdb.connect()
    for statement in tables.split(";"):
        db.sql(statement)
        other.execute(statement.replace("PRIMARY KEY", ""))
    view = db.create_view("v", query)
    assert "bags are smaller" in str(view.explain())
    held: dict[str, list[tuple[int | None, int | None]]] = {name: [] for name in "rstu"}
    for _ in range(12):
        for name, rows in held.items():
            values = [0, 1, 2, 3]
            keys = {row[0] for row in rows}
            gone = draw.sample(rows, min(len(rows), draw.randrange(3)))
            came: list[tuple[int | None, int | None]] = []
            for _ in range(4):
                row = (draw.choice(values), draw.choice([*values, None]))
                if name in "rt" or row[0] not in keys:
                    came.append(row)
                    keys.add(row[0])
            with db.batch() as batch:
                batch.insert(name, came)
                batch.delete(name, gone)
            for row in gone:
                rows.remove(row)
            rows += came
            other.execute(f"DELETE FROM {name}")
            if rows:
                other.executemany(f"INSERT INTO {name} VALUES (?, ?)", rows)
        assert Counter(view) == Counter(other.execute(query).fetchall())
