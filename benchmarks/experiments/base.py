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
UNFINISHED = ("> limit", "out of memory", "failed")
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
        return duration(record["run_s"]) + _mark(record)
    if record["status"] == "timeout" and record.get("updates"):
        return f"> {record['limit_s']:g} s at {record['updates'] / record['log_updates']:.0%}"
    if record["status"] == "timeout":
        return f"> {record['limit_s']:g} s"
    if record["status"] == "memory":
        return f"> {record['limit_bytes'] / 2**30:g} GiB"
    return SHORT[record["status"]]


def _mark(record: Record) -> str:
    """What is to be known of how a run was checked; rivals always are on a part of the log."""
    check = record["check"]
    if check["status"] != "ok":
        return " (unchecked)"
    return " †" if record["system"] == "everview" and check.get("scale", 1) < record.get("scale", 1) else ""


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


def panels(titles: Sequence[str], x: str, y: str, *, log_x: bool = True) -> tuple[Figure, list[tuple[Axes, str]]]:
    """A small plot a title, three in a row, with the same axes; the vertical one is logarithmic."""
    columns, rows = min(3, max(2, len(titles))), max(1, (len(titles) + 2) // 3)
    drawn, axes = figure(3.2 * columns, 2.8 * rows, columns, rows)
    for axis, title in zip(axes, titles, strict=False):
        axis.set_xscale("log" if log_x else "linear")
        axis.set_yscale("log")
        axis.set_title(title, fontsize=9)
        axis.set_xlabel(f"{x} (log scale)" if log_x else x, fontsize=8)
        axis.set_ylabel(f"{y} (log scale)", fontsize=8)
    for axis in axes[len(titles) :]:
        axis.set_visible(False)
    return drawn, list(zip(axes, titles, strict=False))


def line(axis: Axes, system: str, x: Sequence[float], y: Sequence[float], **style: Any) -> None:
    """A system's curve, always in its colour and with its marker."""
    told = {"label": SYSTEMS[system].title, "color": COLOURS[system], "marker": MARKERS[system]}
    axis.plot(x, y, **(told | {"markersize": 5, "linewidth": 1.6} | style))


def dots(axis: Axes, names: Sequence[str], values: dict[str, list[tuple[float | None, str]]]) -> None:
    """A line a name, a dot a system on it: its value or, hollow at the right edge, that it did not finish."""
    known = [v for column in values.values() for v, _ in column if v]
    low, high = min(known, default=1) / 1.6, max(known, default=1) * 1.6
    edge = high * 2
    for system, column in values.items():
        style = {"marker": MARKERS[system], "color": COLOURS[system], "linestyle": "none"}
        points = [(v, i) for i, (v, _) in enumerate(column) if v]
        axis.plot([v for v, _ in points], [i for _, i in points], label=SYSTEMS[system].title, markersize=6, **style)
        stopped = [i for i, (v, why) in enumerate(column) if v is None and why in UNFINISHED]
        axis.plot([edge] * len(stopped), stopped, markersize=6, fillstyle="none", **style)
    if any(why in UNFINISHED for column in values.values() for _, why in column):
        axis.axvline(edge / 1.4, color="#999999", linewidth=0.8, linestyle="--")
        axis.text(edge, -0.75, "did not\nfinish", ha="center", va="bottom", fontsize=6, color="#555555")
        high = edge * 1.5
    axis.set_xscale("log")
    axis.set_xlim(low, high)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.set_yticks(range(len(names)), names, fontsize=7)


def dot_figure(lines: int) -> tuple[Figure, Axes]:
    """An empty plot for so many lines of dots."""
    drawn, (axis,) = figure(8.5, 1.6 + 0.26 * lines)
    return drawn, axis


def legend(drawn: Figure) -> None:
    """One legend below all plots of a figure, each label once."""
    found = {}
    for axis in drawn.axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if found:
        drawn.legend(found.values(), found.keys(), loc="outside lower center", ncols=min(4, len(found)), fontsize=7)
