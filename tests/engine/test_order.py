"""First rows with ties, and how many steps the first rows take as tables grow."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import duckdb
import pytest

import everview as ev


@pytest.mark.parametrize("limit", [0, 1, 3])
@pytest.mark.parametrize("order", ["v DESC NULLS LAST", "v NULLS FIRST, k NULLS FIRST"])
def test_rows_that_tie_with_the_last_are_there_too(limit: int, order: str) -> None:
    """DuckDB has no WITH TIES, but rank() says the same."""
    r = random.Random(f"{limit} {order}")
    db, other = ev.Database(), duckdb.connect()
    for run in (db.sql, other.execute):
        run("CREATE TABLE c (k INT, v INT)")
    db.sql(f"CREATE VIEW tied AS SELECT k, v FROM c ORDER BY {order} FETCH FIRST {limit} ROWS WITH TIES")
    feed = db.view("tied").changes()
    told: Counter[tuple[Any, ...]] = Counter()
    stored: list[tuple[Any, ...]] = []
    for _ in range(30):
        row = (r.choice([None, 1, 2]), r.choice([None, 1, 2, 3, 4]))
        if stored and r.random() < 0.4:
            gone = stored.pop(r.randrange(len(stored)))
            db.delete("c", [gone])
        else:
            db.insert("c", [row])
            stored.append(row)
        other.execute("DELETE FROM c")
        if stored:
            other.executemany("INSERT INTO c VALUES (?, ?)", stored)
        ranked = f"SELECT k, v FROM (SELECT k, v, rank() OVER (ORDER BY {order}) AS r FROM c) WHERE r <= {limit}"
        assert Counter(db.view("tied")) == Counter(other.execute(ranked).fetchall())
        for change in (c for arrow in feed.read() for c in arrow.to_pylist()):
            told[change["k"], change["v"]] += change["_count"] * (1 if change["_change_type"] == "insert" else -1)
        assert +told == Counter(db.view("tied"))


def test_steps_of_the_first_rows_grow_with_the_logarithm() -> None:
    """Ten times the rows are a few steps more, whether or not the change shows; a scan would take ten times as many."""
    taken = []
    for rows in (1_000, 10_000):
        r = random.Random(rows)
        db = ev.Database()
        db.sql("CREATE TABLE c (k INT, v INT)")
        db.sql("CREATE VIEW top AS SELECT k, v FROM c ORDER BY v DESC LIMIT 10")
        stored = [(n, r.randrange(10 * rows)) for n in range(rows)]
        db.insert("c", stored)
        before = db.view("top").stats()["steps"]
        for n in range(200):
            db.insert("c", [(rows + n, r.randrange(10 * rows))])
            db.delete("c", [stored[n]])
        taken.append((db.view("top").stats()["steps"] - before) / 400)
    assert 0 < taken[1] <= 1.5 * taken[0], taken
