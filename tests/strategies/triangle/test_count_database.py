"""Counts through the database, against DuckDB: every shape, hubs, NULLs, copies, growth, shrinkage, save and load."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import duckdb
import pytest

import everview as ev
from everview.errors import DataError
from tests.strategies.triangle.test_database import JOINED, OF_EDGES, Twins

CUBES = (
    "FROM e p, e q, e o, e u WHERE p.y = q.x AND p.w = q.y AND q.y = o.x AND q.w = o.y "
    "AND o.y = u.x AND o.w = u.y AND p.x = o.w AND p.x = u.y AND p.y = u.w AND p.w = o.x AND q.w = u.x"
)
VIEWS = {
    "triangles": f"SELECT COUNT(*) AS n {JOINED}",
    "sums": f"SELECT SUM(r.w) AS k, AVG(s.w + 1) AS m, COUNT(t.w) AS n, SUM(t.w * t.w) AS v {JOINED}",
    "filters": f"SELECT COUNT(*) AS n, SUM(s.w) AS m {JOINED} AND s.w < 3 AND r.w > 0",
    "having": f"SELECT COUNT(*) AS n {JOINED} HAVING COUNT(*) > 40",
    "rows without columns": f"SELECT 1 AS one {JOINED}",
    "one edge table": f"SELECT COUNT(*) AS n {OF_EDGES}",
    "one edge table, a sum": f"SELECT COUNT(*) AS n, SUM(q.w) AS m, SUM(q.w * q.w) AS k {OF_EDGES}",
    "one edge table, two sums": f"SELECT SUM(p.w) AS m, SUM(o.w) AS k {OF_EDGES}",
    "one edge table, a filter": f"SELECT COUNT(*) AS n {OF_EDGES} AND o.w <> 2",
    "one edge table, the same filter": f"SELECT COUNT(*) AS n {OF_EDGES} AND p.w < 2 AND q.w < 2 AND o.w < 2",
    "turned edges": "SELECT COUNT(*) AS n FROM e p, e q, e o WHERE p.y = q.x AND q.y = o.y AND o.x = p.x",
    "composite": "SELECT COUNT(*) AS n FROM r, s, t WHERE r.a = t.a AND r.w = t.w AND r.b = s.b AND s.c = t.c",
    "in all three": "SELECT COUNT(*) AS n, SUM(r.a) AS m FROM r, s, t "
    "WHERE r.a = t.a AND r.w = t.w AND r.w = s.w AND r.b = s.b AND s.c = t.c",
    "3-path": "SELECT COUNT(*) AS n, SUM(r.a) AS m FROM r, s, t WHERE r.b = s.b AND s.c = t.c",
    "3-path of one table": "SELECT COUNT(*) AS n FROM e p, e q, e o WHERE p.y = q.x AND q.y = o.x",
    "4-path": "SELECT COUNT(*) AS n, SUM(e.y) AS m, SUM(s.w) AS k FROM r, s, t, e "
    "WHERE r.b = s.b AND s.c = t.c AND t.a = e.x",
    "4-path of one table": "SELECT COUNT(*) AS n FROM e p, e q, e o, e u WHERE p.y = q.x AND q.y = o.x AND o.y = u.x",
    "Loomis-Whitney": f"SELECT COUNT(*) AS n, SUM(q.w) AS m {CUBES}",
}


PRODUCTS = {
    "three, and others": "SELECT SUM(CAST(r.w AS BIGINT) * s.w * t.w) AS k, AVG(CAST(t.w AS BIGINT) * r.w) AS m, "
    f"COUNT(CAST(s.w AS BIGINT) * t.w) AS n, SUM(s.w) AS j, COUNT(*) AS o {JOINED}",
    "squares": "SELECT SUM(CAST(r.w AS DECIMAL(6, 1)) * (CAST(s.w AS INT) * s.w)) AS k, "
    f"ROUND(VAR_POP(CAST(r.w AS BIGINT) * t.w), 6) AS v {JOINED}",
    "one edge table": f"SELECT SUM(CAST(p.w AS BIGINT) * q.w * o.w) AS k, COUNT(*) AS n {OF_EDGES}",
    "one edge table, two sides": f"SELECT SUM(CAST(p.w AS BIGINT) * q.w) AS k, AVG(CAST(o.w AS BIGINT) * p.w) AS m, "
    f"SUM(q.w + 1) AS j {OF_EDGES}",
    "one edge table, different factors": f"SELECT SUM(CAST(p.w AS BIGINT) * q.w * q.w) AS k {OF_EDGES} AND q.w < 3",
    "3-path": "SELECT SUM(CAST(r.w AS BIGINT) * t.w) AS k, SUM(s.w) AS m FROM r, s, t WHERE r.b = s.b AND s.c = t.c",
    "4-path": "SELECT SUM(CAST(r.w AS BIGINT) * e.w) AS k, SUM(CAST(s.w AS BIGINT) * t.w * r.w) AS m FROM r, s, t, e "
    "WHERE r.b = s.b AND s.c = t.c AND t.a = e.x",
    "composite": "SELECT SUM(CAST(s.w AS BIGINT) * t.c) AS k FROM r, s, t "
    "WHERE r.a = t.a AND r.w = t.w AND r.b = s.b AND s.c = t.c",
}


class Counted(Twins):
    """A count's tables: some rows come twice, and few values so that there is something to count."""

    def row(self, random: Random) -> tuple[Any, ...]:
        def value() -> int | None:
            return random.choice([0, 1, random.randrange(5), random.randrange(30), None])

        return value(), value(), random.choice([0, 1, 2, 3, None])


