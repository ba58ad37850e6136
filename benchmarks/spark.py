"""The Spark pipeline's bars: ratios of runs side by side on one machine, in one session with two cores.

``make bench-spark`` runs everything over generated graphs; with ``ARGS="--data ../shared/data"`` some over Epinions.
Every run's feed is counted and must have as many rows as the embedded engine's, or the benchmark ends with an error; a
missed bar is a result. Of runs that are repeated the best counts, and systems take turns: a JVM gets faster as it runs.
``--write`` keeps the measurements in benchmarks/results/ and puts the table into docs/performance-tables.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from math import inf
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks import report, results
from benchmarks.data.graphs import Updates, fifo, inserts, power_law, read_graph, shuffled, sparse
from benchmarks.drive import database, view_sql
from benchmarks.experiments.base import at_least, at_most
from benchmarks.runners import processes

HERE = Path(__file__).parent
MARK, END = "<!-- spark: written by `make bench-spark ARGS=--write` -->", "<!-- end spark -->"
Record = dict[str, Any]
ROUNDS = 5
"""How often a run is repeated whose best one counts: Java's compilers are at work for the first ones."""
SINKS = {"parquet": "feed to files", "noop": "feed to nobody"}
PARTITIONS = "spark.sql.shuffle.partitions"
EDGES = "src BIGINT, dst BIGINT, _change_type STRING"


class Wrong(AssertionError):
    """Spark and the embedded engine do not agree."""


# --- Spark -----------------------------------------------------------------------------------------------------------


