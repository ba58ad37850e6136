"""OPTIONS (answers = 'test'): rows that are tested in constant time next to constant updates, though not listed so.

The vectors are those of q-hierarchical.md 18 (T9, T17) and ucq-constraints.md 12 (C1, C7, C10, U10).
"""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.errors import NotListedError, OptionError
from everview.query.conjunctive import Atom, ConjunctiveQuery, Semantics
from everview.query.hierarchy import is_q_hierarchical, is_t_hierarchical
from everview.query.homomorphism import minimal_query
from everview.query.terms import Const, Var
from tests.scale import scaled
from tests.support import evaluate

SET = "q(x, y) :- s(x), e(x, y), t(y)."
PARTS = "q(x, y) :- e(x, v), e(y, w), r(x, y, u)."


def database(rules: str, **options: Any) -> ev.Database:
    db = ev.Database()
    for name, columns in (("s", "x"), ("t", "x"), ("e", "xy"), ("f", "xy"), ("r", "xyz")):
        db.sql(f"CREATE TABLE {name} ({', '.join(f'{c} INT' for c in columns)})")
    db.rules(rules, answers="test", **options)
    return db


def is_tested(view: ev.View) -> bool:
    """True if the plan keeps nothing to list rows by."""
    return not view.explain().plan.is_listed


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (SET, True),
        ("q(x, y) :- e(x, x), e(x, y), e(y, y).", True),
        (PARTS, True),
        ("q(x, y, z) :- e(x, y), f(y, z), e(z, x).", True),
        ("q(x, 7, y, x) :- s(x), e(x, y), t(y), f(1, v), f(v, w), t(w).", False),
        ("q(x, 7, y, x) :- s(x), e(x, y), t(y), f(1, v), r(1, 2, v).", True),
        ("q(x, y) :- s(x), e(x, y).", False),
        ("q() :- s(x), e(x, y), t(y).", False),
        ("q(x) :- e(x, y), t(y).", False),
        ("q(x, y) :- s(x), e(x, y), t(y). q(x, y) :- f(x, y).", True),
        ("q(x, y) :- s(x), e(x, y), t(y). q(x, y) :- f(x, v), f(v, y).", True),
        ("q(x) :- s(x). q(x) :- e(x, y), t(y).", False),
    ],
)
def test_only_what_is_cheaper_to_test_than_to_list_is_not_listed(rules: str, expected: bool) -> None:
    """C1, C10, C7, a triangle; constants and a part without output; then those where nothing can be gained, or all."""
    view = database(rules).view("q")
    assert is_tested(view) is expected
    if not expected:
        assert list(view) == []


def test_what_can_be_asked_and_what_cannot() -> None:
    db = database(SET)
    view = db.view("q")
    db.insert("s", [(1,), (3,)])
    db.insert("e", [(1, 2), (3, 2), (3, 4)])
    db.insert("t", [(2,)])
    assert [row for row in product(range(5), repeat=2) if row in view] == [(1, 2), (3, 2)]
    assert view.lookup(x=1, y=2).to_pylist() == [{"x": 1, "y": 2}]
    assert view.lookup_many([{"x": 1, "y": 2}, {"x": 3, "y": 4}]).num_rows == 1
    for question in (
        lambda: list(view),
        lambda: len(view),
        lambda: bool(view),
        view.count,
        lambda: view[0],
        view.to_arrow,
        lambda: view.lookup(x=1),
        view.changes,
        lambda: view.subscribe(print),
        lambda: db.sql("SELECT * FROM q"),
        lambda: db.create_view("w", "SELECT x FROM q"),
    ):
        with pytest.raises(NotListedError, match="answers = 'test'") as error:
            question()
        assert error.value.hint is not None
        assert "SET OPTIONS (answers = 'list')" in error.value.hint
    db.delete("t", [(2,)])
    assert (1, 2) not in view
    db.insert("t", [(2,), (4,)])
    why = view.why((3, 4))
    assert {name: rows.num_rows for name, rows in why.items()} == {"s": 1, "e": 1, "t": 1}


def test_explain_says_what_is_kept_and_what_it_costs() -> None:
    view = database(SET).view("q")
    said = view.explain().to_dict()
    assert said["bounds"]["update"] == "O(1)"
    assert said["bounds"]["delay"] == "O(1), to test a row, as none is listed"
    assert said["constant_update_for"] == ["any", "fifo", "insert_only"]
    assert said["lower_bound"] is None
    assert said["strategies"][0]["costs"] == {"test": {"update": "O(1)", "read": "O(1)"}}
    verdicts = {name: task["verdict"] for name, task in said["tasks"].items()}
    assert verdicts["test"] == "constant"
    assert {verdicts[name] for name in ("list", "count", "access", "difference")} == {"hard"}
    text = str(view.explain())
    assert "a row is tested in constant time, and none is listed" in text
    assert "3 parts, each asked for its values of the row" in text
    assert view.explain().to_svg().startswith("<svg")
    without = ev.explain(SET).notes
    assert any("OPTIONS (answers = 'test') makes every update" in note for note in without)
    hard = ev.explain("q(x) :- e(x, y), t(y).")
    assert not any("answers" in note for note in hard.notes)


