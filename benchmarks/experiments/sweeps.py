"""Curves of cost: as the filter lets more through, and as the data grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from matplotlib.figure import Figure

from benchmarks.bench import Bench
from benchmarks.case import Case, Data
from benchmarks.experiments.base import (
    Experiment,
    at_most,
    legend,
    line,
    markdown,
    ordered,
    panels,
    seconds,
    systems_of,
)
from benchmarks.results import Record
from benchmarks.systems import SYSTEMS

DIVISORS = (1_000, 100, 10, 2, 1)
GROWTH = (0.1, 0.2, 0.5, 1.0)
"""Of 508,837 edges."""
SNB_GROWTH = (0.1, 0.2)
LIMIT = 90
Value = Callable[[Record], float]


# --- selectivity -----------------------------------------------------------------------------------------------------


def run_selectivity(bench: Bench) -> Iterator[Record]:
    """3-Hop and 4-Hop with filters that keep every n-th end."""
    for name, systems in (("3-hop", ("everview", "native", "flink", "duckdb")), ("4-hop", ("everview", "native"))):
        if bench.only and name not in bench.only:
            continue
        case = replace(bench.case(name), deltas=None, limit=LIMIT, limits={}, check_scale=0.3, own_check_scale=0.3)
        for divisor in DIVISORS:
            for system in bench.systems(*systems):
                yield bench.measure(replace(case, every=divisor), system)


def selectivity_table(records: list[Record]) -> str:
    """One row a filter."""
    systems = systems_of(records)
    header = ["query", "data", "filter keeps", "rows of deltas", *(SYSTEMS[s].title for s in systems), "÷ by hand"]
    rows = []
    for title in ordered(records, "title"):
        mine = [r for r in records if r["title"] == title]
        for every in ordered(mine, "every"):
            found = {r["system"]: r for r in mine if r["every"] == every}
            deltas = next((r["rows"] for s, r in found.items() if SYSTEMS[s].per_update and r["status"] == "ok"), None)
            row = [
                title,
                mine[0]["data"],
                f"1/{every:,}" if every > 1 else "all",
                "" if deltas is None else f"{deltas:,}",
            ]
            rows.append([*row, *(seconds(found.get(s)) for s in systems), _by_hand(found)])
    return markdown(header, rows)


def _by_hand(found: dict[str, Record]) -> str:
    times = {s: r["run_s"] for s, r in found.items() if r["status"] == "ok"}
    return at_most(times["everview"] / times["native"]) if {"everview", "native"} <= times.keys() else ""


def selectivity_plots(records: list[Record]) -> dict[str, Figure]:
    """Run time against the part that the filter keeps."""
    return {"selectivity": _curves(records, lambda r: 1 / r["every"], lambda r: r["run_s"], "part kept", "run time, s")}


SELECTIVITY = Experiment(
    name="selectivity",
    title="Selectivity",
    about="""\
The filter on the last vertex keeps every n-th; the log is the same. A system that builds the join of the first two
hops pays for it whatever the filter keeps; with CROWN the cost should follow the input plus the rows delivered. Delta
mode.
""",
    results="selectivity",
    table=selectivity_table,
    plots=selectivity_plots,
    run=run_selectivity,
)


# --- scale -----------------------------------------------------------------------------------------------------------


def run_scale(bench: Bench) -> Iterator[Record]:
    """The same queries over ever larger data of the same kind."""
    for name, updates in (("3-hop", "fifo"), ("4-hop", "fifo"), ("star", "random")):
        if bench.only and name not in bench.only:
            continue
        for size in GROWTH:
            data = Data("power-law", float(f"{size * bench.scale:.4g}"), "random", updates)
            yield from _grown(bench, replace(bench.case(name), data=data))
    for name in ("snb-q1", "snb-q3"):
        if bench.only and name not in bench.only:
            continue
        for size in SNB_GROWTH:
            data = Data("snb", float(f"{size * bench.scale:.4g}"))
            yield from _grown(bench, replace(bench.case(name), data=data))


def _grown(bench: Bench, case: Case) -> Iterator[Record]:
    case = replace(case, deltas=None, limit=LIMIT, limits={}, check_scale=0.3, own_check_scale=0.3)
    for system in bench.systems("everview", "native"):
        if system.name == "everview" or not case.name.startswith("snb"):
            yield bench.measure(case, system)


def scale_table(records: list[Record]) -> str:
    """One row a size: cost per update, and per update and row of its delta."""
    header = ["query", "data", "updates", "rows of deltas", "system", "µs an update", "ns an update or row"]
    rows = []
    for r in records:
        system = SYSTEMS[r["system"]].title
        if r["status"] != "ok":
            rows.append([r["title"], r["data"], f"{r['log_updates']:,}", "", system, seconds(r), ""])
            continue
        each = [f"{1e6 * r['run_s'] / r['updates']:,.2f}", f"{1e9 * r['run_s'] / (r['updates'] + r['rows']):,.1f}"]
        counts = [f"{r['updates']:,}", f"{r['rows']:,}"]
        rows.append([r["title"], r["data"], *counts, system, *each])
    return markdown(header, rows)


def scale_plots(records: list[Record]) -> dict[str, Figure]:
    """Cost per update against the size of the log."""
    good = [r for r in records if r["status"] == "ok"]
    return {"scale": _curves(good, lambda r: r["updates"], _cost, "updates in the log", "µs an update")}


def _cost(record: Record) -> float:
    return float(1e6 * record["run_s"] / record["updates"])


SCALE = Experiment(
    name="scale",
    title="Cost per update as the data grows",
    about="""\
Power-law graphs of 51,000 to 509,000 edges (SF 0.1 to 1), windows of a fifth of them, and SNB-derived data from SF
0.1 up; every change delivered. The bound says that the cost per update does not grow with the data, apart from the
rows that it delivers; caches grow cold all the same, so the hand-written program is shown beside it.
[Engine](#engine) has the same in kernel steps, which are exact.
""",
    results="scale",
    table=scale_table,
    plots=scale_plots,
    run=run_scale,
)


def _curves(records: list[Record], x: Value, y: Value, x_label: str, y_label: str) -> Figure:
    """A small plot a query, with a curve a system, on logarithmic axes."""
    drawn, axes = panels(ordered(records, "title"), x_label, y_label)
    for axis, title in axes:
        for system in systems_of(records):
            mine = [r for r in records if (r["title"], r["system"], r["status"]) == (title, system, "ok")]
            points = sorted((x(r), y(r)) for r in mine)
            if points:
                line(axis, system, [p[0] for p in points], [p[1] for p in points])
    legend(drawn)
    return drawn
