"""Spark SQL: the query is run afresh on the tables as they are after each batch, or after every tenth of the log.

A table is a cached DataFrame of all rows that it ever has, each with the positions where it comes and goes; as it is at
some position is a filter. So applying a batch costs nothing: that is in Spark's favour, as is that the result goes to
the ``noop`` sink, which takes every row and column and writes none, and that what differs from the result before is not
worked out. Only the columns that the query names are cached.

As Spark's documentation advises (*Performance Tuning*): tables cached in memory in columns, adaptive execution (on
unless switched off), as many shuffle partitions as cores, enough memory to spill nothing.
"""

from __future__ import annotations

import os
import sys
from itertools import accumulate
from time import perf_counter
from typing import Any

import pyarrow.parquet as pq

from benchmarks.data.log import BEFORE, Log
from benchmarks.environments import java_home
from benchmarks.runners.protocol import Fingerprint, Job, Meter, job_and_log
from benchmarks.runners.rows import in_utc, lives
from benchmarks.runners.schema import used_columns

MEMORY = "8g"


def main() -> None:
    """Run the job that the command line names."""
    job, log = job_and_log()
    meter = Meter()
    spark = session(job)
    meter.ready()
    tables = cached(spark, job, log)
    meter.loaded()
    ends = list(accumulate(updates for updates, _ in job.batches(log)))
    found = recompute(spark, job, ends, tables, meter)
    meter.finish({"spark": spark.version}, found)
    spark.stop()


def session(job: Job) -> Any:
    """A local Spark with the cores that the job may use."""
    os.environ |= {"JAVA_HOME": java_home(), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    from pyspark.sql import SparkSession

    settings = {
        "spark.python.authenticate.socketTimeout": "600s",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": MEMORY,
        "spark.driver.maxResultSize": "0",
        "spark.local.dir": str(job.scratch / "local"),
        "spark.sql.warehouse.dir": str(job.scratch / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(job.threads),
    }
    builder = SparkSession.builder.master(f"local[{job.threads}]").appName("recompute")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def cached(spark: Any, job: Job, log: Log) -> dict[str, Any]:
    """The tables that the query reads, in memory."""
    found = {}
    for name, columns in used_columns(job.sql, {t: log.names(t) for t in log.columns}).items():
        path = job.scratch / f"{name}.parquet"
        pq.write_table(in_utc(lives(log.tables[name]).select([*columns, "_from", "_to"])), path)
        found[name] = spark.read.parquet(str(path)).repartition(job.threads).cache()
        found[name].count()
    return found


def recompute(spark: Any, job: Job, ends: list[int], tables: dict[str, Any], meter: Meter) -> dict[str, Any] | None:
    """Read the result after each batch, or after every tenth of the log; gives the last one's fingerprint."""
    total = ends[-1]
    tenths = job.tenths(total)
    for end in ends:
        begun = perf_counter()
        rows = 0
        if job.mode == "delta" or (tenths and end >= tenths[0]):
            view = at(spark, job.sql, tables, end)
            if job.check and end == total:
                found = Fingerprint(job.outputs)
                found.add(view.toArrow())
                return found.to_dict()
            rows = delivered(view)
            tenths = [t for t in tenths if t > end]
        meter.step(end - meter.updates, rows, perf_counter() - begun)
    return None


def at(spark: Any, sql: str, tables: dict[str, Any], end: int) -> Any:
    """The query over the tables as they are after so many updates."""
    for name, rows in tables.items():
        there = f"_from < {end} AND _to >= {end}" if end else f"_from = {BEFORE}"
        rows.where(there).drop("_from", "_to").createOrReplaceTempView(name)
    return spark.sql(sql)


def delivered(view: Any) -> int:
    """Compute every row and column of a result; gives the number of rows."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    seen = Observation()
    view.observe(seen, F.count(F.lit(1)).alias("rows")).write.format("noop").mode("overwrite").save()
    return int(seen.get["rows"])


if __name__ == "__main__":
    main()