@pytest.mark.parametrize(
    ("query", "options", "why"),
    [
        ("SELECT x, y FROM e", {}, "which costs nothing, as the query is q-hierarchical"),
        ("SELECT e.x FROM e, t WHERE e.y = t.x", {}, "as the query is not t-hierarchical"),
        ("SELECT e.x + 1 AS a, e.y FROM s, e, t WHERE s.x = e.x AND e.y = t.x", {}, "as rows are made of them"),
        ("SELECT e.x, COUNT(*) AS n FROM s, e, t WHERE s.x = e.x AND e.y = t.x GROUP BY e.x", {}, "not t-hierarchical"),
        (
            "SELECT e.x, e.y, f.y AS z FROM e, f, t WHERE e.y = f.x AND t.x = e.x AND t.x < f.y",
            {},
            "as conditions across relations are checked on them",
        ),
        ("SELECT e.x, e.y FROM s, e, t WHERE s.x = e.x AND e.y = t.x", {"history": 3}, "as all that changes is told"),
        (
            "SELECT e.x, e.y FROM s, e, t WHERE s.x = e.x AND e.y = t.x",
            {"lookup": "x"},
            "as option lookup asks for more",
        ),
    ],
)
def test_where_rows_are_listed_as_well_explain_says_why(query: str, options: dict[str, Any], why: str) -> None:
    db = database("other(x) :- s(x).")
    view = db.create_view("v", query, answers="test", **options)
    assert why in str(view.explain())
    db.insert("e", [(1, 2)])
    assert len(view) == len(db.sql(query))


@pytest.mark.parametrize("number", range(2))
def test_runs_of_the_specifications(number: int) -> None:
    """C7 and T17, the same query over other data."""
    db = database(PARTS)
    view = db.view("q")

    def held() -> list[tuple[int, ...]]:
        return [row for row in product(range(1, 4), repeat=2) if row in view]

    if number:
        db.insert("e", [(1, 9), (2, 9)])
        db.insert("r", [(1, 2, 5), (1, 3, 5)])
        assert held() == [(1, 2)]
        db.insert("e", [(3, 1)])
        assert held() == [(1, 2), (1, 3)]
        db.delete("e", [(1, 9)])
        assert held() == []
        return
    db.insert("e", [(1, 5), (2, 6)])
    db.insert("r", [(1, 2, 9)])
    assert held() == [(1, 2)]
    db.delete("e", [(2, 6)])
    assert held() == []
    db.insert("e", [(2, 2)])
    assert held() == [(1, 2)]
    db.insert("r", [(2, 2, 7)])
    assert held() == [(1, 2), (2, 2)]
    db.delete("r", [(1, 2, 9)])
    assert held() == [(2, 2)]


def test_a_union_has_what_one_of_its_members_has() -> None:
    """U10, and UNION ALL, of which rows are tested as well."""
    db = database("q(x, y) :- s(x), e(x, y), t(y). q(x, y) :- f(x, y).")
    joined = "SELECT s.x, e.y FROM s, e, t WHERE s.x = e.x AND e.y = t.x"
    both = db.create_view("both", f"{joined} UNION ALL SELECT x, y FROM f", answers="test")
    view = db.view("q")
    assert "a row is there if one of them has it" in str(view.explain())
    db.insert("s", [(1,)])
    db.insert("e", [(1, 2), (1, 3)])
    db.insert("t", [(2,)])
    db.insert("f", [(1, 2), (5, 5), (None, 1)])
    for tested in (view, both):
        assert [row for row in product((None, 1, 2, 3, 5), repeat=2) if row in tested] == [(None, 1), (1, 2), (5, 5)]
        with pytest.raises(NotListedError):
            len(tested)
    assert view.lookup(x=1, y=2).num_rows == 1
    with pytest.raises(NotListedError, match="rows of q cannot be found by y"):
        view.lookup(y=2)


def test_definitions_and_snapshots(tmp_path: Path) -> None:
    db = database(SET)
    db.insert("s", [(1,)])
    db.insert("e", [(1, 2)])
    db.insert("t", [(2,)])
    db.save(tmp_path / "saved")
    for verify in (False, True):
        loaded = ev.Database.load(tmp_path / "saved", verify=verify)
        assert is_tested(loaded.view("q"))
        assert (1, 2) in loaded.view("q")
        loaded.delete("s", [(1,)])
        assert (1, 2) not in loaded.view("q")
    view = db.view("q")
    db.sql("ALTER MATERIALIZED VIEW q SET OPTIONS (answers = 'list')")
    assert list(view) == [(1, 2)]
    feed = view.changes()
    with pytest.raises(NotListedError, match="q is followed by a feed"):
        db.sql("ALTER MATERIALIZED VIEW q SET OPTIONS (answers = 'test')")
    db.insert("t", [(2,), (3,)])
    assert list(view) == [(1, 2)]
    feed.close()
    db.create_view("w", "SELECT x FROM q")
    with pytest.raises(NotListedError, match="q is read by another view"):
        db.sql("ALTER MATERIALIZED VIEW q SET OPTIONS (answers = 'test')")
    db.sql("DROP VIEW w; ALTER MATERIALIZED VIEW q SET OPTIONS (answers = 'test')")
    assert is_tested(view)
    assert (1, 2) in view
    db.sql("DROP VIEW q")
    assert db.views == ()


