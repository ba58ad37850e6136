"""What an update costs in the kernel: CPU time of a core's program, without the engine around it.

``python -m benchmarks.kernel [--runs 5] [--against SRC]`` makes the workloads (below, from fixed seeds), feeds each to
the program that the strategy writes for it, and prints nanoseconds of CPU time an update, the best of the runs.
``--against`` names the ``src`` folder of another checkout, with its kernel built: its runs come between ours, in one
session, so that both have the same machine. ``--write`` puts the table into docs/performance-tables.md; with ``--only``
it replaces the lines that were measured.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import process_time
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EPINIONS = ROOT.parent / "shared" / "data" / "epinions.csv.gz"
TABLES = ROOT / "docs" / "performance-tables.md"
BEGIN, END = "<!-- kernel: written by `make bench-kernel ARGS=--write` -->", "<!-- end of kernel -->"
STAR = """SELECT g1.src, COUNT(*) AS n FROM g g1 JOIN g g2 ON g1.src = g2.src JOIN g g3 ON g1.src = g3.src
    JOIN g g4 ON g1.src = g4.src GROUP BY g1.src"""
HOPS = """SELECT g1.src AS a, g2.src AS b, g3.src AS c, g3.dst AS d FROM g g1 JOIN g g2 ON g1.dst = g2.src
    JOIN g g3 ON g2.dst = g3.src"""
TRIANGLES = """SELECT COUNT(*) AS n FROM g g1 JOIN g g2 ON g1.dst = g2.src
    JOIN g g3 ON g2.dst = g3.src AND g3.dst = g1.src"""
WORKLOADS = {
    "Star, quiet, in cache": (STAR, "star", False),
    "Star, quiet, rows come and go": (STAR, "churn", False),
    "Star, with deltas, in cache": (STAR, "star", True),
    "3-Hop, quiet": (HOPS, "graph", False),
    "3-Hop, with deltas": (HOPS, "graph", True),
    "triangle count, quiet": (TRIANGLES, "graph", False),
    "3-Hop, quiet, all of Epinions": (HOPS, "epinions", False),
    "triangle count, quiet, all of Epinions": (TRIANGLES, "epinions", False),
}
Update = tuple[int, int, int]
"""An edge and how many copies of it come."""


def star(updates: int = 200_000, sources: int = 400) -> Iterator[Update]:
    """Edges of skewed sources that come and, half of them, go; the state is small enough for the processor's cache.

    With 400 sources nearly all updates change the count of a row; with 4,000 a third makes rows come or go.
    """
    r = random.Random(19)
    there: list[tuple[int, int]] = []
    for number in range(updates):
        if there and r.random() < 0.48:
            at = r.randrange(len(there))
            there[at], there[-1] = there[-1], there[at]
            yield (*there.pop(), -1)
        else:
            edge = (int(sources * r.random() ** 3), number)
            there.append(edge)
            yield (*edge, 1)


def window(edges: Sequence[tuple[int, int]], share: float = 0.2) -> Iterator[Update]:
    """First in, first out: a window of a share of the edges goes over them."""
    size = int(len(edges) * share)
    for number, edge in enumerate(edges):
        yield (*edge, 1)
        if number >= size:
            yield (*edges[number - size], -1)
    for edge in edges[-size:]:
        yield (*edge, -1)


def graph(most: int = 60_000) -> list[tuple[int, int]]:
    """The first edges of Epinions in their file's order, it has 508,837; without that file, a power-law graph."""
    if EPINIONS.exists():
        edges = []
        with gzip.open(EPINIONS, "rt", encoding="utf-8") as lines:
            for line in lines:
                words = line.replace(",", " ").split()
                if words and words[0].isdigit():
                    edges.append((int(words[0]), int(words[1])))
                if len(edges) == most:
                    break
        return edges
    r = random.Random(20)
    return list(dict.fromkeys((int(8_000 * r.random() ** 3), int(8_000 * r.random() ** 3)) for _ in range(most)))


SOURCES: dict[str, Callable[[], Iterator[Update]]] = {
    "star": star,
    "churn": lambda: star(sources=4_000),
    "graph": lambda: window(graph()),
    "epinions": lambda: window(graph(508_837)),
}


def use(source: Path) -> None:
    """Import Everview from another checkout than the one that is installed."""
    sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in type(f).__module__]
    sys.path.insert(0, str(source))


