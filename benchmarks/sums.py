"""``python -m benchmarks.sums``: what sums cost, in updates a second of processor time.

TPC-H's Q3 and Q10 (without ORDER BY and LIMIT) over generated rows, and small views that each hold one kind of sum.
Every view is loaded with half of its rows, and then takes batches that insert new rows and delete old ones.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from time import process_time
from typing import Any

import pyarrow as pa

import everview as ev

TPCH = Path(__file__).parent / "workloads" / "tpch"
BATCH = 1_000
Row = tuple[Any, ...]

SUMS = {
    "SUM(SMALLINT)": "SELECT g, SUM(s) AS x FROM t GROUP BY g",
    "SUM(INT)": "SELECT g, SUM(i) AS x FROM t GROUP BY g",
    "SUM(BIGINT)": "SELECT g, SUM(b) AS x FROM t GROUP BY g",
    "SUM(BIGINT), join": "SELECT t.g, SUM(t.b) AS x FROM t, u WHERE t.k = u.k GROUP BY t.g",
    "SUM(BIGINT), two tables": "SELECT t.g, SUM(t.b + u.b) AS x FROM t, u WHERE t.k = u.k GROUP BY t.g",
    "SUM, AVG, COUNT(INT)": "SELECT g, SUM(i) AS x, AVG(i) AS y, COUNT(i) AS z FROM t GROUP BY g",
    "SUM(DECIMAL(15, 2))": "SELECT g, SUM(d) AS x FROM t GROUP BY g",
    "SUM(DECIMAL(30, 2))": "SELECT g, SUM(w) AS x FROM t GROUP BY g",
    "AVG(DECIMAL(15, 2))": "SELECT g, AVG(d) AS x FROM t GROUP BY g",
    "SUM(DOUBLE)": "SELECT g, SUM(f) AS x FROM t GROUP BY g",
    "VARIANCE(INT)": "SELECT g, VARIANCE(i) AS x FROM t GROUP BY g",
    "VARIANCE(DOUBLE)": "SELECT g, VARIANCE(f) AS x FROM t GROUP BY g",
}


def query(name: str) -> str:
    """A TPC-H query as a view: without what cuts and orders its rows."""
    return (TPCH / f"{name}.sql").read_text(encoding="utf-8").split("ORDER BY")[0]


def tpch(rows: int) -> Iterator[tuple[str, list[Row]]]:
    """Rows of the tables that Q3 and Q10 read, line items last."""
    r = random.Random(rows)
    orders, customers = rows // 4, rows // 40 + 1
    first = date(1993, 9, 1)

    def day(last: int) -> date:
        return first + timedelta(r.randrange(last))

    yield "nation", [(i, f"nation {i}", i % 5, "") for i in range(25)]
    segments = ("BUILDING", "MACHINERY")
    yield (
        "customer",
        [(i, f"name {i}", "", i % 25, "", Decimal(i), segments[i % 2], "") for i in range(customers)],
    )
    yield (
        "orders",
        [(i, r.randrange(customers), "O", Decimal(0), day(120), "", "", 0, "") for i in range(orders)],
    )
    yield "lineitem", [_item(r, i, orders, date(1995, 3, 1) + timedelta(r.randrange(60))) for i in range(rows)]


def _item(r: random.Random, i: int, orders: int, shipped: date) -> Row:
    price = Decimal(r.randrange(100, 10_000_000)).scaleb(-2)
    discount = Decimal(r.randrange(11)).scaleb(-2)
    start = (r.randrange(orders), 1, 1, i, Decimal(1), price, discount, Decimal(0), r.choice("RAN"), "O")
    return (*start, shipped, shipped, shipped, "", "", "")


def plain(rows: int) -> Iterator[tuple[str, list[Row]]]:
    """Rows for the small views."""
    r = random.Random(rows)
    yield "u", [(k, r.randrange(1000)) for k in range(1000)]
    yield (
        "t",
        [
            (
                r.randrange(2_000),
                r.randrange(1000),
                r.randrange(-(2**15), 2**15),
                r.randrange(-(2**31), 2**31),
                r.randrange(2**40),
                Decimal(r.randrange(10**9)).scaleb(-2),
                Decimal(r.randrange(10**25)).scaleb(-2),
                r.gauss(0, 1000),
            )
            for _ in range(rows)
        ],
    )


def run(schema: str, view: str, tables: list[tuple[str, list[Row]]], loud: bool) -> float:
    """Updates a second: half of the last table's rows are there, the others replace them."""
    db = ev.Database()
    db.sql(schema)
    db.sql(f"CREATE MATERIALIZED VIEW v AS {view}")
    for name, rows in tables[:-1]:
        db.insert(name, rows)
    name, rows = tables[-1]
    fields = db._tables[name].schema.columns
    columns = [pa.array(c) for c in zip(*rows, strict=True)]
    data = pa.table(columns, names=[f.name for f in fields])
    half = len(rows) // 2
    db.insert(name, data.slice(0, half))
    feed = db.view("v").changes() if loud else None
    batches = []
    for at in range(0, half - BATCH + 1, BATCH):
        old, new = data.slice(at, BATCH), data.slice(half + at, BATCH)
        kinds = pa.array(["delete"] * BATCH + ["insert"] * BATCH)
        batches.append(pa.concat_tables([old, new]).append_column("_change_type", kinds))
    begun = process_time()
    for batch in batches:
        db.apply(name, batch)
        if feed is not None:
            feed.read()
    seconds = process_time() - begun
    assert len(db.view("v"))
    return sum(len(b) for b in batches) / seconds


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--runs", type=int, default=3, help="the best of so many is shown")
    parser.add_argument("--only", default="", help="views whose name contains this")
    options = parser.parse_args()
    schema = (TPCH / "schema.sql").read_text(encoding="utf-8")
    small = (
        "CREATE TABLE u (k INT, b BIGINT); CREATE TABLE t (g INT, k INT, s SMALLINT, i INT, b BIGINT,"
        " d DECIMAL(15, 2), w DECIMAL(30, 2), f DOUBLE)"
    )
    lines, mixed = list(tpch(options.rows)), list(plain(options.rows))
    work = [(f"TPC-H {q}", schema, query(q), lines) for q in ("q03", "q10")]
    work += [(name, small, text, mixed) for name, text in SUMS.items()]
    print("| view | updates a second | with a feed |\n|---|---|---|")
    for name, ddl, text, tables in work:
        if options.only in name:
            best = [max(run(ddl, text, tables, loud) for _ in range(options.runs)) for loud in (False, True)]
            print(f"| {name} | {best[0]:,.0f} | {best[1]:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
