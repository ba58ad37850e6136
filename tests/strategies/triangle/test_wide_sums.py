"""Sums and counts of triangles beyond 64 bits: the dial changes what a read costs, and never the numbers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import everview as ev
from everview.errors import DataError
from tests.scale import scaled

Row = tuple[Any, ...]
EPSILONS = ("0", "1/3", "1/2", "1")
TRIANGLES = "FROM e x, e y, e z WHERE x.b = y.a AND y.b = z.a AND z.b = x.a"
SUMS = "SUM(y.d) AS s, AVG(z.w) AS m, COUNT(*) AS n, VAR_POP(x.w) AS v"
GROUPS = {"vertex": "x.a", "edge": "x.a, x.b", "triangle": "x.a, x.b, y.b"}
MOST = 2**63 - 1


def database(groups: str, epsilon: str, values: str = SUMS) -> ev.Database:
    db = ev.Database()
    db.sql("CREATE TABLE e (a INT, b INT, w BIGINT, d DECIMAL(38, 0))")
    query = f"SELECT {groups.replace('y.b', 'y.b AS c')}, {values} {TRIANGLES} GROUP BY {groups}"
    db.sql(f"CREATE MATERIALIZED VIEW v OPTIONS (epsilon = {epsilon}) AS {query}")
    assert db.view("v").explain().strategy == "ivm-eps-triangle"
    return db


KEYS: dict[str, Callable[[Row, Row], Row]] = {
    "vertex": lambda x, y: x[:1],
    "edge": lambda x, y: x[:2],
    "triangle": lambda x, y: (*x[:2], y[1]),
    "row under an edge": lambda x, y: x[:3],
}
"""The groups by the rows of two edges."""


def expected(edges: Counter[Row], kind: str) -> set[Row]:
    """The groups, by brute force over Python's numbers."""
    groups: dict[Row, list[tuple[int, Row, Row, Row]]] = {}
    for x, i in edges.items():
        for y, j in edges.items():
            for z, k in edges.items():
                if x[1] == y[0] and y[1] == z[0] and z[1] == x[0]:
                    groups.setdefault(KEYS[kind](x, y), []).append((i * j * k, x, y, z))
    found = set()
    for key, rows in groups.items():
        count = sum(n for n, *_ in rows)
        total = sum(n * int(y[3]) for n, _, y, _ in rows)
        mean = Fraction(sum(n * z[2] for n, _, _, z in rows), count)
        of_x = [(n, x[2]) for n, x, _, _ in rows]
        variance = Fraction(sum(n * w * w for n, w in of_x), count) - Fraction(sum(n * w for n, w in of_x), count) ** 2
        found.add((*key, Decimal(total), float(mean), count, float(variance)))
    return found


