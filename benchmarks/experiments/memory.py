"""The most memory that a run's processes held."""

from __future__ import annotations

from matplotlib.figure import Figure

from benchmarks.experiments.base import SHORT, Experiment, at_least, dot_figure, dots, legend, markdown, systems_of
from benchmarks.experiments.runtime import by_case
from benchmarks.results import Record
from benchmarks.systems import SYSTEMS

MIB = 1 << 20


def table(records: list[Record]) -> str:
    """MiB by query and system, and the rivals' over ours."""
    mine = [r for r in records if r["mode"] == "delta"]
    systems = systems_of(mine)
    header = ["query", "data", *(SYSTEMS[s].title for s in systems), "our state", "Flink ÷ ours", "Pathway ÷ ours"]
    rows = []
    for (title, data), found in by_case(mine).items():
        cells = [_shown(found.get(s)) for s in systems]
        state = found.get("everview", {}).get("state_bytes")
        rows.append([title, data, *cells, "" if state is None else f"{state / MIB:,.1f}"])
        rows[-1] += [_ratio(found, rival) for rival in ("flink", "pathway")]
    return markdown(header, rows)


def _shown(record: Record | None) -> str:
    if record is None or "peak_rss" not in record:
        return "" if record is None else SHORT.get(record["status"], "")
    text = f"{record['peak_rss'] / MIB:,.0f}"
    return text if record["status"] == "ok" else f"{text} ({SHORT[record['status']]})"


def _ratio(found: dict[str, Record], rival: str) -> str:
    ours, theirs = found.get("everview"), found.get(rival)
    if ours is None or theirs is None or "peak_rss" not in theirs or ours["status"] != "ok":
        return ""
    mark = "" if theirs["status"] == "ok" else "≥ "
    return mark + at_least(theirs["peak_rss"] / ours["peak_rss"])


def plots(records: list[Record]) -> dict[str, Figure]:
    """Dots by query."""
    mine = [r for r in records if r["mode"] == "delta"]
    cases = by_case(mine)
    drawn, axis = dot_figure(len(cases))
    values = {s: [_bar(found.get(s)) for found in cases.values()] for s in systems_of(mine)}
    dots(axis, [f"{title}: {data}" for title, data in cases], values)
    axis.set_xlabel("peak memory, MiB (log scale)")
    axis.set_title("Peak memory of all processes, delta mode", fontsize=10)
    legend(drawn)
    return {"memory": drawn}


def _bar(record: Record | None) -> tuple[float | None, str]:
    if record is None or record["status"] != "ok":
        return None, "" if record is None else SHORT[record["status"]]
    return record["peak_rss"] / MIB, ""


MEMORY = Experiment(
    name="memory",
    title="Peak memory",
    about="""\
The most resident memory, in MiB, of all processes of a run, sampled ten times a second over the whole run:
interpreter, libraries, Java machine, the log's rows as the runner holds them, and deltas on their way. (Small logs' is
that of the interpreter and its libraries, so their ratios say little.) *our state* is what `Database.nbytes()` says.
*÷ ours* is rounded down; "≥" where the rival was ended before it was done.
""",
    results="runtime",
    table=table,
    plots=plots,
)
