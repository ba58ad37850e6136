"""How views are spread over shards: shares, routes, and what is merged."""

from __future__ import annotations

from typing import Any

import pytest

import everview as ev
from everview.plan.distribute import distribute
from everview.plan.shards import Distribution
from everview.query.schema import Schema
from everview.query.terms import Var
from everview.sql import parse_schema, parse_view

SCHEMA = parse_schema(
    """CREATE TABLE g (src BIGINT, dst BIGINT); CREATE TABLE o (k BIGINT, c INT, at TIMESTAMP, p DECIMAL(12,2));
       CREATE TABLE c (c BIGINT, n STRING)"""
)
PATH = "SELECT a.src, b.src AS m, b.dst FROM g a JOIN g b ON a.dst = b.src"


def spread(sql: str, shards: int, schema: Schema = SCHEMA, **options: Any) -> Distribution:
    return distribute([parse_view(sql, schema, "v")], schema, shards, **options)


def shares(found: Distribution) -> dict[str, int]:
    return {d.name: d.share for d in found.first.grids[0].dimensions}


def test_a_path_is_cut_where_its_tables_meet() -> None:
    found = spread(PATH, 8)
    assert shares(found) == {"a_dst": 8}
    assert found.first.replication("g") == pytest.approx(8 * (1 - (7 / 8) ** 2))
    assert found.first.is_masked("g")
    assert found.merge is None


def test_three_hops_share_two_variables() -> None:
    sql = "SELECT a.src, b.src AS s, c.src AS t, c.dst FROM g a JOIN g b ON a.dst = b.src JOIN g c ON b.dst = c.src"
    assert shares(spread(sql, 8)) == {"a_dst": 4, "b_dst": 2}
    assert shares(spread(sql, 7)) == {"a_dst": 7}


def test_a_path_is_cut_in_its_middle_where_updates_cost_most() -> None:
    """An inner edge joins on both its ends, an outer one on one: the outer ones are sent to every shard."""
    sql = """SELECT a.src, b.src AS s, c.src AS t, d.src AS u, d.dst FROM g a JOIN g b ON a.dst = b.src
             JOIN g c ON b.dst = c.src JOIN g d ON c.dst = d.src"""
    assert shares(spread(sql, 2)) == {"b_dst": 2}
    assert shares(spread(f"{sql} WHERE d.dst % 10 = 0", 2)) == {"b_dst": 2}


def test_a_frequent_value_moves_the_shares_elsewhere() -> None:
    sql = "SELECT o.k, o.c, c.n FROM o JOIN c ON o.c = c.c"
    assert shares(spread(sql, 4)) == {"c": 4}
    hot = {("o", "c"): 0.9, ("c", "c"): 0.9}
    assert "c" not in shares(spread(sql, 4, skew=hot))


def test_groups_that_span_shards_are_merged() -> None:
    for sql in (
        "SELECT COUNT(*) AS n FROM o JOIN c ON o.c = c.c",
        "SELECT DISTINCT k + 1 AS k FROM o",
        "SELECT k + 1 AS k FROM o UNION SELECT c FROM c",
    ):
        assert spread(sql, 4).merged == {"v"}
        assert spread(sql, 1).merge is None


def test_only_columns_are_hashed_never_what_is_computed() -> None:
    """Spark computes in its session's time zone, we in UTC: rows of one year would go to two shards."""
    found = spread("SELECT YEAR(at) AS y, COUNT(*) AS n FROM o GROUP BY YEAR(at)", 4)
    for grid in found.first.grids:
        for route in grid.routes:
            for hashed in route.coordinates:
                assert all(isinstance(e.term, Var) for e in hashed or ())
    assert found.merged == {"v"}


def test_each_row_has_one_home() -> None:
    level = spread(PATH, 6).first
    grid, route = level.routes("g")[0]
    whole = [k for k, hashed in enumerate(route.coordinates) if hashed is None]
    assert len(level.homes("g")) * len(grid.dimensions) >= 1
    assert all(grid.coordinates(s)[k] == 0 for s in level.homes("g") for k in whole)
    assert spread(PATH, 1).first.homes("g") == {0}


def test_rates_say_which_table_is_cut() -> None:
    schema = "CREATE TABLE a (x BIGINT, y BIGINT); CREATE TABLE b (y BIGINT, z BIGINT)"
    sql = "SELECT a.x, b.z FROM a JOIN b ON a.y <> b.y"

    def goes(**rates: float) -> dict[str, float]:
        found = ev.explain(sql, schema=schema, shards=4, rates=rates).to_dict()["shards"]
        return dict(found["replication"])

    assert goes(A=1000, b=1) == {"a": 1.0, "b": 4.0}
    assert goes(a=1, B=1000) == {"a": 4.0, "b": 1.0}
