"""A batch is judged by its end: what an expression fails on may come and go within it, in any order and any slices.

The oracle is DuckDB on the tables' end state: where it fails, the batch must be refused and change nothing; else the
batch must be taken, and the views be what DuckDB computes.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import everview as ev
from everview.engine import transaction
from everview.errors import DataError, ExpressionError
from everview.query.schema import Column, Schema, Table
from everview.sql.duckdb import duckdb_query, open_duckdb
from tests.scale import scaled

Operation = tuple[str, str, tuple[int, ...]]
"""insert or delete, a table and a row."""

CONNECTION = open_duckdb(threads=1, locked=False)
TABLES = {"a": ("k", "x"), "b": ("k", "y")}
VIEWS = {
    "joined": "SELECT a.k, 10 / (a.x - b.y) AS q FROM a JOIN b ON a.k = b.k",
    "across": "SELECT a.k FROM a JOIN b ON a.k = b.k WHERE 10 / (a.x - b.y) > 1",
    "computed": "SELECT k, 10 / x AS q FROM a",
    "different": "SELECT DISTINCT 10 / x AS q FROM a",
    "filtered": "SELECT k FROM a WHERE 10 / x > 1",
    "guarded": "SELECT k, x FROM a WHERE x <> 0 AND 10 / x > 1",
    "guarded_key": "SELECT 10 div x AS q, COUNT(*) AS n FROM a WHERE x <> 0 GROUP BY 10 div x",
    "guarded_sum": "SELECT k, SUM(10 div x) AS s FROM a WHERE x <> 0 GROUP BY k",
    "keyed": "SELECT 10 div x AS q, COUNT(*) AS n FROM a GROUP BY 10 div x",
    "over_sums": "SELECT k, 10 / SUM(x) AS q FROM a GROUP BY k",
    "of_groups": "SELECT k, COUNT(*) AS n FROM a GROUP BY k HAVING 10 / SUM(x) > 1",
    "summed": "SELECT k, COUNT(*) AS n, SUM(10 div x) AS s FROM a GROUP BY k",
    "summed_across": "SELECT a.k, SUM(10 div (a.x - b.y)) AS s FROM a JOIN b ON a.k = b.k GROUP BY a.k",
    "listed": "SELECT k, COUNT(*) AS n, SUM(10 div x) AS s, MAX(x) AS m FROM a GROUP BY k",
    "listed_itself": "SELECT k, COUNT(*) AS n, MIN(10 div x) AS m, COUNT(DISTINCT 10 div x) AS d FROM a GROUP BY k",
    "staged": "SELECT k, 10 / s AS q FROM (SELECT k, SUM(x) AS s FROM a GROUP BY k) g",
    "united": "SELECT 10 div x AS q FROM a UNION SELECT 10 div y FROM b",
    "without": "SELECT 10 div x AS q FROM a EXCEPT SELECT 10 div y FROM b",
    "self": "SELECT one.k, 10 / (one.x + two.x) AS q FROM a one JOIN a two ON one.k = two.k",
}
STACKED = {
    "below": "SELECT k, SUM(x) AS s FROM a GROUP BY k",
    "above": "SELECT k, 10 / s AS q FROM below",
    "aside": "SELECT b.k, 10 / (below.s - b.y) AS q FROM below JOIN b ON below.k = b.k",
}


def made(*views: str) -> ev.Database:
    db = ev.Database()
    for table, columns in TABLES.items():
        db.sql(f"CREATE TABLE {table} ({', '.join(f'{c} INT' for c in columns)})")
    for name in views:
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {(VIEWS | STACKED)[name]}")
    return db


@cache
def _translated(query: str, schema: Schema) -> str:
    return duckdb_query(query, schema)


def schema_of(db: ev.Database) -> Schema:
    """The tables, and the views as if they were tables."""
    views = [Table(n, tuple(Column(c.name, c.type) for c in v.view.columns)) for n, v in db._views.items()]
    return Schema((*(t.schema for t in db._tables.values()), *views))


class Oracle:
    """The tables as they are, and what DuckDB says of a query over them."""

    def __init__(self) -> None:
        self.rows: dict[str, Counter[tuple[Any, ...]]] = {name: Counter() for name in TABLES}

    def after(self, operations: list[Operation]) -> Oracle:
        found = Oracle()
        for name, rows in self.rows.items():
            found.rows[name] = Counter(rows)
        for kind, table, row in operations:
            found.rows[table][row] += 1 if kind == "insert" else -1
        return found

    def answer(self, query: str, schema: Schema, further: dict[str, str] | None = None) -> Counter[Any] | None:
        """None if it fails."""
        connection = CONNECTION
        for name, columns in TABLES.items():
            rows = list(self.rows[name].elements())
            arrays = [pa.array([r[i] for r in rows], pa.int32()) for i in range(len(columns))]
            connection.register(name, pa.table(arrays, names=list(columns)))
        for name, text in (further or {}).items():
            connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {_translated(text, schema)}")
        try:
            found = connection.sql(_translated(query, schema)).fetchall()
        except duckdb.Error:
            return None
        return Counter(found)


def run(db: ev.Database, operations: list[Operation]) -> bool:
    """One batch; whether it was taken."""
    try:
        with db.batch() as batch:
            for kind, table, row in operations:
                (batch.insert if kind == "insert" else batch.delete)(table, [row])
    except ExpressionError:
        return False
    return True


def told(feed: Any) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for batch in feed.read():
        for row in batch.to_pylist():
            *values, kind, _, count = [v for name, v in row.items() if name != "_update"]
            found[tuple(values)] += count * (1 if kind in ("insert", "update_postimage") else -1)
    return Counter({row: n for row, n in found.items() if n})


# --- the examples --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("feed", [None, False, True])
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_order_within_a_batch_does_not_decide(order: tuple[int, ...], feed: bool | None) -> None:
    db = made("joined")
    db.insert("a", [(1, 3)])
    changes = None if feed is None else db.view("joined").changes(per_update=feed)
    steps: list[Operation] = [("insert", "b", (1, 3)), ("delete", "a", (1, 3)), ("insert", "a", (1, 5))]
    assert run(db, [steps[i] for i in order])
    assert list(db.view("joined")) == [(1, 5.0)]
    if changes is not None:
        assert told(changes) == Counter({(1, 5.0): 1})


def test_a_row_that_comes_and_goes() -> None:
    db = made("computed", "different", "filtered", "summed")
    with db.batch() as batch:
        batch.insert("a", [(1, 0), (1, 5)])
        batch.delete("a", [(1, 0)])
    assert list(db.view("computed")) == [(1, 2.0)]
    assert list(db.view("summed")) == [(1, 1, 2)]
    with pytest.raises(ExpressionError):
        db.insert("a", [(2, 0)])
    assert list(db.view("different")) == [(2.0,)]


@pytest.mark.parametrize("view", ["over_sums", "of_groups", "staged", "above"])
def test_a_sum_passes_through_zero(view: str) -> None:
    db = made(*(["below"] if view == "above" else []), view)
    db.insert("a", [(1, 5)])
    feed, single = db.view(view).changes(), db.view(view).changes(per_update=True)
    with db.batch() as batch:
        batch.insert("a", [(1, -5)])
        batch.insert("a", [(1, 7)])
    expected = {"of_groups": (1, 3)}.get(view, (1, 10 / 7))
    assert list(db.view(view)) == [expected]
    before = {"of_groups": (1, 1)}.get(view, (1, 2.0))
    assert told(feed) == told(single) == Counter({expected: 1, before: -1})


def test_a_parked_row_is_absent_from_a_feed_of_single_updates() -> None:
    db = made("over_sums")
    db.insert("a", [(1, 5)])
    feed = db.view("over_sums").changes(per_update=True)
    with db.batch() as batch:
        batch.insert("a", [(1, -5)])
        batch.insert("a", [(1, 7)])
    rows = [(r["_update"], r["_change_type"], r["q"]) for b in feed.read() for r in b.to_pylist()]
    assert rows == [(0, "delete", 2.0), (1, "insert", 10 / 7)]


@pytest.mark.parametrize("with_feed", [False, True])
def test_between_slices_of_a_large_batch(with_feed: bool) -> None:
    db = made("over_sums")
    if with_feed:
        db.view("over_sums").changes()
    size = 2 * transaction.MOST_AT_ONCE
    xs = [1] + [0] * (transaction.MOST_AT_ONCE - 2) + [-1] + [0] * transaction.MOST_AT_ONCE + [7]
    assert len(xs) == size + 1
    db.insert("a", pa.table([pa.repeat(pa.scalar(1, pa.int32()), len(xs)), pa.array(xs, pa.int32())], ["k", "x"]))
    assert list(db.view("over_sums")) == [(1, 10 / 7)]


def test_a_row_parked_for_one_aggregate_is_seen_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """SUM has no value for it, MAX has: on the way the group's MAX changes alone, which no feed must mistake."""
    monkeypatch.setattr(transaction, "MOST_AT_ONCE", 1)
    db = made("listed")
    db.insert("a", [(1, -1)])
    feed = db.view("listed").changes()
    with db.batch() as batch:
        batch.insert("a", [(1, 0)])
        batch.insert("a", [(1, -2)])
        batch.delete("a", [(1, 0)])
    assert list(db.view("listed")) == [(1, 2, -15, -1)]
    assert told(feed) == Counter({(1, 1, -10, -1): -1, (1, 2, -15, -1): 1})


