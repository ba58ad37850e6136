"""CHECK … IN makes hard joins unions of easy ones: vectors D1 to D11 of ucq-constraints.md, and others by DuckDB."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

import everview as ev
from everview.errors import DomainViolationError
from tests.scale import thoroughness

COLUMNS = {"s": "a", "t": "b", "e": "a b", "f": "b c", "g": "a"}
C1 = "SELECT DISTINCT e.a, e.b FROM s, e, t WHERE s.a = e.a AND e.b = t.b"
C2 = "SELECT DISTINCT 1 AS yes FROM s, e, t WHERE s.a = e.a AND e.b = t.b"
C3 = "SELECT DISTINCT e.a FROM e, t WHERE e.b = t.b"


def schema(**checks: str) -> str:
    """Tables whose columns, named as table_column, hold one of the values; NOT NULL, or as said."""
    found = []
    for table, columns in COLUMNS.items():
        parts = [
            f"{c} INT NOT NULL" + (f" CHECK ({c} IN ({checks[f'{table}_{c}']}))" if f"{table}_{c}" in checks else "")
            for c in columns.split()
        ]
        found.append(f"CREATE TABLE {table} ({', '.join(parts)})")
    return ";".join(found)


VECTORS = [
    ("D1", C2, {"s_a": "1, 2"}, 2),
    ("D2", C2, {"e_a": "1, 2"}, 2),
    ("D3", C2, {"s_a": "1, 2", "e_a": "2, 3"}, 1),
    ("D5", C1, {"s_a": "1, 2"}, 2),
    ("D6", C3, {"t_b": "1, 2"}, 2),
    ("D7", C3, {"e_a": "1, 2"}, 2),
    ("D11", "SELECT DISTINCT e.a, f.c FROM e, f WHERE e.b = f.b", {"e_b": "1, 2"}, 2),
]


@pytest.mark.parametrize(("vector", "query", "checks", "count"), VECTORS, ids=[v[0] for v in VECTORS])
def test_a_small_domain_gives_easy_members(vector: str, query: str, checks: dict[str, str], count: int) -> None:
    before = ev.explain(query, schema())
    assert not before.classes["q_hierarchical"]
    found = ev.explain(query, schema(**checks))
    assert found.classes["q_hierarchical"], vector
    assert len(found.plan.cores) == count
    assert any("small domain" in note for note in found.notes)


@pytest.mark.parametrize(
    ("query", "checks"),
    [
        (C2, {"s_a": "1", "e_a": "2"}),  # D4
        ("SELECT DISTINCT 1 AS yes FROM s, g, e, t WHERE s.a = 5 AND g.a = e.a AND e.b = t.b", {"s_a": "6"}),  # D10
    ],
)
def test_what_no_legal_database_has_is_empty_and_not_hard(query: str, checks: dict[str, str]) -> None:
    found = ev.explain(query, schema(**checks))
    assert any("always empty" in note for note in found.notes)
    assert found.to_dict()["lower_bound"] is None
    assert all(task["verdict"] != "hard" for task in found.to_dict()["tasks"].values())


def test_the_core_is_taken_again_behind_it() -> None:
    """D9: the instance has the hard pattern in it, and its core has not."""
    ten = (
        "SELECT DISTINCT 1 AS yes FROM s, e, t, s s2, e e2, t t2, g, g g2, h, h h2 WHERE s.a = e.a AND e.b = t.b "
        "AND s2.a = g.a AND e2.a = g2.a AND e2.b = h.b AND t2.b = h2.b"
    )
    tables = schema(g_a="1") + "; CREATE TABLE h (b INT NOT NULL CHECK (b IN (2)))"
    found = ev.explain(ten, tables)
    assert found.classes["q_hierarchical"]
    assert [len(c.query.atoms) for c in found.plan.cores] == [5]


@pytest.mark.parametrize(
    ("query", "checks"),
    [
        (C1, {"s_a": ", ".join(map(str, range(99)))}),  # over budget
        ("SELECT e.a, COUNT(*) AS n FROM s, e, t WHERE s.a = e.a AND e.b = t.b GROUP BY e.a", {"s_a": "1, 2"}),
        ("SELECT DISTINCT e.a FROM e, s WHERE e.a = s.a", {"s_a": "1, 2"}),  # easy as it is
    ],
)
def test_where_it_does_not_pay_it_is_left(query: str, checks: dict[str, str]) -> None:
    assert len(ev.explain(query, schema(**checks)).plan.cores) == 1


def test_null_passes_a_check_so_a_column_that_may_hold_it_counts_only_where_it_is_joined() -> None:
    tables = "CREATE TABLE e (a INT CHECK (a IN (1, 2)), b INT); CREATE TABLE t (b INT); CREATE TABLE s (a INT)"
    assert len(ev.explain(C3, tables).plan.cores) == 1
    assert len(ev.explain(C1, tables).plan.cores) == 2
    db = ev.Database()
    db.sql(tables)
    db.create_view("v", C3)
    db.insert("e", [(None, 1), (1, 1)])
    db.insert("t", [(1,)])
    assert Counter(map(tuple, db.view("v"))) == {(None,): 1, (1,): 1}


def run(query: str, checks: dict[str, str], start: dict[str, list[Any]]) -> ev.Database:
    db = ev.Database()
    db.sql(schema(**checks))
    db.create_view("v", query)
    for table, rows in start.items():
        db.insert(table, rows)
    return db


def test_run_of_d1() -> None:
    db = run(C2, {"s_a": "1, 2"}, {"s": [(1,)], "e": [(1, 10), (2, 20), (3, 30)], "t": [(20,)]})
    assert len(db.view("v")) == 0
    with pytest.raises(DomainViolationError):
        db.insert("s", [(3,)])
    for change, table, row, size in [
        (db.insert, "s", (2,), 1),
        (db.delete, "t", (20,), 0),
        (db.insert, "t", (10,), 1),
        (db.delete, "s", (1,), 0),
    ]:
        change(table, [row])
        assert len(db.view("v")) == size


def test_positions_leave_the_members() -> None:
    db = run(C1, {"s_a": "1, 2"}, {"s": [(1,), (2,)], "e": [(1, 10), (2, 10), (2, 20), (3, 10)], "t": [(10,)]})
    assert {db.view("v")[0], db.view("v")[1]} == {(1, 10), (2, 10)}
    assert len(db._views["v"].cores) == 2
    assert db.view("v").explain().classes["q_hierarchical"]


def test_run_of_d5() -> None:
    db = run(C1, {"s_a": "1, 2"}, {"s": [(1,), (2,)], "e": [(1, 10), (2, 10), (2, 20), (3, 10)], "t": [(10,)]})
    assert db.view("v").count() == 2
    db.insert("t", [(20,)])
    assert db.view("v").count() == 3
    db.delete("s", [(2,)])
    assert list(map(tuple, db.view("v"))) == [(1, 10)]


def test_run_of_d6() -> None:
    db = run(C3, {"t_b": "1, 2"}, {"e": [(5, 1), (5, 2), (6, 2), (7, 3)], "t": [(1,)]})
    assert db.view("v").count() == 1
    with pytest.raises(DomainViolationError):
        db.insert("t", [(3,)])
    for change, table, row in [(db.insert, "t", (2,)), (db.delete, "e", (5, 2)), (db.delete, "t", (1,))]:
        change(table, [row])
        assert db.view("v").count() == {"t": 2, "e": 2}[table] - (row == (1,))


QUERIES = [
    C1,
    C2,
    C3,
    C1.replace("DISTINCT ", ""),
    "SELECT e.a, f.c FROM e, f WHERE e.b = f.b",
    "SELECT DISTINCT e.a, f.c FROM e, f WHERE e.b = f.b",
    "SELECT DISTINCT e.a + f.c AS x FROM e, f WHERE e.b = f.b",
    "SELECT e.a + 1 AS x, t.b FROM s, e, t WHERE s.a = e.a AND e.b = t.b AND e.a < e.b + 2",
    f"{C3} UNION SELECT s.a FROM s, e, f WHERE s.a = e.a AND e.b = f.b",
    "SELECT DISTINCT e.a, e2.b FROM e, e e2 WHERE e.b = e2.a",
]
change = st.sampled_from(list(COLUMNS)).flatmap(
    lambda t: st.tuples(
        st.just(t), st.tuples(*(st.integers(0, 3) for _ in COLUMNS[t].split())), st.sampled_from((1, 1, -1))
    )
)
checked = st.dictionaries(
    st.sampled_from([f"{t}_{c}" for t, cs in COLUMNS.items() for c in cs.split()]),
    st.sets(st.integers(0, 3), min_size=1, max_size=3),
    min_size=1,
    max_size=3,
)


@thoroughness(25)
@given(checked, st.lists(st.lists(change, min_size=1, max_size=4), max_size=14))
def test_views_have_the_rows_that_the_query_has_without_checks(checks: dict[str, set[int]], steps: list[Any]) -> None:
    db = ev.Database()
    db.sql(schema(**{k: ", ".join(map(str, v)) for k, v in checks.items()}))
    for i, query in enumerate(QUERIES):
        db.create_view(f"v{i}", query)
    feed = db.view("v5").changes()
    held: dict[str, Counter[Any]] = {t: Counter() for t in COLUMNS}
    for step in steps:
        after = {t: Counter(rows) for t, rows in held.items()}
        legal = True
        for table, row, weight in step:
            after[table][row] += weight
            cells = zip(COLUMNS[table].split(), row, strict=True)
            inside = all(value in checks.get(f"{table}_{c}", {value}) for c, value in cells)
            legal = legal and inside and after[table][row] >= 0
        try:
            with db.batch() as batch:
                for table, row, weight in step:
                    (batch.insert if weight > 0 else batch.delete)(table, [row])
            assert legal
            held = after
        except ev.errors.DataError:
            assert not legal
    con = duckdb.connect()
    for table, columns in COLUMNS.items():
        con.execute(f"CREATE TABLE {table} ({', '.join(f'{c} INT' for c in columns.split())})")
        for row in held[table].elements():
            con.execute(f"INSERT INTO {table} VALUES ({', '.join(map(str, row))})")
    for i, query in enumerate(QUERIES):
        expected = Counter(con.execute(query).fetchall())
        assert Counter(map(tuple, db.view(f"v{i}"))) == expected, query
        assert db.view(f"v{i}").count() == expected.total()
    told: Counter[Any] = Counter()
    for found in feed.read():
        for row in found.to_pylist():
            told[row["a"], row["c"]] += (1 if row["_change_type"] == "insert" else -1) * row["_count"]
    assert +told == Counter(map(tuple, db.view("v5")))
