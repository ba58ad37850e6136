"""Keys and foreign keys bound what an update touches: the verdict, and the steps that the kernel takes."""

from __future__ import annotations

from typing import Any

import pytest

import everview as ev
from everview.errors import KeyViolationError
from everview.query.constraints import constraints_of
from everview.sql import parse_schema
from everview.strategies.crown.keyed import keyed_tree
from everview.strategies.crown.tree import JoinTree, TreeNode
from tests.support import cq

KEYED = """
CREATE TABLE region (id INT PRIMARY KEY, name STRING);
CREATE TABLE city (id INT PRIMARY KEY, region INT NOT NULL REFERENCES region, name STRING);
CREATE TABLE person (id INT PRIMARY KEY, home INT REFERENCES city, name STRING);
CREATE TABLE visit (person INT REFERENCES person, city INT NOT NULL REFERENCES city, stars INT);
CREATE TABLE prize (person INT REFERENCES person, won INT);
"""
STAR = (
    "SELECT v.person, v.city, v.stars, p.name, c.name AS city_name "
    "FROM visit v JOIN person p ON v.person = p.id JOIN city c ON v.city = c.id"
)
SNOWFLAKE = (
    "SELECT v.person, v.city, v.stars, p.name, r.name AS region_name, c.region "
    "FROM visit v JOIN person p ON v.person = p.id JOIN city c ON v.city = c.id JOIN region r ON c.region = r.id"
)
GROUPED = (
    "SELECT r.name, SUM(v.stars) AS stars "
    "FROM visit v JOIN city c ON v.city = c.id JOIN region r ON c.region = r.id GROUP BY r.name"
)
COUNTED = (
    "SELECT COUNT(*) AS n FROM visit v JOIN person p ON v.person = p.id JOIN city c ON v.city = c.id "
    "WHERE p.name = 'ann' AND c.name = 'rome'"
)


def constant_for(query: str, schema: str = KEYED) -> list[str]:
    found: list[str] = ev.explain(query, schema).to_dict()["constant_update_for"]
    return found


@pytest.mark.parametrize("query", [STAR, SNOWFLAKE, COUNTED])
def test_stars_and_snowflakes_take_amortised_constant_time(query: str) -> None:
    assert "keyed" in constant_for(query)
    assert "any" not in constant_for(query)
    verdict = ev.explain(query, KEYED)
    assert str(verdict.plan.bounds.update).startswith("O(1), amortised")
    assert any("amortised constant time by the foreign key" in note for note in verdict.notes)


def test_a_dial_gives_way_to_constant_time_unless_it_is_asked_for() -> None:
    """Counts over three relations have parts at √N for any data; over keys CROWN needs none."""
    assert ev.explain(COUNTED, KEYED).plan.main.strategy.name == "crown"
    asked = f"CREATE MATERIALIZED VIEW v OPTIONS (epsilon = 0) AS {COUNTED}"
    assert ev.explain(asked, KEYED).plan.main.strategy.name == "ivm-eps-triangle"


def test_a_row_that_holds_the_key_is_one() -> None:
    assert constant_for(GROUPED) == ["any", "fifo", "insert_only"]
    assert any("by the primary key of region" in note for note in ev.explain(GROUPED, KEYED).notes)


@pytest.mark.parametrize("query", [STAR, SNOWFLAKE, GROUPED, COUNTED])
def test_without_constraints_nothing_is_claimed(query: str) -> None:
    ignored = KEYED.replace("PRIMARY KEY", "PRIMARY KEY NOT ENFORCED")
    for target in ("region", "city", "person"):
        ignored = ignored.replace(f"REFERENCES {target}", f"REFERENCES {target} NOT ENFORCED")
    assert not {"any", "keyed"} & set(constant_for(query, ignored))


SET = """
CREATE TABLE s (x INT NOT NULL); CREATE TABLE t (y INT NOT NULL); CREATE TABLE e (x INT PRIMARY KEY, y INT NOT NULL)
"""
SET_QUERIES = {
    "answer": "SELECT DISTINCT 1 AS yes FROM s, e, t WHERE s.x = e.x AND e.y = t.y",
    "list": "SELECT DISTINCT s.x, t.y FROM s, e, t WHERE s.x = e.x AND e.y = t.y",
    "targets": "SELECT DISTINCT t.y FROM s, e, t WHERE s.x = e.x AND e.y = t.y",
}


@pytest.mark.parametrize("query", SET_QUERIES.values(), ids=SET_QUERIES)
def test_a_key_in_the_middle_turns_the_tree(query: str) -> None:
    """S(x), E(x, y), T(y) is hard; where x determines y, each S meets one E (ucq-constraints.md 9.5)."""
    assert constant_for(query, SET) == ["any", "fifo", "insert_only"]
    assert "any" not in constant_for(query, SET.replace("PRIMARY KEY", "NOT NULL"))


