"""What the kernel computes over words is what DuckDB computes over values: outputs, conditions, keys, sums, groups."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest

import everview as ev
from everview.errors import DataError
from everview.query.terms import Expression, Var
from everview.query.types import INT
from everview.sql.word_expressions import word_expression
from tests.engine.ways import the_other_way
from tests.scale import scaled

TABLE = """CREATE TABLE t (id BIGINT, i INT, k SMALLINT, x DECIMAL(9, 2), y DECIMAL(7, 3), f DOUBLE, g DOUBLE, s STRING,
    b BOOLEAN, d DATE, ts TIMESTAMP, n TIMESTAMP_NTZ)"""
INSTANTS = [
    *(datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1970, 1, 1)),
    *(datetime(2000, 2, 29, 12, 30, 1, 5), datetime(1900, 3, 1), datetime(2024, 12, 30, 1), datetime(9999, 12, 31)),
]
VALUES: list[Callable[[Random], Any]] = [
    lambda r: r.randrange(4),
    lambda r: r.choice([None, *range(-3, 12), 2**31 - 1]),
    lambda r: r.choice([None, -2, -1, 0, 1, 2, 3]),
    lambda r: r.choice([None, Decimal(r.randrange(-3000, 3000)) / 100]),
    lambda r: r.choice([None, Decimal(r.choice([-1, 1]) * r.randrange(1, 4000)) / 1000]),
    lambda r: r.choice([None, 0.0, -0.0, 1.5, -2.25, 1e300, 3.0, math.nan, math.inf, 0.1, 100.0]),
    lambda r: r.choice([None, 0.0, 1.5, -2.25, 3.0, math.nan, 0.1]),
    lambda r: r.choice([None, "".join(r.choices("aéb%_€\n", k=r.randrange(6)))]),
    lambda r: r.choice([None, True, False]),
    lambda r: r.choice([None, date(1, 1, 1), date(9999, 12, 31), date(1970, 1, 1) + timedelta(r.randrange(-9, 9))]),
    lambda r: r.choice([None, *(t.replace(tzinfo=UTC) for t in INSTANTS)]),
    lambda r: r.choice([None, *INSTANTS]),
]
"""Of each column."""
NUMBERS = [
    "CASE WHEN i > 3 THEN 1 ELSE 0 END",
    "CASE WHEN x > y THEN x WHEN b THEN i END",
    "CASE k WHEN 1 THEN i WHEN 2 THEN NULL ELSE 7 END",
    "CASE WHEN k <> 0 THEN x / k ELSE 0 END",
    "IF(b, x, y)",
    "COALESCE(i, k, 0)",
    "COALESCE(x, y)",
    "NULLIF(i, k)",
    "i + CASE WHEN i < 2147483647 THEN 1 ELSE 0 END",
    "CASE WHEN k <> 0 AND i / k > 2 THEN 1 ELSE 0 END",
    "CASE WHEN k = 0 OR x / k < 2 THEN 1 ELSE 0 END",
    "pmod(i, 3)",
    "x / 3",
    "YEAR(d) * 100 + MONTH(d)",
    "DAY(ts) + QUARTER(d)",
    "EXTRACT(HOUR FROM ts) * 60 + MINUTE(n)",
    "EXTRACT(YEAR FROM n)",
    "CASE WHEN s LIKE 'a%' THEN x * (1 - y) ELSE 0 END",
]
OTHERS = [
    "date_trunc('month', ts)",
    "date_trunc('week', ts)",
    "date_trunc('day', ts)",
    "date_trunc('hour', ts)",
    "date_trunc('second', ts)",
    "date_trunc('quarter', ts)",
    "date_trunc('year', ts)",
    "trunc(d, 'MM')",
    "trunc(d, 'YEAR')",
    "CAST(ts AS DATE)",
    "CAST(n AS DATE)",
    "CASE WHEN b THEN d ELSE CAST(ts AS DATE) END",
    "TIMESTAMP_MICROS(UNIX_MICROS(ts) - pmod(UNIX_MICROS(ts), 10000000))",
]
DOUBLE = [
    "f + g",
    "f * 2 - 1",
    "i / 4",
    "f / 3",
    "CASE WHEN f > 1 THEN f ELSE g END",
    "CASE WHEN g <> 0 THEN f / g END",
    "CAST(x AS DOUBLE) * f",
    "COALESCE(f, 0)",
    "NULLIF(f, g)",
]
CONDITIONS = [
    "f > 1.5",
    "f <= g",
    "f = g",
    "f <> g OR b",
    "f BETWEEN 0 AND 3",
    "f IS NULL",
    "CASE WHEN b THEN i > 2 ELSE k = 1 END",
    "s LIKE 'a%'",
    "s LIKE '%b'",
    "s NOT LIKE '%a%b%'",
    "s LIKE '_é_'",
    "s LIKE '%_€'",
    "startswith(s, 'a') OR endswith(s, '€') OR contains(s, 'éb')",
    "YEAR(ts) = 2000",
    "x / y > 2 AND i > 3",
    "k <> 0 AND x / k > 2",
    "k IS NULL OR k = 0 OR i / k >= 1",
]


KEYS = [*OTHERS[:4], NUMBERS[0]]


def columns(expressions: list[str], form: str = "{}") -> str:
    return ", ".join(f"{form.format(e)} AS e{i}" for i, e in enumerate(expressions))


VIEWS = {
    "numbers": f"SELECT id, {columns(NUMBERS)} FROM t",
    "times": f"SELECT id, {columns(OTHERS)} FROM t",
    "doubles": f"SELECT id, {columns(DOUBLE)} FROM t",
    "conditions": f"SELECT id, {columns(CONDITIONS)} FROM t",
    "chosen": f"SELECT id, i FROM t WHERE ({') OR ('.join(CONDITIONS[::3])})",
    "left out": f"SELECT id, i FROM t WHERE NOT ({') AND NOT ('.join(CONDITIONS[1::3])})",
    "sums": f"SELECT k, {columns(NUMBERS, 'SUM({})')} FROM t GROUP BY k",
    "extremes": f"SELECT k, {columns([*NUMBERS, *OTHERS], 'MAX({})')} FROM t GROUP BY k",
    "keys": f"SELECT {columns(KEYS)}, COUNT(*) AS n FROM t GROUP BY {', '.join(KEYS)}",
    "groups": """SELECT k, SUM(x) / COUNT(*) AS a, SUM(x) / 3 AS b, CASE WHEN COUNT(*) > 2 THEN 1 ELSE 0 END AS c,
        SUM(i) / COUNT(i) AS d, COALESCE(SUM(x), 0) AS e, MIN(YEAR(d)) AS f, MAX(f) / 2 AS g,
        100 * SUM(CASE WHEN b THEN x ELSE 0 END) / NULLIF(SUM(x), 0) AS h FROM t GROUP BY k""",
    "having": "SELECT k, AVG(i) * 2 AS e FROM t GROUP BY k HAVING AVG(i) > 1 AND COUNT(*) > 1",
}


def database(view: str) -> tuple[ev.Database, Any]:
    db = ev.Database()
    db.sql(TABLE)
    db.create_view("v", view)
    return db, db.view("v").changes()


def told(feed: Any) -> list[str]:
    return sorted(repr(row) for batch in feed.read() for row in batch.to_pylist())


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.slow
def test_both_ways_are_one(name: str) -> None:
    r = Random(name)
    db, feed = database(VIEWS[name])
    assert db.view("v").stats()["batches"] == "directly"
    with the_other_way():
        other, other_feed = database(VIEWS[name])
    taken = 0
    for _ in range(scaled(12, 4)):
        rows = [tuple(value(r) for value in VALUES) for _ in range(r.choice([1, 20, 150]))]
        wrong = apply(db, rows)
        with the_other_way():
            assert apply(other, rows) == wrong
        assert told(feed) == told(other_feed)
        taken += wrong == ""
    assert taken > 2
    assert sorted(map(repr, db.view("v"))) == sorted(map(repr, other.view("v")))


def apply(db: ev.Database, rows: list[Any]) -> str:
    """One batch; gives what is wrong with it."""
    try:
        db.insert("t", rows)
    except DataError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        *(
            (e, Decimal("1.789"))
            for e in ("CASE WHEN b THEN x ELSE y END", "IF(b, x, y)", "COALESCE(x, y)", "nvl(x, y)")
        ),
        *((e, Decimal("1.789")) for e in ("least(y, z)", "nvl2(x, x, y)", "CASE WHEN b THEN z * z * z ELSE y END")),
        *((f"upper('a') = 'A' AND {e}", False) for e in ("y = z", "z IN (y)", "y BETWEEN z AND z")),
        *((f"upper('a') = 'A' AND {e}", True) for e in ("y <> z", "y IN (1.789)", "z NOT IN (1.2, 1.789)")),
    ],
)
def test_decimals_of_several_scales_keep_their_digits(expression: str, value: object) -> None:
    """DuckDB rounds decimals that have all the digits there are, and then others behind the point."""
    with the_other_way():
        db = ev.Database()
        db.sql("CREATE TABLE t (b BOOLEAN, x DECIMAL(9, 2), y DECIMAL(7, 3), z DECIMAL(9, 2))")
        db.create_view("v", f"SELECT {expression} AS e FROM t")
        db.insert("t", [(False, None, Decimal("1.789"), Decimal("1.79"))])
        assert list(db.view("v")) == [(value,)]


@pytest.mark.parametrize("form", ["COALESCE({}, 1)", "NULLIF({}, 1)", "CASE {} WHEN 2 THEN 3 ELSE 4 END"])
def test_parts_within_parts_are_left_to_others(form: str) -> None:
    """What would be said once more for each part that it is in is not said in words."""
    deep = "i"
    for _ in range(40):
        deep = form.replace("{}", deep)
    parts = [Var(p) if p == "i" else p for p in re.split(r"\b(i)\b", deep) if p]
    assert word_expression(Expression(tuple(parts), INT), {Var("i"): INT}) is None


def test_a_row_that_a_condition_leaves_out_need_not_have_a_value() -> None:
    """What CASE, AND and OR do not look at may fail, and the batch goes the direct way all the same."""
    db, feed = database("SELECT id, CASE WHEN k <> 0 THEN x / k END AS q FROM t WHERE k IS NULL OR k = 0 OR i / k > 1")
    refused: list[Any] = []
    from everview.engine.transaction import Transaction

    applied = Transaction._applied
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Transaction, "_applied", lambda *given: refused.append(given) or applied(*given))
        rows = [(n, 4, k, Decimal(5), *[None] * 8) for n, k in enumerate([0, 2, None, 4])]
        db.insert("t", rows)
    assert not refused
    assert sorted(db.view("v")) == [(0, None), (1, Decimal("2.5")), (2, None)]
    assert len(told(feed)) == 3
