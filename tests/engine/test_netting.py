"""Batches that are added up before the views see them, and what that must not change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import everview as ev
from everview.engine import transaction
from everview.errors import DataError, OverDeleteError
from tests.engine.ways import the_other_way

PATHS = "SELECT r.a, r.b, s.c FROM e r JOIN f s ON r.b = s.b"


@pytest.fixture
def netted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many changes went into each netting, and came out of it, where no batch goes directly."""
    seen: list[int] = []

    def watched(batch: list[transaction.Changes]) -> list[transaction.Changes]:
        found = original(batch)
        seen.extend((sum(map(len, batch)), sum(map(len, found))))
        return found

    original = transaction.net_changes
    monkeypatch.setattr(transaction, "net_changes", watched)
    with the_other_way():
        yield seen


def paths() -> ev.Database:
    db = ev.Database()
    db.sql("CREATE TABLE e (a BIGINT, b BIGINT); CREATE TABLE f (b BIGINT, c STRING)")
    db.sql(f"CREATE MATERIALIZED VIEW v AS {PATHS}")
    db.insert("e", [(1, 1), (2, 1), (3, 2)])
    db.insert("f", [(1, "x"), (2, "y")])
    return db


def told(feed: ev.ChangeFeed) -> list[tuple[object, ...]]:
    rows = [row for batch in feed.read() for row in batch.to_pylist()]
    return sorted((r["_change_type"], r["a"], r["b"], r["c"], r["_count"]) for r in rows)


def test_what_comes_and_goes_in_one_batch_is_not_told(netted: list[int]) -> None:
    db = paths()
    feed = db.view("v").changes()
    with db.batch() as batch:
        batch.delete("e", [(1, 1)])
        batch.insert("f", [(1, "z")])
        batch.insert("e", [(1, 1), (4, 1)])
        batch.delete("f", [(1, "x")])
        batch.insert("f", [(1, None)])
        batch.delete("f", [(1, "z")])
    assert told(feed) == [
        ("delete", 1, 1, "x", 1),
        ("delete", 2, 1, "x", 1),
        ("insert", 1, 1, None, 1),
        ("insert", 2, 1, None, 1),
        ("insert", 4, 1, None, 1),
    ]
    assert netted == [7, 3]


def test_an_upsert_that_changes_nothing_tells_nothing(netted: list[int]) -> None:
    db = ev.Database()
    db.sql("CREATE TABLE k (id INT PRIMARY KEY, x INT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, x FROM k WHERE x > 0")
    feed = db.view("v").changes()
    db.upsert("k", [(1, 5), (2, 6)])
    assert [b.num_rows for b in feed.read()] == [2]
    db.upsert("k", [(1, 5), (2, 7)])
    rows = [(r["_change_type"], r["id"], r["x"]) for b in feed.read() for r in b.to_pylist()]
    assert sorted(rows) == [("delete", 2, 6), ("insert", 2, 7)]
    assert netted == [4, 2]


@pytest.mark.parametrize("per_update", [False, True])
@pytest.mark.parametrize("doubles", [False, True])
def test_batches_of_all_kinds_add_up(doubles: bool, per_update: bool, netted: list[int]) -> None:
    """Rows that are there twice, or a feed of single updates, leave the batch as it is."""
    random = Random(7)
    db = paths()
    quiet = db.view("v").changes()
    other = db.view("v").changes(per_update=True) if per_update else None
    have = {"e": Counter({(1, 1): 1, (2, 1): 1, (3, 2): 1}), "f": Counter({(1, "x"): 1, (2, "y"): 1})}
    if doubles:
        have["e"][9, 9] = 2
        db.insert("e", [(9, 9), (9, 9)])
    for _ in range(60):
        before = Counter(db.view("v"))
        with db.batch() as batch:
            for _ in range(random.randint(1, 12)):
                name = random.choice("ef")
                row = (random.randint(1, 3), random.randint(1, 3) if name == "e" else random.choice("xyz"))
                goes = have[name][row] > 0 and (not doubles or random.random() < 0.6)
                have[name][row] += -1 if goes else 1
                (batch.delete if goes else batch.insert)(name, [row])
        pairs = product(have["e"].items(), have["f"].items())
        want = Counter({(a, b, c): n * m for ((a, b), n), ((d, c), m) in pairs if b == d})
        assert Counter(db.view("v")) == +want
        changes = told(quiet)
        assert len({row[1:4] for row in changes}) == len(changes)
        added = Counter(before)
        for kind, a, b, c, count in changes:
            added[a, b, c] += count if kind == "insert" else -count
        assert +added == +want
        assert other is None or all(batch.num_rows for batch in other.read())
    assert bool(netted) is (not per_update and not doubles)


def test_rows_are_counted_through_failures_and_files(tmp_path: Path) -> None:
    db = paths()
    with pytest.raises(OverDeleteError):
        db.apply("e", pa.table({"a": [9, 8], "b": [9, 8], "_change_type": ["insert", "delete"]}))
    table = db._tables["e"]
    collected = db.batch()
    batch = collected.__enter__()
    batch.insert("e", [(1, 1), (9, 9)])
    batch.delete("f", [(9, "none")])
    with pytest.raises(OverDeleteError):
        collected.__exit__(None, None, None)
    assert (table.copies, table.distinct, table.is_set) == (3, 3, True)
    db.insert("e", [(1, 1)])
    assert (table.copies, table.is_set) == (4, False)
    db.save(tmp_path / "db")
    loaded = ev.Database.load(tmp_path / "db")._tables["e"]
    assert (loaded.copies, loaded.is_set) == (4, False)


@pytest.mark.parametrize("at_once", [1, 2, 1_000])
def test_an_error_names_the_row_that_was_given(
    at_once: int, netted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction, "MOST_AT_ONCE", at_once)
    db = paths()
    db.sql("CREATE MATERIALIZED VIEW total AS SELECT b, SUM(a) AS n FROM e GROUP BY b")
    db.view("v").changes()
    db.view("total").changes()
    rows = [(5, 7, "insert"), (5, 7, "delete"), (1, 1, "delete"), (2**63 - 1, 9, "insert"), (2**63 - 1, 1, "insert")]
    columns = dict(zip(("a", "b", "_change_type"), zip(*rows, strict=True), strict=True))
    with pytest.raises(DataError) as caught:
        db.apply("e", pa.table({name: list(column) for name, column in columns.items()}))
    assert (caught.value.table, caught.value.row) == ("e", 4)
    assert netted == [5, 3]
