"""The dial between cheap updates and cheap reads, on friends of friends: python examples/dial.py"""

from __future__ import annotations

from random import Random
from time import perf_counter

import everview as ev

FOLLOWS = 4_000


def main() -> None:
    """Fill one view, and turn its dial: the result stays the same, what updates and reads cost does not."""
    random = Random(1)
    people = [int(1_000 ** random.random()) for _ in range(2 * FOLLOWS)]
    follows = list(set(zip(people[::2], people[1::2], strict=True)))
    db = ev.Database()
    db.sql("CREATE TABLE follows (a INT, b INT)")
    query = "SELECT DISTINCT x.a, y.b AS c FROM follows x JOIN follows y ON x.b = y.a"
    view = db.create_view("reach", query, epsilon=0)
    print(view.explain())
    db.insert("follows", follows)
    for epsilon in ("0", "1/4", "1/2", "1"):
        db.sql(f"ALTER MATERIALIZED VIEW reach SET OPTIONS (epsilon = {epsilon})")
        began = perf_counter()
        for row in follows[:50]:
            db.delete("follows", [row])
            db.insert("follows", [row])
        updated = perf_counter()
        page = view.page(offset=0, limit=200)
        read = perf_counter()
        (parts,) = view.stats()["parts"]
        print(
            f"epsilon {epsilon:>3}  {1e6 * (updated - began) / 100:7.0f} µs an update  "
            f"{1e6 * (read - updated) / len(page):7.1f} µs a row of a page  {parts['heavy_keys']:4} heavy keys  "
            f"{view.count():,} rows"
        )


if __name__ == "__main__":
    main()
