"""UNION of queries: nothing is kept for it, and rows, changes and answers are DuckDB's; ucq-constraints.md 12.3."""

from __future__ import annotations

import random
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import everview as ev
from everview.engine.operators.united import United
from everview.engine.view import View
from everview.errors import ScanWarning
from tests.scale import SCALE, scaled, thoroughness

TABLES = {
    "s": "x INT",
    "t": "x INT",
    "b": "x INT",
    "e": "x INT, y INT",
    "f": "x INT, y INT",
    "r": "x INT, y INT, z INT",
    "n": "k STRING, x BIGINT",
}
SE = "SELECT s.x, e.y FROM s, e WHERE s.x = e.x"
ET = "SELECT e.x, e.y FROM e, t WHERE e.y = t.x"
EF = "SELECT e.x, e.y FROM e, f WHERE e.x = f.x AND e.y = f.y"
FT = "SELECT f.x, f.y FROM f, t WHERE f.y = t.x"
UNIONS = {
    "U1": f"{SE} UNION {ET}",
    "U2": f"{SE} UNION {EF} UNION {FT}",
    "U2b": f"{SE} UNION {FT}",
    "U3": "SELECT x, y FROM e UNION SELECT x, x FROM e UNION SELECT y, y FROM e",
    "U4": "SELECT x, y FROM e UNION SELECT s.x, e.y FROM s, e, t WHERE s.x = e.x AND e.y = t.x",
    "U5": "SELECT 1 AS x, y FROM e WHERE x = 1 UNION SELECT e.x, 2 FROM e, s WHERE e.x = s.x AND e.y = 2",
    "U6": "SELECT x, x AS u, y FROM e UNION SELECT x, y, y FROM e",
    "U7": "SELECT x, x AS y FROM s UNION SELECT 1, 2 FROM b",
    "U8": "SELECT 'yes' AS a FROM s, e WHERE s.x = e.x UNION SELECT 'yes' FROM e, t WHERE e.y = t.x",
    "U10": "SELECT s.x, e.y FROM s, e, t WHERE s.x = e.x AND e.y = t.x UNION SELECT x, y FROM f",
    "U11": f"{SE} UNION SELECT e.x AS y, e.y AS x FROM e, t WHERE e.y = t.x",
    "U12": "SELECT x FROM s UNION SELECT e.x FROM e, t WHERE e.y = t.x",
    "U14": "SELECT s.x, e.y FROM s, e WHERE s.x = e.x UNION SELECT e.y, e.x FROM e, t WHERE e.y = t.x",
}
MORE = {
    **UNIONS,
    "paths": "SELECT e.x, f.y FROM e, f WHERE e.y = f.x UNION SELECT x, y FROM e",
    "triangles": "SELECT e.x, f.y FROM e, f, r WHERE e.y = f.x AND f.y = r.x AND r.y = e.x UNION SELECT x, y FROM f",
    "names": "SELECT k, x FROM n UNION SELECT 'a', x FROM s UNION SELECT 'b', x FROM t",
    "apart": "SELECT 'a' AS k, x FROM s UNION SELECT 'c', x FROM t",
    "wider": "SELECT x FROM n UNION SELECT x FROM s",
    "fractions": "SELECT x / 2 AS h FROM s UNION SELECT CAST(x AS DOUBLE) FROM t UNION SELECT x FROM b",
    "sums": "SELECT x + 1 AS y FROM s UNION SELECT x FROM t",
    "less": "SELECT s.x, t.x AS y FROM s, t WHERE s.x < t.x UNION SELECT x, y FROM e",
    "groups": "SELECT x, COUNT(*) AS c FROM e GROUP BY x UNION SELECT x, x FROM s",
    "below": "SELECT x FROM s UNION SELECT x FROM t EXCEPT SELECT x FROM b",
    "staged": "SELECT x FROM s WHERE x IN (SELECT x FROM t) UNION SELECT x FROM b WHERE x IN (SELECT y FROM e)",
    "of_sides": "SELECT a.x FROM (SELECT x FROM s UNION SELECT x FROM t) a, b WHERE a.x = b.x UNION SELECT x FROM s",
}
TESTED = [*UNIONS.keys() - {"U4", "U7"}, "paths", "triangles", "names", "wider", "sums"]
"""Those of which nothing is kept; U4 has one member, and those of U7 have no row in common."""


