"""Why a row is in a view: the base rows of every occurrence, against DuckDB's join with all columns."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

import everview as ev
from everview.errors import DataError
from tests.scale import scaled

TABLES = {"r": ("a", "b", "x"), "s": ("b", "c"), "t": ("a", "d"), "n": ("a", "v")}
TYPES = {"v": "STRING"}


@dataclass(frozen=True)
class Case:
    """A view, and of each block the FROM clause, what a row's columns are made of, and the aliases."""

    query: str
    blocks: tuple[tuple[str, dict[int, str], tuple[str, ...]], ...]


RS = "r JOIN s ON r.b = s.b"
CASES = (
    Case("SELECT r.a, r.b, s.c FROM r JOIN s ON r.b = s.b", ((RS, {0: "r.a", 1: "r.b", 2: "s.c"}, ("r", "s")),)),
    Case("SELECT r.a FROM r JOIN s ON r.b = s.b", ((RS, {0: "r.a"}, ("r", "s")),)),
    Case("SELECT DISTINCT r.a, s.c FROM r JOIN s ON r.b = s.b", ((RS, {0: "r.a", 1: "s.c"}, ("r", "s")),)),
    Case(
        "SELECT p.a, q.a AS e FROM r p JOIN r q ON p.b = q.a",
        (("r p JOIN r q ON p.b = q.a", {0: "p.a", 1: "q.a"}, ("p", "q")),),
    ),
    Case(
        "SELECT r.a, r.b, t.d, s.c FROM r JOIN t ON r.a = t.a JOIN s ON r.b = s.b WHERE t.d < s.c",
        (
            (
                "r JOIN t ON r.a = t.a JOIN s ON r.b = s.b AND t.d < s.c",
                {0: "r.a", 1: "r.b", 2: "t.d", 3: "s.c"},
                ("r", "t", "s"),
            ),
        ),
    ),
    Case(
        "SELECT r.a + 1 AS z, concat(n.v, '!') AS w FROM r JOIN n ON r.a = n.a WHERE r.x = 1",
        (("r JOIN n ON r.a = n.a AND r.x = 1", {0: "r.a + 1", 1: "n.v || '!'"}, ("r", "n")),),
    ),
    Case(
        "SELECT r.a, COUNT(*) AS n, SUM(s.c) AS total FROM r JOIN s ON r.b = s.b GROUP BY r.a",
        ((RS, {0: "r.a"}, ("r", "s")),),
    ),
    Case(
        "SELECT r.a % 2 AS k, MAX(t.d) AS most FROM r JOIN t ON r.a = t.a GROUP BY r.a % 2",
        (("r JOIN t ON r.a = t.a", {0: "r.a % 2"}, ("r", "t")),),
    ),
    Case("SELECT COUNT(*) AS n FROM r JOIN s ON r.b = s.b", ((RS, {}, ("r", "s")),)),
    Case(
        "SELECT a, d FROM t UNION SELECT b, c FROM s",
        (("t", {0: "t.a", 1: "t.d"}, ("t",)), ("s", {0: "s.b", 1: "s.c"}, ("s",))),
    ),
    Case(
        "SELECT a, d FROM t UNION ALL SELECT b, c FROM s",
        (("t", {0: "t.a", 1: "t.d"}, ("t",)), ("s", {0: "s.b", 1: "s.c"}, ("s",))),
    ),
    Case("SELECT a, d FROM t EXCEPT SELECT b, c FROM s", (("t", {0: "t.a", 1: "t.d"}, ("t",)),)),
    Case(
        "SELECT r.a, s.c, t.d FROM r JOIN s ON r.b = s.b JOIN t ON t.d = s.c AND t.a = r.a",
        (
            (
                "r JOIN s ON r.b = s.b JOIN t ON t.d = s.c AND t.a = r.a",
                {0: "r.a", 1: "s.c", 2: "t.d"},
                ("r", "s", "t"),
            ),
        ),
    ),
)


def expected(oracle: Any, case: Case, row: tuple[Any, ...]) -> dict[str, set[tuple[Any, ...]]]:
    found: dict[str, set[tuple[Any, ...]]] = {}
    for source, columns, aliases in case.blocks:
        same = " AND ".join(f"({text}) IS NOT DISTINCT FROM ?" for text in columns.values()) or "true"
        values = [row[i] for i in columns]
        for alias in aliases:
            listed = oracle.execute(f"SELECT DISTINCT {alias}.* FROM {source} WHERE {same}", values).fetchall()
            found[alias] = set(listed)
    return found


