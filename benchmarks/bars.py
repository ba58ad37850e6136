"""The bars that were set beforehand (design.md section 6), each with its measured figure, reached or missed."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path

from benchmarks.drive import ROW_BYTES
from benchmarks.experiments.base import at_least, at_most, markdown, ordered
from benchmarks.experiments.breakeven import RIVALS, curve, wins
from benchmarks.experiments.runtime import of_one_machine
from benchmarks.results import RESULTS, Record, read
from benchmarks.systems import SYSTEMS

PATHS = ("3-hop", "4-hop")
GRAPHS = ("epinions", "power-law")


@dataclass(frozen=True)
class Bar:
    """Something that was promised, and what was found."""

    what: str
    sign: str
    """``≤`` or ``≥``."""
    bar: float
    value: float | None
    """None if it was not measured; infinite if a rival cannot finish at all."""
    told: str
    """What the number alone does not say."""
    results: str
    is_bound: bool = False
    """Whether the figure is only known to be no worse than that: a rival was ended early."""

    @property
    def is_reached(self) -> bool | None:
        """Whether it is reached; None if that is not known."""
        if self.value is None:
            return None
        holds: bool = (operator.le if self.sign == "≤" else operator.ge)(self.value, self.bar)
        return None if self.is_bound and not holds else holds

    def row(self) -> list[str]:
        """As a row of the table; the figure is rounded against us."""
        is_known = self.value is not None and isfinite(self.value)
        shown = (at_most if self.sign == "≤" else at_least)(self.value) if is_known else ""
        unknown = "not measured" if self.value is None else "not known"
        outcome = {True: "reached", False: "**missed**", None: unknown}[self.is_reached]
        bound = f"{self.sign} " if self.is_bound and shown else ""
        told = "; ".join(t for t in (bound + shown, self.told) if t)
        return [self.what, f"{self.sign} {self.bar:g}", told, outcome, f"{self.results}.jsonl"]


def bars(folder: Path = RESULTS) -> list[Bar]:
    """All of them, from the results files."""
    runtime = read("runtime", folder)
    engine, spark = read("engine", folder)[1:], read("spark", folder)[1:]
    return [
        *_paths(runtime),
        *_growth(engine),
        *_memory(runtime, engine),
        *_spark(spark),
        *_start(read("start", folder)),
    ]


def table(folder: Path = RESULTS) -> str:
    """The bars, and below them the one that is a promise to publish."""
    rows = [bar.row() for bar in bars(folder)]
    return markdown(["what", "bar", "measured", "", "from"], rows) + f"\n\n{break_even(folder)}"


# --- the bars --------------------------------------------------------------------------------------------------------


def _runs(runtime: list[Record]) -> Iterator[tuple[str, dict[str, Record]]]:
    """The paths over Epinions, or what stood in for it: their delta runs by system."""
    mine = [
        r for r in runtime if r["case"] in PATHS and r["mode"] == "delta" and r["source"] in ("epinions", "power-law")
    ]
    real = [r for r in mine if r["source"] == "epinions"]
    for title, data in dict.fromkeys((r["title"], r["data"]) for r in real or mine):
        found = {r["system"]: r for r in mine if (r["title"], r["data"]) == (title, data)}
        yield f"{title}, {data}", of_one_machine(found)


def _paths(runtime: list[Record]) -> Iterator[Bar]:
    for name, found in _runs(runtime):
        value, told = _by_hand(found)
        yield Bar(f"{name}: time ÷ by hand", "≤", 4, value, told, "runtime")
        for rival in ("flink", "pathway"):
            value, told = _advantage(found, rival)
            is_bound = rival in found and found[rival]["status"] == "timeout"
            yield Bar(f"{name}: {rival.capitalize()}'s time ÷ ours", "≥", 20, value, told, "runtime", is_bound)


def _by_hand(found: dict[str, Record]) -> tuple[float | None, str]:
    """Our time over the hand-written program's; infinite if we did not finish."""
    ours, hand = found.get("everview"), found.get("native")
    if ours is None or hand is None or hand["status"] != "ok":
        return None, ""
    if ours["status"] != "ok":
        return inf, f"ours: {ours['status']}"
    return ours["run_s"] / hand["run_s"], ""


