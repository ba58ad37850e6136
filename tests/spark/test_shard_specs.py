"""What Spark has to carry to the workers that are to keep shards."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

from pyspark.serializers import CloudPickleSerializer

from everview.spark.checkpoint.identity import Identity
from everview.spark.checkpoint.pins import plan_over
from everview.spark.exchange.shard_specs import specs_of
from everview.spark.shard.operator import ShardOperator
from everview.sql import parse_schema

TPCH = Path(__file__).parents[2] / "benchmarks" / "workloads" / "tpch"
MOST_WITHOUT_BROADCAST = 1 << 20
"""What Spark takes along with a task (spark.broadcast.UDFCompressionThreshold); more is broadcast."""


def test_many_views_on_many_shards_need_no_broadcast() -> None:
    """Where Spark asks an operator for its state's schema, on the driver, there are no broadcasts: the query failed."""
    texts = {p.stem: p.read_text(encoding="utf-8") for p in sorted(TPCH.glob("q*.sql"))}
    views = {name: re.sub(r"LIMIT \d+\s*$", "", text) for name, text in texts.items()}
    schema = parse_schema((TPCH / "schema.sql").read_text(encoding="utf-8"))
    level = plan_over(views, schema, 12).distribution.first
    specs = specs_of(level, quarantine=False, memory_limit=None)
    operator = ShardOperator(specs, Identity(""), list(range(12)))
    assert len(CloudPickleSerializer().dumps(operator)) < MOST_WITHOUT_BROADCAST / 4
    assert sum(len(zlib.decompress(spec)) for spec in specs) > MOST_WITHOUT_BROADCAST
