"""Bugs that the random cases have found, each as small as it gets."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

import everview as ev
from everview.engine import view_runtime
from everview.errors import DataError, FeedError, MemoryLimitError, SubscriberError


def made(*statements: str) -> ev.Database:
    db = ev.Database()
    for statement in statements:
        db.sql(statement)
    return db


def changes(feed: Any) -> list[tuple[Any, ...]]:
    """Update, kind, count and row of all that a per-update feed holds."""
    found = []
    for batch in feed.read():
        for row in batch.to_pylist():
            kind, count, update = row.pop("_change_type"), row.pop("_count"), row.pop("_update", None)
            row.pop("_commit_version")
            found.append((update, kind, count, *row.values()))
    return found


def test_count_distinct_of_strings() -> None:
    """Counting distinct values made numbers of them first."""
    db = made("CREATE TABLE t (a INT, s STRING)", "CREATE MATERIALIZED VIEW v AS SELECT COUNT(DISTINCT s) AS n FROM t")
    db.insert("t", [(1, "b"), (2, "b"), (3, None), (4, "")])
    assert list(db.view("v")) == [(2,)]


def test_two_subqueries_with_the_same_aliases() -> None:
    """Two atoms had one label, and so one table."""
    db = made(
        "CREATE TABLE t (a INT, b INT)",
        """CREATE MATERIALIZED VIEW v AS WITH c AS (SELECT x.a, y.b FROM t x JOIN t y ON x.b = y.a)
           SELECT p.a, q.b, SUM(p.b) AS n FROM c p JOIN c q ON p.b = q.a GROUP BY p.a, q.b""",
    )
    db.insert("t", [(1, 1), (1, 2)])
    assert sorted(db.view("v")) == [(1, 1, 1), (1, 2, 1)]


def test_failed_batch_leaves_no_empty_groups() -> None:
    """Taking values back left accumulators of groups that were never there."""
    db = made(
        "CREATE TABLE t (a INT, b STRING, c DOUBLE)",
        "CREATE MATERIALIZED VIEW v AS SELECT a, MIN(b) AS m, SUM(c) AS s FROM t GROUP BY a",
    )
    (total,) = db._views["v"].result.valued  # type: ignore[attr-defined]
    db.insert("t", [(0, "w", 0.5)])
    assert len(total.states) == 1
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT SUM(a * CAST(9223372036854775807 AS BIGINT)) AS n FROM t")
    with pytest.raises(DataError, match="it leaves the 64 bits of BIGINT"):
        db.insert("t", [(1, "x", 1.5), (1, "y", 2.5)])
    assert len(total.states) == 1
    assert list(db.view("v")) == [(0, "w", 0.5)]


def test_updates_of_a_grouped_view_one_by_one() -> None:
    """A grouped view whose rows are its core's was taken for one that knows its updates."""
    db = made(
        "CREATE TABLE t (a INT, b INT)", "CREATE MATERIALIZED VIEW v AS SELECT b, COUNT(a) AS n FROM t GROUP BY b"
    )
    feed = db.view("v").changes(per_update=True)
    db.insert("t", [(1, 2), (2, 3), (5, 2)])
    assert changes(feed) == [
        (0, "insert", 1, 2, 1),
        (1, "insert", 1, 3, 1),
        (2, "update_preimage", 1, 2, 1),
        (2, "update_postimage", 1, 2, 2),
    ]


def test_updates_of_a_view_over_a_view_one_by_one() -> None:
    """Behind a grouped view, all of a batch was told as its first update; and old and new rows that joined alike."""
    db = made(
        "CREATE TABLE t (a INT, b INT)",
        "CREATE MATERIALIZED VIEW g AS SELECT b, COUNT(a) AS n FROM t GROUP BY b",
        "CREATE MATERIALIZED VIEW v AS SELECT b FROM g",
    )
    feed = db.view("v").changes(per_update=True)
    db.insert("t", [(1, 2), (2, 3), (5, 2)])
    assert changes(feed) == [(0, "insert", 1, 2), (1, "insert", 1, 3)]


