"""Differences made of the stored rows that have changed: equal to those of two full reads, and updates as without."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import everview as ev
from everview.engine.history import History
from everview.engine.row_history import RowHistory
from everview.errors import DataError, HistoryExceeded
from tests.engine.test_history import difference, net
from tests.scale import scaled

Row = tuple[Any, ...]


class Random:
    """A random q-hierarchical query: atoms are root paths of a tree, and the output is connected at its root."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.kind = draw.choice(["BIGINT", "STRING"])
        self.values = [1, 2, 3] if self.kind == "BIGINT" else ["x", "yy", "zzz"]
        count = draw.randint(1, 5)
        parents = [draw.randrange(-1, i) if i else -1 for i in range(count)]
        free = {i for i in range(count) if draw.random() < 0.75}
        self.free = [i for i in range(count) if i in free and self._all_free(i, parents, free)]
        leaves = [i for i in range(count) if i not in parents]
        ends = leaves + draw.sample(range(count), draw.randint(0, count))
        atoms: list[tuple[int, list[int | str]]] = []
        for end in ends:
            path: list[int | str] = []
            at = end
            while at >= 0:
                path.append(at)
                at = parents[at]
            if draw.random() < 0.2:
                path.append(draw.choice([path[0], "constant"]))
            draw.shuffle(path)
            atoms.append((len(path), path))
        self.arities = sorted({n for n, _ in atoms})
        self.sql = self._sql(atoms)

    @staticmethod
    def _all_free(i: int, parents: list[int], free: set[int]) -> bool:
        while i >= 0:
            if i not in free:
                return False
            i = parents[i]
        return True

    def _sql(self, atoms: list[tuple[int, list[int | str]]]) -> str:
        places: dict[int, str] = {}
        conditions = []
        for i, (_, path) in enumerate(atoms):
            for k, term in enumerate(path):
                column = f"t{i}.c{k}"
                if term == "constant":
                    conditions.append(f"{column} = {self.values[0]!r}")
                elif term in places:
                    conditions.append(f"{column} = {places[int(term)]}")
                else:
                    places[int(term)] = column
        if self.draw.random() < 0.3:
            conditions.append(f"{places[self.draw.choice(sorted(places))]} <> {self.values[2]!r}")
        shown = [f"{places[i]} AS v{i}" for i in self.free] or ["1 AS one"]
        self.is_distinct = self.draw.random() < 0.4
        sources = ", ".join(f"r{n} t{i}" for i, (n, _) in enumerate(atoms))
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {'DISTINCT ' if self.is_distinct else ''}{', '.join(shown)} FROM {sources}{where}"

    def row(self, arity: int) -> Row:
        return tuple(self.draw.choice([*self.values, *self.values, None]) for _ in range(arity))


class Side:
    """The same tables in DuckDB."""

    def __init__(self, query: Random) -> None:
        self.query = query
        self.con = duckdb.connect()
        for n in query.arities:
            self.con.execute(f"CREATE TABLE r{n} ({', '.join(f'c{i} {query.kind}' for i in range(n))})")

    def apply(self, n: int, came: Iterable[Row], went: Iterable[Row]) -> None:
        for row in came:
            self.con.execute(f"INSERT INTO r{n} VALUES ({', '.join('?' * n)})", row)
        for row in went:
            same = " AND ".join(f"c{i} IS NOT DISTINCT FROM ?" for i in range(n))
            first = f"SELECT min(rowid) FROM r{n} WHERE {same}"
            self.con.execute(f"DELETE FROM r{n} WHERE rowid = ({first})", row)

    def read(self) -> Counter[Row]:
        return Counter(self.con.execute(self.query.sql).fetchall())


def made(query: Random, **options: Any) -> ev.Database:
    db = ev.Database()
    for n in query.arities:
        db.sql(f"CREATE TABLE r{n} ({', '.join(f'c{i} {query.kind}' for i in range(n))})")
    db.create_view("v", query.sql, **options)
    return db


