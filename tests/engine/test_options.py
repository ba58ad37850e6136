"""Options of views in a database: three ways to give them, kept by whatever keeps a view, and said by ``explain``."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.engine.storage import check_saved, snapshot
from everview.engine.storage.container import reading
from everview.errors import AmbiguousNameError, EverviewError, OptionError, QueryError, SqlSyntaxError, UnknownNameError

HOPS = "SELECT x.a, y.b FROM e x JOIN e y ON x.b = y.a"


def database() -> ev.Database:
    db = ev.Database()
    db.sql("CREATE TABLE e (a BIGINT, b BIGINT)")
    db.insert("e", [(1, 2), (2, 3), (2, 4)])
    return db


def options_of(db: ev.Database) -> dict[str, str]:
    return {name: str(db.view(name).explain().plan.view.options) for name in db.views}


def test_sql_keywords_and_rules_say_the_same() -> None:
    db = database()
    db.sql(f"CREATE MATERIALIZED VIEW v OPTIONS (epsilon = 0.5, optimize = 'reads', mode = 'dynamic') AS {HOPS}")
    made = db.create_view("w", HOPS, epsilon=0.5, optimize="reads", mode="dynamic")
    db.rules("h(a, c) :- e(a, b), e(b, c).", epsilon=0.5, optimize="reads", mode="dynamic")
    assert set(options_of(db).values()) == {"epsilon = 0.5, optimize = 'reads', mode = 'dynamic'"}
    assert made.name == "w"
    assert sorted(made) == sorted(db.view("v")) == sorted(db.view("h")) == [(1, 3), (1, 4)]
    db.insert("e", [(3, 1)])
    assert sorted(made) == sorted(db.view("v")) == sorted(db.view("h")) == [(1, 3), (1, 4), (2, 1), (3, 2)]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW v OPTIONS (mode = 'dynamic') AS SELECT a FROM e",
        "CREATE VIEW IF NOT EXISTS v OPTIONS (mode = 'dynamic') AS SELECT a FROM e",
        "CREATE OR REPLACE MATERIALIZED VIEW v (x) OPTIONS ('mode' = 'dynamic') AS SELECT a FROM e",
        "CREATE MATERIALIZED VIEW v COMMENT 'x' OPTIONS (MODE 'dynamic') AS SELECT a FROM e",
    ],
)
def test_every_form_of_create_view_takes_options(statement: str) -> None:
    db = database()
    db.sql(statement)
    assert options_of(db) == {"v": "mode = 'dynamic'"}


def test_explain_says_options_only_where_there_are_some() -> None:
    schema = "CREATE TABLE e (a BIGINT, b BIGINT)"
    bare = ev.explain(HOPS, schema)
    assert "options" not in bare.to_dict()
    assert "\noption" not in str(bare)
    asked = ev.explain(HOPS, schema, epsilon=Fraction(1, 4), optimize="updates")
    assert asked.to_dict()["options"] == {"epsilon": 0.25, "optimize": "updates"}
    json.dumps(asked.to_dict())
    assert "options     epsilon = 0.25, optimize = 'updates'" in str(asked)
    written = ev.explain(f"CREATE VIEW query1 OPTIONS (epsilon = 1/4, optimize = 'updates') AS {HOPS}", schema)
    assert str(written) == str(asked)
    ruled = ev.explain("h(a, c) :- e(a, b), e(b, c).", schema, degree=3)
    assert ruled.to_dict()["options"] == {"degree": 3}


def test_explain_says_which_options_have_no_effect() -> None:
    rules = "h(a, c) :- e(a, b), e(b, c)."
    found = ev.explain(rules, "CREATE TABLE e (a BIGINT, b BIGINT)", epsilon=0.5, degree=3)
    idle = [note for note in found.notes if note.startswith("option ")]
    assert [note.split()[1] for note in idle] == ["degree"]
    assert all(f"has no effect on {found.strategy}, which maintains the view" in note for note in idle)
    assert idle[0].endswith("; it would guide fo-mod")
    assert set(idle) <= set(found.to_dict()["notes"])
    assert {str(core.facts.options) for core in found.plan.cores} == {"epsilon = 0.5, degree = 3"}


@pytest.mark.parametrize("way", [check_saved.FROM_SNAPSHOT, snapshot.REBUILT])
def test_snapshots_keep_options(tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    db = database()
    db.create_view("a.b`c", f"{HOPS} -- no end\n;", epsilon=Fraction(1, 3))
    db.sql(f"CREATE VIEW v OPTIONS (optimize = 'updates') AS {HOPS}")
    db.rules("h(a, c) :- e(a, b), e(b, c).\ng(a) :- h(a, b).", degree=5)
    db.rules("f(a) :- h(a, b).")
    if way == snapshot.REBUILT:
        monkeypatch.setattr(snapshot, "_fits", lambda *_: False)
    path = tmp_path / "saved"
    db.save(path)
    again = ev.Database.load(path)
    wanted = {"a.b`c": "epsilon = 1/3", "v": "optimize = 'updates'", "h": "degree = 5", "g": "degree = 5", "f": ""}
    assert options_of(again) == options_of(db) == wanted
    assert {again.view(name).stats()["restored"] for name in again.views} == {way}
    assert {n: sorted(again.view(n)) for n in wanted} == {n: sorted(db.view(n)) for n in wanted}
    with reading(path) as file:  # A view without options is written as it was before there were any.
        assert [sorted(d) for d in file.manifest["definitions"]][-1] == ["language", "text"]


def test_a_view_that_is_read_again_keeps_its_options() -> None:
    db = database()
    db.sql("CREATE VIEW low OPTIONS (optimize = 'reads') AS SELECT a, b FROM e")
    db.create_view("high", "SELECT a FROM low", epsilon=0.5)
    db.rules("top(a) :- low(a, b).", epsilon=1)
    db.sql("CREATE OR REPLACE VIEW low AS SELECT a, b FROM e WHERE b > 2")
    assert options_of(db) == {"low": "", "high": "epsilon = 0.5", "top": "epsilon = 1"}
    assert sorted(db.view("high")) == [(2,), (2,)]


@pytest.mark.parametrize(
    ("name", "query", "options", "error", "said"),
    [
        ("w", HOPS, {"epsilon": 2}, OptionError, "epsilon is 2, which is not between 0 and 1"),
        ("w", HOPS, {"speed": 2}, OptionError, "there is no option speed"),
        ("E", HOPS, {}, AmbiguousNameError, "a table named E exists already"),
        ("V", HOPS, {}, AmbiguousNameError, "a view named V exists already"),
        ("", HOPS, {}, QueryError, "'' is no name for a view"),
        ("w", f"CREATE VIEW w AS {HOPS}", {}, SqlSyntaxError, r"a query is expected.*\(at line 1, column 1\)"),
        ("w", "SELECT a,\n  c FROM e", {}, UnknownNameError, r"there is no column c \(at line 2, column 3\)"),
        ("w", f"{HOPS}; {HOPS}", {}, SqlSyntaxError, "here are 2 statements"),
        ("w", "DROP VIEW v", {}, EverviewError, "DROP"),
    ],
)
def test_create_view_refuses_and_changes_nothing(
    name: str, query: str, options: Any, error: type[EverviewError], said: str
) -> None:
    db = database()
    db.create_view("v", "SELECT a FROM e")
    with pytest.raises(error, match=said):
        db.create_view(name, query, **options)
    assert db.views == ("v",)


def test_an_option_in_the_sql_and_another_beside_it_are_refused() -> None:
    sql = f"CREATE VIEW v OPTIONS (epsilon = 0.5) AS {HOPS}"
    with pytest.raises(OptionError, match="epsilon is given twice"):
        ev.explain(sql, "CREATE TABLE e (a BIGINT, b BIGINT)", epsilon=0.25)


def test_numbers_of_numpy_are_numbers() -> None:
    """Numpy writes a float with its own name around it."""

    class Number(float):
        def __repr__(self) -> str:
            return f"np.float64({float(self)!r})"

    db = database()
    db.create_view("v", HOPS, epsilon=Number(0.25))
    assert options_of(db) == {"v": "epsilon = 0.25"}
