"""What a Spark session needs for stateful Python operators, set where the user has not chosen otherwise."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from everview.errors import PipelineError

log = logging.getLogger("everview.spark")

PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGELOG: Final = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
PARTITIONS: Final = "spark.sql.shuffle.partitions"
IDLE_BATCHES: Final = "spark.sql.streaming.noDataMicroBatches.enabled"
PATIENT: Final = {"spark.python.authenticate.socketTimeout": "600s"}
"""For whoever creates a session: how long Spark's processes wait for each other's secrets; 15 s are too short."""
SPARKS_OWN: Final = "200"
"""Spark's default number of shuffle partitions: a state store each, and so seconds a batch."""
_OURS: Final = "spark.everview.shuffle.partitions"
"""The number of them that we have set, if we have: another query may have another one."""


def parallelism(spark: SparkSession) -> int:
    """How many shards make use of the cluster there is: one a core."""
    return max(1, spark.sparkContext.defaultParallelism)


def configure(spark: SparkSession, shards: int) -> None:
    """Set what has to be set for a query with so many shards."""
    need_rocksdb(spark)
    if not _is_chosen(spark, CHANGELOG):
        spark.conf.set(CHANGELOG, "true")
    now = spark.conf.get(PARTITIONS)
    if not _is_chosen(spark, PARTITIONS) and now in (SPARKS_OWN, spark.conf.get(_OURS, None)):
        spark.conf.set(PARTITIONS, str(shards))
        spark.conf.set(_OURS, str(shards))
        log.info("set %s=%d, the number of shards", PARTITIONS, shards)


def ending(
    spark: SparkSession, start: Callable[[], StreamingQuery], trigger: Mapping[str, Any] | None
) -> Callable[[], StreamingQuery]:
    """How a query is started that, if it is to end once it has taken in what there is, ends.

    Where views go by the clock there is a batch more whenever Spark asks, and there would be no end of them.
    """
    if not (trigger or {}).get("availableNow"):
        return start

    def started() -> StreamingQuery:
        before = spark.conf.get(IDLE_BATCHES, "true") or "true"
        spark.conf.set(IDLE_BATCHES, "false")
        try:
            return start()
        finally:
            spark.conf.set(IDLE_BATCHES, before)

    return started


def need_rocksdb(spark: SparkSession) -> None:
    """Set the state store that stateful Python operators need; refuse another that was chosen."""
    provider = spark.conf.get(PROVIDER, "") or ""
    if provider != ROCKSDB:
        if provider and not provider.endswith("HDFSBackedStateStoreProvider"):
            raise PipelineError(
                f"the session's state store is {provider}, and Spark's stateful Python operators need RocksDB",
                hint=f"set {PROVIDER}={ROCKSDB}",
            )
        spark.conf.set(PROVIDER, ROCKSDB)
        log.info("set %s=%s: stateful Python operators need it", PROVIDER, ROCKSDB)


def _is_chosen(spark: SparkSession, name: str) -> bool:
    """True if the session was started with the setting."""
    return spark.sparkContext.getConf().contains(name)


def shard_keys(shards: int) -> list[int]:
    """A key for each shard, such that Spark's hash spreads them evenly over as many partitions.

    Keys 0, 1, 2, … may all fall into one partition, and then one task does all the work. The keys are part of a
    checkpoint, so they depend on nothing else, such as the session's number of partitions.
    """
    keys: list[int] = []
    for shard in range(shards):
        key = 0
        while _murmur3(key) % shards != shard or key in keys:
            key += 1
        keys.append(key)
    return keys


def _murmur3(key: int, seed: int = 42) -> int:
    """Spark's hash of an INT: Murmur3 for 32 bits, as a signed number."""
    mask = 0xFFFFFFFF

    def rotated(x: int, by: int) -> int:
        return ((x << by) | (x >> (32 - by))) & mask

    k = rotated(key * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    h = (rotated(seed ^ k, 13) * 5 + 0xE6546B64) & mask
    h ^= 4
    h = (h ^ (h >> 16)) * 0x85EBCA6B & mask
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h
