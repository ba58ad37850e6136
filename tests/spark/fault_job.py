"""The driver program of the fault tests: keeps views over a stream of files, and their feed in a folder a batch.

python fault_job.py FOLDER MASTER SHARDS [SETTING=VALUE …]

Settings of Spark, and two of its own: ``everview.compact`` (bytes of a log that is compacted) and
``everview.materialize`` (the views are kept in Parquet targets; their feed is not kept).
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

TABLES = {
    "r": "a BIGINT, b BIGINT",
    "s": "b BIGINT, c STRING",
    "t": "c STRING, d DOUBLE",
}
VIEWS = {
    "paths": "SELECT r.a, r.b, s.c, t.d FROM r JOIN s ON r.b = s.b JOIN t ON s.c = t.c",
    "totals": "SELECT s.c, COUNT(*) AS n, SUM(t.d) AS total FROM s JOIN t ON s.c = t.c GROUP BY s.c",
    "overall": "SELECT COUNT(*) AS n, SUM(r.a) AS total FROM r JOIN s ON r.b = s.b",
    "above": "SELECT s.b, s.c FROM s WHERE s.b > (SELECT AVG(b) FROM r)",
    "fewer": "SELECT t.c, t.d, (SELECT COUNT(*) FROM r WHERE r.b <= t.d) AS n FROM t",
}
COMPACT, MATERIALIZE, PARCELS = "everview.compact", "everview.materialize", "everview.parcels"


def keep(table: pa.Table, target: Path, batch: int) -> None:
    """Write a batch's feed, once: what comes again must be the same."""
    half = target / f".{batch}-{uuid4().hex}"
    half.mkdir(parents=True)
    pq.write_table(table, half / "feed.parquet")
    try:
        half.rename(target / str(batch))
    except OSError:
        before = pq.read_table(target / str(batch) / "feed.parquet")
        if bag(before) != bag(table):
            (target / f"{batch}-differs").touch()
            raise
        (target / f"{batch}-again-{uuid4().hex}").touch()


def bag(table: pa.Table) -> Counter[str]:
    """Rows and their numbers, whatever their order."""
    return Counter(map(repr, table.to_pylist()))


def main(folder: Path, master: str, shards: int, settings: dict[str, str]) -> None:
    """Run until all files are taken in."""
    from pyspark.sql import DataFrame, SparkSession

    from everview.spark import maintain, materialize, stats
    from everview.spark.restarting import restarting
    from everview.spark.shard import operator

    operator.COMPACT_BYTES = int(settings.pop(COMPACT, operator.COMPACT_BYTES))
    operator.LEAST_BYTES = int(settings.pop(PARCELS, operator.LEAST_BYTES))
    materialized = settings.pop(MATERIALIZE, None) is not None
    builder = SparkSession.builder.master(master).appName("everview faults")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    frames: dict[str, DataFrame] = {}
    for name, columns in TABLES.items():
        reader = spark.readStream.schema(f"{columns}, _change_type STRING").option("maxFilesPerTrigger", 1)
        frames[name] = reader.parquet(str(folder / "in" / name))
    feed = maintain(spark, VIEWS, frames, shards=shards)

    def sink(frame: Any, batch: int) -> None:
        keep(frame.toArrow(), folder / "target", batch)

    checkpoint = str(folder / "checkpoint")
    if materialized:
        targets = {name: f"parquet:{folder / 'target' / name}" for name in VIEWS}
        query = materialize(feed, targets, checkpoint=checkpoint, trigger="available now")
    else:
        writer = feed.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
        query = restarting(writer.trigger(availableNow=True).start)
    query.awaitTermination()
    if any(shard["compactions"] for shard in stats(query)["shards"]):
        (folder / "compacted").touch()
    (folder / "done").touch()
    spark.stop()


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), dict(a.split("=", 1) for a in sys.argv[4:]))
