"""First rows, values beside the greatest, anti and outer joins: what an update costs as the tables grow.

``make bench-constructs`` fills two tables of a thousand to a million rows, has some hundred rows come and go, one a
batch, and follows the view by its feed. Half of what comes is the first in order. Steps are the kernel's, counted, so
they repeat exactly. What the feed adds up to must be DuckDB's result of the final tables. ``--write`` keeps the
measurements and puts the table into docs/performance-tables.md. It ends with an error if a result is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from time import process_time
from typing import Any

import duckdb
import pyarrow as pa

import everview as ev
from benchmarks import report, results
from benchmarks.engine import Wrong
from benchmarks.results import Record

MARK, END = "<!-- constructs: written by `make bench-constructs ARGS=--write` -->", "<!-- end constructs -->"
SIZES = (1_000, 10_000, 100_000, 1_000_000)
UPDATES = 400
SCHEMA = "CREATE TABLE l (k INT NOT NULL, x INT, s STRING); CREATE TABLE r (k INT NOT NULL, y INT, s STRING)"
CASES = {
    "first rows": "SELECT k, x FROM l ORDER BY x DESC NULLS LAST, k NULLS FIRST LIMIT 10",
    "first rows by text": "SELECT s, k FROM l ORDER BY s DESC NULLS LAST, k NULLS FIRST LIMIT 10",
    "latest by key": "SELECT k, x FROM l QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY x DESC NULLS LAST, "
    "s NULLS FIRST) = 1",
    "MAX_BY by key": "SELECT k, MAX_BY(x, s) AS m FROM l GROUP BY k",
    "MAX_BY of all": "SELECT MAX_BY(k, x * 1000000 + k) AS m FROM l",
    "anti join": "SELECT k, x FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k)",
    "anti join with <>": "SELECT k, x FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND r.y <> l.x)",
    "NOT IN": "SELECT k, x FROM l WHERE k NOT IN (SELECT k FROM r)",
    "left join": "SELECT l.k, l.x, r.y FROM l LEFT JOIN r ON l.k = r.k",
    "left join with <>": "SELECT l.k, l.x, r.y FROM l LEFT JOIN r ON l.k = r.k AND r.y <> l.x",
    "full join": "SELECT l.k, l.x, r.k AS q, r.y FROM l FULL JOIN r ON l.k = r.k",
    "number by row": "SELECT k, x, (SELECT COUNT(*) FROM r WHERE r.k = l.k) AS n FROM l",
}
Row = tuple[int, int | None, str]


def _row(random: Random, size: int, *, is_high: bool = False) -> Row:
    """Keys of which some are in one table only, each a few times; texts with one beginning."""
    above = 1_000 if is_high else 0
    return random.randrange(size), above + random.randrange(1_000), f"name {above}{random.randrange(10 * size):09}"


def _table(rows: Sequence[Row], second: str) -> pa.Table:
    k, v, s = zip(*rows, strict=True)
    return pa.table({"k": pa.array(k, pa.int32()), second: pa.array(v, pa.int32()), "s": pa.array(s, pa.string())})


def measure(name: str, size: int, count: int) -> Record:
    """Fill the tables, have rows come and go, and compare what comes out."""
    random = Random(size)
    db = ev.Database()
    db.sql(SCHEMA)
    db.sql(f"CREATE MATERIALIZED VIEW v AS {CASES[name]}")
    view = db.view("v")
    held = {t: [_row(random, size) for _ in range(size)] for t in "lr"}
    for table, rows in held.items():
        db.insert(table, _table(rows, "xy"[table == "r"]))
    before: Counter[tuple[Any, ...]] = Counter(view)
    feed = view.changes()
    steps, spent, changed, most = view.stats()["steps"], 0.0, 0, 0
    first = steps
    for i in range(count):
        table = "lr"[i // 2 % 2]
        rows = held[table]
        start = process_time()
        if i % 2:
            at = random.choice((random.randrange(len(rows)), len(rows) - 1))
            rows[at], rows[-1] = rows[-1], rows[at]
            db.delete(table, [rows.pop()])
        else:
            rows.append(_row(random, size, is_high=random.random() < 0.5))
            db.insert(table, [rows[-1]])
        spent += process_time() - start
        told = [change for batch in feed.read() for change in batch.to_pylist()]
        for change in told:
            sign = 1 if change["_change_type"] in ("insert", "update_postimage") else -1
            before[tuple(v for c, v in change.items() if c[0] != "_")] += sign * change["_count"]
        changed += sum(change["_count"] for change in told)
        now = view.stats()["steps"]
        most, steps = max(most, now - steps), now
    with duckdb.connect() as other:
        for table, rows in held.items():
            other.register(table, _table(rows, "xy"[table == "r"]))
        start = process_time()
        wanted = Counter(other.execute(CASES[name]).fetchall())
        anew = process_time() - start
    if +before != wanted:
        raise Wrong(f"{name}, {size} rows: the feed does not add up to what DuckDB says")
    return {
        "query": name,
        "sql": CASES[name],
        "rows": size,
        "result": wanted.total(),
        "updates": count,
        "changed": changed,
        "steps": (now - first) / count,
        "most_steps": most,
        "seconds": spent,
        "bytes": view.stats()["bytes"],
        "duckdb_s": anew,
    }


def run(sizes: Sequence[int], count: int) -> Iterator[Record]:
    """Every case with tables of every size."""
    for name in CASES:
        for size in sizes:
            yield measure(name, size, count)


def table(records: list[Record]) -> str:
    """The records as a Markdown table: a line a case."""
    sizes = sorted({r["rows"] for r in records})
    heads = ["view", *(f"{size:,} rows" for size in sizes), "largest ÷ smallest", "rows told an update", "most steps"]
    lines = [f"| {' | '.join([*heads, 'µs an update', 'DuckDB anew, ms'])} |", "|---" * (len(heads) + 2) + "|"]
    for name in dict.fromkeys(r["query"] for r in records):
        found = {r["rows"]: r for r in records if r["query"] == name}
        last = found[max(found)]
        cells = [f"{found[size]['steps']:,.1f}" if size in found else "" for size in sizes]
        cells.append(f"{last['steps'] / found[min(found)]['steps']:.2f}")
        cells.append(f"{last['changed'] / last['updates']:.2f}")
        cells.append(f"{last['most_steps']:,}")
        cells.append(f"{1e6 * last['seconds'] / last['updates']:,.0f}")
        cells.append(f"{1e3 * last['duckdb_s']:,.1f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def section(head: Record, records: list[Record]) -> str:
    """What the page shows of a run."""
    return f"{table(records)}\n\n{results.provenance([head], 'constructs')}"


def main() -> int:
    """Measure, print, and keep what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="up to ten thousand rows, to see that it works")
    parser.add_argument(
        "--write", action="store_true", help="keep the results and put the table into docs/performance-tables.md"
    )
    options = parser.parse_args()
    records = []
    for record in run(SIZES[:2] if options.small else SIZES, UPDATES // (10 if options.small else 1)):
        records.append(record)
        print(json.dumps(record), flush=True)
    head = results.circumstances("benchmarks.constructs")
    print(section(head, records))
    if options.write:
        results.put("constructs", head, records)
        report.fill(MARK, section(head, records), END)
    return 0


if __name__ == "__main__":
    sys.exit(main())
