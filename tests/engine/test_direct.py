"""The direct way of a batch gives what the other way gives: the same results, feeds, errors and counts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import everview as ev
from everview.engine.direct.read import reader_of
from everview.engine.direct.views import direct_view
from everview.engine.input.read import kept_rows, read_rows
from everview.engine.values.rows import joined
from everview.engine.values.words import to_words
from everview.errors import EverviewError
from tests.engine.ways import the_other_way
from tests.scale import thoroughness

TABLES = """
    CREATE TABLE t (id BIGINT, k INT, x DECIMAL(9, 2), big DECIMAL(25, 3), s STRING, d DATE, b BOOLEAN);
    CREATE TABLE u (k INT, y SMALLINT, s STRING);
    CREATE TABLE w (k INT, f DOUBLE)
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
    "plain": "SELECT id, s, b, d FROM t WHERE k = 1",
    "constant": "SELECT id, 'x' AS c, CAST(NULL AS STRING) AS n, 2.5 AS h FROM t WHERE k = 1",
    "pairs": "SELECT t.s, u.y, t.x * u.y AS p, t.big, 7 AS c FROM t JOIN u ON t.k = u.k",
    "hops": "SELECT a.k, a.y, b.y AS z FROM u a JOIN u b ON a.y = b.k",
    "across": "SELECT t.id, u.y FROM t JOIN u ON t.k = u.k WHERE t.id < u.y OR t.b",
    "set": "SELECT DISTINCT t.s, u.y FROM t JOIN u ON t.k = u.k",
    "highest": "SELECT t.s, MAX(t.id + u.y) AS n, MIN(t.id * u.y) AS m FROM t JOIN u ON t.k = u.k GROUP BY t.s",
    "sumset": "SELECT DISTINCT t.id + u.y AS n, t.s FROM t JOIN u ON t.k = u.k",
    "listed": "SELECT k, MIN(x) AS low, MAX(s) AS s, MIN(big) AS b, COUNT(*) AS n FROM t GROUP BY k HAVING MAX(x) > -3",
    "ordered": "SELECT t.k, MIN(w.f) AS f, MAX(t.id * 2) AS i, MAX(t.d) AS d FROM t JOIN w ON t.k = w.k GROUP BY t.k",
    "overall": "SELECT MIN(f) AS f, MAX(k) AS k, COUNT(DISTINCT f) AS n FROM w",
    "counted": "SELECT k, COUNT(DISTINCT x) AS n, COUNT(DISTINCT s) AS m, MAX(s) AS s FROM t GROUP BY k",
    "different": "SELECT t.s, COUNT(DISTINCT u.y + t.id) AS n FROM t JOIN u ON t.k = u.k GROUP BY t.s HAVING n <> 2",
    "staged": "SELECT n, COUNT(*) AS c FROM (SELECT k, COUNT(*) AS n FROM t WHERE x > 0 GROUP BY k) AS g GROUP BY n",
    "below": "SELECT k, SUM(x) AS sx, COUNT(*) AS n, s FROM t GROUP BY k, s",
    "above": "SELECT b.s, b.sx, u.y, b.n FROM below b JOIN u ON b.k = u.k",
    "all of both": "SELECT k, y, s, 'u' AS of FROM u UNION ALL SELECT k, id, NULL, 'bb' FROM t WHERE b",
    "counts of both": "SELECT k, COUNT(*) AS n FROM u GROUP BY k UNION ALL SELECT k, SUM(id) AS n FROM t GROUP BY k",
    "one of both": "SELECT k, s FROM u UNION SELECT k, s FROM t",
    "one with a name": "SELECT k, 'a' AS s FROM u UNION SELECT k, s FROM t",
    "either": "SELECT y / 1 AS y, s FROM u UNION SELECT x, s FROM t UNION SELECT 1.5, s FROM t WHERE k = 1",
    "without": "SELECT k, s FROM u EXCEPT SELECT k, s FROM t WHERE id > 0",
    "less": "SELECT k FROM u EXCEPT ALL SELECT k FROM t",
    "shared": "SELECT k, s FROM u INTERSECT SELECT k, s FROM t",
    "shared copies": "SELECT k FROM t INTERSECT ALL SELECT k FROM u",
    "left": "SELECT t.id, t.s, t.big, u.y, u.s AS us FROM t LEFT JOIN u ON t.k = u.k AND u.y > 0",
    "left sums": "SELECT u.k, COUNT(t.id) AS n, SUM(t.x) AS x, MAX(t.s) AS s FROM u LEFT JOIN t USING (k) GROUP BY u.k",
    "full": "SELECT t.id, t.s, u.y, u.s AS us FROM t FULL JOIN u ON t.k = u.k",
    "absent": "SELECT t.id, t.s FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.s IS NULL)",
    "not in": "SELECT id, s FROM t WHERE k NOT IN (SELECT k FROM u WHERE y > 1)",
    "attached": "SELECT u.k, (SELECT COUNT(*) FROM t WHERE t.k = u.k) AS n FROM u",
    "above left": "SELECT l.s, COUNT(*) AS n FROM left l WHERE l.us IS NULL GROUP BY l.s",
    "above both": "SELECT b.of, b.s, u.y FROM all_of_both b JOIN u ON b.k = u.k WHERE b.of = 'u'",
    "top": "SELECT a.s, COUNT(*) AS n, SUM(a.y) AS y FROM above a JOIN below b ON a.s = b.s GROUP BY a.s",
}
PARTLY = {
    "upper": "SELECT a.n, SUM(a.y) / 2 AS y, UPPER(a.s) AS s FROM above a GROUP BY a.n, UPPER(a.s)",
    "upper still": "SELECT s, n FROM upper WHERE n > 1",
    "finished by others": "SELECT k, SUM(x) / COUNT(*) AS q, upper('a') AS a FROM t GROUP BY k",
    "not in words": "SELECT upper(s) AS s, COUNT(*) AS n FROM t GROUP BY upper(s)",
    "summed": "SELECT k, SUM(DISTINCT x) AS n FROM t GROUP BY k",
    "doubles": "SELECT k, SUM(f) AS s, AVG(f * 2) AS a, COUNT(*) AS n, MAX(f) AS m FROM w GROUP BY k HAVING n > 0",
    "double joins": "SELECT t.s, SUM(w.f * t.id) AS f, STDDEV(w.f) AS d FROM t JOIN w ON t.k = w.k GROUP BY t.s",
    "all doubles": "SELECT SUM(f) AS s, SUM(DISTINCT f) AS d FROM w",
    "in lists": "SELECT k, ARRAY_AGG(y) AS ys, MEDIAN(y) AS m, COUNT(DISTINCT s) AS n FROM u GROUP BY k",
    "read doubles": "SELECT n, s FROM doubles WHERE n > 1",
    "half": "SELECT k, MAX(x) AS m, COUNT(DISTINCT s) AS n, upper('a') AS a FROM t GROUP BY k",
    "first": "SELECT id, k FROM t ORDER BY id DESC, k LIMIT 2",
}
SETS = (
    *("all of both", "counts of both", "one of both", "one with a name", "either", "without", "less", "shared"),
    *("shared copies", "left", "left sums", "full", "absent", "not in", "attached"),
)
VALUED = ("listed", "ordered", "overall", "counted", "different")
KEPT = "these are kept, and rows made of groups, in Python"
READ = {"above": ("below",), "top": ("below", "above"), "upper": ("below", "above")}
READ |= {"read doubles": ("doubles",), "above left": ("left",), "above both": ("all of both",)}
READ["upper still"] = (*READ["upper"], "upper")
"""The views that views read."""


