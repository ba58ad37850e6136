"""The direct way of a batch gives what the other way gives: the same results, feeds, errors and counts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import everview as ev
from everview.engine import batch as batches
from everview.engine.direct.batch import DirectBatch
from everview.engine.direct.columns import reader_of
from everview.engine.direct.views import direct_view
from everview.engine.input.read import read_rows
from everview.engine.values.words import to_words
from everview.errors import EverviewError
from tests.scale import thoroughness

TABLES = """
    CREATE TABLE t (id BIGINT, k INT, x DECIMAL(9, 2), big DECIMAL(25, 3), s STRING, d DATE, b BOOLEAN);
    CREATE TABLE u (k INT, y SMALLINT, s STRING)
"""
DIRECT = {
    "sums": "SELECT k, COUNT(*) AS n, SUM(x) AS sx, AVG(x) AS ax, SUM(id) AS si, AVG(id) AS ai FROM t GROUP BY k",
    "filtered": "SELECT s, COUNT(x) AS n, COUNT(s) AS m FROM t WHERE x > 1.5 AND (k IS NULL OR k <> 2) GROUP BY s",
    "texts": "SELECT k, COUNT(*) AS n FROM t WHERE s IN ('a', 'bb') OR s <> 'c' GROUP BY k",
    "everything": "SELECT COUNT(*) AS n, SUM(x * 2) AS s FROM t WHERE b",
    "hidden": "SELECT COUNT(*) AS n, SUM(y) AS s FROM u GROUP BY k",
    "joined": "SELECT t.s, SUM(t.x * (1 - u.y)) AS r, COUNT(*) AS n FROM t JOIN u ON t.k = u.k GROUP BY t.s",
    "twice": "SELECT a.k, COUNT(*) AS n FROM u a JOIN u b ON a.y = b.k GROUP BY a.k",
    "having": "SELECT k, SUM(x) AS s FROM t GROUP BY k HAVING SUM(x) > 3 AND COUNT(*) < 4",
    "keys": "SELECT k + 1 AS k1, d, SUM(id * id) AS q FROM t GROUP BY k + 1, d",
    "longs": "SELECT big, COUNT(*) AS n, SUM(k) AS s FROM t GROUP BY big",
    "unread": "SELECT k, SUM(id) AS s FROM t GROUP BY k",
}
PARTLY = {
    "finished by others": "SELECT k, SUM(x) / COUNT(*) AS q, upper('a') AS a FROM t GROUP BY k",
    "not in words": "SELECT upper(s) AS s, COUNT(*) AS n FROM t GROUP BY upper(s)",
    "listed": "SELECT k, MIN(x) AS low FROM t GROUP BY k",
    "plain": "SELECT id, s FROM t WHERE k = 1",
}


@contextmanager
def the_other_way() -> Iterator[None]:
    """Have no batch go the direct way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DirectBatch, "of", staticmethod(lambda db, operations: None))
        patch.setattr(batches, "given_rows", lambda base, rows, sign: None)
        yield


def database(views: dict[str, str], *, unread: str = "unread") -> tuple[ev.Database, dict[str, Any]]:
    """Tables, views, and a feed of each but one."""
    db = ev.Database()
    db.sql(TABLES)
    for name, query in views.items():
        db.create_view(name.replace(" ", "_"), query)
    return db, {name: db.view(name).changes() for name in db.views if name != unread}


T_ROWS = st.tuples(
    st.integers(-3, 3),
    st.none() | st.integers(0, 3),
    st.none() | st.decimals(-5, 5, places=2),
    st.none() | st.sampled_from([Decimal("1.5"), Decimal("-123456789012345678901.125"), Decimal(0)]),
    st.none() | st.sampled_from(["a", "bb", "c", "dé"]),
    st.none() | st.dates(date(1990, 1, 1), date(1990, 1, 3)),
    st.none() | st.booleans(),
)
U_ROWS = st.tuples(st.none() | st.integers(0, 3), st.none() | st.integers(-2, 3), st.none() | st.just("a"))
ROWS = {"t": T_ROWS, "u": U_ROWS}
STEPS = st.sampled_from(["t", "u"]).flatmap(
    lambda table: st.tuples(st.just(table), st.lists(ROWS[table], min_size=1, max_size=6), st.booleans(), st.booleans())
)


