"""The engine's bars: the CROWN paper's graph queries beside hand-written programs, in one run on one core.

``make bench-engine`` runs everything over generated graphs; ``ARGS="--data ../shared/data"`` over Epinions and
Bitcoin-Alpha as well. Every run's rows are counted and, once, summed up, and must be those of the hand-written program.
Times are processor time, the best of several runs that take turns; kernel steps are counted, so they repeat exactly.
``--write`` keeps the measurements in benchmarks/results/ and puts the table into docs/performance-tables.md.
It ends with an error if rows are wrong; a missed bar is a result.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks import report, results
from benchmarks.data.graphs import Edge, Updates, at_random, fifo, inserts, power_law, read_graph, shuffled
from benchmarks.drive import ROW_BYTES, DatabaseRun, KernelRun, Sums
from benchmarks.experiments.base import at_most
from benchmarks.native import PROGRAMS, Measured, Native

HERE = Path(__file__).parent
MARK, END = "<!-- engine: written by `make bench-engine ARGS=--write` -->", "<!-- end engine -->"
REFERENCE = {("bitcoin-alpha", "by time"): (43_535, 2_922_981), ("epinions", "file order"): (915_907, 245_123_782)}
"""3-Hop over these graphs: updates, and rows of deltas (of the data's README)."""
GROWING = (("3-hop", "fifo"), ("4-hop", "fifo"), ("star", "random"), ("4-hop", "inserts"))
"""Height 2 over windows, a q-hierarchical query under any updates, a free-connex one under inserts alone."""

Record = dict[str, Any]


class Wrong(AssertionError):
    """The engine and the hand-written program do not agree."""


# --- deltas ----------------------------------------------------------------------------------------------------------


def deltas(query: str, graph: str, order: str, updates: Updates, runs: int, bar: float | None) -> Iterator[Record]:
    """Every row of every update's delta as Arrow, against the hand-written program; and the most memory on the way."""
    native = Native(PROGRAMS[query], updates)
    checked = native.run("check")
    expected = REFERENCE.get((graph, order)) if query == "3-hop" else None
    if expected is not None and expected != (checked.updates, checked.rows):
        raise Wrong(f"the hand-written program gives {checked.updates} updates and {checked.rows} rows, not {expected}")
    kernel = KernelRun(query, updates)
    levels = {"kernel": kernel.deltas, "database": lambda take=None: DatabaseRun(query, updates).deltas(take)}
    hand: list[float] = []
    times: dict[str, list[float]] = {level: [] for level in levels}
    peaks = {}
    for level, run in levels.items():
        sums = Sums()
        measured, peaks[level] = run(sums.add)
        compare(f"{query}, {graph}, {order}, {level}", checked, measured, sums)
    for _ in range(runs):
        hand.append(native.run("deltas").seconds)
        for level, run in levels.items():
            times[level].append(run()[0].seconds)
    native.close()
    occurrences = len(kernel.entry.atom_inputs)
    common = {"query": query, "graph": graph, "order": order, "updates": checked.updates, "rows": checked.rows}
    for level in levels:
        ratio = min(times[level]) / min(hand)
        yield {
            "bench": "deltas",
            "level": level,
            **common,
            "seconds": min(times[level]),
            "native_seconds": min(hand),
            "value": ratio,
            "bar": bar,
        }
    for level in levels:
        yield {
            "bench": "memory",
            "level": level,
            **common,
            "window": updates.window,
            "bytes": peaks[level],
            "value": peaks[level] / (updates.window * ROW_BYTES * occurrences),
            "bar": 4.0 if bar else None,
        }


def compare(what: str, native: Measured, measured: Measured, sums: Sums) -> None:
    """Updates, rows and their sums must be the same."""
    if (native.updates, native.rows) != (measured.updates, measured.rows):
        raise Wrong(f"{what}: {measured.rows} rows from {measured.updates} updates, by hand {native.rows}")
    if native.sums != tuple(sums.sums):
        raise Wrong(f"{what}: the rows add up to {sums.sums}, by hand to {native.sums}")


# --- growth ----------------------------------------------------------------------------------------------------------


def growth(query: str, order: str, sizes: tuple[int, int], runs: int) -> Iterator[Record]:
    """Cost per update without deltas as the graph grows: in kernel steps, and in time beside the program's by hand."""
    made = {"fifo": fifo, "random": at_random, "inserts": inserts}[order]
    steps, seconds, hand = [], [], []
    for size in sizes:
        updates = made(order, power_law(size))
        native = Native(PROGRAMS[query], updates)
        kernel = KernelRun(query, updates)
        found = [(native.run("state").seconds, *kernel.state()) for _ in range(runs)]
        native.close()
        hand.append(min(f[0] for f in found) / len(updates))
        seconds.append(min(f[1] for f in found) / len(updates))
        steps.append(found[0][2] / len(updates))
        if len({f[2] for f in found}) != 1:
            raise Wrong(f"{query}: the number of steps changes from run to run")
    common = {"query": query, "graph": "power law", "order": order, "sizes": sizes}
    yield {"bench": "steps", **common, "steps": steps, "value": steps[1] / steps[0], "bar": 1.05}
    ours, theirs = seconds[1] / seconds[0], hand[1] / hand[0]
    yield {
        "bench": "growth",
        **common,
        "seconds": seconds,
        "native_seconds": hand,
        "growth": ours,
        "native_growth": theirs,
        "value": ours / theirs,
        "bar": 1.3,
    }


# --- enumeration -----------------------------------------------------------------------------------------------------


def enumeration(sizes: tuple[int, ...], runs: int) -> Iterator[Record]:
    """Time to the first result and per result of 3-Hop, over graphs of growing size."""
    found = []
    for size in sizes:
        kernel = KernelRun("3-hop", inserts("inserts", power_law(size)))
        kernel.state()
        first = min(_first_result(kernel) for _ in range(200))
        listings = [_listing(kernel) for _ in range(max(runs, 5))]
        found.append((first, min(each for each, _ in listings), listings[0][1]))
    common = {
        "query": "3-hop",
        "graph": "power law",
        "order": "inserts",
        "sizes": sizes,
        "results": [f[2] for f in found],
    }
    each = [f[1] for f in found]
    yield {"bench": "enumeration", **common, "seconds": each, "value": max(each) / each[0], "bar": 1.5}
    first = [f[0] for f in found]
    yield {"bench": "first result", **common, "seconds": first, "value": max(first) / first[0], "bar": 3.0}


def _first_result(kernel: KernelRun) -> float:
    """Seconds from opening the result to its first row in hand."""
    begun = perf_counter()
    kernel.part.open("result").fetch(1)
    return perf_counter() - begun


def _listing(kernel: KernelRun) -> tuple[float, int]:
    """Seconds per result of listing all, and how many there are."""
    cursor = kernel.part.open("result")
    results = 0
    begun = perf_counter()
    while count := len(cursor.fetch(8_192)[0]):
        results += count
    return (perf_counter() - begun) / results, results


# --- selectivity -----------------------------------------------------------------------------------------------------


def selectivity(graph: str, order: str, updates: Updates, every: int, runs: int) -> Iterator[Record]:
    """3-Hop that keeps few results: its cost beside that of its input alone, and beside its 2-hop join."""
    native = Native("three_hop", updates, every)
    checked = native.run("check")
    kernel = KernelRun("3-hop", updates, every)
    sums = Sums()
    measured, _ = kernel.deltas(sums.add)
    compare(f"3-hop, {graph}, every {every}", checked, measured, sums)
    loud_steps = kernel.part.whole.steps
    kernel.deltas()
    loud_steps = kernel.part.whole.steps - loud_steps
    quiet_steps = kernel.state()[1]
    loud = min(kernel.deltas()[0].seconds for _ in range(runs))
    quiet = min(kernel.state()[0] for _ in range(runs))
    hand = min(native.run("deltas").seconds for _ in range(runs))
    native.close()
    common = {"query": f"3-hop, every {every}th d", "graph": graph, "order": order, "updates": checked.updates}
    yield {
        "bench": "selectivity, steps",
        **common,
        "rows": checked.rows,
        "steps": [quiet_steps, loud_steps],
        "value": loud_steps / quiet_steps,
        "bar": 2.0,
    }
    yield {
        "bench": "selectivity, time",
        **common,
        "rows": checked.rows,
        "seconds": [quiet, loud],
        "native_seconds": hand,
        "value": loud / quiet,
        "bar": 2.0,
    }


# --- all of it -------------------------------------------------------------------------------------------------------


def run(data: Path | None, runs: int, small: bool = False) -> Iterator[Record]:
    """Every bar; ``small`` only sees that all of it works."""
    scale = 100 if small else 1
    for graph, order, edges, bar in graphs(data, scale):
        yield from deltas("3-hop", graph, order, fifo(order, edges), runs, bar)
    for graph, order, edges, bar in graphs(data, scale):
        if bar is not None and order in ("shuffled", "random"):  # Half of it already has hundreds of millions of rows.
            half = edges[: len(edges) // 2 if data is not None else len(edges) // 10]
            yield from deltas("4-hop", f"{graph}, {len(half):,} edges", order, fifo(order, half), runs, bar)
    for graph, order, edges, bar in graphs(data, scale):
        if bar is not None:
            yield from selectivity(graph, order, fifo(order, edges), 1_000, runs)
    for query, order in GROWING:
        yield from growth(query, order, (50_000 // scale, 500_000 // scale), max(runs, 3))
    yield from enumeration(tuple(n // min(scale, 10) for n in (1_000, 6_000, 40_000, 280_000)), runs)


def graphs(data: Path | None, scale: int) -> Iterator[tuple[str, str, list[Edge], float | None]]:
    """The graphs of the 3-Hop runs, each with its order and its bar, if it has one."""
    if data is not None:
        yield "bitcoin-alpha", "by time", read_graph(data / "bitcoin-alpha.csv.gz"), None
        epinions = read_graph(data / "epinions.csv.gz")
        yield "epinions", "file order", epinions, 5.0
        yield "epinions", "shuffled", shuffled(epinions), 5.0
    made = power_law((100_000 if data else 500_000) // scale)
    yield "power law", "by source", sorted(made), None if data else 5.0
    yield "power law", "random", made, None if data else 5.0


# --- what is shown ---------------------------------------------------------------------------------------------------


def table(records: list[Record]) -> str:
    """The records as a Markdown table."""
    lines = ["| what | query | graph, order | measured | value | bar | |", "|---|---|---|---|---|---|---|"]
    for r in records:
        level = f", {r['level']}" if "level" in r else ""
        bar = "" if r["bar"] is None else f"≤ {r['bar']:g}"
        mark = "" if r["bar"] is None else ("reached" if r["value"] <= r["bar"] else "**missed**")
        cells = [
            r["bench"] + level,
            r["query"],
            f"{r['graph']}, {r['order']}",
            _detail(r),
            at_most(r["value"]),
            bar,
            mark,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def section(head: Record, records: list[Record]) -> str:
    """What the page shows of a run."""
    return f"{table(records)}\n\n{results.provenance([head], 'engine')}"


def _detail(r: Record) -> str:
    match r["bench"]:
        case "deltas":
            time = f"{r['seconds']:.2f} s; by hand {r['native_seconds']:.2f} s"
            return f"{r['updates']:,} updates, {r['rows']:,} rows in {time}"
        case "memory":
            return f"{r['bytes'] / r['window']:.0f} bytes a row of the window"
        case "steps":
            return " → ".join(f"{s:.2f}" for s in r["steps"]) + " steps an update"
        case "growth":
            ours = " → ".join(f"{1e9 * s:.0f}" for s in r["seconds"])
            hand = " → ".join(f"{1e9 * s:.1f}" for s in r["native_seconds"])
            return f"{ours} ns an update ({r['growth']:.2f} ×); by hand {hand} ns ({r['native_growth']:.2f} ×)"
        case "enumeration":
            each = zip(r["results"], r["seconds"], strict=True)
            return ", ".join(f"{n:,} results: {1e9 * s:.1f} ns each" for n, s in each)
        case "first result":
            return ", ".join(f"{1e6 * s:.1f} µs" for s in r["seconds"])
        case "selectivity, steps":
            return f"{r['rows']:,} rows; steps without feed {r['steps'][0]:,}, with it {r['steps'][1]:,}"
        case _:
            quiet, loud = r["seconds"]
            return f"without feed {quiet:.2f} s, with it {loud:.2f} s; by hand (2-hop join) {r['native_seconds']:.2f} s"


def main() -> int:
    """Measure, print, and keep what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="the folder with epinions.csv.gz and bitcoin-alpha.csv.gz")
    parser.add_argument("--runs", type=int, default=3, help="of which the best counts")
    parser.add_argument("--small", action="store_true", help="graphs of a hundredth of the size, to see that it works")
    parser.add_argument(
        "--write", action="store_true", help="keep the results and put the table into docs/performance-tables.md"
    )
    parser.add_argument("--resume", action="store_true", help=results.RESUME)
    options = parser.parse_args()
    if options.resume and results.stands("engine"):
        return 0
    records = []
    for record in run(options.data, options.runs, options.small):
        records.append(record)
        print(json.dumps(record), flush=True)
    head = results.circumstances("benchmarks.engine")
    print(section(head, records))
    if options.write:
        results.put("engine", head, records)
        report.fill(MARK, section(head, records), END)
    return 0


if __name__ == "__main__":
    sys.exit(main())
