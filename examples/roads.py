"""A question that no join can ask of a road network, kept while roads are built and closed: python examples/roads.py"""

from __future__ import annotations

from random import Random

import everview as ev

SIDE = 12
FINE = "exists=3 y (road(x, y)) implies exists y (road(x, y) and exists[0 mod 2] z (road(y, z)))"


def main() -> None:
    """Keep which junctions of three roads have no neighbour with an even number of roads, and whether there are any."""
    random = Random(4)
    places = [(i, j) for i in range(SIDE) for j in range(SIDE)]
    pairs = [((i, j), (i + di, j + dj)) for i, j in places for di, dj in ((0, 1), (1, 0))]
    grid = [(a, b) for a, b in pairs if max(b) < SIDE]
    db = ev.Database()
    db.sql("CREATE TABLE road (a INT, b INT)")
    db.insert("road", both(random.sample(grid, len(grid) * 3 // 4)))
    lonely = db.formula(f"lonely(x) := not ({FINE})", degree=4)
    fine = db.formula(f"fine() := forall x ({FINE})", degree=4)
    print(lonely.explain())
    feed = lonely.changes()
    print(f"{len(lonely)} junctions are lonely, so fine is {bool(fine)}")
    for _ in range(5):
        a, b = random.choice(grid)
        change = db.delete if both([(a, b)])[0] in db.table("road") else db.insert
        change("road", both([(a, b)]))
        told = [(r["_change_type"], r["x"]) for batch in feed.read() for r in batch.to_pylist()]
        print(f"{change.__name__} {a}–{b}: {told or 'nothing changes'}; {len(lonely)} lonely")
    try:
        db.insert("road", [(0, number) for number in range(1_000, 1_005)])
    except ev.errors.DegreeExceeded as error:
        print(error.message)
    asked = db.sql(QUERY)
    assert asked is not None
    print(f"asked afresh: {len(asked.to_arrow())} lonely")


QUERY = """
    WITH roads AS (SELECT a, COUNT(DISTINCT b) AS n FROM road GROUP BY a)
    SELECT a FROM roads WHERE n = 3 AND a NOT IN (
        SELECT road.a FROM road JOIN roads ON roads.a = road.b WHERE roads.n % 2 = 0)
"""
"""The same, as SQL says it."""


def both(roads: list[tuple[tuple[int, int], tuple[int, int]]]) -> list[tuple[int, int]]:
    """Roads in both directions, places as numbers."""
    numbered = [(a[0] * SIDE + a[1], b[0] * SIDE + b[1]) for a, b in roads]
    return numbered + [(b, a) for a, b in numbered]


if __name__ == "__main__":
    main()
