"""The dial in ``explain``: its exponents where it stands and along the curve, what was chosen and why, where it does
not pay, and which ε keep costs within budgets. The tables are those of the specifications.
"""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

import everview as ev
from everview.errors import QueryError

QUARTERS = [Fraction(i, 4) for i in range(5)]
TABLES = """CREATE TABLE r (a INT, b INT); CREATE TABLE s (b INT, c INT); CREATE TABLE t (c INT, a INT);
    CREATE TABLE d (b INT, d INT)"""
ON = "FROM r, s, t WHERE r.b = s.b AND s.c = t.c AND t.a = r.a"
W1 = "q(a, c) :- r(a, b), s(b, c)."
W2 = "q(a) :- r(a, b), s(b)."
W4 = "q(a, c, d) :- r(a, b), s(b, c), t(b, d)."
W6 = "q(a, b, e) :- r(a, b, c), s(a, b, d), t(a, e, f), u(a, e, g)."
W8 = "q(b, c, d, e, f, g) :- r(a, b, c), s(a, b, d), t(a, e, f), u(a, e, g)."
W10 = "q(c, d, e, f) :- r(a, b, d), s(a, b, e), t(a, c, f), u(a, c, g)."
BY_VERTEX = f"SELECT r.a, COUNT(*) AS n {ON} GROUP BY r.a"
BY_EDGE = f"SELECT r.a, r.b, COUNT(*) AS n {ON} GROUP BY r.a, r.b"
LISTED = f"SELECT r.a, r.b, s.c {ON}"


def explain(query: str, **options: Any) -> ev.Explanation:
    return ev.explain(query, None if ":-" in query else TABLES, **options)


