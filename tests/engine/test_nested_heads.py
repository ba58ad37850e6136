"""Nested aggregates in heads of rules equal what they mean, worked out of all valuations, through random updates.

The meaning (q-hierarchical.md 11.2): an aggregate is over the different values of its own variables, among the
valuations that agree with what is around it; of each of them, its parts are values of those valuations that have it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from random import Random
from typing import Any, NamedTuple

import pytest

import everview as ev

TABLES = {"e": 2, "f": 3, "g": 3, "h": 1}
Valuation = dict[str, Any]


class Agg(NamedTuple):
    """An aggregate; ``own`` are its variables, also those that it does not name."""

    name: str
    parts: tuple[Any, ...]
    own: tuple[str, ...]
    is_pair: bool = False

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.parts))
        return f"{self.name}({f'<{inner}>' if self.is_pair else inner})"


class Row(NamedTuple):
    """Values beside each other."""

    name: str
    parts: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.parts))})"


class Case(NamedTuple):
    head: tuple[Any, ...]
    body: str
    condition: Callable[[Valuation], bool] = lambda _: True


def one(name: str, variable: str) -> Agg:
    return Agg(name, (variable,), (variable,))


def over(name: str, row: str, *parts: Any) -> Agg:
    """An aggregate of a row of values."""
    return Agg(name, (Row(row, parts),), tuple(p for p in parts if isinstance(p, str)))


def pair(name: str, *parts: Any) -> Agg:
    return Agg(name, parts, tuple(p for p in parts if isinstance(p, str)), is_pair=True)


NESTED = over("max", "prod", "x", one("sum", "z"))
CASES = {
    "branches": Case(("y", one("count", "w"), NESTED), "e(y, w), f(y, x, z), g(y, x, z)"),
    "one_branch": Case(("y", NESTED), "f(y, x, z)"),
    "three_levels": Case(
        (over("max", "sum", "y", one("sum", "w"), over("min", "prod", "x", one("count", "z"))),),
        "e(y, w), f(y, x, z)",
    ),
    "implied": Case(("y", Agg("sum", (one("count", "z"),), ("x",))), "e(y, x), f(y, x, z)"),
    "best": Case(
        (pair("argmax", "y", over("sum", "prod", "x", one("count", "z"))), pair("argmin", "y", NESTED)), "f(y, x, z)"
    ),
    "pairs": Case(("y", pair("wavg", "x", one("count", "z"))), "f(y, x, z)"),
    "of_two": Case(("y", pair("wavg", "x", "z"), over("sum", "prod", "x", "z")), "f(y, x, z)"),
    "overlapping": Case(
        ("y", *(one(name, "x") for name in ("count", "sum", "avg", "max", "prod")), over("sum", "prod", "x", "z")),
        "f(y, x, z)",
    ),
    "joined_by_key": Case(("y", pair("wavg", "x", "z"), pair("wavg", "x", one("count", "z"))), "f(y, x, z), h(y)"),
    "two_of_all": Case((Row("prod", (one("sum", "x"), one("count", "z"))), one("max", "x")), "h(x), e(z, _)"),
    "rows": Case(("y", Row("max", (one("sum", "w"), one("count", "x"), "y")), 7, "y"), "e(y, w), f(y, x, _), h(_)"),
    "conditions": Case(
        ("y", NESTED, over("avg", "min", "x", one("min", "z"))),
        "f(y, x, z), e(y, _), x > 0, z != y",
        lambda v: v["x"] is not None and v["x"] > 0 and v["z"] is not None and v["z"] != v["y"],
    ),
    "products": Case(("y", one("prod", "x"), over("sum", "avg", "x", one("prod", "z"))), "f(y, x, z)"),
    "constants": Case((over("count", "prod", "x", one("sum", "z")),), "f(2, x, z), h(1)"),
    "self_join": Case(("y", over("sum", "prod", "x", one("count", "z"))), "e(y, x), f(y, x, z), f(y, x, w), e(y, _)"),
    "two_groups": Case(("x", "y", one("sum", "z"), one("count", "w")), "e(y, w), f(y, x, z), g(y, x, _)"),
    "apart": Case(("y", over("max", "prod", "x", one("count", "z"))), "h(y), e(x, z), e(x, _)"),
    "any_order": Case(
        (over("sum", "prod", "z", "x"), Agg("max", (pair("wavg", "z", one("count", "w")),), ("x",))),
        "e(z, x), f(w, x, z)",
    ),
    "in_groups": Case(("y", over("sum", "prod", "y", "x")), "e(y, x)"),
}


# --- what it means ---------------------------------------------------------------------------------------------------


def valuations(case: Case, rows: Mapping[str, Iterable[tuple[Any, ...]]]) -> list[Valuation]:
    """All valuations under which each atom is a row; what stands in several places is not NULL."""
    atoms = [part.strip(" )").split("(") for part in case.body.split("),") if "(" in part]
    goals = [(name.strip(), [t.strip() for t in terms.split(")")[0].split(",")]) for name, terms in atoms]
    counts = Counter(t for _, terms in goals for t in terms)
    found: list[Valuation] = [{}]
    for name, terms in goals:
        further = []
        for known, row in product(found, set(rows[name])):
            new = dict(known)
            for term, value in zip(terms, row, strict=True):
                if term == "_":
                    continue
                wanted = int(term) if term.isdigit() else new.get(term, value)
                if wanted != value or (value is None and counts[term] > 1):
                    break
                new[term] = value
            else:
                further.append(new)
        found = further
    return [v for v in found if case.condition(v)]


def value_of(part: Any, among: list[Valuation]) -> Any:
    """A part's value among valuations that agree on all variables that it stands beside."""
    if isinstance(part, str):
        return among[0][part]
    if isinstance(part, Row):
        return of_row(part.name, [value_of(p, among) for p in part.parts])
    groups: dict[tuple[Any, ...], list[Valuation]] = {}
    for valuation in among:
        groups.setdefault(tuple(valuation[v] for v in part.own), []).append(valuation)
    values = [tuple(value_of(p, group) for p in part.parts) for group in groups.values()]
    return of_pairs(part.name, values) if part.is_pair else of_many(part.name, [v for (v,) in values if v is not None])