def test_opening_a_feed_twice_and_closing_it_keeps_no_strings() -> None:
    """Every feed counted the group's strings again, and none let them go."""
    db = made("CREATE TABLE t (s STRING)", "CREATE MATERIALIZED VIEW v AS SELECT s, COUNT(*) AS n FROM t GROUP BY s")
    db.insert("t", [("a",), ("b",)])
    first, second = db.view("v").changes(), db.view("v").changes()
    first.close()
    second.close()
    db.delete("t", [("a",), ("b",)])
    assert len(db._dictionary) == 0


def test_sums_of_doubles_beyond_the_largest() -> None:
    db = made("CREATE TABLE t (a DOUBLE)", "CREATE MATERIALIZED VIEW v AS SELECT SUM(a) AS s, STDDEV(a) AS d FROM t")
    db.insert("t", [(1e308,), (1e308,), (1.0,)])
    ((total, deviation),) = list(db.view("v"))
    assert total == math.inf
    assert deviation == math.inf
    db.delete("t", [(1e308,), (1e308,)])
    assert list(db.view("v")) == [(1.0, None)]


def test_doubles_that_come_and_go_leave_no_trace() -> None:
    db = made(
        "CREATE TABLE t (k INT, a DOUBLE)",
        "CREATE MATERIALIZED VIEW v AS SELECT k, SUM(a) AS s, AVG(a) AS m FROM t GROUP BY k",
    )
    db.insert("t", [(1, 0.1), (1, 0.2), (1, 0.3)])
    before = list(db.view("v"))
    for values in ([1e17, 1e-17], [math.pi, -1e300], [math.inf, math.nan]):
        db.insert("t", [(1, x) for x in values])
        db.delete("t", [(1, x) for x in values])
        assert list(db.view("v")) == before
    assert before[0][1] == math.fsum([0.1, 0.2, 0.3])


def test_long_decimals_are_summed_exactly() -> None:
    """Sums went through Python's decimals of 28 digits."""
    db = made(
        "CREATE TABLE t (a DECIMAL(33, 3))",
        "CREATE MATERIALIZED VIEW v AS SELECT SUM(a) AS s, SUM(DISTINCT a) AS d FROM t",
    )
    large = Decimal("123456789012345678901234567890.123")
    db.insert("t", [(large,), (large,), (Decimal("0.001"),)])
    assert list(db.view("v")) == [
        (Decimal("246913578024691357802469135780.247"), Decimal("123456789012345678901234567890.124"))
    ]


def test_a_batch_over_the_memory_limit_changes_nothing() -> None:
    """Folds let go of half a batch when the limit was reached while they were settled."""
    statements = (
        "CREATE TABLE t (a INT, s STRING)",
        "CREATE MATERIALIZED VIEW v AS SELECT DISTINCT upper(s) AS u FROM t",
        "CREATE MATERIALIZED VIEW g AS SELECT s, COUNT(*) AS n, MIN(a) AS m FROM t GROUP BY s",
        "CREATE MATERIALIZED VIEW e AS SELECT s FROM t EXCEPT SELECT s FROM t WHERE a > 3",
    )
    rows = [(i, f"s{i}") for i in range(500)]
    probe = made(*statements)
    empty = probe.nbytes()
    probe.insert("t", rows)
    full = probe.nbytes()
    for share in (0.05, 0.2, 0.4, 0.6, 0.8, 0.95):
        db = made(*statements)
        db.insert("t", [(1, "one"), (5, "five")])
        feeds = [db.view(name).changes() for name in db.views]
        before = {name: sorted(db.view(name)) for name in db.views}
        db.memory_limit = empty + int(share * (full - empty))
        with pytest.raises(MemoryLimitError):
            db.insert("t", rows)
        assert {name: sorted(db.view(name)) for name in db.views} == before
        assert not any(feed.read() for feed in feeds)
        db.memory_limit = None
        db.insert("t", rows)
        assert len(db.view("v")) == 502
        db.delete("t", [*rows, (1, "one"), (5, "five")])
        assert [len(db.view(name)) for name in db.views] == [0, 0, 0]
        assert len(db._dictionary) == 0


