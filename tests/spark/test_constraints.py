"""Constraints on shards: those that a shard can check are checked and used, those that are relied on are used."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType

import everview as ev
from everview.errors import DataError, ReferenceViolationError, UpdateKindError
from everview.plan.shard_tables import as_checked, keeps_references_together
from everview.query.data import table_to_data
from everview.query.schema import Enforcement
from everview.spark.checkpoint.pins import plan_over
from everview.spark.exchange.arrow_blob import read_blob
from everview.spark.exchange.key_step import tables_with_spread_keys
from everview.spark.types import tables_of
from everview.sql import parse_schema
from tests.scale import thoroughness
from tests.spark.cluster import Cluster

SHOP = """
CREATE TABLE region (id BIGINT PRIMARY KEY, name BIGINT);
CREATE TABLE city (id BIGINT PRIMARY KEY, region BIGINT NOT NULL REFERENCES region{rely}, name BIGINT);
CREATE TABLE visit (city BIGINT NOT NULL REFERENCES city{rely}, person BIGINT, stars BIGINT)
"""
CHECKED = parse_schema(SHOP.format(rely=""))
RELIED_ON = parse_schema(SHOP.format(rely=" NOT ENFORCED RELY"))
IGNORED = parse_schema(SHOP.format(rely=" NOT ENFORCED"))
STARS = "SELECT v.city, v.stars FROM visit v JOIN city c ON v.city = c.id"
BY_NAME = "SELECT c.name, SUM(v.stars) AS s FROM visit v JOIN city c ON v.city = c.id GROUP BY c.name"
QUERIES = [
    STARS,
    BY_NAME,
    "SELECT v.person, v.stars FROM visit v JOIN city c ON v.city = c.id JOIN region r ON c.region = r.id",
    "SELECT DISTINCT v.person FROM visit v JOIN city c ON v.city = c.id",
    "SELECT r.name, COUNT(*) AS n FROM visit, city c, region r WHERE city = c.id AND c.region = r.id GROUP BY r.name",
    "SELECT a.name, b.region FROM city a JOIN city b ON a.id = b.id",
    "SELECT v.stars FROM visit v, city c WHERE v.city = c.id UNION SELECT c.id FROM city c, region r WHERE c.id = r.id",
]


def atoms(cluster: Cluster) -> list[str]:
    """The relations that the first shard maintains."""
    views = cluster.shards[0][0].db._views.values()
    return sorted(a.relation for v in views for c in v.cores for a in c.plan.query.atoms)


def result(cluster: Cluster) -> Counter[Any]:
    (found,) = cluster.results.values()
    return found


def test_what_a_schema_declares_comes_to_the_shards() -> None:
    """Nothing gets lost on the way from the schema over the columns that are read."""
    frames = {t.name: _frame(t.name) for t in CHECKED}
    key = "region (id BIGINT PRIMARY KEY"
    declared = SHOP.format(rely=" NOT ENFORCED RELY").replace(key, f"{key} NOT ENFORCED RELY")
    schema = tables_of(frames, declared)
    assert [table_to_data(t) for t in schema] == [table_to_data(t) for t in parse_schema(declared)]
    plan = plan_over(QUERIES[2], schema, 2)
    city, region = plan.distribution.first.tables[1], plan.distribution.first.tables[0]
    assert [k.enforcement for k in city.foreign_keys] == [Enforcement.RELIED_ON]
    assert region.key_enforcement is Enforcement.RELIED_ON
    assert "region" not in {t.name for t in tables_with_spread_keys(plan.distribution)}
    other = plan_over(QUERIES[2], tables_of(frames, declared.replace(" RELY", "")), 2)
    assert plan.identity.digest != other.identity.digest


def _frame(name: str) -> StructType:
    struct = StructType()
    table = CHECKED.table(name)
    assert table is not None
    for column in table.columns:
        struct = struct.add(column.name, "long", column.nullable)
    return struct


def test_a_foreign_key_is_checked_and_used_where_routes_keep_it_together() -> None:
    cluster = Cluster(STARS, CHECKED, 3)
    assert [k.enforcement for k in as_checked(cluster.levels[0]).tables[1].foreign_keys] == [Enforcement.ENFORCED]
    assert atoms(cluster) == ["visit"]
    cluster.apply({"city": [((i, 0, 0), 1) for i in range(9)], "visit": [((i, 1, i), 1) for i in range(9)]})
    assert sum(result(cluster).values()) == 9
    with pytest.raises(ReferenceViolationError, match="no row of city has the key") as found:
        cluster.apply({"visit": [((99, 1, 1), 1)]})
    assert "skip_batch" in str(found.value.hint)
    assert "row 0" not in found.value.message


def test_a_parent_that_rows_point_at_does_not_go_alone() -> None:
    cluster = Cluster(STARS, CHECKED, 3)
    cluster.apply({"city": [((i, 0, 0), 1) for i in range(9)], "visit": [((5, 1, 5), 1)]})
    cluster.apply({"city": [((4, 0, 0), -1)]})
    with pytest.raises(ReferenceViolationError, match="still points"):
        cluster.apply({"city": [((5, 0, 0), -1)]})


def test_one_that_routes_part_is_neither_checked_nor_used_and_explain_says_so() -> None:
    sql = "SELECT v.person, v.stars, c.name FROM visit v, city c, visit w WHERE v.city = c.id AND w.person = v.person"
    rates = {"visit": 1000.0, "city": 1000.0, "region": 1.0}
    found = ev.explain(sql, CHECKED, shards=4, rates=rates)
    cluster = Cluster(sql, CHECKED, 4, rates=rates)
    level = cluster.levels[0]
    visit = next(t for t in level.tables if t.name == "visit")
    assert not keeps_references_together(level, visit, visit.foreign_keys[0])
    assert "the foreign key (city) → city(id) of visit is neither checked nor used" in str(found)
    cluster.apply({"visit": [((7, 1, 1), 1)]})
    assert not +result(cluster)
    cluster.apply({"city": [((7, 0, 3), 1)]})
    assert result(cluster) == {(1, 1, 3): 1}


@pytest.mark.parametrize("shards", [1, 4])
def test_one_that_is_relied_on_is_used_wherever_its_rows_are(shards: int) -> None:
    cluster = Cluster(QUERIES[3], RELIED_ON, shards)
    assert atoms(cluster) == ["visit"]
    assert atoms(Cluster(QUERIES[3], IGNORED, shards)) == ["city", "visit"]
    assert "relied on and not checked" in str(ev.explain(QUERIES[3], RELIED_ON, shards=4))


def test_nothing_is_checked_between_tables_where_rows_are_put_aside() -> None:
    cluster = Cluster(STARS, CHECKED, 3, quarantine=True)
    assert atoms(cluster) == ["city", "visit"]
    cluster.apply({"visit": [((99, 1, 1), 1)]})
    assert not +result(cluster)
    assert not cluster.bad


def test_a_key_that_is_not_enforced_is_not_checked() -> None:
    schema = parse_schema("CREATE TABLE p (id BIGINT PRIMARY KEY NOT ENFORCED, city BIGINT)")
    cluster = Cluster("SELECT a.id, b.city FROM p a JOIN p b ON a.city = b.city", schema, 3)
    cluster.apply({"p": [((1, 7), 1), ((1, 8), 1)]})
    assert result(cluster) == {(1, 7): 1, (1, 8): 1}
    assert not any(g.view.endswith("'s key") for g in cluster.levels[0].grids)


number = st.integers(0, 3)
rows = {
    "region": st.tuples(number, number),
    "city": st.tuples(number, number, number),
    "visit": st.tuples(number, number, number),
}
change = st.sampled_from(list(rows)).flatmap(lambda t: st.tuples(st.just(t), rows[t], st.sampled_from((1, 1, -1))))
batches = st.lists(st.lists(change, min_size=1, max_size=5), min_size=1, max_size=8)
filled = [("region", (i, i % 2), 1) for i in range(4)] + [("city", (i, i % 3, i % 2), 1) for i in range(3)]


def is_legal(held: dict[str, Counter[Any]], *, references: bool) -> bool:
    if any(n < 0 for rows in held.values() for n in rows.values()):
        return False
    keys = {name: Counter(row[0] for row in held[name].elements()) for name in ("region", "city")}
    if any(n > 1 for counted in keys.values() for n in counted.values()):
        return False
    pointed = all(keys["region"][row[1]] for row in held["city"].elements())
    return not references or (pointed and all(keys["city"][row[0]] for row in held["visit"].elements()))


@thoroughness(25)
@given(st.sampled_from(QUERIES), batches, st.integers(1, 4), st.sampled_from(("checked", "relied on")))
def test_views_have_their_rows_with_constraints_on_any_number_of_shards(
    sql: str, steps: list[list[Any]], shards: int, kind: str
) -> None:
    """Only what is illegal is refused; what is taken in is exact, also where a foreign key could not be checked."""
    cluster = Cluster(sql, CHECKED if kind == "checked" else RELIED_ON, shards)
    read = {t.name for t in cluster.schema}
    held: dict[str, Counter[Any]] = {name: Counter() for name in rows}
    for step in [filled, *steps]:
        after = {name: Counter(counted) for name, counted in held.items()}
        for table, row, weight in step:
            after[table][row] += weight
        legal = is_legal(after, references=True)
        if kind == "relied on" and not legal:
            continue
        changes: dict[str, list[Any]] = {}
        for table, row, weight in step:
            if table in read:
                changes.setdefault(table, []).append((row, weight))
        try:
            cluster.apply(changes)
        except DataError:
            assert not legal
            return
        if not legal and not is_legal(after, references=False):
            return  # A row too many that no view reads.
        held = after
    con = duckdb.connect()
    for table in CHECKED:
        con.execute(f"CREATE TABLE {table.name} ({', '.join(c.name + ' BIGINT' for c in table.columns)})")
        for row in held[table.name].elements():
            con.execute(f"INSERT INTO {table.name} VALUES ({', '.join(map(str, row))})")
    expected = Counter(tuple(row) for row in con.execute(sql).fetchall())
    assert +result(cluster) == expected


def test_a_shard_is_made_anew_of_rows_that_point_at_each_other() -> None:
    cluster = Cluster(STARS, CHECKED, 2)
    cluster.apply({"city": [((i, 0, 0), 1) for i in range(9)], "visit": [((i, 1, i), 1) for i in range(9)]})
    for shard in cluster.shards[0]:
        tables: dict[str, Any] = {}
        for name, blob, _ in shard.dump():
            tables.setdefault(name, []).append(read_blob(blob))
        again = type(shard)(replace(shard.spec))
        again.load(tables)
        assert again.stats()["rows"] == shard.stats()["rows"]


def test_of_how_tables_change_a_shard_checks_that_no_row_goes() -> None:
    text = "CREATE TABLE a (x BIGINT, y BIGINT) OPTIONS (updates = '{0}')"
    text += "; CREATE TABLE b (y BIGINT) OPTIONS (updates = '{0}')"
    sql = "SELECT a.x FROM a JOIN b ON a.y = b.y"
    digests = set()
    for kind in ("any", "static", "append", "fifo"):
        cluster = Cluster(sql, parse_schema(text.format(kind)), 2)
        digests.add(cluster.identity.digest)
        cluster.apply({"a": [((i, i), 1) for i in range(5)], "b": [((i,), 1) for i in range(5)]})
        cluster.apply({"a": [((9, 1), 1)]})
        assert sum(result(cluster).values()) == 6
        found = str(ev.explain(sql, text.format(kind), shards=2))
        assert ("neither checked nor used" in found) is (kind in ("static", "fifo"))
        if kind == "append":
            with pytest.raises(UpdateKindError, match="no row of it ever goes"):
                cluster.apply({"a": [((9, 1), -1)]})
        else:
            cluster.apply({"a": [((9, 1), -1)]})
            assert sum(result(cluster).values()) == 5
    assert len(digests) == 4
