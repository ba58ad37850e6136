"""Batches that fail anywhere leave everything as it was: by the kernel's log, or by filling views anew without one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import duckdb
import pytest

import everview as ev
from everview.engine.transaction import Transaction
from everview.errors import DataError, MemoryLimitError
from everview.kernel import _kernel
from tests.engine.case_data import Case
from tests.engine.differential import Run, Update
from tests.engine.generator import make_case
from tests.scale import scaled

GROUPED = (
    "CREATE TABLE t (a INT, s STRING);"
    "CREATE VIEW v AS SELECT s, COUNT(*) AS n, SUM(a) AS x, MIN(a) AS m, MAX(lower(s)) AS l FROM t GROUP BY s;"
    "CREATE VIEW w AS SELECT x.s, y.a FROM t x JOIN t y ON x.a = y.a;"
    "CREATE VIEW over AS SELECT n, COUNT(*) AS groups FROM v GROUP BY n"
)


class Failing(Run):
    """Tries every batch a few times with memory that runs out at some allocation of the kernel, before it is taken."""

    def __init__(self, case: Case, seed: int, *, fills_anew: bool) -> None:
        super().__init__(case)
        self.fills_anew = fills_anew
        self.random = Random(seed)
        self.refused = 0

    def _run(self, updates: list[Update], act: Callable[[], None], ordered: bool = True) -> None:
        def tried() -> None:
            for _ in range(3):
                before = self.fingerprint()
                _kernel.fail_allocation(self.random.choice((0, 1, 2, 3, 5, 8, 13, 21, 34, 55)))
                try:
                    act()
                except (
                    MemoryLimitError,
                    MemoryError,
                    duckdb.OutOfMemoryException,
                ):  # DuckDB translates std::bad_alloc, too
                    _kernel.fail_allocation(None)
                    self.refused += 1
                    self._unchanged(before, "a batch without memory", filled_anew=self.fills_anew)
                else:
                    return
                finally:
                    _kernel.fail_allocation(None)
            act()

        super()._run(updates, tried, ordered)


@pytest.mark.parametrize("most", [None, 0, 700], ids=["log", "no log", "short log"])
def test_batches_for_which_memory_runs_out_change_nothing(most: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a log, without one, so that each view is filled anew, and with one that ends half-way."""
    if most is not None:
        monkeypatch.setattr(Transaction, "_most_log_bytes", lambda self: most)
    tell = Transaction._deliver

    def tell_with_memory(self: Transaction, *, is_net_batch: bool) -> None:
        _kernel.fail_allocation(None)  # The batch has been taken.
        tell(self, is_net_batch=is_net_batch)

    monkeypatch.setattr(Transaction, "_deliver", tell_with_memory)
    refused = 0
    for seed in range(40_000, 40_000 + scaled(12, least=2)):
        run = Failing(make_case(seed), seed, fills_anew=most is not None)
        run.go()
        refused += run.refused
    assert refused > 10