def refused(row: Row, gone: Row) -> list[tuple[Row, str]]:
    """Changes of which the last ones cannot be: there are not so many copies."""
    return [(row, "insert")] + [(gone, "delete")] * 100


def run_random(seed: int, path: Path) -> bool:
    """One query, some batches, some refused, differences since all versions; gives whether stored rows were kept."""
    draw = random.Random(seed)
    query = Random(draw)
    side, db = Side(query), made(query, history=4, **({"access": True} if draw.random() < 0.2 else {}))
    kept: dict[int, list[Row]] = {n: [] for n in query.arities}
    reads = {0: side.read()}
    is_logged = isinstance(db.history("v"), RowHistory)
    for step in range(9):
        came: dict[int, list[Row]] = {}
        went: dict[int, list[Row]] = {}
        with db.batch() as batch:
            for n, rows in kept.items():
                came[n] = [query.row(n) for _ in range(draw.randrange(5))]
                went[n] = draw.sample(rows, min(len(rows), draw.randrange(4)))
                if draw.random() < 0.3 and rows:  # A row goes and comes again, or the other way round.
                    batch.delete(f"r{n}", [rows[0]])
                    batch.insert(f"r{n}", [rows[0]])
                batch.insert(f"r{n}", came[n])
                batch.delete(f"r{n}", went[n])
        for n, rows in kept.items():
            side.apply(n, came[n], went[n])
            rows += came[n]
            for row in went[n]:
                rows.remove(row)
        if draw.random() < 0.2:
            n = query.arities[0]
            row, gone = query.row(n), (query.values[0],) * n
            changes = [{f"c{i}": v for i, v in enumerate(r)} | {"_change_type": kind} for r, kind in refused(row, gone)]
            with pytest.raises(DataError):
                db.apply(f"r{n}", pa.Table.from_pylist(changes))
        if step == 4:
            db.save(path / "saved")
            db = ev.Database.load(path / "saved", verify=draw.random() < 0.5)
        if step == 6 and draw.random() < 0.5:
            db.sql("ALTER VIEW v SET OPTIONS (count = true)")
        reads[db.version] = side.read()
        assert Counter(db.view("v")) == reads[db.version], query.sql
        for version in {max(0, db.version - 4), db.version - draw.randrange(min(4, db.version)), db.version}:
            told = net(db.view("v").diff(since=version))
            assert told == difference(reads[version], reads[db.version]), (seed, version, query.sql)
    with pytest.raises(HistoryExceeded, match="known since version 5, and not since 4"):
        db.view("v").diff(since=4)
    return is_logged


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 1_000])
def test_differences_of_random_queries(first: int, tmp_path: Path) -> None:
    assert all(run_random(first + i, tmp_path) for i in range(scaled(6, least=3)))


def star(**options: Any) -> tuple[ev.Database, ev.View]:
    """Every row of one table brings or takes as many rows as two others have pairs."""
    db = ev.Database()
    db.sql("CREATE TABLE r (y BIGINT); CREATE TABLE s (y BIGINT, a BIGINT); CREATE TABLE t (y BIGINT, b BIGINT)")
    query = "SELECT r.y, s.a, t.b FROM r JOIN s ON r.y = s.y JOIN t ON r.y = t.y"
    return db, db.create_view("v", query, **options)


def steps_of(view: ev.View, call: Any) -> int:
    before = view.stats()["steps"]
    call()
    found: int = view.stats()["steps"] - before
    return found


