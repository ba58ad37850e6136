"""Everview on Spark: ``maintain`` over files, one a batch and table, its change feed to the ``noop`` sink.

A batch's time is Spark's own, from trigger to commit: source, shuffle, state and sink included. The rows that are there
before the log are the first batch. Check runs write the feed to Parquet and count it.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from benchmarks.data.log import Log
from benchmarks.runners.everview import Changes, changes, weights
from benchmarks.runners.protocol import Fingerprint, Job, Meter, job_and_log, unsupported
from benchmarks.runners.rows import in_utc
from benchmarks.runners.schema import declarations, tables_of
from benchmarks.spark import Run, deltas_of, seconds_of, session
from everview.spark import maintain
from everview.spark.metrics import batch_metrics


def main() -> None:
    """Run the job that the command line names."""
    job, log = job_and_log()
    if job.mode == "full":
        unsupported("maintain gives changes; the whole result is read from the target that they are written to")
    meter = Meter()
    spark = session(job.scratch, job.threads)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    run = Run(spark, job.scratch)
    used = tables_of(job.sql)
    first, *rest = batches(job, log, used)
    for name in used:
        run.files(name, [parts[name] for _, parts in (first, *rest)])
    sources = {name: run.source(name, declared(log, name)) for name in used}
    feed = maintain(spark, job.sql, sources, shards=job.shards, schema=declarations(log.schema, used))
    meter.ready()
    meter.loaded()
    progress = run.go(feed, "parquet" if job.check else "noop")
    loads = progress[:1] if first[0] == 0 else []
    steps = progress[len(loads) :]
    seconds = seconds_of(steps)
    for (updates, _), spent in zip(rest if loads else [first, *rest], seconds, strict=True):
        meter.step(updates, 0, spent)
    told = {"load_s": sum(seconds_of(loads)), "run_s": sum(seconds), "rows": deltas_of(steps), "updates": log.updates}
    if job.profile:
        told["parts_s"] = parts(progress, len(loads))
    found = fingerprint(job, run) if job.check else None
    meter.finish({"everview": version("everview"), "spark": spark.version}, found, **told)
    spark.stop()


def parts(progress: Sequence[dict[str, Any]], loads: int) -> dict[str, float]:
    """What the batches after the first ones spent their time on; of shards side by side the slowest counts."""
    found = {"shards": 0.0, "Spark: the batch": 0.0, "Spark: around it": 0.0}
    before: dict[int, float] = {}
    for i, batch in enumerate(progress):
        shards = {s["shard"]: s["seconds"] for s in batch_metrics(batch)["shards"]}
        busy = max((seconds - before.get(s, 0.0) for s, seconds in shards.items()), default=0.0)
        before |= shards
        if i < loads:
            continue
        spent = batch["durationMs"]
        found["shards"] += busy
        found["Spark: the batch"] += spent["addBatch"] / 1000 - busy
        found["Spark: around it"] += (spent["triggerExecution"] - spent["addBatch"]) / 1000
    return found


def batches(job: Job, log: Log, used: list[str]) -> list[tuple[int, Changes]]:
    """How many updates a batch has, and each table's changes: empty ones, too, so that all tables go on together.

    The rows that are there before the log are a batch of no updates; those that change no table of the view are none.
    """
    empty = {n: coming(log.tables[n].drop(["_weight", "_at"]).slice(0, 0)) for n in used}
    initial = {n: coming(rows) for n, rows in log.initial().items()}
    found = [(0, initial), *changes(job, log)]
    return [(u, {n: in_utc(p.get(n, empty[n])) for n in used}) for u, p in found if not p.keys().isdisjoint(used)]


def coming(rows: pa.Table) -> pa.Table:
    """Rows as inserts."""
    return rows.append_column("_change_type", pa.array(["insert"] * len(rows), pa.string()))


def declared(log: Log, name: str) -> str:
    """A table's columns as Spark declares them."""
    return ", ".join([*(f"{column} {type_}" for column, type_ in log.columns[name]), "_change_type STRING"])


def fingerprint(job: Job, run: Run) -> dict[str, object]:
    """Of the feed that was written."""
    found = Fingerprint(job.outputs)
    for batch in ds.dataset(run.folder / "sink").to_batches():
        found.add(batch, weights(batch))
    return found.to_dict()


if __name__ == "__main__":
    main()
