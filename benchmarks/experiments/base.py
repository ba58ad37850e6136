"""What the experiments share: how numbers are shown, and how plots look."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.bench import Bench
from benchmarks.results import Record
from benchmarks.systems import SYSTEMS

# The palette of Okabe and Ito, which colour-blind readers can tell apart; markers differ as well.
COLOURS = {
    "everview": "#0072B2",
    "everview-spark-1": "#56B4E9",
    "everview-spark-2": "#004C78",
    "native": "#000000",
    "flink": "#D55E00",
    "pathway": "#CC79A7",
    "duckdb": "#E69F00",
    "spark": "#009E73",
}
MARKERS = dict(zip(COLOURS, "oPXs^vD*", strict=True))
SHORT = {"timeout": "> limit", "memory": "out of memory", "unsupported": "–", "error": "failed", "wrong": "**wrong**"}


@dataclass(frozen=True)
class Experiment:
    """What is run for some tables and plots, and how they are made."""

    name: str
    title: str
    about: str
    """What is measured and how to read it, in Markdown."""
    results: str
    """The results file its numbers come from."""
    table: Callable[[list[Record]], str]
    plots: Callable[[list[Record]], dict[str, Figure]]
    run: Callable[[Bench], Iterator[Record]] | None = None
    """None if another experiment's results are shown."""


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def ordered(records: Iterable[Record], key: str) -> list[Any]:
    """The values of a field, each once, in the order in which they come."""
    return list(dict.fromkeys(r[key] for r in records))


def systems_of(records: Iterable[Record]) -> list[str]:
    """The systems that some records are of, in the order in which they are always shown."""
    there = {r["system"] for r in records}
    return [name for name in SYSTEMS if name in there]


def at_most(value: float) -> str:
    """A number that is the worse for us the larger it is, rounded up."""
    return f"{math.ceil(value * 100 - 1e-9) / 100:,.2f}"


def at_least(value: float) -> str:
    """A number that is the better for us the larger it is, rounded down."""
    return f"{math.floor(value * 100 + 1e-9) / 100:,.2f}"


def seconds(record: Record | None) -> str:
    """A run's time, or why there is none."""
    if record is None:
        return ""
    if record["status"] == "ok":
        return duration(record["run_s"]) + ("" if record["check"]["status"] == "ok" else " (unchecked)")
    if record["status"] == "timeout" and record.get("updates"):
        return f"> {record['limit_s']:g} s at {record['updates'] / record['log_updates']:.0%}"
    if record["status"] == "timeout":
        return f"> {record['limit_s']:g} s"
    if record["status"] == "memory":
        return f"> {record['limit_bytes'] / 2**30:g} GiB"
    return SHORT[record["status"]]


def duration(value: float) -> str:
    """Seconds with three figures."""
    return f"{value:.3g} s" if value < 1000 else f"{value:,.0f} s"


# --- plots -----------------------------------------------------------------------------------------------------------


def figure(width: float, height: float, columns: int = 1, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """An empty plot, or several side by side."""
    made = Figure(figsize=(width, height), layout="constrained")
    axes = made.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    return made, list(axes.flat)


def line(axis: Axes, system: str, x: Sequence[float], y: Sequence[float], **style: Any) -> None:
    """A system's curve, always in its colour and with its marker."""
    told = {"label": SYSTEMS[system].title, "color": COLOURS[system], "marker": MARKERS[system]}
    axis.plot(x, y, **(told | {"markersize": 5, "linewidth": 1.6} | style))


def bars(axis: Axes, groups: Sequence[str], values: dict[str, list[tuple[float | None, str]]]) -> None:
    """Bars side by side: by system, for each group a value or, if there is none, why, written upright in its place."""
    width = 0.8 / len(values)
    known = [v for column in values.values() for v, _ in column if v]
    floor = min(known, default=1) / 2
    for i, (system, column) in enumerate(values.items()):
        places = [g + (i - (len(values) - 1) / 2) * width for g in range(len(groups))]
        drawn = [v or 0 for v, _ in column]
        axis.bar(places, drawn, width * 0.92, label=SYSTEMS[system].title, color=COLOURS[system])
        for place, (value, why) in zip(places, column, strict=True):
            if value is None and why:
                axis.text(place, floor * 1.1, why, rotation=90, ha="center", va="bottom", fontsize=6, color="#555555")
    axis.set_yscale("log")
    axis.set_ylim(bottom=floor)
    axis.set_xticks(range(len(groups)), groups, rotation=35, ha="right", fontsize=8)
