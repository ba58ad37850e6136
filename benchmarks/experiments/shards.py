"""Everview on Spark with one shard and with two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from matplotlib.figure import Figure

from benchmarks.bench import Bench
from benchmarks.case import Data
from benchmarks.experiments.base import (
    Experiment,
    at_least,
    dot_figure,
    dots,
    legend,
    markdown,
    ordered,
    seconds,
    systems_of,
)
from benchmarks.results import Record
from benchmarks.systems import SYSTEMS

BATCH = 50_000
PARTS = {"3-hop": 1.0, "4-hop": 0.2}
"""Of Epinions' edges."""
LIMIT = 150
NAMES = ("everview", "everview-spark-1", "everview-spark-2")


def run(bench: Bench) -> Iterator[Record]:
    """3-Hop and 4-Hop in large batches."""
    for name, part in PARTS.items():
        if bench.only and name not in bench.only:
            continue
        data = Data("epinions", part, "shuffled").at(bench.scale, bench.data)
        case = replace(bench.case(name), data=data, batch=BATCH, per_update=False, deltas=None, limit=LIMIT, limits={})
        case = replace(case, check_scale=0.1)
        for system in bench.systems(*NAMES):
            yield bench.measure(case, system)


def table(records: list[Record]) -> str:
    """One row a query."""
    systems = systems_of(records)
    rows = []
    for title in ordered(records, "title"):
        found = {r["system"]: r for r in records if r["title"] == title}
        one = next(iter(found.values()))
        cells = [seconds(found.get(s)) for s in systems]
        rows.append([title, one["data"], f"{one['log_updates']:,}", *cells, speedup(found)])
    return markdown(["query", "data", "updates", *(SYSTEMS[s].title for s in systems), "1 shard ÷ 2 shards"], rows)


def speedup(found: dict[str, Record]) -> str:
    """One shard's time over two shards', rounded down."""
    times = [found[s]["run_s"] for s in NAMES[1:] if s in found and found[s]["status"] == "ok"]
    return at_least(times[0] / times[1]) if len(times) == 2 else ""


def plots(records: list[Record]) -> dict[str, Figure]:
    """Dots by query."""
    drawn, axis = dot_figure(len(ordered(records, "title")) + 2)
    titles = ordered(records, "title")
    values = {}
    for system in systems_of(records):
        found = {r["title"]: r for r in records if r["system"] == system}
        values[system] = [
            (found[t]["run_s"], "") if t in found and found[t]["status"] == "ok" else (None, "") for t in titles
        ]
    dots(axis, titles, values)
    axis.set_xlabel("run time, s (log scale)")
    legend(drawn)
    return {"shards": drawn}


SHARDS = Experiment(
    name="shards",
    title="Shards",
    about="""\
Everview through `everview.spark.maintain` on this machine's two cores, in batches of 50,000 updates, each a file; net
changes go to a sink. Embedded in one process beside it. *1 shard ÷ 2 shards* is the speed-up, rounded down.
""",
    results="shards",
    table=table,
    plots=plots,
    run=run,
)
