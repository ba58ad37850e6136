"""When a query stops: the processes of its shards on this machine have nothing to do any more."""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from everview.spark.sockets import dismiss

_watched: WeakSet[SparkSession] = WeakSet()


def end_shards_with_queries(spark: SparkSession) -> None:
    """From now on, end the shards' processes of every query of the session when it stops.

    Only the driver hears of it: on other machines they end with their executor, or when they are idle for long.
    """
    if spark not in _watched:
        _watched.add(spark)
        spark.streams.addListener(_Dismissal(spark))


class _Dismissal(StreamingQueryListener):
    def __init__(self, spark: SparkSession) -> None:
        self._session = spark

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        pass

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        query = str(event.id)
        if all(str(q.id) != query for q in self._session.streams.active):  # It may have been started again.
            dismiss(query)
