"""SUM(a.x * b.y) where a row's product may leave its type: kept table by table, and refused exactly if a row's does.

The oracle multiplies row by row, as Spark does with ANSI rules: a product beyond its type is an error, wherever it is.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.engine.watched import WATCH
from everview.errors import DataError
from tests.scale import scaled

MOST = {"INT": 2**31, "BIGINT": 2**63}
VALUES = {
    "INT": (0, 1, -1, 2, 3, 46_340, 46_341, -46_341, 2**31 - 1, -(2**31), None),
    "BIGINT": (0, 1, -1, 2, 3, 2**31, -(2**31), 2**33, 3_037_000_499, 2**40, 2**62, None),
}
QUERIES = {
    "by key": ("SELECT a.k, SUM(a.x * b.y) AS s, COUNT(*) AS n FROM a JOIN b ON a.k = b.k GROUP BY a.k", "k"),
    "in all": ("SELECT SUM(a.x * b.y) AS s, COUNT(*) AS n FROM a JOIN b ON a.k = b.k", ""),
    "three": (
        "SELECT a.k, SUM(a.x * b.y * c.z) AS s, COUNT(*) AS n FROM a, b, c WHERE a.k = b.k AND a.k = c.k GROUP BY a.k",
        "kc",
    ),
}


REFUSED: Counter[tuple[str, str]] = Counter()
"""How many batches random cases have had refused, of each kind."""


def database(query: str, type_: str) -> ev.Database:
    db = ev.Database()
    for table, column in (("a", "x"), ("b", "y"), ("c", "z")):
        db.sql(f"CREATE TABLE {table} (k INT, {column} {type_})")
    db.create_view("v", query)
    return db


def expected(held: dict[str, Counter[Any]], shape: str, type_: str) -> dict[Any, tuple[int | None, int]] | None:
    """Groups with their sums and counts; None if a row's product, or a product that it is made of, leaves the type."""
    found: dict[Any, list[int]] = defaultdict(lambda: [0, 0, 0])
    tables = [held[t].items() for t in ("abc" if "c" in shape else "ab")]
    for rows in product(*tables):
        keys = {row[0] for row, _ in rows}
        if len(keys) > 1 or None in keys:
            continue
        made: int | None = None
        copies = 1
        for i, (row, n) in enumerate(rows):
            copies *= n
            made = row[1] if i == 0 else None if made is None or row[1] is None else made * row[1]
            if made is not None and not -MOST[type_] <= made < MOST[type_]:
                return None
        group = found[next(iter(keys)) if "k" in shape else ()]
        group[1] += copies
        if made is not None:
            group[0], group[2] = group[0] + made * copies, group[2] + copies
    if "k" not in shape:
        found.setdefault((), [0, 0, 0])
    sums = {k: (s if n else None, c) for k, (s, c, n) in found.items()}
    return None if any(s is not None and not -(2**63) <= s < 2**63 for s, _ in sums.values()) else sums


def shown(view: ev.View, shape: str) -> dict[Any, tuple[int | None, int]]:
    if "k" in shape:
        return {row[0]: row[1:] for row in view}
    (row,) = view
    return {(): row}


def told(feed: ev.ChangeFeed) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for batch in feed.read():
        for row in batch.to_pylist():
            sign = 1 if row["_change_type"] in ("insert", "update_postimage") else -1
            found[tuple(v for k, v in row.items() if not k.startswith("_"))] += sign * row["_count"]
    return +found


@pytest.mark.parametrize("type_", MOST)
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("seed", range(scaled(3)))
def test_batches_are_refused_exactly_where_a_product_is_too_large(
    seed: int, name: str, type_: str, tmp_path: Path
) -> None:
    r = random.Random(f"{seed} {name} {type_}")
    query, shape = QUERIES[name]
    db, held = database(query, type_), {t: Counter[Any]() for t in "abc"}
    start = Counter(map(tuple, db.view("v")))
    feed = db.view("v").changes() if seed % 3 == 1 else None
    refused = 0
    for step in range(24):
        few = VALUES[type_][: 5 if step < 8 else None]
        after = {t: Counter(rows) for t, rows in held.items()}
        error = None
        try:
            with db.batch() as batch:
                for _ in range(r.choice((1, 1, 3))):
                    table = r.choice("abc")
                    if after[table] and r.random() < 0.4:
                        row = r.choice(sorted(after[table], key=repr))
                        batch.delete(table, [row])
                        after[table] -= Counter([row])
                    else:
                        row = (r.choice((1, 2, None)), r.choice(few))
                        batch.insert(table, [row])
                        after[table][row] += 1
        except DataError as refusal:
            error = refusal
        wanted = expected(after, shape, type_)
        assert (error is None) == (wanted is not None), (error, held, after)
        held = after if error is None else held
        refused += error is not None
        assert shown(db.view("v"), shape) == expected(held, shape, type_)
        if step == 16:
            assert feed is None or told(feed) == Counter(map(tuple, db.view("v"))) - start
            db.save(tmp_path / "saved")
            db = ev.Database.load(tmp_path / "saved", verify=seed % 2 == 0)
    REFUSED[name, type_] += refused


def test_some_of_these_were_refused() -> None:
    assert len(+REFUSED) >= 4


def test_it_is_watched_from_when_the_largest_factors_are_too_large() -> None:
    db = database(QUERIES["by key"][0], "BIGINT")
    db.insert("a", [(1, 2**40), (2, 3)])
    db.insert("b", [(1, 5), (2, 7)])
    assert db._views["v"].companions == {}
    db.insert("b", [(2, 2**40)])
    assert db._views["v"].companions.keys() == {WATCH}
    assert sorted(db.view("v")) == [(1, 5 * 2**40, 1), (2, 21 + 3 * 2**40, 2)]
    opposite = [(2, 2**40), (2, -(2**40))]  # The sum of the products is small.
    with pytest.raises(DataError, match=r"v: x \* y failed on the data for .* out of range"):
        db.insert("a", opposite)
    db.create_view("w", QUERIES["by key"][0])
    with pytest.raises(DataError, match=r"x \* y failed on the data"):
        db.insert("a", opposite)
    assert sorted(db.view("v")) == sorted(db.view("w")) == [(1, 5 * 2**40, 1), (2, 21 + 3 * 2**40, 2)]
    with db.batch() as batch:  # A batch is judged by its end.
        batch.insert("a", [(2, 2**41)])
        batch.delete("b", [(2, 2**40)])
    assert sorted(db.view("v")) == [(1, 5 * 2**40, 1), (2, 21 + 7 * 2**41, 2)]
    db.sql("DROP VIEW w; DROP VIEW v")
    db.insert("b", [(2, 2**40)])
    with pytest.raises(DataError, match="failed on the data"):
        db.create_view("v", QUERIES["by key"][0])
    assert db.views == ()


def test_an_update_takes_as_many_steps_whatever_its_group_has() -> None:
    def most(size: int) -> float:
        db = database(QUERIES["by key"][0], "BIGINT")
        db.insert("a", [(1, i) for i in range(size)])
        db.insert("b", [(1, i) for i in range(size)])
        before = db.view("v").stats()["steps"]
        db.insert("a", [(1, 9)])
        db.insert("b", [(1, 8)])
        db.delete("a", [(1, 5)])
        return float(db.view("v").stats()["steps"] - before)

    assert most(4_000) == most(1_000) <= 100


def test_explain_says_what_is_watched() -> None:
    text = str(database(QUERIES["by key"][0], "BIGINT").view("v").explain())
    assert "watch the factors of sum(x * y): no row's product may leave its type" in text
    assert "O(1), while the largest factors multiply to what a row's product may be" in text
