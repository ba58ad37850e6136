"""How much memory 3-Hop's state takes over a window of a graph: by ``db.nbytes()``, base table and view, at its most.

``make bench-state ARGS="--data ../shared/data --write"`` runs the window over Epinions in its file's order, reading the
feed, keeps the figure in benchmarks/results/ and puts it into docs/performance.md. Bytes are counted, so it repeats
exactly on any machine. The bar: at most three times the window's rows as Arrow, once for each occurrence of the table.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import report, results
from benchmarks.data.graphs import Edge, fifo, power_law, read_graph
from benchmarks.drive import ROW_BYTES, DatabaseRun

OCCURRENCES = 3
BAR = 3.0


def measured(graph: str, order: str, edges: list[Edge]) -> results.Record:
    """The most that the state has taken after any batch."""
    updates = fifo(order, edges)
    _, peak = DatabaseRun("3-hop", updates).deltas()
    found = {"bench": "state", "query": "3-hop", "graph": graph, "order": order, "window": updates.window}
    return {**found, "bytes": peak, "value": peak / (updates.window * ROW_BYTES * OCCURRENCES), "bar": BAR}


def main() -> int:
    """Measure, print, and keep what was measured."""
    parser = argparse.ArgumentParser(prog="benchmarks.state", description=__doc__)
    parser.add_argument("--data", type=Path, help="the folder with epinions.csv.gz; without it, a power-law graph")
    parser.add_argument("--write", action="store_true", help="keep the figure and put it into docs/performance.md")
    options = parser.parse_args()
    if options.data is None:
        record = measured("power law", "random", power_law(50_000))
    else:
        record = measured("epinions", "file order", read_graph(options.data / "epinions.csv.gz"))
    print(record)
    if options.write:
        results.put("state", results.circumstances("benchmarks.state"), [record])
        report.PAGE.write_text(report.page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