@pytest.mark.slow
def test_an_update_that_changes_a_million_rows_takes_as_many_steps_as_any_other() -> None:
    taken = {}
    for size in (10, 1_000):
        db, view = star(history=100)
        db.insert("s", [(1, a) for a in range(size)])
        db.insert("t", [(1, b) for b in range(size)])
        held = db.nbytes()
        taken[size] = [
            steps_of(view, lambda: db.insert("r", [(1,)])),  # noqa: B023  # asked at once
            steps_of(view, lambda: db.delete("s", [(1, 0)])),  # noqa: B023  # asked at once
            steps_of(view, lambda: db.delete("r", [(1,)])),  # noqa: B023  # asked at once
        ]
        assert view.diff(since=db.version - 3).num_rows == 0
        assert db.nbytes() < held + 20_000
        db.insert("r", [(1,)])
        assert len(view) == (size - 1) * size
    assert taken[10] == taken[1_000]
    told = view.diff(since=db.version - 1)
    assert told.num_rows == 999_000
    assert set(told["_change_type"].to_pylist()) == {"insert"}


def test_a_difference_takes_the_steps_of_what_differs() -> None:
    """Other groups, and rows of the same group that are not joined with what has changed, cost nothing."""
    taken = []
    for size in (10, 1_000):
        db, view = star(history=100)
        for y in (1, 2):
            db.insert("r", [(y,)])
            db.insert("s", [(y, a) for a in range(size)])
            db.insert("t", [(y, b) for b in range(size)])
        db.insert("r", [(3,)])
        db.insert("s", [(3, 1)])
        start = db.version
        db.insert("t", [(3, 1), (4, 1)])
        db.delete("t", [(1, 0)])
        db.insert("t", [(1, 0)])
        db.insert("s", [(2, -1)])
        db.delete("s", [(2, -1)])
        taken.append(steps_of(view, lambda: view.diff(since=start)))  # noqa: B023  # asked at once
        assert net(view.diff(since=start)) == Counter({(3, 1, 1): 1})
    assert taken[0] == taken[1]


@pytest.mark.parametrize("count", [50, 100])
def test_both_sides_of_a_product_change(count: int) -> None:
    """What came on one side met what went on the other for a while only: none of these pairs is made."""
    db, view = star(history=100)
    db.insert("r", [(1,)])
    db.insert("s", [(1, 0)])
    db.insert("t", [(1, b) for b in range(count + 1)])
    start = db.version
    db.insert("s", [(1, a) for a in range(1, count + 1)])
    db.delete("t", [(1, b) for b in range(1, count + 1)])
    steps = steps_of(view, lambda: view.diff(since=start))
    came, went = {(1, a, 0): 1 for a in range(1, count + 1)}, {(1, 0, b): -1 for b in range(1, count + 1)}
    assert net(view.diff(since=start)) == Counter(came | went)
    assert steps < 30 * count


def test_vector_t5_steps() -> None:
    """The delay trap of theory: one row replaced by another, and a long product below it: steps as rows are told."""
    taken = []
    for size in (100, 400):
        db = ev.Database()
        db.sql("CREATE TABLE e (y BIGINT, x1 BIGINT); CREATE TABLE f (y BIGINT, x2 BIGINT, x3 BIGINT)")
        db.sql("CREATE TABLE g (y BIGINT, x2 BIGINT, x3 BIGINT)")
        query = "SELECT y, x1, x2, x3 FROM e JOIN f USING (y) JOIN g USING (y, x2, x3)"
        view = db.create_view("v", query, history=10)
        assert isinstance(db.history("v"), RowHistory)
        db.insert("e", [(3, 2)])
        db.insert("f", [(3, 1, 1)])
        db.insert("g", [(3, 1, 1)])
        start = db.version
        db.delete("e", [(3, 2)])
        db.insert("e", [(3, 4)])
        db.insert("f", [(3, 1, k) for k in range(2, size + 1)])
        db.insert("g", [(3, 1, k) for k in range(2, size + 1)])
        taken.append(steps_of(view, lambda: view.diff(since=start)) / size)  # noqa: B023  # asked at once
        told = net(view.diff(since=start))
        assert told == Counter({(3, 2, 1, 1): -1} | {(3, 4, 1, k): 1 for k in range(1, size + 1)})
    assert taken[1] <= taken[0]