def run(name: str) -> tuple[float, float]:
    """CPU time of one pass of a workload: nanoseconds and steps an update."""
    import pyarrow as pa

    import everview as ev
    from everview.kernel import machine as kernel

    query, source, loud = WORKLOADS[name]
    updates = list(SOURCES[source]())
    db = ev.Database()
    db.sql("CREATE TABLE g (src BIGINT, dst BIGINT)")
    db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    (core,) = db._views["v"].cores
    crown = core.maintained if hasattr(core, "maintained") else core.crown  # as it was called before
    (entry,) = crown.entries
    columns = {c: pa.array([u[i] for u in updates], pa.int64()) for i, c in enumerate(("src", "dst", "weight"))}
    ones = pa.array([1] * len(updates), pa.int64())
    sides = {v: side for number, atom in enumerate(core.plan.query.atoms) for v, side in _sides(number, atom)}
    given = []
    for o in _called(entry, "atom_inputs", "occurrences"):
        given += [*(columns[sides[o.atom, v]] for v in o.variables), ones]
    given.append(columns["weight"])
    machine = getattr(kernel, "Unit", kernel.Machine)(crown.program)  # Older checkouts have a machine for each program.
    if loud:
        machine.apply(_called(crown, "start_deltas", "wake"), [pa.array([0], pa.int64())])
    procedure = _called(entry, "with_deltas", "loud") if loud else _called(entry, "state_only", "quiet")
    spent, done = 0.0, 0
    while done < len(updates):
        begin = process_time()
        done += machine.apply(procedure, [c.slice(done) for c in given], most_pending=1 << 16)
        spent += process_time() - begin
        machine.discard("delta")
    return spent / len(updates) * 1e9, machine.steps / len(updates)


def _called(thing: Any, now: str, before: str) -> Any:
    """What another checkout may have by another name."""
    return getattr(thing, now if hasattr(thing, now) else before)


def _sides(number: int, atom: object) -> Iterator[tuple[tuple[int, object], str]]:
    for term, side in zip(atom.terms, ("src", "dst"), strict=True):
        yield (number, term), side


def measure(source: Path, name: str) -> tuple[float, float]:
    """One run in a process of its own, with the package of a checkout."""
    command = [sys.executable, "-m", "benchmarks.kernel", "--one", name, "--source", str(source)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    nanoseconds, steps = json.loads(found.stdout.splitlines()[-1])
    return nanoseconds, steps


def table(runs: int, against: Path | None, names: Sequence[str]) -> list[str]:
    """The lines of the table, measured now."""
    sources = [*([against] if against else []), ROOT / "src"]
    lines = [
        "| workload | before, ns an update | now | now ÷ before | steps before | now |",
        "|---|---|---|---|---|---|",
    ]
    for name in names:
        found: dict[Path, list[tuple[float, float]]] = {s: [] for s in sources}
        for _ in range(runs):
            for s in sources:
                found[s].append(measure(s, name))
        best = [min(found[s]) for s in sources]
        now, before = best[-1], best[0]
        told = (f"{before[0]:,.0f}", f"{now[0] / before[0]:.2f}", f"{before[1]:.1f}") if against else ("", "", "")
        lines.append(f"| {name} | {told[0]} | {now[0]:,.0f} | {told[1]} | {told[2]} | {now[1]:.1f} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.kernel", description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--only", default="", help="workloads whose name has this in it")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--one", choices=WORKLOADS, help="measure this alone, here")
    parser.add_argument("--source", type=Path, help="with the package in this folder")
    options = parser.parse_args()
    if options.one:
        if options.source and options.source != ROOT / "src":
            use(options.source)
        print(json.dumps(run(options.one)))
        return
    lines = table(options.runs, options.against, [n for n in WORKLOADS if options.only in n])
    if options.write:
        text = TABLES.read_text(encoding="utf-8")
        head, rest = text.split(BEGIN + "\n", 1)
        old, tail = rest.split(END, 1)
        kept = _merged(old.splitlines(), lines)
        TABLES.write_text(head + BEGIN + "\n" + "\n".join(kept) + "\n" + END + tail, encoding="utf-8")


def _merged(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """A table with the lines that were measured now, and those of other workloads as they were."""
    found = {line.split(" | ")[0]: line for line in (*old, *new)}
    order = ["| workload", "|---|---|---|---|---|---|", *(f"| {name}" for name in WORKLOADS)]
    return [found[first] for first in order if first in found]


if __name__ == "__main__":
    main()
