"""Run time per query and system; what the same runs say of latency and memory is shown by their own modules."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from matplotlib.figure import Figure

from benchmarks.bench import Bench
from benchmarks.experiments.base import (
    SHORT,
    Experiment,
    at_least,
    at_most,
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

MODES = {"delta": "every change delivered", "full": "the whole result read after every tenth of the log"}


def run(bench: Bench) -> Iterator[Record]:
    """Every case on every system that it names, in each of its modes."""
    for case in bench.cases():
        for mode in case.modes if not bench.quick else case.modes[:1]:
            for system in bench.systems(*case.systems):
                if mode in system.modes:
                    yield bench.measure(case, system, mode)


def by_case(records: list[Record]) -> dict[tuple[str, str], dict[str, Record]]:
    """The records of each query and data, by system, each query's of one machine."""
    found: dict[tuple[str, str], dict[str, Record]] = {}
    for r in records:
        found.setdefault((r["title"], r["data"]), {})[r["system"]] = r
    return {name: of_one_machine(by_system) for name, by_system in found.items()}


def of_one_machine(found: dict[str, Record]) -> dict[str, Record]:
    """Without the times that others took on another machine than we did; that memory ran out holds on any."""
    ours = _machine(found["everview"]) if "everview" in found else None
    return {
        system: r
        for system, r in found.items()
        if ours is None or _machine(r) == ours or r["status"] in ("memory", "unsupported")
    }


def _machine(record: Record) -> str:
    """Without what only some systems' runs know of it."""
    return str(record.get("machine", "")).partition(", pyspark")[0]


def table(records: list[Record]) -> str:
    """One table a mode: the seconds of each system, and how we stand to the program by hand and to the best rival."""
    parts = []
    for mode in ordered(records, "mode"):
        mine = [r for r in records if r["mode"] == mode]
        systems = systems_of(mine)
        header = ["query", "data", "updates", *(SYSTEMS[s].title for s in systems), "÷ by hand", "best rival ÷ ours"]
        rows = []
        for (title, data), found in by_case(mine).items():
            first = next(iter(found.values()))
            updates = f"{first['log_updates']:,}" + ("" if first["per_update"] or mode == "full" else ", net")
            cells = [seconds(found.get(s)) or "not run" for s in systems]
            rows.append([title, data, updates, *cells, *ratios(found)])
        parts.append(f"**{mode.capitalize()} mode**: {MODES[mode]}.\n\n{markdown(header, rows)}")
    parts.append(f"**Start-up**, which is not counted above: {_startups(records)}.")
    return "\n\n".join(parts)


def _startups(records: list[Record]) -> str:
    """What a system takes until it is up, in seconds."""
    found: dict[str, list[float]] = {}
    for r in records:
        if r["status"] == "ok" and "startup_s" in r:
            found.setdefault(r["system"], []).append(r["startup_s"])
    middles = [(SYSTEMS[s].title, median(found[s])) for s in SYSTEMS if s in found]
    return ", ".join(f"{title} {middle:.1f} s" for title, middle in middles) or "not measured"


def ratios(found: dict[str, Record]) -> list[str]:
    """Our time over the hand-written program's, and the best rival's over ours; empty where there is none."""
    times = {s: r["run_s"] for s, r in found.items() if r["status"] == "ok"}
    ours = times.get("everview")
    if ours is None:
        return ["", ""]
    by_hand = at_most(ours / times["native"]) if times.get("native") else ""
    rivals = {s: r for s, r in found.items() if not SYSTEMS[s].is_ours}
    known = [(r["run_s"], "", s) for s, r in rivals.items() if r["status"] == "ok"]
    known += [(r["limit_s"], "> ", s) for s, r in rivals.items() if r["status"] == "timeout"]
    if not known:
        return [by_hand, ""]
    time, bound, best = min(known)
    return [by_hand, f"{bound}{at_least(time / ours)} ({SYSTEMS[best].title.partition(',')[0]})"]


def plots(records: list[Record]) -> dict[str, Figure]:
    """Bars by query, one plot a mode."""
    made = {}
    for mode in ordered(records, "mode"):
        mine = [r for r in records if r["mode"] == mode]
        cases = by_case(mine)
        drawn, axis = dot_figure(len(cases))
        values = {}
        for system in systems_of(mine):
            column = [found.get(system) for found in cases.values()]
            values[system] = [
                (r["run_s"], "") if r and r["status"] == "ok" else (None, SHORT[r["status"]] if r else "")
                for r in column
            ]
        dots(axis, [f"{title}: {data}" for title, data in cases], values)
        axis.set_xlabel("run time, s (log scale)")
        axis.set_title(f"Run time, {mode} mode: {MODES[mode]}", fontsize=10)
        legend(drawn)
        made[f"runtime-{mode}"] = drawn
    return made


RUNTIME = Experiment(
    name="runtime",
    title="Run time per query and system",
    about="""\
Wall time from the first update in to the last change out; start-up and the rows that are there before the log are not
counted. Incremental systems take the log in batches of 1,000 updates where they take batches. Everview, on one core,
delivers every single update's own changes (`changes(per_update=True)`) or, where it says "net", a batch's net changes;
rivals may use all cores, and may deliver net changes always. Recomputing systems run the query after every batch
(delta mode) or every tenth (full mode), and need not work out what changed. "> 40 s at 12%" means ended at the time
limit with that part of the log done; "–": the system, or this benchmark's translation for it, cannot express the
query; "not run": nobody has tried, or only on another
machine than ours was run on; "†": the check was on a part of the log (rivals are checked on the first data of a
query alone, or on a part of it). A run is the median of three, or two, where they take no more than some seconds,
start-up included. *÷ by hand*: our time divided by the hand-written C++ program's (rounded up). *best rival ÷ ours*:
the fastest rival's time divided by ours (rounded down), and which rival that is; below 1, it wins; ">", if it was ended
at its time limit.
""",
    results="runtime",
    table=table,
    plots=plots,
    run=run,
)
