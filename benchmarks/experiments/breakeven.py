"""The batch size up to which maintaining a view is faster than running its query afresh."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import exp, log

from matplotlib.figure import Figure

from benchmarks.bench import Bench
from benchmarks.experiments.base import Experiment, figure, line, markdown, ordered, seconds, systems_of
from benchmarks.results import Record
from benchmarks.systems import SYSTEMS

STAGES = ((1, 30), (10, 20), (100, 12), (1_000, 6), (10_000, 3))
"""Batch sizes, and how many batches of each; larger ones follow while the log has updates for them."""
LARGEST = 100_000
LOADED = 0.5
"""The part of the log that is there before: state as in the middle of a stream."""
LIMIT = 60
RIVALS = ("duckdb", "spark")


def run(bench: Bench) -> Iterator[Record]:
    """Every query once, on the first of its data."""
    seen = set()
    for case in bench.cases():
        if case.name in seen:
            continue
        seen.add(case.name)
        data = replace(case.data, after=LOADED)
        sizes = stages(data.log(bench.data).updates)
        case = replace(case, data=data, sizes=sizes, per_update=False, deltas=None, limit=LIMIT, limits={})
        for system in bench.systems("everview", *RIVALS):
            yield bench.measure(case, system)


def stages(updates: int) -> tuple[int, ...]:
    """The sizes of batches one after the other, as far as the log goes."""
    sizes: list[int] = []
    for size, count in (*STAGES, (LARGEST, 2)):
        fitting = min(count, (updates - sum(sizes)) // size)
        sizes += [size] * fitting
    return tuple(sizes)


def crossing(ours: dict[int, float], theirs: dict[int, float]) -> tuple[str, float]:
    """Where the curves cross, on logarithmic axes: ``<`` or ``>`` and a size, if it is beyond what was measured."""
    sizes = sorted(set(ours) & set(theirs))
    gaps = [log(ours[s] / theirs[s]) for s in sizes]
    if gaps[0] > 0:
        return "<", float(sizes[0])
    for i in range(1, len(sizes)):
        if gaps[i] > 0:
            part = -gaps[i - 1] / (gaps[i] - gaps[i - 1])
            return "", exp(log(sizes[i - 1]) + part * log(sizes[i] / sizes[i - 1]))
    return ">", float(sizes[-1])


def curve(record: Record | None) -> dict[int, float]:
    """Milliseconds a batch by its size; a run that was ended has none."""
    if record is None or record["status"] != "ok":
        return {}
    return {int(size): ms for size, ms in record["batch_ms"].items()}


def table(records: list[Record]) -> str:
    """One row a query: times at some sizes, and where the curves cross."""
    shown = (1, 100, 10_000)
    systems = systems_of(records)
    header = ["query", "data"]
    header += [f"{SYSTEMS[s].title}, {size:,}" for size in shown for s in systems]
    header += [f"break-even against {SYSTEMS[s].title.partition(',')[0]}" for s in systems if s in RIVALS]
    rows = []
    for title in ordered(records, "title"):
        found = {r["system"]: r for r in records if r["title"] == title}
        curves = {s: curve(found.get(s)) for s in systems}
        row = [title, next(iter(found.values()))["data"]]
        row += [f"{curves[s][size]:,.3g} ms" if size in curves[s] else "" for size in shown for s in systems]
        row += [_break_even(found, curves, s) for s in systems if s in RIVALS]
        rows.append(row)
    return markdown(header, rows)


def _break_even(found: dict[str, Record], curves: dict[str, dict[int, float]], rival: str) -> str:
    if not curves[rival] or not curves.get("everview"):
        return seconds(found.get(rival)) if curves.get("everview") else seconds(found.get("everview"))
    sign, size = crossing(curves["everview"], curves[rival])
    if sign == "<":
        return f"recomputing wins from {size:,.0f} on"
    rounded = int(size) if size < 10 else int(float(f"{size:.2g}") if float(f"{size:.2g}") <= size else size)
    return f"{sign} {rounded:,}".strip()


def plots(records: list[Record]) -> dict[str, Figure]:
    """Time a batch against its size, one small plot a query."""
    titles = ordered(records, "title")
    lines = (len(titles) + 2) // 3
    drawn, axes = figure(9.5, 2.5 * lines, min(3, len(titles)), lines)
    for axis, title in zip(axes, titles, strict=False):
        for r in records:
            points = sorted(curve(r).items()) if r["title"] == title else []
            if points:
                line(axis, r["system"], [p[0] for p in points], [p[1] for p in points])
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_title(title, fontsize=9)
        axis.set_xlabel("updates a batch", fontsize=8)
        axis.set_ylabel("ms a batch", fontsize=8)
    for axis in axes[len(titles) :]:
        axis.set_visible(False)
    handles, labels = axes[0].get_legend_handles_labels()
    if handles:
        axes[0].legend(handles, labels, fontsize=7)
    return {"breakeven": drawn}


BREAKEVEN = Experiment(
    name="breakeven",
    title="Break-even against recomputation",
    about="""\
The state is that of the middle of the log, loaded beforehand. Then batches of 1, 10, 100, 1,000, 10,000 and, where
the log is long enough, 100,000 updates follow, and after each batch Everview delivers its net changes, while DuckDB
and Spark apply it to their tables and run the query afresh, reading the whole result (they need not find what
changed). Times are medians over the batches of a size. *Break-even*: the batch size below which Everview is faster,
interpolated between the sizes measured on logarithmic axes, rounded down; ">" means that Everview was faster at every
size there was.
""",
    results="breakeven",
    table=table,
    plots=plots,
    run=run,
)