def database(queries: dict[str, str], *, nullable: bool = True) -> ev.Database:
    db = ev.Database()
    for name, columns in TABLES.items():
        db.sql(f"CREATE TABLE {name} ({columns if nullable else columns.replace('INT', 'INT NOT NULL')})")
    for name, query in queries.items():
        db.create_view(f"v_{name}", query)
    return db


def duck(tables: dict[str, Counter[Any]]) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    for name, columns in TABLES.items():
        con.execute(f"CREATE TABLE {name} ({columns})")
        rows = list(tables[name].elements())
        if rows:
            con.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)
    return con


def row_of(r: random.Random, table: str) -> tuple[Any, ...]:
    if table == "n":
        return r.choice(("a", "b", "c", None)), r.choice((0, 1, 2, 2**40, None))
    return tuple(r.choice((0, 1, 1, 2, 3, None)) for _ in TABLES[table].split(", "))


def told(feed: ev.ChangeFeed) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for batch in feed.read():
        for row in batch.to_pylist():
            sign = 1 if row["_change_type"] in ("insert", "update_postimage") else -1
            found[tuple(v for k, v in row.items() if not k.startswith("_"))] += sign * row["_count"]
    return found


@pytest.mark.parametrize("seed", range(scaled(3)))
def test_rows_changes_and_answers_are_those_of_duckdb(seed: int, tmp_path: Path) -> None:
    r = random.Random(seed)
    db, held = database(MORE), {name: Counter[Any]() for name in TABLES}
    feeds = {name: db.view(name).changes(per_update=i % 3 == 0) for i, name in enumerate(db.views) if i % 2}
    sums = {name: Counter[Any]() for name in feeds}
    for step in range(12):
        with db.batch() as batch:
            for _ in range(r.choice((1, 1, 2, 6, 20))):
                table = r.choice(list(TABLES))
                if r.random() < 0.4 and held[table]:
                    row = r.choice(sorted(held[table].elements(), key=repr))
                    batch.delete(table, [row])
                    held[table] -= Counter([row])
                else:
                    row = row_of(r, table)
                    batch.insert(table, [row])
                    held[table][row] += 1
        if step == 7:
            for name, feed in feeds.items():
                sums[name].update(told(feed))
            db.save(tmp_path / "saved")
            db = ev.Database.load(tmp_path / "saved")
            feeds = {name: db.view(name).changes() for name in feeds}
        con = duck(held) if step % 3 == 2 else None
        for name, query in MORE.items() if con is not None else ():
            view = db.view(f"v_{name}")
            assert con is not None
            expected = Counter(con.execute(query).fetchall())
            assert Counter(map(tuple, view)) == expected, (name, seed, step)
            assert len(view) == expected.total()
            for row in r.sample(sorted(expected, key=repr), min(4, len(expected))):
                assert row in view, (name, row)
            if view.schema.names == ["x", "y"]:
                wanted = (r.choice((0, 1, 2)), r.choice((0, 1, 2, None)))
                assert (wanted in view) == (wanted in expected), (name, wanted)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ScanWarning)
                    found = Counter(tuple(row.values()) for row in view.lookup(x=1).to_pylist())
                assert found == Counter({row: n for row, n in expected.items() if row[0] == 1}), name
    for name, feed in feeds.items():
        sums[name].update(told(feed))
        assert +sums[name] == Counter(map(tuple, db.view(name))), name
        assert not -sums[name], name


@pytest.mark.parametrize("name", TESTED)
def test_nothing_is_kept_for_a_union(name: str) -> None:
    db = database({name: MORE[name]})
    runtime = db._views[f"v_{name}"]
    assert isinstance(runtime.result, United)
    assert not any(f.part is not runtime.result.net.part and f not in _own(runtime) for f in runtime.folds)


def _own(runtime: Any) -> list[Any]:
    return [side.fold for side in runtime.result.sides]


