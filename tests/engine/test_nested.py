"""Arrays, structs and maps come in from Python and Arrow, exactly or not at all, and go out as they came."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import everview as ev
from everview.errors import EverviewError, KeyViolationError, QueryError, ValueTypeError

TABLE = "CREATE TABLE t (a ARRAY<INT>, s STRUCT<x: DECIMAL(5, 2), y: ARRAY<STRING>>, m MAP<STRING, FLOAT>)"
ROWS: list[tuple[Any, ...]] = [
    ([1, None], {"x": Decimal("1.50"), "y": ["a", None]}, {"b": 1.5, "a": None}),
    ([], {"x": None, "y": None}, {}),
    (None, None, None),
]


def _database() -> ev.Database:
    db = ev.Database()
    db.sql(f"{TABLE}; CREATE MATERIALIZED VIEW v AS SELECT a, s, m FROM t")
    return db


def test_python_in_and_out() -> None:
    """Lists, tuples and dicts come in; lists and dicts go out."""
    db = _database()
    db.insert("t", ROWS)
    db.insert("t", [((1, None), (Decimal("1.5"), ("a", None)), [("a", None), ("b", 1.5)])])
    assert list(db.view("v")).count(ROWS[0]) == 2
    assert ROWS[0] in db.view("v")
    assert ([2], None, None) not in db.view("v")
    assert db.view("v").count() == 4
    db.delete("t", ROWS[:2])
    assert sorted(map(repr, db.view("v"))) == sorted(map(repr, _shown([ROWS[0], ROWS[2]])))
    assert len(db.view("v").page(limit=5)) == 2


def test_arrow_in_and_out() -> None:
    """Other widths, large lists, dictionaries and slices are brought into the table's type."""
    db = _database()
    column = pa.array([[9], [1, None], [], None], pa.large_list(pa.int64())).slice(1)
    structs = pa.array(
        [{"Y": ["z"], "x": 0}, {"Y": ["a", None], "x": Decimal("1.5")}, {"Y": None, "x": None}, None],
        pa.struct([("Y", pa.large_list(pa.large_string())), ("x", pa.decimal128(10, 4))]),
    ).slice(1)
    maps = pa.array([[], [("b", 1.5), ("a", None)], [], None], pa.map_(pa.large_string(), pa.float64())).slice(1)
    db.insert("t", pa.table({"a": column, "s": structs, "m": maps}))
    assert sorted(map(repr, db.view("v"))) == sorted(map(repr, _shown(ROWS)))
    again = _database()
    again.insert("t", db.view("v").to_arrow())
    assert sorted(map(repr, again.view("v"))) == sorted(map(repr, db.view("v")))


def _shown(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Maps come out in the order of their keys."""
    return [(a, s, None if m is None else dict(sorted(m.items()))) for a, s, m in rows]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ((5, None, None), "row 1, column a: 5 is of type int, the column is ARRAY<INT>"),
        ((["x"], None, None), "row 1, column a: 'x' is of type str, the column is INT"),
        (([2**31], None, None), "row 1, column a: 2147483648 does not fit into INT"),
        ((None, {"z": 1}, None), "row 1, column s: the struct has no field z"),
        ((None, (1,), None), "the column is STRUCT<x: DECIMAL(5, 2), y: ARRAY<STRING>>"),
        ((None, {"x": Decimal("1.234")}, None), "row 1, column s: Decimal('1.234') does not fit into DECIMAL(5, 2)"),
        ((None, None, [("a", 1), ("a", 2)]), "row 1, column m: a map has a key twice"),
        ((None, None, {None: 1}), "row 1, column m: a key of a map is None"),
        ((None, None, {"a": "x"}), "row 1, column m: 'x' is of type str, the column is FLOAT"),
    ],
)
def test_bad_values_are_refused_with_their_row(row: tuple[Any, ...], says: str) -> None:
    """The row is that of the data, not the place of an element among all; and nothing changes."""
    db = _database()
    with pytest.raises(ValueTypeError) as caught:
        db.insert("t", [ROWS[0], row])
    assert says in str(caught.value)
    assert caught.value.row == 1
    assert not db.view("v")


def test_bad_arrow_is_refused() -> None:
    """Types that do not fit are told of the whole column, values with their row."""
    db = _database()
    with pytest.raises(ValueTypeError, match="cast the column to list<item: int32> first"):
        db.insert("t", pa.table({"a": pa.array([None, ["x"]])}))
    with pytest.raises(ValueTypeError, match=r"row 1, column a: .* does not fit into ARRAY<INT>"):
        db.insert("t", pa.table({"a": pa.array([[1], [2**40]])}))
    dates = ev.Database()
    dates.sql("CREATE TABLE t (a ARRAY<DATE>)")
    late = pa.array([[0], [10**7]], pa.list_(pa.int32())).cast(pa.list_(pa.date32()))
    with pytest.raises(ValueTypeError, match=r"row 1, column a: .* does not fit into ARRAY<DATE>"):
        dates.insert("t", pa.table({"a": late}))
    maps = pa.array([[("a", 1.0)], [("a", 1.0), ("a", 2.0)]], pa.map_(pa.string(), pa.float32()))
    with pytest.raises(ValueTypeError, match="row 1, column m: a map has a key twice"):
        db.insert("t", pa.table({"m": maps}))


def test_keys() -> None:
    """An array or a struct may be a key."""
    db = ev.Database()
    db.sql("CREATE TABLE t (k ARRAY<INT>, s STRUCT<a: DATE>, v INT, PRIMARY KEY (k, s))")
    db.insert("t", [([1], {"a": None}, 1), ([1, 2], {"a": None}, 2)])
    db.upsert("t", [([1], (None,), 3), ([1], (None,), 4)])
    with pytest.raises(KeyViolationError):
        db.insert("t", [([1], (None,), 5)])
    db.delete("t", keys=[([1, 2], (None,))])
    assert list(db.table("t")) == [([1], {"a": None}, 4)]


def test_history_adds_nested_values_up() -> None:
    """What came and went since a version is net, whatever the types."""
    db = ev.Database()
    db.sql(f"{TABLE}; CREATE MATERIALIZED VIEW v OPTIONS (history = 10) AS SELECT a, s, m FROM t")
    db.insert("t", ROWS)
    db.delete("t", ROWS[:1])
    told = db.view("v").diff(since=0).to_pylist(maps_as_pydicts="strict")
    assert sorted(repr(tuple(row.values())[:3]) for row in told) == sorted(map(repr, ROWS[1:]))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT DISTINCT m FROM t",
        "SELECT m FROM t UNION SELECT m FROM t",
        "SELECT m FROM t EXCEPT ALL SELECT m FROM t",
        "SELECT t.a FROM t JOIN t AS u ON t.m = u.m",
        "SELECT t.a FROM t JOIN t AS u USING (m)",
        "SELECT a FROM t WHERE m IN (SELECT m FROM t)",
        "SELECT a FROM t WHERE m = m",
        "SELECT MIN(m) AS x FROM t",
        "SELECT a FROM t ORDER BY m LIMIT 1",
    ],
)
def test_maps_are_not_compared(query: str) -> None:
    """As in Spark; GROUP BY alone takes them."""
    db = _database()
    with pytest.raises((QueryError, EverviewError), match="MAP<STRING, FLOAT>"):
        db.sql(f"CREATE MATERIALIZED VIEW w AS {query}")
