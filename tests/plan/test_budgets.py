"""Every search ends after a number of steps that does not depend on the machine, and says where it was cut."""

from __future__ import annotations

from itertools import product
from math import prod

import pyarrow as pa
import pytest

import everview as ev
from everview.plan.distribute import distribute
from everview.plan.repair import CUT
from everview.plan.shares import ways_to_share
from everview.query.conjunctive import ConjunctiveQuery, Semantics
from everview.query.constraints import constraints_of, drop_implied_atoms
from everview.query.view import Block
from everview.sql import parse_schema, parse_view

WIDE = parse_schema(f"CREATE TABLE w ({', '.join(f'c{i} BIGINT' for i in range(12))})")
EDGES = "CREATE TABLE e (a BIGINT, b BIGINT)"


@pytest.mark.parametrize(("shards", "dimensions"), [(1, 3), (2, 4), (12, 3), (16, 2), (30, 4), (7, 1)])
def test_all_ways_to_share_are_listed(shards: int, dimensions: int) -> None:
    divisors = [d for d in range(1, shards + 1) if shards % d == 0]
    every = [s for s in product(divisors, repeat=dimensions) if prod(s) == shards]
    assert ways_to_share(shards, dimensions, 10_000) == (tuple(sorted(every, reverse=True)), False)


def test_of_too_many_ways_to_share_those_of_few_dimensions_are_left() -> None:
    found = ways_to_share(720_720, 12, 50_000)
    assert found.cut
    assert len(found.ways) <= 50_000
    assert max(sum(n > 1 for n in shares) for shares in found.ways) == 2
    assert {tuple(sorted(s)[-1:]) for s in found.ways if sum(n > 1 for n in s) == 1} == {(720_720,)}
    assert ways_to_share(720_720, 12, 3).ways == ways_to_share(720_720, 12, 20).ways  # one dimension always


def test_a_view_of_many_columns_is_spread_over_a_number_of_many_divisors() -> None:
    on = " AND ".join(f"x.c{i} = y.c{i}" for i in range(6))
    sql = f"SELECT x.c0 FROM w x JOIN w y ON {on}"
    found = distribute([parse_view(sql, WIDE, "v")], WIDE, 720_720)
    assert found.cut == {"v"}
    assert found.to_dict()["cut"] == ["v"]
    assert "the search for the best shares was cut" in str(found)
    assert found.first.grids[0].cells == 720_720
    assert not distribute([parse_view(sql, WIDE, "v")], WIDE, 6).cut


def test_a_view_finds_its_rows_where_they_are_though_the_search_is_cut() -> None:
    on = " AND ".join(f"x.c{i} = y.c{i}" for i in range(6))
    view = parse_view(f"SELECT x.c0 FROM w x JOIN w y ON {on}", WIDE, "v")
    before = distribute([view], WIDE, 720_720, skew={("w", f"c{i}"): 0.4 for i in range(6)})
    assert len(before.first.grids[0].dimensions) > 1
    after = distribute([view], WIDE, 720_720, like=before)
    assert after.first.grids[0].sends_like(before.first.grids[0])
    assert not after.cut


def test_atoms_that_foreign_keys_imply_are_dropped_in_a_bounded_number_of_steps() -> None:
    """Each of n atoms can go or stay: 2^n queries on the way."""
    tables = "".join(f"CREATE TABLE d{i} (k BIGINT PRIMARY KEY, x BIGINT); " for i in range(30))
    keys = ", ".join(f"k{i} BIGINT REFERENCES d{i} (k)" for i in range(30))
    schema = f"{tables}CREATE TABLE f ({keys}, y BIGINT)"
    joins = "".join(f" JOIN d{i} ON f.k{i} = d{i}.k" for i in range(30))
    verdict = ev.explain(f"SELECT f.y, g.k0 FROM f{joins} JOIN f g ON g.y = f.k0", schema)
    assert [a.relation for a in verdict.plan.main.query.atoms] == ["f", "f"]
    assert isinstance(verdict.plan.view.body, Block)
    query = ConjunctiveQuery((), verdict.plan.view.body.atoms, semantics=Semantics.BAG)
    found = drop_implied_atoms(query, constraints_of(parse_schema(schema)))
    assert found.cut
    assert [a.relation for a in found.queries[0].atoms] == ["f", "f"]
    assert sum("superfluous: it is not maintained" in note for note in verdict.notes) == 30
    assert any("joins that foreign keys make superfluous was cut" in note for note in verdict.notes)


def test_advice_that_was_not_looked_for_is_said() -> None:
    def path(size: int) -> str:
        joins = "".join(f" JOIN e x{i} ON x{i - 1}.b = x{i}.a" for i in range(1, size))
        return f"SELECT x0.a, x{size - 1}.b FROM e x0{joins}"

    assert CUT in ev.explain(path(40), EDGES).notes
    assert CUT not in ev.explain(path(4), EDGES).notes


@pytest.mark.slow
def test_trees_to_compare_are_looked_for_in_a_bounded_number_of_steps() -> None:
    joins = "".join(f" JOIN e x{i} ON x{i - 1}.b = x{i}.a" for i in range(1, 40))
    log = {"e": pa.table({"a": [1, 1], "b": [2, 2], "_change_type": ["insert", "delete"]})}
    found = ev.enclosureness(
        f"SELECT {', '.join(f'x{i}.b AS b{i}' for i in range(40))} FROM e x0{joins}", log, EDGES, trees=200
    )
    assert found.to_dict()["cores"][0]["cut"]
    assert "the search for other trees was cut" in str(found)


def test_rules_over_undeclared_relations_are_not_spread() -> None:
    with pytest.raises(ev.errors.QueryError, match="rows of e cannot be spread") as refused:
        ev.explain("v(x, z) :- e(x, y), e(y, z).", shards=4)
    assert refused.value.hint == "give a schema with CREATE TABLE e (…)"
    assert ev.explain("v(x, z) :- e(x, y), e(y, z).", EDGES, shards=4).distribution is not None
