"""Running a pipeline: start the query, tell of each batch, stop it when asked, and say why it failed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from functools import partial
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from everview.errors import EverviewError, PipelineError
from everview.spark.checkpoint.identity import MOVE
from everview.spark.checkpoint.pins import read_pins
from everview.spark.maintain import maintain
from everview.spark.materialize import materialize
from everview.spark.pipeline.failure import cause_of
from everview.spark.pipeline.frames import tables
from everview.spark.pipeline.model import Pipeline
from everview.spark.pipeline.progress import BatchDone, Progress
from everview.spark.restarting import restarting
from everview.spark.session import ending, parallelism
from everview.spark.targets import Target

LOOK_SECONDS: Final = 0.1
_OTHER_QUERY: Final = ("STATEFUL_OPERATOR_NOT_MATCH", "sources in the checkpoint offsets and now there are")
"""What Spark says of a checkpoint with more or fewer steps or sources, before ours are asked."""
OnBatch = Callable[[BatchDone], None]


class Ended(Enum):
    """How a query came to its end."""

    DONE = "done"
    STOPPED = "stopped"
    ABORTED = "aborted"


class Stop:
    """A wish to stop: at the end of the running batch, or, if it is uttered twice, at once."""

    def __init__(self) -> None:
        self.asked = 0
        self._event = threading.Event()

    def ask(self, *_: Any) -> None:
        """Utter it; takes what a signal handler is given."""
        self.asked += 1
        self._event.set()

    def wait(self, seconds: float) -> None:
        """Wait, but no longer than until it is uttered."""
        if self.asked:
            threading.Event().wait(seconds)
        else:
            self._event.wait(seconds)

    @contextmanager
    def on_signals(self) -> Iterator[Stop]:
        """SIGINT and SIGTERM utter it meanwhile."""
        kept = {s: signal.signal(s, self.ask) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in kept.items():
                signal.signal(number, handler)


def start(
    spark: SparkSession,
    pipeline: Pipeline,
    *,
    migrate: bool = False,
    targets: Mapping[str, Target] | None = None,
) -> StreamingQuery:
    """Start the pipeline's query; ``targets`` take the place of those that the file names."""
    frames, initial = tables(spark, pipeline)
    feed = maintain(
        spark,
        pipeline.sql,
        frames,
        shards=shards_of(spark, pipeline),
        schema=pipeline.schema,
        initial=initial or None,
        rates=pipeline.rates,
        bad_rows=pipeline.bad_rows,
        skip_batch=pipeline.skip_batch,
        memory_limit=pipeline.memory_limit,
        migrate=migrate,
        checkpoint=pipeline.checkpoint,
        options=pipeline.options,
    )
    if pipeline.feed is not None:
        writer = feed.writeStream.format(pipeline.feed.format).options(**dict(pipeline.feed.options))
        writer = writer.queryName(pipeline.name).option("checkpointLocation", pipeline.checkpoint)
        if pipeline.spark_trigger is not None:
            writer = writer.trigger(**pipeline.spark_trigger)
        return restarting(ending(spark, partial(writer.start, pipeline.feed.path), pipeline.spark_trigger))
    wanted: Mapping[str, Target | str | None] = targets or pipeline.targets
    return materialize(
        feed,
        {name: wanted.get(name) for name in pipeline.views},
        checkpoint=pipeline.checkpoint,
        dead_letter=pipeline.dead_letter,
        trigger=pipeline.spark_trigger,
        query_name=pipeline.name,
    )


def shards_of(spark: SparkSession, pipeline: Pipeline) -> int:
    """How many shards the pipeline has: as it says, or its checkpoint, or one a core."""
    if pipeline.shards is not None:
        return pipeline.shards
    pins = read_pins(pipeline.checkpoint, spark)
    return int(pins[0].parts["shards"]) if pins else parallelism(spark)


def follow(query: StreamingQuery, on_batch: OnBatch, stop: Stop, on_wait: Callable[[], None] = lambda: None) -> Ended:
    """Tell of every batch until the query ends; a wish to stop is heeded between two batches."""
    progress = Progress()
    wished: int | None = None
    while True:
        for batch in progress.new(query.recentProgress):
            on_batch(batch)
        if not query.isActive:
            _raise(query)
            for batch in progress.new(query.recentProgress):
                on_batch(batch)
            return Ended.STOPPED if stop.asked else Ended.DONE
        if stop.asked > 1:
            query.stop()
            return Ended.ABORTED
        if stop.asked:
            wished = progress.last if wished is None else wished
            if progress.last > wished or not query.status["isTriggerActive"]:
                query.stop()
                continue
        on_wait()
        stop.wait(LOOK_SECONDS)


def _raise(query: StreamingQuery) -> None:
    error = query.exception()
    if error is not None:
        raise failed(error)


def failed(error: BaseException) -> PipelineError:
    """The failure of a query as an error that says why."""
    if isinstance(error, PipelineError):
        return error
    if isinstance(error, EverviewError):
        return PipelineError(f"{type(error).__name__}: {error}")
    known = isinstance(error, StreamingQueryException)
    cause = cause_of(error)
    if any(sign in str(error) for sign in _OTHER_QUERY):
        return PipelineError(f"the checkpoint is that of another query: {cause}", hint=MOVE)
    return PipelineError(cause if known else f"Spark refused: {cause}")