def test_on_spark_the_option_is_refused() -> None:
    from everview.spark.views import _refuse_reads

    view = database(SET).view("q").explain().plan.view
    with pytest.raises(OptionError, match="option answers of q is for reads of a result in this process"):
        _refuse_reads(view)


# --- random queries --------------------------------------------------------------------------------------------------

VALUES = (1, 2, 3, None)


def is_to_be_tested(query: ConjunctiveQuery) -> bool:
    judged = query if query.semantics is Semantics.BAG else minimal_query(query)
    return is_t_hierarchical(judged) and not is_q_hierarchical(judged)


def a_query(r: random.Random) -> ConjunctiveQuery:
    """t-hierarchical and not q-hierarchical; as few variables are output as leave it so, or more."""
    arity = {"a": 1, "b": 2, "c": 2, "d": 3}
    semantics = r.choice((Semantics.SET, Semantics.SET, Semantics.BAG))
    while True:
        names = r.choices("abcd", (2, 3, 3, 2), k=r.choice((3, 4, 5)))
        atoms = [
            Atom(n, tuple(Const(1) if r.random() < 0.05 else Var(r.choice("uvwxyz")) for _ in range(arity[n])))
            for n in names
        ]
        head = sorted(frozenset[Var]().union(*(a.variables for a in atoms)))
        query = ConjunctiveQuery(tuple(head), tuple(atoms), semantics=semantics)
        if is_to_be_tested(query):
            break
    for v in r.sample(head, len(head)):
        smaller = query.with_head(t for t in query.head if t != v)
        if r.random() < 0.8 and smaller.head and is_to_be_tested(smaller):
            query = smaller
    return query.with_head((*query.head, r.choice((Const(7), *query.head)))) if r.random() < 0.2 else query


def sql_of(query: ConjunctiveQuery) -> str:
    places: dict[Var, str] = {}
    joined = []
    for i, atom in enumerate(query.atoms):
        for j, term in enumerate(atom.terms):
            other = str(term.value) if isinstance(term, Const) else places.setdefault(term, f"a{i}.c{j}")
            if other != f"a{i}.c{j}":
                joined.append(f"{other} = a{i}.c{j}")
    shown = [str(t.value) if isinstance(t, Const) else places[t] for t in query.head]
    listed = ", ".join(f"{column} AS o{i}" for i, column in enumerate(shown))
    tables = ", ".join(f"{atom.relation} a{i}" for i, atom in enumerate(query.atoms))
    where = f" WHERE {' AND '.join(joined)}" if joined else ""
    return f"SELECT {'DISTINCT ' if query.semantics is Semantics.SET else ''}{listed} FROM {tables}{where}"


@pytest.mark.parametrize("seed", range(scaled(25)))
def test_random_rows_are_there_where_duckdb_has_them(seed: int) -> None:
    r = random.Random(seed)
    query = a_query(r)
    db = ev.Database()
    arity = {atom.relation: len(atom.terms) for atom in query.atoms}
    for name, size in arity.items():
        db.sql(f"CREATE TABLE {name} ({', '.join(f'c{i} INT' for i in range(size))})")
    view = db.create_view("v", sql_of(query), answers="test")
    assert is_tested(view)
    held: dict[str, list[tuple[int | None, ...]]] = {name: [] for name in arity}
    for _ in range(4):
        with db.batch() as batch:
            for _ in range(r.choice((1, 3, 9))):
                name = r.choice(sorted(arity))
                if held[name] and r.random() < 0.3:
                    row = held[name].pop(r.randrange(len(held[name])))
                    batch.delete(name, [row])
                else:
                    row = tuple(r.choices(VALUES, (4, 3, 2, 1), k=arity[name]))
                    held[name].append(row)
                    batch.insert(name, [row])
        expected = evaluate(query, held)
        asked = {*expected, *(tuple(r.choices(VALUES, k=len(query.head))) for _ in range(30))}
        assert {row for row in asked if row in view} == set(expected), (sql_of(query), held)


def test_an_update_takes_as_many_steps_whatever_the_size() -> None:
    """A value of each table meets a tenth of all others, which CROWN would have to look through."""

    def most(size: int) -> int:
        db = database(SET)
        db.insert("e", [(i, i % 10) for i in range(size)])
        db.insert("s", [(i,) for i in range(0, size, 2)])
        db.insert("t", [(i,) for i in range(5)])
        found = 0
        for table, row in (("t", (7,)), ("s", (1,)), ("e", (1, 1)), ("e", (size, 7))):
            for change in (db.insert, db.delete):
                before = db.view("q").stats()["steps"]
                change(table, [row])
                found = max(found, db.view("q").stats()["steps"] - before)
        return found

    assert most(10_000) <= most(1_000) <= 40
