"""What comes in is exactly what was given, or it is refused with its place, its value and a way out."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Iterator
from decimal import Decimal
from enum import IntEnum
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.engine.input.read import read_changes, read_rows, table_schema
from everview.errors import (
    ChangeTypeError,
    DataError,
    DomainViolationError,
    EverviewError,
    NullViolationError,
    RowShapeError,
    ValueTypeError,
)
from everview.query.schema import Column, SmallDomain, Table
from everview.query.terms import Const
from everview.query.types import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, DataType, Kind, decimal

TYPES = {
    "k": BIGINT,
    "i": DataType(Kind.TINYINT),
    "d": DOUBLE,
    "f": DataType(Kind.FLOAT),
    "m": decimal(5, 2),
    "w": decimal(38, 2),
    "s": STRING,
    "b": DataType(Kind.BINARY),
    "day": DATE,
    "ts": TIMESTAMP,
    "ntz": DataType(Kind.TIMESTAMP_NTZ),
    "o": BOOLEAN,
}
DOMAINS = (SmallDomain("s", (Const("a"), Const("b"))), SmallDomain("d", (Const(0.0), Const(1.5))))
TABLE = Table("t", tuple(Column(n, ty, n != "s") for n, ty in TYPES.items()), ("K",), (), DOMAINS)
NOON = dt.datetime(2020, 1, 1, 12)
GOOD: dict[str, Any] = {
    "k": 1,
    "i": -128,
    "d": 1.5,
    "f": 0.5,
    "m": Decimal("999.99"),
    "w": Decimal("1.50"),
    "s": "a",
    "b": b"\xff",
    "day": dt.date(2020, 1, 1),
    "ts": NOON.replace(tzinfo=dt.UTC),
    "ntz": NOON,
    "o": True,
}
ROW = tuple(GOOD.values())
PAIR = Table("p", (Column("a", BIGINT), Column("B", STRING)))


def refused(error: type[DataError], data: object, row: int | None, column: str | None, *words: str) -> DataError:
    """The refusal of data for TABLE, which must say where and what."""
    with pytest.raises(error) as caught:
        read_rows(TABLE, data)
    assert (caught.value.table, caught.value.row, caught.value.column) == ("t", row, column)
    text = str(caught.value)
    assert text.startswith("insert into t")
    assert "\nhint: " in text
    for word in (*words, *([f"row {row}"] if row is not None else []), *([f"column {column}"] if column else [])):
        assert word in text
    return caught.value


# --- forms -----------------------------------------------------------------------------------------------------------


class Capsule:
    """Something of another library that speaks Arrow."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def __arrow_c_array__(self, schema: object = None) -> object:
        return self.batch.__arrow_c_array__(schema)


class Stream:
    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, schema: object = None) -> object:
        return self.table.__arrow_c_stream__(schema)


def forms() -> Iterator[Any]:
    table = pa.table({"b": ["x", None], "A": [1, 2]})
    yield [(1, "x"), (2, None)]
    yield ([1, "x"], [2, None])
    yield iter([(1, "x"), [2, None]])
    yield [{"a": 1, "b": "x"}, {"A": 2}]
    yield table
    yield table.to_batches()[0]
    yield table.to_reader()
    yield pa.concat_tables([table[:1], table[1:]])
    yield [table[:1], *table[1:].to_batches()]
    yield Capsule(table.to_batches()[0])
    yield Stream(table)
    with duckdb.connect() as connection:
        yield connection.sql("SELECT * FROM (VALUES (1, 'x'), (2, NULL)) AS v(a, b)")
        yield connection.sql("SELECT * FROM (VALUES (1, 'x'), (2, NULL)) AS v(a, b)").arrow()
    yield table.set_column(0, "b", table["b"].dictionary_encode()).cast(
        pa.schema([("b", pa.dictionary(pa.int32(), pa.string())), ("A", pa.int8())])
    )
    yield pa.table({"a": pa.array([1, 2], pa.uint64()), "B": pa.array(["x", None], pa.string_view())})


def test_every_form_of_rows() -> None:
    for data in forms():
        rows = read_rows(PAIR, data)
        assert rows.schema == table_schema(PAIR)
        assert rows.column_names == ["a", "B"]
        assert rows.to_pylist() == [{"a": 1, "B": "x"}, {"a": 2, "B": None}]
        assert all(c.num_chunks == 1 for c in rows.columns)


