"""What the time is spent on: the kernel, Arrow, Python, Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from matplotlib.figure import Figure

from benchmarks.bench import Bench
from benchmarks.case import Case, Data
from benchmarks.experiments.base import Experiment, figure, legend, markdown
from benchmarks.results import Record

EMBEDDED = (("3-hop", 1_000), ("3-hop", 10), ("star", 1_000), ("tpch-q3", 1_000), ("tpch-q3", 1))
"""Queries, and the updates in a batch."""
ON_SPARK = ("everview-spark-1", "everview-spark-2")
SPARK_BATCH = 50_000
MOST = {10: 20_000, 1: 2_000}
"""Of small batches the log's first updates are enough."""
PARTS = {
    "kernel": "#0072B2",
    "shards": "#56B4E9",
    "Arrow": "#009E73",
    "DuckDB": "#E69F00",
    "Python": "#D55E00",
    "other": "#999999",
    "Spark: the batch": "#CC79A7",
    "Spark: around it": "#F0E442",
}


def run(bench: Bench) -> Iterator[Record]:
    """Some of the queries embedded, and 3-Hop on Spark."""
    for name, batch in EMBEDDED:
        if bench.only and name not in bench.only:
            continue
        case = _case(bench, name)
        sizes = (batch,) * (MOST[batch] // batch) if batch in MOST else ()
        for system in bench.systems("everview"):
            yield bench.measure(replace(case, batch=batch, sizes=sizes), system)
    if not bench.only or "3-hop" in bench.only:
        case = replace(_case(bench, "3-hop"), batch=SPARK_BATCH, per_update=False, check_scale=0.1)
        for system in bench.systems(*ON_SPARK):
            yield bench.measure(case, system)


def _case(bench: Bench, name: str) -> Case:
    case = replace(bench.case(name), profile=True, deltas=None, limit=150, limits={})
    if case.data.source in ("bitcoin-alpha", "power-law"):
        data = Data("epinions", 1.0, "shuffled", case.data.updates).at(bench.scale, bench.data)
        case = replace(case, data=data, check_scale=0.1, own_check_scale=0.1)
    return case


def shares(record: Record) -> dict[str, float]:
    """The parts of a run's time, those that are seen as parts of a whole."""
    found = record.get("parts_s") or {}
    return {part: found[part] / sum(found.values()) for part in PARTS if found.get(part)}


def table(records: list[Record]) -> str:
    """One row a run."""
    mine = [r for r in records if r["status"] == "ok"]
    columns = [part for part in PARTS if any(part in shares(r) for r in mine)]
    rows = [
        [
            _name(r),
            r["data"],
            f"{r['run_s']:.3g} s",
            *(f"{shares(r)[p]:.0%}" if p in shares(r) else "" for p in columns),
        ]
        for r in mine
    ]
    return markdown(["run", "data", "time", *columns], rows)


def _name(record: Record) -> str:
    where = {"everview-spark-1": " on Spark, 1 shard", "everview-spark-2": " on Spark, 2 shards"}
    return f"{record['title']}{where.get(record['system'], '')}, batches of {record['batch']:,}"


def plots(records: list[Record]) -> dict[str, Figure]:
    """A bar a run."""
    mine = [r for r in records if r["status"] == "ok"]
    drawn, (axis,) = figure(8.5, 1.4 + 0.32 * len(mine))
    left = [0.0] * len(mine)
    for part, colour in PARTS.items():
        widths = [shares(r).get(part, 0.0) for r in mine]
        if any(widths):
            axis.barh(range(len(mine)), widths, left=left, color=colour, label=part, height=0.7)
            left = [a + b for a, b in zip(left, widths, strict=True)]
    axis.set_yticks(range(len(mine)), [_name(r) for r in mine], fontsize=7)
    axis.invert_yaxis()
    axis.set_xlabel("part of the time")
    legend(drawn)
    return {"profile": drawn}


PROFILE = Experiment(
    name="profile",
    title="Where the time goes",
    about="""\
Embedded, what the process is at is looked at every two milliseconds. *kernel*: inside the compiled machine, base
tables, views and sums alike; *Arrow*: in pyarrow's functions; *DuckDB*: expressions that are left to it; *Python*:
everything around, the making of Arrow arrays from buffers included. On Spark, *shards* is the time in which the slowest
shard takes in a batch and works out its changes; *Spark: the batch* is the rest of a micro-batch (source, packing,
shuffle, transfer to and from Python, state, sink), *around it* planning, offsets and commits.

The largest wastes that profiles have shown were removed: single updates' deltas of groups were worked out by running a
batch update by update; all pairs of two lists were written row by row instead of column by column; changes that cannot
repeat were added up all the same, on Spark above all; decimals went through DuckDB, and a few rows' sums through dozens
of Arrow calls. What is left, and would be next: on 3-Hop the kernel's work for each short list of neighbours; in small
batches Python's part; on Spark the micro-batch itself.
""",
    results="profile",
    table=table,
    plots=plots,
    run=run,
)