@pytest.mark.parametrize("view", VIEWS)
def test_against_duckdb(view: str, tmp_path: Path) -> None:
    Counted(VIEWS[view]).grow_and_shrink(Random(view), tmp_path / "saved.db")


class Multiplied(Counted):
    """Tables of numbers whose products fit a BIGINT, so that the sum of a product is made of each table's own sums."""

    columns: ClassVar = {
        "r": "a BIGINT, b BIGINT, w SMALLINT",
        "s": "b BIGINT, c BIGINT, w SMALLINT",
        "t": "c INT, a BIGINT, w SMALLINT",
        "e": "x BIGINT, y BIGINT, w SMALLINT",
    }

    def row(self, random: Random) -> tuple[Any, ...]:
        x, y, w = super().row(random)
        return x, y, w if w is None else w - 1


@pytest.mark.parametrize("view", PRODUCTS)
def test_products_against_duckdb(view: str, tmp_path: Path) -> None:
    Multiplied(PRODUCTS[view]).grow_and_shrink(Random(view), tmp_path / "saved.db")


def test_counts_are_taken_without_being_asked_for() -> None:
    """Whether or not somebody is told what changes: a count is one row (issue 20)."""
    db = ev.Database()
    db.sql("CREATE TABLE e (x BIGINT, y BIGINT, w BIGINT)")
    db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n {OF_EDGES}")
    db.sql(f"CREATE MATERIALIZED VIEW rows AS SELECT p.x, q.x AS y, o.x AS z {OF_EDGES}")
    assert db.view("v").explain().strategy == "ivm-eps-triangle"
    assert db.view("rows").explain().strategy == "crown"


def test_batches_are_as_one_by_one() -> None:
    random = Random(20)
    edges = [(random.choice([0, random.randrange(8)]), random.choice([0, random.randrange(8)]), 1) for _ in range(60)]
    found = []
    for size in (1, 60):
        db = ev.Database()
        db.sql("CREATE TABLE e (x BIGINT, y BIGINT, w BIGINT)")
        db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n {OF_EDGES}")
        for at in range(0, len(edges), size):
            db.insert("e", edges[at : at + size])
        found.append(list(db.view("v")))
    assert found[0] == found[1]
    assert found[0][0][0] > 100


def test_loops_and_copies() -> None:
    """A loop of e copies is e³ triangles; a row that is not there cannot go, and nothing changes then (spec 20.2)."""
    db = ev.Database()
    db.sql("CREATE TABLE e (x BIGINT, y BIGINT, w BIGINT)")
    db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n, SUM(p.w) AS m {OF_EDGES}")
    for copies in (1, 2, 3):
        db.insert("e", [(7, 7, 10)])
        assert list(db.view("v")) == [(copies**3, 10 * copies**3)]
    with pytest.raises(DataError):
        db.delete("e", [(7, 7, 10)] * 4)
    assert list(db.view("v")) == [(27, 270)]
    db.delete("e", [(7, 7, 10)] * 2)
    assert list(db.view("v")) == [(1, 10)]


