"""The figures that docs/performance.md quotes: a few of each results file, for readers who will not read the tables."""

from __future__ import annotations

from collections.abc import Callable
from math import floor
from pathlib import Path

from benchmarks import bars, results
from benchmarks.experiments.base import at_least, at_most, markdown, ordered, seconds
from benchmarks.experiments.breakeven import RIVALS, curve, rounded, wins
from benchmarks.experiments.load import loading_time
from benchmarks.experiments.runtime import by_case, ratios
from benchmarks.experiments.shards import speedup
from benchmarks.results import RESULTS
from benchmarks.systems import SYSTEMS

SHOWN = (
    ("3-Hop", "epinions, shuffled"),
    ("3-Hop projected", "epinions, shuffled"),
    ("4-Hop", "epinions, shuffled, 0.5 of it"),
    ("Star", "epinions, shuffled, random"),
    ("Dumbbell", "epinions, shuffled"),
    ("SNB-derived Q1", "SF 0.1"),
    ("SNB-derived Q3", "SF 0.1"),
    ("SNB-derived Q4", "SF 0.1"),
    ("TPC-H-derived Q3", "SF 0.02"),
    ("TPC-H-derived Q5", "SF 0.02"),
    ("TPC-H-derived Q18", "SF 0.02"),
)
"""Of each family of queries its largest data: those that we win and those that we lose."""
FILES = ("runtime", "breakeven", "enclosureness", "load", "start", "shards", "engine", "spark")
"""The results files that are quoted."""
SINGLE = "1 rows"
UNDECIDED = "it is not known, as the rival was ended before our own time had passed"
ABSENT = "Not measured yet."


def measured(folder: Path = RESULTS) -> str:
    """When, on what and with which code the figures were made."""
    found = [r for name in FILES for r in results.read(name, folder) if "machine" in r]
    if not found:
        return ABSENT
    dates = sorted({r["date"][:10] for r in found if "date" in r})
    machines = dict.fromkeys(r["machine"].partition(", pyspark")[0] for r in found)
    code = sorted({r["revision"].partition(" ")[0] for r in found if r.get("revision")})
    when = " to ".join(dict.fromkeys((dates[0], dates[-1])))
    return f"On {'; '.join(machines)}. Measured {when}, of the code of {', '.join(code)}."


def compared(folder: Path = RESULTS) -> str:
    """The shown queries on every system, with our peak memory."""
    cases = by_case([r for r in results.read("runtime", folder) if r["mode"] == "delta"])
    systems = ("everview", "native", "flink", "pathway", "duckdb")
    rows = []
    for title, data in SHOWN:
        found = cases.get((title, data))
        if found is None:
            continue
        cells = [seconds(found.get(s)) or "not run" for s in systems]
        memory = f"{found['everview']['peak_rss'] / 2**20:,.0f}" if "peak_rss" in found.get("everview", {}) else ""
        rows.append([title, data, *cells, ratios(found)[1], memory])
    header = ["query", "data", *(SYSTEMS[s].title for s in systems), "best rival ÷ ours", "our peak memory, MiB"]
    return markdown(header, rows) if rows else ABSENT


def outcome(folder: Path = RESULTS) -> str:
    """How often we are faster than the best rival, over all queries and data that were run."""
    cases = by_case([r for r in results.read("runtime", folder) if r["mode"] == "delta"])
    lost: dict[str, int] = {}
    judged = undecided = 0
    for found in cases.values():
        ours = found.get("everview")
        rivals = [r for s, r in found.items() if not SYSTEMS[s].is_ours and r["status"] in ("ok", "timeout")]
        if ours is None or ours["status"] != "ok" or not rivals:
            continue
        judged += 1
        best = min(rivals, key=lambda r: r["run_s"] if r["status"] == "ok" else r["limit_s"])
        if best["status"] == "ok" and best["run_s"] < ours["run_s"]:
            lost[best["system"]] = lost.get(best["system"], 0) + 1
        elif best["status"] == "timeout" and best["limit_s"] < ours["run_s"]:
            undecided += 1
    if not judged:
        return ABSENT
    won = judged - sum(lost.values()) - undecided
    by = ", ".join(f"{n} time{'s' * (n > 1)} by {SYSTEMS[s].title}" for s, n in lost.items())
    ends = [f"It is beaten {by}" if by else "", f"in {undecided} {UNDECIDED}" if undecided else ""]
    return (
        f"Over all {judged} pairs of query and data where a rival was run, Everview is faster than the best of them in "
        f"{won}. {'; '.join(end for end in ends if end)}."
    )


def missed(folder: Path = RESULTS) -> str:
    """How many bars are reached, and those that are not."""
    found = bars.bars(folder)
    count = {state: sum(b.is_reached is state for b in found) for state in (True, False)}
    unmeasured = sum(b.value is None for b in found)
    unknown = len(found) - sum(count.values()) - unmeasured
    told = f"Of {len(found)} bars {count[True]} are reached, {count[False]} missed, {unmeasured} not measured"
    told += f", {unknown} not known (a rival was ended early)." if unknown else "."
    rows = [b.row()[:3] for b in found if b.is_reached is False]
    return told + ("\n\n" + markdown(["missed", "bar", "measured"], rows) if rows else "")