def database(
    views: dict[str, str], *, unread: str = "unread", updates: Sequence[bool] = ()
) -> tuple[ev.Database, dict[str, Any]]:
    """Tables, views, and a feed of each but one; ``updates`` says for which of them it tells single updates."""
    db = ev.Database()
    db.sql(TABLES)
    needed = dict.fromkeys(n for name in views for n in (*READ.get(name, ()), name))
    for name in needed:
        db.create_view(name.replace(" ", "_"), VIEWS[name])
    kinds = dict(zip(db.views, [*updates, *[False] * len(db.views)], strict=False))
    return db, {name: db.view(name).changes(per_update=kinds[name]) for name in db.views if name != unread}


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
W_ROWS = st.tuples(st.none() | st.integers(0, 3), st.none() | st.sampled_from([0.5, -1.5, float("nan"), -0.0]))
ROWS = {"t": T_ROWS, "u": U_ROWS, "w": W_ROWS}
STEPS = st.sampled_from(["t", "u", "w"]).flatmap(
    lambda table: st.tuples(
        st.just(table),
        st.lists(ROWS[table], min_size=1, max_size=6),
        st.booleans(),
        st.sampled_from(["tuples", "Arrow", "changes", "dicts", "generator"]),
    )
)


def told(feed: Any) -> list[dict[str, Any]]:
    return [row for batch in feed.read() for row in batch.to_pylist()]


