"""ALTER MATERIALIZED VIEW … SET OPTIONS (…): the view is rebuilt, and nobody who reads or follows it notices."""

from __future__ import annotations

from pathlib import Path

import pytest

import everview as ev
from everview.errors import AmbiguousNameError, EverviewError, OptionError, SqlSyntaxError, UnsupportedError
from everview.sql import parse_script

SCHEMA = "CREATE TABLE e (a STRING, b STRING)"
HOPS = "SELECT x.a, y.b FROM e x JOIN e y ON x.b = y.a"


def database(statement: str = f"CREATE MATERIALIZED VIEW v AS {HOPS}") -> ev.Database:
    db = ev.Database()
    db.sql(f"{SCHEMA}; {statement}")
    db.insert("e", [("p", "q"), ("q", "r"), ("q", "s")])
    return db


def options_of(db: ev.Database, name: str = "v") -> str:
    return str(db.view(name).explain().plan.view.options)


def test_a_live_view_takes_other_options_and_nobody_notices() -> None:
    db = database()
    view, feed = db.view("v"), db.view("v").changes()
    single = view.changes(per_update=True)
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT a, count(*) AS n FROM v GROUP BY a")
    reader, told = db.view("w"), db.view("w").changes()
    updates = view.stats()["updates"]
    rows = sorted(view)
    for clause, options in (
        ("epsilon = 1/4", "epsilon = 0.25"),
        ("optimize = 'balanced', mode = 'dynamic'", "epsilon = 0.25, optimize = 'balanced', mode = 'dynamic'"),
        ("epsilon = NULL, mode = 'static'", "optimize = 'balanced', mode = 'static'"),
    ):
        db.sql(f"ALTER MATERIALIZED VIEW v SET OPTIONS ({clause})")
        assert options_of(db) == options
        assert sorted(view) == rows == [("p", "r"), ("p", "s")]
        assert view.stats()["updates"] == updates
    assert not len(feed.read())
    assert not len(single.read())
    assert not len(told.read())
    db.insert("e", [("r", "x")])
    assert sorted(view) == [*rows, ("q", "x")]
    assert [row["b"] for batch in feed.read() for row in batch.to_pylist()] == ["x"]
    assert len(single.read()) == 1
    assert sorted(reader) == [("p", 2), ("q", 1)]
    assert len(told.read()) == 1
    db.delete("e", [("p", "q"), ("q", "r"), ("q", "s"), ("r", "x")])
    assert list(view) == list(reader) == []
    assert db._dictionary.nbytes() <= ev.Database()._dictionary.nbytes() + 4096
    db.drop("v", cascade=True)


def test_reading_that_has_begun_is_stale_after_it() -> None:
    db = database()
    db.insert("e", [(str(i), "q") for i in range(100_000)])
    rows = iter(db.view("v"))
    next(rows)
    db.sql("ALTER VIEW v SET OPTIONS (epsilon = 0)")
    with pytest.raises(EverviewError, match="has changed since"):
        list(rows)


@pytest.mark.parametrize(
    "statement",
    [
        f"CREATE VIEW v AS {HOPS}",
        f"CREATE VIEW v (s, t) AS {HOPS}",
        f"CREATE MATERIALIZED VIEW v OPTIONS (epsilon = 1/3, mode = 'dynamic') AS {HOPS}",
        f"CREATE OR REPLACE MATERIALIZED VIEW v (s, t) COMMENT 'AS (x' OPTIONS ('mode' = 'dynamic')\n AS {HOPS} -- AS",
        f"CREATE VIEW `v` OPTIONS (mode 'dynamic') COMMENT 'x' AS WITH o AS ({HOPS}) SELECT o.a AS s, o.b AS t FROM o",
    ],
)
def test_they_are_kept_in_snapshots_whatever_the_statement_was(statement: str, tmp_path: Path) -> None:
    db = database(statement)
    names = db.view("v").schema.names
    db.sql("ALTER MATERIALIZED VIEW v SET OPTIONS (epsilon = 0.75, optimize = 'reads')")
    after = options_of(db)
    assert after.startswith("epsilon = 0.75, optimize = 'reads'")
    db.save(tmp_path / "saved.db")
    again = ev.Database.load(tmp_path / "saved.db")
    assert options_of(again) == after
    assert again.view("v").schema.names == names
    assert again.view("v").stats()["restored"] == "snapshot"
    assert sorted(again.view("v")) == sorted(db.view("v")) == [("p", "r"), ("p", "s")]
    again.sql("ALTER VIEW v SET OPTIONS (epsilon = NULL, optimize = NULL, mode = NULL)")
    assert options_of(again) == ""
    again.save(tmp_path / "again.db")
    assert options_of(ev.Database.load(tmp_path / "again.db")) == ""


