"""Groups that span shards: each shard keeps its part of them, and a second step puts the parts together, exactly.

DuckDB says what is right; shards are played, without Spark.
"""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from everview.errors import DataError
from everview.plan.split import is_partial
from everview.spark.checkpoint.pins import plan_over
from everview.sql import parse_schema
from tests.engine.bags import differences, plain
from tests.spark.cluster import Cluster, Row

ORDERS = "id BIGINT, customer BIGINT, price BIGINT, paid DECIMAL(12, 2), small TINYINT, weight DOUBLE, note STRING"
CUSTOMERS = "id BIGINT, city STRING"
PLAIN = f"CREATE TABLE orders ({ORDERS}); CREATE TABLE customers ({CUSTOMERS})"
KEYED = PLAIN.replace("id BIGINT,", "id BIGINT PRIMARY KEY,")
FROM = "FROM orders o JOIN customers c ON o.customer = c.id"
CITIES = f"SELECT c.city, COUNT(*) AS n, SUM(o.price) AS total {FROM} GROUP BY c.city"
VIEWS = {
    "cities": CITIES,
    "counts": f"SELECT c.city, COUNT(o.price) AS n, COUNT(*) AS rows, COUNT(o.note) AS m {FROM} GROUP BY c.city",
    "sums": f"SELECT c.city, SUM(o.price) AS a, SUM(o.paid) AS b, SUM(o.small) AS c, SUM(o.price + c.id) AS d "
    f"{FROM} GROUP BY c.city",
    "averages": f"SELECT c.city, AVG(o.price) AS a, AVG(o.small) AS b, AVG(o.price) - SUM(o.price) AS c "
    f"{FROM} GROUP BY c.city",
    "extremes": f"SELECT c.city, MIN(o.price) AS a, MAX(o.note) AS b, MAX(o.weight) AS c, MIN(o.paid) AS d "
    f"{FROM} GROUP BY c.city",
    "filtered": f"SELECT c.city, SUM(o.price) * 2 AS t {FROM} WHERE o.small > 1 GROUP BY c.city "
    f"HAVING COUNT(*) > 2 AND AVG(o.price) < 100",
    "whole": f"SELECT COUNT(*) AS n, SUM(o.price) AS t, MAX(o.paid) AS m, AVG(o.small) AS a {FROM}",
    "computed": f"SELECT UPPER(c.city) AS u, o.small % 2 AS s, COUNT(*) AS n {FROM} "
    f"GROUP BY UPPER(c.city), o.small % 2",
    "distinct": f"SELECT DISTINCT COUNT(*) AS n {FROM} GROUP BY c.city",
    "distinct_keys": f"SELECT DISTINCT o.small, COUNT(*) AS n {FROM} GROUP BY o.small, c.city",
    "united": f"{CITIES} UNION ALL SELECT o.note, COUNT(*), MIN(o.price) FROM orders o GROUP BY o.note",
    "doubles": f"SELECT c.city, SUM(o.weight) AS s, AVG(o.weight) AS a, SUM(CAST(o.weight AS FLOAT)) AS f, "
    f"VAR_POP(o.weight) AS v, STDDEV(o.weight + c.id) AS d {FROM} GROUP BY c.city",
    "variances": f"SELECT c.city, VAR_SAMP(o.price) AS a, VAR_POP(o.paid) AS b, STDDEV_POP(o.small) AS c, "
    f"STDDEV_SAMP(CAST(o.paid AS DECIMAL(30, 4))) AS d, VARIANCE(o.price - c.id) AS e, COUNT(*) AS n {FROM} "
    f"GROUP BY c.city",
    "long": f"SELECT c.city, SUM(CAST(o.paid AS DECIMAL(38, 2))) AS a, AVG(CAST(o.paid AS DECIMAL(30, 2))) AS b "
    f"{FROM} GROUP BY c.city",
    "different": f"SELECT c.city, COUNT(DISTINCT o.price) AS a, COUNT(*) AS b, SUM(DISTINCT o.price) AS c, "
    f"AVG(DISTINCT o.weight) AS d, VAR_POP(DISTINCT o.small) AS e, COUNT(DISTINCT o.note) AS f, SUM(o.paid) AS g "
    f"{FROM} GROUP BY c.city HAVING COUNT(DISTINCT o.note) > 1",
    "only_different": f"SELECT c.city, SUM(DISTINCT o.paid) AS s {FROM} GROUP BY c.city",
    "different_whole": f"SELECT COUNT(DISTINCT c.city) AS a, SUM(DISTINCT o.weight) AS b, MAX(o.note) AS c, "
    f"COUNT(DISTINCT o.note) FILTER (WHERE o.small > 1) AS d, STDDEV(o.weight) AS e {FROM}",
    "different_rows": f"SELECT DISTINCT UPPER(c.city) AS u, o.small % 2 AS s {FROM}",
}
PAIRED = """SELECT a.note, COUNT(DISTINCT b.small) AS d, SUM(a.weight) AS s, COUNT(DISTINCT a.price) AS p
            FROM orders a JOIN orders b ON a.customer = b.id GROUP BY a.note"""