def test_pandas_is_recognised_without_importing_it() -> None:
    pandas = pytest.importorskip("pandas")
    assert read_rows(PAIR, pandas.DataFrame({"a": [1], "b": ["x"]})).to_pylist() == [{"a": 1, "B": "x"}]


@pytest.mark.parametrize("data", [[], (), iter(()), pa.table({"a": pa.array([], pa.int64())}), pa.table({})])
def test_no_rows(data: object) -> None:
    assert read_rows(PAIR, data).schema == table_schema(PAIR)
    assert read_rows(PAIR, data if not isinstance(data, Iterator) else []).num_rows == 0


def test_run_end_encoded() -> None:
    runs = pa.RunEndEncodedArray.from_arrays([2, 3], pa.array([7, None]))
    assert read_rows(PAIR, pa.table({"a": runs})).column(0).to_pylist() == [7, 7, None]


@pytest.mark.parametrize("indices", [pa.int8(), pa.uint32(), pa.int64()], ids=str)
@pytest.mark.parametrize("values", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_dictionaries_of_any_text(values: pa.DataType, indices: pa.DataType) -> None:
    """As pandas' categories, and polars' Categorical and Enum, come, also in chunks with a dictionary each."""
    words = pa.array(["x", "y", None]).cast(values)
    first = pa.DictionaryArray.from_arrays(pa.array([1, None, 0, 2], indices), words)
    second = pa.DictionaryArray.from_arrays(pa.array([0], indices), pa.array(["z"]).cast(values))
    encoded = pa.chunked_array([first.slice(1), second])
    assert read_rows(PAIR, pa.table({"b": encoded})).column(1).to_pylist() == [None, "x", None, "z"]
    kinds = pa.DictionaryArray.from_arrays(pa.array([0], indices), pa.array(["delete"]).cast(values))
    assert read_changes(PAIR, pa.table({"b": second, "_change_type": kinds}))[1].to_pylist() == [-1]
    with pytest.raises(ValueTypeError, match="row 0, column a"):
        read_rows(PAIR, pa.table({"a": first}))
    runs = pa.RunEndEncodedArray.from_arrays([2, 3, 5], words).slice(1, 3)
    assert read_rows(PAIR, pa.table({"b": runs})).column(1).to_pylist() == ["x", "y", None]


def test_arrow_of_the_right_types_is_not_copied() -> None:
    array = pa.array([1, 2, 3])
    assert read_rows(PAIR, pa.table({"a": array})).column(0).chunk(0).buffers()[1].address == array.buffers()[1].address


@pytest.mark.parametrize(
    ("data", "row", "words"),
    [
        ((1, "x"), None, "[(…)]"),
        ({"a": 1}, None, "pyarrow.table"),
        ("abc", None, "'abc' is no list of rows"),
        (None, None, "None is no list of rows"),
        ([1, 2], 0, "written (x,)"),
        ([ROW, GOOD], 1, "all as dicts"),
        ([GOOD, ROW], 1, "all as tuples"),
        ([ROW, ROW[:3]], 1, "3 values, a row has 12"),
        ([GOOD, {**GOOD, "zz": 1}], 1, "no column 'zz'"),
        ([{**GOOD, "S": "a"}], 0, "'S' is given twice"),
        ([{1: 2}], 0, "no column 1"),
        (pa.table({"x": [1], "y": [2]}), None, "no column 'x', 'y'"),
        (pa.array([1]), None, "could not be read as a table"),
        ([pa.table({"k": [1]}), 5], None, "item 1 is 5"),
        ([pa.table({"k": [1]}), pa.table({"k": ["x"]})], None, "do not go together"),
    ],
)
def test_wrong_shapes(data: object, row: int | None, words: str) -> None:
    refused(RowShapeError, data, row, None, words)


# --- values ----------------------------------------------------------------------------------------------------------


class Level(IntEnum):
    LOW = 3


@pytest.mark.parametrize(
    ("column", "given_", "stored"),
    [
        ("k", 2**63 - 1, 2**63 - 1),
        ("k", -(2**63) + 1, -(2**63) + 1),
        ("i", Level.LOW, 3),
        ("d", 0, 0.0),
        ("d", -0.0, 0.0),
        ("f", 0.1, 0.10000000149011612),
        ("f", float("-inf"), float("-inf")),
        ("m", 7, Decimal("7.00")),
        ("m", Decimal("1.5000"), Decimal("1.50")),
        ("b", bytearray(b"x"), b"x"),
        ("ts", NOON, NOON.replace(tzinfo=dt.UTC)),
        ("ts", NOON.replace(tzinfo=dt.timezone(dt.timedelta(hours=2))), NOON.replace(hour=10, tzinfo=dt.UTC)),
        ("o", None, None),
    ],
)
def test_values_that_are_taken(column: str, given_: object, stored: object) -> None:
    for data in ([{**GOOD, column: given_}], [tuple({**GOOD, column: given_}.values())]):
        assert read_rows(TABLE, data).column(column).to_pylist() == [stored]


WRONG = [
    ("k", True, "True is of type bool"),
    ("k", 1.0, "1.0 is of type float"),
    ("k", "1", "pass an int"),
    ("k", 2**63, "does not fit into BIGINT"),
    ("k", -(2**63), "stands for NULL"),
    ("i", 128, "-128 to 127"),
    ("d", "x", "the column is DOUBLE"),
    ("d", Decimal(1), "convert them with float()"),
    ("d", 2**53 + 1, "not exact"),
    ("f", 1e300, "declare the column DOUBLE"),
    ("m", 0.5, "a float is not exact"),
    ("m", "0.5", "pass a Decimal"),
    ("m", Decimal("0.001"), "3 digits before the point and 2 after"),
    ("m", 1000, "1000 does not fit"),
    ("m", Decimal("NaN"), "does not fit"),
    pytest.param("m", 10**5000, "does not fit", id="thousands of digits"),
    ("w", Decimal("1E+999"), "does not fit"),
    ("s", b"a", "decode"),
    pytest.param("s", "\ud800", "UTF-8", id="surrogate"),
    ("b", "x", "encode"),
    ("b", "x" * 1_000, "…"),
    ("day", NOON, ".date()"),
    ("day", "2020-01-01", "date.fromisoformat"),
    ("day", 5, "pass a datetime.date"),
    ("ts", dt.date(2020, 1, 1), "datetime.combine"),
    ("ts", "2020-01-01", "datetime.fromisoformat"),
    ("ntz", NOON.replace(tzinfo=dt.UTC), "without a time zone"),
    ("o", 1, "bool()"),
]


@pytest.mark.parametrize(("column", "value", "words"), WRONG)
def test_values_that_are_refused(column: str, value: object, words: str) -> None:
    error = refused(ValueTypeError, [GOOD, GOOD, {**GOOD, column: value}, GOOD], 2, column, words)
    assert len(error.message) < 250


@pytest.mark.parametrize(
    ("column", "array", "row", "words"),
    [
        ("k", pa.array([1, None, 2.5], pa.float64()), 0, "cast the column to int64"),
        ("k", pa.array([1, 2, 2**63], pa.uint64()), 2, "9223372036854775808 does not fit"),
        ("k", pa.array([1, -(2**63), 2]), 1, "stands for NULL"),
        ("i", pa.chunked_array([[1], [2, 300]]), 2, "300 does not fit into TINYINT"),
        ("d", pa.array([0, 2**60, 0]), 1, "does not fit into DOUBLE"),
        ("f", pa.array([1.0, 2.0, 1e39]), 2, "1e+39"),
        ("m", pa.array([1, 2, 1000]), 2, "1000 does not fit"),
        ("m", pa.array([Decimal("1.001")] * 3), 0, "1.001"),
        ("m", pa.array([None, 1.5, 2.5]), 1, "1.5 is of type double (Arrow)"),
        ("b", pa.array(["x", "y", "z"]), 0, "'x' is of type string"),
        ("day", pa.array([0, 86_400_000, 1], pa.int64()).view(pa.date64()), 2, "does not fit into DATE"),
        ("day", pa.array([0, 1, 2], pa.timestamp("s")), 0, "cast the column to date32"),
        ("ts", pa.array([0, 1_000, 1_001], pa.timestamp("ns")), 2, "microseconds"),
        ("ts", pa.array([0, 1, -(2**63)], pa.int64()).view(pa.timestamp("us")), 2, "stands for NULL"),
        ("ntz", pa.array([0, 1, 2], pa.timestamp("us", "UTC")), 0, "cast the column to timestamp[us]"),
        ("o", pa.array([[1], [2], []]), 0, "list"),
    ],
)
def test_arrow_values_that_are_refused(column: str, array: pa.Array, row: int, words: str) -> None:
    columns: dict[str, Any] = {"k": [1, 2, 3], "s": ["a", "b", "a"], "d": [0.0, 0.0, 1.5]}
    refused(ValueTypeError, pa.table({**columns, column: array}), row, column, words)


def test_invalid_utf8_in_arrow() -> None:
    offsets = pa.array([0, 1, 3, 3], pa.int32()).buffers()[1]
    broken = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"a\xff\xfe")])
    refused(ValueTypeError, pa.table({"k": [1, 2, 3], "s": broken}), 1, "s", r"b'\xff\xfe'", "UTF-8")