def of_row(name: str, values: list[Any]) -> Any:
    there = [v for v in values if v is not None]
    if name in ("min", "max"):
        return (min if name == "min" else max)(there, default=None)
    if len(there) < len(values):
        return None
    return math.prod(values) if name == "prod" else sum(values) / (len(values) if name == "avg" else 1)


def of_many(name: str, values: list[Any]) -> Any:
    if name == "count":
        return len(values)
    if not values:
        return None
    if name == "avg":
        return sum(values) / len(values)
    return {"sum": sum, "min": min, "max": max, "prod": math.prod}[name](values)


def of_pairs(name: str, values: list[tuple[Any, ...]]) -> Any:
    if name == "wavg":
        there = [(x, c) for x, c in values if x is not None and c is not None]
        weight = sum(c for _, c in there)
        return sum(x * c for x, c in there) / weight if there and weight else None
    best = [(measure, key is not None, key or 0, key) for key, measure in values if measure is not None]
    return (max if name == "argmax" else min)(best)[-1] if best else None


def meaning(case: Case, rows: Mapping[str, Iterable[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
    groups = [p for p in dict.fromkeys(case.head) if isinstance(p, str)]
    found: dict[tuple[Any, ...], list[Valuation]] = {} if groups else {(): []}
    for valuation in valuations(case, rows):
        found.setdefault(tuple(valuation[g] for g in groups), []).append(valuation)
    return [tuple(p if isinstance(p, int) else value_of(p, among) for p in case.head) for among in found.values()]


# --- random updates --------------------------------------------------------------------------------------------------


def same(left: Iterable[tuple[Any, ...]], right: Iterable[tuple[Any, ...]]) -> bool:
    one, other = (sorted(rows, key=repr_of) for rows in (left, right))
    return len(one) == len(other) and all(map(equal, (v for r in one for v in r), (v for r in other for v in r)))


def repr_of(row: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple("" if v is None else f"{v + 0.0:.6g}" for v in row)


def equal(left: Any, right: Any) -> bool:
    return left == right if left is None or right is None else math.isclose(left, right, rel_tol=1e-12)


@pytest.mark.parametrize("seed", range(2))
def test_nested_heads_are_what_they_mean(seed: int) -> None:
    random = Random(seed)
    db = ev.Database()
    for name, arity in TABLES.items():
        db.sql(f"CREATE TABLE {name} ({', '.join(f'c{i} BIGINT' for i in range(arity))})")
    for name, case in CASES.items():
        db.rules(f"{name}({', '.join(map(str, case.head))}) :- {case.body}.")
    feeds = {name: (db.view(name).changes(), Counter[tuple[Any, ...]](db.view(name))) for name in list(CASES)[::2]}
    rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES}
    for _ in range(8):
        with db.batch() as batch:
            for name, arity in TABLES.items():
                gone = random.sample(rows[name], min(len(rows[name]), random.randint(0, 4)))
                new = [tuple(random.choice([None, *range(-1, 4)]) for _ in range(arity)) for _ in range(4)]
                batch.delete(name, gone)
                batch.insert(name, new)
                for row in gone:
                    rows[name].remove(row)
                rows[name] += new
        for name, case in CASES.items():
            assert same(db.view(name), meaning(case, rows)), name
        for name, (feed, kept) in feeds.items():
            for change in (row for told in feed.read() for row in told.to_pylist()):
                *values, kind, _, copies = change.values()
                kept[tuple(values)] += copies if kind in ("insert", "update_postimage") else -copies
            assert kept == Counter(db.view(name)), name
    for name, there in rows.items():
        db.delete(name, there)
    assert all(same(db.view(name), meaning(case, {t: [] for t in TABLES})) for name, case in CASES.items())
