"""Tables can be read and changed by key: what a user holds of a table, upserts and deletions by key."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import date
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import everview as ev
from everview.errors import (
    ClosedError,
    KeyViolationError,
    NullViolationError,
    OverDeleteError,
    RowShapeError,
    SchemaError,
    StaleReadError,
    UnknownTableError,
    ValueTypeError,
)

DAY = date(2026, 1, 2)
ORDERS = [(1, "ann", 2.5), (2, "bob", None), (3, None, 0.0)]


def shop() -> ev.Database:
    db = ev.Database()
    db.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, who STRING, pay DOUBLE)")
    db.sql("CREATE TABLE pairs (a STRING, b DATE, n INT, PRIMARY KEY (b, a))")
    db.sql("CREATE TABLE bag (x BIGINT, s STRING)")
    db.sql("CREATE MATERIALIZED VIEW paid AS SELECT who, COUNT(*) AS n FROM orders GROUP BY who")
    db.insert("orders", ORDERS)
    return db


def keyless(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple((v is None, v) for v in row)


# --- reading ---------------------------------------------------------------------------------------------------------


def test_a_table_is_read_as_it_is() -> None:
    db = shop()
    orders = db.table("ORDERS")
    assert orders.name == "orders"
    assert len(orders) == 3
    assert bool(orders)
    assert sorted(orders) == ORDERS
    assert (1, "ann", 2.5) in orders
    assert (1, "ann", 3.5) not in orders
    assert (3, None, -0.0) in orders
    assert orders.to_arrow().schema == pa.schema([("id", pa.int64()), ("who", pa.string()), ("pay", pa.float64())])
    assert sorted(map(tuple, (r.values() for r in orders.to_arrow().to_pylist()))) == ORDERS
    assert sorted(orders.to_pandas()["id"]) == [1, 2, 3]
    assert orders.primary_key == ("id",)


def test_copies_count() -> None:
    db = shop()
    bag = db.table("bag")
    assert not bag
    assert (len(bag), list(bag), bag.to_arrow().num_rows) == (0, [], 0)
    db.insert("bag", [(1, "a"), (1, "a"), (2, "b")])
    assert (len(bag), sorted(bag)) == (3, [(1, "a"), (1, "a"), (2, "b")])
    assert sorted(bag.to_arrow()["x"].to_pylist()) == [1, 1, 2]
    db.delete("bag", [(1, "a")])
    assert (1, "a") in bag
    db.delete("bag", [(1, "a")])
    assert (1, "a") not in bag
    assert len(bag) == 1


def test_rows_by_key() -> None:
    db = shop()
    orders = db.table("orders")
    assert orders.get(1) == orders.get((1,)) == (1, "ann", 2.5)
    assert orders.get(2) == (2, "bob", None)
    for missing in (4, -1, None, "1", 2**70, 1.5):
        assert orders.get(missing) is None
    pairs = db.table("pairs")
    db.insert("pairs", [("x", DAY, 1), ("y", DAY, 2)])
    assert pairs.get((DAY, "x")) == ("x", DAY, 1)
    assert pairs.get((DAY, "never stored")) is None
    with pytest.raises(RowShapeError, match="which has 2 columns: b, a"):
        pairs.get(DAY)
    with pytest.raises(RowShapeError, match="is no key of orders"):
        orders.get((1, 2))
    with pytest.raises(SchemaError, match="bag has no primary key"):
        db.table("bag").get(1)


def test_looking_up_keys_does_not_disturb_a_loop() -> None:
    db = shop()
    orders = db.table("orders")
    assert all(orders.get(row[0]) == row for row in orders)


def test_a_loop_ends_when_the_table_changes() -> None:
    db = shop()
    db.insert("bag", [(i, "s") for i in range(70_000)])  # more than are read at once
    rows = iter(db.table("bag"))
    next(rows)
    db.insert("bag", [(-1, "s")])
    with pytest.raises(StaleReadError, match="bag has changed"):
        list(rows)


def test_what_is_no_table_or_no_row() -> None:
    db = shop()
    with pytest.raises(UnknownTableError, match="there is no table nothing"):
        db.table("nothing")
    with pytest.raises(UnknownTableError, match="paid is a view"):
        db.table("paid")
    with pytest.raises(RowShapeError, match="has 3 columns, not 2"):
        assert (1, 2) in db.table("orders")
    with pytest.raises(RowShapeError, match="holds rows"):
        assert 1 in db.table("orders")


# --- Arrow and notebooks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["orders", "paid"])
def test_tables_and_views_speak_arrow(name: str) -> None:
    db = shop()
    found: Any = db.table(name) if name in db.tables else db.view(name)
    assert pa.table(found).equals(found.to_arrow())
    assert pa.RecordBatchReader.from_stream(found).read_all().equals(found.to_arrow())
    read = duckdb.sql("SELECT COUNT(*) FROM found").fetchall()
    assert read == [(len(found),)]
    other = shop()
    if name == "orders":
        other.upsert("orders", found)
        assert sorted(other.table("orders")) == ORDERS


def test_repr_says_what_it_is() -> None:
    db = shop()
    assert repr(db.table("orders")) == "<Table orders(id BIGINT, who STRING, pay DOUBLE, PRIMARY KEY (id)): 3 rows>"
    assert repr(db.table("bag")) == "<Table bag(x BIGINT, s STRING): 0 rows>"
    assert repr(db.view("paid")) == "<View paid(who STRING, n BIGINT)>"


def test_notebooks_show_the_first_rows() -> None:
    db = shop()
    shown = db.table("orders")._repr_html_()
    assert "<th>who</th>" in shown
    assert ">ann<" in shown
    assert "(3 rows)" in shown
    db.insert("bag", [(i % 2, "<b>") for i in range(50)])
    assert "&lt;b&gt;" in db.table("bag")._repr_html_()
    assert "(50 rows, the first 20 shown)" in db.table("bag")._repr_html_()
    assert "(3 rows)" in db.view("paid")._repr_html_()
    db.sql("CREATE MATERIALIZED VIEW all_of AS SELECT s, x FROM bag")
    html = db.view("all_of")._repr_html_()
    assert html.count("<tr>") == 21
    assert "the first 20 rows, there are more" in html


# --- by key ----------------------------------------------------------------------------------------------------------


def test_deleting_by_key() -> None:
    db = shop()
    db.delete("orders", keys=[1, 3])
    assert list(db.table("orders")) == [(2, "bob", None)]
    assert list(db.view("paid")) == [("bob", 1)]
    db.delete("orders", keys={2})
    assert len(db.table("orders")) == 0
    db.insert("pairs", [("x", DAY, 1), ("y", DAY, 1)])
    db.delete("pairs", keys=[(DAY, "x")])
    db.delete("pairs", keys=pa.table({"a": ["y"], "b": [DAY]}))
    assert len(db.table("pairs")) == 0
    assert len(db._dictionary) == 0


@pytest.mark.parametrize(
    ("keys", "error", "words"),
    [
        ([1, 7], OverDeleteError, r"key 1 of those to delete from orders, \(7\)"),
        ([1, 1], OverDeleteError, "row 1 of the changes to orders"),
        (["a"], ValueTypeError, "column id"),
        ([None], NullViolationError, "primary key"),
        ([(1, 2)], RowShapeError, "2 values, a row has 1"),
        (5, RowShapeError, "takes a list of keys, and 5 is none"),
        ("12", RowShapeError, "takes a list of keys, and '12' is none"),
    ],
)
def test_keys_that_cannot_be_deleted(keys: Any, error: type[Exception], words: str) -> None:
    db = shop()
    with pytest.raises(error, match=words):
        db.delete("orders", keys=keys)
    assert sorted(db.table("orders")) == ORDERS


def test_deletions_are_of_rows_or_of_keys() -> None:
    db = shop()
    with pytest.raises(RowShapeError, match="rows and keys"):
        db.delete("orders", ORDERS, keys=[1])
    with pytest.raises(RowShapeError, match="neither rows nor keys"):
        db.delete("orders")
    with pytest.raises(SchemaError, match="bag has no primary key"):
        db.delete("bag", keys=[1])
    with db.batch() as batch, pytest.raises(RowShapeError, match="neither"):
        batch.delete("orders")
    assert len(db.table("orders")) == 3


def test_a_batch_resolves_keys_when_it_is_applied_in_order() -> None:
    db = shop()
    with db.view("paid").changes() as feed, db.batch() as batch:
        batch.insert("orders", [(9, "new", 1.0)])
        batch.upsert("orders", [(9, "newer", 2.0), (1, "ann", 9.0), (10, "last", 0.0)])
        batch.delete("orders", keys=[10, 2])
        batch.upsert("orders", [(2, "bob", 4.0), (2, "rob", 5.0)])
        db.delete("orders", keys=[3])  # another batch, which comes before
        feed.read()
    assert sorted(db.table("orders")) == [(1, "ann", 9.0), (2, "rob", 5.0), (9, "newer", 2.0)]
    assert sorted(db.view("paid")) == [("ann", 1), ("newer", 1), ("rob", 1)]
    with pytest.raises(ClosedError):
        batch.upsert("orders", [])
    with pytest.raises(SchemaError, match="bag has no primary key"), db.batch() as batch:
        batch.upsert("bag", [(1, "a")])


def test_a_refused_batch_takes_its_upserts_back() -> None:
    db = shop()

    def refused() -> None:
        with db.batch() as batch:
            batch.upsert("orders", [(1, "gone", 0.0), (50, "new", 0.0)])
            batch.delete("orders", keys=[50])
            batch.insert("orders", [(2, "twice", 0.0)])

    with pytest.raises(KeyViolationError):
        refused()
    assert sorted(db.table("orders")) == ORDERS
    assert sorted(db.view("paid"), key=keyless) == sorted([("ann", 1), ("bob", 1), (None, 1)], key=keyless)


def test_random_batches_by_key_are_as_in_duckdb() -> None:
    """Inserts, upserts and deletions by key in one batch, resolved in order, against DuckDB's own."""
    draw = random.Random(5)
    db = ev.Database()
    db.sql("CREATE TABLE t (k STRING, j INT, v BIGINT, PRIMARY KEY (k, j))")
    db.sql("CREATE MATERIALIZED VIEW sums AS SELECT k, SUM(v) AS s, COUNT(*) AS n FROM t GROUP BY k")
    oracle = duckdb.connect()
    oracle.execute("CREATE TABLE t (k VARCHAR, j INT, v BIGINT, PRIMARY KEY (k, j))")
    for _ in range(40):
        with db.batch() as batch:
            for _ in range(draw.randrange(1, 4)):
                rows = [(f"k{draw.randrange(4)}", draw.randrange(4), draw.randrange(100)) for _ in range(3)]
                there = oracle.execute("SELECT k, j FROM t").fetchall()
                if draw.random() < 0.6 or not there:
                    batch.upsert("t", rows)
                    oracle.executemany("INSERT OR REPLACE INTO t VALUES (?, ?, ?)", rows)
                else:
                    keys = draw.sample(there, draw.randrange(1, len(there) + 1))
                    batch.delete("t", keys=keys)
                    oracle.executemany("DELETE FROM t WHERE k = ? AND j = ?", keys)
        assert sorted(db.table("t")) == oracle.execute("SELECT * FROM t ORDER BY ALL").fetchall()
        wanted = oracle.execute("SELECT k, SUM(v), COUNT(*) FROM t GROUP BY k ORDER BY k").fetchall()
        assert sorted(db.view("sums")) == wanted


