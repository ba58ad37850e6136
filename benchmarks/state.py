"""How much memory the state of 3-Hop and 4-Hop takes over windows of graphs: by ``db.nbytes()``, base table and view.

``make bench-state ARGS="--data ../shared/data --write"`` runs the windows of ``make bench-engine``, reading the feed,
keeps the most that each state has taken in benchmarks/results/ and puts it into docs/performance.md. Bytes are counted,
so it repeats exactly on any machine. The bar, for 3-Hop over Epinions in its file's order: at most three times the
window's rows as Arrow, once for each occurrence of the table.

Of 3-Hop over Epinions it also says by how much more a process of its own grows if it reads the feed of single updates
after each batch of 1,000 than one that keeps the same view without a feed, whose growth is the state's: the bar is 1.3
times what the largest batch's rows take as Arrow. Both are medians of several processes, from the first batch on, with
which code is loaded.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import pyarrow as pa

from benchmarks import report, results
from benchmarks.data.graphs import Edge, Updates, fifo
from benchmarks.drive import ROW_BYTES, DatabaseRun
from benchmarks.engine import graphs

OCCURRENCES = {"3-hop": 3, "4-hop": 4}
BARS = {("3-hop", "epinions", "file order"): 3.0}
MOST_GROWTH = 1.3
FEED_BATCH = 1_000
PROCESSES = 5
"""So many are measured: pages that the system gives and takes make a megabyte's difference from one to the next."""


def measured(query: str, graph: str, order: str, edges: list[Edge]) -> results.Record:
    """The most that the state has taken after any batch."""
    updates = fifo(order, edges)
    _, peak = DatabaseRun(query, updates).deltas()
    found = {"bench": "state", "query": query, "graph": graph, "order": order, "window": updates.window}
    value = peak / (updates.window * ROW_BYTES * OCCURRENCES[query])
    return {**found, "bytes": peak, "value": value, "bar": BARS.get((query, graph, order))}


def read_feed(graph: str, order: str, edges: list[Edge]) -> results.Record:
    """How much a process grows that keeps 3-Hop, and how much more one that reads its feed, beside a batch's rows."""
    updates = fifo(order, edges)
    state, grown = (median(_alone("3-hop", updates, reads)[0] for _ in range(PROCESSES)) for reads in (False, True))
    largest = _alone("3-hop", updates, True)[1]
    found = {"bench": "feed", "query": "3-hop", "graph": graph, "order": order, "window": updates.window}
    found |= {"bytes": grown, "state": state, "largest": largest}
    return {**found, "value": (grown - state) / largest, "bar": MOST_GROWTH}


def _alone(query: str, updates: Updates, reads_feed: bool) -> tuple[int, int]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(grown, query, updates, reads_feed).result()


def grown(query: str, updates: Updates, reads_feed: bool) -> tuple[int, int]:
    """The most bytes that this process has had more than before, and those of the feed's largest batch as Arrow."""
    run = DatabaseRun(query, updates, batch=FEED_BATCH)
    feed = run.db.view("v").changes(per_update=True) if reads_feed else None
    batches = list(run.batches)  # Who gives them has them already.

    def told(batch: pa.Table) -> int:
        """The bytes of what a batch changes."""
        run.db.apply("g", batch)
        size = 0
        for found in () if feed is None else feed.read():
            size += found.nbytes
            del found
        return size

    largest = told(batches[0])
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # The most memory is what there is now.
    before = _memory("VmRSS")
    largest = max([largest, *map(told, batches[1:])])
    return _memory("VmHWM") - before, largest


def _memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    (kilobytes,) = (line.split()[1] for line in lines if line.startswith(f"{name}:"))
    return int(kilobytes) * 1024


def windows(data: Path | None, scale: int) -> Iterator[tuple[str, str, str, list[Edge]]]:
    """Query, graph, order and edges of each run."""
    for graph, order, edges, _ in graphs(data, scale):
        yield "3-hop", graph, order, edges
        if order == ("random" if data is None else "shuffled"):
            half = edges[: len(edges) // 2 if data is not None else len(edges) // 10]
            yield "4-hop", f"{graph}, {len(half):,} edges", order, half


def main() -> int:
    """Measure, print, and keep what was measured."""
    parser = argparse.ArgumentParser(prog="benchmarks.state", description=__doc__)
    parser.add_argument("--data", type=Path, help="the folder with epinions.csv.gz and bitcoin-alpha.csv.gz")
    parser.add_argument("--small", action="store_true", help="graphs of a hundredth of the size, to see that it works")
    parser.add_argument("--write", action="store_true", help="keep the figures and put them into docs/performance.md")
    options = parser.parse_args()
    records = []
    for window in windows(options.data, 100 if options.small else 1):
        records.append(measured(*window))
        print(records[-1], flush=True)
    for query, graph, order, edges in windows(options.data, 100 if options.small else 1):
        if query == "3-hop" and graph == ("epinions" if options.data else "power law"):
            records.append(read_feed(graph, order, edges))
            print(records[-1], flush=True)
    if options.write:
        results.put("state", results.circumstances("benchmarks.state"), records)
        report.PAGE.write_text(report.page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
