"""Loading a table that is there already: in bulk, and in batches down to single rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from matplotlib.figure import Figure

from benchmarks.bench import Bench
from benchmarks.case import Data
from benchmarks.experiments.base import Experiment, at_least, duration, legend, line, markdown, ordered, panels, seconds
from benchmarks.results import Record

BATCHES = (10_000, 1_000, 100, 10, 1)
PART = 0.05
"""Of 508,837 edges: row by row takes long."""
LIMIT = 120


def run(bench: Bench) -> Iterator[Record]:
    """The same rows in bulk, and in batches."""
    for name in ("3-hop", "4-hop", "star"):
        if bench.only and name not in bench.only:
            continue
        data = Data("power-law", float(f"{PART * bench.scale:.4g}"), updates="inserts")
        case = replace(bench.case(name), data=data, deltas=None, limit=LIMIT, limits={})
        for system in bench.systems("everview"):
            bulk = replace(case, data=replace(data, after=1.0))
            yield bench.measure(bulk, system, "state", point="bulk")
            for batch in BATCHES:
                yield bench.measure(replace(case, batch=batch), system, "state", point=f"{batch:,} rows")


def loading_time(record: Record) -> float:
    return float(record["load_s"] if record["point"] == "bulk" else record["run_s"])


def table(records: list[Record]) -> str:
    """One row a query."""
    points = ordered(records, "point")
    header = ["query", "data", *points, "single rows ÷ bulk"]
    rows = []
    for title in ordered(records, "title"):
        found = {r["point"]: r for r in records if r["title"] == title}
        cells = [_shown(found.get(point)) for point in points]
        ends = [found.get("bulk"), found.get("1 rows")]
        times = [loading_time(r) for r in ends if r is not None and r["status"] == "ok"]
        ratio = at_least(times[1] / times[0]) if len(times) == 2 else ""
        rows.append([title, next(iter(found.values()))["data"], *cells, ratio])
    return markdown(header, rows)


def _shown(record: Record | None) -> str:
    return duration(loading_time(record)) if record is not None and record["status"] == "ok" else seconds(record)


def plots(records: list[Record]) -> dict[str, Figure]:
    """Time against the size of batches; bulk is the whole table at once."""
    drawn, axes = panels(ordered(records, "title"), "rows a batch", "time to load, s")
    for axis, title in axes:
        mine = [r for r in records if r["title"] == title and r["status"] == "ok"]
        batches = [(r["batch"], loading_time(r)) for r in mine if r["point"] != "bulk"]
        if not batches:
            continue
        line(axis, "everview", [b for b, _ in batches], [t for _, t in batches], label="in batches")
        for r in mine:
            if r["point"] == "bulk":
                axis.axhline(loading_time(r), color="#D55E00", linestyle="--", label="in bulk")
    legend(drawn)
    return {"load": drawn}


LOAD = Experiment(
    name="load",
    title="Initial load",
    about="""\
How long it takes until a view over a table that is there already is kept: in bulk (the rows are inserted as one Arrow
table, then the view is created), or the view is there and the rows come in batches, down to one at a time. Nothing
listens to the changes.
""",
    results="load",
    table=table,
    plots=plots,
    run=run,
)