@pytest.mark.slow
def test_many_upserts_take_no_longer_than_deletions_and_insertions() -> None:
    """One pass over all keys, where there was a cursor a key. The best of three each, with room."""
    size = 50_000
    old = pa.table({"id": range(size), "who": [f"w{i}" for i in range(size)], "pay": [1.0] * size})
    new = old.set_column(2, "pay", pa.array([2.0] * size))

    def measured(act: Callable[[ev.Database], None]) -> float:
        times = []
        for _ in range(3):
            db = shop()
            db.delete("orders", ORDERS)
            db.insert("orders", old)
            start = time.process_time()
            act(db)
            times.append(time.process_time() - start)
            assert len(db.table("orders")) == size
            assert db.table("orders").get(7) == (7, "w7", 2.0)
        return min(times)

    def two_steps(db: ev.Database) -> None:
        db.delete("orders", old)
        db.insert("orders", new)

    assert measured(lambda db: db.upsert("orders", new)) < 3 * measured(two_steps)


@pytest.mark.parametrize("key", [{"k": 1}, {1}, range(1)])
def test_what_is_no_value_is_no_key(key: object) -> None:
    """A dict was looked up as a value, and so was never found though its row was there."""
    db = ev.Database()
    db.sql("CREATE TABLE t (k INT PRIMARY KEY, x INT)")
    db.insert("t", [(1, 2)])
    with pytest.raises(RowShapeError, match="is no key of t"):
        db.table("t").get(key)
