"""What an update costs a user, by the size of its batch: CPU time of the whole way, from rows to the feed that is read.

``python -m benchmarks.batches [--runs 3] [--against SRC]`` makes tables and batches from fixed seeds, applies them to a
database whose views have feeds that are read after each batch, and prints microseconds of CPU time an update (best of
the runs), and for batches of one how many Python calls and modules one update passes. ``--against`` names the ``src``
folder of another checkout, with its kernel built: its runs come between ours, so that both have the same machine.
``--write`` puts the table into docs/performance-tables.md; with ``--only`` it replaces the lines that were measured.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from time import process_time
from typing import Any

from benchmarks.kernel import HOPS, graph, use, window

ROOT = Path(__file__).resolve().parents[1]
TABLES = ROOT / "docs" / "performance-tables.md"
BEGIN, END = "<!-- batches: written by `make bench-batches ARGS=--write` -->", "<!-- end of batches -->"
SIZES = (1, 10, 100, 1_000, 10_000)
UPDATES = {1: 400, 10: 2_000, 100: 10_000, 1_000: 40_000, 10_000: 100_000}
"""How many are measured."""
WARM = 3
"""So many batches come first and are not measured."""
SALES = "CREATE TABLE sales (id BIGINT, shop BIGINT, amount DECIMAL(12, 2), note STRING)"
GROUPED = "SELECT shop, COUNT(*) AS n, SUM(amount) AS total FROM sales WHERE shop >= {} GROUP BY shop"
Q3 = """SELECT l.ok, o.day, o.priority, SUM(l.price * (1 - l.discount)) AS revenue FROM orders o JOIN lines l
    ON o.ok = l.ok WHERE o.day < DATE '1995-03-15' AND l.day > DATE '1995-03-15' GROUP BY l.ok, o.day, o.priority"""
STAR = """SELECT g1.src, COUNT(*) AS n FROM g g1 JOIN g g2 ON g1.src = g2.src JOIN g g3 ON g1.src = g3.src
    JOIN g g4 ON g1.src = g4.src GROUP BY g1.src"""
_DAY = date(1995, 3, 1)
Batch = Callable[[Any], None]
"""Applies itself to a database."""


def sales(db: Any, views: int) -> None:
    """One table, and views that group it, of which the later ones leave more out."""
    db.sql(SALES)
    for i in range(views):
        db.sql(f"CREATE MATERIALIZED VIEW v{i} AS {GROUPED.format(100 * i)}")


def sale_rows(size: int, *, as_arrow: bool) -> Iterator[Batch]:
    """Sales of a thousand shops."""
    import pyarrow as pa

    r, number = random.Random(23), 0
    types = [("id", pa.int64()), ("shop", pa.int64()), ("amount", pa.decimal128(12, 2)), ("note", pa.string())]
    while True:
        rows = [
            (number + i, r.randrange(1_000), Decimal(r.randrange(100_000)) / 100, f"note {r.randrange(100)}")
            for i in range(size)
        ]
        number += size
        given = pa.table(list(zip(*rows, strict=True)), schema=pa.schema(types)) if as_arrow else rows
        yield lambda db, given=given: db.insert("sales", given)


def orders(db: Any) -> None:
    """Orders and their lines, as in TPC-H's third query."""
    db.sql("CREATE TABLE orders (ok BIGINT PRIMARY KEY, customer BIGINT, day DATE, priority INT)")
    db.sql("CREATE TABLE lines (ok BIGINT, price DECIMAL(12, 2), discount DECIMAL(12, 2), day DATE)")
    db.sql(f"CREATE MATERIALIZED VIEW v AS {Q3}")


def order_rows(size: int) -> Iterator[Batch]:
    """Orders and then four times as many lines of recent ones, in turn."""
    import pyarrow as pa

    r, number, first = random.Random(24), 0, True
    while True:
        if first or r.random() < 0.2:
            count = 5_000 if first else size
            keys = range(number, number + count)
            days = [_DAY + timedelta(r.randrange(30)) for _ in keys]
            customers = [r.randrange(1_000) for _ in keys]
            given = pa.table(
                [list(keys), customers, pa.array(days), pa.array([0] * count, pa.int32())],
                names=["ok", "customer", "day", "priority"],
            )
            number, first = number + count, False
            yield lambda db, given=given: db.insert("orders", given)
            continue
        money = pa.decimal128(12, 2)
        given = pa.table(
            [
                [r.randrange(max(0, number - 5_000), number) for _ in range(size)],
                pa.array([Decimal(r.randrange(100_000)) / 100 for _ in range(size)], money),
                pa.array([Decimal(r.randrange(10)) / 100 for _ in range(size)], money),
                pa.array([_DAY + timedelta(r.randrange(30)) for _ in range(size)]),
            ],
            names=["ok", "price", "discount", "day"],
        )
        yield lambda db, given=given: db.insert("lines", given)


def edges_table(db: Any, query: str) -> None:
    """A graph and a view of it."""
    db.sql("CREATE TABLE g (src BIGINT, dst BIGINT)")
    db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")