MANY = ", ".join(f"COUNT(DISTINCT o.price % {n}) AS n{n}" for n in range(2, 10))
SENT_AS_ROWS = f"SELECT c.city, {MANY} {FROM} GROUP BY c.city"
SHARDS = (2, 4)
FUNCTIONS = ("COUNT", "SUM", "AVG", "MIN", "MAX", "VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP")
ARGUMENTS = (
    *("o.price", "o.paid", "o.small", "o.weight", "o.weight * c.id", "o.price - c.id", "c.id", "o.small % 2"),
    *("CAST(o.paid AS DECIMAL(38, 2))", "CAST(o.paid AS DECIMAL(20, 3))", "CAST(o.weight AS FLOAT)"),
)
KEYS = (("c.city",), ("UPPER(c.city)",), ("o.small", "o.note"), ("o.small % 2", "c.city"), ())


def random_view(r: random.Random) -> str:
    """Any aggregates of any arguments, DISTINCT or of some rows only, by any keys."""

    def aggregate() -> str:
        function, argument = r.choice(FUNCTIONS), r.choice(ARGUMENTS)
        condition = r.choice(["", "", "", " FILTER (WHERE o.note = 'a')"])
        return f"{function}({r.choice(['', '', 'DISTINCT '])}{argument}){condition}"

    keys = r.choice(KEYS)
    columns = [*keys, *(aggregate() for _ in range(r.randint(1, 5)))]
    named = ", ".join(f"{column} AS c{i}" for i, column in enumerate(columns))
    having = r.choice(["", "", f" HAVING {aggregate()} IS NOT NULL"])
    return f"SELECT {named} {FROM}{' GROUP BY ' + ', '.join(keys) if keys else ''}{having}"


class History:
    """Orders and customers that come and go at random; DuckDB over what is left."""

    def __init__(self, seed: int, keyed: bool) -> None:
        self.r = random.Random(seed)
        self.keyed = keyed
        self.held: dict[str, Counter[Row]] = {"customers": Counter(), "orders": Counter()}
        self.next = 0

    def row(self, name: str) -> Row:
        r = self.r
        self.next += 1
        number = self.next if self.keyed else r.randint(1, 8)
        if name == "customers":
            return (r.randint(1, 12) if not self.keyed else self._free(12), r.choice(["rome", "Rome", "oslo", None]))
        price = r.choice([None, r.randint(-50, 300), 2**50, -(2**50)])
        paid = r.choice([None, Decimal(r.randint(-10_000, 10_000)) / 100])
        weight = r.choice([None, r.randint(-8, 8) / 4])
        return (
            number,
            r.choice([None, *range(1, 13)]),
            price,
            paid,
            r.choice([None, 0, 1, 2, 3]),
            weight,
            r.choice("abc"),
        )

    def _free(self, most: int) -> int:
        taken = {row[0] for row, n in self.held["customers"].items() if n}
        return next((i for i in self.r.sample(range(1, most + 1), most) if i not in taken), most + self.next)

    def batch(self, rows: int) -> dict[str, list[tuple[Row, int]]]:
        found: dict[str, list[tuple[Row, int]]] = {}
        for name, held in self.held.items():
            gone = Counter[Row]()
            for _ in range(rows):
                there = list((held - gone).elements())
                if there and self.r.random() < 0.4:
                    row, weight = self.r.choice(there), -1
                else:
                    row, weight = self.row(name), 1
                held[row] += weight
                found.setdefault(name, []).append((row, weight))
        return found

    def wanted(self, views: Mapping[str, str]) -> dict[str, Counter[Row]]:
        with duckdb.connect() as db:
            for name, columns in (("orders", ORDERS), ("customers", CUSTOMERS)):
                db.execute(f"CREATE TABLE {name} ({columns})")
                rows = list(self.held[name].elements())
                if rows:
                    given = pa.table(list(map(list, zip(*rows, strict=True))), [f"c{i}" for i in range(len(rows[0]))])
                    db.register("given", given)
                    db.execute(f"INSERT INTO {name} SELECT * FROM given")
            return {n: Counter(tuple(map(plain, row)) for row in db.sql(sql).fetchall()) for n, sql in views.items()}


