"""Groups that span shards: each shard keeps its part of them, and a second step puts the parts together, exactly.

DuckDB says what is right; shards are played, without Spark.
"""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal
from typing import Any

import duckdb
import pytest

from everview.errors import DataError
from everview.plan.split import is_partial
from everview.sql import parse_schema
from tests.engine.differential import differences, plain
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
}
JOINED = {
    "doubles": f"SELECT c.city, SUM(o.weight) AS s {FROM} GROUP BY c.city",
    "different": f"SELECT c.city, COUNT(DISTINCT o.price) AS n, COUNT(*) AS m {FROM} GROUP BY c.city",
    "variance": f"SELECT c.city, VAR_SAMP(o.price) AS v, COUNT(*) AS n {FROM} GROUP BY c.city",
}
SHARDS = (1, 2, 3, 8)


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

    def wanted(self, sql: str) -> Counter[Row]:
        with duckdb.connect() as db:
            for name, columns in (("orders", ORDERS), ("customers", CUSTOMERS)):
                db.execute(f"CREATE TABLE {name} ({columns})")
                rows = list(self.held[name].elements())
                if rows:
                    db.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)
            return Counter(tuple(map(plain, row)) for row in db.sql(sql).fetchall())


@pytest.mark.parametrize("keyed", [False, True], ids=["bags", "keys"])
@pytest.mark.parametrize("shards", SHARDS)
def test_views_are_exact_on_any_number_of_shards(shards: int, keyed: bool) -> None:
    history = History(shards, keyed)
    views = VIEWS | JOINED
    schema = parse_schema(KEYED if keyed else PLAIN)
    cluster, alone = Cluster(views, schema, shards), Cluster(views, schema, 1)
    assert shards == 1 or {"cities", "whole", "computed"} <= cluster.distribution.merged
    for step in range(4):
        batch = history.batch(15)
        cluster.apply(batch)
        alone.apply(batch)
        if step == 2:
            cluster.rebuild()
        for name, sql in views.items():
            more, fewer = differences(cluster.results[name], history.wanted(sql))
            assert (more, fewer) == (Counter(), Counter()), (name, str(cluster.distribution))
        assert cluster.results == alone.results  # To the last bit of a double.


def test_what_can_be_put_together_is_told_as_groups_and_the_rest_as_rows() -> None:
    for name, sql in VIEWS.items():
        pieces = [p for p in Cluster({name: sql}, parse_schema(PLAIN), 8).distribution.first.views if p.name != name]
        assert pieces
        assert all(map(is_partial, pieces)), name
    for name, sql in JOINED.items():
        pieces = [p for p in Cluster({name: sql}, parse_schema(PLAIN), 8).distribution.first.views if p.name != name]
        assert pieces
        assert not any(map(is_partial, pieces)), name


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
