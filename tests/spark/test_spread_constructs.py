"""Outer and anti joins, unions, first rows, windows and subqueries over shards: where rows go, and what comes out.

Rows with NULL in what is joined are many here: they are what a wrong route loses, or has twice.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, Final

import duckdb
import pytest

import everview as ev
from everview.plan.distribute import distribute
from everview.plan.shards import Distribution
from everview.sql import parse_schema, parse_view
from tests.engine.bags import bag, differences
from tests.spark.cluster import Cluster

TABLES: Final = {"r": "a INT, b INT", "t": "b INT, c INT", "g": "c INT, w INT"}
SCHEMA: Final = parse_schema(";".join(f"CREATE TABLE {name} ({columns})" for name, columns in TABLES.items()))
ORDER: Final = "b DESC NULLS LAST, a NULLS FIRST"

SPREAD: Final = {
    "full join": "SELECT r.a, r.b, t.b AS tb, t.c FROM r FULL JOIN t ON r.b = t.b",
    "full join that shows no key": "SELECT r.a, t.c FROM r FULL JOIN t ON r.b = t.b",
    "full join by name": "SELECT b, r.a, t.c FROM r FULL JOIN t USING (b)",
    "full join with more conditions": "SELECT r.a, t.c FROM r FULL JOIN t ON r.b = t.b AND r.a < t.c",
    "groups of a full join": "SELECT r.a, COUNT(*) AS n, SUM(t.c) AS s FROM r FULL JOIN t ON r.b = t.b GROUP BY r.a",
    "groups of a full join by its key": "SELECT r.b, COUNT(*) AS n FROM r FULL JOIN t ON r.b = t.b GROUP BY r.b",
    "a full join counted": "SELECT COUNT(*) AS n, COUNT(t.c) AS m FROM r FULL JOIN t ON r.b = t.b",
    "different rows of a full join": "SELECT DISTINCT r.b, t.c FROM r FULL JOIN t ON r.b = t.b",
    "full joins in a chain": "SELECT r.a, t.c, g.w FROM r FULL JOIN t ON r.b = t.b FULL JOIN g ON r.b = g.c",
    "full joins in a chain by the other side": "SELECT r.a, t.c, g.w FROM r FULL JOIN t ON r.b = t.b "
    "FULL JOIN g ON t.c = g.c",
    "full joins in a chain by name": "SELECT b, r.a, t.c, u.c AS d FROM r FULL JOIN t USING (b) "
    "FULL JOIN t u USING (b)",
    "a full join, joined": "SELECT r.a, t.c, g.w FROM r FULL JOIN t ON r.b = t.b JOIN g ON t.c = g.c",
    "a full join, joined by one side": "SELECT r.a, t.c, g.w FROM r FULL JOIN t ON r.b = t.b JOIN g ON r.b = g.c",
    "left join": "SELECT r.a, r.b, t.c FROM r LEFT JOIN t ON r.b = t.b",
    "left joins in a chain": "SELECT r.a, t.c, g.w FROM r LEFT JOIN t ON r.b = t.b LEFT JOIN g ON t.c = g.c",
    "left join of a full join": "SELECT r.a, t.c, g.w FROM r FULL JOIN t ON r.b = t.b LEFT JOIN g ON r.a = g.c",
    "right join": "SELECT r.a, t.b, t.c FROM r RIGHT JOIN t ON r.b = t.b",
    "not exists": "SELECT a, b FROM r WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.b = r.b)",
    "not exists of a join": "SELECT a, b FROM r WHERE NOT EXISTS (SELECT 1 FROM t JOIN g ON t.c = g.c WHERE t.b = r.b)",
    "not exists with another one": "SELECT a, b FROM r WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.b = r.b "
    "AND t.c <> r.a)",
    "not exists without a tie": "SELECT a, b FROM r WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.c > 2)",
    "not in": "SELECT a, b FROM r WHERE b NOT IN (SELECT b FROM t WHERE c > 0)",
    "not in by row": "SELECT a, b FROM r WHERE b NOT IN (SELECT b FROM t WHERE t.c = r.a)",
    "exists under or": "SELECT a, b FROM r WHERE a = 1 OR EXISTS (SELECT 1 FROM t WHERE t.b = r.b)",
    "union all of unlike members": "SELECT a + 1 AS x FROM r UNION ALL SELECT t.c FROM t JOIN g ON t.c = g.c",
    "a union all, joined": "SELECT u.x, g.w FROM (SELECT a AS x FROM r UNION ALL SELECT c FROM t) u "
    "JOIN g ON u.x = g.c",
    "a union all, joined by what is computed": "SELECT u.x, g.w FROM (SELECT a + 1 AS x FROM r UNION ALL "
    "SELECT c FROM t) u JOIN g ON u.x = g.c",
    "groups of a union all": "SELECT x, COUNT(*) AS n FROM (SELECT a AS x FROM r UNION ALL SELECT c FROM t) u "
    "GROUP BY x",
    "a union all without some rows": "(SELECT a FROM r UNION ALL SELECT c FROM t) EXCEPT ALL SELECT w FROM g",
    "value by row": "SELECT a, b, (SELECT MAX(c) FROM t WHERE t.b = r.b) AS m FROM r",
    "number by row": "SELECT a, b, (SELECT COUNT(*) FROM t WHERE t.b = r.b) AS n FROM r",
    "latest by key": f"SELECT a, b FROM r QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY {ORDER}) = 1",
    "window by partition": f"SELECT a, b, RANK() OVER (PARTITION BY a ORDER BY {ORDER}) AS n FROM r",
    "sums of all beside each": "SELECT a, b, SUM(b) OVER () AS s, COUNT(DISTINCT a) OVER () AS n FROM r",
    "sums of all beside groups": "SELECT a, SUM(b) AS s, SUM(SUM(b)) OVER () AS n FROM r GROUP BY a",
    "sums of all and of partitions": "SELECT a, b, SUM(b) OVER (PARTITION BY a) AS s, COUNT(*) OVER () AS n, "
    "MAX(b) OVER () AS m FROM r",
    "totals of partitions": "SELECT b, SUM(b) OVER (PARTITION BY a) AS s, COUNT(*) OVER (PARTITION BY a) AS n FROM r",
    "rows of large partitions": "SELECT a, b FROM r QUALIFY COUNT(*) OVER (PARTITION BY b) > 1",
    "totals beside ranks": f"SELECT a, b, RANK() OVER (PARTITION BY a ORDER BY {ORDER}) AS n, "
    "MIN(b) OVER (PARTITION BY a) AS m FROM r",
    "window over a join": "SELECT r.a, t.c, LAG(t.c) OVER (PARTITION BY r.b ORDER BY r.a NULLS FIRST, "
    "t.c NULLS FIRST) AS p FROM r JOIN t ON r.b = t.b",
    "value of all rows": "SELECT a, b FROM r WHERE b > (SELECT AVG(c) FROM t)",
    "value of all rows, shown": "SELECT a, (SELECT MAX(c) FROM t) AS m, (SELECT COUNT(*) FROM r) AS n FROM r",
    "value of all rows, for different groups": "SELECT DISTINCT a + b AS s FROM r WHERE b >= (SELECT AVG(c) FROM t)",
    "value of all rows, counted beside": "SELECT COUNT(*) AS n FROM r WHERE b > (SELECT MIN(c) FROM t WHERE b > 1)",
    "a value in one of all rows": "SELECT a, b FROM r WHERE b > (SELECT AVG(c) FROM t WHERE c < "
    "(SELECT MAX(w) FROM g))",
    "the only value": "SELECT a, b, (SELECT MAX(c) FROM (SELECT DISTINCT c FROM t ORDER BY c DESC LIMIT 2) x) AS m "
    "FROM r",
    "groups beside a value": "SELECT a, SUM(b) AS s FROM r GROUP BY a HAVING SUM(b) > (SELECT AVG(b) FROM r)",
    "more than all": "SELECT a, b FROM r WHERE b > ALL (SELECT c FROM t WHERE b > 2)",
    "values by different keys": "SELECT r.a, (SELECT SUM(c) FROM t WHERE t.b = r.b) AS x, "
    "(SELECT COUNT(*) FROM g WHERE g.c = r.a) AS y FROM r",
    "exists at all": "SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM t JOIN g ON t.c = g.c WHERE t.b = 2)",
    "not in what is joined": "SELECT a, b FROM r WHERE a NOT IN (SELECT w FROM t JOIN g ON t.c = g.c WHERE t.b = 3)",
    "not in, in no other": "SELECT a, b FROM r WHERE b NOT IN (SELECT b FROM t WHERE c = 3) "
    "AND a NOT IN (SELECT c FROM g WHERE w = 2)",
    "compared by less: exists": "SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM t WHERE t.c > r.a)",
    "compared by less: not exists": "SELECT a, b FROM r WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.c > r.a AND t.b > 1)",
    "compared by less: more than all": "SELECT a, b FROM r WHERE b >= ALL (SELECT c FROM t WHERE t.b > r.a)",
    "compared by less: beside a value of all": "SELECT SUM(a * b) AS s FROM r WHERE 0.25E0 * "
    "(SELECT SUM(b) FROM r x) > (SELECT SUM(y.b) FROM r y WHERE y.a > r.a)",
    "compared by less: numbers": "SELECT a, b, (SELECT COUNT(*) FROM t WHERE t.c < r.a) AS n, "
    "(SELECT COUNT(DISTINCT b) FROM t WHERE t.c < r.b) AS m FROM r",
    "compared by less: all aggregates": "SELECT a, (SELECT AVG(c) FROM t WHERE t.b < r.a) AS x, "
    "(SELECT MIN(c * 0.5E0) + VAR_POP(c) FROM t WHERE t.b + 1 < r.a) AS y, "
    "(SELECT SUM(DISTINCT c + b) FROM t WHERE t.b <> r.a HAVING COUNT(c) > 1) AS z FROM r",
    "compared by less: a join": "SELECT a, b FROM r WHERE a < (SELECT SUM(g.w) FROM t JOIN g ON t.c = g.c "
    "WHERE t.b < r.b AND g.w > 0)",
    "compared by less and joined by another key": "SELECT r.a, t.c, (SELECT MAX(w) FROM g WHERE g.c = r.b "
    "AND g.w < t.c) AS m FROM r JOIN t ON r.a = t.b",
    "grouping sets": "SELECT a, b, SUM(a) AS s, COUNT(*) AS n FROM r GROUP BY GROUPING SETS ((a), (b), ())",
    "grouping sets with conditions": "SELECT a, b, COUNT(*) AS n FROM r GROUP BY GROUPING SETS ((a, b), (b), ()) "
    "HAVING COUNT(*) > 1",
    "rollup of a join": "SELECT r.a, t.c, COUNT(DISTINCT r.b) AS n FROM r JOIN t ON r.b = t.b "
    "GROUP BY ROLLUP (r.a, t.c)",
    "cube, joined": "SELECT x.a, x.n, g.w FROM (SELECT a, b, COUNT(*) AS n FROM r GROUP BY CUBE (a, b)) x "
    "JOIN g ON x.a = g.c",
    "first ranks of all": "SELECT a, b FROM r QUALIFY RANK() OVER (ORDER BY b DESC NULLS LAST) <= 3",
    "first ranks, with the rank": "SELECT a, b, DENSE_RANK() OVER (ORDER BY b DESC NULLS LAST) AS d FROM r "
    "QUALIFY d <= 2",
    "first ranks, joined": "SELECT x.a, g.w FROM (SELECT a, b FROM r QUALIFY ROW_NUMBER() OVER (ORDER BY b DESC NULLS "
    "LAST, a NULLS FIRST) <= 4) x JOIN g ON x.a = g.c",
    "first groups": "SELECT a, SUM(b) AS s FROM r GROUP BY a ORDER BY s DESC NULLS LAST, a NULLS FIRST LIMIT 2",
    "first groups of a join": "SELECT r.a, COUNT(*) AS n FROM r JOIN t ON r.b = t.b GROUP BY r.a ORDER BY n DESC, "
    "a NULLS FIRST LIMIT 2 OFFSET 1",
    "first rows of a union": "SELECT a FROM r UNION SELECT c FROM t ORDER BY a DESC NULLS LAST LIMIT 3",
    "first rows": f"SELECT a, b FROM r ORDER BY {ORDER} LIMIT 3",
    "first rows of a join": "SELECT r.a, t.c FROM r JOIN t ON r.b = t.b ORDER BY c DESC NULLS LAST, a NULLS FIRST "
    "LIMIT 3",
}
ALONE: Final = {
    "window over all": f"SELECT a, b, ROW_NUMBER() OVER (ORDER BY {ORDER}) AS n FROM r",
    "halves of all": "SELECT a, b, NTILE(2) OVER (ORDER BY a NULLS FIRST, b NULLS FIRST) AS n FROM r",
}
"""What cannot be spread."""
WHOLE: Final = {
    "totals of two partitionings": "SELECT a, MAX(b) OVER (PARTITION BY a) AS m, COUNT(*) OVER (PARTITION BY b) AS n "
    "FROM r",
}
"""What is spread by some of the ways in which a table is read, and needs it whole for others."""


def _history(seed: int) -> tuple[list[dict[str, list[tuple[Any, int]]]], dict[str, list[Any]]]:
    """Batches in which rows come and go, and the tables after them."""
    r = random.Random(seed)
    held: dict[str, list[Any]] = {name: [] for name in TABLES}
    found = []
    for _ in range(6):
        batch: dict[str, list[tuple[Any, int]]] = {}
        for name, rows in held.items():
            for _ in range(r.randint(0, 6)):
                if rows and r.random() < 0.4:
                    batch.setdefault(name, []).append((rows.pop(r.randrange(len(rows))), -1))
                else:
                    row = tuple(r.choice((None, 0, 1, 2, 3, 4)) for _ in range(2))
                    rows.append(row)
                    batch.setdefault(name, []).append((row, 1))
        found.append(batch)
    return found, held


@pytest.mark.parametrize("sql", (EVERY := SPREAD | ALONE | WHOLE).values(), ids=EVERY)
def test_shards_together_give_what_duckdb_does(sql: str) -> None:
    shards = 3 if len(sql) % 2 else 4
    history, held = _history(len(sql))
    cluster = Cluster({"v": sql}, SCHEMA, shards)
    for i, batch in enumerate(history):
        cluster.apply(batch)
        if i == 3:
            cluster.rebuild()
    with duckdb.connect() as db:
        for name, columns in TABLES.items():
            db.execute(f"CREATE TABLE {name} ({columns})")
            if held[name]:
                db.executemany(f"INSERT INTO {name} VALUES (?, ?)", held[name])
        wanted = bag(db.sql(sql).fetchall())
    assert differences(cluster.results["v"], wanted) == (Counter(), Counter()), f"{shards}\n{cluster.distribution}"


def _spread(sql: str) -> Distribution:
    return distribute([parse_view(sql, SCHEMA, "v")], SCHEMA, 8)


@pytest.mark.parametrize("sql", SPREAD.values(), ids=SPREAD)
def test_the_work_is_spread(sql: str) -> None:
    """No table is on one shard, and not all are on every one."""
    found = _spread(sql)
    levels = [level for level in (found.ahead, found.first) if level is not None]
    read = {t.name: [way for level in levels for way in level.routes(t.name)] for t in found.tables}
    assert not any(() in route.coordinates for ways in read.values() for _, route in ways)
    assert any(found.replication(name) < 4 for name, ways in read.items() if ways)


@pytest.mark.parametrize("sql", ALONE.values(), ids=ALONE)
def test_what_cannot_be_spread_runs_on_one_shard_and_explain_says_so(sql: str) -> None:
    text = str(ev.explain(sql, schema="CREATE TABLE r (a INT, b INT)", shards=8))
    assert "runs on one shard: " in text


def test_what_would_go_on_as_all_its_rows_is_not_made_ahead() -> None:
    """There are no partial groups of a median."""
    assert _spread("SELECT a FROM r WHERE b > (SELECT MEDIAN(c) FROM t)").ahead is None


def test_explain_says_what_is_made_ahead() -> None:
    schema = "CREATE TABLE r (a INT, b INT); CREATE TABLE t (b INT, c INT)"
    text = str(ev.explain(SPREAD["value of all rows"], schema=schema, shards=8))
    assert "ahead, parts of query1$scalar; scalar subquery: 8 shards" in text
    assert "parts of query1$scalar: to every shard" in text


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [("SELECT SUM(10 / c)", (4, 2)), ("SELECT MIN(10 / c)", (2, 2)), ("SELECT COUNT(DISTINCT 10 / c)", (1, 1))],
)
def test_what_fails_for_rows_that_are_compared_with_none_is_no_error(sql: str, wanted: tuple[int, int]) -> None:
    cluster = Cluster({"v": f"SELECT a, ({sql} FROM t WHERE t.b > r.a) AS x FROM r"}, SCHEMA, 3)
    cluster.apply({"r": [((1, 0), 1), ((2, 0), 1)], "t": [((2, 5), 1), ((3, 5), 1), ((1, 0), 1), ((None, 0), 1)]})
    first, second = wanted
    assert cluster.results["v"] == {(1, first): 1, (2, second): 1}


def test_what_is_compared_is_grouped_first() -> None:
    schema = "CREATE TABLE bids (id INT, broker_id INT, volume DOUBLE, price DOUBLE)"
    vwap = (
        "SELECT SUM(b1.price * b1.volume) AS s FROM bids b1 WHERE 0.25D * (SELECT SUM(b3.volume) FROM bids b3) > "
        "(SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b1.price)"
    )
    lines = str(ev.explain(vwap, schema=schema, shards=8)).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("ahead, parts of query1$scalar_2; "))
    assert lines[at + 1 : at + 3] == ["  a shard tells one row for each b2_price", "  bids as b2: by price"]
    assert lines[at + 3 : at + 7] == [
        "query1: 8 shards = price: 8",
        "  parts of query1$scalar: to every shard",
        "  bids as b1: by price",
        "  parts of query1$scalar_2: to every shard",
    ]
    keyed = "CREATE TABLE bids (id INT, broker_id INT, volume DOUBLE, price DOUBLE PRIMARY KEY)"
    assert "ahead, parts of query1$scalar_2" not in str(ev.explain(vwap, schema=keyed, shards=8))
    r = random.Random(3)
    rows = [(i, i % 3, r.choice((None, 0.25, 1.5, 3.0)), r.choice((None, -0.0, 0.0, 1.25, 2.5))) for i in range(60)]
    cluster = Cluster({"v": vwap}, parse_schema(schema), 4)
    cluster.apply({"bids": [(row, 1) for row in rows]})
    cluster.apply({"bids": [(row, -1) for row in rows[::3]]})
    with duckdb.connect() as db:
        db.execute("CREATE TABLE bids (id INT, broker_id INT, volume DOUBLE, price DOUBLE)")
        db.executemany("INSERT INTO bids VALUES (?, ?, ?, ?)", [row for i, row in enumerate(rows) if i % 3])
        wanted = bag(db.sql(vwap.replace("0.25D", "0.25E0")).fetchall())
    assert differences(cluster.results["v"], wanted) == (Counter(), Counter())


@pytest.mark.parametrize(
    "sql", [SPREAD["full join"], SPREAD["full join by name"], SPREAD["left join"], SPREAD["not exists"]]
)
def test_both_sides_go_by_what_is_equal_once(sql: str) -> None:
    found = _spread(sql).first
    assert {t.name: found.replication(t.name) for t in found.tables if found.routes(t.name)} == {"r": 1.0, "t": 1.0}
    assert not any(found.is_masked(t.name) for t in found.tables)


def test_members_of_a_union_go_each_their_own_way() -> None:
    found = _spread("SELECT r.a FROM r JOIN t ON r.b = t.b UNION ALL SELECT g.w + 1 FROM g")
    assert found.merge is None
    assert {t.name: found.first.replication(t.name) for t in found.first.tables} == {"r": 1.0, "t": 1.0, "g": 1.0}


ONCE: Final = [
    name
    for name in SPREAD
    if name.startswith(("value of", "more", "exists at", "not in", "first", "group", "sums", "compared by less:"))
]


@pytest.mark.parametrize("name", [*ONCE, "not exists without a tie", "the only value", "rollup of a join"])
def test_no_table_goes_to_every_shard(name: str) -> None:
    """What all rows say together is put together of what each shard says of its own."""
    found = _spread(SPREAD[name])
    read = {
        t.name
        for level in found.levels
        for g in level.grids
        for r in g.routes
        for t in found.tables
        if t.name == r.table
    }
    assert max(map(found.replication, read)) < 4, found


def test_rows_that_make_not_in_unknown_go_to_every_shard() -> None:
    """All other rows of the subquery go where those with their value are, if the outer value is never NULL."""
    schema = parse_schema("CREATE TABLE r (a INT, b INT NOT NULL); CREATE TABLE t (b INT, c INT)")
    found = distribute([parse_view("SELECT a, b FROM r WHERE b NOT IN (SELECT b FROM t)", schema, "v")], schema, 8)
    routes = [route for _, route in found.first.routes("t")]
    assert [route.coordinates == (None,) for route in routes] == [True, False]
    assert [" ".join(map(str, route.conditions)) for route in routes] == ["b IS NULL", ""]