def handed_over(schema: pa.Schema, rows: list[Any], form: str) -> Any:
    """Rows in one of the forms that batches have."""
    if form in ("Arrow", "changes"):
        return pa.table(dict(zip(schema.names, map(list, zip(*rows, strict=True)), strict=True)), schema=schema)
    if form == "dicts":
        return [dict(zip(schema.names, row, strict=True)) for row in rows]
    return iter(rows) if form == "generator" else rows


def apply(db: ev.Database, steps: list[Any]) -> str | None:
    """One batch; gives what is wrong with it."""
    try:
        with db.batch() as batch:
            for table, rows, comes, form in steps:
                given = handed_over(db.table(table).schema, rows, form)
                if form == "changes":
                    kinds = pa.array(["insert" if comes else "delete"] * len(rows))
                    batch.apply(table, given.append_column("_change_type", kinds))
                else:
                    (batch.insert if comes else batch.delete)(table, given)
    except EverviewError as error:
        return f"{type(error).__name__}: {error}"
    return None


def rows_of(view: Any) -> list[str]:
    return sorted(map(repr, view))


PLANS = st.lists(st.tuples(st.lists(STEPS, min_size=1, max_size=3), st.booleans()), min_size=1, max_size=5)
VIEWS = DIRECT | PARTLY


@given(
    PLANS,
    st.lists(st.sampled_from(list(VIEWS)), min_size=1, max_size=3, unique=True),
    st.lists(st.booleans(), min_size=9, max_size=9),
)
@thoroughness(40)
@pytest.mark.slow
def test_both_ways_are_one(plan: list[Any], names: list[str], updates: list[bool]) -> None:
    views = {name: VIEWS[name] for name in names}
    db, feeds = database(views, updates=updates)
    with the_other_way():
        other, other_feeds = database(views, updates=updates)
    there: dict[str, list[Any]] = {"t": [], "u": [], "w": []}
    for steps, takes_back in plan:
        batch = [(table, rows, True, form) for table, rows, _, form in steps]
        if takes_back:
            batch += [(t, rows[:2], False, "Arrow") for t, rows in there.items() if rows]
            batch += [(table, rows[-1:], False, form) for table, rows, comes, form in steps if not comes]
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
            if name not in READ:  # What views change several times in a batch, others are given once, or each time.
                assert db.view(name).stats()["updates"] == other.view(name).stats()["updates"]
    for table, rows in there.items():
        if rows:
            db.delete(table, rows)
    assert all(not list(db.view(name)) for name in db.views if name not in ("everything", "overall", "all_doubles"))