@pytest.mark.parametrize("at_random", [False, True], ids=["bags", "at-random-and-keys"])
def test_views_are_exact_on_any_number_of_shards(at_random: bool) -> None:
    history = History(int(at_random), at_random)
    r = random.Random(2)
    views = {f"v{i}": random_view(r) for i in range(14)} if at_random else VIEWS | {"rows": SENT_AS_ROWS}
    schema = parse_schema(KEYED if at_random else PLAIN)
    alone, *clusters = (Cluster(views, schema, shards) for shards in (1, *SHARDS))
    for cluster in clusters:
        assert len(cluster.distribution.merged) > len(views) // 2
    for step in range(4):
        batch = history.batch(15)
        for cluster in (alone, *clusters):
            cluster.apply(batch)
        if step == 2:
            clusters[0].rebuild()
        wanted = history.wanted(views)
        for name in views:
            assert differences(alone.results[name], wanted[name]) == (Counter(), Counter()), views[name]
            for cluster in clusters:  # To the last bit of a double.
                assert cluster.results[name] == alone.results[name], (views[name], str(cluster.distribution))


def test_a_table_that_comes_on_several_ways_comes_so_to_groups_and_to_different_values() -> None:
    history = History(3, keyed=False)
    alone, cluster = (Cluster({"v": PAIRED}, parse_schema(PLAIN), shards) for shards in (1, 3))
    assert cluster.distribution.first.is_masked("orders")
    for _ in range(4):
        batch = {"orders": history.batch(60)["orders"]}
        alone.apply(batch)
        cluster.apply(batch)
        wanted = history.wanted({"v": PAIRED})["v"]
        assert differences(cluster.results["v"], wanted) == (Counter(), Counter())
        assert cluster.results == alone.results
    assert len(wanted) > 1


def test_groups_are_told_in_parts_and_not_as_rows_of_joins() -> None:
    schema = parse_schema(PLAIN)
    for name, sql in (VIEWS | {"rows": SENT_AS_ROWS}).items():
        distribution = plan_over({name: sql}, schema, 8).distribution
        pieces = [p for p in distribution.first.views if p.name != name]
        assert pieces
        assert all(map(is_partial, pieces)) == (name != "rows"), name
        said = "sent as rows of joins, as partial groups would not do: rows"
        assert (said in str(distribution)) == (name == "rows")


def test_sums_of_doubles_are_exact_wherever_they_are_added_up() -> None:
    """Python's own exact sums say what is right, and what odd values make of them."""
    sql = f"SELECT c.city, SUM(o.weight) AS s, AVG(o.weight) AS a, VAR_POP(o.weight) AS v {FROM} GROUP BY c.city"
    cluster = Cluster({"v": sql}, parse_schema(PLAIN), 3)
    cluster.apply({"customers": [((i, "one"), 1) for i in range(40)]})
    weights = [1e308, 5e-324, -1e308, 0.1, 1e16, 0.1, -1e16, 2.5e-17, *(i / 7 for i in range(30))]
    orders = [((i, i, None, None, None, w, "x"), 1) for i, w in enumerate(weights)]
    cluster.apply({"orders": orders})
    exact = list(map(Fraction, weights))
    mean = sum(exact) / len(exact)
    variance = sum((x - mean) ** 2 for x in exact) / len(exact)
    spread = math.inf if variance > Fraction(1.7e308) else float(variance)
    assert cluster.results["v"] == {("one", math.fsum(weights), float(mean), spread): 1}
    cluster.apply({"orders": [(row, -1) for row, _ in orders if abs(row[5]) > 1e300]})
    kept = [w for w in weights if abs(w) < 1e300]
    ((_, total, average, spread),) = cluster.results["v"]
    assert (total, average) == (math.fsum(kept), math.fsum(kept) / len(kept))
    assert spread == pytest.approx(statistics.pvariance(map(Fraction, kept)))
    for odd, becomes in ((math.inf, math.inf), (-math.inf, "nan")):
        cluster.apply({"orders": [((99, 3, None, None, None, odd, "x"), 1)]})
        assert [row[1:] for row in cluster.results["v"]] == [(becomes, becomes, "nan")]
    cluster.apply({"orders": [((99, 3, None, None, None, odd, "x"), -1) for odd in (math.inf, -math.inf)]})
    assert cluster.results["v"] == {("one", total, average, spread): 1}