@pytest.mark.parametrize("most", [None, 0], ids=["log", "no log"])
def test_a_refused_batch_leaves_rows_feeds_and_what_comes_after(
    most: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if most is not None:
        monkeypatch.setattr(Transaction, "_most_log_bytes", lambda self: most)
    db = ev.Database()
    db.sql(GROUPED)
    rows = [(i % 7, "x" * (i % 5)) for i in range(200)]
    db.insert("t", rows)
    feeds = {name: db.view(name).changes() for name in db.views}
    for feed in feeds.values():
        feed.read()
    before = {name: sorted(db.view(name), key=repr) for name in db.views}
    bad = [("delete", *row) for row in rows[:100]] + [("insert", i, "new") for i in range(500)]
    changes = [{"_change_type": kind, "a": a, "s": s} for kind, a, s in [*bad, ("delete", 99_999, "not there")]]
    with pytest.raises(DataError):
        db.apply("t", changes)
    assert {name: sorted(db.view(name), key=repr) for name in db.views} == before
    assert not any(feed.read() for feed in feeds.values())
    again = ev.Database()
    again.sql(GROUPED)
    again.insert("t", rows)
    for each in (db, again):
        each.insert("t", [(3, "new"), (8, "")])
        each.delete("t", rows[:50])
    assert all(sorted(db.view(n), key=repr) == sorted(again.view(n), key=repr) for n in db.views)


def test_a_batch_without_a_log_fills_only_what_it_has_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    db = ev.Database()
    db.sql("CREATE TABLE t (a INT); CREATE TABLE u (a INT)")
    db.sql("CREATE VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a; CREATE VIEW w AS SELECT DISTINCT a FROM u")
    db.insert("t", [(i,) for i in range(9)])
    db.insert("u", [(i,) for i in range(9)])
    filled: list[str] = []
    fill = ev.Database._fill_anew
    monkeypatch.setattr(ev.Database, "_fill_anew", lambda self, name: (filled.append(name), fill(self, name))[1])
    for most, wanted in ((None, []), (0, ["v"])):
        if most is not None:
            monkeypatch.setattr(Transaction, "_most_log_bytes", lambda self: 0)
        db.sql("CREATE OR REPLACE VIEW x AS SELECT 10 / (a - 77) AS q FROM t")
        with pytest.raises(DataError):
            db.insert("t", [(1,), (2,), (77,)])
        assert {name for name in filled if name != "x"} == set(wanted)
    assert sorted(db.view("v")) == [(i, 1) for i in range(9)]


def test_dropping_frees_the_units_at_once() -> None:
    db = ev.Database()
    db.sql(GROUPED)
    db.insert("t", [(i, str(i)) for i in range(1000)])
    before = db.nbytes()
    db.sql("CREATE VIEW more AS SELECT x.a AS a, y.s AS s FROM t x JOIN t y ON x.s = y.s")
    assert db.nbytes() > before
    unit = db._views["more"].unit
    db.drop("more")
    assert db.nbytes() <= before
    with pytest.raises(RuntimeError, match="unlinked"):
        unit.nbytes()


def test_a_definition_that_fails_leaves_no_unit() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE t (a INT)")
    db.insert("t", [(i,) for i in range(1000)])
    before = db.nbytes()
    good, bad = "SELECT a, COUNT(*) AS n FROM t GROUP BY a", "SELECT 1 / a AS x FROM t"
    with pytest.raises(DataError):
        db.sql(f"CREATE VIEW good AS {good}; CREATE VIEW v AS {bad}")
    assert db.nbytes() == before
    assert db.views == ()


def test_what_python_keeps_of_a_group_is_filled_anew_if_its_undo_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's log of one row is short, however often it comes; that of an accumulator is not."""
    db = ev.Database()
    db.sql("CREATE TABLE t (a INT, d DOUBLE); CREATE VIEW v AS SELECT a, SUM(d) AS m FROM t GROUP BY a")
    db.sql("CREATE VIEW fails AS SELECT 1 / a AS x FROM t")
    db.insert("t", [(1, 0.5)])
    monkeypatch.setattr(Transaction, "_most_log_bytes", lambda self: 100_000)
    with pytest.raises(DataError):
        db.insert("t", [(1, 0.25)] * 5_000 + [(0, 0.0)])
    assert list(db.view("v")) == [(1, 0.5)]
    db.insert("t", [(1, 1.0)])
    assert list(db.view("v")) == [(1, 1.5)]


@pytest.mark.parametrize("use", ["read", "batch", "save", "select", "view"])
def test_a_view_for_which_there_was_no_memory_is_filled_when_there_is(
    use: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch without a log is taken back while memory is short: the view is lost until it can be filled."""
    db = ev.Database()
    db.sql(GROUPED)
    db.sql("CREATE TABLE u (a INT); CREATE VIEW other AS SELECT DISTINCT a FROM u")
    db.sql("CREATE VIEW fails AS SELECT 10 / (a + ascii(s) * 0 - 77) AS q FROM t")
    rows = [(i % 7, "x" * (i % 5)) for i in range(200)]
    db.insert("t", rows)
    db.insert("u", [(1,)])
    before = {name: sorted(db.view(name), key=repr) for name in db.views}
    monkeypatch.setattr(Transaction, "_most_log_bytes", lambda self: 0)
    with monkeypatch.context() as short:
        short.setattr(ev.Database, "_filled", _without_memory)
        with pytest.raises(DataError, match="10 / "):
            db.insert("t", [(1, "new"), (77, "")])
        uses: dict[str, Callable[[], object]] = {
            "read": lambda: list(db.view("v")),
            "batch": lambda: db.insert("t", [(3, "new")]),
            "save": lambda: db.save(tmp_path / "saved"),
            "select": lambda: db.sql("SELECT * FROM over"),
            "view": lambda: db.sql("CREATE VIEW further AS SELECT * FROM v"),
        }
        for _ in range(2):
            with pytest.raises(MemoryLimitError, match="has lost its rows") as caught:
                uses[use]()
            assert "free memory" in str(caught.value)
        assert list(db.view("other")) == [(1,)]
        assert len(db.table("t")) == 200
    uses[use]()
    if use == "batch":
        db.delete("t", [(3, "new")])
    assert {name: sorted(db.view(name), key=repr) for name in before} == before
    again = ev.Database()
    again.sql(GROUPED)
    again.insert("t", rows)
    for each in (db, again):
        each.insert("t", [(3, "later"), (8, "")])
        each.delete("t", rows[:50])
    assert all(sorted(db.view(n), key=repr) == sorted(again.view(n), key=repr) for n in again.views)
    db.delete("t", list(db.table("t")))
    db.drop("t", cascade=True)
    assert len(db._dictionary) == 0


def _without_memory(*_: object, **__: object) -> None:
    raise MemoryError


def test_a_log_is_given_back_with_its_batch() -> None:
    """Batches that are taken, refused, and too large for their log: none of them leaves a log behind."""
    db = ev.Database()
    db.sql("CREATE TABLE t (a INT PRIMARY KEY, b INT); CREATE VIEW v AS SELECT b, COUNT(*) AS n FROM t GROUP BY b")
    rows = [(i, i % 100) for i in range(20_000)]
    for _ in range(3):
        db.insert("t", rows)
        with pytest.raises(DataError):
            db.insert("t", [(100_000, 1), rows[0]])
        db.delete("t", rows)
        assert db._machine.kernel.log_nbytes() == 0