def test_sums_beyond_64_bits() -> None:
    """A sum of decimals has several words."""
    db, duck = ev.Database(), duckdb.connect()
    columns = "x BIGINT, y BIGINT, w DECIMAL(38, 2)"
    sql = f"SELECT SUM(p.w) AS m {OF_EDGES}"
    for run in (db.sql, duck.execute):
        run(f"CREATE TABLE e ({columns})")
    db.sql(f"CREATE MATERIALIZED VIEW v AS {sql}")
    rows = [(x, y, Decimal(10) ** 30 * (x + 2 * y) + Decimal("0.25")) for x in range(4) for y in range(4)]
    db.insert("e", rows)
    duck.executemany("INSERT INTO e VALUES (?, ?, ?)", rows)
    assert list(db.view("v")) == duck.execute(sql).fetchall()
    db.delete("e", rows[3:9])
    duck.executemany("DELETE FROM e WHERE x = ? AND y = ?", [row[:2] for row in rows[3:9]])
    assert list(db.view("v")) == duck.execute(sql).fetchall()


COLUMNS = "w INT, d DECIMAL(19, 0)"
SUMS = {
    "three tables": (f"r (a BIGINT, b BIGINT, {COLUMNS}); s (b BIGINT, c BIGINT, {COLUMNS}); t (c INT, a INT)", JOINED),
    "one table": (f"e (x BIGINT, y BIGINT, {COLUMNS})", OF_EDGES),
}


@pytest.mark.parametrize("kind", SUMS)
@pytest.mark.parametrize("value", ["CAST(u.w AS BIGINT) * v.w", "u.d * v.d"], ids=["BIGINT", "DECIMAL(38)"])
@pytest.mark.parametrize("groups", [("0.5", 0), ("0", 1), ("0.75", 2), ("0.5", 3)], ids=str)
def test_a_sum_of_products_is_judged_by_how_a_batch_ends(kind: str, value: str, groups: tuple[str, int]) -> None:
    """It may leave its type on the way; else the batch is refused, the view is named, and nothing has changed."""
    tables, joined = SUMS[kind]
    db = ev.Database()
    db.sql(";".join(f"CREATE TABLE {t}" for t in tables.split("; ")))
    first, second, columns = (
        ("r", "s", ("r.a", "r.b", "r.w")) if "r" in db.tables else ("p", "q", ("p.x", "p.y", "p.w"))
    )
    by = ", ".join(columns[: groups[1]])
    value = value.replace("u.", f"{first}.").replace("v.", f"{second}.")
    query = f"SELECT {by and by + ', '}SUM({value}) AS k {joined}{by and ' GROUP BY ' + by}"
    db.sql(f"CREATE MATERIALIZED VIEW v OPTIONS (epsilon = {groups[0]}) AS {query}")
    assert db.view("v").explain().strategy == "ivm-eps-triangle"
    most, large = 2**31 - 1, 10**19 - 1
    row, opposite = (0, 0, most, Decimal(large)), (0, 0, -most, Decimal(-large))
    changed = "r" if first == "r" else "e"
    if first == "r":
        db.insert("t", [(0, 0)])
        db.insert("s", [row])
    db.insert(changed, [row])
    found = list(db.view("v"))
    assert found == [(*(0, 0, most)[: groups[1]], most**2 if "w" in value else large**2)]
    with db.batch() as batch:
        batch.insert(changed, [row] * 20)
        batch.delete(changed, [row] * 20)
    assert list(db.view("v")) == found
    with pytest.raises(DataError, match=r"^v: "):
        db.insert(changed, [row] * 20)
    assert list(db.view("v")) == found
    db.insert(changed, [opposite])
    assert sum(int(row[-1]) for row in db.view("v")) == 0


def test_a_cube_by_two_columns() -> None:
    """spec 20.14: no method is given for a Loomis-Whitney join with some output; CROWN takes it."""
    db = ev.Database()
    db.sql(";".join(f"CREATE TABLE r{i} (x BIGINT, y BIGINT, z BIGINT)" for i in range(4)))
    view = db.create_view(
        "v",
        "SELECT p.x, p.y, COUNT(*) AS n FROM r0 p, r1 q, r2 o, r3 u WHERE p.y = q.x AND p.z = q.y AND q.y = o.x "
        "AND q.z = o.y AND o.y = u.x AND o.z = u.y AND p.x = o.z AND p.y = u.z AND p.x = u.y AND q.x = u.z "
        "AND p.z = o.x AND q.z = u.x GROUP BY p.x, p.y",
    )
    cube = [(x, y, z) for x in (1, 2) for y in (1, 2) for z in (1, 2)]
    with db.batch() as batch:
        for i in range(4):
            batch.insert(f"r{i}", cube)
    assert sorted(view) == [(x, y, 4) for x in (1, 2) for y in (1, 2)]
    db.delete("r0", [(1, 1, 1)])
    assert sorted(view) == [(1, 1, 2), (1, 2, 4), (2, 1, 4), (2, 2, 4)]
