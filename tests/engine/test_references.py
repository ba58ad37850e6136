"""Foreign keys are judged at the end of a batch: random batches against brute force, messages, undo, snapshots."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import everview as ev
from everview.errors import KeyViolationError, OverDeleteError, ReferenceViolationError
from tests.scale import thoroughness

SCHEMA = """
CREATE TABLE city (id INT PRIMARY KEY, name STRING);
CREATE TABLE person (id INT PRIMARY KEY, home INT REFERENCES city, friend INT REFERENCES person);
CREATE TABLE visit (person INT, city INT NOT NULL REFERENCES city, FOREIGN KEY (person) REFERENCES person (id));
CREATE MATERIALIZED VIEW seen AS
SELECT p.id, c.name FROM person p JOIN visit v ON v.person = p.id JOIN city c ON c.id = v.city;
"""
TABLES = ("city", "person", "visit")
small = st.integers(0, 3)
maybe = st.one_of(st.none(), small)
row_of = {
    "city": st.tuples(small, st.sampled_from("ab")),
    "person": st.tuples(small, maybe, maybe),
    "visit": st.tuples(maybe, small),
}
change = st.sampled_from(TABLES).flatmap(lambda t: st.tuples(st.just(t), row_of[t], st.sampled_from((1, 1, 1, -1))))
batches = st.lists(st.lists(change, min_size=1, max_size=6), min_size=1, max_size=12)

State = dict[str, Counter[tuple[Any, ...]]]


def expected(state: State, batch: list[tuple[str, tuple[Any, ...], int]]) -> State | type[Exception]:
    """What the batch makes of the tables, or how it must be refused."""
    after = {name: Counter(rows) for name, rows in state.items()}
    for table, row, weight in batch:
        after[table][row] += weight
        if after[table][row] < 0:
            return OverDeleteError
        if table != "visit" and sum(n for other, n in after[table].items() if other[0] == row[0]) > 1:
            return KeyViolationError
    keys = {name: {row[0] for row, n in after[name].items() if n} for name in ("city", "person")}
    pointers = [("person", 1, "city"), ("person", 2, "person"), ("visit", 0, "person"), ("visit", 1, "city")]
    for table, column, target in pointers:
        for row, n in after[table].items():
            if n and row[column] is not None and row[column] not in keys[target]:
                return ReferenceViolationError
    return {name: +rows for name, rows in after.items()}


def held(db: ev.Database) -> State:
    return {name: Counter(map(tuple, db.table(name))) for name in TABLES}


@thoroughness(60)
@given(batches)
def test_a_batch_is_taken_if_every_pointer_has_a_target_at_its_end(steps: list[list[Any]]) -> None:
    db = ev.Database()
    db.sql(SCHEMA)
    state: State = {name: Counter() for name in TABLES}
    for step in steps:
        wanted = expected(state, step)
        version = db.version

        def run(step: list[Any] = step) -> None:
            with db.batch() as batch:
                for table, row, weight in step:
                    (batch.insert if weight > 0 else batch.delete)(table, [row])

        if isinstance(wanted, type):
            with pytest.raises(wanted):
                run()
            assert db.version == version
        else:
            run()
            state = wanted
        assert held(db) == state
        cities = {row[0]: row[1] for row in state["city"]}
        joined: Counter[tuple[Any, ...]] = Counter()
        for (person, city), n in state["visit"].items():
            if person is not None:
                joined[person, cities[city]] += n
        assert Counter(map(tuple, db.view("seen"))) == joined


def test_messages_say_which_row_and_what_to_do() -> None:
    db = ev.Database()
    db.sql(SCHEMA)
    db.insert("city", [(1, "a"), (2, "b")])
    with pytest.raises(ReferenceViolationError, match=r"row 1 of the changes to visit inserts \(None, 7\)") as caught:
        db.insert("visit", [(None, 1), (None, 7)])
    assert (caught.value.table, caught.value.row, caught.value.column) == ("visit", 1, "city")
    assert "(city) → city(id)" in str(caught.value)
    assert "same batch" in str(caught.value)
    db.insert("visit", [(None, 1)])
    with pytest.raises(ReferenceViolationError, match=r"row 1 of the changes to city deletes \(1, 'a'\)") as caught:
        db.delete("city", [(2, "b"), (1, "a")])
    assert (caught.value.table, caught.value.row, caught.value.column) == ("city", 1, "id")
    assert "rows of visit still points" in str(caught.value)
    assert len(db.table("city")) == 2


def test_a_parent_may_be_replaced_and_a_row_may_point_at_itself() -> None:
    db = ev.Database()
    db.sql(SCHEMA)
    db.insert("person", [(1, None, 1)])
    db.delete("person", [(1, None, 1)])
    db.insert("person", [(1, None, 1)])
    db.upsert("person", [(1, None, None)])
    db.insert("city", [(1, "a")])
    db.insert("visit", [(1, 1)])
    db.upsert("city", [(1, "z")])
    assert list(db.view("seen")) == [(1, "z")]
    with pytest.raises(ReferenceViolationError):
        db.delete("person", keys=[1])


def test_keys_of_several_columns_point_in_any_order_of_columns() -> None:
    db = ev.Database()
    db.sql(
        "CREATE TABLE p (a INT, b STRING, PRIMARY KEY (b, a)); "
        "CREATE TABLE c (x INT, y STRING, FOREIGN KEY (x, y) REFERENCES p (a, b))"
    )
    db.insert("p", [(1, "one"), (2, "two")])
    db.insert("c", [(1, "one"), (None, "none"), (9, None)])
    for row in ((1, "two"), (2, "one"), (3, "three")):
        with pytest.raises(ReferenceViolationError):
            db.insert("c", [row])
    with pytest.raises(ReferenceViolationError):
        db.delete("p", [(1, "one")])
    db.delete("p", [(2, "two")])


def test_a_snapshot_keeps_foreign_keys(tmp_path: Path) -> None:
    db = ev.Database()
    db.sql(SCHEMA)
    db.insert("city", [(1, "a")])
    db.insert("visit", [(None, 1)])
    db.save(tmp_path / "saved")
    again = ev.Database.load(tmp_path / "saved")
    with pytest.raises(ReferenceViolationError):
        again.delete("city", keys=[1])
    with pytest.raises(ReferenceViolationError):
        again.insert("visit", [(None, 2)])


def test_what_is_not_enforced_is_not_checked(tmp_path: Path) -> None:
    db = ev.Database()
    db.sql(
        "CREATE TABLE p (id INT PRIMARY KEY NOT ENFORCED RELY, kind INT CHECK (kind IN (1, 2)) NOT ENFORCED);"
        "CREATE TABLE c (p INT REFERENCES p NOT ENFORCED)"
    )
    db.insert("c", [(5,)])
    db.insert("p", [(1, 3), (1, 4)])
    db.save(tmp_path / "saved")
    again = ev.Database.load(tmp_path / "saved")
    again.insert("c", [(6,)])
    again.insert("p", [(1, 9)])
    assert len(again.table("p")) == 3


def test_without_the_table_that_it_points_at_there_is_no_foreign_key() -> None:
    db = ev.Database()
    db.sql(SCHEMA)
    db.insert("city", [(1, "a")])
    db.insert("visit", [(None, 1)])
    db.drop("city", cascade=True)
    db.insert("visit", [(None, 17)])
    with pytest.raises(ReferenceViolationError):
        db.insert("visit", [(3, 1)])
