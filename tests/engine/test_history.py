"""What has changed since a version: the difference of two full reads, for as many batches as are kept."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import everview as ev
from everview.errors import HistoryExceeded, OptionError
from tests.scale import scaled

QUERIES = (
    "SELECT r.a, r.b, s.c FROM r JOIN s ON r.b = s.b",
    "SELECT DISTINCT a FROM r",
    "SELECT r.a, upper(t.name) AS name FROM r JOIN t ON r.b = t.b",
    "SELECT b, COUNT(*) AS n, SUM(a) AS total FROM r GROUP BY b",
    "SELECT COUNT(*) AS n FROM r",
    "SELECT a, b FROM r UNION SELECT b, c FROM s",
    "SELECT a FROM r EXCEPT ALL SELECT c FROM s",
)


def rows_of(view: ev.View) -> Counter[tuple[Any, ...]]:
    return Counter(view)


def net(changes: pa.Table) -> Counter[tuple[Any, ...]]:
    """Rows with the copies that came or, below zero, went; each row is there once."""
    found: Counter[tuple[Any, ...]] = Counter()
    for row in changes.to_pylist():
        *values, kind, _, copies = row.values()
        assert copies > 0
        assert tuple(values) not in found
        found[tuple(values)] = copies if kind in ("insert", "update_postimage") else -copies
    return found


def difference(before: Counter[tuple[Any, ...]], now: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    found = Counter(now)
    found.subtract(before)
    return Counter({row: n for row, n in found.items() if n})


def make(**options: Any) -> ev.Database:
    db = ev.Database()
    db.sql("CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE s (b BIGINT, c BIGINT)")
    db.sql("CREATE TABLE t (b BIGINT, name STRING)")
    for i, query in enumerate(QUERIES):
        db.create_view(f"v{i}", query, **options)
    return db


@pytest.mark.slow
def test_the_difference_of_two_full_reads(tmp_path: Path) -> None:
    for seed in range(scaled(3, least=2)):
        draw = random.Random(seed)
        db = make(history=5)
        held: dict[str, list[tuple[Any, ...]]] = {"r": [], "s": [], "t": []}
        reads = {0: [rows_of(db.view(f"v{i}")) for i in range(len(QUERIES))]}
        for step in range(12):
            with db.batch() as batch:
                for name, rows in held.items():
                    last = ["x", "y", None] if name == "t" else [0, 1, 2, None]
                    new = [(draw.choice([0, 1, None]), draw.choice(last)) for _ in range(draw.randrange(3))]
                    gone = draw.sample(rows, min(len(rows), draw.randrange(4)))
                    batch.insert(name, new)
                    batch.delete(name, gone)
                    for row in gone:
                        rows.remove(row)
                    rows += new
            if step == 7:
                db.save(tmp_path / "saved")
                db = ev.Database.load(tmp_path / "saved")
            reads[db.version] = [rows_of(db.view(f"v{i}")) for i in range(len(QUERIES))]
            for version in range(max(0, db.version - 5), db.version + 1):
                for i in range(len(QUERIES)):
                    told = db.view(f"v{i}").diff(since=version)
                    assert net(told) == difference(reads[version][i], reads[db.version][i]), (i, version)
                    assert set(told["_commit_version"].to_pylist()) <= {db.version}
            if db.version > 5:
                with pytest.raises(HistoryExceeded, match=rf"since version {db.version - 5}, and not since"):
                    db.view("v0").diff(since=db.version - 6)


def test_vector_t4_and_t3() -> None:
    """Example 4.16: rows that came and went again are not told, and changes of several batches are one."""
    db = ev.Database()
    db.sql("CREATE TABLE e (y BIGINT, x1 BIGINT); CREATE TABLE f (y BIGINT, x2 BIGINT, x3 BIGINT)")
    db.sql("CREATE TABLE g (y BIGINT, x2 BIGINT, x3 BIGINT)")
    view = db.create_view("v", "SELECT y, x1, x2, x3 FROM e JOIN f USING (y) JOIN g USING (y, x2, x3)", history=100)
    both = [(1, 4, 1), (1, 5, 2), (1, 6, 3), (1, 6, 4), (2, 2, 1), (2, 2, 8), (2, 2, 4), (3, 1, 1), (4, 5, 6)]
    db.insert("e", [(1, 1), (1, 2), (1, 3), (2, 4), (2, 8), (2, 9), (3, 2)])
    db.insert("f", both)
    db.insert("g", both)
    start = db.version
    db.delete("f", [(2, 2, 4)])
    db.insert("e", [(3, 4)])
    db.insert("f", [(3, 1, 2)])
    db.insert("g", [(3, 1, 2)])
    came, went = [(3, 4, 1, 1), (3, 4, 1, 2), (3, 2, 1, 2)], [(2, 4, 2, 4), (2, 8, 2, 4), (2, 9, 2, 4)]
    assert net(view.diff(since=start)) == Counter(dict.fromkeys(came, 1) | dict.fromkeys(went, -1))
    start = db.version
    db.insert("e", [(4, 1)])
    assert net(view.diff(since=start)) == Counter({(4, 1, 5, 6): 1})
    db.delete("e", [(4, 1)])
    assert view.diff(since=start).num_rows == 0
    assert view.diff(since=start).schema == view.changes().schema


def test_vectors_t5_and_t6() -> None:
    """Both sides of a product change; and a row that gets another derivation, which is no change of a set."""
    db = ev.Database()
    db.sql("CREATE TABLE e (y BIGINT, x1 BIGINT); CREATE TABLE f (y BIGINT, x2 BIGINT, x3 BIGINT)")
    db.sql("CREATE TABLE g (y BIGINT, x2 BIGINT, x3 BIGINT)")
    query = "SELECT y, x1, x2, x3 FROM e JOIN f USING (y) JOIN g USING (y, x2, x3)"
    view = db.create_view("v", query, history=1_000)
    seen = db.create_view("w", "SELECT DISTINCT y FROM e", history=1_000)
    db.insert("e", [(3, 2)])
    db.insert("f", [(3, 1, 1)])
    db.insert("g", [(3, 1, 1)])
    start = db.version
    db.insert("e", [(3, 4)])
    assert seen.diff(since=start).num_rows == 0
    db.delete("e", [(3, 2)])
    for k in range(2, 50):
        db.insert("f", [(3, 1, k)])
        db.insert("g", [(3, 1, k)])
    assert net(view.diff(since=start)) == Counter({(3, 2, 1, 1): -1} | {(3, 4, 1, k): 1 for k in range(1, 50)})
    assert seen.diff(since=start).num_rows == 0


def test_groups_that_change_are_updates() -> None:
    db = make(history=10)
    view = db.view("v3")
    db.insert("r", [(5, 1), (6, 2)])
    start = db.version
    db.insert("r", [(7, 1), (1, 3)])
    db.insert("r", [(1, 1)])
    db.delete("r", [(6, 2)])
    told = sorted((row["_change_type"], row["b"], row["n"]) for row in view.diff(since=start).to_pylist())
    assert told == [("delete", 2, 1), ("insert", 3, 1), ("update_postimage", 1, 3), ("update_preimage", 1, 1)]


def test_what_is_kept_can_be_altered() -> None:
    db = make()
    view = db.view("v0")
    with pytest.raises(HistoryExceeded, match="is not kept"):
        view.diff(since=0)
    db.insert("r", [(1, 1)])
    db.sql("ALTER VIEW v0 SET OPTIONS (history = 2)")
    with pytest.raises(HistoryExceeded, match="known since version 1"):
        view.diff(since=0)
    db.insert("s", [(1, 1)])
    assert net(view.diff(since=1)) == Counter({(1, 1, 1): 1})
    view.rank((1, 1, 1))  # It is rebuilt, in order, and goes on.
    db.delete("r", [(1, 1)])
    assert view.diff(since=1).num_rows == 0
    assert net(view.diff(since=2)) == Counter({(1, 1, 1): -1})
    with pytest.raises(ValueError, match="is to come"):
        view.diff(since=4)
    db.sql("ALTER VIEW v0 SET OPTIONS (history = NULL)")
    with pytest.raises(HistoryExceeded):
        view.diff(since=3)
    for value in ("0", "'x'", "1.5", "true"):
        with pytest.raises(OptionError, match="history is"):
            db.sql(f"ALTER VIEW v0 SET OPTIONS (history = {value})")


def test_too_much_is_forgotten_and_says_so() -> None:
    db = ev.Database(memory_limit=8_000_000)
    db.sql("CREATE TABLE r (a BIGINT, b BIGINT)")
    view = db.create_view("v", "SELECT x.a, y.a AS other FROM r x JOIN r y ON x.b = y.b", history=1_000)
    rows = [(i, 1) for i in range(100)]
    for _ in range(20):
        db.insert("r", rows)
        db.delete("r", rows)
    assert db.nbytes() <= 8_000_000
    with pytest.raises(HistoryExceeded):
        view.diff(since=0)
    assert view.diff(since=db.version).num_rows == 0