def test_a_script_whose_second_view_fails_changes_nothing() -> None:
    """The first view's feeds stayed behind and broke the next batch, and the strings of both stayed in use."""
    db = made("CREATE TABLE t (a BIGINT, s STRING)")
    db.insert("t", [(2**62, "x"), (2**62, "x")])
    with pytest.raises(DataError):
        db.sql(
            """CREATE MATERIALIZED VIEW v AS SELECT DISTINCT upper(s) AS u FROM t;
               CREATE MATERIALIZED VIEW w AS SELECT s, SUM(a) AS n FROM t GROUP BY s"""
        )
    assert db.views == ()
    db.insert("t", [(1, "y")])
    db.delete("t", [(2**62, "x"), (2**62, "x"), (1, "y")])
    assert len(db._dictionary) == 0


def test_overflow_names_the_row() -> None:
    db = made(
        "CREATE TABLE t (k INT, a BIGINT)", "CREATE MATERIALIZED VIEW v AS SELECT k, SUM(a) AS n FROM t GROUP BY k"
    )
    for per_update in (False, True):
        feed = db.view("v").changes(per_update=per_update)
        with pytest.raises(DataError, match="64 bits") as caught:
            db.insert("t", [(1, 5), (2, 2**62), (3, 1), (2, 2**62)])
        assert (caught.value.table, caught.value.row) == ("t", 3)
        assert not feed.read()
    assert list(db.view("v")) == []


def test_what_shrinks_the_state_is_done_over_the_memory_limit() -> None:
    db = made("CREATE TABLE t (a INT)", "CREATE MATERIALIZED VIEW v AS SELECT DISTINCT a FROM t")
    db.insert("t", [(i,) for i in range(1000)])
    db.memory_limit = 1
    with pytest.raises(MemoryLimitError):
        db.insert("t", [(i,) for i in range(1000, 5000)])
    db.delete("t", [(i,) for i in range(1000)])
    assert list(db.view("v")) == []


def test_a_subscriber_that_fails_keeps_nothing_from_the_others() -> None:
    """The batch is committed: every other feed hears of it, and the error comes out at the end."""
    db = made("CREATE TABLE t (s STRING)", "CREATE MATERIALIZED VIEW v AS SELECT upper(s) AS u FROM t")

    def broken(batch: object) -> None:
        raise RuntimeError("no")

    db.view("v").subscribe(broken)
    feed = db.view("v").changes()
    with pytest.raises(SubscriberError, match="raised RuntimeError: no; the batch itself was applied"):
        db.insert("t", [("a",)])
    assert changes(feed) == [(None, "insert", 1, "A")]
    assert list(db.view("v")) == [("A",)]
    with pytest.raises(SubscriberError) as caught:
        db.delete("t", [("a",)])
    assert (caught.value.version, caught.value.view) == (2, "v") == (db.version, "v")
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert len(db._dictionary) == 0