def break_even(folder: Path = RESULTS) -> str:
    """How much faster single updates are than recomputing, and up to which batch sizes that holds."""
    records = results.read("breakeven", folder)
    rows = []
    for rival in RIVALS:
        single: list[float] = []
        ends: list[float | None] = []
        for title in ordered(records, "title"):
            found = {r["system"]: r for r in records if r["title"] == title}
            ours, theirs = curve(found.get("everview")), curve(found.get(rival))
            if ours and theirs:
                single.append(theirs[min(theirs)] / ours[min(ours)])
                ranges = wins(ours, theirs)
                ends.append(ranges[-1][1] if ranges else 0.0)
        if single:
            known = [rounded(end, floor) for end in ends if end is not None]
            least = f"{min(known):,}" if known else "none"
            told = [str(len(single)), f"{floor(min(single)):,} to {floor(max(single)):,}", str(ends.count(None)), least]
            rows.append([SYSTEMS[rival].title, *told])
    header = ["against", "queries", "one update: times as fast", "faster at every size measured", "else at least up to"]
    return markdown(header, rows) if rows else ABSENT


def spark(folder: Path = RESULTS) -> str:
    """What Spark's own benchmark found, and what the comparison's runs did."""
    rows = []
    for r in results.read("spark", folder)[1:]:
        if "bench" not in r:
            continue
        shown = (at_most if r["most"] else at_least)(r["value"])
        sign = "≤" if r["most"] else "≥"
        reached = r["value"] <= r["bar"] if r["most"] else r["value"] >= r["bar"]
        of = ", ".join(str(r[k]) for k in ("query", "graph", "order", "sink") if k in r)
        rows.append([r["bench"], of, shown, f"{sign} {r['bar']:.2f}", "reached" if reached else "**missed**"])
    other = results.read("shards", folder)
    for title in ordered(other, "title"):
        found = {r["system"]: r for r in other if r["title"] == title}
        rows.append(["2 shards against 1, in the comparison's runner", title, speedup(found), "", ""])
    return markdown(["what", "query", "ratio", "bar", ""], rows) if rows else ABSENT


def cost(folder: Path = RESULTS) -> str:
    """What an update, a row of state, a start and the growth of data cost."""
    lines = []
    engine = results.read("engine", folder)[1:]
    growth = [r["value"] for r in engine if r["bench"] == "steps"]
    if growth:
        told = f"{at_most(max(growth))} times the kernel's steps an update"
        lines.append(f"- Ten times the data: at most {told}, for {len(growth)} kinds of queries and updates.")
    formulas = results.read("formula", folder)[1:]
    of_one = [[r for r in formulas if r["query"] == q] for q in ordered(formulas, "query")]
    if of_one:
        worst = max(r["steps"] / found[0]["steps"] for found in of_one for r in found)
        told = f"{at_most(worst)} times the steps an update that the smallest data take"
        sizes = f"{min(r['elements'] for r in formulas):,} to {max(r['elements'] for r in formulas):,} elements"
        lines.append(f"- Formulas that count, {sizes}: at most {told}, for {len(of_one)} formulas of tiers A and B.")
    head, *measured_states = results.read("state", folder) or [{}]
    state = [head, *(r for r in measured_states if r["bench"] == "state")]
    if values := [r["value"] for r in state[1:]]:
        told = f"{at_least(min(values))} to {at_most(max(values))} times the rows of the window as Arrow"
        of = f" ({', '.join(sorted({r['query'] for r in state[1:]}))}; `make bench-state`, {state[0]['date'][:10]})"
        lines.append(f"- State of all queries measured{of}: {told}, counted once for each occurrence of the table.")
    for r in state[1:]:
        if r["bar"]:
            told = f"{at_most(r['value'])} times that, {r['bytes'] / r['window']:.0f} bytes a row"
            lines.append(f"- State of {r['query']} on {r['graph']}, {r['order']}: {told} (bar: {r['bar']:g} times).")
    for r in measured_states:
        if r["bench"] == "feed":
            told = (
                f"a process grows by at most {at_most(r['value'])} times the largest batch's rows more than without it"
            )
            of = f"{r['query']} on {r['graph']}, {r['order']}"
            size = f"{r['largest'] / 2**20:,.1f} MiB as Arrow; bar: {r['bar']:g} times"
            size += f"; in all by {r['bytes'] / 2**20:,.0f} MiB, of which the state has {r['state'] / 2**20:,.0f}"
            lines.append(f"- Reading the feed of single updates of {of}: {told} ({size}).")
    nested = [r for r in results.read("enclosureness", folder) if r["status"] == "ok"]
    if len(nested) > 1:
        first, last = nested[0], nested[-1]
        micro = [r["run_s"] / r["updates"] * 1e6 for r in (first, last)]
        lines.append(
            f"- Updates that enclose each other: {at_most(micro[0])} µs an update at λ = {first['enclosureness']:.0f}, "
            f"{at_most(micro[1])} µs at λ = {last['enclosureness']:.0f}."
        )
    load = {(r["title"], r["point"]): loading_time(r) for r in results.read("load", folder) if r["status"] == "ok"}
    slow = [load[t, SINGLE] / time for (t, point), time in load.items() if point == "bulk" and (t, SINGLE) in load]
    if slow:
        lines.append(f"- Rows inserted one call each take up to {at_most(max(slow))} times as long as in one call.")
    start = results.read("start", folder)
    if start:
        lines.append(f"- `import everview`: {at_most(start[0]['run_s'])} s, without pyspark or pandas.")
    return "\n".join(lines) or ABSENT


BLOCKS: dict[str, Callable[[Path], str]] = {
    "measured": measured,
    "compared": compared,
    "outcome": outcome,
    "missed": missed,
    "break-even": break_even,
    "spark": spark,
    "cost": cost,
}
"""The generated places of the page, by the names in their marks."""
