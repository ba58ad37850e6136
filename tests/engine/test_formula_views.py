"""Views by formula: the specification's test cases, random ones beside brute force, and DuckDB where SQL can say it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

import everview as ev
from everview.errors import (
    DegreeExceeded,
    DependantsError,
    FormulaLimitError,
    MemoryLimitError,
    NotCountedError,
    OptionError,
    QueryError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)
from everview.query.formula import FormulaQuery
from tests.query.formulas import ARITIES, Model, random_query, random_rows, random_update
from tests.scale import scaled

Rows = set[tuple[Any, ...]]
F1 = {"E": {(1, 2), (1, 3), (2, 3), (4, 1)}, "B": {(1,), (2,), (4,)}, "R": {(2,), (3,)}}


def database(rows: dict[str, Rows], arities: dict[str, int] | None = None) -> ev.Database:
    db = ev.Database()
    for name, arity in (arities or {n: len(next(iter(r))) for n, r in rows.items()}).items():
        db.sql(f"CREATE TABLE {name} ({', '.join(f'c{i} BIGINT' for i in range(arity))})")
        db.insert(name, sorted(rows.get(name, ())))
    return db


def changes(feed: Any) -> Counter[tuple[Any, ...]]:
    """What a feed has told since it was last read, added up."""
    found: Counter[tuple[Any, ...]] = Counter()
    for batch in feed.read():
        names = [n for n in batch.schema.names if n[0] != "_"]
        for row in batch.to_pylist():
            sign = {"insert": 1, "delete": -1}[row["_change_type"]]
            found[tuple(row[n] for n in names)] += sign * row["_count"]
    return Counter({row: count for row, count in found.items() if count})


def told(feed: Any) -> tuple[set[Any], set[Any]]:
    """The rows that a feed says have come, and those that it says have gone; single values as they are."""
    found = changes(feed)
    plain = {r: (r[0] if len(r) == 1 else r) for r in found}
    return {plain[r] for r, n in found.items() if n > 0}, {plain[r] for r, n in found.items() if n < 0}


def values(view: Any) -> set[Any]:
    rows = list(view)
    assert len(rows) == len(set(rows)) == len(view)
    return {r[0] if len(r) == 1 else r for r in rows}


# --- the specification's test cases (fo-mod.md 10) -------------------------------------------------------------------


def test_m1_guarded_parity() -> None:
    db = database(F1)
    view = db.formula("Q(x) := B(x) & exists 1 mod 2 y.(E(x,y) & R(y))", degree=3)
    feed = view.changes()
    assert values(view) == {2}
    db.insert("R", [(1,)])
    assert values(view) == {2, 4}
    assert told(feed) == ({4}, set())
    db.delete("R", [(3,)])
    assert values(view) == {1, 4}
    assert told(feed) == ({1}, {2})


def test_m2_global_parity() -> None:
    db = database(F1)
    even = db.formula("even() := exists 0 mod 2 x. B(x)", degree=3)
    odd = db.formula("odd() := exists[1 mod 2] x (B(x))", degree=3)
    assert not even
    assert odd
    assert list(even) == []
    assert list(odd) == [()]
    db.insert("B", [(3,)])
    assert even
    assert not odd
    assert () in even
    db.delete("B", [(1,)])
    assert not even
    db.delete("B", [(2,), (3,), (4,)])
    for name in ("E", "R"):
        db.delete(name, sorted(F1[name]))
    assert (bool(even), bool(odd)) == (True, False), "over no elements at all"


def test_m3_two_variables_with_negation() -> None:
    db = database(F1)
    view = db.formula("Q(x, y) := B(x) & R(y) & !E(x, y)", degree=3)
    feed = view.changes()
    assert values(view) == {(2, 2), (4, 2), (4, 3)}
    assert view.count() == 3
    db.insert("E", [(4, 3)])
    assert told(feed) == (set(), {(4, 3)})
    db.insert("R", [(5,)])
    assert told(feed) == ({(1, 5), (2, 5), (4, 5)}, set())
    db.delete("B", [(2,)])
    assert told(feed) == (set(), {(2, 2), (2, 5)})
    assert values(view) == {(1, 5), (4, 2), (4, 5)}


def test_m4_a_local_change_with_a_global_effect() -> None:
    db = database(F1)
    view = db.formula("Q(x) := exists y.(!E(x,y) & x != y & R(y))", degree=3)
    feed = view.changes()
    assert view.explain().to_dict()["formula"]["reach"] == 1
    assert view.explain().to_dict()["formula"]["census_radii"] == [0, 1]
    assert values(view) == {3, 4}
    db.insert("R", [(5,)])
    assert values(view) == {1, 2, 3, 4, 5}
    assert told(feed) == ({1, 2, 5}, set())
    db.delete("R", [(5,)])
    assert values(view) == {3, 4}
    assert told(feed) == (set(), {1, 2, 5})
    db.insert("E", [(3, 2)])
    assert values(view) == {4}
    assert told(feed) == (set(), {3})


def test_m5_elements_enter_and_leave_the_domain() -> None:
    db = database({"E": {(1, 2)}, "B": {(1,)}})
    view = db.formula("Q(x) := !B(x)", degree=3)
    feed = view.changes()
    assert values(view) == {2}
    db.delete("E", [(1, 2)])
    assert values(view) == set()
    assert told(feed) == (set(), {2})
    db.insert("E", [(3, 3)])
    assert values(view) == {3}
    assert told(feed) == ({3}, set())


def test_m6_a_nested_sentence() -> None:
    db = database(F1)
    view = db.formula("Q() := exists >= 2 x.(B(x) & exists y.(E(x,y) & !B(y)))", degree=3)
    assert view
    db.insert("E", [(4, 3)])
    assert view
    db.delete("E", [(1, 3)])
    assert view
    db.delete("E", [(4, 3)])
    assert not view


def test_m7_unguarded_modulo() -> None:
    db = database(F1)
    view = db.formula("Q(x) := exists 0 mod 3 y.!E(x,y)", degree=3)
    feed = view.changes()
    assert values(view) == {2, 4}
    db.insert("E", [(3, 4)])
    assert values(view) == {2, 3, 4}
    assert told(feed) == ({3}, set())
    db.insert("B", [(9,)])
    assert values(view) == {1}
    assert told(feed) == ({1}, {2, 3, 4})


def test_m8_the_degree_bound() -> None:
    db = database(F1)
    view = db.formula("Q(x) := exists y (E(x, y))", degree=3)
    feed = view.changes()
    with pytest.raises(DegreeExceeded, match=r"element 1 of Q has 4 neighbours or more, and may have 3") as caught:
        db.insert("E", [(1, 5)])
    assert (caught.value.element, caught.value.bound) == (1, 3)
    assert values(view) == {1, 2, 4}
    assert told(feed) == (set(), set())
    assert db.table("E").count() == 4
    db.insert("E", [(2, 1), (1, 1)])  # no new neighbour, and a loop
    assert values(view) == {1, 2, 4}
    with db.batch() as batch:  # judged by the batch's end
        batch.insert("E", [(1, 5)])
        batch.delete("E", [(1, 3)])
    assert values(view) == {1, 2, 4}
    with pytest.raises(DegreeExceeded):
        db.formula("P(x) := exists y (E(x, y))", degree=2)
    assert "P" not in db.views


def test_m9_the_domain() -> None:
    db = database({"E": {(1, 2)}, "B": {(1,)}, "Z": {(7,)}})
    assert values(db.formula("Q(x) := !B(x)", degree=3)) == {2, 7}
    assert values(db.formula("P(x) := !B(x) or E(x, x) and x = 3", degree=3, domain="query")) == {2}
    db.insert("Z", [(8,)])
    assert values(db.view("Q")) == {2, 7, 8}
    assert values(db.view("P")) == {2}
    db.delete("Z", [(7,)])
    assert values(db.view("Q")) == {2, 8}


# --- random formulas, beside brute force -----------------------------------------------------------------------------


def expected(query: FormulaQuery, rows: dict[str, Rows]) -> Rows:
    return Model.of(rows, query.formula).answers(query)


@pytest.mark.parametrize("seed", range(scaled(10)))
def test_random_formulas(seed: int, tmp_path: Path) -> None:
    """The view, its count, tests, prefixes and feeds, through batches, rejected ones and a snapshot."""
    random = Random(f"views {seed}")
    rows = random_rows(random)
    db = database(rows, ARITIES)
    queries = []
    while len(queries) < 3:
        query = random_query(random, random.choice((0, 1, 1, 2, 2, 3)), rank=random.randint(1, 2))
        query = FormulaQuery(f"q{len(queries)}", query.head, query.formula)
        try:
            db.formula(str(query), degree=3)
        except (FormulaLimitError, QueryError):
            continue
        queries.append(query)
    feeds = {q.name: db.view(q.name).changes(per_update=random.random() < 0.4) for q in queries if len(q.head) < 3}
    shown = {name: Counter(db.view(name)) for name in feeds}
    for step in range(8):
        before = {name: set(found) for name, found in rows.items()}
        for _ in range(random.choice((1, 1, 2, 5))):
            random_update(random, rows, 8, 3)
        with db.batch() as batch:
            for name in ARITIES:
                batch.delete(name, sorted(before[name] - rows[name]))
                batch.insert(name, sorted(rows[name] - before[name]))
        if step == 4:
            db.save(tmp_path / "saved.db")
            db = ev.Database.load(tmp_path / "saved.db", verify=random.random() < 0.5)
            feeds = {name: db.view(name).changes() for name in feeds}
            shown = {name: Counter(expected_of(queries, name, rows)) for name in feeds}
        for query in queries:
            view = db.view(query.name)
            found = list(view)
            right = expected(query, rows)
            assert len(found) == len(set(found))
            assert set(found) == right, f"{query}\n{rows}"
            if len(query.head) < 3:
                assert view.count() == len(right)
                shown[query.name].update(changes(feeds[query.name]))
                assert +shown[query.name] == Counter(right), f"the feed of {query}\n{rows}"
            for row in random.sample(sorted(right), min(2, len(right))):
                assert row in view
                assert (*row[:-1], 99) not in view if row else True
            if query.head and right:
                first = random.choice(sorted(right))[0]
                looked_up = view.lookup(**{query.head[0].name: first}).to_pylist()
                assert {tuple(r.values()) for r in looked_up} == {r for r in right if r[0] == first}


def expected_of(queries: Iterable[FormulaQuery], name: str, rows: dict[str, Rows]) -> Rows:
    return expected(next(q for q in queries if q.name == name), rows)


def test_a_rejected_batch_changes_nothing() -> None:
    random = Random(5)
    rows = random_rows(random)
    db = database(rows, ARITIES)
    view = db.formula("q(x) := exists[1 mod 2] y (not E(x, y) and B(y)) or exists>=2 y (E(x, y))", degree=3)
    feed = view.changes()
    before = values(view), view.stats()["parts"][0]["types"], view.stats()["parts"][0]["facts"]
    with pytest.raises(DegreeExceeded):
        db.insert("E", [(50, i) for i in range(51, 56)])
    assert (values(view), view.stats()["parts"][0]["types"], view.stats()["parts"][0]["facts"]) == before
    db.insert("E", [(50, 51)])
    db.delete("E", [(50, 51)])
    assert (values(view), view.stats()["parts"][0]["types"], view.stats()["parts"][0]["facts"]) == before
    assert not changes(feed)


# --- beside DuckDB ---------------------------------------------------------------------------------------------------

IN_SQL = [
    (
        "q(x) := B(x) and exists[1 mod 2] y (E(x, y) and R(y))",
        "SELECT c0 FROM B WHERE (SELECT count(DISTINCT e.c1) FROM E e, R WHERE e.c0 = B.c0 AND R.c0 = e.c1) % 2 = 1",
    ),
    (
        "q(x) := B(x) and forall y (E(x, y) implies R(y))",
        "SELECT c0 FROM B WHERE NOT EXISTS (SELECT 1 FROM E WHERE E.c0 = B.c0 AND E.c1 NOT IN (SELECT c0 FROM R))",
    ),
    (
        "q(x, y) := B(x) and R(y) and not E(x, y) and not E(y, x)",
        "SELECT B.c0, R.c0 FROM B, R WHERE NOT EXISTS (SELECT 1 FROM E WHERE c0 = B.c0 AND c1 = R.c0 OR "
        "c0 = R.c0 AND c1 = B.c0)",
    ),
    (
        "q(x) := exists>=2 y (E(x, y)) and not R(x)",
        "SELECT c0 FROM E WHERE c0 NOT IN (SELECT c0 FROM R) GROUP BY c0 HAVING count(DISTINCT c1) >= 2",
    ),
]


@pytest.mark.parametrize(("formula", "sql"), IN_SQL, ids=range(len(IN_SQL)))
def test_as_duckdb_says(formula: str, sql: str) -> None:
    random = Random(sql)
    rows = random_rows(random)
    db = database(rows, ARITIES)
    view = db.formula(formula, degree=3)
    for _ in range(scaled(4)):
        before = {name: set(found) for name, found in rows.items()}
        for _ in range(6):
            random_update(random, rows, 8, 3)
        with db.batch() as batch:
            for name in ARITIES:
                batch.delete(name, sorted(before[name] - rows[name]))
                batch.insert(name, sorted(rows[name] - before[name]))
        other = duckdb.connect()
        for name, arity in ARITIES.items():
            other.execute(f"CREATE TABLE {name} ({', '.join(f'c{i} BIGINT' for i in range(arity))})")
            marks = ", ".join("?" * arity)
            for row in rows[name]:
                other.execute(f"INSERT INTO {name} VALUES ({marks})", row)
        assert set(view) == set(other.execute(f"SELECT DISTINCT * FROM ({sql})").fetchall())


# --- rows, labels, NULL, strings -------------------------------------------------------------------------------------


def molecules() -> ev.Database:
    db = ev.Database()
    db.sql(
        "CREATE TABLE atom (molecule INT, id STRING, element STRING);"
        "CREATE TABLE bond (molecule INT, a STRING, b STRING, kind STRING)"
    )
    db.insert("atom", [(1, "c1", "C"), (1, "c2", "C"), (1, "o1", "O"), (2, "n1", "N"), (2, "c3", "C")])
    db.insert("bond", [(1, "c1", "c2", "single"), (1, "c2", "o1", "double"), (2, "n1", "c3", "triple")])
    return db


def test_labels_are_no_elements() -> None:
    db = molecules()
    carbonyl = db.formula(
        "carbonyl(x) := atom(_, x, 'C') and exists y (atom(_, y, 'O') and (bond(_, x, y, 'double') or "
        "bond(_, y, x, 'double')))",
        degree=4,
    )
    others = db.formula("other(x) := not atom(_, x, 'C')", degree=4, domain="query")
    assert values(carbonyl) == {"c2"}
    assert values(others) == {"o1", "n1"}, "neither molecules nor the names of elements are elements of the formula"
    feed = carbonyl.changes()
    db.delete("bond", [(1, "c2", "o1", "double")])
    assert told(feed) == (set(), {"c2"})
    db.insert("bond", [(1, "c1", "o1", "double")])
    assert told(feed) == ({"c1"}, set())
    assert carbonyl.explain().to_dict()["formula"]["tier"] == "A"


def test_constants_for_elements() -> None:
    db = database(F1)
    assert values(db.formula("q(x) := E(1, x)", degree=3)) == {2, 3}
    assert values(db.formula("p(x) := B(x) and x != 1", degree=3)) == {2, 4}
    assert values(
        db.formula(
            "v(x) := dist(x, x) <= 0 and exists y (y = 4 and dist(x, y) <= 1 and E(y, y) or y = 4 and E(y, x))",
            degree=3,
        )
    ) == {1}
    assert values(db.formula("s(x) := x = 77 or R(x) and x = 78", degree=3)) == set(), "it occurs in no fact"


def test_constants_stand_for_elements_of_other_tables() -> None:
    db = database({"B": {(1,), (2,)}, "Z": {(7,)}})
    one = db.formula("one(x) := x = 7 or B(x) and x = 1", degree=3)
    some = db.formula("some() := exists x (x = 8) and not exists x (B(x) and x = 5)", degree=3)
    own = db.formula("own(x) := x = 7 or B(x) and x = 1", degree=3, domain="query")
    feed = one.changes()
    assert (values(one), bool(some), values(own)) == ({1, 7}, False, {1})
    db.insert("Z", [(8,)])
    db.delete("Z", [(7,)])
    assert (values(one), bool(some), values(own)) == ({1}, True, {1})
    assert told(feed) == (set(), {7})


def test_tables_that_are_created_later_belong_to_the_domain(tmp_path: Path) -> None:
    db = database({"B": {(1,)}, "E": {(1, 2)}})
    view = db.formula("q(x) := not B(x)", degree=3, history=5)
    nine = db.formula("nine(x) := x = 9 and not B(x)", degree=3)
    own = db.formula("own(x) := not B(x)", degree=3, domain="query")
    db.sql("CREATE MATERIALIZED VIEW over_it AS SELECT COUNT(*) AS n FROM q")
    feed = view.changes()
    version = db.version
    db.sql("CREATE TABLE Z (a BIGINT, name STRING); CREATE TABLE W (a STRING)")
    assert (values(view), values(nine), told(feed)) == ({2}, set(), (set(), set()))
    db.insert("Z", [(9, "nine"), (None, "none")])
    assert (values(view), values(nine), values(own)) == ({2, 9}, {9}, set())
    assert values(db.view("over_it")) == {2}
    assert told(feed) == ({9}, set())
    assert view.diff(since=version).to_pylist()[0]["x"] == 9
    db.save(tmp_path / "saved.db")
    for verify in (False, True):
        loaded = ev.Database.load(tmp_path / "saved.db", verify=verify)
        assert (values(loaded.view("q")), values(loaded.view("nine"))) == ({2, 9}, {9})
    with pytest.raises(DependantsError, match="views q, nine, over_it read it"):
        db.drop("Z")
    db.drop("W")
    db.sql("ALTER VIEW q SET OPTIONS (degree = 5)")
    db.delete("Z", [(9, "nine")])
    assert (values(view), values(nine)) == ({2}, set())


def test_parts_that_cannot_matter_name_their_tables() -> None:
    db = database({"B": {(1,)}, "E": {(1, 2)}, "Z": {(7,)}})
    view = db.formula("q(x) := not B(x) or B(x) and false and E(x, x) and (Z(x) or true)", degree=3, domain="query")
    assert values(view) == {2, 7}
    with pytest.raises(UnknownNameError, match="there is no table nobody"):
        db.formula("p(x) := B(x) and (true or nobody(x))", degree=3)


def test_distances_are_those_of_all_rows() -> None:
    """Also of rows of which atoms ask for fewer elements, or with another label."""
    db = ev.Database()
    db.sql("CREATE TABLE bond (a BIGINT, b BIGINT, kind STRING)")
    db.insert("bond", [(1, 2, "single"), (2, 3, "double"), (3, 4, None), (4, None, "single")])
    double = db.formula("double(x) := exists y (bond(x, y, 'double') and dist(x, y) <= 1)", degree=2)
    near = db.formula("near(x, y) := bond(x, _, _) and bond(_, y, _) and dist(x, y) <= 2 and x != y", degree=2)
    feed = near.changes()
    assert values(double) == {2}
    assert values(near) == {(1, 2), (1, 3), (2, 3), (2, 4), (3, 2), (3, 4)}
    db.delete("bond", [(2, 3, "double")])
    assert told(feed) == (set(), {(1, 3), (2, 3), (2, 4), (3, 2)})
    assert values(near) == {(1, 2), (3, 4)}
    db.insert("bond", [(2, 4, "single")])
    assert values(near) == {(1, 2), (1, 4), (2, 4), (3, 4), (3, 2)}
    with pytest.raises(DegreeExceeded):
        db.insert("bond", [(2, 5, "triple")])


def test_copies_and_nulls() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE E (a BIGINT, b BIGINT, w STRING)")
    db.insert("E", [(1, 2, "x"), (1, 2, "x"), (1, 2, None), (3, None, "x"), (None, 4, "x")])
    view = db.formula("q(x) := exists y (E(x, y, _) or E(y, x, _))", degree=2)
    count = db.formula("two(x) := exists>=2 y (E(x, y, 'x'))", degree=2)
    assert values(view) == {1, 2}, "a row with NULL in an element's column is no fact"
    assert values(count) == set(), "copies are one fact"
    db.delete("E", [(1, 2, "x")])
    db.delete("E", [(1, 2, "x")])
    assert values(view) == {1, 2}
    db.delete("E", [(1, 2, None)])
    assert values(view) == set()


def test_views_over_formulas_and_options() -> None:
    db = database(F1)
    db.formula("q(x) := B(x) and not exists y (E(x, y) and B(y))", degree=3, history=5)
    db.sql("CREATE MATERIALIZED VIEW joined AS SELECT q.x, R.c0 FROM q JOIN R ON q.x < R.c0")
    for name in ("q", "joined"):
        with pytest.raises(UnsupportedError, match="why a row is in q is not told"):
            db.view(name).why(next(iter(db.view(name))))
    version = db.version
    assert values(db.view("joined")) == {(2, 3)}
    db.delete("E", [(4, 1)])
    db.insert("R", [(9,)])
    assert values(db.view("joined")) == {(2, 3), (2, 9), (4, 9)}
    assert db.view("q").diff(since=version).to_pylist()[0]["x"] == 4
    with pytest.raises(DependantsError):
        db.drop("E")
    db.drop("q", cascade=True)
    db.drop("E")
    assert db.views == ()


def test_what_is_looked_up_after_loading(tmp_path: Path) -> None:
    """An index of the rows is saved, and the census is made anew: its rows are in the index already."""
    db = database(F1)
    db.formula("q(x, y) := B(x) and R(y) and not E(x, y)", degree=3, lookup="y")
    db.formula("p(x, y) := E(x, y) or R(x) and R(y)", degree=3)
    asked = {"q": "y", "p": "y"}

    def looked_up() -> dict[str, Counter[tuple[Any, ...]]]:
        rows = {n: [db.view(n).lookup(**{c: v}).to_pylist() for v in range(1, 9)] for n, c in asked.items()}
        return {n: Counter(tuple(row.values()) for found in each for row in found) for n, each in rows.items()}

    for step in range(3):
        assert looked_up() == {name: Counter(db.view(name)) for name in asked}
        db.save(tmp_path / "saved.db")
        db = ev.Database.load(tmp_path / "saved.db", verify=step == 2)
        feed = db.view("q").changes() if step else None
        db.insert("R", [(step + 4,)])
        db.delete("B", [(step + 1,)] if step != 2 else [(4,)])
        assert looked_up() == {name: Counter(db.view(name)) for name in asked}
        assert feed is None or all(n == (1 if row[1] == step + 4 else -1) for row, n in changes(feed).items())


def test_differences_of_sentences() -> None:
    db = database(F1)
    view = db.formula("even() := exists[0 mod 2] x (B(x))", degree=3, history=10)
    first = db.version
    assert view.diff(since=first).to_pylist() == []
    db.insert("B", [(3,)])
    second = db.version
    assert [(r["_change_type"], r["_count"]) for r in view.diff(since=first).to_pylist()] == [("insert", 1)]
    db.insert("B", [(5,)])
    assert [(r["_change_type"], r["_count"]) for r in view.diff(since=second).to_pylist()] == [("delete", 1)]
    assert view.diff(since=first).to_pylist() == []


def test_three_variables_are_tested_and_listed() -> None:
    db = database(F1)
    view = db.formula("t(x, y, z) := B(x) and R(y) and R(z) and y != z and not E(x, y)", degree=3)
    right = {(x, y, z) for (x,) in F1["B"] for (y,) in F1["R"] for (z,) in F1["R"] if y != z and (x, y) not in F1["E"]}
    assert set(view) == right
    assert all(row in view for row in right)
    for refused in (view.count, lambda: len(view), view.changes, lambda: view.subscribe(print)):
        with pytest.raises(NotCountedError, match="three variables"):
            refused()
    tasks = view.explain().to_dict()["tasks"]
    assert tasks["count"]["verdict"] == tasks["difference"]["verdict"] == "unknown"
    with pytest.raises(NotCountedError):
        db.sql("CREATE VIEW over_it AS SELECT x FROM t")
    assert db.views == ("t",)


REFUSED: list[tuple[Callable[[ev.Database], object], type[Exception], str]] = [
    (lambda db: db.formula("q(x) := nobody(x)", degree=3), UnknownNameError, "there is no table nobody"),
    (lambda db: db.formula("q(x) := E(x)", degree=3), QueryError, "E has 2 columns, and is given 1"),
    (lambda db: db.formula("q(x) := B(x) and B('a')", degree=3), QueryError, "has no variable"),
    (lambda db: db.formula("q(x) := E(x, 'a')", degree=3), TypeMismatchError, "'a' is not a value of E.c1"),
    (lambda db: db.formula("q(x) := B(x)", degree=0), OptionError, "degree is 0"),
    (lambda db: db.formula("q(x) := B(x)", degree=3, domain="all"), OptionError, "domain"),  # type: ignore[arg-type]
    (lambda db: db.formula("q(x) := true", degree=3), QueryError, "reads no relation"),
    (lambda db: db.formula("q(_count) := B(_count)", degree=3), QueryError, "cannot be named _count"),
    (lambda db: db.formula("B(x) := R(x)", degree=3), QueryError, "a table named B exists already"),
    (
        lambda db: db.formula("q(x) := exists y. exists z. exists u. (!E(x,y) & !E(y,z) & !E(z,u))", degree=3),
        FormulaLimitError,
        "RADIUS_LIMIT: one has to look 13 steps",
    ),
]


@pytest.mark.parametrize(("refused", "error", "message"), REFUSED, ids=[m for _, _, m in REFUSED])
def test_refusals(refused: Callable[[ev.Database], object], error: type[Exception], message: str) -> None:
    db = database(F1)
    with pytest.raises(error, match=message):
        refused(db)
    assert db.views == ()


def test_a_view_is_no_table_of_facts() -> None:
    db = database(F1)
    db.sql("CREATE VIEW v AS SELECT c0 FROM B")
    with pytest.raises(UnsupportedError, match="v is a view"):
        db.formula("q(x) := v(x)", degree=3)


def test_explain() -> None:
    db = database(F1)
    view = db.formula("Q(x) := exists y.(!E(x,y) & x != y & R(y))", degree=3)
    data, text = view.explain().to_dict(), " ".join(str(view.explain()).split())
    assert "unguarded: witnesses may be anywhere, wherever x may be; radius 1, 0 inside" in text
    assert "tier B: two variables" in text
    assert "the most neighbours of an element are 3, so there is room for 0 more" in text
    assert "unless FPT = AW[∗]" in text
    assert data["strategy"] == "fo-mod"
    assert data["formula"]["class"] == "G2"
    assert data["formula"]["quantifiers"][0]["kind"] == "unguarded"
    assert data["census"]["types"] == {0: 2, 1: 4}
    assert data["tasks"]["count"]["verdict"] == "constant"
    assert "<svg" in view.explain().to_svg()


def test_a_census_counts_for_the_memory_limit() -> None:
    rows = [(i, i + 1) for i in range(4_000)]

    def filled(limit: int | None) -> ev.Database:
        db = ev.Database(memory_limit=limit)
        db.sql("CREATE TABLE edge (a BIGINT, b BIGINT)")
        db.formula("odd(x) := exists[1 mod 2] y (edge(x, y) or edge(y, x))", degree=2)
        db.insert("edge", rows)
        return db

    needed = filled(None)
    census = needed.view("odd").stats()["bytes"]
    assert census > 100 * len(rows)
    assert needed.state_nbytes() > census
    limited = filled(2 * needed.state_nbytes())
    assert set(limited.view("odd")) == {(0,), (4_000,)}
    limited.memory_limit = limited.state_nbytes() + 50_000
    with pytest.raises(MemoryLimitError):
        limited.insert("edge", [(i, i + 1) for i in range(10_000, 11_500)])
    assert set(limited.view("odd")) == {(0,), (4_000,)}
    limited.insert("edge", [(-1, 0)])
    assert set(limited.view("odd")) == {(-1,), (4_000,)}


def test_explain_tells_which_types_there_are_and_which_are_accepted() -> None:
    db = database(F1)
    local = db.formula("q(x) := B(x) and exists[1 mod 2] y (E(x, y) and R(y))", degree=3).explain()
    assert local.to_dict()["formula"]["census_radii"] == []
    assert "no element is counted by type" in " ".join(str(local).split())
    assert "types that occur: none counted;" in " ".join(str(local).split())
    far = db.formula("p(x) := exists y (not E(x, y) and x != y and R(y))", degree=3).explain()
    assert "elements are counted by type for radius 0, 1" in str(far)
    kinds, accepted = far.to_dict()["census"]["types"], far.to_dict()["census"]["accepted_types"]
    assert 0 < accepted < kinds[1]
    assert f"{kinds[1]} of radius 1, {accepted} of the answers' types accepted;" in " ".join(str(far).split())