@pytest.mark.parametrize("key", ["k", "k, s", "s"])
def test_upserts_and_deletions_by_key_are_one_both_ways(key: str) -> None:
    """Rows of new keys, of old ones, of one key twice, unchanged ones, and keys that no row has; other changes, too."""
    r = Random(key)
    schema = f"""CREATE TABLE t (k INT, s STRING, x DECIMAL(20, 2), PRIMARY KEY ({key}));
        CREATE TABLE u (k INT, y SMALLINT);
        CREATE MATERIALIZED VIEW v AS SELECT s, COUNT(*) AS n, SUM(x) AS x FROM t JOIN u ON t.k = u.k GROUP BY s;
        CREATE MATERIALIZED VIEW w AS SELECT t.k, s, x, y FROM t JOIN u ON t.k = u.k;
        CREATE MATERIALIZED VIEW z AS SELECT k, UPPER(s) AS s FROM t"""
    dbs, feeds = [ev.Database(), ev.Database()], []
    for db in dbs:
        db.sql(schema)
        db.insert("u", [(k, k) for k in range(5)])
        feeds.append([db.view(name).changes(per_update=name == "w") for name in db.views])
    for _ in range(60):
        rows = [(r.randrange(6), r.choice("abcd"), Decimal(r.randrange(3))) for _ in range(r.choice([1, 1, 2, 9]))]
        keys = [{"k": k, "s": s} if "," in key else s if key == "s" else k for k, s, _ in rows[:2]]
        kind, others = r.choice(["upsert", "upsert", "keys", "both"]), r.random() < 0.3
        wrong = []
        for db in dbs:
            try:
                with nullcontext() if db is dbs[0] else the_other_way(), db.batch() as batch:
                    if others:
                        batch.insert("u", [(1, 1)])
                    if kind != "keys":
                        batch.upsert("t", rows)
                    if kind != "upsert":
                        batch.delete("t", keys=keys)
                wrong.append("")
            except EverviewError as error:
                wrong.append(f"{type(error).__name__}: {error}")
        assert wrong[0] == wrong[1]
        for mine, theirs in zip(*feeds, strict=True):
            assert sorted(map(repr, told(mine))) == sorted(map(repr, told(theirs)))
        assert sorted(dbs[0].table("t")) == sorted(dbs[1].table("t"))
        for name in dbs[0].views:
            assert sorted(dbs[0].view(name)) == sorted(dbs[1].view(name))


def test_an_upsert_goes_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    db = ev.Database()
    db.sql("CREATE TABLE t (k STRING PRIMARY KEY, x INT); CREATE VIEW v AS SELECT COUNT(*) AS n, SUM(x) AS x FROM t")
    db.insert("t", [("a", 1)])

    def fails(*args: Any) -> None:
        raise AssertionError("the other way")

    monkeypatch.setattr("everview.engine.transaction.Transaction._applied", fails)
    db.upsert("t", [("a", 2), ("b", 3), ("b", 4)])
    assert list(db.view("v")) == [(2, 6)]
    db.delete("t", keys=["a"])
    assert list(db.view("v")) == [(1, 4)]


def rows_in(db: ev.Database, table: str) -> list[Any]:
    return list(db.table(table))


@pytest.mark.parametrize("name", DIRECT)
def test_what_goes_the_direct_way(name: str) -> None:
    db, _ = database({name: DIRECT[name]})
    found = direct_view(db._views[name.replace(" ", "_")])
    assert found is not None
    assert found.result.finishes or name == "hidden"


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("sums", "directly"),
        ("finished by others", "directly, but rows are made of groups in Python"),
        ("not in words", "the other way: UPPER(s) cannot be said in words"),
        ("listed", "directly"),
        ("counted", "directly"),
        ("summed", f"directly, up to the values of sum(distinct x): {KEPT}"),
        ("doubles", f"directly, up to the values of sum(f), avg(f * 2): {KEPT}"),
        ("plain", "directly"),
        ("constant", "directly"),
        ("all of both", "directly"),
        ("one of both", "directly"),
        ("left", "directly"),
        ("first", "the other way: ORDER BY with LIMIT cannot be said in words"),
    ],
)
def test_the_way_is_told(name: str, way: str) -> None:
    db, _ = database({name: VIEWS[name]})
    view = db.view(db.views[-1])
    assert view.stats()["batches"] == way
    assert "batches go " in str(view.explain(analyze=True))