def edge_rows(size: int) -> Iterator[Batch]:
    """A window over the first edges of Epinions."""
    import pyarrow as pa

    waiting: list[tuple[int, int, int]] = []
    while True:
        for update in window(graph()):
            waiting.append(update)
            if len(waiting) == size:
                columns = [[u[0] for u in waiting], [u[1] for u in waiting]]
                kinds = ["insert" if u[2] > 0 else "delete" for u in waiting]
                given = pa.table([*columns, kinds], names=["src", "dst", "_change_type"])
                yield lambda db, given=given: db.apply("g", given)
                waiting = []


Workload = tuple[Callable[[Any], None], Callable[[int], Iterator[Batch]], bool]
"""How tables and views are made, what comes, and whether feeds are per update."""
WORKLOADS: dict[str, Workload] = {
    "one grouped view, tuples": (
        lambda db: sales(db, 1),
        lambda size: sale_rows(size, as_arrow=False),
        False,
    ),
    "one grouped view, Arrow": (
        lambda db: sales(db, 1),
        lambda size: sale_rows(size, as_arrow=True),
        False,
    ),
    "ten views over one table, tuples": (
        lambda db: sales(db, 10),
        lambda size: sale_rows(size, as_arrow=False),
        False,
    ),
    "Q3-like, two tables, Arrow": (orders, order_rows, False),
    "Star, Arrow": (lambda db: edges_table(db, STAR), edge_rows, False),
    "3-Hop, per-update feed, Arrow": (lambda db: edges_table(db, HOPS), edge_rows, True),
}


def run(name: str, size: int) -> dict[str, float]:
    """CPU time of an update, in microseconds, and for batches of one the calls and modules of the last one."""
    import everview as ev

    make, come, per_update = WORKLOADS[name]
    db = ev.Database()
    make(db)
    feeds = [db.view(view).changes(per_update=per_update) for view in db.views]
    batches = come(size)

    def once(batch: Batch) -> None:
        batch(db)
        for feed in feeds:
            feed.read()

    for _ in range(WARM):
        once(next(batches))
    count = max(WARM, UPDATES[size] // size)
    spent = 0.0
    for _ in range(count):
        batch = next(batches)
        begin = process_time()
        once(batch)
        spent += process_time() - begin
    found = {"us": spent / count / size * 1e6}
    return found | counted(lambda: once(next(batches))) if size == 1 else found


def counted(act: Callable[[], None]) -> dict[str, float]:
    """Python calls, and modules of ours, that something passes."""
    import cProfile
    import pstats

    act()
    profile = cProfile.Profile()
    profile.enable()
    act()
    profile.disable()
    entries: dict[Any, Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    calls = sum(value[1] for key, value in entries.items() if key[0] != "~" and "benchmarks" not in key[0])
    return {"calls": calls, "modules": len({key[0] for key in entries if "everview" in key[0] and key[2] != "once"})}


def measure(source: Path, name: str, size: int) -> dict[str, float]:
    """One run in a process of its own, with the package of a checkout."""
    command = [sys.executable, "-m", "benchmarks.batches", "--one", name, "--size", str(size), "--source", str(source)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return dict(json.loads(found.stdout.splitlines()[-1]))


def table(runs: int, against: Path | None, names: Sequence[str], sizes: Sequence[int]) -> list[str]:
    """The lines of the table, measured now."""
    sources = [*([against] if against else []), ROOT / "src"]
    lines = [
        "| workload | updates a batch | before, µs an update | now | now ÷ before | calls, modules before | now |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in names:
        for size in sizes:
            found: dict[Path, list[dict[str, float]]] = {s: [] for s in sources}
            for _ in range(runs):
                for s in sources:
                    found[s].append(measure(s, name, size))
            before, now = (min(found[s], key=lambda f: f["us"]) for s in (sources[0], sources[-1]))
            told = [f"{before['us']:,.2f}", f"{now['us'] / before['us']:.2f}"] if against else ["", ""]
            passed = [f"{f['calls']:.0f}, {f['modules']:.0f}" if "calls" in f else "" for f in (before, now)]
            first = passed[0] if against else ""
            lines.append(f"| {name} | {size:,} | {told[0]} | {now['us']:,.2f} | {told[1]} | {first} | {passed[1]} |")
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.batches", description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--only", default="", help="workloads whose name has this in it")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, choices=SIZES)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--one", choices=WORKLOADS, help="measure this alone, here")
    parser.add_argument("--size", type=int, default=1, choices=SIZES, help="with batches of this size")
    parser.add_argument("--source", type=Path, help="and with the package in this folder")
    options = parser.parse_args()
    if options.one:
        if options.source and options.source != ROOT / "src":
            use(options.source)
        print(json.dumps(run(options.one, options.size)))
        return
    lines = table(options.runs, options.against, [n for n in WORKLOADS if options.only in n], options.sizes)
    if options.write:
        text = TABLES.read_text(encoding="utf-8")
        head, rest = text.split(BEGIN + "\n", 1)
        old, tail = rest.split(END, 1)
        kept = _merged(old.splitlines(), lines)
        TABLES.write_text(head + BEGIN + "\n" + "\n".join(kept) + "\n" + END + tail, encoding="utf-8")


def _merged(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """A table with the lines that were measured now, and the others as they were."""
    found = {tuple(line.split(" | ")[:2]): line for line in (*old, *new)}
    rows = [(f"| {name}", f"{size:,}") for name in WORKLOADS for size in SIZES]
    return [*new[:2], *(found[row] for row in rows if row in found)]


if __name__ == "__main__":
    main()
