"""Batches that are refused: the error names the place, and nothing has changed."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import everview as ev
from everview.errors import (
    ChangeTypeError,
    ClosedError,
    DataError,
    KeyViolationError,
    NullViolationError,
    OverDeleteError,
    RowShapeError,
    SchemaError,
    UnknownTableError,
    ValueTypeError,
)

SCHEMA = """
CREATE TABLE r (a INT, b BIGINT, s STRING);
CREATE TABLE k (id INT PRIMARY KEY, x DECIMAL(5, 2), f DOUBLE, d DATE NOT NULL);
CREATE MATERIALIZED VIEW pairs AS SELECT r.a, r.s, k.f FROM r JOIN k ON r.a = k.id;
CREATE MATERIALIZED VIEW sums AS SELECT s, SUM(b) AS n, MIN(a) AS m, COUNT(DISTINCT a) AS d FROM r GROUP BY s;
CREATE MATERIALIZED VIEW words AS SELECT DISTINCT upper(s) AS u FROM r;
CREATE MATERIALIZED VIEW rest AS SELECT a FROM r EXCEPT SELECT id FROM k
"""
DAY = date(1999, 1, 1)


@pytest.fixture
def db() -> ev.Database:
    made = ev.Database()
    made.sql(SCHEMA)
    made.insert("r", [(1, 10, "x"), (1, 10, "x"), (2, None, None)])
    made.insert("k", [(1, Decimal("1.50"), 0.5, DAY)])
    return made


Act = Callable[[ev.Database], Any]

CASES: list[tuple[str, Act, type[DataError], str | None, int | None, str | None]] = [
    ("over-delete", lambda db: db.delete("r", [(1, 10, "x")] * 3), OverDeleteError, "r", 2, None),
    ("delete unknown", lambda db: db.delete("r", [(1, 10, "x"), (9, 9, "9")]), OverDeleteError, "r", 1, None),
    ("delete near miss", lambda db: db.delete("r", [(2, None, "")]), OverDeleteError, "r", 0, None),
    ("key", lambda db: db.insert("k", [(2, None, None, DAY), (1, None, None, DAY)]), KeyViolationError, "k", 1, "id"),
    ("key twice", lambda db: db.insert("k", [(5, None, None, DAY)] * 2), KeyViolationError, "k", 1, "id"),
    ("few columns", lambda db: db.insert("r", [(1, 2, "x"), (1, 2)]), RowShapeError, "r", 1, None),
    ("many columns", lambda db: db.insert("r", [(1, 2, "x", 4)]), RowShapeError, "r", 0, None),
    ("text for int", lambda db: db.insert("r", [(1, 2, "x"), ("1", 2, "x")]), ValueTypeError, "r", 1, "a"),
    ("float for int", lambda db: db.insert("r", [(1.5, 2, "x")]), ValueTypeError, "r", 0, "a"),
    ("int overflow", lambda db: db.insert("r", [(2**31, 2, "x")]), ValueTypeError, "r", 0, "a"),
    ("bigint overflow", lambda db: db.insert("r", [(1, 2**63, "x")]), ValueTypeError, "r", 0, "b"),
    ("the word of null", lambda db: db.insert("r", [(1, -(2**63), "x")]), ValueTypeError, "r", 0, "b"),
    ("nan for int", lambda db: db.insert("r", [(math.nan, 2, "x")]), ValueTypeError, "r", 0, "a"),
    ("nan for decimal", lambda db: db.insert("k", [(3, Decimal("NaN"), 0.5, DAY)]), ValueTypeError, "k", 0, "x"),
    ("long decimal", lambda db: db.insert("k", [(3, Decimal("1.005"), 0.5, DAY)]), ValueTypeError, "k", 0, "x"),
    ("null key", lambda db: db.insert("k", [(None, None, 0.5, DAY)]), NullViolationError, "k", 0, "id"),
    ("null", lambda db: db.insert("k", [(3, None, 0.5, DAY), (4, None, 0.5, None)]), NullViolationError, "k", 1, "d"),
    ("unknown table", lambda db: db.insert("nope", [(1,)]), UnknownTableError, "nope", None, None),
    ("a view", lambda db: db.insert("pairs", [(1,)]), UnknownTableError, "pairs", None, None),
    ("no rows", lambda db: db.insert("r", 7), RowShapeError, "r", None, None),
    ("change type", lambda db: db.apply("r", [(1, 2, "x", "upsert")]), ChangeTypeError, "r", 0, "_change_type"),
    ("sum overflow", lambda db: db.insert("r", [(7, 2**62, "y"), (7, 2**62, "y")]), DataError, "r", 1, None),
]  # fmt: skip


def state(db: ev.Database) -> Any:
    dictionary = {k: sorted(zip(*t.to_pydict().values(), strict=True)) for k, t in db._dictionary.to_state().items()}
    tables = [sorted(t.unit.dump(x.name)) for t in db._tables.values() for x in t.unit.program.tables]
    cores = [sorted(c.part.dump(x.name)) for v in db._views.values() for c in v.cores for x in c.part.program.tables]
    folds = [
        sorted(zip(*(c.to_pylist() for c in (*columns, *measures)), strict=True))
        for v in db._views.values()
        for f in v.folds
        for columns, measures in f.rows()
    ]
    rows = {name: sorted(db.view(name), key=repr) for name in db.views}
    return db.version, dictionary, tables, cores, folds, rows


@pytest.mark.parametrize("within", [False, True], ids=["alone", "in a batch"])
@pytest.mark.parametrize(("act", "error", "table", "row", "column"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_refused(
    db: ev.Database,
    act: Act,
    error: type[DataError],
    table: str | None,
    row: int | None,
    column: str | None,
    within: bool,
) -> None:
    feeds = [db.view(name).changes(per_update=per) for name in db.views for per in (False, True)]
    before = state(db)
    with pytest.raises(error) as caught:  # noqa: PT012
        if within:
            with db.batch() as batch:
                batch.insert("r", [(5, 5, "new"), (1, 1, "newer")])
                batch.delete("r", [(5, 5, "new")])
                batch.delete("k", [(1, Decimal("1.50"), 0.5, DAY)])
                batch.insert("k", [(1, Decimal("1.50"), 0.5, DAY)])
                act(batch)  # type: ignore[arg-type]
        else:
            act(db)
    assert (caught.value.table, caught.value.row, caught.value.column) == (table, row, column)
    assert state(db) == before
    assert not any(feed.read() for feed in feeds)
    db.insert("r", [(1, 1, "x")])
    assert (1, "x", 0.5) in db.view("pairs")


def test_views_that_cannot_be_made_change_nothing(db: ev.Database) -> None:
    before = state(db)
    for text, error in (
        ("CREATE TABLE r (z INT)", SchemaError),
        ("CREATE MATERIALIZED VIEW PAIRS AS SELECT a FROM r", ev.errors.EverviewError),
        ("CREATE MATERIALIZED VIEW v AS SELECT nope FROM r", ev.errors.EverviewError),
        ("CREATE TABLE n (a INT); CREATE MATERIALIZED VIEW v AS SELECT a FROM n JOIN", ev.errors.EverviewError),
        ("CREATE MATERIALIZED VIEW v AS SELECT a FROM r SORT BY a", ev.errors.EverviewError),
    ):
        with pytest.raises(error):
            db.sql(text)
    assert state(db) == before
    assert db.tables == ("r", "k")


def test_upsert_needs_a_key(db: ev.Database) -> None:
    with pytest.raises(SchemaError):
        db.upsert("r", [(1, 2, "x")])


def test_upsert_that_fails_keeps_the_old_rows(db: ev.Database) -> None:
    before = state(db)
    with pytest.raises(NullViolationError):
        db.upsert("k", [(1, None, 2.5, DAY), (2, None, 2.5, None)])
    assert state(db) == before


def test_a_batch_whose_block_raises_is_dropped(db: ev.Database) -> None:
    before = state(db)

    def block() -> None:
        with db.batch() as batch:
            batch.insert("r", [(1, 2, "gone")])
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        block()
    assert state(db) == before


def test_a_batch_that_is_over_takes_no_more(db: ev.Database) -> None:
    with db.batch() as batch:
        pass
    with pytest.raises(ClosedError):
        batch.insert("r", [(1, 2, "x")])


def test_nan_and_infinity_are_doubles_like_others(db: ev.Database) -> None:
    rows = [(10, None, math.nan, DAY), (11, None, -math.nan, DAY), (12, None, math.inf, DAY), (13, None, -0.0, DAY)]
    db.sql("CREATE MATERIALIZED VIEW f AS SELECT f, COUNT(*) AS n FROM k WHERE id >= 10 GROUP BY f")
    db.insert("k", rows)
    found = {("nan" if math.isnan(f) else f): n for f, n in db.view("f")}
    assert found == {"nan": 2, math.inf: 1, 0.0: 1}
    assert (math.nan, 2) in db.view("f")
    db.delete("k", [(13, None, 0.0, DAY), *rows[:3]])
    assert list(db.view("f")) == []


def test_rows_in_arrow_are_named_too(db: ev.Database) -> None:
    table = pa.table({"a": pa.array([1, 2], pa.int64()), "b": pa.array([1, None], pa.int64()), "s": ["x", "y"]})
    db.insert("r", table)
    with pytest.raises(ValueTypeError) as caught:
        db.insert("r", pa.table({"a": pa.array([1, 2**40], pa.int64()), "b": [1, 2], "s": ["x", "y"]}))
    assert (caught.value.row, caught.value.column) == (1, "a")


def test_everything_deleted_leaves_next_to_nothing() -> None:
    db = ev.Database()
    db.sql(SCHEMA)
    empty = db.nbytes()
    rows = [(i % 700, i, f"s{i % 999}") for i in range(6000)]
    keys = [(i, None, i / 4, DAY) for i in range(800)]
    feeds = [db.view(name).changes() for name in db.views]
    db.insert("r", rows)
    db.insert("k", keys)
    full = db.nbytes()
    for i in range(0, len(rows), 1500):
        db.delete("r", rows[i : i + 1500])
    db.delete("k", keys)
    for feed in feeds:
        feed.close()
    assert len(db._dictionary) == 0
    assert all(len(db.view(name)) == 0 for name in db.views)
    assert db.nbytes() <= empty + 0.05 * full
    assert db.nbytes() <= 5 * empty, "the first blocks of arrays"


def test_a_view_cannot_be_changed() -> None:
    """The hints name what does work."""
    db = ev.Database()
    db.sql("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
    with pytest.raises(ev.errors.UnknownTableError, match="v is a view\nhint: change the tables that it reads"):
        db.insert("v", [(1,)])
    with pytest.raises(ev.errors.UnknownTableError, match=r"there is no table u\nhint: .*the tables are: t"):
        db.insert("u", [(1,)])


@pytest.mark.parametrize("heard", [False, True], ids=["unheard", "with a feed"])
@pytest.mark.parametrize(
    "view",
    [
        "SELECT k, n * n AS square FROM t",
        "SELECT t.k FROM t JOIN u ON t.k = u.k WHERE t.n * u.n > 3",
        "SELECT k, SUM(n) * SUM(n) AS square FROM t GROUP BY k",
        "SELECT k FROM t GROUP BY k HAVING SUM(n) * SUM(n) > 3",
        "SELECT k, n * n AS square FROM t UNION ALL SELECT k, n FROM u",
    ],
)
def test_a_batch_is_refused_that_a_view_has_no_value_for(view: str, heard: bool) -> None:
    db = ev.Database()
    db.sql("CREATE TABLE t (k BIGINT NOT NULL, n BIGINT NOT NULL)")
    db.sql("CREATE TABLE u (k BIGINT NOT NULL, n BIGINT NOT NULL)")
    db.sql(f"CREATE MATERIALIZED VIEW v AS {view}")
    db.insert("t", [(1, 2), (2, 3)])
    db.insert("u", [(1, 2), (7, 3)])
    feed = db.view("v").changes() if heard else None
    before = sorted(db.view("v"))
    assert before
    with pytest.raises(DataError, match="failed on the data"):
        db.insert("t", [(1, 2**62), (7, 2**62)])
    assert sorted(db.view("v")) == before
    assert feed is None or not list(feed.read())
    db.insert("t", [(1, 5)])
    assert db.version == 3