@pytest.mark.parametrize("per_update", [False, True])
def test_a_batch_of_plain_rows_asks_nobody_else(per_update: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    tell_updates = [
        name for name in DIRECT if name not in (*READ, *VALUED, *SETS, "hidden", "highest", "staged", "below")
    ]
    db, feeds = database(
        {name: DIRECT[name] for name in (tell_updates if per_update else DIRECT)}, updates=[per_update] * len(DIRECT)
    )

    def fails(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the other way")

    for name in ("_applied", "propagate"):
        monkeypatch.setattr(f"everview.engine.transaction.Transaction.{name}", fails)
    db.insert("t", [(1, 1, Decimal("2.50"), None, "a", date(1990, 1, 1), True)])
    db.insert("u", [(1, -1, "a")])
    assert told(feeds["joined"])[-1]["r"] == Decimal("5.00")
    with db.batch() as batch:
        batch.insert("u", [(1, 0, None)])
        batch.delete("u", [(1, -1, "a")])
    steps = [Decimal("5.00"), Decimal("7.50"), Decimal("7.50"), Decimal("2.50")]
    assert [(r["_change_type"], r["r"]) for r in told(feeds["joined"])] == list(
        zip(["update_preimage", "update_postimage"] * 2, steps if per_update else [steps[0], steps[-1]], strict=False)
    )


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
CHECKED = {
    "STRING CHECK (x IN ('a', 'é', ''))": st.sampled_from(["a", "é", "", "b"]),
    "INT CHECK (x IN (1, 2))": st.integers(0, 3),
    "DOUBLE CHECK (x IN (0, 1.5))": st.sampled_from([0.0, -0.0, 1.5, 2.0]),
    "DECIMAL(20, 2) CHECK (x IN (1, 2))": st.sampled_from([1, Decimal("2.00"), 3]),
    "VARCHAR(3)": st.text("aé ", max_size=6),
    "CHAR(2)": st.text("aé ", max_size=5),
}
ARROW = (
    *(
        pa.int8(),
        pa.uint16(),
        pa.int32(),
        pa.uint64(),
        pa.int64(),
        pa.float16(),
        pa.float32(),
        pa.float64(),
        pa.bool_(),
    ),
    *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary_view(), pa.binary(2), pa.null()),
    *(pa.decimal128(7, 3), pa.decimal128(38, 0), pa.decimal256(50, 1), pa.decimal64(9, 2), pa.date32(), pa.date64()),
    *(pa.timestamp("s"), pa.timestamp("ms", "UTC"), pa.timestamp("us", "Asia/Tokyo"), pa.timestamp("ns")),
)
_TIMES = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1))
SAMPLES = {kind.id: st.integers(-3, 300) for kind in ARROW} | {
    **dict.fromkeys((pa.float16().id, pa.float32().id, pa.float64().id), st.floats(width=16) | st.just(2.0**60)),
    pa.bool_().id: st.booleans(),
    **dict.fromkeys(
        (pa.string().id, pa.large_string().id, pa.string_view().id), st.text() | st.text("a ", max_size=30)
    ),
    **dict.fromkeys((pa.binary().id, pa.binary_view().id), st.binary(max_size=20)),
    pa.binary(2).id: st.binary(min_size=2, max_size=2),
    pa.null().id: st.none(),
    **dict.fromkeys((pa.date32().id, pa.date64().id), st.dates(date(1600, 1, 1), date(2400, 1, 1))),
    pa.timestamp("s").id: _TIMES | _TIMES.map(lambda t: t.replace(microsecond=0)),
    pa.int64().id: st.integers(-(2**63), 2**63 - 1),
    pa.uint64().id: st.integers(0, 2**64 - 1),
}


class Level(IntEnum):
    LOW = 3


class Pair(NamedTuple):
    x: object
    n: int


RELATIVES = st.sampled_from(
    [
        *(np.int8(-3), np.uint64(2**63), np.int64(7), np.float64(0.5), np.float32(0.1), np.bool_(True), np.str_("é")),
        *(np.datetime64("2020-01-02"), np.datetime64("2020-01-02T03:04:05.000006"), np.datetime64("2020-01-02", "ns")),
        *(
            np.timedelta64(3, "s"),
            np.bytes_(b"x"),
            Level.LOW,
            True,
            3,
            2**53 + 1,
            10**20,
            1.5,
            "3",
            b"3",
            bytearray(b"x"),
        ),
        *(Decimal("1E+2"), Decimal("-0"), Decimal("1.50000E-3"), Decimal("0E-90"), Decimal("sNaN"), date(2020, 1, 1)),
        *(datetime(2020, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=30))), datetime.max.replace(tzinfo=UTC)),
        *(pd.Timestamp("2020-01-01 00:00:00.000001"), pd.Timestamp("2020-01-01 00:00:00.000000001"), pd.NaT, [1]),
    ]
)
FORMS = ("tuples", "lists", "named", "dicts", "mixed dicts", "generator")


