"""Strategies with a dial from outside: options through SQL, calls and rules; where they fit, and where they do not."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import pytest

import everview as ev

TABLES = "CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE s (b BIGINT, c BIGINT); CREATE TABLE t (c BIGINT, a BIGINT)"
TRIANGLE = "FROM r, s, t WHERE r.b = s.b AND s.c = t.c AND t.a = r.a"
EDGES = {
    "r": [(i % 5, i % 7) for i in range(40)],
    "s": [(i % 7, i % 4) for i in range(40)],
    "t": [(i % 4, i % 5) for i in range(20)],
}
RULES = {
    "ivm-eps-hierarchical": ("v(A, C) :- r(A, B), s(B, C).", lambda a, b, c: (a, c), 2),
    "ivm-eps-triangle": ("v(B, A) :- r(A, B), s(B, C), t(C, A).", lambda a, b, c: (b, a), 3),
}


@pytest.mark.parametrize("strategy", RULES)
@pytest.mark.parametrize("epsilon", [0, 0.5, 1])
def test_rules_take_options(strategy: str, epsilon: float) -> None:
    """Rules are sets: copies do not count; what goes takes its results with it."""
    text, head, atoms = RULES[strategy]
    db = ev.Database()
    db.sql(TABLES)
    db.rules(text, epsilon=epsilon)
    view = db.view("v")
    assert view.explain().strategy == strategy
    known = {name: list(rows) for name, rows in EDGES.items()}
    with db.batch() as batch:
        for name, rows in known.items():
            batch.insert(name, rows)

    def wanted() -> set[tuple[int, ...]]:
        found = product(*(set(known[name]) for name in "rst"[:atoms]))
        rows = ((one[0], one[1], two[1], *three) for one, two, *three in found if one[1] == two[0])
        return {head(a, b, c) for a, b, c, *closing in rows if not closing or closing[0] == (c, a)}

    assert Counter(view) == Counter(wanted())
    for name, row in (("r", (1, 1)), ("s", (1, 1)), ("r", (0, 0))):
        while row in known[name]:
            known[name].remove(row)
            db.delete(name, [row])
    assert Counter(view) == Counter(wanted())
    for row in list(wanted())[:4]:
        assert row in view
    assert (99, 99) not in view


@pytest.mark.parametrize(
    ("sql", "strategy", "reason"),
    [
        (f"SELECT r.a, r.b, s.c {TRIANGLE} AND r.a + r.b < s.c", "ivm-eps-triangle", "conditions across relations"),
        (f"SELECT r.a, r.b {TRIANGLE} AND r.a * r.b > s.c", "ivm-eps-triangle", "conditions across relations"),
        ("SELECT r.a, s.c FROM r JOIN s ON r.b = s.b WHERE r.a < s.c", "ivm-eps-hierarchical", "conditions across"),
        ("SELECT r.a, SUM(s.c) AS n FROM r JOIN s ON r.b = s.b GROUP BY r.a", "ivm-eps-hierarchical", "counts only"),
    ],
)
def test_where_a_dial_does_not_fit(sql: str, strategy: str, reason: str) -> None:
    """The view is maintained all the same, and explain says why not with a dial."""
    db = ev.Database()
    db.sql(TABLES)
    view = db.create_view("v", sql, epsilon=0.5)
    explained: dict[str, Any] = view.explain().to_dict()
    assert explained["strategy"] == "crown"
    (found,) = [c["reason"] for c in explained["strategies"] if c["strategy"] == strategy]
    assert reason in found
    assert any("epsilon has no effect" in note for note in explained["notes"])


def test_options_by_sql_and_by_call_are_the_same() -> None:
    db = ev.Database()
    db.sql(TABLES)
    select = f"SELECT r.a, COUNT(*) AS n {TRIANGLE} GROUP BY r.a"
    db.sql(f"CREATE MATERIALIZED VIEW one OPTIONS (epsilon = 0.75) AS {select}")
    db.create_view("two", select, epsilon=0.75)
    with db.batch() as batch:
        for name, rows in EDGES.items():
            batch.insert(name, rows)
    assert Counter(db.view("one")) == Counter(db.view("two"))
    assert db.view("one").stats()["parts"] == db.view("two").stats()["parts"]
    assert [p["epsilon"] for p in db.view("one").stats()["parts"]] == [0.75]


@pytest.mark.parametrize("corners", ["r.a", "r.a, r.b", "DISTINCT r.a", "DISTINCT s.b, s.c"])
def test_pages_give_every_row_once(corners: str) -> None:
    """Substitution in pages of any size, and everything at once by pieces, are the same rows."""
    db = ev.Database()
    db.sql(TABLES)
    grouped = "" if "DISTINCT" in corners else f" GROUP BY {corners}"
    counted = "" if "DISTINCT" in corners else ", COUNT(*) AS n"
    view = db.create_view("v", f"SELECT {corners}{counted} {TRIANGLE}{grouped}", epsilon=0.5)
    assert view.explain().strategy == "ivm-eps-triangle"
    hubs = [(i, j) for i in range(12) for j in range(12) if i < 2 or j < 2]
    with db.batch() as batch:
        for name in "rst":
            batch.insert(name, hubs)
    whole = Counter(view)
    for size in (1, 3, 7):
        pages = [view.page(offset=first, limit=size) for first in range(0, len(view), size)]
        assert Counter(row for page in pages for row in page) == whole
    assert all(row in view for row in whole)


def test_explain_measures_parts() -> None:
    db = ev.Database()
    db.sql(TABLES)
    view = db.create_view("v", f"SELECT COUNT(*) AS n {TRIANGLE}")
    db.insert("r", [(1, j) for j in range(40)])
    (parts,) = view.stats()["parts"]
    assert parts["heavy_keys"] == 1
    measured = str(view.explain(analyze=True))
    base = f"N = {parts['N']}, θ = {parts['theta']:.2f}, ε = 0.5; heavy keys: 1;"
    assert f"heavy and light parts at {base} rebalanced {parts['minor']} times for a key" in measured
