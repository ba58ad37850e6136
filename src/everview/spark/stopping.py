"""What is cleared away when a query stops: the processes of its shards on the driver's machine."""

from __future__ import annotations

from threading import Thread
from time import sleep
from weakref import WeakSet

from pyspark.sql import SparkSession

from everview.spark.sockets import dismiss

LOOK_SECONDS = 0.5
_watched: WeakSet[SparkSession] = WeakSet()


def end_shards_with_queries(spark: SparkSession) -> None:
    """From now on, end the shards' processes of every query of the session when it stops.

    Only the driver hears of it: on other machines they end with their executor, or when they are idle for long. A
    thread looks now and then which queries there are: a listener of Spark's would be told of every batch as well, and
    bringing that from Java to Python takes a tenth of a second each time.
    """
    if spark not in _watched:
        _watched.add(spark)
        Thread(target=_watch, args=(spark,), name="everview-stopping", daemon=True).start()


def _watch(spark: SparkSession) -> None:
    """Until the session ends: a query that was there and is not any more, has stopped."""
    running: set[str] = set()
    while getattr(spark.sparkContext, "_jsc", None) is not None:
        try:
            now = {str(query.id) for query in spark.streams.active}
        except Exception:  # It has been stopped just now, or its JVM is gone: the processes end with it.
            return
        for query in running - now:
            dismiss(query)
        running = now
        sleep(LOOK_SECONDS)
