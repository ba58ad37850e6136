"""Random sequences of definitions and changes: every view is what DuckDB says, and nothing stays of what went.

What went is compared with a database that never had it: one with the same rows and definitions, made afresh.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

import everview as ev
from everview.errors import DependantsError, UnsupportedError
from tests.engine.test_definitions import uses
from tests.scale import thoroughness

TABLES = {"r": "a INT, s STRING", "q": "a INT, s STRING"}
BODIES = (
    # Each gives (a INT, s STRING), so that any may take the place of another.
    "SELECT a, s FROM {0}",
    "SELECT x.a, y.s FROM {0} x JOIN {1} y ON x.a = y.a",
    "SELECT a, upper(s) AS s FROM {0} WHERE a > 0",
    "SELECT DISTINCT a, s || '!' AS s FROM {0}",
    "SELECT a, MAX(s) AS s FROM {0} GROUP BY a",
    "SELECT a, s FROM {0} UNION SELECT a, s FROM {1}",
    "SELECT a, s FROM {0} EXCEPT ALL SELECT a, s FROM {1}",
    "SELECT CAST(COUNT(*) AS INT) AS a, MIN(s) AS s FROM {0}",
    "SELECT n AS a, lower(s) AS s FROM (SELECT s, CAST(COUNT(*) AS INT) AS n FROM {0} GROUP BY s) t WHERE n > 1",
    "SELECT a, s FROM {0} WHERE a IN (SELECT a FROM {1} WHERE s IS NOT NULL)",
)
NAMES = ("v", "w", "x", "y")
ROWS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["", "a", "B", "long " * 9, None])), max_size=4)
RELATIONS = st.sampled_from((*TABLES, *NAMES))
STEPS = st.one_of(
    st.tuples(st.just("define"), st.sampled_from(NAMES), st.sampled_from(BODIES), RELATIONS, RELATIONS),
    st.tuples(st.just("drop"), RELATIONS, st.booleans()),
    st.tuples(st.just("insert"), st.sampled_from(tuple(TABLES)), ROWS),
    st.tuples(st.just("delete"), st.sampled_from(tuple(TABLES)), st.integers(0, 3)),
    st.tuples(st.just("table"), st.sampled_from(tuple(TABLES))),
    st.tuples(st.just("reload")),
)


class Model:
    """What there should be."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Any]] = {}
        self.views: dict[str, tuple[str, set[str]]] = {}

    def readers(self, name: str) -> set[str]:
        found: set[str] = set()
        while new := {v for v, (_, read) in self.views.items() if v not in found and read & {name, *found}}:
            found |= new
        return found

    def in_order(self) -> list[str]:
        """The views, each after those it reads."""
        done: list[str] = []
        while len(done) < len(self.views):
            done += [v for v, (_, read) in self.views.items() if v not in done and read <= {*done, *self.rows}]
        return done

    def contents(self) -> dict[str, Counter[Any]]:
        with duckdb.connect() as duck:
            for name, rows in self.rows.items():
                duck.execute(f"CREATE TABLE {name} (a INT, s VARCHAR)")
                if rows:
                    duck.executemany(f"INSERT INTO {name} VALUES (?, ?)", rows)
            for name in self.in_order():
                duck.execute(f"CREATE VIEW {name} AS {self.views[name][0].replace('STRING', 'VARCHAR')}")
            return {n: Counter(duck.execute(f"SELECT * FROM {n}").fetchall()) for n in (*self.rows, *self.views)}

    def afresh(self) -> ev.Database:
        db = ev.Database()
        for name, rows in self.rows.items():
            db.sql(f"CREATE TABLE {name} ({TABLES[name]})")
            db.insert(name, rows)
        for name in self.in_order():
            db.sql(f"CREATE VIEW {name} AS {self.views[name][0]}")
        return db


def define(db: ev.Database, model: Model, name: str, body: str, one: str, other: str) -> None:
    text, read = body.format(one, other), {r for i, r in enumerate((one, other)) if f"{{{i}}}" in body}
    if not read <= {*model.rows, *model.views}:
        return
    try:
        db.sql(f"CREATE OR REPLACE VIEW {name} AS {text}")
    except UnsupportedError:
        assert read & {name, *model.readers(name)}, text
        return
    assert not read & {name, *model.readers(name)}, text
    model.views[name] = text, read


def drop(db: ev.Database, model: Model, name: str, cascade: bool) -> None:
    readers = model.readers(name)
    there = name in (*model.rows, *model.views)
    if there and readers and not cascade:
        with pytest.raises(DependantsError) as caught:
            db.drop(name)
        assert set(caught.value.dependants) == readers
        return
    db.drop(name, if_exists=True, cascade=cascade)
    model.rows.pop(name, None)
    for gone in {name, *(readers if there else ())}:
        model.views.pop(gone, None)


def follow(db: ev.Database, model: Model, step: tuple[Any, ...]) -> ev.Database:
    match step:
        case ("define", name, body, one, other):
            define(db, model, name, body, one, other)
        case ("drop", name, cascade):
            drop(db, model, name, cascade)
        case ("insert", name, rows) if name in model.rows:
            db.insert(name, rows)
            model.rows[name] += rows
        case ("delete", name, count) if name in model.rows:
            db.delete(name, model.rows[name][:count])
            del model.rows[name][:count]
        case ("table", name):
            db.sql(f"CREATE TABLE IF NOT EXISTS {name} ({TABLES[name]})")
            model.rows.setdefault(name, [])
        case ("reload",):
            with TemporaryDirectory() as folder:
                db.save(Path(folder) / "saved")
                return ev.Database.load(Path(folder) / "saved")
    return db


@thoroughness(25)
@given(st.lists(STEPS, max_size=14))
def test_definitions_and_changes_in_any_order(steps: list[tuple[Any, ...]]) -> None:
    db, model = ev.Database(), Model()
    for name in TABLES:
        follow(db, model, ("table", name))
        follow(db, model, ("insert", name, [(1, "a"), (2, "B"), (2, None)]))
    for step in steps:
        db = follow(db, model, step)
        found = {n: Counter(db.view(n)) for n in db.views} | {n: Counter(db.table(n)) for n in db.tables}
        assert found == model.contents()
        assert uses(db) == uses(model.afresh())
