"""Limits that a formula meets at run time: it is suspended, and goes on once its data are within them again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

import everview as ev
from everview.errors import DegreeExceeded, FormulaLimitError, HistoryExceeded
from everview.kernel.census.program import MOST_STEPS
from everview.strategies.fo_mod import plan
from everview.strategies.fo_mod.lower import lower
from tests.engine.test_formula_views import changes, values

FAR = "q(x) := exists>=2 y (not E(x, y) and x != y)"
"""It counts elements by type, at the radii 0 and 1."""
PATH = [(a, a + 1) for a in range(4)]
"""Few types: ends and what is between them."""
IRREGULAR = [(10, 11), (10, 12), (11, 12), (12, 13), (20, 20), (21, 21), (21, 22), (23, 24), (24, 23)]


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets the limits of formulas that are defined from now on."""

    def set_(most_types: int = 6, most_steps: int = MOST_STEPS) -> None:
        monkeypatch.setattr(plan, "lower", partial(lower, most_types=most_types, most_steps=most_steps))

    return set_


def database(**options: Any) -> tuple[ev.Database, Any]:
    db = ev.Database()
    db.sql("CREATE TABLE E (a BIGINT, b BIGINT)")
    view = db.formula(FAR, degree=3, **options)
    db.insert("E", PATH)
    return db, view


def right(db: ev.Database, row: tuple[Any, ...] = ()) -> set[Any]:
    edges = {(r["a"], r["b"]) for r in db.table("E").to_arrow().to_pylist()}
    elements = {a for edge in edges for a in edge}
    return {x for x in elements if sum(y != x and (x, y) not in edges for y in elements) >= 2}


def test_too_many_types_suspend_the_view_and_not_its_tables(limits: Callable[..., None]) -> None:
    limits()
    db, view = database()
    before = values(view)
    assert before == right(db)
    db.insert("E", IRREGULAR)
    assert len(db.table("E")) == len(PATH) + len(IRREGULAR)
    for read in (lambda: list(view), lambda: len(view), lambda: (1,) in view, view.count, view.to_arrow, view.changes):
        with pytest.raises(FormulaLimitError, match="more than 6 kinds of surroundings for q, and so it has no result"):
            read()
    with pytest.raises(FormulaLimitError) as caught:
        db.sql("SELECT * FROM q")
    assert (caught.value.limit, caught.value.bound, caught.value.allowed) == ("TYPE_LIMIT", 7, 6)
    assert "delete rows" in (caught.value.hint or "")
    assert "TYPE_LIMIT" in view.stats()["failing"]
    assert "suspended" in str(view.explain())
    with pytest.raises(FormulaLimitError, match="TYPE_LIMIT"):
        db.formula("other" + FAR[1:], degree=3)  # A definition is refused.
    db.insert("E", [(0, 9)])
    db.delete("E", IRREGULAR)
    assert values(view) == right(db)
    assert view.stats()["failing"] is None
    db.delete("E", [(0, 9)])
    assert values(view) == before


def test_feeds_end_with_a_suspension(limits: Callable[..., None]) -> None:
    limits()
    db, view = database(history=10)
    feed = view.changes()
    db.insert("E", [(4, 5)])
    version = db.version
    db.insert("E", IRREGULAR)
    assert changes(feed) == {(5,): 1}, "what was told before can still be read"
    with pytest.raises(FormulaLimitError, match="TYPE_LIMIT"):
        feed.read()
    db.delete("E", IRREGULAR)
    assert values(view) == right(db) == {0, 1, 2, 3, 4, 5}
    with pytest.raises(HistoryExceeded):
        view.diff(since=version)
    with view.changes() as again:
        since = db.version
        db.delete("E", [(4, 5)])
        assert changes(again) == {(5,): -1}
    assert view.diff(since=since).to_pylist()[0]["x"] == 5


def test_a_batch_that_is_refused_leaves_it_as_it_was(limits: Callable[..., None]) -> None:
    limits()
    db, view = database()
    before = values(view)
    hub = [(0, b) for b in range(30, 36)]
    with pytest.raises(DegreeExceeded):
        db.insert("E", IRREGULAR + hub)
    assert values(view) == before
    db.insert("E", IRREGULAR)

    def hub_instead() -> None:
        with db.batch() as batch:
            batch.delete("E", IRREGULAR)
            batch.insert("E", hub)

    with pytest.raises(DegreeExceeded):  # It is judged though there is no result.
        hub_instead()
    with pytest.raises(FormulaLimitError):
        len(view)
    db.delete("E", IRREGULAR)
    assert values(view) == before