def formed(form: str, rows: list[tuple[Any, int]]) -> Any:
    """Rows in one of the forms in which users hand them over."""
    match form:
        case "lists":
            return [list(row) for row in rows]
        case "named":
            return [Pair(*row) for row in rows]
        case "dicts":
            return [{"X": x, "n": n} for x, n in rows]
        case "mixed dicts":
            return [
                {"n": n, "x": x} if n % 2 else {"x": x, "N": n} if n % 4 or x is not None else {"n": n} for x, n in rows
            ]
        case "generator":
            return iter(rows)
    return rows


def words_or_why(base: Any, read: Any) -> list[list[int]]:
    read.encode(base.dictionary.table)
    return [pa.array(column).to_pylist() for column in read.words()]


@given(st.data())
@thoroughness(250)
@pytest.mark.slow
def test_values_are_read_alike(data: st.DataObject) -> None:
    """What the kernel reads of rows of any form are the words that the other way makes of them, or it reads nothing."""
    kind = data.draw(st.sampled_from([*COLUMNS, *CHECKED]))
    values = data.draw(st.lists(st.none() | (COLUMNS | CHECKED)[kind] | RELATIVES, max_size=4))
    form = data.draw(st.sampled_from(FORMS))
    db = ev.Database()
    db.sql(f"CREATE TABLE t (x {kind}, n INT)")
    base = db._tables["t"]
    rows = [(value, i) for i, value in enumerate(values)]
    given_ = kept_rows(base.schema, formed(form, rows), what="insert")
    found = reader_of(base).given(given_)
    try:
        wanted = read_rows(base.schema, given_, what="insert")
    except EverviewError:
        assert found is None
        return
    again = reader_of(base).of_table(wanted)
    assert again is not None
    words = to_words(wanted["x"].combine_chunks(), base.types[0], db._dictionary)
    for read in (again, *([found] if found is not None else [])):
        assert words_or_why(base, read)[0] == words.to_pylist()
        assert read.has_nulls() == [None in wanted["x"].to_pylist(), False]


@pytest.mark.parametrize(
    ("column", "value", "form"),
    [
        ("INT", np.int64(3), "tuples"),
        ("DOUBLE", np.float64(3), "dicts"),
        ("DOUBLE", 3, "generator"),
        ("STRING", np.str_("x"), "named"),
        ("BOOLEAN", np.bool_(True), "lists"),
        ("TINYINT", Level.LOW, "mixed dicts"),
        ("DECIMAL(12, 2)", Decimal("1.2E+3"), "tuples"),
        ("DECIMAL(38, 2)", 10**25, "tuples"),
        ("TIMESTAMP", datetime(2020, 1, 1, tzinfo=timezone(timedelta(hours=2))), "dicts"),
        ("TIMESTAMP", pd.Timestamp("2020-01-01", tz="Europe/Paris"), "tuples"),
        ("DATE", date(1, 1, 1), "dicts"),
        ("VARCHAR(2)", "ab   ", "tuples"),
        ("CHAR(3)", "é", "dicts"),
        ("STRING CHECK (x IN ('a', 'b'))", "a", "tuples"),
        ("DOUBLE CHECK (x IN (0, 1.5))", -0.0, "tuples"),
    ],
)
def test_what_the_kernel_reads(column: str, value: object, form: str) -> None:
    db = ev.Database()
    db.sql(f"CREATE TABLE t (x {column}, n INT)")
    base = db._tables["t"]
    rows = kept_rows(base.schema, formed(form, [(value, 1), (None, 2)]), what="insert")
    assert reader_of(base).given(rows) is not None


def test_numpys_arrays_are_rows() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE t (x INT, n DOUBLE)")
    db.insert("t", np.array([(1, 2), (3, 4)]))
    db.insert("t", np.array([(5, 0.5)], dtype=[("x", "i4"), ("n", "f8")]))
    assert sorted(db.table("t")) == [(1, 2.0), (3, 4.0), (5, 0.5)]
    with pytest.raises(ev.errors.RowShapeError):
        db.insert("t", np.array([1, 2]))
    with pytest.raises(ev.errors.EverviewError):
        db.insert("t", np.array([("2020-01-01", "2020-01-01")], "M8[ns]"))


