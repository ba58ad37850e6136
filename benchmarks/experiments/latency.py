"""How long after a batch its changes are there: over the whole log, and from its beginning to its end."""

from __future__ import annotations

from matplotlib.figure import Figure

from benchmarks.experiments.base import (
    Experiment,
    dot_figure,
    dots,
    legend,
    line,
    markdown,
    ordered,
    panels,
    systems_of,
)
from benchmarks.experiments.runtime import by_case
from benchmarks.results import Record
from benchmarks.systems import SYSTEMS


def told(records: list[Record]) -> list[Record]:
    """Delta runs that ended well, of systems that say when a batch's changes are out."""
    return [r for r in records if r["mode"] == "delta" and r["status"] == "ok" and r.get("latency_ms")]


def table(records: list[Record]) -> str:
    """Mean, p50 and p99 by query and system."""
    rows = [
        [r["title"], r["data"], SYSTEMS[r["system"]].title, f"{r['batch']:,}"]
        + [f"{r['latency_ms'][k]:,.2f}" for k in ("mean", "p50", "p99", "max")]
        for r in told(records)
    ]
    return markdown(["query", "data", "system", "batch", "mean, ms", "p50, ms", "p99, ms", "max, ms"], rows)


def plots(records: list[Record]) -> dict[str, Figure]:
    """p99 by query; and p50 over the stream for the longest log that Everview ran."""
    mine = told(records)
    cases = by_case(mine)
    drawn, axis = dot_figure(len(cases))
    values = {
        s: [(found[s]["latency_ms"]["p99"], "") if s in found else (None, "") for found in cases.values()]
        for s in systems_of(mine)
    }
    dots(axis, [f"{title}: {data}" for title, data in cases], values)
    axis.set_xlabel("p99 latency of a batch, ms (log scale)")
    axis.set_title("Latency of deltas, batches of 1,000 updates: 99th percentile", fontsize=10)
    legend(drawn)
    return {"latency": drawn} | _stream(mine)


def _stream(mine: list[Record]) -> dict[str, Figure]:
    ours = [r for r in mine if r["system"] == "everview" and r["latency_tenths_ms"]]
    titles = ordered(ours, "title")[:6]
    if not titles:
        return {}
    drawn, axes = panels(titles, "tenth of the log", "ms a batch", log_x=False)
    for axis, title in axes:
        longest = max((r for r in ours if r["title"] == title), key=lambda r: r["log_updates"])
        axis.set_title(f"{title}\n{longest['data']}", fontsize=8)
        for r in mine:
            if (r["title"], r["data"]) == (title, longest["data"]) and r["latency_tenths_ms"]:
                for q, style in (("p50", "-"), ("p99", ":")):
                    values = [t[q] for t in r["latency_tenths_ms"]]
                    line(axis, r["system"], range(1, len(values) + 1), values, linestyle=style)
    drawn.suptitle("Latency over the log: median (solid) and 99th percentile (dotted)", fontsize=9)
    legend(drawn)
    return {"latency-stream": drawn}


LATENCY = Experiment(
    name="latency",
    title="Latency of deltas",
    about="""\
The time from handing over a batch of updates to holding all its changes, in the delta runs of the table above.
Systems that do not say when a batch is done (Flink has no batches) are not shown. The second plot follows it over the
log, tenth by tenth.
""",
    results="runtime",
    table=table,
    plots=plots,
)
