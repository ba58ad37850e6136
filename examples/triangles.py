"""Triangles in a graph with hubs, counted in O(√N) an update: python examples/triangles.py"""

from __future__ import annotations

from random import Random

import everview as ev

EDGES = 3_000


def main() -> None:
    """Keep a count while edges come and go, an edge between two hubs among them."""
    random = Random(1)
    people = [int(1_000 ** random.random()) for _ in range(2 * EDGES)]
    edges = set(zip(people[::2], people[1::2], strict=True))
    for v in range(1_000, 2_000):
        edges |= {(-1, v), (v, -2)}
    db = ev.Database()
    db.sql("CREATE TABLE follows (a INT, b INT)")
    view = db.create_view(
        "triangles",
        "SELECT COUNT(*) AS n FROM follows x JOIN follows y ON x.b = y.a JOIN follows z ON y.b = z.a AND z.b = x.a",
    )
    print(view.explain())
    db.insert("follows", sorted(edges))
    for what, change in (("without", None), ("with", db.insert), ("without", db.delete)):
        if change is not None:
            change("follows", [(-2, -1)])
        count = view.to_arrow().column(0)[0].as_py()
        print(f"{what:>7} the edge between the hubs: {count:,} triangles")
    (parts,) = view.stats()["parts"]
    print(f"{parts['heavy_keys']} heavy keys, {parts['major']} major and {parts['minor']} minor rebalances")


if __name__ == "__main__":
    main()
