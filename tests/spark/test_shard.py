"""A shard alone, without Spark."""

from __future__ import annotations

import struct
from datetime import date, datetime
from math import nan
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.errors import MemoryLimitError
from everview.spark.exchange.arrow_blob import WEIGHT
from everview.spark.shard import shard as shards
from everview.spark.shard.shard import Shard, ShardSpec
from everview.sql import parse_schema, parse_view


def test_a_keyed_batch_that_nets_to_nothing_changes_nothing() -> None:
    schema = parse_schema("CREATE TABLE t (id BIGINT NOT NULL, city STRING, PRIMARY KEY (id))")
    view = parse_view("SELECT city, COUNT(*) AS n FROM t GROUP BY city", schema, "v")
    shard = Shard(ShardSpec(tuple(schema), (view,)))
    row = {"id": [1], "city": ["Cork"]}
    shard.apply({"t": [pa.table({**row, WEIGHT: pa.array([1], pa.int64())})]})
    same = {"id": [1, 1], "city": ["Cork", "Cork"], WEIGHT: pa.array([-1, 1], pa.int64())}
    outcome = shard.apply({"t": [pa.table(same)]})
    assert sum(b.num_rows for b in outcome.changes["v"]) == 0
    assert shard.db.view("v").to_arrow().to_pylist() == [{"city": "Cork", "n": 1}]


def test_rows_are_put_aside_in_two_runs() -> None:
    """However many there are, and whatever is wrong with them: all of them come back from the first run."""
    schema = parse_schema(
        "CREATE TABLE t (id BIGINT NOT NULL, city STRING CHECK (city IN ('Cork', 'Bray')), PRIMARY KEY (id))"
    )
    view = parse_view("SELECT city, COUNT(*) AS n FROM t GROUP BY city", schema, "v")
    shard = Shard(ShardSpec(tuple(schema), (view,), quarantine=True))
    ids = list(range(20))
    taken = {"id": ids, "city": ["Cork"] * 20, WEIGHT: pa.array([1] * 20, pa.int64())}
    shard.apply({"t": [pa.table(taken)]})
    wrong = {
        "id": [*ids, 30, 31, 40, 41],
        "city": ["Bray"] * 20 + ["Bray", "Cork", "Cork", "Cork"],
        WEIGHT: pa.array([1] * 20 + [1, 1, -1, -1], pa.int64()),
    }
    with patch.object(shards, "apply_weighted", wraps=shards.apply_weighted) as runs:
        outcome = shard.apply({"t": [pa.table(wrong)]})
    assert runs.call_count == 2
    assert len(outcome.bad) == outcome.refused == 22
    assert sum("already" in told for told in outcome.bad) == 20
    assert sum("which is not there" in told for told in outcome.bad) == 2
    assert sorted(shard.db.view("v")) == [("Bray", 1), ("Cork", 21)]
    bad = {"id": [50, 51, 52], "city": ["Rome", "Paris", "Bray"], WEIGHT: pa.array([1] * 3, pa.int64())}
    with patch.object(shards, "apply_weighted", wraps=shards.apply_weighted) as runs:
        outcome = shard.apply({"t": [pa.table(bad)]})
    assert runs.call_count == 2
    assert all("is not allowed by CHECK" in told for told in outcome.bad)
    assert len(outcome.bad) == 2


def test_a_batch_over_grouped_views_is_one_call() -> None:
    """Tables with keys, too, and both signs."""
    schema = parse_schema("CREATE TABLE t (id BIGINT NOT NULL, city STRING, PRIMARY KEY (id))")
    view = parse_view("SELECT city, COUNT(*) AS n FROM t GROUP BY city", schema, "v")
    shard = Shard(ShardSpec(tuple(schema), (view,)))
    first = {"id": [1, 2], "city": ["Cork", None], WEIGHT: pa.array([1, 1], pa.int64())}
    then = {"id": [1, 3], "city": ["Cork", "Bray"], WEIGHT: pa.array([-1, 1], pa.int64())}
    with patch("everview.engine.transaction.Transaction._applied", side_effect=AssertionError("the other way")):
        shard.apply({"t": [pa.table(first)]})
        outcome = shard.apply({"t": [pa.table(then)]})
    told = sorted((r["_change_type"], r["city"], r["n"]) for b in outcome.changes["v"] for r in b.to_pylist())
    assert told == [("delete", "Cork", 1), ("insert", "Bray", 1)]


def test_rows_that_only_pass_through_a_batch_are_netted_as_sql_sees_them() -> None:
    """One zero, one NaN: of rows that come and go in one batch nothing is left, in whatever order they stand."""
    schema = parse_schema("CREATE TABLE t (x DOUBLE, y FLOAT)")
    shard = Shard(ShardSpec(tuple(schema), (parse_view("SELECT x, y FROM t", schema, "v"),)))
    other_nan = struct.unpack("d", struct.pack("Q", 0xFFF8000000000001))[0]
    rows = {
        "x": pa.array([-0.0, 0.0, nan, other_nan, None, None]),
        "y": pa.array([0.0, -0.0, nan, nan, 1.5, 1.5], pa.float32()),
        WEIGHT: pa.array([-1, 1, 1, -1, -2, 3], pa.int64()),
    }
    (batch,) = shard.apply({"t": [pa.table(rows)]}).changes["v"]
    assert batch.to_pylist() == [{"x": None, "y": 1.5, "_change_type": "insert", "_count": 1}]


