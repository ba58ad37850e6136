"""The batch size up to which maintaining a view is faster than running its query afresh."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import ceil, exp, floor, log

from matplotlib.figure import Figure

from benchmarks.bench import Bench
from benchmarks.case import Case
from benchmarks.experiments.base import Experiment, legend, line, markdown, ordered, panels, seconds, systems_of
from benchmarks.results import Record
from benchmarks.systems import SYSTEMS

STAGES = ((1, 3), (10, 3), (100, 3), (1_000, 3), (10_000, 3))
"""Batch sizes, and how many batches of each; larger ones follow while the log has updates for them."""
LARGEST = 100_000
LOADED = 0.5
"""The part of the log that is there before: state as in the middle of a stream."""
LIMIT = 120
RIVALS = ("duckdb", "spark")


def run(bench: Bench) -> Iterator[Record]:
    """Every query once, on the data that is meant for it, else the first."""
    chosen: dict[str, Case] = {}
    for case in bench.cases():
        if case.breakeven or case.name not in chosen:
            chosen[case.name] = case
    for case in chosen.values():
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


def wins(ours: dict[int, float], theirs: dict[int, float]) -> list[tuple[float | None, float | None]]:
    """The ranges of batch sizes in which we are faster, on logarithmic axes; None where nothing was measured beyond."""
    sizes = sorted(ours.keys() & theirs.keys())
    gaps = [log(ours[s] / theirs[s]) for s in sizes]
    found: list[tuple[float | None, float | None]] = []
    begin: float | None = None
    for i, gap in enumerate(gaps):
        if i > 0 and (gap < 0) != (gaps[i - 1] < 0):
            part = gaps[i - 1] / (gaps[i - 1] - gap)
            place = exp(log(sizes[i - 1]) + part * log(sizes[i] / sizes[i - 1]))
            if gap < 0:
                begin = place
            else:
                found.append((begin, place))
    if gaps[-1] < 0:
        found.append((begin, None))
    return found


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
    header += [f"Everview wins against {SYSTEMS[s].title.partition(',')[0]}" for s in systems if s in RIVALS]
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
    ranges = wins(curves["everview"], curves[rival])
    largest = max(curves["everview"].keys() & curves[rival].keys())
    return " and ".join(_range(begin, end, largest) for begin, end in ranges) or "recomputing wins at every size"


def _range(begin: float | None, end: float | None, largest: int) -> str:
    upto = f"to {rounded(end, floor):,}" if end is not None else f"to {largest:,} and more"
    return f"from {rounded(begin, ceil):,} {upto}" if begin is not None else f"up {upto}"


def rounded(size: float, towards: Callable[[float], int]) -> int:
    """To two figures, so that the range becomes smaller."""
    unit = 10 ** max(0, len(str(int(size))) - 2)
    return towards(size / unit) * unit


def plots(records: list[Record]) -> dict[str, Figure]:
    """Time a batch against its size, one small plot a query."""
    drawn, axes = panels(ordered(records, "title"), "updates a batch", "ms a batch")
    for axis, title in axes:
        for r in records:
            points = sorted(curve(r).items()) if r["title"] == title else []
            if points:
                line(axis, r["system"], [p[0] for p in points], [p[1] for p in points])
    legend(drawn)
    return {"breakeven": drawn}


BREAKEVEN = Experiment(
    name="breakeven",
    title="Break-even against recomputation",
    about="""\
The state is that of the middle of the log, loaded beforehand. Then batches of 1, 10, 100, 1,000, 10,000 and, where the
log is long enough, 100,000 updates follow. After each, Everview delivers its net changes, while DuckDB and Spark apply
it to their tables and run the query afresh, reading the whole result (they need not find what changed). Times are
medians over the batches of a size. *Everview wins*: the batch sizes at which it is faster, interpolated between those
measured on logarithmic axes and rounded against us; "and more": also at the largest size measured.
""",
    results="breakeven",
    table=table,
    plots=plots,
    run=run,
)