def rows_of(found: dict[str, Any]) -> dict[str, list[tuple[Any, ...]]]:
    return {alias: [tuple(r.values()) for r in table.to_pylist()] for alias, table in found.items()}


@pytest.mark.parametrize("number", range(len(CASES)))
def test_the_rows_of_all_derivations(number: int) -> None:
    """Whatever is inserted and deleted: without a limit all base rows with their copies, with one of a part of them."""
    case, draw = CASES[number], random.Random(number)
    db, oracle = ev.Database(), duckdb.connect()
    for name, columns in TABLES.items():
        listed = ", ".join(f"{c} {TYPES.get(c, 'BIGINT')}" for c in columns)
        db.sql(f"CREATE TABLE {name} ({listed})")
        oracle.execute(f"CREATE TABLE {name} ({listed})")
    view = db.create_view("v", case.query)
    held: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES}
    for _ in range(scaled(8, least=4)):
        with db.batch() as batch:
            for name, columns in TABLES.items():
                values = [[*"pq", None] if c in TYPES else [0, 1, 2, 3, None] for c in columns]
                new = [tuple(draw.choice(v) for v in values) for _ in range(draw.randrange(1, 5))]
                gone = draw.sample(held[name], min(len(held[name]), draw.randrange(3)))
                batch.insert(name, new)
                batch.delete(name, gone)
                for row in gone:
                    held[name].remove(row)
                held[name] += new
        for name, rows in held.items():
            oracle.execute(f"DELETE FROM {name}")
            if rows:
                marks = f"({', '.join('?' * len(TABLES[name]))})"
                flat = [value for row in rows for value in row]
                oracle.execute(f"INSERT INTO {name} VALUES {', '.join([marks] * len(rows))}", flat)
        listed_rows = sorted(set(view), key=repr)
        for row in draw.sample(listed_rows, min(3, len(listed_rows))):
            wanted = expected(oracle, case, row)
            found = rows_of(view.why(row))
            assert {alias: set(rows) for alias, rows in found.items()} == wanted
            for alias, rows in found.items():
                stored = Counter(held[alias if alias in TABLES else "r"])
                assert all(copies == stored[r] for r, copies in Counter(rows).items())
            some = rows_of(view.why(row, limit=2))
            assert some.keys() == wanted.keys()
            for alias, rows in some.items():
                assert set(rows) <= wanted[alias]
                assert len(rows) <= 2
                assert bool(rows) == bool(wanted[alias])
            one = rows_of(view.why(row, limit=1))
            check_derivation(oracle, case, row, one)


def check_derivation(oracle: Any, case: Case, row: tuple[Any, ...], one: dict[str, list[tuple[Any, ...]]]) -> None:
    """The one row of each occurrence: together they give the row, in each block that does."""
    for source, columns, aliases in case.blocks:
        if not all(one[alias] for alias in aliases):
            assert not any(one[alias] for alias in aliases)
            continue
        tests = [f"({text}) IS NOT DISTINCT FROM ?" for text in columns.values()]
        values = [row[i] for i in columns]
        for alias in aliases:
            table = alias if alias in TABLES else "r"
            tests += [f"{alias}.{c} IS NOT DISTINCT FROM ?" for c in TABLES[table]]
            values += one[alias][0]
        (count,) = oracle.execute(f"SELECT COUNT(*) FROM {source} WHERE {' AND '.join(tests)}", values).fetchone()
        assert count > 0


def shop() -> ev.Database:
    db = ev.Database()
    db.sql("CREATE TABLE r (a BIGINT, name STRING); CREATE TABLE s (a BIGINT, c BIGINT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT r.a, s.c FROM r JOIN s ON r.a = s.a")
    db.sql("CREATE MATERIALIZED VIEW g AS SELECT c, COUNT(*) AS n FROM v GROUP BY c")
    db.sql("CREATE MATERIALIZED VIEW h AS SELECT COUNT(*) AS n FROM s GROUP BY a")
    db.insert("r", [(1, "p"), (1, "q"), (2, "r")])
    db.insert("s", [(1, 7), (2, 7), (2, 8), (2, 8)])
    return db


