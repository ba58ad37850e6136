"""Groups over stars are products of what each occurrence has by the key: results, feeds, and few steps."""

from __future__ import annotations

import random

import pytest

import everview as ev
from tests.engine.case_data import ColumnDef, TableDef
from tests.engine.differential import run_case
from tests.engine.generator import case_for
from tests.engine.shrinking import fail_with
from tests.scale import scaled

SCHEMA = (
    TableDef(
        "t",
        (
            ColumnDef("a", "n", "INT", nullable=True),
            ColumnDef("b", "n", "BIGINT", nullable=False),
            ColumnDef("c", "n", "SMALLINT", nullable=True),
            ColumnDef("w", "w", "DECIMAL(22,3)", nullable=True),
        ),
    ),
    TableDef("u", (ColumnDef("a", "n", "INT", nullable=False), ColumnDef("b", "n", "BIGINT", nullable=True))),
)
KINDS = ("SUM({})", "SUM({})", "AVG({})", "COUNT({})", "MAX({})")


def star(r: random.Random) -> str:
    """A grouped query over occurrences that meet in a key, of which some are alike and some are not."""
    tables = [r.choices("tu", (5, 1))[0] for _ in range(r.choice((2, 2, 3, 4)))]
    names = [f"x{i}" for i in range(len(tables))]
    key = r.choice(("a", "a", "b", "ab"))
    joined = [f"x0.{k} = {x}.{r.choice('ab') if r.random() < 0.1 else k}" for k in key for x in names[1:]]
    few = [f"{x}.b < {r.choice((2, 2, 3))}" for x in names if r.random() < 0.2]
    across = [f"x0.b <= {names[-1]}.b"] if r.random() < 0.1 else []
    numbers = [f"{x}.{c}" for x, t in zip(names, tables, strict=True) for c in ("abcw" if t == "t" else "ab")]
    shown = [f"x0.{k}" for k in key]
    keys = r.choice((shown, shown, shown, [], [*shown, r.choice(numbers)], shown[:1]))
    values = [r.choice(KINDS).format(r.choice(numbers)) for _ in range(r.choice((0, 1, 2)))]
    if r.random() < 0.5:
        factor = r.choice([n for n in numbers if not n.endswith("w")])
        values.append(f"SUM({r.choice(('{} * {}', 'CAST({} AS BIGINT) * {}')).format(r.choice(numbers), factor)})")
    outputs = [*keys, "COUNT(*)", *values]
    listed = ", ".join(f"{output} AS c{i}" for i, output in enumerate(outputs))
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    having = " HAVING COUNT(*) > 2" if keys and r.random() < 0.15 else ""
    froms = ", ".join(f"{t} {x}" for t, x in zip(tables, names, strict=True))
    return f"SELECT {listed} FROM {froms} WHERE {' AND '.join([*joined, *few, *across])}{grouped}{having}"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_random_stars_against_duckdb(part: int) -> None:
    for seed in range(part * 1_000, part * 1_000 + scaled(2)):
        r = random.Random(seed)
        case = case_for(seed, SCHEMA, tuple(star(r) for _ in range(3)))
        try:
            run_case(case)
        except Exception:
            fail_with(case)
            raise


STARS = {
    "count": "SELECT x0.k, COUNT(*) AS n FROM {} GROUP BY x0.k",
    "sums": "SELECT x0.k, SUM(x0.v) AS s, AVG(x1.v) AS m, SUM(CAST(x0.v AS BIGINT) * x1.v) AS p FROM {} GROUP BY x0.k",
    "everything": "SELECT COUNT(*) AS n, SUM(x1.v) AS s FROM {}",
}


def steps(query: str, size: int, copies: int, *, per_update: bool = False) -> float:
    """What an update takes on average, with a feed open, where each of some keys has so many rows."""
    names = [f"x{i}" for i in range(size)]
    joined = f"t {names[0]}" + "".join(f" JOIN t {x} ON x0.k = {x}.k" for x in names[1:])
    db = ev.Database()
    db.sql("CREATE TABLE t (k BIGINT NOT NULL, v INT NOT NULL)")
    db.sql(f"CREATE MATERIALIZED VIEW v AS {query.format(joined)}")
    db.insert("t", [(k, i % 3) for k in range(20) for i in range(copies)])
    feed = db.view("v").changes(per_update=per_update)
    before = db.view("v").stats()["steps"]
    with db.batch() as batch:
        for k in range(20):
            batch.insert("t", [(k, 2), (k, 1)])
            batch.delete("t", [(k, 0)])
    assert feed.read()
    return float(db.view("v").stats()["steps"] - before) / 60


@pytest.mark.parametrize("query", STARS.values(), ids=STARS)
def test_an_update_takes_as_many_steps_whatever_its_group_has(query: str) -> None:
    assert steps(query, 4, 50) <= 1.05 * steps(query, 4, 5)


def test_an_update_of_a_star_takes_a_handful_of_steps() -> None:
    """The table is changed once and the group once, for all occurrences; each further one is two multiplications."""
    two, four, five = (steps(STARS["count"], size, 5) for size in (2, 4, 5))
    assert four <= 35
    assert four - two <= 6
    assert five - four <= 3
    assert steps(STARS["count"], 4, 5, per_update=True) <= 45


def test_an_arm_below_another_table_is_walked_once() -> None:
    """The rows of the table above are walked for one occurrence in place of four."""
    db = ev.Database()
    db.sql("CREATE TABLE t (k BIGINT NOT NULL, v INT); CREATE TABLE above (k BIGINT NOT NULL, g BIGINT NOT NULL)")
    arms = "".join(f" JOIN t x{i} ON x{i}.k = a.k" for i in range(4))
    db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT a.g, COUNT(*) AS n FROM above a{arms} GROUP BY a.g")
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT a.g, COUNT(*) AS n FROM above a JOIN t x0 ON x0.k = a.k GROUP BY a.g")
    db.insert("above", [(0, g) for g in range(100)])
    db.insert("t", [(0, 1)])
    db.insert("t", [(0, 2)])
    assert set(db.view("v")) == {(g, 16) for g in range(100)}
    assert db.view("v").stats()["steps"] <= 1.5 * db.view("w").stats()["steps"]


def test_the_occurrences_are_one_table_and_one_input() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE t (k BIGINT, v INT)")
    db.sql("CREATE MATERIALIZED VIEW v AS " + STARS["sums"].format("t x0 JOIN t x1 ON x0.k = x1.k"))
    (core,) = db._views["v"].cores
    (entry,) = core.maintained.entries
    assert [(o.atom, o.serves) for o in entry.atom_inputs] == [(0, (1,))]
    with db.batch() as batch:
        batch.insert("t", [(1, 5), (1, 7), (2, None)])
        batch.delete("t", [(1, 5)])
    assert sorted(db.view("v")) == [(1, 7, 7.0, 49), (2, None, None, None)]
