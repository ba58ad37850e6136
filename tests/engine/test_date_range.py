"""Dates and timestamps beyond the years 1 to 9999, and -2**63: refused on the way in and where they are computed."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

import everview as ev
from everview.errors import DataError, ValueTypeError

DAYS = [-719_162, 2_932_896]
INSTANTS = [-62_135_596_800_000_000, 253_402_300_799_999_999]
COLUMNS = {
    "d": (pa.int32(), pa.date32(), DAYS),
    "t": (pa.int64(), pa.timestamp("us", tz="UTC"), INSTANTS),
    "n": (pa.int64(), pa.timestamp("us"), INSTANTS),
}


def database() -> ev.Database:
    db = ev.Database()
    db.sql("CREATE TABLE r (k INT, d DATE, t TIMESTAMP, n TIMESTAMP_NTZ)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT d, t, n FROM r")
    return db


def arrow(column: str, values: list[int | None]) -> pa.Table:
    plain, type_, _ = COLUMNS[column]
    return pa.table({"k": pa.array(range(len(values)), pa.int32()), column: pa.array(values, plain).view(type_)})


@pytest.mark.parametrize("column", COLUMNS)
def test_the_first_and_the_last_are_taken(column: str) -> None:
    db = database()
    db.insert("r", arrow(column, [*COLUMNS[column][2], None]))
    place = list(COLUMNS).index(column)
    years = {row[place] and row[place].year for row in db.view("v")}
    assert years == {1, 9999, None}


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("further", [1, 10**7, "far"])
def test_one_beyond_is_refused(column: str, end: int, further: Any) -> None:
    db = database()
    far = 2**31 - 1 if column == "d" else 2**62
    step = (1 if end else -1) * (1 if further == 1 else further if further != "far" else 0)
    value = COLUMNS[column][2][end] + step if step else far * (1 if end else -1)
    with pytest.raises(ValueTypeError, match=rf"insert into r, row 2, column {column}: .*does not fit") as caught:
        db.insert("r", arrow(column, [0, None, value, 1]))
    assert (caught.value.table, caught.value.row, caught.value.column) == ("r", 2, column)
    assert "9999-12-31" in str(caught.value)
    assert list(db.view("v")) == []


def test_a_time_zone_may_lead_beyond() -> None:
    db = database()
    east = datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))
    with pytest.raises(ValueTypeError, match="row 0, column t"):
        db.insert("r", [(1, None, east, None)])


@pytest.mark.parametrize("with_feed", [False, True])
@pytest.mark.parametrize(
    "expression",
    [
        "d + INTERVAL 9000 YEAR",
        "date_add(d, 20000000)",
        "date_sub(d, 800000)",
        "CAST(s AS TIMESTAMP)",
        "n + INTERVAL 9000 YEAR",
    ],
)
def test_an_expression_beyond_refuses_the_batch(expression: str, with_feed: bool) -> None:
    db = ev.Database()
    db.sql("CREATE TABLE r (k INT, d DATE, n TIMESTAMP_NTZ, s STRING)")
    db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT k, {expression} AS y FROM r")
    db.sql(f"CREATE MATERIALIZED VIEW g AS SELECT {expression} AS y, COUNT(*) AS c FROM r GROUP BY {expression}")
    feeds = [db.view(name).changes() for name in "vg"] if with_feed else []
    db.insert("r", [(1, None, None, None)])
    with pytest.raises(DataError):
        db.insert("r", [(2, date(2024, 1, 1), datetime(2024, 1, 1), "infinity")])
    assert list(db.view("v")) == [(1, None)]
    assert list(db.view("g")) == [(None, 1)]
    assert [sum(b.num_rows for b in feed.read()) for feed in feeds] == [1] * len(feeds)
    assert db.version == 1


def test_an_expression_beyond_is_no_matter_where_it_is_only_compared() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE r (d DATE)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT d FROM r WHERE d + INTERVAL 9000 YEAR > d")
    db.insert("r", [(date(2024, 1, 1),)])
    assert list(db.view("v")) == [(date(2024, 1, 1),)]


@pytest.mark.parametrize("feed", [False, True])
def test_the_number_that_stands_for_null_is_refused_where_it_is_computed(feed: bool) -> None:
    db = ev.Database()
    db.sql("CREATE TABLE r (l BIGINT); CREATE MATERIALIZED VIEW v AS SELECT l - 1 AS x, l FROM r WHERE l - 1 < 9")
    changes = db.view("v").changes() if feed else None
    db.insert("r", [(-(2**63) + 2,)])
    with pytest.raises(DataError, match="stands for NULL"):
        db.insert("r", [(-(2**63) + 1,), (7,)])
    assert list(db.view("v")) == [(-(2**63) + 1, -(2**63) + 2)]
    assert changes is None or sum(b.num_rows for b in changes.read()) == 1
