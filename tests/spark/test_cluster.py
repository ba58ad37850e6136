"""Views over shards equal views in one database, and DuckDB: random views, data, shards and batch boundaries."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal
from itertools import product
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.engine.clock import microseconds
from everview.engine.shard_interface import scan
from everview.errors import DataError, PipelineError
from everview.plan.shards import MOST_OCCURRENCES
from everview.spark.exchange.arrow_blob import WEIGHT
from everview.spark.shard.shard import Shard
from everview.sql import parse_schema
from tests.engine.bags import Bag, differences
from tests.engine.case_data import Case
from tests.engine.differential import Run
from tests.engine.generator import make_case
from tests.scale import scaled, thoroughness
from tests.spark.cluster import Cluster, Row

SEEDS = scaled(9)


def history(case: Case) -> tuple[dict[str, str], list[dict[str, list[Row]]], dict[str, Bag]]:
    """The views that DuckDB and Everview accept, the tables after each step, and the views at the end."""
    run = Run(case)
    states = []
    try:
        for step in case.steps:
            if step.kind != "rules":
                run._step(step)
                states.append({name: list(rows) for name, rows in run.model.items()})
        views = {s.name: s.text for s in run.made}
        wanted = {name: w for name in views if (w := run._known(name)) is not None}
    finally:
        for step in reversed(case.steps):
            if step.kind == "view":
                run.duck.execute(f"DROP VIEW IF EXISTS {step.name}")
        for name in run.tables:
            run.duck.unregister(name)
    return views, states, wanted


def time_at_the_end(case: Case) -> int | None:
    """What time it is after the last step, if the case goes by the clock."""
    hours = sum(int(step.option) for step in case.steps if step.kind == "advance")
    return None if case.clock is None else microseconds(case.clock + timedelta(hours=hours))


def batches(states: list[dict[str, list[Row]]], r: random.Random) -> list[dict[str, list[tuple[Row, int]]]]:
    """The way from nothing to the last state, cut into batches at random; rows may come and go within one."""
    chosen = [*sorted(r.sample(range(len(states)), r.randint(0, min(3, len(states) - 1)))), len(states) - 1]
    found, before = [], {name: Counter[Any]() for name in states[0]}
    for i in chosen:
        after = {name: Counter(rows) for name, rows in states[i].items()}
        batch: dict[str, list[tuple[Row, int]]] = {}
        for name, rows in after.items():
            changed = [(row, 1) for row in (rows - before[name]).elements()]
            changed += [(row, -1) for row in (before[name] - rows).elements()]
            if rows and r.random() < 0.3:
                passing = r.choice(list(rows))
                changed += [(passing, 1), (passing, -1)]
            r.shuffle(changed)
            batch[name] = changed
        found.append(batch)
        before = after
    return found


@pytest.mark.parametrize("seed", range(SEEDS))
def test_shards_together_are_the_view(seed: int) -> None:
    case = make_case(seed + 50_005)
    views, states, wanted = history(case)
    if not views:
        return
    schema = parse_schema(";".join(t.ddl() for t in case.tables))
    r = random.Random(seed)
    for shards in (r.choice((1, 2)), r.choice((2, 3, 5, 6, 8))):
        try:
            cluster = Cluster(views, schema, shards)
        except PipelineError as error:
            if f"shards tell {MOST_OCCURRENCES} apart" in error.message:
                return  # the views have a table more often than that, together
            raise
        try:
            for batch in batches(states, r):
                cluster.apply(batch, time_at_the_end(case))
                if r.random() < 0.3:
                    cluster.rebuild()
        except DataError as error:
            if "64 bits" in error.message or "cannot be computed" in error.message:
                return  # sums meet other states on other ways, and may leave 64 bits on one of them only
            raise
        for name, expected in wanted.items():
            more, fewer = differences(cluster.results[name], expected)
            shown = f"{shards} shards, {name}: too much {more}, missing {fewer}\n{cluster.distribution}\n{case.show()}"
            assert (more, fewer) == (Counter(), Counter()), shown


@pytest.mark.parametrize("operator", ["UNION", "INTERSECT", "EXCEPT", "UNION ALL"])
def test_members_of_different_types_meet(operator: str) -> None:
    schema = parse_schema("CREATE TABLE a (x DECIMAL(10,2)); CREATE TABLE b (y DECIMAL(12,4)); CREATE TABLE c (z INT)")
    sql = f"SELECT x FROM a {operator} SELECT y FROM b {operator} SELECT z FROM c"
    rows = [Decimal(n) / 2 for n in range(20)]
    cluster = Cluster({"v": sql}, schema, 5)
    single = Cluster({"v": sql}, schema, 1)
    batch = {
        "a": [((x,), 1) for x in rows],
        "b": [((x,), 1) for x in rows[::2]],
        "c": [((int(x),), 1) for x in rows[::4]],
    }
    for each in (cluster, single):
        each.apply(batch)
        each.apply({"b": [((rows[0],), -1), ((rows[4],), -1)]})
    assert (cluster.distribution.merge is None) == (operator == "UNION ALL")  # Its members go each by a column.
    assert cluster.results == single.results
    assert cluster.results["v"]


@pytest.mark.parametrize("operator", ["UNION", "INTERSECT", "EXCEPT"])
def test_nested_values_of_members_meet(operator: str) -> None:
    schema = parse_schema(
        "CREATE TABLE a (x ARRAY<INT>, s STRUCT<p: INT, q: ARRAY<STRING>>); "
        "CREATE TABLE b (x ARRAY<BIGINT>, s STRUCT<p: BIGINT, q: ARRAY<STRING>>)"
    )
    sql = f"SELECT x, s FROM a {operator} SELECT x, s FROM b"
    lists = [None, [], [None], [1], [1, 2], [2, 1], [1, 2, 3]]
    rows = [
        (x, s) for x in lists for s in (None, {"p": None, "q": []}, {"p": 1, "q": ["a", None]}, {"p": 1, "q": None})
    ]
    cluster, single = Cluster({"v": sql}, schema, 5), Cluster({"v": sql}, schema, 1)
    for each in (cluster, single):
        each.apply({"a": [(row, 1) for row in rows], "b": [(row, 1) for row in rows[::2]]})
        each.apply({"a": [(rows[1], -1)], "b": [(rows[0], -1), (rows[4], -1)]})
    assert cluster.distribution.merge is not None
    assert cluster.results == single.results
    assert cluster.results["v"]


@pytest.mark.parametrize("shards", [2, 3, 6])
def test_a_second_row_of_a_key_is_noticed_wherever_its_other_columns_lead(shards: int) -> None:
    schema = parse_schema(
        "CREATE TABLE p (id BIGINT NOT NULL, city STRING, boss BIGINT, PRIMARY KEY (id)); CREATE TABLE c (name STRING)"
    )
    views = {
        "by_city": "SELECT city, COUNT(*) AS n FROM p GROUP BY city",
        "in_c": "SELECT p.id, c.name FROM p JOIN c ON p.city = c.name",
    }
    single, cluster = (Cluster(views, schema, n) for n in (1, shards))
    first = {"p": [((i, f"c{i % 5}", i // 2), 1) for i in range(20)], "c": [((f"c{i}",), 1) for i in range(4)]}
    moved = {"p": [((3, "c3", 1), -1), ((3, "c9", 7), 1), ((4, "c4", 2), -1)]}
    for batch in (first, moved):
        single.apply(batch)
        cluster.apply(batch)
    cluster.rebuild()
    assert cluster.results == single.results
    before = [_rows_of(shard) for shard in cluster.shards[0]]
    for key, city in product((3, 5, 6, 12), [f"c{i}" for i in range(9)]):
        if city == f"c{key % 5}":
            continue
        with pytest.raises(DataError, match="key"):
            cluster.apply({"p": [((key, city, 1), 1)]})
        for shard in cluster.shards[0]:  # The shards that did take the row give it back, as Spark's do.
            for name, data, weight in _held(shard, key, city):
                shard.apply({name: [data.append_column(WEIGHT, pc.negate(weight))]})
    assert [_rows_of(shard) for shard in cluster.shards[0]] == before


BY_KEY = "SELECT id, MAX(city) AS city FROM p GROUP BY id"
BY_CITY = "SELECT city, COUNT(*) AS n, MIN(id) AS least FROM p GROUP BY city"
TWINS = "SELECT a.city, COUNT(*) AS n, MIN(b.id) AS least FROM p a JOIN p b ON a.city = b.city GROUP BY a.city"
"""Spreads people by their city, so that under quarantine they pass a step by key."""
PEOPLE = "CREATE TABLE p (id BIGINT NOT NULL, city STRING, PRIMARY KEY (id))"


@pytest.mark.parametrize("sql", [BY_KEY, BY_CITY, TWINS])
@pytest.mark.parametrize("shards", [1, 2, 3])
def test_a_row_whose_key_is_taken_is_put_aside_wherever_rows_are_spread(sql: str, shards: int) -> None:
    cluster = Cluster({"v": sql}, parse_schema(PEOPLE), shards, quarantine=True)
    assert bool(cluster.step.tables) == (sql == TWINS and shards > 1)
    cluster.apply({"p": [((i, f"c{i}"), 1) for i in range(6)]})
    cluster.apply({"p": [((3, "another"), 1), ((9, "c9"), 1)]})
    assert ['"another"' in text and "its key (id)" in text for text in cluster.bad] == [True]
    _equals_duckdb(cluster, sql, [(i, f"c{i}") for i in (0, 1, 2, 3, 4, 5, 9)])
    # A row that was put aside is not there to be deleted; its key is free once the row that has it goes.
    cluster.apply({"p": [((3, "another"), -1)]})
    assert len(cluster.bad) == 2
    assert "deletes (3, 'another')" in cluster.bad[-1]
    cluster.apply({"p": [((3, "c3"), -1), ((3, "z"), 1), ((3, "another"), 1)]})
    assert len(cluster.bad) == 3
    assert '"z"' in cluster.bad[-1]
    _equals_duckdb(cluster, sql, [(i, f"c{i}") for i in (0, 1, 2, 4, 5, 9)] + [(3, "another")])


def test_of_new_rows_with_one_key_the_least_by_value_stays_whatever_the_order() -> None:
    rows = [((1, city), 1) for city in ("m", None, "b", "zz", "b")]
    for shards in (1, 2, 5):
        for turn in range(len(rows)):
            cluster = Cluster({"v": BY_CITY, "t": TWINS}, parse_schema(PEOPLE), shards, quarantine=True)
            cluster.apply({"p": rows[turn:] + rows[:turn]})
            assert cluster.results["v"] == {(None, 1, 1): 1}
            aside = Counter((b["row"]["city"], b["copies"]) for b in map(json.loads, cluster.bad))
            assert aside == {("b", 2): 1, ("m", 1): 1, ("zz", 1): 1}


@given(
    st.lists(
        st.lists(
            st.tuples(
                st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", "c", None])), st.sampled_from([1, 1, -1])
            ),
            max_size=6,
        ),
        max_size=5,
    ),
    st.integers(1, 4),
)
@thoroughness(25)
def test_shards_agree_on_what_a_keyed_table_holds(batches: list[list[tuple[Row, int]]], shards: int) -> None:
    cluster = Cluster({"v": BY_CITY, "w": BY_KEY, "t": TWINS}, parse_schema(PEOPLE), shards, quarantine=True)
    held: set[Row] = set()
    for batch in batches:
        aside = _applied(held, batch)
        before = len(cluster.bad)
        cluster.apply({"p": batch})
        found = Counter[tuple[Any, ...]]()
        for text in cluster.bad[before:]:
            told = json.loads(text)
            found[told["row"]["id"], told["row"]["city"]] += told["copies"]
        assert found == aside
        _equals_duckdb(cluster, BY_CITY, held)
    cluster.rebuild()
    cluster.apply({"p": [((7, "new"), 1)]})
    _equals_duckdb(cluster, BY_CITY, {*held, (7, "new")})


def _applied(held: set[Row], batch: list[tuple[Row, int]]) -> Counter[Row]:
    """What the rules say: rows net; those too many to go are put aside; of each key the least new row, if free."""
    net = Counter[Row]()
    for row, weight in batch:
        net[row] += weight
    aside = Counter[Row]()
    for row, copies in net.items():
        if copies < 0 and (row not in held or copies < -1):
            aside[row] = copies
        elif copies < 0:
            held.discard(row)
    taken = {row[0] for row in held}
    for row in sorted((r for r, n in net.items() if n > 0), key=lambda r: (r[0], r[1] is not None, r[1] or "")):
        spare = net[row] - (row[0] not in taken)
        if row[0] not in taken:
            held.add(row)
        taken.add(row[0])
        if spare:
            aside[row] = spare
    return aside


def _equals_duckdb(cluster: Cluster, sql: str, rows: Iterable[Row]) -> None:
    with duckdb.connect() as db:
        db.execute("CREATE TABLE p (id BIGINT, city VARCHAR)")
        db.executemany("INSERT INTO p VALUES (?, ?)", [list(r) for r in rows] or [[None, None]])
        db.execute("DELETE FROM p WHERE id IS NULL")
        assert cluster.results["v"] == Counter(db.sql(sql).fetchall())


def _held(shard: Shard, key: int, city: str) -> list[tuple[str, pa.Table, pa.Array]]:
    """A row of p, if a shard has it."""
    found = []
    for data, weight in scan(shard.db, "p"):
        mask = pc.and_(pc.equal(data.column("id"), key), pc.equal(data.column("city"), city))
        if pc.any(mask).as_py():
            found.append(("p", pa.table(data.filter(mask)), weight.filter(mask)))
    return found


def _rows_of(shard: Shard) -> Counter[Row]:
    """The rows of p that a shard has."""
    return Counter(tuple(r.values()) for data, _ in scan(shard.db, "p") for r in data.to_pylist())
