"""What the first ``why`` on a view takes, against defining the view: `python -m benchmarks.first_why`.

Customers, orders and lines are joined by keys: one view shows all their columns, the other is grouped.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import everview as ev

T = TypeVar("T")
SCHEMA = """
    CREATE TABLE customers (id INT PRIMARY KEY, city STRING);
    CREATE TABLE orders (id INT PRIMARY KEY, customer INT, day INT);
    CREATE TABLE lines (order_id INT, number INT, price INT);
"""
JOIN = "FROM customers c JOIN orders o ON o.customer = c.id JOIN lines l ON l.order_id = o.id"
VIEWS = {
    "all columns": f"SELECT c.id, c.city, o.id AS order_id, o.day, l.number, l.price {JOIN}",
    "grouped": f"SELECT c.city, SUM(l.price) AS total {JOIN} GROUP BY c.city",
}


def main() -> None:
    """Print a line a view and size: milliseconds of CPU time, and bytes."""
    print("| lines | view | defining it | first `why` | second `why` | kept for it |\n|---|---|---|---|---|---|")
    for size in (10_000, 100_000):
        r = random.Random(1)
        db = ev.Database()
        db.sql(SCHEMA)
        db.insert("customers", [(i, f"city {i % 100}") for i in range(size // 10)])
        db.insert("orders", [(i, r.randrange(size // 10), i % 30) for i in range(size // 2)])
        db.insert("lines", [(r.randrange(size // 2), i % 5, r.randrange(1000)) for i in range(size)])
        for title, query in VIEWS.items():
            defined, view = _timed(partial(db.create_view, "v", query))
            rows, before = list(view)[:2], db.nbytes()
            first, _ = _timed(partial(view.why, rows[0], limit=5))
            kept = db.nbytes() - before
            second, _ = _timed(partial(view.why, rows[1], limit=5))
            print(f"| {size:,} | {title} | {defined:.0f} ms | {first:.1f} ms | {second:.1f} ms | {kept / 1e6:.1f} MB |")
            db.drop("v")


def _timed(call: Callable[[], T]) -> tuple[float, T]:
    begin = time.process_time()
    found = call()
    return 1000 * (time.process_time() - begin), found


if __name__ == "__main__":
    main()
