"""Joins with more results than 64 bits count: exact counts, clear errors, and batches that are not refused for them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import everview as ev
from everview.errors import DataError, EverviewError

RELATIONS = 8


def star(degree: int, *views: str) -> ev.Database:
    """Eight tables that join on k, each with so many rows of one k; a view is what stands before FROM, and after it."""
    db = ev.Database()
    for i in range(RELATIONS):
        db.sql(f"CREATE TABLE r{i} (k BIGINT, a{i} BIGINT)")
    joined = "r0" + "".join(f" JOIN r{i} ON r{i}.k = r0.k" for i in range(1, RELATIONS))
    for number, view in enumerate(views):
        db.create_view(f"v{number}", view.format(star=joined))
    for i in range(RELATIONS):
        db.insert(f"r{i}", [(1, j) for j in range(degree)])
    return db


ALL = "SELECT r0.k, " + ", ".join(f"a{i}" for i in range(RELATIONS)) + " FROM {star}"
KEYS = "SELECT r0.k FROM {star}"
ONE_SIDE = "SELECT r0.k, a0 FROM {star}"


def test_results_are_counted_beyond_64_bits() -> None:
    db = star(300, ALL, KEYS, ONE_SIDE, f"{KEYS} UNION ALL {KEYS}", "SELECT DISTINCT r0.k FROM {star}")
    for view, expected in (("v0", 300**8), ("v1", 300**8), ("v2", 300**8), ("v3", 2 * 300**8), ("v4", 1)):
        assert db.view(view).count() == expected
    db.delete("r0", [(1, 0)])
    assert db.view("v0").count() == db.view("v1").count() == 299 * 300**7
    assert db.view("v0").page(limit=1)[0][0] == 1
    for i in range(1, RELATIONS):
        db.delete(f"r{i}", [(1, j) for j in range(1, 300)])
    assert sorted(db.view("v2")) == [(1, j) for j in range(1, 300)]
    assert db.view("v1").count() == len(db.view("v1")) == 299


def test_a_star_of_degree_65536_has_exactly_2_to_the_128_results() -> None:
    db = star(2**16, ALL, KEYS)
    assert db.view("v0").count() == db.view("v1").count() == 2**128


def test_what_cannot_be_listed_is_said_clearly() -> None:
    db = star(600, ALL, KEYS, ONE_SIDE)
    for view in ("v1", "v2"):
        with pytest.raises(DataError, match="64 bits"):
            next(iter(db.view(view)))
        with pytest.raises(DataError, match="64 bits"):
            db.view(view).page(limit=2)
    for view in ("v0", "v1", "v2"):
        with pytest.raises(EverviewError, match=r"len\(\)"):
            len(db.view(view))
        with pytest.raises(EverviewError):
            list(db.view(view))


def test_a_feed_that_cannot_say_so_many_copies_ends_and_says_why() -> None:
    db = star(250, KEYS)
    feed = db.view("v0").changes()
    for i in range(RELATIONS):
        db.insert(f"r{i}", [(1, j) for j in range(250, 300)])
    assert db.view("v0").count() == 300**8
    assert sum(batch["_count"][0].as_py() for batch in feed.read()) == 300**7 * 250 - 250**8
    with pytest.raises(EverviewError, match="64 bits"):
        feed.read()


def test_an_update_that_cannot_be_told_is_refused() -> None:
    """Adding one row changes the copies of a result by more than 64 bits hold."""
    db = star(600, KEYS)
    feed = db.view("v0").changes()
    with pytest.raises(DataError, match="64 bits") as refused:
        db.insert("r0", [(1, 600)])
    assert "nothing has changed" in str(refused.value)
    feed.close()
    assert db.view("v0").count() == 600**8
    db.insert("r0", [(1, 600)])
    assert db.view("v0").count() == 601 * 600**7


BEYOND = (
    "SELECT r0.k, COUNT(*) AS n FROM {star} GROUP BY r0.k",
    "SELECT r0.k, COUNT(a3) AS n FROM {star} GROUP BY r0.k",
    "SELECT r0.k, SUM(a0) AS n FROM {star} GROUP BY r0.k",
    "SELECT COUNT(*) AS n FROM {star}",
    "SELECT r0.k, AVG(a0) AS n FROM {star} GROUP BY r0.k HAVING COUNT(*) > 0",
    "SELECT r0.k, a1, SUM(a0) AS n FROM {star} GROUP BY r0.k, a1",
    "SELECT r0.k, a1, a2, SUM(a0) AS n FROM {star} GROUP BY r0.k, a1, a2",
)


@pytest.mark.parametrize("view", BEYOND)
@pytest.mark.parametrize("fed", [False, True])
def test_a_batch_that_ends_with_a_count_or_sum_beyond_its_type_is_refused(view: str, fed: bool) -> None:
    """Whether or not a feed is open; and the batch may pass through such a state."""
    db = star(2, view)
    if fed:
        db.view("v0").changes()
    before = sorted(db.view("v0"))
    large = [(f"r{i}", copies({"k": 1, f"a{i}": 2}, 2000)) for i in range(RELATIONS)]
    with pytest.raises(DataError, match=r"v0: .* leaves the 64 bits of BIGINT; nothing has changed"):
        applied(db, large)
    assert sorted(db.view("v0")) == before
    gone = [copies({"k": 1, "a5": value}, count, "delete") for value, count in ((0, 1), (1, 1), (2, 2000))]
    applied(db, [*large, ("r5", pa.concat_tables(gone))])
    assert list(db.view("v0")) == ([(0,)] if before == [(256,)] else [])


def applied(db: ev.Database, changes: list[tuple[str, pa.Table]]) -> None:
    with db.batch() as batch:
        for name, rows in changes:
            batch.apply(name, rows)


SIDES = (
    "SELECT r0.k, COUNT(*) AS n FROM r0 JOIN r1 ON r0.k = r1.k GROUP BY r0.k",
    "SELECT r0.k, SUM(a0) AS n FROM r0 JOIN r1 ON r0.k = r1.k GROUP BY r0.k",
)


@pytest.mark.parametrize("view", SIDES)
@pytest.mark.parametrize("way", ["quiet", "fed", "saved"])
def test_a_large_number_is_known_when_another_one_grows(view: str, way: str, tmp_path: Path) -> None:
    """The one side became large while a feed was open, or before the database was saved."""
    db = ev.Database()
    db.sql("CREATE TABLE r0 (k BIGINT, a0 BIGINT); CREATE TABLE r1 (k BIGINT, a1 BIGINT)")
    v = db.create_view("v0", view)
    feed = v.changes() if way == "fed" else None
    db.apply("r0", copies({"k": 1, "a0": 1}, 2**61))
    db.insert("r1", [(1, 0)])
    if feed is not None:
        feed.close()
    if way == "saved":
        db.save(tmp_path / "saved")
        db = ev.Database.load(tmp_path / "saved")
    db.insert("r1", [(1, 0), (1, 0)])
    assert list(db.view("v0")) == [(1, 3 * 2**61)]
    with pytest.raises(DataError, match="leaves the 64 bits of BIGINT"):
        db.insert("r1", [(1, 0)])
    assert list(db.view("v0")) == [(1, 3 * 2**61)]
    db.apply("r0", copies({"k": 2, "a0": 1}, 2**61))
    db.insert("r1", [(2, 0)])
    assert sorted(db.view("v0")) == [(1, 3 * 2**61), (2, 2**61)]


def copies(row: dict[str, int], count: int, kind: str = "insert") -> pa.Table:
    return pa.table({name: [value] for name, value in row.items()} | {"_change_type": [kind], "_count": [count]})


def test_one_large_side_makes_nobody_list_groups() -> None:
    """While the products of the largest numbers have room, an update costs no more than before."""
    db = ev.Database()
    db.sql("CREATE TABLE r0 (k BIGINT, a0 BIGINT); CREATE TABLE r1 (k BIGINT, a1 BIGINT)")
    v = db.create_view("v0", "SELECT r0.k, a1, SUM(a0) AS n FROM r0 JOIN r1 ON r0.k = r1.k GROUP BY r0.k, a1")
    db.apply("r0", copies({"k": 1, "a0": 1}, 2**50))
    db.insert("r1", [(1, j % 90) for j in range(900)])
    (core,) = db._views["v0"].result.cores
    assert not core.emits_deltas
    assert sorted(v) == [(1, j, 10 * 2**50) for j in range(90)]
    db.apply("r1", copies({"k": 2, "a1": 1}, 2**14))
    assert core.emits_deltas
    assert sorted(v) == [(1, j, 10 * 2**50) for j in range(90)]
