"""SELECT with OPTIONS (degree = d): the formula keeps what DuckDB, and Everview without the option, answer."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

import everview as ev
from everview.errors import ComponentError, DegreeExceeded, FormulaLimitError, QueryError, UnsupportedError
from tests.engine.test_formula_views import changes
from tests.scale import scaled

TABLES = {
    "v": ("id BIGINT PRIMARY KEY, kind STRING", 1),
    "e": ("a BIGINT, b BIGINT, w STRING, PRIMARY KEY (a, b)", 2),
    "f": ("x BIGINT, y BIGINT, w STRING", 0),
}
"""Their columns, and how many of them are the key; the last is a bag with NULLs."""
DEGREE = 3

CASES = [
    "SELECT id FROM v WHERE NOT EXISTS (SELECT 1 FROM e WHERE e.a = v.id)",
    "SELECT id AS x FROM v WHERE kind IN ('C', 'N') AND (SELECT COUNT(*) FROM e WHERE e.a = v.id) % 2 = 1",
    "SELECT DISTINCT x.a AS p, y.b AS q FROM e x, e y WHERE x.b = y.a AND NOT EXISTS "
    "(SELECT * FROM e z WHERE z.a = x.a AND z.b = y.b)",
    "SELECT a FROM e WHERE w = 'k' GROUP BY a HAVING COUNT(DISTINCT b) >= 2 OR COUNT(*) % 3 <> 1",
    "SELECT id FROM v WHERE (SELECT COUNT(DISTINCT e.b) FROM e JOIN v u ON u.id = e.b WHERE e.a = v.id AND "
    "u.kind = 'N') BETWEEN 1 AND 2 OR id IN (SELECT b FROM e)",
    "SELECT id FROM v WHERE (SELECT COUNT(*) FROM v u WHERE u.kind = 'C') >= 2",
    "SELECT id FROM v WHERE kind = 'C' AND id <> 3 AND MOD((SELECT COUNT(*) FROM v u WHERE u.kind = 'N'), 3) > 0",
    "SELECT id FROM v WHERE 2 > (SELECT COUNT(*) FROM v u WHERE u.id <> v.id AND NOT EXISTS "
    "(SELECT 1 FROM e WHERE e.a = v.id AND e.b = u.id))",
    "SELECT DISTINCT f.x FROM f WHERE f.x IS NOT NULL AND f.y IS NOT NULL AND f.w = 'k' "
    "AND f.y NOT IN (SELECT b FROM e)",
    "SELECT DISTINCT f.x, f.y FROM f JOIN f g ON f.y = g.x AND g.y = f.x WHERE f.w = 'k'",
    "SELECT id FROM v WHERE (SELECT COUNT(DISTINCT f.y) FROM f WHERE f.x = v.id AND f.w IN ('k', 'l')) % 2 = 0",
    "SELECT e.a, e.b FROM e WHERE (e.a, e.b) IN (SELECT z.b, z.a FROM e z) AND NOT (e.a = e.b)",
    "SELECT DISTINCT b FROM e WHERE (w = 'k' AND b <> 2) OR (w = 'l' AND EXISTS (SELECT 1 FROM v WHERE v.id = e.b))",
    "SELECT id FROM v WHERE (SELECT COUNT(*) FROM v u WHERE u.id = v.id AND u.kind = 'C') = 0",
    "SELECT id FROM v WHERE NOT EXISTS (SELECT 1 FROM e WHERE e.a = v.id AND (SELECT COUNT(*) FROM e z WHERE z.a = "
    "e.b) % 2 = 1)",
]
"""Guarded and not, closed, labels, keys, NULLs and copies."""


def database() -> ev.Database:
    db = ev.Database()
    for name, (columns, _) in TABLES.items():
        db.sql(f"CREATE TABLE {name} ({columns})")
    return db


def expected(rows: dict[str, list[Any]], queries: list[str]) -> list[set[Any]]:
    with duckdb.connect() as oracle:
        for name, (columns, _) in TABLES.items():
            oracle.execute(f"CREATE TABLE {name} ({columns.replace('STRING', 'VARCHAR')})")
            if rows[name]:
                marks = ", ".join("?" * len(rows[name][0]))
                oracle.executemany(f"INSERT INTO {name} VALUES ({marks})", rows[name])
        found = [oracle.sql(query).fetchall() for query in queries]
    assert all(len(set(answer)) == len(answer) for answer in found)
    return [set(answer) for answer in found]


def a_row(random: Random, name: str) -> tuple[Any, ...]:
    values: list[int | None] = [random.randint(1, 6) for _ in range(2)]
    if name == "f":
        values = [None if random.random() < 0.15 else value for value in values]
    label = random.choice(["k", "l", None]) if name != "v" else random.choice(["C", "N", None])
    return (values[0], label) if name == "v" else (*values, label)


def batch_of(random: Random, rows: dict[str, list[Any]]) -> dict[str, tuple[list[Any], list[Any]]]:
    """Rows that go and rows that come, of some tables; keys stay keys."""
    found = {}
    for name in random.sample(sorted(TABLES), random.randint(1, 3)):
        key = TABLES[name][1]
        gone = [row for row in rows[name] if random.random() < 0.2]
        kept = list(rows[name])
        for row in gone:
            kept.remove(row)
        come: list[Any] = []
        for _ in range(random.randint(0, 3)):
            row = a_row(random, name)
            if not key or all(row[:key] != other[:key] for other in (*kept, *come)):
                come.append(row)
        found[name] = gone, come
    return found


def take(db: ev.Database, random: Random, rows: dict[str, list[Any]]) -> None:
    """A random batch, unless an element would have too many neighbours by it; ``rows`` is what there is then."""
    changed = batch_of(random, rows)
    try:
        with db.batch() as batch:
            for name, (gone, come) in changed.items():
                batch.delete(name, gone)
                batch.insert(name, come)
    except DegreeExceeded:
        return
    for name, (gone, come) in changed.items():
        for row in gone:
            rows[name].remove(row)
        rows[name] += come


def check(queries: list[str], seed: int, batches: int) -> None:
    """Keep the queries as formulas through random batches, beside DuckDB."""
    random = Random(seed)
    db = database()
    views = [db.create_view(f"q{i}", query, degree=DEGREE) for i, query in enumerate(queries)]
    feeds = [view.changes() for view in views]
    told = [set(view) for view in views]
    rows: dict[str, list[Any]] = {name: [] for name in TABLES}
    for _ in range(batches):
        take(db, random, rows)
        for query, view, feed, seen, right in zip(queries, views, feeds, told, expected(rows, queries), strict=True):
            assert set(view) == right, (seed, query, rows)
            assert len(view) == len(right)
            for row, count in changes(feed).items():
                assert (row in seen) == (count < 0), (seed, query)
                (seen.add if count > 0 else seen.discard)(row)
            assert seen == right, (seed, query)


def test_cases_beside_duckdb() -> None:
    check(CASES, 22, scaled(40, least=10))


class Writer:
    """Writes random SELECTs that are formulas."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.aliases = 0

    def table(self) -> tuple[str, str, list[str]]:
        """A table under a new alias, with its columns of elements."""
        self.aliases += 1
        name = self.random.choice(sorted(TABLES))
        return name, f"t{self.aliases}", {"v": ["id"], "e": ["a", "b"], "f": ["x", "y"]}[name]

    def query(self) -> str:
        items = [self.table() for _ in range(self.random.choice([1, 1, 2]))]
        conditions, columns = self.where(items, [], 2)
        shown = self.random.sample(columns, min(len(columns), self.random.choice([1, 1, 1, 2])))
        selected = ", ".join(f"{column} AS c{i}" for i, column in enumerate(shown))
        return f"SELECT DISTINCT {selected} FROM {self.froms(items)} WHERE {conditions}"

    def froms(self, items: list[tuple[str, str, list[str]]]) -> str:
        return ", ".join(f"{name} {alias}" for name, alias, _ in items)

    def where(self, items: list[tuple[str, str, list[str]]], outer: list[str], depth: int) -> tuple[str, list[str]]:
        """Conditions that tie tables to each other and to what is around them, and the columns in scope."""
        own = [f"{alias}.{column}" for _, alias, columns in items for column in columns]
        parts = [f"{alias}.{c} IS NOT NULL" for name, alias, columns in items if name == "f" for c in columns]
        for i, (name, alias, columns) in enumerate(items):
            before = [c for c in own if c.split(".")[0] in [a for _, a, _ in items[:i]]] + outer
            if before and self.random.random() < 0.85:
                parts.append(f"{alias}.{self.random.choice(columns)} = {self.random.choice(before)}")
            if self.random.random() < 0.3:
                label = "kind" if name == "v" else "w"
                values = ("C", "N") if name == "v" else ("k", "l")
                one = self.random.choice(values)
                parts.append(self.random.choice([f"{alias}.{label} = '{one}'", f"{alias}.{label} IN {values}"]))
        scope = own + outer
        for _ in range(self.random.randint(0, 2 if depth else 1)):
            parts.append(self.condition(scope, depth))
        return " AND ".join(parts) or "TRUE", own

    def condition(self, scope: list[str], depth: int) -> str:
        kind = self.random.randint(0, 9 if depth else 2)
        if kind == 0:
            return f"{self.random.choice(scope)} {self.random.choice(['=', '<>'])} {self.random.choice(scope)}"
        if kind <= 2:
            return f"{self.random.choice(scope)} {self.random.choice(['=', '<>'])} {self.random.randint(1, 6)}"
        if kind == 3:
            return f"NOT ({self.condition(scope, depth - 1)})"
        if kind == 4:
            return f"({self.condition(scope, depth - 1)} OR {self.condition(scope, depth - 1)})"
        items = [self.table() for _ in range(self.random.choice([1, 1, 1, 2]))]
        where, own = self.where(items, scope, depth - 1)
        froms = self.froms(items)
        if kind <= 6:
            return f"{self.random.choice(['', 'NOT '])}EXISTS (SELECT 1 FROM {froms} WHERE {where})"
        if kind == 7:
            is_in = self.random.choice(["IN", "NOT IN"])
            return f"{self.random.choice(scope)} {is_in} (SELECT {self.random.choice(own)} FROM {froms} WHERE {where})"
        counted = f"(SELECT COUNT(DISTINCT {self.random.choice(own)}) FROM {froms} WHERE {where})"
        if kind == 8:
            return f"{counted} {self.random.choice(['>=', '=', '<>', '<', '<=', '>'])} {self.random.randint(0, 3)}"
        modulus = self.random.choice([2, 2, 3])
        sign = self.random.choice(["=", "<>"])
        return f"{counted} % {modulus} {sign} {self.random.randint(0, modulus - 1)}"