def test_a_row_that_is_not_there_is_refused() -> None:
    db = shop()
    with pytest.raises(KeyError, match=r"\(9, 9\) is not in v"):
        db.view("v").why((9, 9))
    for limit in (0, -1, True, 1.5):
        with pytest.raises(ValueError, match="a limit is a number of derivations"):
            db.view("v").why((1, 7), limit=limit)  # type: ignore[arg-type]


def test_rows_of_other_views_are_followed_to_base_rows() -> None:
    found = rows_of(shop().view("g").why((7, 3)))
    assert set(found) == {"v.r", "v.s"}
    assert set(found["v.r"]) == {(1, "p"), (1, "q"), (2, "r")}
    assert set(found["v.s"]) == {(1, 7), (2, 7)}


def test_groups_that_do_not_show_their_keys() -> None:
    assert rows_of(shop().view("h").why((3,))) == {"s": [(2, 7), (2, 8), (2, 8)]}
    assert rows_of(shop().view("h").why((1,))) == {"s": [(1, 7)]}


A, B = (1, 7), (1, 8)
P, Q = (1, "p"), (2, "q")
MADE_OF = [
    # Outer joins and subqueries are stages that nobody named: occurrences have the query's own names.
    ("SELECT r.a, s.c FROM r LEFT JOIN s ON r.a = s.a", (1, 7), {"r": [P], "s": [A]}),
    ("SELECT r.a, s.c FROM r LEFT JOIN s ON r.a = s.a", (2, None), {"r": [Q], "s": []}),
    ("SELECT x.a, y.name FROM r x FULL JOIN r y ON x.a = y.a + 1", (2, "p"), {"x": [Q], "y": [P]}),
    ("SELECT x.a, y.name FROM r x FULL JOIN r y ON x.a = y.a + 1", (1, None), {"x": [P], "y": []}),
    ("SELECT r.a, COUNT(s.c) AS n FROM r LEFT JOIN s ON r.a = s.a GROUP BY r.a", (1, 2), {"r": [P], "s": [A, B]}),
    (
        "SELECT r.a, t.c FROM r LEFT JOIN s ON r.a = s.a LEFT JOIN s t ON t.c = s.c + 1",
        (1, 8),
        {"r": [P], "s": [A], "t": [B]},
    ),
    ("SELECT a FROM r WHERE a NOT IN (SELECT a FROM s)", (2,), {"r": [Q]}),
    ("SELECT a FROM r WHERE a IN (SELECT a FROM s WHERE c = 7)", (1,), {"r": [P], "in.s": [A]}),
    ("SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s r WHERE r.a = 1)", (2,), {"r": [Q], "exists.r": [A, B]}),
    ("SELECT a, (SELECT MAX(c) FROM s WHERE s.a = r.a) AS m FROM r", (1, 8), {"r": [P], "scalar.s": [A, B]}),
    (
        "WITH w AS (SELECT a, SUM(c) AS t FROM s GROUP BY a) SELECT r.name, w.t FROM r JOIN w ON r.a = w.a",
        ("p", 15),
        {"r": [P], "w.s": [A, B]},
    ),
    # A group is asked for by its row, where another member may have a group with the same keys, or none.
    ("SELECT a, c, COUNT(*) AS n FROM s GROUP BY ROLLUP (a, c)", (1, 7, 1), {"s": [A]}),
    ("SELECT a, c, COUNT(*) AS n FROM s GROUP BY ROLLUP (a, c)", (1, None, 2), {"s": [A, B]}),
    (
        "SELECT a, COUNT(*) AS n FROM r GROUP BY a UNION SELECT a, COUNT(*) FROM s GROUP BY a",
        (1, 1),
        {"r": [P], "s": []},
    ),
    ("SELECT COUNT(*) AS n FROM r UNION ALL SELECT MAX(c) FROM s", (8,), {"r": [], "s": [A, B]}),
    # A window function's value is made of its partition, the row itself first; an element of its array's row.
    ("SELECT a, c, SUM(c) OVER (PARTITION BY a) AS t FROM s", (1, 7, 15), {"s": [A, B]}),
    ("SELECT a, c, RANK() OVER (ORDER BY c DESC) AS n FROM s", (1, 8, 1), {"s": [B, A]}),
    ("SELECT a, c FROM s QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY c) = 1", (1, 7), {"s": [A]}),
    ("SELECT a, c FROM s ORDER BY c DESC LIMIT 1", (1, 8), {"s": [B]}),
    ("SELECT a, e FROM r LATERAL VIEW EXPLODE(array(a, 10 * a)) x AS e", (2, 20), {"r": [Q]}),
    # A row without input is made of nothing.
    ("SELECT 1 AS one", (1,), {}),
]


