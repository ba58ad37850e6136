"""Triangles through the database, against DuckDB: any role of the columns, hubs, growth, shrinkage, save and load."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import duckdb
import pyarrow as pa
import pytest

import everview as ev
from tests.scale import scaled

TABLES = {
    "r": "a BIGINT, b BIGINT, w BIGINT",
    "s": "b BIGINT, c BIGINT, w BIGINT",
    "t": "c BIGINT, a BIGINT, w BIGINT",
    "e": "x BIGINT, y BIGINT, w BIGINT",
}
JOINED = "FROM r, s, t WHERE r.b = s.b AND s.c = t.c AND t.a = r.a"
OF_EDGES = "FROM e p, e q, e o WHERE p.y = q.x AND q.y = o.x AND o.y = p.x"
VIEWS = {
    "all three": f"SELECT r.a, s.b, t.c {JOINED}",
    "distinct": f"SELECT DISTINCT r.a, s.b, t.c {JOINED}",
    "edges": f"SELECT s.b, t.c, COUNT(*) AS n {JOINED} GROUP BY s.b, t.c",
    "distinct edges": f"SELECT DISTINCT t.c, t.a {JOINED}",
    "edges with sums": f"SELECT r.a, r.b, COUNT(*) AS n, SUM(r.w) AS m, SUM(t.w) AS k {JOINED} GROUP BY r.a, r.b",
    "vertices": f"SELECT s.c, COUNT(*) AS n {JOINED} GROUP BY s.c",
    "vertices with sums": f"SELECT r.b, SUM(t.w) AS m, SUM(s.w) AS k, COUNT(r.w) AS n {JOINED} GROUP BY r.b",
    "distinct vertices": f"SELECT DISTINCT r.a {JOINED}",
    "rows under edges": f"SELECT r.a, r.b, t.c, r.w, s.w AS v {JOINED} AND s.w < 3",
    "groups under edges": f"SELECT r.a, r.b, r.w, COUNT(*) AS n, SUM(s.w) AS m, SUM(r.w) AS k {JOINED} "
    "GROUP BY r.a, r.b, r.w",
    "distinct rows under edges": f"SELECT DISTINCT r.a, r.b, r.w {JOINED} AND r.w > 0",
    "one table": f"SELECT p.x, p.y, o.x AS z {OF_EDGES}",
    "vertices of one table": f"SELECT p.x, COUNT(*) AS n {OF_EDGES} AND q.w > 1 GROUP BY p.x",
    "edges of one table": f"SELECT o.x, o.y, COUNT(*) AS n, SUM(p.w) AS m {OF_EDGES} GROUP BY o.x, o.y",
    "composite corners": "SELECT r.a, r.b, COUNT(*) AS n FROM r, s, t WHERE r.a = t.a AND r.w = t.w AND r.b = s.b "
    "AND s.c = t.c GROUP BY r.a, r.b, r.w",
    "in all three": "SELECT r.w, r.a, COUNT(*) AS n FROM r, s, t WHERE r.a = t.a AND r.w = t.w AND r.w = s.w "
    "AND r.b = s.b AND s.c = t.c GROUP BY r.w, r.a",
}
PRODUCTS = {
    "vertices": "SELECT r.a, SUM(CAST(r.w AS BIGINT) * s.w * t.w) AS k, SUM(CAST(s.w AS BIGINT) * t.w) AS m, "
    f"SUM(r.w) AS n {JOINED} GROUP BY r.a",
    "edges": "SELECT s.b, s.c, SUM(CAST(s.w AS BIGINT) * r.w) AS k, AVG(CAST(r.w AS BIGINT) * t.w) AS m "
    f"{JOINED} GROUP BY s.b, s.c",
    "triangles": "SELECT r.a, s.b, t.c, SUM(CAST(r.w AS BIGINT) * s.w) AS k, COUNT(CAST(t.w AS BIGINT) * r.w) AS n "
    f"{JOINED} GROUP BY r.a, s.b, t.c",
    "groups under edges": "SELECT r.a, r.b, r.w, SUM(CAST(r.w AS BIGINT) * s.w) AS k, SUM(s.w) AS m, SUM(r.w) AS n, "
    f"SUM(CAST(s.w AS BIGINT) * t.w) AS l, COUNT(*) AS o {JOINED} GROUP BY r.a, r.b, r.w",
    "edges of one table": "SELECT o.x, o.y, SUM(CAST(p.w AS BIGINT) * q.w * o.w) AS k, SUM(CAST(o.w AS BIGINT) * p.w) "
    f"AS m {OF_EDGES} GROUP BY o.x, o.y",
}
EPSILONS = {"at_0": "0", "at_quarter": "0.25", "at_half": "0.5", "at_3_quarters": "0.75", "at_1": "1"}


class Twins:
    """The same tables in Everview and in DuckDB, and the view at every ε in one database."""

    columns = TABLES

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self.duck = duckdb.connect()
        self.db = ev.Database()
        for name, columns in self.columns.items():
            self.db.sql(f"CREATE TABLE {name} ({columns})")
            self.duck.execute(f"CREATE TABLE {name} ({columns})")
        self.rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES}
        for name, epsilon in EPSILONS.items():
            self.db.sql(f"CREATE MATERIALIZED VIEW {name} OPTIONS (epsilon = {epsilon}) AS {self.sql}")
            assert self.db.view(name).explain().strategy == "ivm-eps-triangle"
        self.names = list(EPSILONS)
        self.tables = [name for name in TABLES if f" {name} " in self.sql or f" {name}," in self.sql]

    @property
    def views(self) -> list[ev.View]:
        return [self.db.view(name) for name in self.names]

    def step(self, random: Random, inserts: int, deletes: int) -> None:
        """A batch of inserts around hubs, some with NULLs, and of deletes."""
        with self.db.batch() as batch:
            for table in self.tables:
                known = self.rows[table]
                gone = random.sample(known, min(len(known), deletes))
                new = [self.row(random) for _ in range(inserts)]
                for row in gone:
                    known.remove(row)
                known += new
                if gone:
                    batch.delete(table, gone)
                if new:
                    batch.insert(table, new)

    def row(self, random: Random) -> tuple[Any, ...]:
        def value() -> int | None:
            return random.choice([0, 0, 1, random.randrange(9), random.randrange(30), None])

        return value(), value(), random.choice([0, 1, 2, 3])

    def check(self) -> None:
        for table in self.tables:
            self.duck.execute(f"DELETE FROM {table}")
            columns = zip(*self.rows[table], strict=True) if self.rows[table] else ([], [], [])
            words = pa.table([pa.array(column, pa.int64()) for column in columns], names=["x", "y", "w"])
            self.duck.register("words", words)
            self.duck.execute(f"INSERT INTO {table} SELECT * FROM words")
        wanted = Counter(self.duck.execute(self.sql).fetchall())
        for view in self.views:
            assert Counter(view) == wanted, view.name

    def grow_and_shrink(self, random: Random, path: Path) -> None:
        """Across major rebalances, with feeds on the way, saved and loaded in the middle, until nothing is left.

        One more view comes when there are rows already.
        """
        for i in range(scaled(4, 3)):
            self.step(random, random.choice([3, 10, 30]), random.choice([0, 3]))
            if i == 1:
                self.db.create_view("late", self.sql, epsilon=0.5)
                self.names.append("late")
            self.check()
            if i == 1:
                self.db.save(path)
                self.db = ev.Database.load(path)
                assert all(view.stats()["restored"] == "snapshot" for view in self.views)
        feeds = [(view, view.changes(), Counter(view)) for view in self.views]
        for _ in range(scaled(3, 2)):
            self.step(random, random.choice([0, 5]), random.choice([3, 15]))
            self.check()
        for view, feed, told in feeds:
            for batch in feed.read():
                for change in batch.to_pylist():
                    row = tuple(value for name, value in change.items() if not name.startswith("_"))
                    sign = 1 if change["_change_type"] in ("insert", "update_postimage") else -1
                    told[row] += sign * change["_count"]
            assert Counter(view) == +told
            feed.close()
        while any(self.rows.values()):
            self.step(random, 0, 25)
        self.check()
        for view in self.views:
            (parts,) = view.stats()["parts"]
            assert parts["major"] > 0, view.name


class Multiplied(Twins):
    """Tables of numbers whose products fit a BIGINT, so that the sum of a product is made of each table's own sums."""

    columns: ClassVar = {name: columns.replace("w BIGINT", "w SMALLINT") for name, columns in TABLES.items()}

    def row(self, random: Random) -> tuple[Any, ...]:
        x, y, w = super().row(random)
        return x, y, random.choice([-1, 0, w, None])


@pytest.mark.parametrize("view", PRODUCTS)
def test_products_against_duckdb(view: str, tmp_path: Path) -> None:
    twins = Multiplied(PRODUCTS[view])
    twins.grow_and_shrink(Random(view), tmp_path / "saved.db")
    assert all(list(v) == [] for v in twins.views)


@pytest.mark.parametrize("view", VIEWS)
def test_against_duckdb(view: str, tmp_path: Path) -> None:
    twins = Twins(VIEWS[view])
    twins.grow_and_shrink(Random(view), tmp_path / "saved.db")
    assert all(list(v) == [] for v in twins.views)
