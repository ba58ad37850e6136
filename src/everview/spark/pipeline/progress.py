"""What a batch did, from Spark's progress: the figures that status lines and logs show."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from everview.spark.metrics import batch_metrics


@dataclass(frozen=True)
class BatchDone:
    """A batch: its number, what went in and what came out, how long it took, and the state after it."""

    batch: int
    timestamp: str
    rows: int
    deltas: int
    bad_rows: int
    seconds: float
    state_bytes: int
    stored_bytes: int
    shards: tuple[dict[str, Any], ...]
    sources: tuple[dict[str, Any], ...]
    failing: tuple[str, ...] = ()
    """Of each view that has no result now, why; its target has no row."""

    @property
    def rows_per_second(self) -> float:
        """Rows of the sources, over the whole time that the batch took."""
        return self.rows / self.seconds if self.seconds else 0.0

    @property
    def deltas_per_second(self) -> float:
        """Rows of the feed, likewise."""
        return self.deltas / self.seconds if self.seconds else 0.0

    @property
    def behind(self) -> int | None:
        """How many records, or versions of a table, the sources had beyond the batch; None if none of them says it."""
        known = [s["behind"] for s in self.sources if s.get("behind") is not None]
        return sum(known) if known else None

    def to_dict(self) -> dict[str, Any]:
        """As plain data, as ``--log json`` has it."""
        return {
            "event": "batch",
            "batch": self.batch,
            "timestamp": self.timestamp,
            "rows": self.rows,
            "rows_per_second": round(self.rows_per_second, 1),
            "deltas": self.deltas,
            "deltas_per_second": round(self.deltas_per_second, 1),
            "bad_rows": self.bad_rows,
            "seconds": round(self.seconds, 3),
            "behind": self.behind,
            "state_bytes": self.state_bytes,
            "stored_bytes": self.stored_bytes,
            "shards": list(self.shards),
            "sources": list(self.sources),
            "failing": list(self.failing),
        }


@dataclass
class Progress:
    """Follows a query: knows which batches were told already, and the latest figures of every shard."""

    last: int = -1
    shards: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict)

    def new(self, entries: list[Any]) -> list[BatchDone]:
        """The batches that have ended since the last call."""
        found = []
        for entry in entries:
            if int(entry["batchId"]) > self.last and "addBatch" in entry["durationMs"]:
                self.last = int(entry["batchId"])
                found.append(self._done(entry))
        return found

    def _done(self, entry: Any) -> BatchDone:
        metrics = batch_metrics(entry)
        for shard in metrics["shards"]:
            self.shards[shard["level"], shard["shard"]] = shard
        latest = self.shards.values()
        return BatchDone(
            batch=int(entry["batchId"]),
            timestamp=str(entry["timestamp"]),
            rows=max(0, int(entry["numInputRows"] or 0)),
            deltas=int(metrics["deltas"]),
            bad_rows=int(metrics["bad_rows"]),
            seconds=int(entry["durationMs"].get("triggerExecution", 0)) / 1000,
            state_bytes=sum(s.get("bytes", 0) for s in latest),
            stored_bytes=sum(s.get("stored", 0) for s in latest),
            shards=tuple(metrics["shards"]),
            sources=tuple(_source(s) for s in entry["sources"]),
            failing=tuple(why_no_result(latest)),
        )


def why_no_result(shards: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Of each view that has no result now, why, by the latest figures of all shards."""
    for shard in shards:
        for name, figures in shard.get("views", {}).items():
            if figures.get("failing") is not None:
                yield f"{name} has no result now: {figures['failing']}"


def _source(entry: Any) -> dict[str, Any]:
    return {
        "source": str(entry["description"]),
        "rows": int(entry["numInputRows"] or 0),
        "metrics": dict(entry["metrics"] or {}),
        "behind": _behind(_offset(entry.get("latestOffset")), _offset(entry.get("endOffset"))),
    }


def _offset(written: Any) -> Any:
    """An offset as data; Spark gives it as JSON, if the source has written that."""
    try:
        return json.loads(written) if isinstance(written, str) else written
    except ValueError:
        return None


def _behind(latest: Any, end: Any) -> int | None:
    """How far an offset is from another: the sum over the numbers in them, as of Kafka's partitions."""
    if isinstance(latest, int) and isinstance(end, int):
        return max(0, latest - end)
    if not isinstance(latest, dict) or not isinstance(end, dict):
        return None
    found = [_behind(value, end.get(key, 0 if isinstance(value, int) else {})) for key, value in latest.items()]
    known = [n for n in found if n is not None]
    return sum(known) if known else None


def running_tasks(spark: SparkSession) -> tuple[int, int]:
    """How many tasks of the jobs that run now are done, and how many there are."""
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getActiveJobsIds()]
    found = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    stages = [stage for stage in found if stage is not None]
    return sum(s.numCompletedTasks for s in stages), sum(s.numTasks for s in stages)