CHANGES = [
    (1, "a", "insert"),
    (2, "b", "update_postimage"),
    (1, "a", "delete"),
    (2, "b", "update_preimage"),
    (3, None, "insert"),
]


@pytest.mark.parametrize(
    "text", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
@pytest.mark.parametrize("counts", [None, pa.int8(), pa.uint64()])
def test_changes_are_read(text: pa.DataType, counts: pa.DataType | None) -> None:
    """Of all forms that users and feeds have, in any order of columns."""
    db = ev.Database()
    db.sql("CREATE TABLE t (k INT, s STRING)")
    base = db._tables["t"]
    k, s, kinds = zip(*CHANGES, strict=True)
    columns = {
        "_change_type": pa.array(kinds).cast(text),
        "S": pa.array(s).cast(text),
        "_update": [0] * 5,
        "k": pa.array(k),
    }
    copies = [2, 1, 2, 1, 3]
    if counts is not None:
        columns["_COUNT"] = pa.array(copies, counts)
    whole = pa.table(columns)
    parts = pa.concat_tables([whole.slice(0, 2), whole.slice(2)])
    named = [
        {"_count": n if counts else 1, "k": r[0], "s": r[1], "_change_type": r[2]}
        for r, n in zip(CHANGES, copies, strict=True)
    ]
    signs = [1, 1, -1, -1, 1]
    wanted = [sign * (n if counts else 1) for sign, n in zip(signs, copies, strict=True)]
    for given_ in (parts, named, *([CHANGES] if counts is None else [])):
        read = reader_of(base).given(given_, changes=True)
        assert read is not None
        assert pa.array(read.weights()).to_pylist() == wanted
        assert words_or_why(base, read)[0] == list(k)
    db.apply("t", parts)
    assert list(db.table("t")) == [(3, None)] * (3 if counts else 1)
    assert reader_of(base).given(parts.set_column(0, "_change_type", [["upsert"] * 5]), changes=True) is None
    assert reader_of(base).given([(1, "a", "upsert")], changes=True) is None
    assert reader_of(base).given([{"k": 1, "_change_type": "insert", "_count": 0}], changes=True) is None
    assert reader_of(base).given([{"k": 1}], changes=True) is None


@given(st.data())
@thoroughness(250)
@pytest.mark.slow
def test_arrow_of_any_kind_is_read_alike(data: st.DataObject) -> None:
    """Chunks, offsets, NULLs, dictionaries, views, units and widths: as the other way reads them, or not at all."""
    kind = data.draw(st.sampled_from([*COLUMNS, *CHECKED]))
    have = data.draw(st.sampled_from(ARROW))
    values = data.draw(st.lists(st.none() | SAMPLES[have.id], max_size=5))
    try:
        array = pa.array(values, have)
    except (pa.ArrowException, OverflowError):
        return
    if data.draw(st.booleans()):
        with suppress(pa.ArrowNotImplementedError):
            array = array.dictionary_encode()
    cut, end = sorted(data.draw(st.tuples(st.integers(0, len(array)), st.integers(0, len(array)))))
    column = pa.chunked_array([array.slice(0, cut), array.slice(cut, end - cut)], array.type)
    db = ev.Database()
    db.sql(f"CREATE TABLE t (x {kind}, n INT)")
    base = db._tables["t"]
    given_ = pa.table({"N": pa.array(range(len(column)), pa.int16()), "x": column})
    found = reader_of(base).given(given_)
    try:
        wanted = read_rows(base.schema, given_, what="insert")
    except EverviewError:
        assert found is None
        return
    words = to_words(joined(wanted["x"]), base.types[0], db._dictionary)
    if found is not None:
        assert words_or_why(base, found) == [words.to_pylist(), list(range(len(column)))]
    else:
        assert pa.types.is_decimal256(array.type) or pa.types.is_dictionary(array.type) or not len(column.drop_null())


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
