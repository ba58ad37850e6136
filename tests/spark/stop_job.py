"""A driver program whose executors see another temporary folder than it does, as those of other machines would.

python stop_job.py FOLDER [SETTING=VALUE …]

It stops its query, and goes on: so does its executor. Prints the numbers of the shards' processes, and waits for a line
on standard input before it ends.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def main(folder: Path, settings: dict[str, str]) -> None:
    """Run one batch, stop the query, and stay."""
    from pyspark.sql import SparkSession

    from everview.spark import maintain, stats
    from everview.spark.restarting import restarting

    builder = SparkSession.builder.master("local-cluster[1,2,1024]").appName("everview stops")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    (folder / "in").mkdir()
    pq.write_table(pa.table({"a": [1, 2, 2]}), folder / "in" / "1.parquet")
    rows = spark.readStream.schema("a BIGINT").parquet(str(folder / "in"))
    feed = maintain(spark, "SELECT a, COUNT(*) AS n FROM r GROUP BY a", {"r": rows}, shards=2)
    writer = feed.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
    query = restarting(writer.start)
    query.processAllAvailable()
    print(*[shard["pid"] for shard in stats(query)["shards"]], flush=True)
    sys.stdin.readline()
    query.stop()
    sys.stdin.readline()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), dict(a.split("=", 1) for a in sys.argv[2:]))