def told(feed: Any) -> list[dict[str, Any]]:
    return [row for batch in feed.read() for row in batch.to_pylist()]


def apply(db: ev.Database, steps: list[Any]) -> str | None:
    """One batch; gives what is wrong with it."""
    try:
        with db.batch() as batch:
            for table, rows, comes, as_arrow in steps:
                names = db.table(table).schema.names
                given = pa.table(
                    dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)), schema=db.table(table).schema
                )
                (batch.insert if comes else batch.delete)(table, given if as_arrow else rows)
    except EverviewError as error:
        return f"{type(error).__name__}: {error}"
    return None


def rows_of(view: Any) -> list[str]:
    return sorted(map(repr, view))


PLANS = st.lists(st.tuples(st.lists(STEPS, min_size=1, max_size=3), st.booleans()), min_size=1, max_size=5)
VIEWS = DIRECT | PARTLY


@given(PLANS, st.lists(st.sampled_from(list(VIEWS)), min_size=1, max_size=3, unique=True))
@thoroughness(40)
@pytest.mark.slow
def test_both_ways_are_one(plan: list[Any], names: list[str]) -> None:
    views = {name: VIEWS[name] for name in names}
    db, feeds = database(views)
    with the_other_way():
        other, other_feeds = database(views)
    there: dict[str, list[Any]] = {"t": [], "u": []}
    for steps, takes_back in plan:
        batch = [(table, rows, True, as_arrow) for table, rows, _, as_arrow in steps]
        if takes_back:
            batch += [(t, rows[:2], False, a) for t, rows in there.items() for a in (True,) if rows]
            batch += [(table, rows[-1:], False, as_arrow) for table, rows, comes, as_arrow in steps if not comes]
        wrong = apply(db, batch)
        with the_other_way():
            assert apply(other, batch) == wrong
        if wrong is None:
            there = {t: rows_in(db, t) for t in there}
        for name in db.views:
            assert rows_of(db.view(name)) == rows_of(other.view(name)), name
            if name in feeds:
                mine, theirs = (sorted(map(repr, told(f[name]))) for f in (feeds, other_feeds))
                assert mine == theirs, name
            kept, others = db.view(name).stats(), other.view(name).stats()
            assert kept["updates"] == others["updates"]
    for table, rows in there.items():
        if rows:
            db.delete(table, rows)
    assert all(not list(db.view(name)) for name in db.views if name != "everything")


def rows_in(db: ev.Database, table: str) -> list[Any]:
    return list(db.table(table))


@pytest.mark.parametrize("name", DIRECT)
def test_what_goes_the_direct_way(name: str) -> None:
    db, _ = database({name: DIRECT[name]})
    found = direct_view(db._views[name])
    assert found is not None
    assert found.finishes or name == "hidden"


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("sums", "directly"),
        ("finished by others", "directly, but rows are made of groups in Python"),
        ("not in words", "the other way: UPPER(s) cannot be said in words"),
        ("listed", "the other way: an aggregate lists the values of each group"),
        ("plain", "the other way: it is no single grouped block"),
    ],
)
def test_the_way_is_told(name: str, way: str) -> None:
    db, _ = database({"v": VIEWS[name]})
    assert db.view("v").stats()["batches"] == way
    assert "batches go " in str(db.view("v").explain(analyze=True))


def test_a_batch_of_plain_rows_asks_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    db, feeds = database(DIRECT)

    def fails(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the other way")

    monkeypatch.setattr("everview.engine.transaction.Transaction._applied", fails)
    db.insert("t", [(1, 1, Decimal("2.50"), None, "a", date(1990, 1, 1), True)])
    db.insert("u", [(1, -1, "a")])
    assert told(feeds["joined"])[-1]["r"] == Decimal("5.00")
    with db.batch() as batch:
        batch.insert("u", [(1, 0, None)])
        batch.delete("u", [(1, -1, "a")])
    assert [(r["_change_type"], r["r"]) for r in told(feeds["joined"])] == [
        ("update_preimage", Decimal("5.00")),
        ("update_postimage", Decimal("2.50")),
    ]


COLUMNS = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 128),
    "INT": st.integers(-(2**31), 2**31),
    "BIGINT": st.integers(-(2**63), 2**63),
    "FLOAT": st.floats() | st.just(1e300),
    "DOUBLE": st.floats() | st.integers(0, 2**60),
    "DECIMAL(5, 2)": st.decimals(-1001, 1001, places=2) | st.decimals() | st.integers(-1000, 1000),
    "DECIMAL(38, 9)": st.decimals(allow_nan=False, allow_infinity=False) | st.integers(),
    "STRING": st.text() | st.just("\ud800") | st.just(b"x"),
    "BINARY": st.binary(),
    "DATE": st.dates() | st.datetimes(),
    "TIMESTAMP": st.datetimes() | st.datetimes(timezones=st.just(UTC)),
    "TIMESTAMP_NTZ": st.datetimes() | st.just(datetime(2020, 1, 1, tzinfo=UTC)),
}