def dial(query: str, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = explain(query, **options).to_dict()["dial"]
    return found


@pytest.mark.parametrize(
    ("query", "update", "delay"),
    [
        (W1, "0 1/4 1/2 3/4 1", "1 3/4 1/2 1/4 0"),
        (W2, "0 1/4 1/2 3/4 1", "1 3/4 1/2 1/4 0"),
        (W4, "0 1/2 1 3/2 2", "1 3/4 1/2 1/4 0"),
        (W10, "0 3/4 3/2 9/4 3", "1 3/4 1/2 1/4 0"),
        (W8, "0 3/4 3/2 9/4 3", "1 3/4 1/2 1/4 0"),
        (BY_VERTEX, "1 3/4 1/2 3/4 1", "0 1 1 1/2 0"),  # Below 1/2 as they run here: N, and N^(1−ε) by edge.
        (BY_EDGE, "1 3/4 1/2 3/4 1", "0 3/4 1/2 1/4 0"),
        (LISTED, "1 3/4 1/2 3/4 1", "0 0 0 0 0"),
    ],
)
def test_the_curve_is_that_of_the_tables(query: str, update: str, delay: str) -> None:
    """Hierarchical-tradeoff.md 11.1 and triangle.md 14."""
    curve = dial(query, epsilon=0.5)["curve"]
    assert [row["epsilon"] for row in curve] == list(map(str, QUARTERS))
    assert [row["update"] for row in curve] == update.split()
    assert [row["delay"] for row in curve] == delay.split()


@pytest.mark.parametrize(
    ("query", "space", "preprocessing"),
    [
        (W1, "1 5/4 3/2 7/4 2", "1 5/4 3/2 7/4 2"),
        (W2, "1 1 1 1 1", "1 1 1 1 1"),
        (W4, "1 3/2 2 5/2 3", "1 3/2 2 5/2 3"),
        (W10, "1 3/2 2 5/2 3", "1 3/2 2 5/2 3"),
        (BY_VERTEX, "1 5/4 3/2 5/4 1", "2 7/4 3/2 7/4 2"),
        (LISTED, "3/2 3/2 3/2 3/2 3/2", "2 7/4 3/2 7/4 2"),
    ],
)
def test_space_and_preprocessing(query: str, space: str, preprocessing: str) -> None:
    curve = dial(query, epsilon=0.5)["curve"]
    assert [row["space"] for row in curve] == space.split()
    assert [row["preprocessing"] for row in curve] == preprocessing.split()


@pytest.mark.parametrize(
    ("query", "updates", "reads", "balanced"),
    [
        (W1, "0", "1", "1/2"),
        (W4, "0", "1", "1/3"),
        (W10, "0", "1", "1/4"),
        (BY_VERTEX, "1/2", "1", "2/3"),
        (BY_EDGE, "1/2", "1", "1/2"),
        (LISTED, "1/2", "1/2", "1/2"),
    ],
)
def test_optimize_chooses_and_says_why(query: str, updates: str, reads: str, balanced: str) -> None:
    """Nothing on the curve is cheaper at what was asked for, and balanced costs are the same."""
    for wanted, epsilon in (("updates", updates), ("reads", reads), ("balanced", balanced)):
        found = dial(query, optimize=wanted)
        assert found["epsilon"] == epsilon
        assert found["reason"].startswith(f"ε = {epsilon} ")
        assert f"optimize = '{wanted}'" in found["reason"]
        assert found["reason"] in " ".join(str(explain(query, optimize=wanted)).split())
        costs = [{n: Fraction(x) for n, x in row.items()} for row in found["curve"]]
        here = next(row for row in costs if row["epsilon"] == Fraction(epsilon))
        assert {n: str(x) for n, x in here.items() if n != "epsilon"} == found["exponents"]
        if wanted == "balanced" and query != LISTED:
            assert here["update"] == here["delay"]
        elif wanted != "balanced":
            name = wanted.replace("updates", "update").replace("reads", "delay")
            assert here[name] == min(row[name] for row in costs)


def test_where_it_stands_is_part_of_the_curve() -> None:
    found = dial(W1, epsilon=Fraction(1, 3))
    assert [row["epsilon"] for row in found["curve"]] == ["0", "1/4", "1/3", "1/2", "3/4", "1"]
    assert found["exponents"] == {"update": "1/3", "delay": "2/3", "space": "4/3", "preprocessing": "4/3"}
    assert "nearest fraction" in dial(W1, epsilon=Fraction(1, 17))["reason"]
    json.dumps(found)


def test_the_text_has_the_table() -> None:
    text = str(explain(W1, optimize="updates"))
    table = text[text.index("\ndial") + 1 :].splitlines()[:6]
    assert table == [
        "dial        ε    update      delay       space       preprocessing",
        "            0    O(1)        O(N)        O(N)        O(N)           ←",
        "            1/4  O(N^(1/4))  O(N^(3/4))  O(N^(5/4))  O(N^(5/4))",
        "            1/2  O(N^(1/2))  O(N^(1/2))  O(N^(3/2))  O(N^(3/2))",
        "            3/4  O(N^(3/4))  O(N^(1/4))  O(N^(7/4))  O(N^(7/4))",
        "            1    O(N)        O(1)        O(N^2)      O(N^2)",
    ]
    assert "←: where the dial stands" in " ".join(text.split())


@pytest.mark.parametrize("query", [BY_VERTEX, BY_EDGE])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1, 4), Fraction(2, 5)])
def test_below_a_half_the_other_side_is_recommended(query: str, epsilon: Fraction) -> None:
    found = explain(query, epsilon=epsilon)
    assert any(note.startswith(f"ε = {1 - epsilon} costs an update as much") for note in found.notes)
    here, there = (dial(query, epsilon=e)["exponents"] for e in (epsilon, 1 - epsilon))
    assert here["update"] == there["update"]
    assert Fraction(here["delay"]) > Fraction(there["delay"])
    assert not any("costs an update as much" in n for n in explain(query, epsilon=1 - epsilon).notes)
    assert not any("costs an update as much" in n for n in explain(LISTED, epsilon=epsilon).notes)