@pytest.mark.parametrize("reader", ["view", "index"])
def test_where_others_need_it_the_batch_is_refused(limits: Callable[..., None], reader: str) -> None:
    limits()
    db = ev.Database()
    db.sql("CREATE TABLE E (a BIGINT, b BIGINT)")
    text = "p(x, y) := E(x, y) and exists z (z != x and not E(x, z))"
    db.formula(text, degree=3, **({"lookup": "y"} if reader == "index" else {}))
    if reader == "view":
        db.sql("CREATE MATERIALIZED VIEW over_it AS SELECT COUNT(*) AS n FROM p")
    db.insert("E", PATH)
    before = set(db.view("p"))
    with pytest.raises(FormulaLimitError, match="nothing has changed"):
        db.insert("E", IRREGULAR)
    assert set(db.view("p")) == before
    assert len(db.table("E")) == len(PATH)
    db.insert("E", [(4, 5)])
    assert set(db.view("p")) == before | {(4, 5)}


def test_too_many_steps(limits: Callable[..., None]) -> None:
    limits(most_types=100, most_steps=25)
    db = ev.Database()
    db.sql("CREATE TABLE E (a BIGINT, b BIGINT)")
    view = db.formula(FAR, degree=3)
    db.insert("E", [(1, 2)])
    with pytest.raises(FormulaLimitError, match="STEP_LIMIT: an update takes more than 25 steps for q, and so it has"):
        list(view)
    db.delete("E", [(1, 2)])
    assert values(view) == set()


def test_a_suspended_view_is_saved_and_loaded(limits: Callable[..., None], tmp_path: Path) -> None:
    limits()
    db, _ = database()
    db.insert("E", IRREGULAR)
    db.save(tmp_path / "x.everview")
    for verify in (False, True):
        loaded = ev.Database.load(tmp_path / "x.everview", verify=verify)
        with pytest.raises(FormulaLimitError, match="TYPE_LIMIT"):
            len(loaded.view("q"))
        loaded.delete("E", IRREGULAR)
        assert values(loaded.view("q")) == right(loaded)


def test_a_table_is_created_while_a_view_is_suspended(limits: Callable[..., None]) -> None:
    limits()
    db, view = database()
    db.insert("E", IRREGULAR)
    db.sql("CREATE TABLE Z (a BIGINT)")
    with pytest.raises(FormulaLimitError, match="TYPE_LIMIT"):
        len(view)
    db.delete("E", IRREGULAR)
    assert values(view) == right(db)
    db.insert("Z", [(99,)])
    assert 99 in values(view)


@pytest.mark.parametrize("per_update", [False, True])
def test_a_hub_is_refused_before_anything_is_made_of_it(per_update: bool) -> None:
    db, view = database()
    feed = view.changes(per_update=per_update)
    db.insert("E", [(4, 5)])
    assert changes(feed) == {(5,): 1}
    before, hub = values(view), [(0, b) for b in range(100, 400)]
    steps = view.stats()["steps"]
    with pytest.raises(DegreeExceeded, match="element 0 of q has"):
        db.insert("E", hub)
    assert view.stats()["steps"] - steps < 20_000, "looking at 300 neighbours of neighbours takes far more"
    assert values(view) == before
    assert not feed.read()
    with db.batch() as batch:  # It is judged by the end.
        batch.insert("E", hub)
        batch.delete("E", hub)
        batch.insert("E", [(5, 6)])
    assert changes(feed) == {(6,): 1}
    assert values(view) == right(db)


def test_random_batches_in_and_out_of_the_limit(limits: Callable[..., None]) -> None:
    limits(most_types=5)
    random = Random(22)
    met = 0
    db, view = database(history=3)
    held = set(PATH)
    for _ in range(150):
        come = {(random.randrange(8), random.randrange(8)) for _ in range(random.randint(0, 3))} - held
        gone = {edge for edge in held if random.random() < 0.2}
        try:
            with db.batch() as batch:
                batch.delete("E", sorted(gone))
                batch.insert("E", sorted(come))
            held = (held - gone) | come
        except DegreeExceeded:
            pass
        if random.random() < 0.7:
            try:
                assert values(view) == right(db), held
            except FormulaLimitError:
                met += 1
    assert 10 < met < 100, met