def test_filling_and_what_is_left_at_its_end() -> None:
    db = made()
    db.insert("a", [(1, 0)])
    for name in ("computed", "filtered", "over_sums", "summed"):
        with pytest.raises(ExpressionError, match=name):
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
    assert db.views == ()
    db.sql(f"CREATE MATERIALIZED VIEW joined AS {VIEWS['joined']}")
    db.insert("b", [(1, 4)])
    assert list(db.view("joined")) == [(1, -2.5)]


def test_a_million_passing_failures_are_few_values() -> None:
    """Many rows of a join that fail on the way are counted in the kernel."""
    db = made("joined")
    db.insert("a", [(1, 1)] * 400 + [(1, 2)])
    many = [(1, 1)] * 400
    with db.batch() as batch:
        batch.insert("b", many)
        batch.delete("b", many)
        batch.insert("b", [(1, 3)])
    assert Counter(db.view("joined")) == Counter({(1, -5.0): 400, (1, -10.0): 1})


# --- what the error says ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("view", "said"),
    [
        ("joined", ["joined", "column q", "x = 3, y = 3", "row 1 of the changes to b"]),
        ("computed", ["computed", "column q", "x = 0", "row 1 of the changes to a"]),
        ("filtered", ["filtered", "condition 10 / x > 1", "x = 0", "row 1 of the changes to a"]),
        ("over_sums", ["over_sums", "column q", "k = 7", "sum(x) = 0"]),
        ("of_groups", ["of_groups", "HAVING 10 / sum(x) > 1", "k = 7", "sum(x) = 0"]),
        ("summed", ["summed", "10 DIV x", "x = 0"]),
        ("listed_itself", ["listed_itself", "10 DIV x", "x = 0"]),
        ("staged", ["staged", "column q", "s = 0"]),
    ],
)
def test_the_error_names_view_column_and_row(view: str, said: list[str]) -> None:
    db = made(view)
    db.insert("a", [(7, 3)])
    x = {"joined": 3, "over_sums": -3, "of_groups": -3, "staged": -3}.get(view, 0)
    with pytest.raises(ExpressionError) as caught:
        db.insert("b" if view == "joined" else "a", [(1, 1), (7, x)])
    for part in (*said, "division by zero", "nothing has changed"):
        assert part in caught.value.message, part
    assert list(db.table("a")) == [(7, 3)]
    if "column q" in said:
        assert caught.value.column == "q"


