"""A batch that is refused says all rows because of which it is: without them, it is taken."""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import everview as ev
from everview.errors import (
    DataError,
    DomainViolationError,
    ExpressionError,
    KeyViolationError,
    NullViolationError,
    OverDeleteError,
    ReferenceViolationError,
    RefusedRow,
    RowShapeError,
    UpdateKindError,
    ValueTypeError,
)
from tests.scale import thoroughness

SCHEMA = """
CREATE TABLE k (id INT PRIMARY KEY, x INT NOT NULL, s STRING CHECK (s IN ('a', 'b')));
CREATE TABLE t (a INT, b INT);
CREATE TABLE c (id INT, kid INT REFERENCES k);
CREATE VIEW v AS SELECT a, 10 / b AS q FROM t;
CREATE VIEW n AS SELECT a, COUNT(*) AS n FROM t GROUP BY a
"""


@pytest.fixture
def db() -> ev.Database:
    made = ev.Database()
    made.sql(SCHEMA)
    made.insert("k", [(1, 1, "a"), (2, 2, None)])
    made.insert("t", [(1, 1), (1, 1)])
    return made


def places(error: DataError) -> list[tuple[int, str | None, int | None]]:
    return [row.place for row in error.refused]


def test_rows_that_are_not_there(db: ev.Database) -> None:
    with pytest.raises(OverDeleteError) as caught:
        db.delete("t", [(1, 1), (5, 5), (1, 1), (1, 1), (6, 6)])
    error = caught.value
    assert (error.row, [r.row for r in error.refused]) == (1, [1, 3, 4])
    assert error.refused[1].values == (1, 1)
    assert error.refused[1].reason == "deletes (1, 1), which is not there"
    assert str(error).endswith("and 2 more rows: .refused lists them")
    assert error.message.endswith("nothing has changed")
    db.delete("t", [(1, 1), (1, 1)])


def test_second_rows_of_keys_over_several_operations(db: ev.Database) -> None:
    """What is refused changes nothing: what comes after it is judged without it."""
    operations = [
        ("k", "insert", [(3, 1, None), (1, 9, None), (3, 2, None)]),
        ("k", "delete", [(1, 1, "a"), (1, 9, None)]),
        ("k", "insert", [(1, 5, None), (2, 5, None)]),
        ("t", "delete", [(8, 8)]),
    ]
    with pytest.raises(KeyViolationError) as caught:
        run(db, operations)
    assert places(caught.value) == [(0, "k", 1), (0, "k", 2), (1, "k", 1), (2, "k", 1), (3, "t", 0)]
    assert caught.value.refused[4].error is OverDeleteError
    run(db, without(operations, caught.value.refused))
    assert sorted(db.table("k")) == [(1, 5, None), (2, 2, None), (3, 1, None)]


def test_keys_that_no_row_has(db: ev.Database) -> None:
    with pytest.raises(OverDeleteError) as caught:
        run(db, [("k", "delete keys", [7, 1, 8]), ("k", "insert", [(1, 5, None), (2, 5, None)])])
    assert places(caught.value) == [(0, "k", 0), (0, "k", 2), (1, "k", 1)]


def test_rows_that_point_at_nothing(db: ev.Database) -> None:
    with pytest.raises(ReferenceViolationError) as caught:
        db.insert("c", [(1, 1), (2, 7), (3, None), (4, 8)])
    assert places(caught.value) == [(0, "c", 1), (0, "c", 3)]
    db.insert("c", [(1, 1), (3, None)])
    with pytest.raises(ReferenceViolationError) as caught:
        run(db, [("k", "delete", [(1, 1, "a"), (2, 2, None)]), ("c", "insert", [(5, 2), (6, 2)])])
    assert places(caught.value) == [(0, "k", 0), (0, "k", 1), (1, "c", 0), (1, "c", 1)]


@pytest.mark.parametrize("form", ["tuples", "dicts", "Arrow"])
def test_values_of_all_columns(db: ev.Database, form: str) -> None:
    given_: Any = [(1, 1, "a"), (5, None, "a"), (6, 2**40, "c"), (None, 1, "b"), (7, 1, None), (8, 1, "z")]
    if form != "tuples":
        given_ = [dict(zip(("id", "x", "s"), row, strict=True)) for row in given_]
    if form == "Arrow":
        given_ = pa.Table.from_pylist(given_)
    with pytest.raises(DataError) as caught:
        db.insert("k", given_)
    found = {r.row: (r.column, r.error) for r in caught.value.refused}
    assert found == {
        1: ("x", NullViolationError),
        2: ("x", ValueTypeError),
        3: ("id", NullViolationError),
        5: ("s", DomainViolationError),
    }
    assert caught.value.refused[3].values in ((8, 1, "z"),)


def test_rows_of_a_wrong_shape_beside_wrong_values(db: ev.Database) -> None:
    with pytest.raises(RowShapeError) as caught:
        db.insert("t", [(1, 1), (1,), (2, "x"), 7, (3, 3)])
    assert [(r.row, r.error) for r in caught.value.refused] == [
        (1, RowShapeError),
        (2, ValueTypeError),
        (3, RowShapeError),
    ]
    with pytest.raises(RowShapeError) as caught:
        db.insert("t", [{"a": 1, "b": 1}, {"a": 1, "z": 1}, {"a": "x"}, (1, 2)])
    assert [r.row for r in caught.value.refused] == [1, 2, 3]