def batches(r: random.Random) -> Iterator[tuple[list[Row], list[Row]]]:
    held: list[Row] = []
    for _ in range(6):
        gone = r.sample(held, r.randint(0, len(held) // 2))
        come = [
            (
                r.randint(0, 3),
                r.randint(0, 3),
                r.choice([MOST, -MOST, 2**62, 1, 0]),
                Decimal(r.choice([10**33, -(10**33), 7, 0])),
            )
            for _ in range(r.randint(1, 8))
        ]
        for row in gone:
            held.remove(row)
        held += come
        yield gone, come


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("kind", KEYS)
def test_sums_are_those_of_python(kind: str, epsilon: str, tmp_path: Path) -> None:
    for seed in range(scaled(4)):
        r = random.Random(seed)
        db = database(GROUPS.get(kind, "x.a, x.b, x.w"), epsilon)
        feed = db.view("v").changes() if seed % 2 else None
        edges: Counter[Row] = Counter()
        told: Counter[Row] = Counter()
        for number, (gone, come) in enumerate(batches(r)):
            with db.batch() as batch:
                batch.delete("e", gone)
                batch.insert("e", come)
            edges.subtract(gone)
            edges.update(come)
            edges = +edges
            wanted = expected(edges, kind)
            assert set(db.view("v")) == wanted, (seed, number)
            for changes in feed.read() if feed is not None else ():
                for row in changes.to_pylist():
                    kind_of_change = row.pop("_change_type")
                    del row["_commit_version"], row["_count"]
                    told[tuple(row.values())] += 1 if kind_of_change in ("insert", "update_postimage") else -1
            assert feed is None or set(+told) == wanted
            if number == 3 and feed is None:
                db.save(tmp_path / f"saved {seed}")
                db = ev.Database.load(tmp_path / f"saved {seed}")


def copies(a: int, b: int, count: int) -> pa.Table:
    kind = "insert" if count > 0 else "delete"
    values = {"w": pa.array([1], pa.int64()), "d": pa.array([Decimal(1)], pa.decimal128(38, 0))}
    row = {"a": pa.array([a], pa.int32()), "b": pa.array([b], pa.int32()), **values}
    return pa.table({**row, "_change_type": [kind], "_count": pa.array([abs(count)], pa.int64())})


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("kind", GROUPS)
@pytest.mark.parametrize("has_feed", [False, True])
def test_a_batch_may_pass_through_a_count_beyond_its_type(kind: str, epsilon: str, has_feed: bool) -> None:
    """It is judged by how it ends, and then the group is named, and what was taken before is still there."""
    db = database(GROUPS[kind], epsilon, "COUNT(*) AS n, SUM(y.w) AS m")
    feed = db.view("v").changes() if has_feed else None
    for a, b in ((0, 1), (1, 2), (2, 0)):
        db.apply("e", copies(a, b, 2**20))
    rows = {(*(i, (i + 1) % 3, (i + 2) % 3)[: GROUPS[kind].count(",") + 1], 2**60, 2**60) for i in range(3)}
    assert set(db.view("v")) == rows
    with db.batch() as batch:
        batch.apply("e", copies(0, 1, 2**60))
        batch.apply("e", copies(0, 1, -(2**60)))
    assert set(db.view("v")) == rows
    assert feed is None or sum(changes.num_rows for changes in feed.read()) == 3
    with pytest.raises(DataError, match=r"^v: .* failed on the data for .* leaves the 64 bits of BIGINT"):
        db.apply("e", copies(0, 1, 2**60))
    assert set(db.view("v")) == rows
    db.apply("e", copies(0, 1, 2**22 - 2**20))
    assert {row[-1] for row in db.view("v")} == {2**62}
    db.apply("e", copies(1, 2, -(2**20)))
    assert list(db.view("v")) == []


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("shown", ["x.a", "x.a, x.b", "x.a, x.b, y.b AS c", "x.a, x.w"])
def test_rows_with_more_copies_than_a_word_holds_are_counted(shown: str, epsilon: str) -> None:
    """They cannot be listed; updates go on, and a UNION ALL with them is counted, too."""
    db = ev.Database()
    db.sql("CREATE TABLE e (a INT, b INT, w BIGINT, d DECIMAL(38, 0))")
    db.sql(f"CREATE MATERIALIZED VIEW v OPTIONS (epsilon = {epsilon}) AS SELECT {shown} {TRIANGLES}")
    db.sql(
        f"CREATE MATERIALIZED VIEW u OPTIONS (epsilon = {epsilon}) AS "
        f"SELECT x.a {TRIANGLES} UNION ALL SELECT a FROM e WHERE w > 0"
    )
    for a, b in ((0, 1), (1, 2), (2, 0)):
        db.apply("e", copies(a, b, 2**30))
    view = db.view("v")
    assert view.count() == 3 * 2**90
    assert db.view("u").count() == 3 * 2**90 + 3 * 2**30
    with pytest.raises(ev.errors.TooManyRowsError, match=r"len\(\)"):
        len(view)
    for read in (lambda: next(iter(view)), view.to_arrow, lambda: view.page(limit=1), lambda: view[0]):
        with pytest.raises(DataError, match="64 bits"):
            read()
    db.apply("e", copies(0, 1, 1 - 2**30))
    assert view.count() == 3 * 2**60
    assert next(iter(view))[0] in (0, 1, 2)