def random_queries(random: Random, number: int) -> tuple[list[str], int]:
    """So many queries that are taken, and how many were refused as too dear meanwhile."""
    found: list[str] = []
    refused = 0
    while len(found) < number:
        query = Writer(random).query()
        try:
            database().create_view("q", query, degree=DEGREE)
            found.append(query)
        except FormulaLimitError:
            refused += 1
        except QueryError as error:
            if "so it is a label" not in error.message:  # What is only asked not to be NULL holds no elements.
                raise
            refused += 1
    return found, refused


@pytest.mark.parametrize("seed", range(4))
def test_random_queries_beside_duckdb(seed: int) -> None:
    queries, refused = random_queries(Random(seed), scaled(24, least=8))
    assert refused < 3 * len(queries), "most of them are small"
    check(queries, seed, scaled(8, least=4))


def test_the_ordinary_way_gives_the_same() -> None:
    """Of the same SQL without the option, where both are kept."""
    random = Random(5)
    db = database()
    pairs = []
    for i, query in enumerate(CASES):
        try:
            plain = db.create_view(f"plain{i}", query)
        except UnsupportedError:
            continue
        pairs.append((db.create_view(f"q{i}", query, degree=DEGREE), plain))
    assert len(pairs) >= 12
    rows: dict[str, list[Any]] = {name: [] for name in TABLES}
    for _ in range(scaled(15, least=5)):
        take(db, random, rows)
        for formula, plain in pairs:
            assert sorted(formula) == sorted(plain), formula.name