def test_what_goes_and_what_comes_in_one_batch_meet_nowhere() -> None:
    schema = parse_schema("CREATE TABLE e (a BIGINT, b BIGINT)")
    view = parse_view("SELECT e.a, e.b, f.b AS c FROM e JOIN e f ON e.b = f.a", schema, "v")
    shard = Shard(ShardSpec(tuple(schema), (view,)))
    changes = [(1, 2, 1), (2, 3, 1)], [(2, 3, -1), (2, 4, 1), (0, 1, 1), (1, 2, -1), (1, 5, 1)]
    for rows in changes:
        columns = zip(*rows, strict=True)
        table = pa.table(dict(zip(("a", "b", WEIGHT), (pa.array(c, pa.int64()) for c in columns), strict=True)))
        outcome = shard.apply({"e": [table]})
    told = sorted((r["a"], r["b"], r["c"], r["_change_type"]) for b in outcome.changes["v"] for r in b.to_pylist())
    assert told == [(0, 1, 5, "insert"), (1, 2, 3, "delete")]
    assert shard.db._views["v"].deltas == 3


def changed(rows: list[tuple[int | None, int, int]]) -> list[tuple[object, ...]]:
    """What a batch changes in a view that shows a table of rows (1, 2) and (NULL, 3)."""
    schema = parse_schema("CREATE TABLE t (a BIGINT, b INT)")
    shard = Shard(ShardSpec(tuple(schema), (parse_view("SELECT a, b FROM t", schema, "v"),)))
    for batch in ([(1, 2, 5), (None, 3, 5)], rows):
        a, b, weight = zip(*batch, strict=True)
        found = {"a": pa.array(a, pa.int64()), "b": pa.array(b, pa.int32()), WEIGHT: pa.array(weight, pa.int64())}
        outcome = shard.apply({"t": [pa.table(found)]})
    told = [r for b in outcome.changes["v"] for r in b.to_pylist()]
    return sorted((str(r["a"]), r["b"], r["_change_type"], r["_count"]) for r in told)


KNOWN = st.sampled_from([(1, 2), (None, 3)])
FREE = st.tuples(st.sampled_from([None, 0, 1, 2]), st.sampled_from([2, 3, 4]))
GOES = st.tuples(KNOWN, st.just(-1))
COMES = st.tuples(FREE, st.integers(1, 2))


@given(st.lists(st.one_of(GOES, COMES), min_size=1, max_size=5))
def test_a_batch_is_net_whether_its_rows_are_added_up_or_found_apart(drawn: list[tuple[tuple[int, int], int]]) -> None:
    rows = [(*row, weight) for row, weight in drawn]
    with patch.object(shards, "_may_meet", return_value=True):
        expected = changed(rows)
    assert changed(rows) == expected


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([7, 7], pa.int64()),
        ([-1, -1], pa.int8()),
        ([None, None], pa.int32()),
        ([date(2024, 2, 29)] * 2, pa.date32()),
        ([datetime(2024, 2, 29, 12)] * 2, pa.timestamp("us")),
        ([datetime(2024, 2, 29, 12)] * 2, pa.timestamp("us", "UTC")),
        (["same", "same"], pa.string()),
        ([1.5, 1.5], pa.float64()),
    ],
)
def test_equal_rows_of_both_signs_are_found(values: list[object], kind: pa.DataType) -> None:
    weights = pa.array([1, -1], pa.int64())
    assert shards._may_meet(pa.table({"x": pa.array(values, kind), WEIGHT: weights}))


def test_rows_of_one_sign_or_with_other_numbers_need_not_be_added_up() -> None:
    def table(values: list[int], weights: list[int]) -> pa.Table:
        when = pa.array([date(2024, 2, 29)] * len(values))
        return pa.table({"when": when, "n": values, WEIGHT: pa.array(weights, pa.int64())})

    assert not shards._may_meet(table([1, 1], [1, 2]))
    assert not shards._may_meet(table([1, 1], [-1, -2]))
    assert not shards._may_meet(table([1, 2, 3], [1, -1, 1]))
    assert shards._may_meet(table([1, 2, 1], [1, -1, -1]))


@pytest.mark.parametrize(
    "text", ["repeat(s, n)", "lpad(s, n, 'x')", "rpad(s, n, 'x')", "space(n)", "replace(s, 'a', repeat('b', n))"]
)
@pytest.mark.parametrize("quarantine", [False, True])
def test_texts_that_a_view_makes_keep_within_the_shards_memory_limit(text: str, quarantine: bool) -> None:
    """No row is put aside for it, nothing has changed, and little memory was taken on the way."""
    schema = parse_schema("CREATE TABLE t (s STRING, n INT)")
    view = parse_view(f"SELECT length({text}) AS size FROM t", schema, "v")
    shard = Shard(ShardSpec(tuple(schema), (view,), quarantine=quarantine, memory_limit=50_000_000))

    def rows(n: int) -> dict[str, list[pa.Table]]:
        return {"t": [pa.table({"s": ["a"], "n": pa.array([n], pa.int32()), WEIGHT: pa.array([1], pa.int64())})]}

    shard.apply(rows(1_000))
    with pytest.raises(MemoryLimitError, match="bytes of text, and the memory limit leaves"):
        shard.apply(rows(400_000_000))
    with pytest.raises(MemoryLimitError):
        shard.load(rows(400_000_000))
    assert list(shard.db.view("v")) == [(1_000,)]
    assert [(name, rows) for name, _, rows in shard.dump()] == [("t", 1)]