RUNS: dict[str, tuple[dict[str, list[Any]], list[tuple[str, tuple[Any, ...], Any]]]] = {
    "U1": (
        {"s": [(1,)], "e": [(1, 2), (3, 2), (3, 4)], "t": [(2,)]},
        [
            ("", (), {(1, 2), (3, 2)}),
            ("+s", (3,), {(1, 2), (3, 2), (3, 4)}),
            ("-t", (2,), {(1, 2), (3, 2), (3, 4)}),
            ("-s", (1,), {(3, 2), (3, 4)}),
        ],
    ),
    "U2": (
        {"s": [(1,)], "e": [(1, 1), (1, 2), (2, 2)], "f": [(1, 2), (2, 2), (2, 3)], "t": [(2,), (3,)]},
        [("", (), 4), ("-e", (1, 2), 4), ("+s", (2,), 4), ("-t", (2,), {(1, 1), (2, 2), (2, 3)})],
    ),
    "U3": (
        {"e": [(1, 2), (2, 3), (3, 3)]},
        [("", (), 5), ("-e", (3, 3), 5), ("+e", (4, 1), 7), ("-e", (2, 3), {(1, 1), (2, 2), (1, 2), (4, 1), (4, 4)})],
    ),
    "U5": (
        {"e": [(1, 2), (1, 3), (4, 2)], "s": [(1,), (4,)]},
        [("", (), {(1, 2), (1, 3), (4, 2)}), ("-s", (1,), 3), ("-e", (1, 2), {(1, 3), (4, 2)}), ("+s", (1,), 2)],
    ),
    "U6": (
        {"e": [(1, 1), (1, 2)]},
        [
            ("", (), {(1, 1, 1), (1, 1, 2), (1, 2, 2)}),
            ("-e", (1, 1), 2),
            ("+e", (2, 2), {(1, 1, 2), (1, 2, 2), (2, 2, 2)}),
        ],
    ),
    "U7": (
        {"s": [(1,), (2,)], "b": [(0,)]},
        [("", (), {(1, 1), (1, 2), (2, 2)}), ("-b", (0,), 2), ("-s", (1,), {(2, 2)})],
    ),
    "U8": (
        {"s": [(1,)], "e": [(2, 3)]},
        [("", (), 0), ("+t", (3,), 1), ("+s", (2,), 1), ("-t", (3,), 1), ("-e", (2, 3), 0)],
    ),
}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("is_told", [False, True])
def test_runs_of_the_specification(name: str, is_told: bool) -> None:
    start, steps = RUNS[name]
    db = database({name: MORE[name]})
    view = db.view(f"v_{name}")
    feed = view.changes() if is_told else None
    for table, rows in start.items():
        db.insert(table, rows)
    for step, row, expected in steps:
        if step:
            (db.insert if step[0] == "+" else db.delete)(step[1:], [row])
        rows = list(view)
        assert len(rows) == len(set(rows)) == (expected if isinstance(expected, int) else len(expected))
        assert len(view) == len(rows)
        assert isinstance(expected, int) or set(rows) == expected
    assert feed is None or +told(feed) == Counter(view)


@thoroughness(8)
@given(st.integers(0, 2**32))
def test_columns_in_any_order_with_constants_and_again(seed: int) -> None:
    """Random members over the same tables, whose heads repeat variables and have constants."""
    r = random.Random(seed)

    def member() -> str:
        atoms = r.sample(["s", "t", "e", "f", "e e2"], r.randint(1, 3))
        names = [a.split()[-1] for a in atoms]
        columns = [f"{n}.{c}" for n in names for c in ("x", "y")[: 1 if n in ("s", "t") else 2]]
        joins = [f"{r.choice(columns)} = {r.choice(columns)}" for _ in range(r.randint(0, 2))]
        where = f" WHERE {' AND '.join(joins)}" if joins else ""
        head = [r.choice([*columns, "1", "2"]) for _ in range(2)]
        return f"SELECT {head[0]} AS p, {head[1]} AS q FROM {', '.join(atoms)}{where}"

    queries = {str(i): " UNION ".join(member() for _ in range(r.randint(2, 3))) for i in range(4)}
    db, held = database(queries), {name: Counter[Any]() for name in TABLES}
    feeds = {name: db.view(name).changes() for name in db.views[:2]}
    for _ in range(14):
        table = r.choice(["s", "t", "e", "f"])
        row = tuple(r.randint(0, 2) for _ in TABLES[table].split(", "))
        if r.random() < 0.4 and held[table]:
            row = r.choice(list(held[table].elements()))
            db.delete(table, [row])
            held[table] -= Counter([row])
        else:
            db.insert(table, [row])
            held[table][row] += 1
    con = duck(held)
    for i, query in queries.items():
        expected = Counter(con.execute(query).fetchall())
        assert Counter(map(tuple, db.view(f"v_{i}"))) == expected, query
        assert len(db.view(f"v_{i}")) == expected.total()
        everything = [(p, q) for p in range(3) for q in range(3)]
        assert [row in db.view(f"v_{i}") for row in everything] == [row in expected for row in everything], query
    for name, feed in feeds.items():
        assert +told(feed) == Counter(map(tuple, db.view(name)))