@pytest.mark.parametrize(("query", "row", "wanted"), MADE_OF)
def test_occurrences_have_the_names_of_the_query(query: str, row: tuple[Any, ...], wanted: dict[str, Any]) -> None:
    db = ev.Database()
    db.sql("CREATE TABLE r (a BIGINT, name STRING); CREATE TABLE s (a BIGINT, c BIGINT)")
    db.insert("r", [P, Q])
    db.insert("s", [B, A])
    view = db.create_view("v", query)
    found = rows_of(view.why(row))
    assert {name: Counter(rows) for name, rows in found.items()} == {n: Counter(rows) for n, rows in wanted.items()}
    first = rows_of(view.why(row, limit=1))
    assert first.keys() == wanted.keys()
    assert all(len(rows) <= 1 and set(rows) <= set(wanted[name]) for name, rows in first.items())
    if "OVER (ORDER" in query:
        assert first == {"s": [B]}, "the row itself comes first"


def test_stages_that_are_not_read_are_not_kept_again() -> None:
    db = shop()
    joined = "r LEFT JOIN s ON r.a = s.a LEFT JOIN s t ON t.c = s.c"
    view = db.create_view("deep", f"SELECT r.name, t.c FROM {joined} WHERE r.a IN (SELECT a FROM s)")
    view.why(("p", 7))
    stages = [len(c.view.stages) for c in view._runtime.companions.values()]
    assert min(stages) == 0 < len(view._runtime.view.stages)


def failing(db: ev.Database) -> None:
    with db.batch() as batch:
        batch.insert("r", [(1, "new")])
        batch.delete("s", [(5, 5)])


def test_what_is_kept_for_it_takes_part_in_batches_definitions_and_snapshots(tmp_path: Path) -> None:
    db = shop()
    view = db.view("v")
    assert len(view.why((1, 7))["r"]) == 2
    with pytest.raises(DataError):
        failing(db)
    assert len(view.why((1, 7))["r"]) == 2
    db.insert("r", [(1, "new")])
    assert len(view.why((1, 7))["r"]) == 3
    db.save(tmp_path / "saved")
    assert len(view.why((1, 7))["r"]) == 3
    again = ev.Database.load(tmp_path / "saved", verify=True)
    assert rows_of(again.view("v").why((1, 7))) == rows_of(view.why((1, 7)))
    db.sql("ALTER MATERIALIZED VIEW v SET OPTIONS (access = true)")
    assert len(view.why((1, 7))["r"]) == 3
    db.view("g").why((7, 4))
    db.sql("DROP VIEW g; DROP VIEW v; DROP VIEW h")
    db.delete("r", list(db.table("r")))
    assert len(db.table("r")) == 0