def test_the_word_of_null_is_in_no_view() -> None:
    db = made("CREATE TABLE t (a BIGINT)", "CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
    db.insert("t", [(None,)])
    assert (None,) in db.view("v")
    assert (-(2**63),) not in db.view("v")


def test_a_computed_string_is_found_before_anyone_has_listed_the_view() -> None:
    db = made("CREATE TABLE t (s STRING)", "CREATE MATERIALIZED VIEW v AS SELECT upper(s) AS u FROM t")
    db.insert("t", [("a",), ("b",)])
    assert ("B",) in db.view("v")
    assert ("b",) not in db.view("v")


def test_count_if_of_nothing_is_none_at_all() -> None:
    db = made(
        "CREATE TABLE t (a INT)", "CREATE MATERIALIZED VIEW v AS SELECT COUNT_IF(a > 1) AS n, COUNT(a) AS m FROM t"
    )
    db.insert("t", [(None,)])
    assert list(db.view("v")) == [(0, 0)]


def test_a_batch_whose_way_back_overflows_is_still_undone() -> None:
    """Taking A back meets another state between its two occurrences than putting it in did, and that one overflows."""
    big = 2**62
    db = made(
        "CREATE TABLE e (src INT, dst INT, v BIGINT, s STRING)",
        "CREATE MATERIALIZED VIEW v AS SELECT SUM(x.v) AS n, MIN(x.s) AS m FROM e x JOIN e y ON x.dst = y.src",
        "CREATE MATERIALIZED VIEW w AS SELECT n, m, upper(s) AS u FROM v, e",
    )
    rows = [(5, 1, big, "b1"), (5, 1, big // 2, "b2"), (1, 7, 0, "c"), (8, 3, big, "d")]
    db.insert("e", rows)
    feeds = [db.view(name).changes() for name in db.views]
    before = {name: sorted(db.view(name)) for name in db.views}
    view = db.view("v")
    assert before["v"] == [(big + big // 2, "b1")]
    with pytest.raises(DataError), db.batch() as batch:  # noqa: PT012
        batch.insert("e", [(3, 1, -big, "a")])
        batch.delete("e", [(0, 0, 0, "not there")])
    assert {name: sorted(db.view(name)) for name in db.views} == before
    assert list(view) == before["v"]
    assert not any(feed.read() for feed in feeds)
    db.insert("e", [(9, 9, 1, "z")])
    assert sorted(view) == [(big + big // 2 + 1, "b1")]
    assert [len(f.read()) for f in feeds] == [1, 1]
    db.delete("e", [*rows, (9, 9, 1, "z")])
    assert list(view) == [(None, None)]
    assert len(db._dictionary) == 0


def test_a_number_that_the_other_columns_type_cannot_hold_joins_nothing_and_fails_nothing() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE small (k INT); CREATE TABLE large (n BIGINT)")
    db.sql("""
        CREATE MATERIALIZED VIEW sums AS SELECT l.n, SUM(s.k) AS total FROM large l JOIN small s ON s.k = l.n
          GROUP BY l.n;
        CREATE MATERIALIZED VIEW more AS SELECT s.k + 1 AS next, s.k % 2 AS odd FROM large l JOIN small s ON s.k = l.n
          WHERE s.k * 2 < 100;
        CREATE MATERIALIZED VIEW computed AS SELECT s.k FROM large l JOIN small s ON s.k = l.n - 1
    """)
    db.insert("large", [(10**12,), (3,), (4,), (-(10**12),)])
    db.insert("small", [(3,), (3,)])
    assert list(db.view("sums")) == [(3, 6)]
    assert list(db.view("more")) == [(4, 1), (4, 1)]
    assert list(db.view("computed")) == [(3,), (3,)]
    db.delete("large", [(10**12,), (3,), (4,)])
    assert not any(list(db.view(name)) for name in ("sums", "more", "computed"))


def test_changed_rows_are_said_only_where_they_were_counted() -> None:
    db = made("CREATE TABLE t (a INT)", "CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
    db.insert("t", [(1,), (2,)])
    stats = db.view("v").stats()
    assert (stats["updates"], stats["counted_updates"]) == (2, 0)
    assert stats["deltas"] is stats["amplification"] is None
    assert "changed rows: not counted" in str(db.view("v").explain(analyze=True))
    with db.view("v").changes():
        db.insert("t", [(3,)])
        db.delete("t", [(3,)])
    db.insert("t", [(4,)])
    stats = db.view("v").stats()
    assert (stats["updates"], stats["counted_updates"], stats["deltas"], stats["amplification"]) == (5, 2, 2, 1.0)
    assert "2 changed rows (1.00 an update of the 2 counted)" in str(db.view("v").explain(analyze=True))


def test_copies_that_double_in_every_stage_are_numbers_and_not_rows() -> None:
    """One row of e is 2^35 of the view; they were passed on one by one, 4 GB of them before memory ran out."""
    doubled = "".join(f", c{i} AS (SELECT s FROM c{i - 1} UNION ALL SELECT s FROM c{i - 1})" for i in range(1, 36))
    db = ev.Database()
    db.sql(f"CREATE TABLE e (s STRING); CREATE VIEW v AS WITH c0 AS (SELECT s FROM e){doubled} SELECT s FROM c35")
    db.insert("e", [("x",), ("y",), ("x",)])
    assert len(db.view("v")) == 3 << 35
    db.delete("e", [("x",)])
    assert len(db.view("v")) == 2 << 35
    db.delete("e", [("x",), ("y",)])
    assert len(db.view("v")) == 0
    assert not len(db._dictionary.to_state()["string"])


def test_a_stage_that_changes_in_many_rows_is_read_as_it_is() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE a (k INT, x INT); CREATE TABLE b (k INT, y INT)")
    db.sql(
        "CREATE VIEW v AS SELECT y, n FROM (SELECT b.y, COUNT(*) AS n FROM a JOIN b ON a.k = b.k GROUP BY b.y) g "
        "JOIN (SELECT DISTINCT y AS z FROM b) d ON g.y = d.z WHERE n > 0"
    )
    db.insert("b", [(1, y) for y in range(100)])
    db.insert("a", [(1, 5)])
    db.insert("a", [(1, 6), (2, 7)])
    assert sorted(db.view("v")) == [(y, 2) for y in range(100)]
    db.delete("a", [(1, 5), (1, 6)])
    assert list(db.view("v")) == []


SEVENFOLD = "SELECT t0.a FROM " + ", ".join(f"t t{i}" for i in range(7))
"""600 copies of a row give more than 2⁶³."""


def test_what_a_refused_batch_added_up_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes of a stage were left half added up, and came with the next batch."""
    monkeypatch.setattr(view_runtime, "_MANY_COPIES", 0)
    twice = f"{SEVENFOLD} UNION ALL {SEVENFOLD}"
    db = made("CREATE TABLE t (a INT)", f"CREATE VIEW v AS SELECT a, count(*) AS n FROM ({twice}) u GROUP BY a")
    db.insert("t", [(1,)])
    with pytest.raises(DataError, match="nothing has changed"):
        db.insert("t", [(1,)] * 560)
    db.insert("t", [(2,)])
    assert sorted(db.view("v")) == [(1, 128), (2, 128)]


def test_a_feed_that_cannot_tell_so_many_copies_ends_and_refuses_no_batch() -> None:
    """The batch was applied, and the call said that nothing had changed; later feeds told what was left of it."""
    db = made("CREATE TABLE t (a INT)", f"CREATE VIEW v AS {SEVENFOLD}")
    db.insert("t", [(1,)])
    feed, other = db.view("v").changes(), db.view("v").changes(per_update=True)
    db.insert("t", [(1,)] * 600)
    assert len(db.table("t")) == 601
    with pytest.raises(FeedError, match="more copies than 64 bits hold"):
        feed.read()
    assert sum(row[2] for row in changes(other)) == 601**7 - 1
    told: list[Any] = []
    db.view("v").subscribe(told.append)
    with pytest.raises(SubscriberError, match="the batch itself was applied"):
        db.delete("t", [(1,)] * 600)
    db.insert("t", [(1,)] * 600)
    assert not told
    db.delete("t", [(1,)] * 600)
    fresh = db.view("v").changes()
    db.insert("t", [(2,)])
    assert sorted(changes(fresh)) == [(None, "insert", 63, 1), (None, "insert", 64, 2)]
