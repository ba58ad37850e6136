"""Aggregates that keep values in order, or sums of pairs, bits and powers: through updates, feeds and failures."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.errors import DataError
from tests.engine.aggregates import same
from tests.scale import scaled

TABLES = "CREATE TABLE t (g INT, k INT, n INT, x DOUBLE, s STRING, d DECIMAL(24, 2)); CREATE TABLE u (k INT, m INT)"
LISTED = [
    "collect_list(n)", "collect_set(s)", "array_agg(DISTINCT d)", "listagg(s, '+')", "mode(n)", "median(x)",
    "percentile_disc(0.4) WITHIN GROUP (ORDER BY n DESC)", "percentile(n, array(0.1, 0.9))", "max_by(s, x)",
    "min_by(d, n) FILTER (WHERE n > 0)", "bit_xor(n)", "bool_and(n > 0)", "corr(n, x)", "regr_slope(n, x)",
    "skewness(n)", "kurtosis(x)", "count(DISTINCT n, s)", "approx_percentile(d, 0.5)", "percentile(DISTINCT n, 0.5)",
]  # fmt: skip
OUTPUTS = ", ".join(f"{call} AS y{i}" for i, call in enumerate(LISTED))
FEW = ", ".join(f"{call} AS y{i}" for i, call in enumerate(LISTED[:4])).replace("(s", "(t.s")
QUERIES = {
    "grouped": f"SELECT g, {OUTPUTS} FROM t GROUP BY g",
    "all": "SELECT collect_list(s) AS y0, median(d) AS y1, max_by(n, x) AS y2, covar_pop(n, x) AS y3 FROM t",
    "joined": f"SELECT t.s, {FEW} FROM t JOIN u ON t.k = u.k GROUP BY t.s",
    "chosen": "SELECT g, median(n) AS m FROM t GROUP BY g HAVING size(collect_set(n)) > 1 AND max_by(n, x) > -2",
}


def row(r: random.Random) -> tuple[Any, ...]:
    values = (
        r.randint(-3, 3),
        r.randint(-8, 8) / 4,
        r.choice(["", "a", "b", "ü"]),
        Decimal(r.randint(-300, 300)).scaleb(-2),
    )
    return (r.choice([None, 0, 1]), r.randint(0, 3), *(None if r.random() < 0.15 else v for v in values))


def ordered(rows: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(r) for r in rows), key=repr)


def agree(db: ev.Database) -> None:
    """Each view is what DuckDB computes of the tables, taught what Spark means by these functions."""
    for name, query in QUERIES.items():
        keys = 1 if name != "all" else 0
        found, wanted = ({r[:keys]: r[keys:] for r in rows} for rows in (db.view(name), db.sql(query)))
        assert found.keys() == wanted.keys()
        for key, values in found.items():
            for number, (mine, theirs) in enumerate(zip(values, wanted[key], strict=True)):
                is_float = isinstance(mine, float) and isinstance(theirs, float)
                assert (is_float and math.isclose(mine, theirs, abs_tol=1e-9)) or same(mine, theirs), (
                    name,
                    key,
                    number,
                )


@pytest.mark.parametrize("per_update", [False, True], ids=["net", "per update"])
@pytest.mark.parametrize("seed", range(scaled(2)))
def test_like_duckdb(seed: int, per_update: bool, tmp_path: Path) -> None:
    r = random.Random(seed)
    db = ev.Database()
    db.sql(TABLES)
    for name, query in QUERIES.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    feeds = {name: db.view(name).changes(per_update=per_update) for name in QUERIES}
    told = {name: Counter(map(repr, db.view(name))) for name in QUERIES}
    there: list[tuple[Any, ...]] = []
    for step in range(5):
        new = [row(r) for _ in range(r.randint(0, 6))]
        gone = r.sample(there, r.randint(0, len(there) * 2 // 3))
        with db.batch():
            db.delete("t", gone)
            db.insert("t", new)
            db.insert("u", [(r.randint(0, 3), step)])
        there = list((Counter(there) - Counter(gone) + Counter(new)).elements())
        agree(db)
        for name, feed in feeds.items():
            for *values, kind, copies in changes(feed):
                told[name][repr(tuple(values))] += copies if "insert" in kind or "post" in kind else -copies
            assert +told[name] == Counter(map(repr, db.view(name))), name
    db.save(tmp_path / "saved")
    again = ev.Database.load(tmp_path / "saved")
    agree(again)
    again.delete("t", there[::2])
    agree(again)
    again.delete("t", there[1::2])
    assert list(again.view("grouped")) == []


def changes(feed: Any) -> Iterator[tuple[Any, ...]]:
    for batch in feed.read():
        names = [n for n in batch.schema.names if not n.startswith("_")]
        for change in batch.to_pylist():
            yield (*(change[n] for n in names), change["_change_type"], change["_count"])


def test_a_refused_batch_changes_nothing() -> None:
    db = ev.Database()
    db.sql(TABLES)
    db.sql(f"CREATE MATERIALIZED VIEW v AS {QUERIES['all']}")
    db.sql("CREATE MATERIALIZED VIEW fails AS SELECT 1 div n AS x FROM t")
    r = random.Random(5)
    good = [w for w in (row(r) for _ in range(20)) if w[2] != 0]
    db.insert("t", good)
    before = ordered(db.view("v"))
    with pytest.raises(DataError):
        db.insert("t", [*good[:5], (1, 1, 0, 0.5, "b", None)])
    assert ordered(db.view("v")) == before
    db.insert("t", good[:1])
    db.delete("t", good[:1])
    assert ordered(db.view("v")) == before


def test_over_no_input() -> None:
    db = ev.Database()
    db.sql(TABLES)
    db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {OUTPUTS} FROM t")
    (found,) = db.view("v")
    there = {call: value for call, value in zip(LISTED, found, strict=True) if value is not None}
    assert there == {call: [] for call in LISTED[:3]} | {"count(DISTINCT n, s)": 0}


def test_ties_are_broken_by_value() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE t (k INT, v STRING)")
    db.sql(
        "CREATE VIEW v AS SELECT max_by(v, k) AS a, min_by(v, k) AS b, mode(v) AS c, "
        "mode() WITHIN GROUP (ORDER BY v DESC) AS d, first(v) AS e, last(v) AS f FROM t"
    )
    db.insert("t", [(1, "b"), (1, "a"), (1, "c"), (None, "z"), (0, None)])
    assert list(db.view("v")) == [("c", None, "a", "z", "a", "z")]
    db.delete("t", [(0, None), (1, "c")])
    assert list(db.view("v")) == [("b", "a", "a", "z", "a", "z")]


@pytest.mark.parametrize(
    "call",
    ["max_by(x, k)", "min_by(s, x)", "median(x)", "percentile_disc(0.9) WITHIN GROUP (ORDER BY k)", "corr(k, x)"],
)
def test_steps_grow_with_the_logarithm_at_most(call: str) -> None:
    def steps(size: int) -> float:
        db = ev.Database()
        db.sql("CREATE TABLE t (g INT, k INT, x DOUBLE, s STRING)")
        db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT g, {call} AS y FROM t GROUP BY g")
        feed = db.view("v").changes()
        db.insert("t", [(i % 2, i * 7 % size, i / 8, f"s{i * 11 % size}") for i in range(size)])
        feed.read()
        before = db.view("v").stats()["steps"]
        for i in range(20):
            db.insert("t", [(0, size + i, -float(i), "a")])
            db.delete("t", [(0, size + i, -float(i), "a")])
        return float(db.view("v").stats()["steps"] - before)

    few, many = steps(200), steps(6_400)
    assert many <= 2 * few + 20