def test_statements_options_and_snapshots(tmp_path: Path) -> None:
    db = database()
    db.sql(f"CREATE MATERIALIZED VIEW odd (x) OPTIONS (degree = 3) AS {CASES[1]}")
    db.insert("v", [(1, "C"), (2, "N"), (3, "C"), (4, "O")])
    db.insert("e", [(1, 2, "k"), (2, 1, "k"), (2, 3, "k"), (4, 1, None)])
    view = db.view("odd")
    assert view.schema.names == ["x"]
    assert set(view) == {(1,)}
    assert view.explain().to_dict()["strategy"] == "fo-mod"
    db.save(tmp_path / "x.everview")
    loaded = ev.Database.load(tmp_path / "x.everview", verify=True)
    assert set(loaded.view("odd")) == {(1,)}
    loaded.sql("ALTER VIEW odd SET OPTIONS (degree = 2)")
    with pytest.raises(DegreeExceeded, match="may have 2"):
        loaded.insert("e", [(2, 4, "k")])
    db.insert("e", [(2, 4, "k")])
    with pytest.raises(DegreeExceeded):
        db.sql("ALTER VIEW odd SET OPTIONS (degree = 2)")
    assert set(db.view("odd")) == {(1,), (2,)}
    db.sql("ALTER VIEW odd SET OPTIONS (degree = NULL)")
    assert db.view("odd").explain().to_dict()["strategy"] != "fo-mod"
    assert set(db.view("odd")) == {(1,), (2,)}
    db.sql("CREATE VIEW small AS SELECT id FROM v WHERE kind = 'C'")
    with pytest.raises(UnsupportedError, match="small is a view"):
        db.create_view("over_it", "SELECT DISTINCT id FROM small", degree=3)
    with pytest.raises(QueryError, match="may give a row several times"):
        ev.explain("SELECT a FROM e", f"CREATE TABLE e ({TABLES['e'][0]})", degree=3)
    assert "guarded" in str(
        ev.explain(CASES[0], "CREATE TABLE v (id INT PRIMARY KEY); CREATE TABLE e (a INT)", degree=3)
    )