def test_values_that_their_type_does_not_hold_are_judged_by_the_end_as_well() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE t (d DATE, n INT, b BIGINT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT date_add(d, n) AS e, b - 1 AS c FROM t")
    from datetime import date

    for bad in ((date(9999, 12, 31), 1, 1), (date(2000, 1, 1), 1, -(2**63) + 1)):
        with db.batch() as batch:
            batch.insert("t", [bad, (date(2000, 1, 1), 1, 1)])
            batch.delete("t", [bad])
        with pytest.raises(DataError, match="v: column"):
            db.insert("t", [bad])
        assert list(db.view("v")) == [(date(2000, 1, 2), 0)]
        db.delete("t", [(date(2000, 1, 1), 1, 1)])


@pytest.mark.parametrize(("type_", "most"), [("BIGINT", 2**63 - 1), ("DECIMAL(38, 1)", 10**37 - 1)])
def test_sums_of_distinct_values_beyond_their_type_are_judged_by_the_end_as_well(type_: str, most: int) -> None:
    large, other = (Decimal(n) if type_ != "BIGINT" else n for n in (most, most - 1))
    db = ev.Database()
    db.sql(f"CREATE TABLE t (k INT, x {type_})")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT k, SUM(DISTINCT x) AS s, COUNT(*) AS n FROM t GROUP BY k")
    feed = db.view("v").changes()
    with db.batch() as batch:
        batch.insert("t", [(1, large), (1, other), (2, 5)])
        batch.delete("t", [(1, other)])
    assert Counter(db.view("v")) == told(feed) == Counter({(1, large, 1): 1, (2, 5, 1): 1})
    with pytest.raises(DataError, match=r"v: sum\(distinct x\) failed on the data for k = 1 .*: it leaves"):
        db.insert("t", [(1, 1), (2, 6)])
    assert Counter(db.view("v")) == Counter({(1, large, 1): 1, (2, 5, 1): 1})
    assert not told(feed)


# --- at random -------------------------------------------------------------------------------------------------------


def random_batch(r: random.Random, oracle: Oracle) -> list[Operation]:
    """Several operations over both tables; what is deleted is there."""
    now = oracle.after([])
    found: list[Operation] = []
    for _ in range(r.randint(1, 7)):
        table = r.choice(sorted(TABLES))
        there = sorted(now.rows[table].elements())
        if there and r.random() < 0.45:
            step: Operation = ("delete", table, r.choice(there))
        else:
            step = ("insert", table, (r.choice([0, 0, 1]), r.choice([-1, 0, 0, 1, 2])))
        found.append(step)
        now = now.after([step])
    zeros = [("delete", t, row) for t, rows in now.rows.items() for row in rows.elements() if row[1] == 0]
    return found + zeros if r.random() < 0.4 else found


def names() -> Iterator[tuple[str, ...]]:
    yield from ((name,) for name in VIEWS)
    yield ("below", "above", "aside")


@pytest.mark.parametrize("at_once", [pytest.param(1, marks=pytest.mark.slow), 1_000])
@pytest.mark.parametrize("views", list(names()), ids=lambda v: v[-1])
def test_random_batches_end_as_duckdb_says(
    views: tuple[str, ...], at_once: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(transaction, "MOST_AT_ONCE", at_once)
    r = random.Random(f"{views} {at_once}")
    db, quiet, oracle = made(*views), made(*views), Oracle()
    schema = schema_of(db)
    feeds = {v: (db.view(v).changes(), db.view(v).changes(per_update=True)) for v in views}
    shown: dict[str, Counter[Any]] = {v: Counter() for v in views}
    taken = refused = 0
    can_be_refused = not views[0].startswith("guarded")
    for round_ in range(200):
        if round_ >= scaled(12, least=7) and taken > 3 and (refused or not can_be_refused):
            break
        operations = random_batch(r, oracle)
        wanted = oracle.after(operations)
        further = {v: STACKED[v] for v in views if v in STACKED}
        answers = {v: wanted.answer((VIEWS | STACKED)[v], schema, further) for v in views}
        expected = all(answer is not None for answer in answers.values())
        assert run(db, operations) == run(quiet, operations) == expected, operations
        taken, refused = taken + expected, refused + (not expected)
        if expected:
            oracle = wanted
            for v, answer in answers.items():
                assert Counter(db.view(v)) == Counter(quiet.view(v)) == answer, (v, operations)
        for v in views:
            net, single = (told(feed) for feed in feeds[v])
            assert net == single, (v, operations)
            for row, count in net.items():
                shown[v][row] += count
            assert +shown[v] == Counter(db.view(v)), (v, operations)
        if round_ % 7 == 6:
            quiet.save(tmp_path / "db")
            quiet = ev.Database.load(tmp_path / "db")
    assert taken > 3
    assert bool(refused) == can_be_refused
