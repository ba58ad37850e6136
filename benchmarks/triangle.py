"""The bars of triangles: counts and listings beside a hand-written program, and an edge between hubs of growing size.

``make bench-triangle`` runs over a generated power-law graph; ``ARGS="--data ../shared/data"`` over Epinions as well,
each under a window of a fifth of the edges, first in, first out. The final count must be that of the hand-written
program, of DuckDB on the final graph, and trace(A³) of its matrix; the rows of a listing are summed up and must be
those of the program. Times are processor time, the best of runs that take turns; steps are counted, so they repeat
exactly. ``--write`` keeps the measurements and puts the table into docs/performance-tables.md. It ends with an error if
a number is wrong; a missed bar is a result.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import process_time

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks import report, results
from benchmarks.data.graphs import Edge, Updates, fifo, inserts, power_law, read_graph, shuffled
from benchmarks.drive import DatabaseRun, KernelRun, Sums, view_sql
from benchmarks.engine import Wrong, compare
from benchmarks.experiments.base import at_most
from benchmarks.native import PROGRAMS, Native
from benchmarks.results import Record

MARK, END = "<!-- triangle: written by `make bench-triangle ARGS=--write` -->", "<!-- end triangle -->"
COUNT, LISTING = "triangle-count", "triangle"
COUNT_BAR, LISTING_BAR = 6.0, 8.0
HUBS = (1_000, 10_000, 100_000)
LEAST, MOST = -1, -2
"""The two hubs; their neighbours are numbers from 0 on."""


def trace_of_cube(edges: Counter[Edge]) -> int:
    """trace(A³) of the matrix A of a graph, by A² one row at a time."""
    size = 1 + max((max(edge) for edge in edges), default=0)
    rows: dict[int, list[tuple[int, int]]] = {}
    for (source, target), copies in edges.items():
        rows.setdefault(source, []).append((target, copies))
    out = {v: np.array(found, np.int64).T for v, found in rows.items()}
    into: dict[int, list[tuple[int, int]]] = {}
    for (source, target), copies in edges.items():
        into.setdefault(target, []).append((source, copies))
    total = 0
    row = np.zeros(size, np.int64)
    for a, (targets, copies) in out.items():
        if a not in into:
            continue
        for b, n in zip(targets.tolist(), copies.tolist(), strict=True):
            if b in out:
                row[out[b][0]] += n * out[b][1]
        back = np.array(into[a], np.int64).T
        total += int(row[back[0]] @ back[1])
        for b in targets.tolist():
            if b in out:
                row[out[b][0]] = 0
    return total


def left(updates: Updates) -> Counter[Edge]:
    """The final graph: its edges and their copies."""
    found: Counter[Edge] = Counter()
    for s, t, weight in zip(*(c.to_pylist() for c in (updates.source, updates.target, updates.weight)), strict=True):
        found[s, t] += weight
    return +found


def by_duckdb(edges: Counter[Edge]) -> int:
    """The same count by another engine, from the final graph."""
    listed = list(edges.elements())
    g = pa.table({"src": [e[0] for e in listed], "dst": [e[1] for e in listed]})
    with duckdb.connect() as connection:
        connection.register("g", g)
        row = connection.execute(view_sql(COUNT)).fetchone()
    assert row is not None
    return int(row[0])


def counts(graph: str, order: str, updates: Updates, runs: int, bar: float | None) -> Iterator[Record]:
    """The count kept over all updates, without a feed: in the kernel alone, and in the database."""
    native, kernel = Native(PROGRAMS[COUNT], updates), KernelRun(COUNT, updates)
    edges = left(updates)
    found = {"by hand": native.run("count").net[0], "DuckDB": by_duckdb(edges), "trace(A³)": trace_of_cube(edges)}
    hand, times, steps = [], {"kernel": [], "database": []}, set()
    for _ in range(runs):
        hand.append(native.run("count").seconds)
        spent, taken = kernel.state()
        times["kernel"].append(spent)
        steps.add(taken)
        run = DatabaseRun(COUNT, updates)
        times["database"].append(run.state())
        found["database"] = run.db.view("v").to_arrow().column(0)[0].as_py()
        if len(set(found.values())) != 1 or len(steps) != 1:
            raise Wrong(f"triangles of {graph}, {order}: {found}; steps {steps}")
    native.close()
    for level, spent in times.items():
        yield {
            "bench": "count",
            "level": level,
            "query": COUNT,
            "graph": graph,
            "order": order,
            "updates": len(updates),
            "triangles": found["by hand"],
            "steps": min(steps) / len(updates),
            "seconds": min(spent),
            "native_seconds": min(hand),
            "value": min(spent) / min(hand),
            "bar": bar,
        }


def listing(graph: str, order: str, updates: Updates, runs: int, bar: float | None) -> Iterator[Record]:
    """Every triangle that comes or goes with every update, as Arrow."""
    native, kernel = Native(PROGRAMS[LISTING], updates), KernelRun(LISTING, updates)
    checked = native.run("check")
    levels = {"kernel": kernel.deltas, "database": lambda take=None: DatabaseRun(LISTING, updates).deltas(take)}
    for level, run in levels.items():
        sums = Sums()
        compare(f"triangles, {graph}, {order}, {level}", checked, run(sums.add)[0], sums)
    hand: list[float] = []
    times: dict[str, list[float]] = {level: [] for level in levels}
    for _ in range(runs):
        hand.append(native.run("deltas").seconds)
        for level, run in levels.items():
            times[level].append(run()[0].seconds)
    native.close()
    for level, spent in times.items():
        yield {
            "bench": "listing",
            "level": level,
            "query": LISTING,
            "graph": graph,
            "order": order,
            "updates": len(updates),
            "rows": checked.rows,
            "seconds": min(spent),
            "native_seconds": min(hand),
            "value": min(spent) / min(hand),
            "bar": bar,
        }


def hubs(sizes: tuple[int, ...] = HUBS, updates: int = 2_000) -> Iterator[Record]:
    """An edge between two hubs, which share all their neighbours, comes and goes: steps and time an update."""
    steps, seconds = [], []
    for size in sizes:
        built = [(LEAST, i) for i in range(size)] + [(i, MOST) for i in range(size)]
        toggled = [(MOST, LEAST)] * updates
        run = KernelRun(COUNT, inserts("hubs", [*built, *toggled]))
        run.start(False)
        run.part.apply(run.entry.state_only, [c.slice(0, len(built)) for c in run.columns])
        weights = pa.array([1, -1] * (updates // 2), pa.int64())
        toggle = [*(c.slice(len(built)) for c in run.columns[:-1]), weights]
        before, begun = run.part.whole.steps, process_time()
        run.part.apply(run.entry.state_only, toggle)
        seconds.append((process_time() - begun) / updates)
        steps.append((run.part.whole.steps - before) / updates)
    yield {
        "bench": "hubs",
        "query": COUNT,
        "graph": "two hubs",
        "order": "their edge comes and goes",
        "sizes": sizes,
        "steps": steps,
        "seconds": seconds,
        "value": max(steps) / steps[0],
        "bar": 1.0,
    }


def run(data: Path | None, runs: int, small: bool = False) -> Iterator[Record]:
    """Every bar; ``small`` only sees that all of it works."""
    scale = 100 if small else 1
    graphs: list[tuple[str, str, list[Edge]]] = [("power law", "random", power_law(500_000 // scale))]
    if data is not None:
        epinions = read_graph(data / "epinions.csv.gz")
        epinions = epinions[: len(epinions) // scale]
        graphs = [("epinions", "file order", epinions), ("epinions", "shuffled", shuffled(epinions)), *graphs]
    for graph, order, edges in graphs:
        updates = fifo(order, edges)
        yield from counts(graph, order, updates, runs, COUNT_BAR)
        yield from listing(graph, order, updates, runs, LISTING_BAR)
    yield from hubs(tuple(n // min(scale, 10) for n in HUBS))


def table(records: list[Record]) -> str:
    """The records as a Markdown table."""
    lines = ["| what | graph, order | measured | value | bar | |", "|---|---|---|---|---|---|"]
    for r in records:
        level = f", {r['level']}" if "level" in r else ""
        mark = "reached" if r["value"] <= r["bar"] else "**missed**"
        cells = [
            r["bench"] + level,
            f"{r['graph']}, {r['order']}",
            _detail(r),
            at_most(r["value"]),
            f"≤ {r['bar']:g}",
            mark,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _detail(r: Record) -> str:
    if r["bench"] == "hubs":
        each = zip(r["sizes"], r["steps"], r["seconds"], strict=True)
        return ", ".join(f"{n:,} neighbours: {steps:g} steps, {1e9 * s:.0f} ns" for n, steps, s in each)
    time = " and ".join(f"{1e9 * r[k] / r['updates']:,.0f}" for k in ("seconds", "native_seconds"))
    if r["bench"] == "count":
        steps = f", {r['steps']:.1f} steps" if r["level"] == "kernel" else ""
        return (
            f"{r['updates']:,} updates, {r['triangles']:,} triangles in the end; {time} (by hand) ns an update{steps}"
        )
    return f"{r['updates']:,} updates, {r['rows']:,} rows; {time} (by hand) ns an update"


def section(head: Record, records: list[Record]) -> str:
    """What the page shows of a run."""
    return f"{table(records)}\n\n{results.provenance([head], 'triangle')}"


def main() -> int:
    """Measure, print, and keep what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="the folder with epinions.csv.gz")
    parser.add_argument("--runs", type=int, default=3, help="of which the best counts")
    parser.add_argument("--small", action="store_true", help="graphs of a hundredth of the size, to see that it works")
    parser.add_argument(
        "--write", action="store_true", help="keep the results and put the table into docs/performance-tables.md"
    )
    parser.add_argument("--resume", action="store_true", help=results.RESUME)
    options = parser.parse_args()
    if options.resume and results.stands("triangle"):
        return 0
    records = []
    for record in run(options.data, options.runs, options.small):
        records.append(record)
        print(json.dumps(record), flush=True)
    head = results.circumstances("benchmarks.triangle")
    print(section(head, records))
    if options.write:
        results.put("triangle", head, records)
        report.fill(MARK, section(head, records), END)
    return 0


if __name__ == "__main__":
    sys.exit(main())