def test_components() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE atom (id BIGINT PRIMARY KEY, element STRING, molecule BIGINT NOT NULL)")
    db.sql("CREATE TABLE bond (a BIGINT, b BIGINT, molecule BIGINT NOT NULL, PRIMARY KEY (a, b))")
    query = (
        "SELECT id FROM atom WHERE element = 'C' AND 2 <= (SELECT COUNT(*) FROM bond JOIN atom o ON o.id = bond.b "
        "AND o.molecule = bond.molecule WHERE bond.a = atom.id AND bond.molecule = atom.molecule AND o.element = 'O')"
    )
    db.sql(f"CREATE VIEW acid OPTIONS (degree = 4, component = molecule) AS {query}")
    db.insert("atom", [(1, "C", 7), (2, "O", 7), (3, "O", 7), (4, "C", 8), (5, "O", 8)])
    db.insert("bond", [(1, 2, 7), (1, 3, 7), (4, 5, 8)])
    assert set(db.view("acid")) == {(1,)}
    assert "molecule" not in str(db.view("acid").explain().plan.view.body)
    with pytest.raises(ComponentError, match="acid: element 3 stands in rows of two components, by their molecule"):
        db.insert("bond", [(4, 3, 8)])
    assert set(db.view("acid")) == {(1,)}