def test_open_cursors_survive_a_difference() -> None:
    db, view = star(history=10)
    db.insert("r", [(1,)])
    db.insert("s", [(1, a) for a in range(3)])
    db.insert("t", [(1, b) for b in range(100)])
    rows = iter(view)
    first = next(rows)
    assert view.diff(since=0).num_rows == 300
    assert len({first, *rows}) == 300


def test_which_views_keep_stored_rows() -> None:
    """A condition across tables, a computed column that may fail, groups and unions are told, and kept as a feed."""
    db = ev.Database()
    db.sql("CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE s (b BIGINT, c BIGINT)")
    kinds = {
        "SELECT r.a, r.b, s.c FROM r JOIN s ON r.b = s.b": RowHistory,
        "SELECT r.a + 1 AS x FROM r": History,  # may be beyond BIGINT
        "SELECT r.a, r.a % 2 = 0 AS even FROM r": RowHistory,
        "SELECT r.a, r.b FROM r, s": RowHistory,
        "SELECT DISTINCT a % 2 AS x FROM r": History,
        "SELECT r.a, r.b, s.c FROM r JOIN s ON r.b = s.b AND r.a < s.c": History,
        "SELECT x.a, y.c FROM r x JOIN s y ON x.b = y.b": History,
        "SELECT b, COUNT(*) AS n FROM r GROUP BY b": History,
        "SELECT a FROM r UNION SELECT b FROM s": History,
        "SELECT a FROM r WHERE b IN (SELECT b FROM s)": RowHistory,
    }
    for i, query in enumerate(kinds):
        db.create_view(f"v{i}", query, history=10)
    assert {query: type(db.history(f"v{i}")) for i, query in enumerate(kinds)} == kinds
    assert "stored rows that change" in str(db.view("v0").explain())


def test_strings_of_rows_that_have_gone_are_known_for_as_long_as_they_are_told(tmp_path: Path) -> None:
    db = ev.Database()
    db.sql("CREATE TABLE r (a STRING, b BIGINT)")
    view = db.create_view("v", "SELECT a, upper(a) AS large FROM r", history=2)
    db.insert("r", [("one", 1), ("two", 2)])
    start = db.version
    db.delete("r", [("one", 1)])
    db.insert("r", [("three", 3)])
    expected = Counter({("one", "ONE"): -1, ("three", "THREE"): 1})
    assert net(view.diff(since=start)) == expected
    db.save(tmp_path / "saved")
    for verify in (False, True):
        loaded = ev.Database.load(tmp_path / "saved", verify=verify)
        assert net(loaded.view("v").diff(since=start)) == expected
    db.delete("r", [("three", 3), ("two", 2)])
    db.insert("r", [("four", 4)])
    db.delete("r", [("four", 4)])
    db.sql("DROP VIEW v")
    assert len(db._dictionary) == 0


def test_memory_limits_hold_for_stored_rows() -> None:
    db = ev.Database(memory_limit=4_000_000)
    db.sql("CREATE TABLE r (a BIGINT, b BIGINT)")
    view = db.create_view("v", "SELECT a, b FROM r", history=10_000)
    rows = [(i, i) for i in range(5_000)]
    for _ in range(30):
        db.insert("r", rows)
        db.delete("r", rows)
    assert db.nbytes() <= 4_000_000
    with pytest.raises(HistoryExceeded):
        view.diff(since=0)
    assert view.diff(since=db.version).num_rows == 0


def test_a_refused_script_leaves_the_history_as_it_was() -> None:
    db, view = star(history=10)
    db.insert("r", [(1,)])
    db.insert("s", [(1, 1)])
    db.insert("t", [(1, 1)])
    with pytest.raises(Exception, match="nowhere"):
        db.sql("ALTER VIEW v SET OPTIONS (access = true); CREATE MATERIALIZED VIEW w AS SELECT x FROM nowhere")
    db.insert("t", [(1, 2)])
    assert net(view.diff(since=3)) == Counter({(1, 1, 2): 1})
    assert view.diff(since=0).schema == view.changes().schema
    assert isinstance(view.diff(since=0), pa.Table)
