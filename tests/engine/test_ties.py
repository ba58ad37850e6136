"""Which of equal ones an aggregate takes: by value, whatever the order of updates; DuckDB is told the rule in full."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import duckdb
import pytest

import everview as ev
from tests.engine.bags import bag

RULES = {
    "mode(x)": "mode(x ORDER BY x)",
    "mode() WITHIN GROUP (ORDER BY x)": "mode(x ORDER BY x)",
    "mode() WITHIN GROUP (ORDER BY x DESC)": "mode(x ORDER BY x DESC)",
    "mode(s)": "mode(s ORDER BY s)",
    "max_by(x, k)": "last(x ORDER BY k, x NULLS FIRST) FILTER (WHERE k IS NOT NULL)",
    "min_by(x, k)": "first(x ORDER BY k, x NULLS FIRST) FILTER (WHERE k IS NOT NULL)",
    "max_by(s, k)": "last(s ORDER BY k, s NULLS FIRST) FILTER (WHERE k IS NOT NULL)",
    "first(x)": "min(x)",
    "any_value(s)": "min(s)",
    "first_value(x, true)": "min(x)",
    "last(x)": "max(x)",
    "last_value(s)": "max(s)",
    "percentile_approx(x, 0.5)": "list(x ORDER BY x) FILTER (WHERE x IS NOT NULL)[ceil(count(x) * 0.5)::INT]",
    "percentile_approx(x, 0.3)": "list(x ORDER BY x) FILTER (WHERE x IS NOT NULL)[ceil(count(x) * 0.3)::INT]",
    "percentile_approx(x, 1)": "max(x)",
    "percentile_approx(x, 0)": "min(x)",
    "percentile_disc(0.4) WITHIN GROUP (ORDER BY x)": (
        "list(x ORDER BY x) FILTER (WHERE x IS NOT NULL)[ceil(count(x) * 0.4)::INT]"
    ),
    "collect_list(x)": "coalesce(list(x ORDER BY x) FILTER (WHERE x IS NOT NULL), [])",
    "collect_set(s)": "coalesce(list(DISTINCT s ORDER BY s) FILTER (WHERE s IS NOT NULL), [])",
    "array_agg(s)": "coalesce(list(s ORDER BY s) FILTER (WHERE s IS NOT NULL), [])",
    "string_agg(s, '+')": "string_agg(s, '+' ORDER BY s)",
    "listagg(DISTINCT s, ',')": "string_agg(DISTINCT s, ',' ORDER BY s)",
    "listagg(s, ',') WITHIN GROUP (ORDER BY k)": "string_agg(s, ',' ORDER BY k NULLS FIRST, s)",
}


@pytest.mark.parametrize("grouped", [False, True])
def test_of_equal_ones_the_value_decides(grouped: bool) -> None:
    """Over few values, so that ties are there in every batch, and rows that decided them go."""
    r = random.Random(24)
    db, there = ev.Database(), list[tuple[Any, ...]]()
    db.sql("CREATE TABLE t (g INT, k INT, x INT, s STRING)")
    calls = ", ".join(f"{call} AS y{i}" for i, call in enumerate(RULES))
    group = " GROUP BY g" if grouped else ""
    db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {'g, ' if grouped else ''}{calls} FROM t{group}")
    feed, told = db.view("v").changes(), bag(db.view("v"))
    with duckdb.connect() as other:
        other.execute("CREATE TABLE t (g INT, k INT, x INT, s VARCHAR)")
        asked = f"SELECT {'g, ' if grouped else ''}{', '.join(RULES.values())} FROM t{group}"
        for _ in range(8):
            gone = r.sample(there, len(there) // 2)
            come = [tuple(r.choice(v) for v in ((1, 2), (None, 1, 1, 2), (None, 1, 2, 3), (None, *"abc")))] * 2
            come += [tuple(r.choice(v) for v in ((1, 2), (1, 2), (1, 2, 3), "abc")) for _ in range(5)]
            with db.batch() as batch:
                batch.delete("t", gone)
                batch.insert("t", come)
            there = list((Counter(there) - Counter(gone) + Counter(come)).elements())
            other.execute("DELETE FROM t")
            other.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", there)
            wanted = bag(other.execute(asked).fetchall())
            assert bag(db.view("v")) == wanted
            for row in (row for part in feed.read() for row in part.to_pylist()):
                sign = 1 if row.pop("_change_type") in ("insert", "update_postimage") else -1
                del row["_commit_version"], row["_count"]
                for values in bag([tuple(row.values())]):
                    told[values] += sign
            assert +told == wanted


def test_a_correlated_list_of_no_rows_is_empty() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE o (k INT); CREATE TABLE t (k INT, x INT)")
    lists = "(SELECT collect_list(x) FROM t WHERE t.k = o.k) AS l, (SELECT collect_set(x) FROM t WHERE t.k = o.k) AS s"
    db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT o.k, {lists} FROM o")
    db.insert("o", [(1,), (2,), (None,)])
    db.insert("t", [(1, 7), (1, 7), (3, 1)])
    assert bag(db.view("v")) == bag([(1, [7, 7], [7]), (2, [], []), (None, [], [])])
    db.delete("t", [(1, 7), (1, 7)])
    assert bag(db.view("v")) == bag([(1, [], []), (2, [], []), (None, [], [])])
