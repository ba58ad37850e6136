"""Positions in unions: q-hierarchical.md 14 and T18; what stands where is what listing gives, without listing."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import everview as ev
from everview.engine.operators.united import United
from everview.engine.view import View
from everview.plan.union_order import merged_order
from everview.query.terms import Const, Var
from tests.engine.test_unions import MORE, TABLES, duck
from tests.scale import SCALE, thoroughness

SCHEMA = "; ".join(f"CREATE TABLE {t} ({c.replace('INT', 'INT NOT NULL')})" for t, c in TABLES.items()).replace(
    "STRING", "STRING NOT NULL"
)


def union_of(view: ev.View) -> United:
    result = view._runtime.result
    assert isinstance(result, United)
    return result


def check(view: ev.View, expected: Counter[Any]) -> bool:
    """Whether it has positions; if so they are those of what is listed, which is what is expected."""
    listed = list(map(tuple, view))
    assert Counter(listed) == expected
    if union_of(view).positions is None:
        return False
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(View, "_rows", None)  # Nothing is listed from here on.
        assert view[:] == listed
        assert view[::-1] == listed[::-1]
        for i, row in enumerate(listed):
            assert view.rank(row) == i
        assert len(view) == len(listed)
        with pytest.raises(IndexError):
            view[len(listed)]
        assert Counter(view.sample(len(listed), seed=3)) == expected
    return True


def test_vectors_t18() -> None:
    """(c), (d): the order of substitution over members that are in order; (b): no positions."""
    db = ev.Database()
    db.sql(SCHEMA + "; CREATE TABLE g (x INT NOT NULL, y INT NOT NULL); CREATE TABLE a (x INT NOT NULL)")
    c = db.create_view("c", "SELECT x, y FROM e UNION SELECT x, y FROM f")
    both = "SELECT {0}.x, {0}.y FROM {0}, a WHERE {0}.x = a.x"
    d = db.create_view("d", f"{both.format('e')} UNION SELECT x, y FROM f UNION {both.format('g')}")
    db.insert("e", [(1, 1), (1, 4), (2, 2)])
    db.insert("f", [(1, 4), (2, 1), (3, 3)])
    assert [c[j] for j in range(5)] == [(1, 1), (1, 4), (2, 2), (2, 1), (3, 3)]
    with pytest.raises(IndexError, match="c has no row at position 5"):
        c[5]
    db.insert("e", [(5, 1)])
    db.insert("f", [(2, 2)])
    db.insert("g", [(1, 4), (2, 2), (2, 9), (4, 4)])
    db.insert("a", [(1,), (2,), (4,)])
    assert [d[j] for j in range(7)] == [(1, 1), (1, 4), (2, 1), (2, 2), (3, 3), (2, 9), (4, 4)]
    assert [d.rank(d[j]) for j in range(7)] == list(range(7))
    with pytest.raises(IndexError):
        d[7]
    u1 = db.create_view("u1", MORE["U1"], access=True)
    assert union_of(u1).positions is None
    assert "access      positions are found by listing, as an intersection of its members is not q-hier" in str(
        u1.explain()
    )
    assert u1.explain().to_dict()["tasks"]["access"]["verdict"] == "unknown"


def test_the_first_row_of_a_phase_and_the_last_of_another() -> None:
    """T18 (a): three sets, of which the second has both elements in others."""
    db = ev.Database()
    db.sql("CREATE TABLE p (x INT NOT NULL); CREATE TABLE q (x INT NOT NULL); CREATE TABLE r (x INT NOT NULL)")
    view = db.create_view("v", "SELECT x FROM p UNION SELECT x FROM q UNION SELECT x FROM r")
    db.insert("p", [(1,), (4,), (5,)])
    db.insert("q", [(2,), (4,)])
    db.insert("r", [(2,), (3,), (4,), (5,)])
    assert [view[j][0] for j in range(5)] == [1, 2, 3, 4, 5]
    assert check(view, Counter([(x,) for x in range(1, 6)]))


POSITIONED = ["U3", "U5", "U6", "U14", "names"]


@pytest.mark.parametrize("name", POSITIONED)
def test_positions_are_those_of_what_is_listed(name: str) -> None:
    r = random.Random(name)
    db, held = ev.Database(), {table: Counter[Any]() for table in TABLES}
    db.sql(SCHEMA)
    view = db.create_view("v", MORE[name], access=True)
    for step in range(40):
        table = r.choice(["s", "t", "e", "f", "n"])
        if r.random() < 0.3 and held[table]:
            row = r.choice(sorted(held[table].elements()))
            db.delete(table, [row])
            held[table] -= Counter([row])
        else:
            row = (
                (r.choice("abc"), r.randint(0, 3))
                if table == "n"
                else tuple(r.randint(0, 3) for _ in TABLES[table].split(", "))
            )
            db.insert(table, [row])
            held[table][row] += 1
        if step % 8 == 7:
            assert check(view, Counter(duck(held).execute(MORE[name]).fetchall()))


@thoroughness(12)
@given(st.integers(0, 2**32))
def test_random_unions(seed: int) -> None:
    """Members over several tables whose heads have columns in any order, constants, and columns again."""
    r = random.Random(seed)

    def member() -> str:
        atoms = r.sample(["s", "t", "e", "f"], r.randint(1, 2))
        columns = [f"{a}.{c}" for a in atoms for c in ("x", "y")[: 1 if a in ("s", "t") else 2]]
        shared = [f"{atoms[0]}.{r.choice(('x', 'y'))} = {atoms[1]}.x"] if len(atoms) == 2 and atoms[0] in "ef" else []
        where = f" WHERE {' AND '.join(shared)}" if shared else ""
        head = [r.choice([*columns, *columns, "1"]) for _ in range(2)]
        return f"SELECT {head[0]} AS p, {head[1]} AS q FROM {', '.join(atoms)}{where}"

    queries = {str(i): " UNION ".join(member() for _ in range(r.randint(2, 4))) for i in range(3)}
    db, held = ev.Database(), {table: Counter[Any]() for table in TABLES}
    db.sql(SCHEMA)
    views = {i: db.create_view(f"v{i}", query, access=True) for i, query in queries.items()}
    for _ in range(3):
        for _ in range(6):
            table = r.choice(["s", "t", "e", "f"])
            if r.random() < 0.3 and held[table]:
                row = r.choice(sorted(held[table].elements()))
                db.delete(table, [row])
                held[table] -= Counter([row])
            else:
                row = tuple(r.randint(0, 3) for _ in TABLES[table].split(", "))
                db.insert(table, [row])
                held[table][row] += 1
        con = duck(held)
        for i, query in queries.items():
            expected = Counter(con.execute(query).fetchall())
            if isinstance(views[i]._runtime.result, United):
                check(views[i], expected)
            else:
                assert Counter(views[i][:]) == Counter(map(tuple, views[i])) == expected


def test_texts_stand_in_the_order_of_their_values() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE e (k STRING NOT NULL, x INT NOT NULL); CREATE TABLE f (k STRING NOT NULL, x INT NOT NULL)")
    view = db.create_view("v", "SELECT k, x FROM e UNION SELECT k, x FROM f UNION SELECT 'm', x FROM f", access=True)
    db.insert("f", [("zoë", 1), ("m", 2), ("a", 1), ("é", 3)])
    db.insert("e", [("b", 1), ("a", 1), ("zoë", 1), ("m", 3)])
    expected = {("zoë", 1), ("m", 2), ("a", 1), ("é", 3), ("b", 1), ("m", 3), ("m", 1)}
    assert check(view, Counter(expected))
    assert view[0] == ("a", 1)


def test_an_order_is_found_that_all_members_can_have() -> None:
    """f(x, y), t(y) can be in the order of y, x alone; so is e(x, y), which could be in any."""
    query = "SELECT x, y FROM e UNION SELECT f.x, f.y FROM f, t WHERE f.y = t.x"
    db = ev.Database()
    db.sql(SCHEMA)
    view = db.create_view("v", query)
    db.insert("e", [(1, 9), (2, 3), (3, 3)])
    assert [view[j] for j in range(3)] == [(2, 3), (3, 3), (1, 9)]
    assert str(view.explain()).count("kept in the order of") == 3  # The union, and its members.
    db.insert("f", [(3, 3), (0, 3), (7, 1)])
    db.insert("t", [(3,)])
    assert check(view, Counter([(1, 9), (2, 3), (3, 3), (0, 3)]))


def test_orders_come_together_or_do_not() -> None:
    x, y, z = Var("x"), Var("y"), Var("z")
    assert merged_order([([x, y], [x, y]), ([x, y], [x, y])]) == (0, 1)
    assert merged_order([([x, y], [y, x]), ([y, x], [x, y])]) == (1, 0)
    assert merged_order([([x, y], [x, y]), ([x, y], [y, x])]) is None
    assert merged_order([([x, Const(1)], [x]), ([x, y], [y, x])]) == (1, 0)
    assert merged_order([([x, x, z], [x, z]), ([x, y, z], [y, x, z])]) == (1, 0, 2)
    assert merged_order([]) is None


def test_nulls_that_members_may_share_leave_no_positions() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE e (x INT); CREATE TABLE f (x INT)")
    view = db.create_view("v", "SELECT x FROM e UNION SELECT x FROM f", access=True)
    db.insert("e", [(None,), (1,)])
    db.insert("f", [(None,), (2,)])
    assert union_of(view).positions is None
    assert sorted(view[:], key=repr) == [(1,), (2,), (None,)]
    assert "NOT NULL" in view.explain().to_dict()["tasks"]["access"]["reason"]


def test_positions_survive_a_snapshot(tmp_path: Any) -> None:
    db = ev.Database()
    db.sql(SCHEMA)
    view = db.create_view("v", MORE["U3"])
    db.insert("e", [(1, 2), (2, 3), (3, 3)])
    rows = [view[j] for j in range(len(view))]
    db.save(tmp_path / "saved")
    loaded = ev.Database.load(tmp_path / "saved").view("v")
    assert [loaded[j] for j in range(len(loaded))] == rows
    assert union_of(loaded).positions is not None


@pytest.mark.slow
def test_steps_are_logarithmic() -> None:
    """An update and an access take a number of steps more each time the tables are ten times as large."""
    taken = []
    for size in (1_000, 10_000, 100_000, 1_000_000)[: 3 if SCALE < 4 else 4]:
        db = ev.Database()
        db.sql(SCHEMA)
        db.sql(f"CREATE VIEW v OPTIONS (access = true) AS {MORE['U2'].split(' UNION ')[0]} UNION SELECT x, y FROM f")
        half = range(size // 2)
        db.insert("e", pa.table({"x": [i % 50 for i in half], "y": half}))
        db.insert("f", pa.table({"x": [i % 50 for i in half], "y": [i + size // 4 for i in half]}))
        db.insert("s", pa.table({"x": range(50)}))
        view = db.view("v")
        unit = view._runtime.unit
        before = unit.steps
        db.insert("e", [(5, -1)])
        after = unit.steps
        row = view[len(view) // 2]
        taken.append((after - before, unit.steps - after))
        assert view.rank(row) == len(view) // 2
    for sizes in zip(*taken, strict=True):
        grown = [b - a for a, b in pairwise(sizes)]
        assert max(grown) <= 120, taken
        assert abs(grown[1] - grown[0]) <= 60, taken
