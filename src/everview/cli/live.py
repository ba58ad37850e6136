"""The living part of ``everview demo --embedded``: the graph's views under a stream of changes, batch by batch."""

from __future__ import annotations

import random
import time
from collections import deque
from typing import TextIO

from everview.engine.database import Database

TABLES = "CREATE TABLE follows (src BIGINT NOT NULL, dst BIGINT NOT NULL)"
VIEWS = """
CREATE MATERIALIZED VIEW hops AS
SELECT a.src, a.dst AS mid, b.dst FROM follows a JOIN follows b ON a.dst = b.src;
CREATE MATERIALIZED VIEW triangles AS
SELECT a.src AS x, b.src AS y, c.src AS z
FROM follows a JOIN follows b ON a.dst = b.src JOIN follows c ON b.dst = c.src AND c.dst = a.src
WHERE a.src < b.src AND a.src < c.src;
CREATE MATERIALIZED VIEW followers AS
SELECT dst, COUNT(*) AS n, MIN(src) AS first FROM follows GROUP BY dst;
"""
BATCHES, ROWS, WINDOW, PEOPLE = 10, 1_000, 4_000, 1_500


def run_live(out: TextIO) -> None:
    """A sliding window over a random graph with a few popular people; three views, their changes counted."""
    out.write(
        f"\nNow live: {BATCHES} batches of {ROWS:,} new edges, a window of {WINDOW:,}, three views and their feeds\n"
    )
    db = Database()
    db.sql(TABLES + ";" + VIEWS)
    feeds = {name: db.view(name).changes() for name in db.views}
    chance = random.Random(7)
    window: deque[tuple[int, int]] = deque()
    out.write(f"{'batch':>5}  {'updates/s':>10}" + "".join(f"  {name + ' ±':>14}" for name in feeds) + "\n")
    example = ""
    for batch in range(1, BATCHES + 1):
        new = [(chance.randrange(PEOPLE), int(PEOPLE * chance.random() ** 3)) for _ in range(ROWS)]
        old = [window.popleft() for _ in range(max(0, len(window) + ROWS - WINDOW))]
        window.extend(new)
        start = time.perf_counter()
        with db.batch() as changes:
            changes.delete("follows", old)
            changes.insert("follows", new)
        found = {name: feed.read() for name, feed in feeds.items()}
        rate = (len(old) + len(new)) / (time.perf_counter() - start)
        changed = "".join(f"  {sum(b.num_rows for b in batches):>14,}" for batches in found.values())
        out.write(f"{batch:>5}  {rate:>10,.0f}{changed}\n")
        out.flush()
        example = "\n".join(f"    {row}" for b in found["followers"] for row in b.slice(0, 2).to_pylist())
    sizes = ", ".join(f"{name} {len(db.view(name)):,} rows" for name in db.views)
    out.write(f"\nThe window holds {len(window):,} edges: {sizes}; {db.nbytes() / 1e6:.1f} MB of state\n")
    out.write(f"The last changes of followers begin with\n{example}\n")
