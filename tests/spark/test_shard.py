"""A shard alone, without Spark."""

from __future__ import annotations

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
