"""What is cleared away when a query stops: the processes of its shards, on the driver's machine and on all others."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial
from threading import Thread
from time import sleep
from weakref import WeakSet

from pyspark.sql import SparkSession

from everview.spark.shard.job_key import job_key
from everview.spark.shard.sockets import dismiss

log = logging.getLogger("everview.spark")

LOOK_SECONDS = 0.5
SPREAD_SECONDS = 0.5
"""So long a task that clears a machine keeps its core, so that the others go to other cores, and so to all machines."""
_watched: WeakSet[SparkSession] = WeakSet()


def end_shards_with_queries(spark: SparkSession) -> None:
    """From now on, end the shards' processes of every query of the session when it stops.

    Only the driver hears of it. A thread looks now and then which queries there are: a listener of Spark's would be
    told of every batch as well, and bringing that from Java to Python takes a tenth of a second each time.
    """
    if spark not in _watched:
        _watched.add(spark)
        Thread(target=_watch, args=(spark,), name="everview-stopping", daemon=True).start()


def _watch(spark: SparkSession) -> None:
    """Until the session ends: a query that was there and is not any more, has stopped."""
    running: set[str] = set()
    while getattr(spark.sparkContext, "_jsc", None) is not None:
        try:
            now = _running(spark)
        except Exception:  # It has been stopped just now, or its JVM is gone: the processes end with it.
            return
        ended = running - now
        running = now
        for query in ended:
            dismiss(query, job_key())
        if ended and _has_executors(spark):
            Thread(target=_dismiss_elsewhere, args=(spark, ended), name="everview-dismissing", daemon=True).start()
        sleep(LOOK_SECONDS)


def _running(spark: SparkSession) -> set[str]:
    return {str(query.id) for query in spark.streams.active}


def _has_executors(spark: SparkSession) -> bool:
    """True if tasks run in processes of their own, which may be on other machines."""
    return str(spark.sparkContext.master).partition("[")[0] != "local"


def _dismiss_elsewhere(spark: SparkSession, queries: set[str]) -> None:
    """Have every executor take the sockets of stopped queries away, by a job with a task for each core.

    Where no task comes, as the cluster is busy, the processes end with their executor, or when they are idle for long.
    """
    try:
        ended = queries - _running(spark)  # One that was started again needs them.
        if not ended:
            return
        context = spark.sparkContext
        context.setJobDescription("Everview: end the processes of stopped queries")
        tasks = max(1, context.defaultParallelism)
        context.parallelize(range(tasks), tasks).foreachPartition(partial(_dismiss_here, sorted(ended), job_key()))
    except Exception as error:  # Spark ends, or refuses: then the processes end with it, or by themselves.
        log.info("processes of stopped queries may stay on other machines for a while: %s", error)


def _dismiss_here(queries: list[str], key: bytes, _: Iterable[int]) -> None:
    for query in queries:
        dismiss(query, key)
    sleep(SPREAD_SECONDS)