def test_arrow_timestamps_of_any_zone_and_unit() -> None:
    ts = pa.array([0, 3_600], pa.timestamp("s", "Europe/Berlin"))
    rows = read_rows(TABLE, pa.table({"k": [1, 2], "s": ["a", "a"], "ts": ts}))
    assert rows.column("ts").to_pylist() == [dt.datetime(1970, 1, 1, h, tzinfo=dt.UTC) for h in (0, 1)]


def test_columns_of_nothing_but_null_have_any_type() -> None:
    data = pa.table({"k": [1], "s": ["a"], "day": pa.nulls(1, pa.float64()), "o": pa.nulls(1)})
    assert read_rows(TABLE, data).column("day").to_pylist() == [None]


def test_not_null_and_keys() -> None:
    refused(NullViolationError, [GOOD, {**GOOD, "s": None}], 1, "s", "NOT NULL")
    refused(NullViolationError, [GOOD, {**GOOD, "k": None}], 1, "k", "primary key")
    refused(NullViolationError, [GOOD, {"k": 1}], 1, "s", "missing")
    refused(NullViolationError, pa.table({"k": [1]}), None, "s", "does not have this column")
    refused(NullViolationError, pa.table({"k": [1, 2], "s": ["a", None]}), 1, "s")


def test_small_domains() -> None:
    refused(DomainViolationError, [GOOD, {**GOOD, "s": "c"}], 1, "s", "'c'", "CHECK (s IN ('a', 'b'))")
    refused(DomainViolationError, [{**GOOD, "d": float("nan")}], 0, "d", "nan")
    refused(DomainViolationError, pa.table({"k": [1, 2], "s": ["b", "x"]}), 1, "s")
    assert read_rows(TABLE, [{**GOOD, "d": None}, {**GOOD, "d": -0.0}]).num_rows == 2