def test_changes_that_say_nothing(db: ev.Database) -> None:
    with pytest.raises(DataError) as caught:
        db.apply("t", [(1, 1, "insert"), (1, 1, "put"), ("x", 1, "delete"), (1, 1, None)])
    assert [(r.row, r.column) for r in caught.value.refused] == [(1, "_change_type"), (2, "a"), (3, "_change_type")]


def test_the_operation_is_told_where_rows_are_read(db: ev.Database) -> None:
    with pytest.raises(ValueTypeError) as caught:
        run(db, [("t", "insert", [(1, 1)]), ("t", "insert", [("x", 1)])])
    assert places(caught.value) == [(1, "t", 0)]


def test_tables_that_may_not_change_so() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE p (a INT) OPTIONS (updates = 'append')")
    db.insert("p", [(1,), (2,)])
    with pytest.raises(UpdateKindError) as caught:
        db.apply("p", [(1, "delete"), (3, "insert"), (2, "delete")])
    assert places(caught.value) == [(0, "p", 0), (0, "p", 2)]


def test_rows_that_an_expression_has_no_value_for(db: ev.Database) -> None:
    """Only those that are in the batch's end state are looked at."""
    with pytest.raises(ExpressionError) as caught:
        run(db, [("t", "insert", [(1, 0), (2, 1), (3, 0), (3, 0), (4, 0)]), ("t", "delete", [(4, 0)])])
    assert places(caught.value) == [(0, "t", 0), (0, "t", 2), (0, "t", 3)]
    assert caught.value.refused[1].values == (3, 0)
    assert "b = 0" in caught.value.refused[1].reason
    with db.batch() as batch:
        batch.insert("t", [(2, 1), (4, 0)])
        batch.delete("t", [(4, 0)])
    assert sorted(db.view("v")) == [(1, 10.0), (1, 10.0), (2, 10.0)]


def test_a_groups_rows(db: ev.Database) -> None:
    db.sql("CREATE VIEW g AS SELECT a, 1 / (COUNT(*) - 3) AS q FROM t GROUP BY a")
    with pytest.raises(ExpressionError) as caught:
        db.insert("t", [(2, 1), (1, 1), (5, 1)])
    assert places(caught.value) == [(0, "t", 1)]


def test_very_many(db: ev.Database) -> None:
    with pytest.raises(ValueTypeError) as caught:
        db.insert("t", [("x", 1)] * 30_000)
    assert caught.value.is_cut
    assert "and at least " in str(caught.value)
    assert len(caught.value.refused) > 5_000


def test_they_can_be_pickled(db: ev.Database) -> None:
    with pytest.raises(OverDeleteError) as caught:
        db.delete("t", [(5, 5), (6, 6)])
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.refused) == (str(caught.value), caught.value.refused)


# --- whatever comes --------------------------------------------------------------------------------------------------

K_ROWS = st.tuples(st.integers(0, 4), st.integers(0, 1), st.none() | st.just("a"))
T_ROWS = st.tuples(st.integers(0, 2), st.integers(-1, 2))
C_ROWS = st.tuples(st.integers(0, 1), st.none() | st.integers(0, 4))
ROWS = {"k": K_ROWS, "t": T_ROWS, "c": C_ROWS}
OPERATIONS = st.sampled_from(list(ROWS)).flatmap(
    lambda table: st.tuples(
        st.just(table), st.sampled_from(["insert", "delete", "apply"]), st.lists(ROWS[table], min_size=1, max_size=5)
    )
)


def run(db: ev.Database, operations: Sequence[tuple[str, str, list[Any]]]) -> None:
    with db.batch() as batch:
        for table, kind, rows in operations:
            if kind == "apply":
                batch.apply(table, [(*row, "delete" if i % 2 else "insert") for i, row in enumerate(rows)])
            elif kind == "delete keys":
                batch.delete(table, keys=rows)
            else:
                getattr(batch, kind)(table, rows)


def without(operations: Sequence[Any], refused: Sequence[RefusedRow]) -> list[Any]:
    """The operations without rows; those of both signs are said one by one, so that their signs stay."""
    places = {(r.operation, r.row) for r in refused}
    found = []
    for number, (table, kind, rows) in enumerate(operations):
        for i, row in enumerate(rows):
            if (number, i) not in places:
                sign = ("delete" if i % 2 else "insert") if kind == "apply" else kind
                found.append((table, sign, [row]))
    return found


def wrong(db: ev.Database, operations: Sequence[Any]) -> DataError | None:
    """What is wrong with a batch, which has changed nothing then."""
    version = db.version
    try:
        run(db, operations)
    except DataError as error:
        if db.version != version:
            raise
        return error
    return None


@given(st.lists(OPERATIONS, min_size=1, max_size=4), st.integers(0, 99))
@thoroughness(60)
@pytest.mark.slow
def test_the_others_are_taken(operations: list[Any], seed: int) -> None:
    """Each kind of refusal takes one run: tables, then keys that nothing is at, then views."""
    db = ev.Database()
    db.sql(SCHEMA)
    r = random.Random(seed)
    db.insert("k", [(i, r.randrange(2), None) for i in range(3)])
    db.insert("t", [(r.randrange(3), r.choice([1, 2])) for _ in range(3)])
    db.insert("c", [(0, 1), (1, None)])
    kinds = []
    while (error := wrong(db, operations)) is not None:
        assert error.refused, error
        kinds.append(type(error))
        operations = without(operations, error.refused)
    assert len(kinds) <= 4
    assert kinds.count(ExpressionError) <= 1