@pytest.mark.parametrize("size", [1_000, 10_000])
def test_one_derivation_of_many_comes_at_once(size: int) -> None:
    """The tree has a result's variables above the others: steps do not grow with the tables."""
    db = ev.Database()
    db.sql("CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE s (a BIGINT, c BIGINT)")
    view = db.create_view("v", "SELECT r.a, COUNT(*) AS n FROM r JOIN s ON r.a = s.a GROUP BY r.a")
    db.insert("r", [(i % 10, i) for i in range(size)])
    db.insert("s", [(i % 10, i) for i in range(size)])
    row = (3, (size // 10) ** 2)
    view.why(row, limit=1)
    (companion,) = view._runtime.companions.values()
    (core,) = companion.cores
    before = core.part.whole.steps
    found = view.why(row, limit=1)
    steps = core.part.whole.steps - before
    assert steps < 10_000  # a chunk of rows is fetched at once, of the hundred thousands there are
    assert {alias: table.num_rows for alias, table in found.items()} == {"r": 1, "s": 1}


SHOP = """
    CREATE TABLE customers (id INT PRIMARY KEY, city STRING, note STRING);
    CREATE TABLE orders (shop STRING, number INT, customer INT, day INT, PRIMARY KEY (number, shop));
    CREATE TABLE lines (shop STRING, number INT, product STRING, price INT);
"""
TOLD = [
    (
        "SELECT l.*, o.day FROM lines l JOIN orders o ON o.shop = l.shop AND o.number = l.number "
        "JOIN customers c ON c.id = o.customer",
        {"l": "l.*", "o": "o.*", "c": "c.*"},
    ),
    (
        "SELECT o.number, l.product, l.price FROM orders o JOIN lines l ON l.number = o.number AND l.shop = 'b' "
        "WHERE o.shop = 'b' AND o.day > 1",
        {"o": "o.*", "l": "l.*"},
    ),
    (
        "SELECT p.id, q.id AS other, p.city FROM customers p JOIN customers q ON p.city = q.city AND p.id < q.id",
        {"p": "p.*", "q": "q.*"},
    ),
    ("SELECT DISTINCT o.shop, o.number, upper(o.shop) AS loud FROM orders o", {"o": "o.*"}),
    ("SELECT id, note FROM customers ORDER BY city LIMIT 4", {"customers": "customers.*"}),
]


@pytest.mark.parametrize(("query", "aliases"), TOLD)
def test_rows_that_say_what_they_are_made_of(query: str, aliases: dict[str, str]) -> None:
    """By all columns, or by a primary key: nothing is built, as explain says, and DuckDB finds the same base rows."""
    r = random.Random(query)
    db, other = ev.Database(), duckdb.connect()
    db.sql(SHOP)
    other.execute(SHOP.replace("STRING", "VARCHAR"))
    rows: dict[str, list[Any]] = {
        "customers": [(i, r.choice("xyz"), r.choice([None, "n"])) for i in range(9)],
        "orders": [(shop, n, r.randrange(9), r.randrange(5)) for shop in "ab" for n in range(6)],
        "lines": [(r.choice("ab"), r.randrange(6), r.choice([None, "p", "q"]), r.randrange(3)) for _ in range(40)],
    }
    view = db.create_view("v", query)
    for table, new in rows.items():
        db.insert(table, new)
        other.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(new[0]))})", new)
    assert view.explain().to_dict()["why"].startswith("read off the row")
    source = query[query.index(" FROM ") :].partition(" ORDER ")[0]
    shown = query[: query.index(" FROM ")].removeprefix("SELECT ").removeprefix("DISTINCT ")
    whole = other.execute(f"SELECT {shown}, {', '.join(aliases.values())} {source}").fetchall()
    assert len(view)
    for row in set(view):
        told, width = view.why(row), len(row)
        assert list(told) == list(aliases)
        ways = [found[width:] for found in whole if found[:width] == row]
        for i, table in enumerate(told.values()):
            columns = slice(sum(len(t.schema) for t in [*told.values()][:i]), None)
            expected = {way[columns][: len(table.schema)] for way in ways}
            assert set(zip(*(c.to_pylist() for c in table.columns), strict=True)) == expected
    assert view._runtime.companions == {}
    db.delete("lines", rows["lines"][:30])
    for row in view:
        assert view.why(row)


def test_explain_says_where_a_view_is_built_for_it() -> None:
    db = ev.Database()
    db.sql(SHOP)
    view = db.create_view("v", "SELECT city, COUNT(*) AS n FROM customers GROUP BY city")
    assert "built beside the view" in view.explain().to_dict()["why"]
    db.insert("customers", [(1, "x", None)])
    assert view.why(("x", 1))["customers"].num_rows == 1
    assert view._runtime.companions


def test_a_row_of_a_cut_is_made_of_its_own_side_of_a_union() -> None:
    """Groups of both sides have the same key; before, base rows of the other one were told, too."""
    db = ev.Database()
    db.sql("CREATE TABLE p (a INT, x INT); CREATE TABLE q (a INT, x INT)")
    both = "SELECT a, COUNT(*) AS n FROM p GROUP BY a UNION ALL SELECT a, COUNT(*) FROM q GROUP BY a"
    view = db.create_view("v", f"{both} ORDER BY a LIMIT 5")
    db.insert("p", [(1, 1), (1, 2)])
    db.insert("q", [(1, 1), (1, 2), (1, 3)])
    assert {name: table.num_rows for name, table in view.why((1, 2)).items()} == {"p": 2, "q": 0}