def _advantage(found: dict[str, Record], rival: str) -> tuple[float | None, str]:
    """A rival's time over ours, at least so much if it ran out of time; infinite if it ran out of memory."""
    ours, theirs = found.get("everview"), found.get(rival)
    if ours is None or theirs is None:
        return None, ""
    if ours["status"] != "ok":
        return 0.0, f"ours: {ours['status']}"
    if theirs["status"] == "timeout":
        return theirs["limit_s"] / ours["run_s"], f"did not finish in {theirs['limit_s']:g} s"
    if theirs["status"] == "memory":
        return float("inf"), f"did not finish within {theirs['limit_bytes'] / 2**30:g} GiB"
    if theirs["status"] != "ok":
        return None, theirs["status"]
    return theirs["run_s"] / ours["run_s"], ""


def _growth(engine: list[Record]) -> Iterator[Bar]:
    for r in engine:
        if r["bench"] == "steps":
            what = f"{r['query']}, {r['order']}: kernel steps an update, 10 × the data"
            yield Bar(what, "≤", 1.05, r["value"], "", "engine")
        if r["bench"] == "growth":
            what = f"{r['query']}, {r['order']}: growth of the kernel's time (no feed) ÷ growth by hand"
            yield Bar(what, "≤", 1.3, r["value"], "", "engine")


def _memory(runtime: list[Record], engine: list[Record]) -> Iterator[Bar]:
    for name, found in _runs(runtime):
        for rival in ("flink", "pathway"):
            what = f"{name}: our peak memory ÷ {rival.capitalize()}'s"
            ours, theirs = found.get("everview"), found.get(rival)
            if ours is None or theirs is None or "peak_rss" not in ours or "peak_rss" not in theirs:
                yield Bar(what, "≤", 0.2, None, theirs["status"] if theirs else "", "runtime")
                continue
            told = "" if theirs["status"] == "ok" else f"ended early: {theirs['reason']}"
            yield Bar(what, "≤", 0.2, ours["peak_rss"] / theirs["peak_rss"], told, "runtime")
    for r in engine:
        if r["bench"] == "memory" and r["level"] == "database" and r["bar"]:
            what = f"{r['query']}, {r['graph']}, {r['order']}: state ÷ the window as Arrow, once an occurrence"
            once = r["bytes"] / (r["window"] * ROW_BYTES)
            yield Bar(what, "≤", 4, r["value"], f"{at_most(once)} of the window once", "engine")


def _spark(spark: list[Record]) -> Iterator[Bar]:
    named = {"warm batch, 10 × the state": ("≤", 1.5), "2 shards against 1": ("≥", 1.6)}
    for what, (sign, bar) in named.items():
        found = [r for r in spark if r["bench"] == what]
        for r in found:
            query = ", ".join(r[k] for k in ("query", "sink") if k in r)
            yield Bar(f"Spark, {query}: {what}", sign, bar, r["value"], "", "spark")
        if not found:
            yield Bar(f"Spark: {what}", sign, bar, None, "", "spark")


def _start(start: list[Record]) -> Iterator[Bar]:
    told = "pyspark is imported" if start and "pyspark" in start[0]["imported"] else ""
    value = (inf if told else start[0]["run_s"]) if start else None
    yield Bar("`import everview`, no pyspark imported, seconds", "≤", 0.3, value, told, "start")


def break_even(folder: Path = RESULTS) -> str:
    """The bar that is a promise to publish: where the figures are, and in how many of them recomputing always wins."""
    records = read("breakeven", folder)
    if not records:
        return "Break-even against recomputing: not measured yet."
    counted = []
    for rival in RIVALS:
        won = []
        for title in ordered(records, "title"):
            found = {r["system"]: r for r in records if r["title"] == title}
            curves = [curve(found.get(s)) for s in ("everview", rival)]
            if all(curves):
                won.append(bool(wins(*curves)))
        if won:
            lost = won.count(False)
            counted.append(f"{SYSTEMS[rival].title}: {len(won)} queries, in {lost} of which it wins at every size")
    return "Break-even against recomputing is published below, per query (" + "; ".join(counted) + ")."