def test_explain_says_where_a_dial_does_not_pay() -> None:
    taken = explain(W1, epsilon=0.5)
    assert any(note.startswith("while a feed is open") and "on Spark" in note for note in taken.notes)
    schema = "CREATE TABLE r (a INT, b INT); CREATE TABLE s (b INT, c INT)"
    on_spark = ev.explain("SELECT DISTINCT r.a, s.c FROM r JOIN s ON r.b = s.b", schema, epsilon=0.5, shards=2)
    assert on_spark.to_dict()["dial"] is None
    refused = {c.strategy: c.reason for c in on_spark.plan.main.candidates if c.dial}
    assert "a dial does not pay where every change is told, as on Spark" in refused["ivm-eps-hierarchical"]
    assert any(note.startswith("option epsilon has no effect on crown") for note in on_spark.notes)
    folded = explain("SELECT r.a, s.c, MIN(r.b) AS m FROM r JOIN s ON r.b = s.b GROUP BY r.a, s.c", epsilon=0.5)
    assert folded.to_dict()["dial"] is None


def test_a_strategy_that_is_not_taken_shows_its_dial() -> None:
    verdict = explain(W1).to_dict()
    assert verdict["dial"] is None
    dials = {c["strategy"]: c["dial"] for c in verdict["strategies"]}
    assert dials["crown"] is None
    assert dials["ivm-eps-hierarchical"]["epsilon"] == "1/2"


def test_a_view_without_a_dial_has_none() -> None:
    verdict = explain(W6, epsilon=0.5)
    assert verdict.to_dict()["dial"] is None
    assert "\ndial" not in str(verdict)


@pytest.mark.parametrize(
    ("query", "budgets", "ranges"),
    [
        (W1, {"delay": 0.5, "update": 0.5}, [("1/2", "1/2")]),  # T19
        (W10, {"delay": 0.5, "update": 1}, []),  # T19: needs ε ≥ 1/2 and ≤ 1/3
        (W1, {}, [("0", "1")]),
        (W1, {"update": 0}, [("0", "0")]),
        (W1, {"delay": 0.25}, [("3/4", "1")]),
        (W4, {"update": 1, "preprocessing": 1.5}, [("0", "1/4")]),
        (W2, {"space": 1}, [("0", "1")]),
        (LISTED, {"update": 0.75}, [("1/4", "3/4")]),
        (LISTED, {"space": 1}, []),
        (BY_EDGE, {"delay": 0.25}, [("0", "0"), ("3/4", "1")]),
        (BY_VERTEX, {"delay": 0.5, "update": Fraction(3, 4)}, [("3/4", "3/4")]),
        (BY_VERTEX, {"space": 1}, [("0", "0"), ("1", "1")]),
    ],
)
def test_advice_by_budgets(query: str, budgets: dict[str, Any], ranges: list[tuple[str, str]]) -> None:
    found = explain(query).advise(**budgets)
    assert [(str(low), str(high)) for low, high in found] == ranges
    for tenth in (Fraction(i, 20) for i in range(21)):
        costs = dial(query, epsilon=tenth) if tenth.denominator <= 10 else None
        if costs:
            fits = all(Fraction(costs["exponents"][n]) <= Fraction(str(b)) for n, b in budgets.items())
            assert fits == any(low <= tenth <= high for low, high in found)


def test_advice_is_refused_with_a_reason() -> None:
    with pytest.raises(QueryError, match="no strategy with a dial fits view q"):
        explain(W6).advise(delay=0.5)
    with pytest.raises(QueryError, match="reads is no cost of a dial"):
        explain(W1).advise(reads=0.5)
    for budget in (-1, float("nan"), float("inf"), "half", True):
        with pytest.raises(QueryError, match="the budget for delay is"):
            explain(W1).advise(delay=budget)  # type: ignore[arg-type]
