"""A database with every kind of view, random changes for it, and how two databases are compared."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal
from typing import Any

import everview as ev

TABLES = """
    CREATE TABLE follows (src BIGINT, dst BIGINT);
    CREATE TABLE people (id BIGINT PRIMARY KEY, name STRING, city STRING, pay DOUBLE, worth DECIMAL(30, 4));
"""
SQL, RULES = "sql", "rules"
VIEWS = {
    "hops": (SQL, "SELECT a.src, a.dst AS mid, b.dst FROM follows a JOIN follows b ON a.dst = b.src"),
    "three": (
        SQL,
        """SELECT a.src, b.src AS second, c.src AS third, c.dst FROM follows a, follows b, follows c
           WHERE a.dst = b.src AND b.dst = c.src""",
    ),
    "ends": (SQL, "SELECT DISTINCT a.src, b.dst FROM follows a JOIN follows b ON a.dst = b.src"),
    "cities": (
        SQL,
        """SELECT p.city, COUNT(*) AS n, MIN(p.pay) AS low, MAX(p.name) AS last, COUNT(DISTINCT f.dst) AS others,
                  SUM(p.pay) AS pay, AVG(p.worth) AS worth, SUM(f.dst) AS total
           FROM people p JOIN follows f ON f.src = p.id GROUP BY p.city HAVING COUNT(*) > 1""",
    ),
    "total": (SQL, "SELECT COUNT(*) AS n, MAX(name) AS last, SUM(worth) AS worth FROM people"),
    "either": (SQL, "SELECT src FROM follows UNION SELECT id FROM people"),
    "both": (SQL, "SELECT src FROM follows UNION ALL SELECT id FROM people"),
    "less": (SQL, "SELECT src FROM follows EXCEPT ALL SELECT id FROM people"),
    "shared": (SQL, "SELECT src FROM follows INTERSECT SELECT id FROM people"),
    "staged": (
        SQL,
        """SELECT t.city, t.n, p.name FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) t
           JOIN people p ON p.city = t.city""",
    ),
    "over": (
        SQL,
        "SELECT h.src, p.name, upper(p.city) AS loud FROM hops h JOIN people p ON p.id = h.dst",
    ),
    "labels": (SQL, "SELECT DISTINCT concat(name, '@', city) AS label FROM people WHERE pay > 1"),
    "hop": (RULES, "hop(a, c) :- follows(a, b), follows(b, c). back(c, a) :- hop(a, c)."),
}
CITIES = ["Köln", "Rome", "", "日本", None, "x" * 300]


def database(*names: str) -> ev.Database:
    """A database with some of the views, or all; ``over`` brings ``hops``."""
    db = ev.Database()
    db.sql(TABLES)
    for name, (language, text) in VIEWS.items():
        if not names or name in names or (name == "hops" and "over" in names):
            if language == SQL:
                db.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
            else:
                db.rules(text)
    return db


Change = tuple[str, str, list[tuple[Any, ...]]]


class Changes:
    """Random changes that are always allowed; the same seed gives the same."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.follows: Counter[tuple[int, int]] = Counter()
        self.people: dict[int, tuple[Any, ...]] = {}

    def batch(self) -> list[Change]:
        draw = self.random
        found: list[Change] = []
        for _ in range(draw.randrange(1, 4)):
            kind = draw.randrange(4)
            if kind == 0 and self.follows:
                gone = draw.sample(sorted(self.follows.elements()), draw.randrange(1, self.follows.total() + 1))
                self.follows -= Counter(gone)
                found.append(("delete", "follows", gone))
            elif kind == 1 and self.people:
                keys = draw.sample(sorted(self.people), draw.randrange(1, len(self.people) + 1))
                found.append(("delete", "people", [self.people.pop(k) for k in keys]))
            elif kind == 2:
                rows = [self.person(k) for k in range(9) if k not in self.people and draw.random() < 0.5]
                self.people |= {row[0]: row for row in rows}
                found.append(("insert", "people", rows))
            else:
                new = [(draw.randrange(9), draw.randrange(9)) for _ in range(draw.randrange(8))]
                self.follows += Counter(new)
                found.append(("insert", "follows", new))
        return found

    def person(self, key: int) -> tuple[Any, ...]:
        draw = self.random
        pay = draw.choice([None, 0.1, 2.5, float("inf"), -7.25])
        worth = draw.choice([None, Decimal("12345678901234567890.1234"), Decimal("-0.5")])
        return key, draw.choice(["Ann", "Bob", None, f"n{draw.random()}"]), draw.choice(CITIES), pay, worth


def run(db: ev.Database, batches: list[list[Change]]) -> None:
    for changes in batches:
        with db.batch() as batch:
            for kind, table, rows in changes:
                (batch.insert if kind == "insert" else batch.delete)(table, rows)


def contents(db: ev.Database) -> dict[str, list[str]]:
    """Every view's rows, in an order of their own."""
    return {name: sorted(map(repr, db.view(name))) for name in db.views}


def listings(db: ev.Database) -> dict[str, list[str]]:
    """Every view's rows in the engine's order."""
    return {name: list(map(repr, db.view(name))) for name in db.views}


def uses(db: ev.Database) -> dict[Any, int]:
    """How often each value of the dictionary is in use."""
    tables = db._dictionary.to_state().values()
    rows = [row for table in tables for row in table.to_pylist()]
    return {row["value"]: row["count"] for row in rows if row["count"]}