def session(folder: Path, cores: int = 2) -> Any:
    """A local Spark; checkpoints as on local disks (docs/spark.md says what each setting means)."""
    from everview.spark.interpreter import worker_environment
    from everview.spark.session import PATIENT

    os.environ |= worker_environment()
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    java = subprocess.run([HERE.parent / "scripts" / "java.sh"], check=True, capture_output=True, text=True)
    os.environ["JAVA_HOME"] = java.stdout.strip()
    from pyspark.sql import SparkSession

    settings = {
        **PATIENT,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "4g",
        "spark.driver.extraJavaOptions": (
            "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
        ),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.python.unix.domain.socket.enabled": "true",
        PARTITIONS: "2",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("everview-benchmarks")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


class Run:
    """One streaming query over files, one of them a batch."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark = spark
        self.folder = Path(tempfile.mkdtemp(dir=folder))
        self.cores = 0.0
        """How many cores Spark's processes kept busy, on average, while it ran."""

    def source(self, name: str, schema: str = EDGES) -> Any:
        path = self.folder / name
        path.mkdir(exist_ok=True)
        return self.spark.readStream.schema(schema).option("maxFilesPerTrigger", "1").parquet(str(path))

    def files(self, name: str, batches: Sequence[pa.Table]) -> None:
        path = self.folder / name
        path.mkdir(exist_ok=True)
        for i, batch in enumerate(batches):
            file = path / f"{i:06}.parquet"
            pq.write_table(batch, file)
            os.utime(file, (1_600_000_000 + i, 1_600_000_000 + i))  # Spark takes files in the order of their times.

    def go(self, feed: Any, sink: str = "noop") -> list[dict[str, Any]]:
        """Run over all files; gives the progress of each batch that had rows."""
        from everview.spark.restarting import restarting

        writer = feed.writeStream.option("checkpointLocation", str(self.folder / "checkpoint"))
        if sink == "parquet":
            writer = writer.option("path", str(self.folder / "sink"))
        driver = _driver(self.spark)
        begun, spent = perf_counter(), processes.cpu(processes.of_tree(driver))
        query = restarting(writer.format(sink).start)
        query.processAllAvailable()
        self.cores = (processes.cpu(processes.of_tree(driver)) - spent) / (perf_counter() - begun)
        found = [json.loads(p.json) if hasattr(p, "json") else p for p in query.recentProgress]
        query.stop()
        return [p for p in found if p["numInputRows"] > 0]

    def written(self) -> int:
        """The rows that are in the files of the sink."""
        return sum(f.metadata.num_rows for f in ds.dataset(self.folder / "sink").get_fragments())

    def close(self) -> None:
        shutil.rmtree(self.folder)


def deltas_of(progress: Sequence[dict[str, Any]]) -> int:
    """The rows of the feed over some batches."""
    return sum((p.get("observedMetrics", {}).get("everview") or {}).get("deltas") or 0 for p in progress)


def seconds_of(progress: Sequence[dict[str, Any]]) -> list[float]:
    """How long each batch took, from trigger to commit."""
    return [p["durationMs"]["triggerExecution"] / 1000 for p in progress]


def tables(updates: Updates, batch: int) -> list[pa.Table]:
    """Updates of a graph as batches of changes."""
    kinds = pc.if_else(pc.greater(updates.weight, 0), "insert", "delete")
    whole = pa.table({"src": updates.source, "dst": updates.target, "_change_type": kinds})
    return [whole.slice(at, batch).combine_chunks() for at in range(0, len(whole), batch)]


def embedded(query: str, batches: Sequence[pa.Table], skipped: int = 0) -> tuple[float, int]:
    """The same batches in one process: seconds without the first ones, and the rows of the net feed of all."""
    db = database(query)
    feed = db.view("v").changes()
    rows = 0
    for i, batch in enumerate(batches):
        if i == skipped:
            begun = perf_counter()
        db.apply("g", batch)
        rows += sum(b.num_rows for b in feed.read())
    return perf_counter() - begun, rows


# --- the bars --------------------------------------------------------------------------------------------------------


def warm(spark: Any, folder: Path, small: bool) -> Iterator[Record]:
    """A warm batch's time with ten times the state: the same graph once and ten times, side by side, and one change.

    A batch has as many updates and, as every copy has the same degrees, about as many changes of the result; they are
    spread over all copies. Only then is it the state that differs (a larger power-law graph has larger hubs).
    """
    from everview.spark import maintain

    size, copies = (20_000 if small else 100_000), (1, 10)
    batch, count = 10_000, 12
    edges = power_law(size + batch * count)
    apart = 10 * (max(map(max, edges)) // 10 + 1)  # 3-Hop's filter asks for every tenth node.
    streams = {}
    for many in copies:
        turn = cycle(range(0, many * apart, apart))
        at = [next(turn) for _ in edges]
        first = [(s + to, d + to) for to in range(0, many * apart, apart) for s, d in edges[:size]]
        moved = [(s + to, d + to) for (s, d), to in zip(edges, at, strict=True)]
        after = []
        for i in range(0, count * batch // 2, batch // 2):
            come, go = moved[size + i :][: batch // 2], moved[i:][: batch // 2]
            kinds = ["insert"] * len(come) + ["delete"] * len(go)
            source, target = zip(*come, *go, strict=True)
            after.append(pa.table({"src": source, "dst": target, "_change_type": kinds}))
        streams[many] = [*tables(inserts("fill", first), len(first)), *after]
    times, deltas = dict.fromkeys(copies, inf), dict.fromkeys(copies, 0.0)
    for many in copies * ROUNDS:
        run = Run(spark, folder)
        run.files("g", streams[many])
        progress = run.go(maintain(spark, view_sql("3-hop"), {"g": run.source("g")}, shards=2))[3:]
        times[many] = min(times[many], median(seconds_of(progress)))
        deltas[many] = deltas_of(progress) / len(progress)
        run.close()
    yield {
        "bench": "warm batch, 10 × the state",
        "query": "3-hop",
        "rows": [size * many for many in copies],
        "seconds": [times[many] for many in copies],
        "deltas": [deltas[many] for many in copies],
        "value": times[copies[1]] / times[copies[0]],
        "bar": 1.5,
        "most": True,
    }


def speedup(spark: Any, folder: Path, data: Path | None, small: bool) -> Iterator[Record]:
    """Two shards against one, on two cores; the best of several runs each, in turns, as the JVM is getting warm.

    Once as a job that writes its feed to files, once with nobody who takes it: then the feed's way to the JVM is most
    of what is left, and one shard uses both cores for it, as its changes are unpacked on one and read on the other.
    How many cores were busy is told beside the times.
    """
    jobs = [(*job, embedded(job[0], job[2])[1]) for job in _paths(data, small)]
    ways = [(job, shards, sink) for sink in SINKS for job in range(len(jobs)) for shards in (1, 2)]
    times, busy = dict.fromkeys(ways, inf), dict.fromkeys(ways, 0.0)
    for job, shards, sink in ways * ROUNDS:
        query, _, batches, rows = jobs[job]
        seconds, used = _timed(spark, folder, query, batches, shards, rows, sink)
        if seconds < times[job, shards, sink]:
            times[job, shards, sink], busy[job, shards, sink] = seconds, used
    for job, (query, graph, batches, rows) in enumerate(jobs):
        for sink, told in SINKS.items():
            one, two = times[job, 1, sink], times[job, 2, sink]
            yield {
                "bench": "2 shards against 1",
                "query": query,
                "graph": graph,
                "sink": told,
                "updates": sum(map(len, batches)),
                "deltas": rows,
                "seconds": [one, two],
                "cores": [busy[job, 1, sink], busy[job, 2, sink]],
                "value": one / two,
                "bar": 1.6,
                "most": False,
            }


def _driver(spark: Any) -> int:
    """The process that all others of Spark's descend from."""
    return int(spark.sparkContext._gateway.proc.pid)


def _paths(data: Path | None, small: bool) -> Iterator[tuple[str, str, list[pa.Table]]]:
    """3-Hop and 4-Hop over windows, with tens of millions of changes each."""
    if data is not None and not small:
        graph, edges = "epinions, shuffled", shuffled(read_graph(data / "epinions.csv.gz"))
    else:
        graph, edges = "power law", power_law(20_000 if small else 500_000)
    for query, part in (("3-hop", 1.0), ("4-hop", 0.5)):
        yield query, graph, tables(fifo("fifo", edges[: int(len(edges) * part)]), 100_000 if not small else 4_000)


def _timed(
    spark: Any, folder: Path, query: str, batches: Sequence[pa.Table], shards: int, rows: int, sink: str
) -> tuple[float, float]:
    """The seconds of all batches but the first, and how many cores were busy; so many rows must come out."""
    from everview.spark import maintain

    run = Run(spark, folder)
    run.files("g", batches)
    spark.conf.set(PARTITIONS, str(shards))  # As maintain does where nobody has chosen a number.
    progress = run.go(maintain(spark, view_sql(query), {"g": run.source("g")}, shards=shards), sink)
    spark.conf.set(PARTITIONS, "2")
    _same(query, deltas_of(progress), rows)
    if sink == "parquet":
        _same(f"{query}, written", run.written(), rows)
    run.close()
    return sum(seconds_of(progress)[1:]), run.cores


def throughput(spark: Any, folder: Path, small: bool) -> Iterator[Record]:
    """A million updates in batches of 100,000 after a first one, files in and out, against the embedded engine.

    Of both the best of several runs: in the first ones the JVM is not warm.
    """
    from everview.spark import maintain

    updates = fifo("fifo", power_law(60_000 if small else 611_200))
    batches = tables(updates, 100_000)[: 11 if not small else 2]
    alone = seconds = inf
    for _ in range(ROUNDS):
        once, rows = embedded("3-hop", batches, skipped=1)
        run = Run(spark, folder)
        run.files("g", batches)
        progress = run.go(maintain(spark, view_sql("3-hop"), {"g": run.source("g")}, shards=2), "parquet")
        _same("3-hop", deltas_of(progress), rows)
        _same("3-hop, written", run.written(), rows)
        alone, seconds = min(alone, once), min(seconds, sum(seconds_of(progress)[1:]))
        run.close()
    yield {
        "bench": "speed against embedded",
        "query": "3-hop",
        "updates": sum(map(len, batches[1:])),
        "deltas": rows,
        "seconds": [alone, seconds],
        "value": alone / seconds,
        "bar": 1 / 3,
        "most": False,
    }


def floor(spark: Any, folder: Path, small: bool) -> Iterator[Record]:
    """Batches of ten rows against a stateful Python operator that does next to nothing."""
    from benchmarks.floor import Counting
    from everview.spark import maintain

    count = 6 if small else 15
    batches = tables(inserts("few", power_law(10 * count)), 10)
    found = {"floor": inf, "everview": inf}
    for name in ("floor", "everview") * ROUNDS:
        run = Run(spark, folder)
        run.files("g", batches)
        source = run.source("g")
        if name == "floor":
            keyed = source.selectExpr("CAST(pmod(src, 2) AS INT) AS shard", "src")
            feed = keyed.groupBy("shard").transformWithStateInPandas(
                Counting(), "shard INT, n BIGINT", "append", "none"
            )
        else:
            feed = maintain(spark, view_sql("3-hop"), {"g": source}, shards=2)
        found[name] = min(found[name], median(seconds_of(run.go(feed))[3:]))
        run.close()
    yield {
        "bench": "tiny batches against Spark's floor",
        "query": "3-hop",
        "seconds": [found["floor"], found["everview"]],
        "value": found["everview"] / found["floor"],
        "bar": 1.5,
        "most": True,
    }


def stream_join(spark: Any, folder: Path, small: bool) -> Iterator[Record]:
    """An insert-only join of three streams, against Spark's own stream-stream join.

    Where a row has over a hundred results, reading them from Arrow is most of the work, for whoever has found them;
    where it has about one, the state is. With 3-Hop's filter few results are left of many pairs, which Spark keeps as
    state: of the orders in which it can join, the one that pairs the filtered stream first is taken, its best.
    Spark's once, as it takes minutes, ours the best of several; before, both have run over a little of the data.
    """
    first, rows = (1_000, 5_000) if small else (10_000, 150_000)
    dense = power_law(first + rows)
    for joined in (_sparks_join, _everviews_join):
        _join(spark, folder, joined, tables(inserts("inserts", dense[: 4 * first]), first), 1)
    cases = (("power law", dense, 1), ("power law, every 10th d", dense, 10), ("sparse", sparse(first + rows), 1))
    for graph, edges, every in cases:
        pieces = tables(inserts("inserts", edges), first)
        whole = [pieces[0], pa.concat_tables(pieces[1:]).combine_chunks()]
        sparks, wanted = _join(spark, folder, _sparks_join, whole, every)
        ours = inf
        for _ in range(ROUNDS):
            seconds, found = _join(spark, folder, _everviews_join, whole, every)
            _same("3-way join", found, wanted)
            ours = min(ours, seconds)
        yield {
            "bench": "against Spark's stream-stream join",
            "query": "3-way join, inserts",
            "graph": graph,
            "updates": 3 * rows,
            "deltas": wanted,
            "seconds": [sparks, ours],
            "value": sparks / ours,
            "bar": 20.0,
            "most": False,
        }


def _join(
    spark: Any, folder: Path, joined: Callable[..., Any], batches: Sequence[pa.Table], every: int
) -> tuple[float, int]:
    """The seconds of all batches but the first, and the rows of the result: our shards count theirs themselves."""
    run = Run(spark, folder)
    for table in "abc":
        run.files(table, [b.select(["src", "dst"]) for b in batches])
    progress = run.go(joined(spark, {t: run.source(t, "src BIGINT, dst BIGINT") for t in "abc"}, every))
    run.close()
    observed = sum((p["observedMetrics"].get("all") or {}).get("n") or 0 for p in progress)
    return sum(seconds_of(progress)[1:]), observed or deltas_of(progress)


def _sparks_join(_: Any, frames: dict[str, Any], every: int) -> Any:
    from pyspark.sql import functions as F

    a, b, c = (frames[t].selectExpr(f"src AS {t}_src", f"dst AS {t}_dst") for t in "abc")
    joined = b.join(c.where(f"c_dst % {every} = 0"), b.b_dst == c.c_src).join(a, a.a_dst == b.b_src)
    return joined.observe("all", F.count(F.lit(1)).alias("n"))


def _everviews_join(spark: Any, frames: dict[str, Any], every: int) -> Any:
    from everview.spark import maintain

    sql = f"""SELECT a.src AS a, b.src AS b, c.src AS c, c.dst AS d
              FROM a JOIN b ON a.dst = b.src JOIN c ON b.dst = c.src WHERE c.dst % {every} = 0"""
    return maintain(spark, sql, frames, shards=2)


def _same(what: str, found: int, wanted: int) -> None:
    if found != wanted:
        raise Wrong(f"{what}: the feed has {found} rows, and should have {wanted}")


# --- what is shown ---------------------------------------------------------------------------------------------------


def table(records: list[Record]) -> str:
    """The records as a Markdown table."""
    lines = ["| what | query | measured | value | bar | |", "|---|---|---|---|---|---|"]
    for r in records:
        parts = [f"{r['updates']:,} updates" if "updates" in r else ""]
        parts.append(" and ".join(f"{n:,}" for n in r["rows"]) + " rows of state" if "rows" in r else "")
        deltas = r.get("deltas")
        if isinstance(deltas, list):
            parts.append(" and ".join(f"{d:,.0f}" for d in deltas) + " rows of changes a batch")
        else:
            parts.append(f"{deltas:,} rows of changes" if deltas is not None else "")
        parts.append(" and ".join(f"{s:.2f} s" for s in r["seconds"]))
        parts.append(" and ".join(f"{n:.2f}" for n in r["cores"]) + " cores busy" if "cores" in r else "")
        query = ", ".join(r[k] for k in ("query", "graph", "sink") if k in r)
        shown = "; ".join(p for p in parts if p)
        rounded = at_most if r["most"] else at_least
        lines.append(f"| {r['bench']} | {query} | {shown} | {rounded(r['value'])} | {_judged(r)} |")
    return "\n".join(lines)


def _judged(record: Record) -> str:
    """A record's bar and whether it is reached; nothing where none was set."""
    if "bar" not in record:
        return " | "
    sign, mark = "≤" if record["most"] else "≥", "reached" if is_reached(record) else "**missed**"
    return f"{sign} {record['bar']:.2f} | {mark}"


def section(head: Record, records: list[Record]) -> str:
    """What the page shows of a run."""
    return f"{table(records)}\n\n{results.provenance([head], 'spark')}"


def is_reached(record: Record) -> bool:
    """Whether a record's figure is no worse than its bar, if it has one."""
    if "bar" not in record:
        return True
    return bool(record["value"] <= record["bar"] if record["most"] else record["value"] >= record["bar"])


@contextmanager
def _running() -> Iterator[tuple[Any, Path]]:
    """Spark and a folder; both are gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="everview-bench-"))
    spark = session(folder)
    try:
        yield spark, folder
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """Measure, print, and keep what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="the folder with epinions.csv.gz")
    parser.add_argument("--small", action="store_true", help="little data, to see that it works")
    parser.add_argument("--only", choices=("warm", "speedup", "throughput", "floor", "join"), help="one of them")
    parser.add_argument(
        "--write", action="store_true", help="keep the results and put the table into docs/performance-tables.md"
    )
    parser.add_argument("--resume", action="store_true", help=results.RESUME)
    options = parser.parse_args()
    if options.resume and results.stands("spark"):
        return 0
    data, small = options.data, options.small
    with _running() as (spark, folder):
        bars: dict[str, Callable[[], Iterator[Record]]] = {
            "warm": lambda: warm(spark, folder, small),
            "floor": lambda: floor(spark, folder, small),
            "join": lambda: stream_join(spark, folder, small),
            "speedup": lambda: speedup(spark, folder, data, small),
            "throughput": lambda: throughput(spark, folder, small),  # Last: by then Java's compilers have done most.
        }
        records = []
        for name, bar in bars.items():
            if options.only in (None, name):
                for record in bar():
                    records.append(record)
                    print(json.dumps(record), flush=True)
    head = results.circumstances("benchmarks.spark")
    head["machine"] += f", pyspark {spark.version}"
    print(section(head, records))
    if options.write:
        results.put("spark", head, records)
        report.fill(MARK, section(head, records), END)
    return 0


if __name__ == "__main__":
    sys.exit(main())
