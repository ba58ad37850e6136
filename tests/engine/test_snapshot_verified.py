"""Forged files: right checksums, and views that do not follow from the tables; ``verify=True`` refuses them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.cli.main import main
from everview.errors import ExpressionError, SnapshotError
from tests.engine.samples import Changes, contents, database, run, uses
from tests.engine.test_snapshot import resign
from tests.engine.test_snapshot_edited import set_cell, without_input

NUMBERS = """
    CREATE TABLE e (a BIGINT, b BIGINT);
    CREATE VIEW hops AS SELECT x.a, y.b FROM e x JOIN e y ON x.b = y.a;
    CREATE VIEW sums AS SELECT a, SUM(b) AS total, MAX(b) AS most FROM e GROUP BY a;
    CREATE VIEW ends AS SELECT DISTINCT b FROM hops;
    CREATE VIEW n AS SELECT COUNT(*) AS n FROM e;
"""
ROWS = [(1, 2), (2, 3), (3, 1), (3, 4)]
VIEWS = ("hops", "sums", "ends", "n")


def filled(rows: list[tuple[int, int]]) -> ev.Database:
    db = ev.Database()
    db.sql(NUMBERS)
    db.insert("e", rows)
    return db


def sections_of(db: ev.Database, path: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    db.save(path)
    resign(path, lambda _, sections: found.update(sections))
    return found


def forged(folder: Path, change: Callable[[dict[str, Any], dict[str, bytes]], None]) -> Path:
    path = folder / "forged"
    filled(ROWS).save(path)
    resign(path, change)
    return path


@pytest.mark.parametrize("view", range(len(VIEWS)))
def test_the_state_of_another_databases_view_is_noticed(tmp_path: Path, view: int) -> None:
    others = sections_of(filled([*ROWS, (4, 9)]), tmp_path / "other")
    path = forged(tmp_path, lambda _, sections: sections.update({f"view/{view}": others[f"view/{view}"]}))
    trusted = ev.Database.load(path)
    assert sorted(trusted.view(VIEWS[view])) != sorted(filled(ROWS).view(VIEWS[view]))
    with pytest.raises(SnapshotError, match=f"the saved state of view {VIEWS[view]} does not follow") as refused:
        ev.Database.load(path, verify=True)
    assert str(path) in str(refused.value)
    assert refused.value.hint


@pytest.mark.parametrize("edit", ["a value", "copies"])
def test_rows_that_the_views_have_not_seen_are_noticed(tmp_path: Path, edit: str) -> None:
    column, value = ("w1", 77) if edit == "a value" else ("copies", 5)
    path = forged(tmp_path, lambda _, sections: set_cell(sections, "table/0", column, 0, value))
    with pytest.raises(SnapshotError, match="does not follow from the rows"):
        ev.Database.load(path, verify=True)


def test_state_that_does_not_show_is_not_used(tmp_path: Path) -> None:
    """The forged state has a row of e that joins with nothing yet; it would give a wrong row later."""
    others = sections_of(filled([*ROWS, (7, 8)]), tmp_path / "other")
    path = forged(tmp_path, lambda _, sections: sections.update({"view/0": others["view/0"]}))
    assert sorted(ev.Database.load(path).view("hops")) == sorted(filled(ROWS).view("hops"))
    db, right = ev.Database.load(path, verify=True), filled(ROWS)
    for one in (db, right):
        one.insert("e", [(5, 7)])
    assert sorted(db.view("hops")) == sorted(right.view("hops"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_what_was_saved_is_taken_whatever_its_history(tmp_path: Path, seed: int) -> None:
    db, changes, draw = database(), Changes(seed), random.Random(seed)
    db.sql("CREATE TABLE f (g INT, x DOUBLE); CREATE VIEW fs AS SELECT g, SUM(x) AS s, AVG(x) AS m FROM f GROUP BY g")
    rows = [(draw.randrange(3), draw.uniform(-1e6, 1e6) * 10 ** draw.randrange(-9, 9)) for _ in range(300)]
    db.insert("f", rows)
    db.delete("f", draw.sample(rows, 150))
    run(db, [changes.batch() for _ in range(12)])
    db.save(tmp_path / "saved")
    loaded = ev.Database.load(tmp_path / "saved", verify=True)
    assert contents(loaded) == contents(db)
    assert loaded.version == db.version
    assert loaded.view("hops").stats()["restored"] == "rebuilt"
    for batch in [changes.batch() for _ in range(4)]:
        run(db, [batch])
        run(loaded, [batch])
    assert contents(loaded) == contents(db)
    assert uses(loaded) == uses(db)


def test_strings_that_views_compute_when_read_are_compared_as_values(tmp_path: Path) -> None:
    """They have no number of their own in the file, and get another one in each of the two databases."""
    db = ev.Database()
    db.sql(
        """CREATE TABLE g (a INT, s STRING);
           CREATE VIEW upper_case AS SELECT a, upper(s) AS u FROM g;
           CREATE VIEW ends AS SELECT a, concat(max(s), 'tail') AS u, count(*) AS n FROM g GROUP BY a"""
    )
    draw = random.Random(1)
    for i in range(12):
        row = (i % 3, draw.choice("abcd") * draw.randint(1, 9))
        db.insert("g", [row])
        if i % 3:
            db.delete("g", [row])
        db.view("upper_case").to_arrow()
    db.save(tmp_path / "saved")
    loaded = ev.Database.load(tmp_path / "saved", verify=True)
    assert contents(loaded) == contents(db)


@pytest.mark.parametrize("rows", [[], [(1, 2), (2, 3)]])
def test_views_without_columns_are_taken_too(tmp_path: Path, rows: list[tuple[int, int]]) -> None:
    db = filled(rows)
    db.rules("reached() :- e(a, b), e(b, c).")
    db.save(tmp_path / "saved")
    assert list(ev.Database.load(tmp_path / "saved", verify=True).view("reached")) == [()] * bool(rows)


def test_views_without_a_result_are_taken_too(tmp_path: Path) -> None:
    without_input().save(tmp_path / "saved")
    db = ev.Database.load(tmp_path / "saved", verify=True)
    with pytest.raises(ExpressionError, match="no result now"):
        list(db.view("mean"))
    db.insert("t", [("a", 2)])
    assert list(db.view("mean")) == [(10.0,)]


def test_the_command_says_what_is_in_a_file_or_why_it_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(ROWS).save(tmp_path / "good")
    assert main(["check", str(tmp_path / "good")]) == 0
    shown = capsys.readouterr().out
    assert "version 1, whole; its views follow from its tables" in shown
    assert "table e: 4 rows" in shown
    assert f"view hops: {len(filled(ROWS).view('hops'))} rows" in shown
    assert main(["check", "--json", str(tmp_path / "good")]) == 0
    assert json.loads(capsys.readouterr().out)["tables"] == {"e": 4}
    path = forged(tmp_path, lambda _, sections: set_cell(sections, "table/0", "w1", 0, 77))
    assert main(["check", str(path)]) == 2
    assert "does not follow from the rows of the tables" in capsys.readouterr().err
    assert main(["check", str(tmp_path / "none")]) == 2
    assert "SnapshotError" in capsys.readouterr().err
