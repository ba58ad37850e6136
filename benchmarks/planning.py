"""How long planning takes: queries of 2 to 20 atoms in several shapes, best of three runs each.

Run by ``make bench``; ``--write`` keeps the times and puts the table into docs/performance-tables.md.
The bar: 8 atoms in under a second, 20 atoms within 10 seconds (a cut of the search is stated in the table).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import everview as ev
from benchmarks import report, results

SIZES = (2, 4, 8, 12, 16, 20)
MARK, END = "<!-- planning: written by `make bench ARGS=--write` -->", "<!-- end -->"
Record = dict[str, Any]


def path(n: int) -> str:
    return _rule([f"x{i}" for i in range(n + 1)], [f"r{i}(x{i}, x{i + 1})" for i in range(n)])


def path_ends(n: int) -> str:
    return _rule(["x0", f"x{n}"], [f"r{i}(x{i}, x{i + 1})" for i in range(n)])


def star(n: int) -> str:
    return _rule(["x"], [f"r{i}(x, y{i})" for i in range(n)])


def cycle(n: int) -> str:
    return _rule([f"x{i}" for i in range(n)], [f"r{i}(x{i}, x{(i + 1) % n})" for i in range(n)])


def grid(n: int) -> str:
    """Edges of a grid three wide, row by row: cyclic, with many ways to decompose it."""
    edges = []
    for k in range(n):
        row, col = divmod(k, 5)
        right, below = f"v{row}_{col}, v{row}_{col + 1}", f"v{row}_{col - 2}, v{row + 1}_{col - 2}"
        edges.append(f"r{k}({right if col < 2 else below})")
    return _rule(["v0_0"], edges)


def self_join_path(n: int) -> str:
    return _rule(["x0"], [f"g(x{i}, x{i + 1})" for i in range(n)])


def clique_pairs(n: int) -> str:
    """As many edges of a complete graph as fit."""
    pairs = [(i, j) for j in range(8) for i in range(j)][:n]
    return _rule(["x0"], [f"r{i}{j}(x{i}, x{j})" for i, j in pairs])


SHAPES: dict[str, Callable[[int], str]] = {
    "path, all output": path,
    "path, ends output": path_ends,
    "star, centre output": star,
    "cycle, all output": cycle,
    "grid, one output": grid,
    "path of one table, set": self_join_path,
    "clique edges, one output": clique_pairs,
}


def _rule(head: list[str], atoms: list[str]) -> str:
    return f"q({', '.join(head)}) :- {', '.join(atoms)}."


def measure(rules: str) -> tuple[float, bool]:
    """The best of three times to a full explanation, and whether a search was cut."""
    times = []
    cut = False
    for _ in range(3):
        start = time.perf_counter()
        data = ev.explain(rules).to_dict()
        times.append(time.perf_counter() - start)
        cut = any(core["search_cut"] for part in data["parts"] for core in part["cores"])
    return min(times), cut


def run() -> Iterator[Record]:
    """Every shape at every size."""
    ev.explain("q(x) :- r(x).")
    for name, shape in SHAPES.items():
        for n in SIZES:
            seconds, cut = measure(shape(n))
            print(f"{name:26} {n:3} atoms  {_shown(seconds, cut)}", file=sys.stderr, flush=True)
            yield {"query": name, "atoms": n, "seconds": seconds, "cut": cut, "bar": 1.0 if n <= 8 else 10.0}


def table(records: list[Record]) -> str:
    """A line a shape, a column a size."""
    lines = ["| query | " + " | ".join(f"{n} atoms" for n in SIZES) + " |", "|---" * (len(SIZES) + 1) + "|"]
    for name in SHAPES:
        cells = [_shown(r["seconds"], r["cut"]) for r in records if r["query"] == name]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _shown(seconds: float, cut: bool) -> str:
    return f"{seconds * 1000:.0f} ms" + (" (cut)" if cut else "")


def section(head: Record, records: list[Record]) -> str:
    """What the page shows of a run."""
    reached = all(r["seconds"] < r["bar"] for r in records)
    told = f"Bar {'reached' if reached else '**missed**'}: 8 atoms in under a second, 20 within 10 seconds."
    return f"{table(records)}\n\n{told} {results.provenance([head], 'planning')}"


def main() -> int:
    """Measure, print, and keep what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the times, and put the table into the docs")
    parser.add_argument("--resume", action="store_true", help=results.RESUME)
    options = parser.parse_args()
    if options.resume and results.stands("planning"):
        return 0
    records = list(run())
    head = results.circumstances("benchmarks.planning")
    print(section(head, records))
    if options.write:
        results.put("planning", head, records)
        report.fill(MARK, section(head, records), END)
    return 0


if __name__ == "__main__":
    sys.exit(main())