@pytest.mark.parametrize("tables", [PLAIN, KEYED], ids=["bags", "keys"])
def test_two_shards_share_the_orders(tables: str) -> None:
    """All of them went to both."""
    count, customers = 4_000, 100
    cluster = Cluster({"v": CITIES}, parse_schema(tables), 2)
    cluster.apply({"customers": [((i, f"city{i % 10}"), 1) for i in range(customers)]})
    before = [shard.updates for shard in cluster.shards[0]]
    orders = [((i, i * 7 % customers, i, None, None, None, "x"), 1) for i in range(count)]
    cluster.apply({"orders": orders})
    taken = [shard.updates - was for shard, was in zip(cluster.shards[0], before, strict=True)]
    assert max(taken) <= 0.6 * count, taken
    assert sum(taken) >= count
    # The second step gets a row a group and shard, and not a row of the join.
    assert sum(shard.updates for shard in cluster.shards[1]) <= 10 * 2 * 3
    assert sum(cluster.results["v"].values()) == 10
    assert sum(row[1] for row in cluster.results["v"]) == count


def test_the_second_step_gets_sums_of_doubles_as_groups_and_different_values_once() -> None:
    count, customers = 4_000, 100
    sql = (
        f"SELECT c.city, COUNT(DISTINCT o.small) AS d, SUM(o.weight) AS s, VAR_POP(o.price) AS v {FROM} GROUP BY c.city"
    )
    cluster = Cluster({"v": sql}, parse_schema(PLAIN), 2)
    cluster.apply({"customers": [((i, f"city{i % 10}"), 1) for i in range(customers)]})
    orders = [((i, i * 7 % customers, i, None, i % 4, i / 8, "x"), 1) for i in range(count)]
    cluster.apply({"orders": orders[: count // 2]})
    before = sum(shard.updates for shard in cluster.shards[1])
    assert before <= 10 * 2 * (1 + 4)
    cluster.apply({"orders": orders[count // 2 :]})
    # No value is new: each shard tells the old and the new form of its parts of 10 groups.
    assert sum(shard.updates for shard in cluster.shards[1]) - before <= 10 * 2 * 2
    assert sum(row[2] for row in cluster.results["v"]) == sum(i / 8 for i in range(count))


def test_only_changed_groups_are_told_as_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster({"v": CITIES}, parse_schema(PLAIN), 2)
    told: list[tuple[Any, ...]] = []
    fed = cluster._fed

    def watched(view: str, data: Any) -> list[Row]:
        told.extend(zip(*(data.column(c).to_pylist() for c in ("city", "n", "_change_type")), strict=True))
        return fed(view, data)

    cluster.apply({"customers": [((i, "abc"[i % 3]), 1) for i in range(6)]})
    order = (1, 1, 5, None, None, None, "x")
    cluster.apply({"orders": [((i, i, 5, None, None, None, "x"), 1) for i in range(6)]})
    monkeypatch.setattr(cluster, "_fed", watched)
    cluster.apply(
        {"orders": [(order, -1), ((9, 4, 5, None, None, None, "x"), 1), ((7, 2, 5, None, None, None, "y"), 1)]}
    )
    # b loses one order and gets another of the same price: nothing to tell, though two shards may have changed.
    assert sorted(told) == [("c", 2, "update_preimage"), ("c", 3, "update_postimage")]


def test_sums_overflow_only_as_a_whole() -> None:
    """Parts beyond 64 bits are nobody's business, and what is beyond them as a whole is refused."""
    cluster = Cluster({"v": CITIES}, parse_schema(PLAIN), 2)
    cluster.apply({"customers": [((i, "one"), 1) for i in range(40)]})
    large = 2**63 - 1
    first = [((i, i, large if i % 2 else -large, None, None, None, "x"), 1) for i in range(40)]
    cluster.apply({"orders": first})
    assert cluster.results["v"] == {("one", 40, 0): 1}
    with pytest.raises(DataError, match="64 bits"):
        cluster.apply({"orders": [((99, 1, large, None, None, None, "x"), 1), ((98, 2, 1, None, None, None, "x"), 1)]})


def test_long_sums_overflow_only_as_a_whole() -> None:
    schema = parse_schema("CREATE TABLE t (k BIGINT, x DECIMAL(38, 2)); CREATE TABLE u (k BIGINT, g STRING)")
    sql = "SELECT u.g, SUM(t.x) AS s, SUM(DISTINCT t.x) AS d FROM t JOIN u ON t.k = u.k GROUP BY u.g"
    cluster = Cluster({"v": sql}, schema, 3)
    assert cluster.distribution.merged == {"v"}
    cluster.apply({"u": [((i, "one"), 1) for i in range(20)]})
    large = Decimal(10**36 - 1)
    cluster.apply({"t": [((i, large if i % 2 else large.copy_negate()), 1) for i in range(20)]})
    assert cluster.results["v"] == {("one", 0, 0): 1}
    with pytest.raises(DataError, match=r"it leaves DECIMAL\(38, 2\)"):
        cluster.apply({"t": [((3, large), 1), ((4, Decimal(1)), 1)]})


# --- rows that are told once -----------------------------------------------------------------------------------------

PAIRS = "CREATE TABLE a (j BIGINT, k BIGINT, x BIGINT); CREATE TABLE b (j BIGINT, k BIGINT, y BIGINT)"


@pytest.mark.parametrize("shown", ["j", "k"])
def test_rows_are_cut_by_what_the_result_shows_where_that_is_as_good(shown: str) -> None:
    """Then equal rows are in one shard, and no batch tells that one came and that one went, as Cluster sees to."""
    sql = f"SELECT a.{shown}, a.x, b.y FROM a JOIN b ON a.j = b.j AND a.k = b.k"
    cluster = Cluster({"v": sql}, parse_schema(PAIRS), 4)
    (grid,) = cluster.distribution.first.grids
    assert [d.name for d in grid.dimensions] == [shown]
    r = random.Random(1)
    held: dict[str, Counter[Row]] = {"a": Counter(), "b": Counter()}
    cluster.once.add("v")
    for _ in range(6):
        batch: dict[str, list[tuple[Row, int]]] = {}
        for name, rows in held.items():
            gone = [(row, -1) for row in rows.elements() if r.random() < 0.5]
            come = [((r.randint(0, 3), r.randint(0, 3), r.randint(0, 1)), 1) for _ in range(12)]
            batch[name] = [*gone, *come]
            for row, weight in batch[name]:
                rows[row] += weight
        cluster.apply(batch)
        joined = Counter[Row]()
        at = "jk".index(shown)
        for a in held["a"].elements():
            joined.update((a[at], a[2], b[2]) for b in held["b"].elements() if a[:2] == b[:2])
        assert cluster.results["v"] == joined


@pytest.mark.parametrize(("skew", "cut"), [(0.0, "k"), (0.27, "k"), (0.5, "j")])
def test_what_the_result_shows_may_be_a_little_worse(skew: float, cut: str) -> None:
    sql = "SELECT a.k, a.x, b.y FROM a JOIN b ON a.j = b.j AND a.k = b.k"
    (grid,) = plan_over(sql, parse_schema(PAIRS), 4, skew={("a", "k"): skew}).distribution.first.grids
    assert [d.name for d in grid.dimensions] == [cut]


def test_rows_that_two_shards_tell_of_have_the_right_net() -> None:
    """Customers are cut by what joins them, which the result does not show: an order moves from one to another."""
    cluster = Cluster({"v": f"SELECT o.price, c.city {FROM}"}, parse_schema(PLAIN), 2)
    (grid,) = cluster.distribution.first.grids
    assert [d.name for d in grid.dimensions] == ["customer"]
    cluster.apply({"customers": [((i, "rome"), 1) for i in range(8)]})
    order: Row = (1, 0, 5, None, None, None, "x")
    cluster.apply({"orders": [(order, 1)]})
    for customer in range(1, 8):
        moved = (1, customer, *order[2:])
        cluster.apply({"orders": [(order, -1), (moved, 1)]})
        order = moved
        assert cluster.results["v"] == {(5, "rome"): 1}
    cluster.apply({"orders": [(order, -1)]})
    assert not cluster.results["v"]