def test_views_by_rules_have_options_too(tmp_path: Path) -> None:
    db = database()
    db.rules("h(a, c) :- e(a, b), e(b, c).")
    db.sql("ALTER VIEW h SET OPTIONS (epsilon = 0.5)")
    db.save(tmp_path / "saved.db")
    assert options_of(ev.Database.load(tmp_path / "saved.db"), "h") == "epsilon = 0.5"


def test_a_replaced_view_that_an_altered_one_reads_leaves_it_its_options() -> None:
    db = database("CREATE VIEW u AS SELECT a, b FROM e; CREATE VIEW v AS SELECT a FROM u")
    db.sql("ALTER VIEW v SET OPTIONS (epsilon = 0.5)")
    db.sql("CREATE OR REPLACE VIEW u AS SELECT b AS a, a AS b FROM e")
    assert options_of(db) == "epsilon = 0.5"
    assert sorted(db.view("v")) == [("q",), ("r",), ("s",)]


def test_a_script_happens_whole_or_not_at_all() -> None:
    db = database(f"CREATE MATERIALIZED VIEW v OPTIONS (mode = 'dynamic') AS {HOPS}; CREATE VIEW w AS SELECT a FROM v")
    feed = db.view("v").changes()
    before = db.nbytes()
    with pytest.raises(EverviewError):
        db.sql(
            "ALTER VIEW v SET OPTIONS (epsilon = 0.5); ALTER VIEW w SET OPTIONS (epsilon = 1); SELECT nothing FROM e"
        )
    db.memory_limit = before + 10
    with pytest.raises(ev.errors.MemoryLimitError):
        db.sql("ALTER VIEW v SET OPTIONS (epsilon = 0.5); ALTER VIEW w SET OPTIONS (epsilon = 1)")
    db.memory_limit = None
    assert (options_of(db), options_of(db, "w")) == ("mode = 'dynamic'", "")
    db.sql(
        "ALTER VIEW w SET OPTIONS (epsilon = 1); ALTER VIEW v SET OPTIONS (epsilon = 0.5); CREATE TABLE f (a BIGINT);"
        "ALTER VIEW IF EXISTS nothing SET OPTIONS (epsilon = 0.5); ALTER VIEW v SET OPTIONS (mode = 'static')"
    )
    assert (options_of(db), options_of(db, "w")) == ("epsilon = 0.5, mode = 'static'", "epsilon = 1")
    db.insert("e", [("s", "t")])
    assert len(feed.read()) == 1
    assert sorted(db.view("w")) == [("p",), ("p",), ("q",)]


@pytest.mark.parametrize(
    ("statement", "error", "says", "column"),
    [
        ("ALTER VIEW v SET OPTIONS (epsilom = 0.5)", OptionError, "there is no option epsilom", 27),
        ("ALTER MATERIALIZED VIEW v SET OPTIONS (epsilon = 2)", OptionError, "not between 0 and 1", 50),
        ("ALTER VIEW v SET OPTIONS (epsilon = x)", OptionError, "neither a number nor a text", 27),
        ("ALTER VIEW v SET OPTIONS (epsilon = 0, epsilon = 1)", OptionError, "given twice", 40),
        ("ALTER VIEW e SET OPTIONS (epsilon = 0)", AmbiguousNameError, "e is a table", 12),
        ("ALTER VIEW z SET OPTIONS (epsilon = 0)", EverviewError, "there is no view z", 12),
        ("ALTER TABLE e SET OPTIONS (epsilon = 0)", UnsupportedError, "ALTER TABLE is not supported", 1),
        ("ALTER VIEW v RENAME TO w", SqlSyntaxError, "only the options", None),
        ("ALTER VIEW v SET OPTIONS ()", SqlSyntaxError, "something is missing", 27),
        ("ALTER VIEW v", SqlSyntaxError, "unexpected|too early|missing", None),
    ],
)
def test_what_is_wrong_is_refused_at_its_place(
    statement: str, error: type[EverviewError], says: str, column: int | None
) -> None:
    db = database()
    with pytest.raises(error, match=says) as caught:
        db.sql(statement)
    assert isinstance(caught.value, EverviewError)
    assert caught.value.position is not None
    if column is not None:
        assert (caught.value.position.line, caught.value.position.column) == (1, column)
    assert options_of(db) == ""
    assert caught.value.hint or error is SqlSyntaxError


def test_it_is_a_statement_for_databases_alone() -> None:
    text = f"{SCHEMA}; CREATE VIEW v AS {HOPS}; ALTER VIEW v SET OPTIONS (epsilon = 0.5)"
    for read in (ev.explain_all, parse_script):
        with pytest.raises(UnsupportedError, match="statement for a database"):
            read(text)