def steps_of(size: int, query: str, options: str = "") -> tuple[int, ...]:
    """Of a union over so many rows that nearly all are in both members: update, count, test, longest delay."""
    db = database({}, nullable=False)
    db.sql(f"CREATE VIEW v_u {options} AS {query}")
    half = size // 2
    hub = pa.table({"x": [0] * half + list(range(1, half)), "y": list(range(1, half + 1)) + [0] * (half - 1)})
    db.insert("e", hub)
    db.insert("f", hub)
    db.insert("s", pa.table({"x": range(half)}))
    db.insert("t", pa.table({"x": range(half + 1)}))
    unit = db._views["v_u"].unit
    updates = []
    for change, table, row in [
        (db.delete, "s", (0,)),
        (db.insert, "s", (0,)),
        (db.delete, "t", (0,)),
        (db.insert, "t", (0,)),
        (db.insert, "e", (size, size)),
        (db.delete, "e", (0, 1)),
        (db.insert, "f", (size, 1)),
    ]:
        before = unit.steps
        change(table, [row])
        updates.append(unit.steps - before)
    counted = known = 0
    if options:
        before = unit.steps
        known = db.view("v_u").count()
        counted = unit.steps - before
        assert db._views["v_u"].unit is unit
    before = unit.steps
    assert (0, 2) in db.view("v_u")
    tested = unit.steps - before
    runtime = db._views["v_u"].result
    assert isinstance(runtime, United)
    cursor = runtime.part.open(f"{runtime._prefix}rows", ())
    delays, seen = [0], 0
    while len(cursor.fetch(1)[0]):
        delays.append(cursor.steps - sum(delays))
        seen += 1
        if seen == 2_000:  # The rest at once: on average as far apart.
            rest = len(cursor.fetch(size * 2)[0])
            assert cursor.steps < (seen + rest) * 2 * max(delays)
            assert known in (0, seen + rest)
            break
    return max(updates), counted, tested, max(delays)


@pytest.mark.slow
@pytest.mark.parametrize("query", [f"{SE} UNION {ET}", f"{SE} UNION {EF} UNION {FT}"])
def test_steps_are_flat(query: str) -> None:
    """An update that changes half of the rows, a test and the delay take as many steps whatever the size."""
    sizes = (1_000, 10_000, 100_000) if SCALE < 4 else (1_000, 10_000, 100_000, 1_000_000)
    found = [steps_of(size, query) for size in sizes]
    assert len(set(found)) == 1, found


@pytest.mark.slow
def test_steps_of_counting_are_flat() -> None:
    """By inclusion and exclusion: an update, and a count, take as many steps whatever the size."""
    sizes = (1_000, 10_000, 100_000) if SCALE < 4 else (1_000, 10_000, 100_000, 1_000_000)
    found = [steps_of(size, f"{SE} UNION {EF} UNION {FT}", "OPTIONS (count = true)") for size in sizes]
    assert len(set(found)) == 1, found


EXHAUSTIVE = ["U2", "U3", "U5", "U6", "U7", "U8", "U14"]


