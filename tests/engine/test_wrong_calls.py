"""Calls that cannot be meant: of other types, at the wrong time. Each says what is wrong and what to do instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import everview as ev
from everview.errors import (
    ArgumentError,
    ClosedError,
    DataError,
    EverviewError,
    MemoryLimitError,
    RowShapeError,
    UnknownTableError,
    ValueTypeError,
)


@pytest.fixture
def db() -> ev.Database:
    made = ev.Database()
    made.sql(
        "CREATE TABLE t (a BIGINT PRIMARY KEY, b BIGINT); CREATE VIEW v AS SELECT b, COUNT(*) AS n FROM t GROUP BY b"
    )
    made.insert("t", [(1, 1), (2, 1), (3, None)])
    return made


CALLS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda db: db.sql(3), "SQL is a text, and 3 is of type int"),
    (lambda db: db.sql(None), "SQL is a text, and None is of type NoneType"),
    (lambda db: db.sql(b"SELECT 1"), "decode it first"),
    (lambda db: db.create_view("w", 3), "SQL is a text"),
    (lambda db: db.create_view(3, "SELECT a FROM t"), "a view's name is a text"),
    (lambda db: db.create_table(3, "a INT"), "a table's name is a text"),
    (lambda db: db.create_table("w", {"a": "INT"}), "a list of columns, as SQL writes it, is a text"),
    (lambda db: db.rules(3), "a text of rules is a text"),
    (lambda db: db.formula(3, degree=2), "a formula is a text"),
    (lambda db: ev.explain(3), "a query is a text"),  # type: ignore[arg-type]
    (lambda db: db.view(3), "the name of a table or view is a text"),
    (lambda db: db.insert(None, [(1, 1)]), "the name of a table or view is a text"),
    (lambda db: db.drop(3), "a name is a text"),
    (lambda db: db.view("v").subscribe(3), "a subscriber is a function of a record batch, and 3 is none"),
    (lambda db: db.view("v").page(offset="a", limit=1), "offset is a whole number, and 'a' is none"),
    (lambda db: db.view("v").page(limit=2.5), "limit is a whole number, and 2.5 is none"),
    (lambda db: db.view("v").diff(since="a"), "since, a version of the database, is a whole number"),
    (lambda db: db.view("v").sample("a"), "the number of rows of a sample is a whole number, and 'a' is none"),
    (lambda db: db.view("v").sample(1, seed=(1,)), "the seed is a whole number, and (1,) is none"),
    (lambda db: db.view("v").lookup_many(5), "keys are a list of mappings from columns to values, and 5 is none"),
    (lambda db: db.view("v").lookup_many({"b": 1}), "keys are a list of mappings"),
    (lambda db: db.view("v").lookup_many("b"), "keys are a list of mappings from columns to values, and 'b' is none"),
    (lambda db: db.view("v").lookup(b=1, B=2), "column b of v is given twice"),
    (lambda db: db.view("v").lookup_many([1]), "a key is a mapping from columns to values, and 1 is none"),
    (lambda db: db.view("v").linear_regression("n", None), "features are a list of columns, and None is none"),
    (lambda db: db.view("v").linear_regression("n", "b"), "features are a list of columns, and 'b' is none"),
]


@pytest.mark.parametrize(("call", "says"), CALLS, ids=[says for _, says in CALLS])
def test_other_types(db: ev.Database, call: Callable[[Any], Any], says: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        call(db)
    assert isinstance(caught.value, TypeError)
    assert says in str(caught.value)
    db.insert("t", [(4, 4)])
    assert (4, 1) in db.view("v")


def test_whole_numbers_of_numpy(db: ev.Database) -> None:
    view, one = db.view("v"), np.int64(1)
    assert view[one] == view[1]
    assert view.page(offset=one, limit=np.int32(5)) == view.page(offset=1, limit=5)
    assert view.sample(one, seed=one) == view.sample(1, seed=1)
    assert view.why(view[0], limit=10**30).keys() == {"t"}


@pytest.mark.parametrize("row", [5, None, "ab", (), (1, 2, 3)])
def test_what_is_no_row(db: ev.Database, row: Any) -> None:
    for ask in (lambda view: view.first_at_or_after(row), lambda view: view.rank(row), lambda view: view.why(row)):
        with pytest.raises(RowShapeError, match=r"2 columns|holds rows"):
            ask(db.view("v"))


def test_a_batch_stands_in_a_block(db: ev.Database) -> None:
    batch = db.batch()
    with pytest.raises(ClosedError, match="the batch has not begun") as caught:
        batch.insert("t", [(5, 5)])
    assert "with db.batch() as batch" in (caught.value.hint or "")
    with batch:
        batch.insert("t", [(5, 5)])
        with pytest.raises(ClosedError, match="is used already"):
            batch.__enter__()
    assert (5, 5) in db.table("t")
    with pytest.raises(ClosedError, match="the batch has ended"):
        batch.insert("t", [(6, 6)])
    with pytest.raises(ClosedError), batch:
        pass
    with pytest.raises(ZeroDivisionError), db.batch() as failed:
        failed.insert("t", [(7, 1 // len(db.table("t").primary_key[1:]))])
    assert (7, 7) not in db.table("t")


KEYS = [np.array([1, 3]), pd.Series([1, 3]), pa.array([1, 3]), (k for k in (1, 3)), {1, 3}, pa.table({"a": [1, 3]})]


@pytest.mark.parametrize("keys", KEYS, ids=[type(k).__name__ for k in KEYS])
def test_keys_come_in_any_form(db: ev.Database, keys: Any) -> None:
    db.delete("t", keys=keys)
    assert list(db.table("t")) == [(2, 1)]


def test_a_single_key_is_no_list_of_keys(db: ev.Database) -> None:
    for key in (1, "1"):
        with pytest.raises(RowShapeError, match="takes a list of keys") as caught:
            db.delete("t", keys=key)
        assert "keys=[" in (caught.value.hint or "")


def test_what_pandas_makes_of_missing_integers_and_mixed_columns(db: ev.Database) -> None:
    missing = pd.DataFrame({"a": [7, 8], "b": [1, None]})
    with pytest.raises(DataError, match=r"1\.0 is of type double") as caught:
        db.insert("t", missing)
    assert "astype('Int64')" in (caught.value.hint or "")
    db.insert("t", missing.astype("Int64"))
    assert db.table("t").get(8) == (8, None)
    with pytest.raises(RowShapeError, match=r"Conversion failed for column b.*: "):
        db.insert("t", pd.DataFrame({"a": [9, 10], "b": ["x", 1]}))


def test_a_database_says_what_it_holds(db: ev.Database) -> None:
    assert repr(db) == "<Database of version 1: tables t; views v>"
    assert repr(ev.Database()) == "<Database of version 0: tables none; views none>"


def test_hints_do_not_list_hundreds_of_names() -> None:
    db = ev.Database()
    db.sql("; ".join(f"CREATE TABLE t{i} (a INT)" for i in range(200)))
    for call in (lambda: db.insert("u", []), lambda: db.sql("SELECT a FROM u"), lambda: db.drop("u")):
        with pytest.raises(EverviewError) as caught:
            call()
        assert "t29 and 170 more" in (caught.value.hint or "")


def test_too_little_memory_is_told_with_what_to_do() -> None:
    """Whichever part of a batch finds none, a table's rows or a view's."""
    db = ev.Database(memory_limit=3_000_000)
    db.sql("CREATE TABLE t (a BIGINT, s STRING); CREATE VIEW v AS SELECT s, COUNT(*) AS n FROM t GROUP BY s")
    errors: list[EverviewError] = []
    for rows in (1_000, 500, 100, 10, 1) * 40:
        start = len(db.table("t"))
        try:
            db.insert("t", [(i, f"text number {i}") for i in range(start, start + rows)])
        except MemoryLimitError as error:
            errors.append(error)
    assert errors
    assert all("limit" in error.message and error.hint for error in errors), errors


VALUES: list[tuple[Callable[[ev.Database], Any], str]] = [
    (lambda db: db.view("w").lookup(a="1"), "look-up in w, column a: '1' is of type str, the column is BIGINT"),
    (lambda db: db.view("w").lookup(a=True), "look-up in w, column a: True is of type bool, the column is BIGINT"),
    (lambda db: db.view("w").lookup(a=1, day="2026-01-01"), "look-up in w, column day: '2026-01-01' is of type str"),
    (
        lambda db: db.view("w").lookup(price=1.5),
        "look-up in w, column price: 1.5 is of type float, the column is DECIMAL",
    ),
    (lambda db: db.view("w").lookup(tags=[1]), "column tags: 1 is of type int, the column is STRING"),
    (lambda db: db.view("w").lookup_many([{"a": 1}, {"a": 1.0}]), "look-up in w, column a: 1.0 is of type float"),
    (lambda db: db.view("w").rank(("1", DAY, None, None)), "look-up in w, column a: '1' is of type str"),
    (lambda db: db.view("w").why((1, "x", None, None)), "look-up in w, column day: 'x' is of type str"),
    (lambda db: db.view("w").first_at_or_after((1, 2, None, None)), "look-up in w, column day: 2 is of type int"),
    (lambda db: db.view("nothing").lookup(n=1), "column n: 1 is of type int"),
]
DAY = date(2026, 1, 1)


@pytest.fixture
def typed() -> ev.Database:
    made = ev.Database()
    made.sql("CREATE TABLE u (a BIGINT PRIMARY KEY, day DATE, price DECIMAL(6, 2), tags ARRAY<STRING>)")
    made.sql("CREATE VIEW w AS SELECT * FROM u; CREATE VIEW nothing AS SELECT a, NULL AS n FROM u")
    made.insert("u", [(1, DAY, Decimal("1.50"), ["x"])])
    return made


@pytest.mark.filterwarnings("ignore::everview.errors.ScanWarning")
@pytest.mark.parametrize(("call", "says"), VALUES, ids=[says for _, says in VALUES])
def test_values_of_another_type_than_their_column(
    typed: ev.Database, call: Callable[[ev.Database], Any], says: str
) -> None:
    """They found nothing, and nobody was told; an insert refuses them, too."""
    with pytest.raises(ValueTypeError, match=re.escape(says)) as caught:
        call(typed)
    assert "hint: pass " in str(caught.value)


@pytest.mark.filterwarnings("ignore::everview.errors.ScanWarning")
def test_values_that_are_not_there_are_no_mistakes() -> None:
    """What is of the right type and does not fit into it is nowhere; and ``in`` says False of whatever is asked."""
    db = ev.Database()
    db.sql("CREATE TABLE u (a BIGINT PRIMARY KEY, price DECIMAL(6, 2)); CREATE VIEW w AS SELECT * FROM u")
    db.insert("u", [(1, Decimal("1.50"))])
    view = db.view("w")
    assert view.lookup(a=2**70).num_rows == view.lookup(price=Decimal("1.555")).num_rows == 0
    assert (db.table("u").get(2**70), db.table("u").get(1)) == (None, (1, Decimal("1.50")))
    with pytest.raises(KeyError):
        view.rank((2**70, None))
    assert ("1", Decimal("1.50")) not in view
    assert view.first_at_or_after((1, Decimal("1.495"))) == (1, Decimal("1.50"))
    assert view.first_at_or_after((1, Decimal("1.505"))) is view.first_at_or_after((2**70, None)) is None
    with pytest.raises(UnknownTableError, match=r"u is a table\nhint: take it with db.table\('u'\)"):
        db.view("u")
    assert (1, "1.50") not in db.table("u")
    assert (1, Decimal("1.5")) in view
