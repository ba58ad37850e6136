"""How fast MIN and MAX follow: ``python -m benchmarks.min_max``; replaces rows of a full table, batch by batch."""

from __future__ import annotations

from random import Random
from time import process_time

import pyarrow as pa

import everview as ev

ROWS = 100_000
BATCH = 1_000
BATCHES = 20
VALUES = 10**9


def _table(rows: list[tuple[int, int]]) -> pa.Table:
    return pa.table({"g": pa.array([g for g, _ in rows], pa.int64()), "x": pa.array([x for _, x in rows], pa.int64())})


def run(groups: int, select: str) -> tuple[float, float, int]:
    """Updates a second of processor time, with the view and with the table alone, and the view's bytes."""
    rates = []
    size = 0
    for with_view in (True, False):
        random = Random(1)
        db = ev.Database()
        db.sql("CREATE TABLE t (g BIGINT NOT NULL, x BIGINT NOT NULL)")
        if with_view:
            db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT g, {select} FROM t GROUP BY g")
        rows = [(random.randrange(groups), random.randrange(VALUES)) for _ in range(ROWS)]
        db.insert("t", _table(rows))
        spent = 0.0
        for i in range(BATCHES):
            old = rows[i * BATCH // 2 : (i + 1) * BATCH // 2]
            new = [(random.randrange(groups), random.randrange(VALUES)) for _ in old]
            gone, come = _table(old), _table(new)
            start = process_time()
            with db.batch() as batch:
                batch.delete("t", gone)
                batch.insert("t", come)
            spent += process_time() - start
        rates.append(BATCHES * BATCH / spent)
        size = db.view("v").stats()["bytes"] if with_view else size
    return rates[0], rates[1], size


def main() -> None:
    """Print a line a case."""
    for groups in (1_000, 1):
        for select in ("MIN(x) AS low", "MIN(x) AS low, MAX(x) AS high"):
            rate, alone, size = run(groups, select)
            print(f"{groups:5} groups, {select}: {rate:,.0f} updates/s (table alone {alone:,.0f}), {size:,} bytes")


if __name__ == "__main__":
    main()