def test_run_of_f1() -> None:
    db = ev.Database()
    db.sql(SET)
    db.create_view("v", SET_QUERIES["answer"])
    for change, table, row, size in [
        (db.insert, "e", (1, 10), 0),
        (db.insert, "s", (1,), 0),
        (db.insert, "t", (10,), 1),
        (db.insert, "e", (2, 10), 1),
        (db.insert, "s", (2,), 1),
    ]:
        change(table, [row])
        assert len(db.view("v")) == size
    with pytest.raises(KeyViolationError):
        db.insert("e", [(1, 11)])
    for change, table, row, size in [
        (db.delete, "t", (10,), 0),
        (db.insert, "e", (3, 11), 0),
        (db.insert, "s", (3,), 0),
        (db.insert, "t", (11,), 1),
        (db.delete, "s", (3,), 0),
    ]:
        change(table, [row])
        assert len(db.view("v")) == size


@pytest.mark.parametrize("query", SET_QUERIES.values(), ids=SET_QUERIES)
def test_steps_by_a_key_in_the_middle_are_flat(query: str) -> None:
    def taken(size: int) -> int:
        db = ev.Database()
        db.sql(SET)
        db.create_view("v", query)
        db.insert("e", [(i, 0) for i in range(size)])
        db.insert("s", [(i,) for i in range(size)])
        found = []
        for change, table, row in [
            (db.insert, "t", (0,)),
            (db.delete, "s", (0,)),
            (db.delete, "e", (1, 0)),
            (db.delete, "t", (0,)),
        ]:
            before = db._views["v"].unit.steps
            change(table, [row])
            found.append(db._views["v"].unit.steps - before)
        return max(found)

    assert taken(20) == taken(2_000)


def test_what_is_relied_on_is_used_with_a_warning() -> None:
    relied = KEYED.replace("REFERENCES person", "REFERENCES person NOT ENFORCED RELY")
    verdict = ev.explain(STAR, relied)
    assert "keyed" in verdict.plan.constant_update_for
    assert any("relied on and not checked" in note for note in verdict.notes)
    dropped = ev.explain("SELECT v.stars FROM visit v JOIN person p ON v.person = p.id", relied)
    assert any("where it does not hold, the view is wrong" in note for note in dropped.notes)


def steps(query: str, size: int, change: list[tuple[str, str, Any]]) -> int:
    """The steps of the view's program for one more batch, when each parent has ``size`` children."""
    db = ev.Database()
    db.sql(KEYED)
    db.create_view("v", query)
    db.insert("region", [(1, "south"), (2, "north")])
    db.insert("city", [(1, 1, "rome"), (2, 1, "bari"), (3, 2, "oslo")])
    db.insert("person", [(1, 1, "ann"), (2, 2, "bob"), (3, None, "ann")])
    db.insert("visit", [(i % 2 + 1, i % 2 + 1, i) for i in range(size)])
    before = db._views["v"].unit.steps
    with db.batch() as batch:
        for kind, table, row in change:
            (batch.insert if kind == "+" else batch.delete)(table, [row])
    return db._views["v"].unit.steps - before


CHANGES: dict[str, list[tuple[str, str, Any]]] = {
    "a child comes": [("+", "visit", (1, 1, 9))],
    "a child goes": [("-", "visit", (1, 1, 0))],
    "a parent comes": [("+", "person", (7, 1, "ann"))],
    "a parent goes": [("-", "person", (3, None, "ann"))],
    "a parent comes after its child": [("+", "visit", (7, 1, 9)), ("+", "person", (7, 1, "ann"))],
    "a grandparent comes": [("+", "visit", (1, 9, 9)), ("+", "city", (9, 9, "rome")), ("+", "region", (9, "west"))],
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("query", [STAR, SNOWFLAKE, GROUPED, COUNTED], ids=["star", "snowflake", "grouped", "counted"])
def test_steps_do_not_grow(query: str, change: list[tuple[str, str, Any]]) -> None:
    few, many = steps(query, 20, change), steps(query, 2_000, change)
    assert many <= few + 8
    assert few > 0 or all(table not in query for _, table, _ in change)


def test_a_replaced_parent_is_met_by_all_that_point_at_it() -> None:
    replaced = [("-", "person", (1, 1, "ann")), ("+", "person", (1, 1, "eva"))]
    assert steps(STAR, 2_000, replaced) > 1_000


def test_a_foreign_key_is_no_bound_for_what_comes_from_further_below() -> None:
    """Prizes change what a person weighs, and with it all visits of that person: no key says how many these are."""
    query = cq("q(p, c, s) :- visit(p, c, s), person(p, h, n), prize(p, w).")
    visit, person, prize = query.edges
    below = TreeNode(person, 1, (TreeNode(prize, 2),))
    constraints = constraints_of(parse_schema(KEYED))
    assert keyed_tree(JoinTree(TreeNode(visit, 0, (below,)), query.edges, query.free), query.atoms, constraints) is None
    alone = JoinTree(TreeNode(visit, 0, (TreeNode(person, 1),)), query.edges[:2], query.free)
    found = keyed_tree(alone, query.atoms, constraints)
    assert found is not None
    assert found.is_amortised
