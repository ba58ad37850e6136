"""Cost against enclosureness: the same query over logs that differ in λ alone."""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.figure import Figure

import everview as ev
from benchmarks.bench import Bench
from benchmarks.case import Case, Data
from benchmarks.experiments.base import Experiment, at_most, figure, line, markdown, seconds
from benchmarks.results import Record

TIMES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def run(bench: Bench) -> Iterator[Record]:
    """Logs whose lifespans enclose ever more others."""
    if bench.only:
        return
    for times in TIMES:
        data = Data("nested", bench.scale, share=times)
        case = Case("nested", "Path of three tables", "nested", data)
        log = data.log(bench.data)
        found = ev.enclosureness(case.sql, log.tables, log.schema)
        for system in bench.systems("everview"):
            yield bench.measure(case, system, enclosureness=found.value)


def table(records: list[Record]) -> str:
    """One row a log, with the growth since the first."""
    header = ["log", "λ", "updates", "rows of deltas", "kernel steps an update", "µs an update", "growth of λ, of time"]
    rows = []
    first = next((r for r in records if r["status"] == "ok"), None)
    for r in records:
        row = [r["data"], f"{r['enclosureness']:.2f}", f"{r['log_updates']:,}"]
        if r["status"] != "ok" or first is None:
            rows.append([*row, "", "", seconds(r), ""])
            continue
        growth = f"{r['enclosureness'] / first['enclosureness']:.2f} ×, {at_most(_cost(r) / _cost(first))} ×"
        rows.append([*row, f"{r['rows']:,}", f"{r['steps'] / r['updates']:.1f}", f"{_cost(r):.2f}", growth])
    return markdown(header, rows)


def _cost(record: Record) -> float:
    """Microseconds an update."""
    return float(1e6 * record["run_s"] / record["updates"])


def plots(records: list[Record]) -> dict[str, Figure]:
    """Steps and time an update against λ."""
    good = [r for r in records if r["status"] == "ok"]
    drawn, axes = figure(8, 3.2, 2)
    for axis, label, value in (
        (axes[0], "kernel steps an update", lambda r: r["steps"] / r["updates"]),
        (axes[1], "µs an update", _cost),
    ):
        line(axis, "everview", [r["enclosureness"] for r in good], [value(r) for r in good])
        axis.set_xlabel("enclosureness λ of the log")
        axis.set_ylabel(label)
        axis.set_xlim(left=0)
        axis.set_ylim(bottom=0)
    return {"enclosureness": drawn}


ENCLOSURENESS = Experiment(
    name="enclosureness",
    title="Cost against enclosureness λ",
    about="""\
The bound of a query that is not q-hierarchical is O(λ) an update (amortised), where λ is a figure of the order of
updates: how many lifespans, one after the other, fit into another's. These logs (`benchmarks/data/nested.py`) have
the same tables and windows, about as many updates, and hardly any results; only how often rows of r3 come and go
while a row of r2 stays differs. λ is what `everview enclosureness` says of the log and the tree that was chosen. If
the bound is tight, cost grows linearly with λ, from a fixed cost on.
""",
    results="enclosureness",
    table=table,
    plots=plots,
    run=run,
)
