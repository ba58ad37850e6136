"""Rows with copies near 2⁶³: tables say how many they have at most, and reads neither walk through copies nor wrap."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import everview as ev
from everview.errors import DataError, TooManyRowsError

MOST = 2**63 - 1


def database(*views: str, **options: object) -> ev.Database:
    """Two tables e(a, b) and f(a, b), and views v0, v1, … over them."""
    db = ev.Database()
    db.sql("CREATE TABLE e (a INT, b INT); CREATE TABLE f (a INT, b INT)")
    for number, view in enumerate(views):
        db.create_view(f"v{number}", view, **options)  # type: ignore[arg-type]
    return db


def copies(*rows: tuple[int, int, int]) -> pa.Table:
    """Changes: rows with the copies that come, or, below 0, go."""
    a, b, counts = zip(*rows, strict=True)
    return pa.table(
        {
            "a": pa.array(a, pa.int32()),
            "b": pa.array(b, pa.int32()),
            "_change_type": ["insert" if n > 0 else "delete" for n in counts],
            "_count": pa.array(map(abs, counts), pa.int64()),
        }
    )


PATHS = "FROM e x JOIN f y ON x.b = y.a"


def test_a_table_has_no_more_rows_than_a_word_counts(tmp_path: Path) -> None:
    """Copies of different rows are added up; before, the number wrapped, and what was saved could not be loaded."""
    db = database("SELECT DISTINCT a FROM e", "SELECT COUNT(*) AS n FROM e")
    db.view("v0").changes()
    db.apply("e", copies((1, 1, 2**62), (1, 2, 2**62 - 1)))
    assert db.table("e").count() == len(db.table("e")) == MOST
    with pytest.raises(DataError, match=r"row 1 of the changes to e inserts \(3, 4\) .*nothing has changed") as refused:
        db.apply("e", copies((1, 1, -1), (3, 4, 2), (5, 6, 1)))
    assert (refused.value.table, refused.value.row) == ("e", 1)
    with pytest.raises(DataError, match=r"row 0 of the changes to e inserts \(1, 1\)") as refused:
        db.apply("e", copies((1, 1, 2**62)))
    assert not isinstance(refused.value, ev.errors.MemoryLimitError)
    db.apply("e", copies((1, 1, -1), (5, 6, 1)))
    db.save(tmp_path / "saved")
    again = ev.Database.load(tmp_path / "saved")
    for one in (db, again):
        assert one.table("e").count() == MOST
        assert sorted(one.view("v0")) == [(1,), (5,)]
        assert list(one.view("v1")) == [(MOST,)]
    again.apply("e", copies((1, 1, 1 - 2**62), (1, 2, 1 - 2**62), (5, 6, -1)))
    assert again.table("e").count() == 0


def test_positions_do_not_walk_through_copies() -> None:
    """Neither where rows have to be listed for a position, nor where they are in order."""
    queries = (f"SELECT x.a AS p, y.b AS q {PATHS}", f"SELECT x.b AS p, x.a AS q, y.b AS r {PATHS}")
    db = database(*queries, "SELECT a, b FROM e UNION ALL SELECT a, b FROM f")
    db.apply("e", copies((1, 1, 2**30), (2, 1, 5)))
    db.apply("f", copies((1, 7, 2**30)))
    for name in ("v0", "v1", "v2"):
        view = db.view(name)
        size = view.count()
        assert view[size - 1] == view[-1] == view.page(offset=size - 1, limit=9)[0]
        assert {view[0], view[-1]} <= {view[size // 3], view[2 * size // 3], view[0], view[-1]}
        assert view.page(offset=size, limit=9) == []
        at = view.rank(view[-1])
        assert view.page(offset=at - 1, limit=2) == [view[at - 1], view[at]]
        assert view[at - 1] != view[at] == view[-1]
    assert db.view("v0").count() == 2**60 + 5 * 2**30


@pytest.mark.parametrize("name", ["v0", "e"])
def test_what_no_memory_holds_is_not_listed_at_once(name: str) -> None:
    db = database(f"SELECT x.a AS p {PATHS}")
    db.apply("e", copies((1, 1, 2**61)))
    db.insert("f", [(1, 1)])
    relation = db.view(name) if name == "v0" else db.table(name)
    for read in (relation.to_arrow, relation.to_pandas, lambda: pa.table(relation)):
        with pytest.raises(TooManyRowsError, match=rf"^{name} has 2,305,843,009,213,693,952 copies of 1 rows"):
            read()
    assert next(iter(relation))[0] == 1
    with pytest.raises(TooManyRowsError):
        db.view("v0").lookup(p=1)


@pytest.mark.parametrize("per_update", [False, True])
def test_2_to_the_63_copies_cannot_go_at_once(per_update: bool) -> None:
    """−2⁶³ is a word, but 2⁶³, which a feed would have to tell, is none."""
    db = database(f"SELECT x.a AS p {PATHS}")
    db.apply("e", copies((1, 1, 2**32)))
    db.apply("f", copies((1, 1, 2**31)))
    feed = db.view("v0").changes(per_update=per_update)
    with pytest.raises(DataError, match=r"^v0: .*nothing has changed") as refused:
        db.apply("f", copies((2, 2, 1), (1, 1, -(2**31))))
    assert (refused.value.table, refused.value.row) == ("f", 1)
    assert db.view("v0").count() == 2**63
    assert feed.read() == []
    feed.close()
    db.apply("f", copies((1, 1, -(2**31))))
    assert db.view("v0").count() == 0


def test_a_net_feed_that_cannot_tell_how_many_go_ends() -> None:
    """Each update's own change can be told, and their sum, −2⁶³, cannot."""
    db = database(f"SELECT x.a AS p {PATHS}")
    db.apply("e", copies((1, 1, 2**32)))
    db.apply("f", copies((1, 1, 2**30), (1, 2, 2**30)))
    feed = db.view("v0").changes()
    db.apply("f", copies((1, 1, -(2**30)), (1, 2, -(2**30))))
    assert db.view("v0").count() == 0
    with pytest.raises(ev.errors.FeedError, match="64 bits"):
        feed.read()


