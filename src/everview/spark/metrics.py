"""Figures of a running query: per shard and view, as Spark's observed metrics and as one table."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from everview.spark.shard.operator import BAD, CHANGES, METRICS

NAME = "everview"
"""Of the observed metrics in a query's progress."""


def observed(packed: DataFrame) -> DataFrame:
    """The same packed rows, with figures in the query's progress."""
    of = F.col("kind")
    return packed.observe(
        NAME,
        F.sum(F.when(of == CHANGES, F.col("rows")).otherwise(0)).alias("deltas"),
        F.sum(F.when(of == BAD, 1).otherwise(0)).alias("bad_rows"),
        F.collect_list(F.when(of == METRICS, F.col("info"))).alias("shards"),
    )


def batch_metrics(progress: Any) -> dict[str, Any]:
    """What one entry of a query's progress says: deltas, bad rows, and a dict for each shard that did anything."""
    found = progress["observedMetrics"] if isinstance(progress, dict) else progress.observedMetrics
    row = found.get(NAME)
    if row is None:
        return {"deltas": 0, "bad_rows": 0, "shards": []}
    values = row.asDict() if hasattr(row, "asDict") else dict(row)
    shards = sorted((json.loads(s) for s in values.get("shards") or []), key=lambda s: (s["level"], s["shard"]))
    return {"deltas": values.get("deltas") or 0, "bad_rows": values.get("bad_rows") or 0, "shards": shards}


def stats(query: StreamingQuery) -> dict[str, Any]:
    """Figures of a running query: its latest batch, and the latest of every shard.

    ``shards`` holds for each shard its rows by table, bytes, updates, deltas, rebuilds and the cause of the last one,
    and figures of each view, among them, as ``failing``, why it has no result now, if that is so.
    """
    latest: dict[tuple[int, int], dict[str, Any]] = {}
    deltas = bad = batches = 0
    for progress in query.recentProgress:
        found = batch_metrics(progress)
        batches += 1
        deltas += found["deltas"]
        bad += found["bad_rows"]
        for shard in found["shards"]:
            key = (shard["level"], shard["shard"])
            cause = shard.get("rebuilt") or latest.get(key, {}).get("last_rebuild")
            latest[key] = shard | {"last_rebuild": cause}
    shards = [latest[k] for k in sorted(latest)]
    return {
        "batches": batches,
        "deltas": deltas,
        "bad_rows": bad,
        "bytes": sum(s.get("bytes", 0) for s in shards),
        "stored": sum(s.get("stored", 0) for s in shards),
        "rebuilds": sum(s.get("rebuilds", 0) for s in shards),
        "shards": shards,
    }