def test_a_member_that_the_column_cannot_hold_matches_nothing() -> None:
    table = Table("q", (Column("m", decimal(3, 1)),), small_domains=(SmallDomain("m", (Const(Decimal("1.55")),)),))
    with pytest.raises(DomainViolationError):
        read_rows(table, [(Decimal("1.5"),)])


def test_messages_say_what_was_done() -> None:
    for what, text in {"delete": "delete from p, row 0", "upsert": "upsert into p, row 0"}.items():
        with pytest.raises(RowShapeError, match=text):
            read_rows(PAIR, [()], what=what)


def test_errors_can_be_pickled() -> None:
    error = refused(ValueTypeError, [{**GOOD, "k": "x"}], 0, "k")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.table, copy.row, copy.column) == (str(error), "t", 0, "k")


# --- changes ---------------------------------------------------------------------------------------------------------

KINDS = ["insert", "delete", "update_preimage", "update_postimage"]


@pytest.mark.parametrize(
    "data",
    [
        [(i, "x", kind) for i, kind in enumerate(KINDS)],
        [{"a": i, "b": "x", "_change_type": kind} for i, kind in enumerate(KINDS)],
        pa.table({"_change_type": KINDS, "a": range(4), "b": ["x"] * 4, "_commit_version": [1] * 4}),
        pa.table({"_change_type": pa.array(KINDS).dictionary_encode(), "a": range(4), "b": ["x"] * 4}),
    ],
)
def test_changes(data: object) -> None:
    rows, weights = read_changes(PAIR, data)
    assert rows.to_pylist() == [{"a": i, "B": "x"} for i in range(4)]
    assert weights.equals(pa.array([1, -1, -1, 1], pa.int64()))


def test_a_feed_of_copies() -> None:
    feed = pa.table({"a": [1, 2], "_change_type": ["insert", "delete"], "_count": pa.array([2, 3], pa.int32())})
    assert read_changes(PAIR, feed)[1].to_pylist() == [2, -3]
    assert read_changes(PAIR, feed.to_pylist())[1].to_pylist() == [2, -3]


def test_no_changes() -> None:
    for data in ([], pa.table({"_change_type": pa.array([], pa.string())})):
        rows, weights = read_changes(PAIR, data)
        assert (rows.num_rows, len(weights)) == (0, 0)