def test_differences_are_added_up_exactly() -> None:
    """Over several batches a row may have come more often than a word can say."""
    db = database(f"SELECT x.a AS p {PATHS}", history=5)
    versions = [db.version]
    db.apply("e", copies((1, 1, 2**31)))
    for b in range(3):
        db.apply("f", copies((1, b, 2**31)))
        versions.append(db.version)
    view = db.view("v0")
    assert view.count() == 3 * 2**62
    for since, wanted in ((versions[2], 2**62), (versions[3], None)):
        found = view.diff(since=since).to_pylist()
        assert [(row["p"], row["_change_type"], row["_count"]) for row in found] == (
            [(1, "insert", wanted)] if wanted else []
        )
    with pytest.raises(TooManyRowsError, match="64 bits"):
        view.diff(since=versions[1])
    db.apply("f", copies((1, 0, -(2**31))))
    (row,) = view.diff(since=versions[1]).to_pylist()
    assert (row["_change_type"], row["_count"]) == ("insert", 2**62)


def test_too_many_copies_are_told_as_such_wherever_they_are_met(tmp_path: Path) -> None:
    """Neither a snapshot that the view came from is to blame, nor an expression of a query."""
    db = database(
        f"SELECT x.a AS p {PATHS}", "SELECT x.a AS p, z.b AS q FROM e x, f y, e z WHERE x.b = y.a AND y.b = z.a"
    )
    db.sql(f"CREATE MATERIALIZED VIEW v2 OPTIONS (epsilon = 1/2) AS SELECT x.a AS p, y.b AS q {PATHS}")
    db.apply("e", copies((1, 1, 2**62)))
    db.apply("f", copies((1, 1, 2**62)))
    db.save(tmp_path / "saved")
    for one in (db, ev.Database.load(tmp_path / "saved")):
        for name in ("v0", "v1", "v2"):
            view = one.view(name)
            assert view.count() == (2**186 if name == "v1" else 2**124)
            for read in (partial(list, view), view.to_arrow, partial(view.page, limit=1), partial(view.sample, 1)):
                with pytest.raises(TooManyRowsError):
                    read()
            for query in (f"SELECT COUNT(*) AS n FROM {name}", f"SELECT DISTINCT p FROM {name}"):
                with pytest.raises(TooManyRowsError, match="64 bits"):
                    one.sql(query)
            with pytest.raises(TooManyRowsError, match="64 bits"):
                one.create_view("w", f"SELECT DISTINCT p FROM {name}")
            assert "w" not in one.views
        with pytest.raises(TooManyRowsError, match="e has"):
            one.sql("SELECT COUNT(*) AS n FROM e")
