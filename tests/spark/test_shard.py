"""A shard alone, without Spark."""

from __future__ import annotations

import struct
from math import nan

import pyarrow as pa

from everview.spark.blobs import WEIGHT
from everview.spark.shard import Shard, ShardSpec
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