@pytest.mark.parametrize(
    ("data", "row", "words"),
    [
        ([(1, "x", "insert"), (1, "x", "upsert")], 1, "'upsert' is no change type"),
        ([(1, "x", ["insert"])], 0, "is no change type"),
        ([{"a": 1}], 0, "None is no change type"),
        (pa.table({"a": [1, 2], "_change_type": ["insert", "INSERT"]}), 1, "'INSERT'"),
        (pa.table({"a": [1, 2], "_change_type": ["insert", None]}), 1, "None"),
        (pa.table({"a": [1], "_change_type": pa.array([[1]])}), 0, "is no change type"),
        (pa.table({"a": [1], "_change_type": [1]}), 0, "1 is no change type"),
        (pa.table({"a": [1]}), None, "does not have this column"),
        (pa.table({"_change_type": ["insert"], "_count": [0]}), 0, "0 is no number of copies"),
        (pa.table({"_change_type": ["insert"] * 2, "_count": [1, None]}), 1, "None is no number of copies"),
    ],
)
def test_wrong_changes(data: object, row: int | None, words: str) -> None:
    with pytest.raises(ChangeTypeError, match=words) as caught:
        read_changes(PAIR, data)
    assert caught.value.row == row


def test_a_table_with_the_feeds_column_names() -> None:
    table = Table("p", (Column("_count", BIGINT), Column("_Update", BIGINT)))
    changes = [{"_count": -5, "_update": 2, "_change_type": "delete"}]
    rows, weights = read_changes(table, changes)
    assert (rows.to_pylist(), weights.to_pylist()) == ([{"_count": -5, "_Update": 2}], [-1])
    with pytest.raises(RowShapeError, match="of its own"):
        read_changes(Table("p", (Column("_change_type", STRING),)), [])


# --- anything at all -------------------------------------------------------------------------------------------------

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.decimals()
    | st.text(st.characters(), max_size=3)
    | st.binary(max_size=3)
    | st.dates()
    | st.datetimes(timezones=st.none() | st.timezones())
    | st.times()
    | st.timedeltas()
    | st.complex_numbers()
    | st.sampled_from([object(), int, -(2**63), 2**63, 10**4000, "a", "insert", "delete"])
)
JUNK = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner), max_leaves=6)
NAMES = st.sampled_from([*TYPES, "K", "zz", "_change_type", "_count", 1])
ROWS = (
    st.lists(JUNK, max_size=3)
    | st.dictionaries(NAMES, JUNK, max_size=12)
    | st.fixed_dictionaries({n: st.just(v) | JUNK for n, v in GOOD.items()})
    | st.tuples(*(st.just(v) | JUNK for v in ROW))
    | JUNK
)


def read_or_refused(data: object) -> None:
    """Any other exception than ours fails the test."""
    for read in (read_rows, read_changes):
        error = None
        try:
            read(TABLE, data)
        except EverviewError as raised:
            error = raised
        assert error is None or (error.hint and str(error))


@given(JUNK | ROWS | st.lists(ROWS, max_size=4))
def test_whatever_comes_is_read_or_refused(data: object) -> None:
    read_or_refused(data)


ARROW = st.sampled_from(
    [
        pa.null(),
        pa.int8(),
        pa.uint64(),
        pa.float16(),
        pa.float64(),
        pa.bool_(),
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.binary(2),
        pa.decimal128(7, 3),
        pa.decimal256(50, 1),
        pa.date32(),
        pa.date64(),
        pa.time64("ns"),
        pa.timestamp("ns"),
        pa.timestamp("s", "Asia/Tokyo"),
        pa.duration("s"),
        pa.list_(pa.int8()),
        pa.struct([("x", pa.int8())]),
        pa.dictionary(pa.int8(), pa.string()),
        pa.month_day_nano_interval(),
    ]
)


@given(st.data())
def test_whatever_arrow_comes_is_read_or_refused(data: st.DataObject) -> None:
    size = data.draw(st.integers(0, 3))
    columns: dict[str, Any] = {"k": pa.array(range(size)), "s": pa.array(["a"] * size)}
    for name in data.draw(st.lists(st.sampled_from([*TYPES, "_change_type", "_count"]), max_size=5)):
        kind = data.draw(ARROW)
        raw = pa.py_buffer(data.draw(st.binary(min_size=size * 32, max_size=size * 32)))
        fixed = kind.num_buffers == 2 and kind.num_fields == 0 and not pa.types.is_dictionary(kind)
        columns[name] = pa.Array.from_buffers(kind, size, [None, raw]) if fixed else pa.nulls(size, kind)
    read_or_refused(pa.table(columns))