@given(st.data())
@thoroughness(150)
@pytest.mark.slow
def test_values_are_read_alike(data: st.DataObject) -> None:
    """What the kernel reads of Python's rows, and of Arrow's, are the words that the other way makes of them."""
    kind = data.draw(st.sampled_from(list(COLUMNS)))
    values = data.draw(st.lists(st.none() | COLUMNS[kind], max_size=5))
    db = ev.Database()
    db.sql(f"CREATE TABLE t (x {kind}, n INT)")
    base = db._tables["t"]
    rows = [(value, i) for i, value in enumerate(values)]
    found = reader_of(base.schema).given(rows)
    try:
        wanted = read_rows(base.schema, rows, what="insert")
    except EverviewError:
        assert found is None
        return
    again = reader_of(base.schema).given(wanted)
    assert again is not None
    words = to_words(wanted["x"].combine_chunks(), base.types[0], db._dictionary)
    for read in (again, *([found] if found is not None else [])):
        read.encode(db._dictionary.table)
        assert pa.array(read.words()[0]).to_pylist() == words.to_pylist()
        assert read.has_nulls() == [None in values, False]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("INT", pa.array([1, None, 3], pa.uint8())),
        ("SMALLINT", pa.chunked_array([pa.array([1], pa.int64()), pa.array([2, None], pa.int64()).slice(0, 2)])),
        ("STRING", pa.array(["x", None, "yy", ""], pa.large_string()).slice(1)),
        ("STRING", pa.array(["x", None, "x"]).dictionary_encode()),
        ("BOOLEAN", pa.array([True, None, False, True]).slice(1)),
        ("TIMESTAMP", pa.array([1, None, 3], pa.timestamp("us", "Europe/Paris"))),
        ("TIMESTAMP", pa.array([1, None, 3], pa.timestamp("s"))),
        ("DECIMAL(12, 2)", pa.array([Decimal("1.25"), None], pa.decimal128(12, 2))),
        ("DECIMAL(30, 2)", pa.array([Decimal("1.25"), None], pa.decimal128(12, 2))),
    ],
)
def test_arrow_is_read_alike(column: str, values: Any) -> None:
    dbs = []
    for way in (True, False):
        db = ev.Database()
        db.sql(f"CREATE TABLE t (x {column}); CREATE VIEW v AS SELECT x, COUNT(*) AS n FROM t GROUP BY x")
        feed = db.view("v").changes()
        if way:
            db.insert("t", pa.table({"x": values}))
        else:
            with the_other_way():
                db.insert("t", pa.table({"x": values}))
        dbs.append((sorted(map(repr, db.view("v"))), sorted(map(repr, told(feed)))))
    assert dbs[0] == dbs[1]


def test_a_refused_batch_changes_nothing_and_says_why() -> None:
    db, feeds = database({"sums": DIRECT["sums"], "longs": DIRECT["longs"]})
    row = (1, 1, Decimal("2.50"), Decimal("7.125"), "a", None, True)
    db.insert("t", [row])
    told(feeds["sums"])
    with pytest.raises(ev.errors.OverDeleteError, match="row 1 of the changes to t deletes"):
        db.delete("t", [row, row])
    assert list(db.view("longs")) == [(Decimal("7.125"), 1, 1)]
    assert not told(feeds["sums"])
    assert db.version == 1
    db.delete("t", [row])
    assert not len(db._dictionary)