@pytest.mark.parametrize("name", EXHAUSTIVE)
def test_exhaustive_unions_count_without_listing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    r = random.Random(name)
    db, held = database({name: MORE[name]}, nullable=False), {table: Counter[Any]() for table in TABLES}
    assert len(db.view(f"v_{name}")) == 0
    view = db.view(f"v_{name}")
    assert view._runtime.view.options.count or name == "U7"  # Whose members share no row.
    monkeypatch.setattr(View, "_rows", None)  # Nothing is listed from here on.
    for _ in range(40):
        table = r.choice(["s", "t", "b", "e", "f"])
        if r.random() < 0.45 and held[table]:
            row = r.choice(list(held[table].elements()))
            db.delete(table, [row])
            held[table] -= Counter([row])
        else:
            row = tuple(r.choice((0, 1, 2)) for _ in TABLES[table].split(", "))
            db.insert(table, [row])
            held[table][row] += 1
        count = duck(held).execute(f"SELECT COUNT(*) FROM ({MORE[name]})").fetchone()
        assert count is not None
        assert (view.count(),) == count


def test_explain_shows_what_is_counted() -> None:
    nullable = "; ".join(f"CREATE TABLE {name} ({columns})" for name, columns in TABLES.items())
    schema = nullable.replace("INT", "INT NOT NULL")
    query = f"{SE} UNION {EF} UNION {FT}"
    task = ev.explain(MORE["U3"], nullable).to_dict()["tasks"]["count"]
    assert (task["verdict"], "NOT NULL" in task["reason"]) == ("unknown", True)
    assert ev.explain(MORE["U3"], schema).to_dict()["tasks"]["count"]["verdict"] == "constant"
    found = ev.explain(f"CREATE VIEW v OPTIONS (count = true) AS {query}", schema)
    (part,) = found.to_dict()["parts"]
    assert sorted(t["coefficient"] for t in part["counted"]) == [-1, -1]  # Those of all three and two of them cancel.
    assert all(len(c.query.atoms) == 3 for c in found.plan.cores[3:])
    assert found.to_dict()["constant_update_for"] == ["any", "fifo", "insert_only"]
    assert found.to_dict()["tasks"]["count"]["verdict"] == "constant"
    assert ev.explain(f"{SE} UNION {ET}", schema).to_dict()["tasks"]["count"]["verdict"] == "hard"
    assert not ev.explain(f"CREATE VIEW v OPTIONS (count = true) AS {SE} UNION {ET}", schema).to_dict()["parts"][0][
        "counted"
    ]


@pytest.mark.parametrize("query", ["SELECT DISTINCT 'a' AS k, x FROM s", MORE["apart"], MORE["names"]])
def test_a_value_that_nobody_has_stored_is_no_constant(query: str) -> None:
    db = database({"v": query})
    db.insert("s", [(1,)])
    view = db.view("v_v")
    assert ("zzz", 1) not in view
    assert ("a", 1) in view
    assert ("zzz", 1) not in view
    assert ("a", 2) not in view
    assert len(view.lookup(k="zzz", x=1)) == 0
    assert len(view.lookup(k="a", x=1)) == 1


CLASSES = {  # q-, t- and exhaustively q-hierarchical: ucq-constraints.md 12.2
    "U1": "q t",
    "U2": "q t x",
    "U2b": "q t",
    "U3": "q t x",
    "U4": "q t x",
    "U5": "q t x",
    "U6": "q t x",
    "U7": "q t x",
    "U8": "q t x",
    "U10": "t",
    "U11": "q t",
    "U12": "",
    "U14": "q t x",
}


@pytest.mark.parametrize("name", CLASSES)
def test_each_kind_of_read_is_constant_or_hard_as_its_class_says(name: str) -> None:
    schema = "; ".join(f"CREATE TABLE {t} ({c.replace('INT', 'INT NOT NULL')})" for t, c in TABLES.items())
    found = ev.explain(MORE[name], schema).to_dict()
    held = CLASSES[name].split()
    for task, class_ in (("list", "q"), ("test", "t"), ("count", "x")):
        verdict = found["tasks"][task]
        assert verdict["verdict"] == ("constant" if class_ in held else "hard"), task
        assert (verdict["unless"] is not None) == (class_ not in held)
        assert class_ in held or verdict["witness"]
    assert (found["constant_update_for"] == ["any", "fifo", "insert_only"]) == ("q" in held)
    assert (found["lower_bound"] is None) == ("q" in held)
