"""Views, tables and shards as plain data: through JSON and back they are the same, and what is damaged is refused."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from everview.errors import DataFormatError, QueryError
from everview.plan.distribute import distribute
from everview.query.catalogue import as_table
from everview.query.conjunctive import Atom
from everview.query.data import (
    canonical,
    schema_from_data,
    schema_to_data,
    table_from_data,
    table_to_data,
    view_from_data,
    view_to_data,
)
from everview.query.schema import Schema, SmallDomain
from everview.query.terms import Const, Expression, Value, Var
from everview.query.view import Block, Body, Output, View, blocks, each_block
from everview.spark.shard.shard import ShardSpec
from everview.sql import parse_rules, parse_schema, parse_script, parse_view
from tests.engine.generator import make_case
from tests.sql import cases

WORKLOADS = Path(__file__).parents[2] / "benchmarks" / "workloads"
SCHEMA = parse_schema(
    """CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT NOT NULL, price DECIMAL(12, 2), day DATE,
         status STRING CHECK (status IN ('open', 'done')), FOREIGN KEY (customer) REFERENCES customers (id));
       CREATE TABLE customers (id BIGINT PRIMARY KEY, city STRING)"""
)
CITIES = """SELECT c.city, COUNT(*) AS n, SUM(o.price) AS total FROM orders o JOIN customers c ON o.customer = c.id
            WHERE o.day >= DATE '2024-02-29' AND o.status = 'open' GROUP BY c.city HAVING COUNT(*) > 1"""


def through_json(data: dict[str, Any]) -> dict[str, Any]:
    """What is left of data when it was text: only what JSON has, NaN not among it."""
    found = json.loads(json.dumps(data, allow_nan=False))
    assert found == data
    assert isinstance(found, dict)
    return found


def check(view: View, schema: Schema) -> None:
    """A view, and shards that keep it, are the same after having been text; so are the parts that == does not see."""
    found = view_from_data(through_json(view_to_data(view)))
    assert found == view
    assert aliases(found) == aliases(view)
    assert str(found) == str(view)
    assert canonical(found) == canonical(view)
    for shards in (1, 4):
        distribution = distribute([view], schema, shards)
        for level in (distribution.first, distribution.merge):
            if level is not None:
                spec = ShardSpec.of(level, quarantine=shards > 1, memory_limit=1 << 40 if shards > 1 else None)
                assert ShardSpec.from_data(through_json(spec.to_data())) == spec
                last = spec.at(shards - 1)
                assert ShardSpec.from_data(through_json(last.to_data())) == last


def aliases(view: View) -> list[str]:
    return [a.alias for body in (*(s.body for s in view.stages), view.body) for b in blocks(body) for a in b.atoms]


@pytest.mark.parametrize("case", cases.parameters("*.test"))
def test_the_views_of_the_sql_cases(case: cases.Case) -> None:
    schema = cases.schema()
    check(parse_view(case.sql, schema, "v"), schema)


def test_the_views_of_the_rule_cases() -> None:
    schema = cases.schema()
    found = [cases.load(path) for path in sorted(cases.FOLDER.glob("*.rules"))]
    for case in (c for listed in found for c in listed):
        for view in parse_rules(case.sql, schema):
            assert view_from_data(through_json(view_to_data(view))) == view


@pytest.mark.parametrize("seed", range(60))
def test_the_views_of_random_scripts(seed: int) -> None:
    case = make_case(seed)
    schema = parse_schema(";".join(t.ddl() for t in case.tables))
    assert schema_from_data(through_json(schema_to_data(schema))) == schema
    tables = schema
    for step in case.steps:
        if step.kind == "view":
            try:
                _, (view,) = parse_script(step.text, tables)
            except QueryError:  # The generator makes bad ones as well.
                continue
            assert view_from_data(through_json(view_to_data(view))) == view
            if {a.relation for b in (*view.stages, view) for c in blocks(b.body) for a in c.atoms} <= {
                *(t.name for t in schema),
                *(s.name for s in view.stages),
            }:
                check(view, schema)
            tables = tables.with_table(as_table(view))


@pytest.mark.parametrize("folder", sorted({p.parent.name for p in WORKLOADS.glob("*/*.sql") if p.name != "schema.sql"}))
def test_the_views_of_the_workloads(folder: str) -> None:
    schema = parse_schema((WORKLOADS / folder / "schema.sql").read_text(encoding="utf-8"))
    assert schema_from_data(through_json(schema_to_data(schema))) == schema
    taken = 0
    for path in sorted((WORKLOADS / folder).glob("*.sql")):
        text = re.sub(r"LIMIT \d+\s*$", "", path.read_text(encoding="utf-8"))
        try:
            view = parse_view(text, schema, "v")
        except QueryError:  # That some are refused is what tests/workloads.toml says.
            continue
        assert view_from_data(through_json(view_to_data(view))) == view
        taken += 1
    assert taken


VALUES: list[Value] = [
    True,
    False,
    0,
    1,
    -(10**37),
    0.1,
    -0.0,
    1e300,
    math.inf,
    -math.inf,
    Decimal("1.10"),
    Decimal("-1E+3"),
    "",
    'it\'s \\ "q" é \U0001f600 \n',
    b"\x00\xff",
    date(1, 1, 1),
    datetime(2024, 2, 29, 23, 59, 59, 999999),
    datetime(2024, 2, 29, tzinfo=UTC),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_constants(value: Value) -> None:
    table = replace(SCHEMA.tables[1], small_domains=(SmallDomain("city", (Const(value),)),))
    (domain,) = table_from_data(through_json(table_to_data(table))).small_domains
    (found,) = domain.values
    assert (found, type(found.value), str(found)) == (Const(value), type(value), str(Const(value)))


def test_nan_is_a_constant() -> None:
    block = Block((Atom("t", (Var("x"),)),), (), (Output("c", Expression.of(Const(math.nan))),))
    body = view_from_data(through_json(view_to_data(View("v", block)))).body
    (column,) = body.columns
    found = column.expression.term
    assert isinstance(found, Const)
    assert isinstance(found.value, float)
    assert math.isnan(found.value)


def test_the_form_is_not_that_of_the_classes() -> None:
    """What was written before must be readable whatever fields are called now: this text is not to be changed."""
    assert view_to_data(parse_view("SELECT id AS i FROM customers c WHERE city = 'B'", SCHEMA, "v")) == {
        "format": 1,
        "name": "v",
        "stages": [],
        "body": {
            "atoms": [
                {
                    "relation": "customers",
                    "terms": [{"variable": "id"}, {"string": "B"}],
                    "computed": [],
                    "alias": "c",
                }
            ],
            "predicates": [],
            "outputs": [
                {"name": "i", "expression": {"type": "BIGINT", "parts": [{"variable": "id"}]}, "nullable": False}
            ],
            "grouping": None,
            "distinct": False,
            "not_null": [],
        },
        "remarks": [],
    }
    assert table_to_data(SCHEMA.tables[1]) == {
        "format": 1,
        "name": "customers",
        "columns": [
            {"name": "id", "type": "BIGINT", "nullable": False},
            {"name": "city", "type": "STRING", "nullable": True},
        ],
        "primary_key": ["id"],
        "foreign_keys": [],
        "small_domains": [],
    }


SAME = [
    CITIES,
    CITIES.replace("o.", "x.").replace("orders o", "orders AS x"),
    CITIES.replace("c.", "k.").replace("customers c", "\n customers   k").replace("SELECT", "select"),
    CITIES.replace(
        "o.day >= DATE '2024-02-29' AND o.status = 'open'", "o.status = 'open' AND (o.day >= DATE '2024-02-29')"
    ),
    f"WITH big AS (SELECT * FROM orders) {CITIES.replace('orders o', 'big o')}",
]
OTHER = [
    CITIES.replace("> 1", "> 2"),
    CITIES.replace("'open'", "'done'"),
    CITIES.replace("SUM(o.price)", "SUM(DISTINCT o.price)"),
    CITIES.replace("AS total", "AS sum"),
    CITIES.replace("o.customer", "o.id"),
    CITIES.replace("2024-02-29", "2024-02-28"),
]


def test_one_meaning_has_one_form() -> None:
    first = canonical(parse_view(CITIES, SCHEMA, "v"))
    through_json(first)
    for text in SAME:
        assert canonical(parse_view(text, SCHEMA, "v")) == first, text
    for text in OTHER:
        assert canonical(parse_view(text, SCHEMA, "v")) != first, text
    assert canonical(parse_view(CITIES, SCHEMA, "w")) != first


def test_stages_have_no_names_of_their_own() -> None:
    text = """SELECT city, n FROM (SELECT city, COUNT(*) AS n FROM customers GROUP BY city) AS q
              WHERE n IN (SELECT id FROM orders)"""
    view = parse_view(text, SCHEMA, "v")
    assert view.stages
    names = {s.name: f"other{i}" for i, s in enumerate(view.stages)}

    def renamed(body: Body) -> Body:
        def block(found: Block) -> Block:
            atoms = (replace(a, relation=names.get(a.relation, a.relation)) for a in found.atoms)
            return replace(found, atoms=tuple(atoms))

        return each_block(body, block)

    stages = tuple(replace(s, name=names[s.name], body=renamed(s.body)) for s in view.stages)
    assert canonical(replace(view, stages=stages, body=renamed(view.body))) == canonical(view)


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"format": None},
        {"name": 3},
        {"body": None},
        {"body": {}},
        {"stages": [{"name": "s"}]},
        {"remarks": [1]},
        {"body": {"operator": "minus", "all": True, "left": {}, "right": {}, "columns": []}},
    ],
    ids=str,
)
def test_other_data_is_refused(change: dict[str, Any]) -> None:
    data = view_to_data(parse_view(CITIES, SCHEMA, "v")) | change
    with pytest.raises(DataFormatError) as refused:
        view_from_data(data)
    assert refused.value.hint


@pytest.mark.parametrize("data", [None, [], "view", 1])
def test_what_is_no_object_is_refused(data: Any) -> None:
    for read in (view_from_data, table_from_data, schema_from_data, ShardSpec.from_data):
        with pytest.raises(DataFormatError, match="this is no"):
            read(data)


@pytest.mark.parametrize(
    "constant",
    [{"integer": "1"}, {"integer": True}, {"boolean": 1}, {"date": "today"}, {"variable": "x"}, {}, {"x": 1}],
)
def test_constants_that_are_none_are_refused(constant: dict[str, Any]) -> None:
    data = table_to_data(SCHEMA.tables[0])
    data["small_domains"][0]["values"] = [constant]
    with pytest.raises(DataFormatError, match="damaged"):
        table_from_data(data)


def test_lengths_of_columns_are_part_of_a_table() -> None:
    """Two types that differ in them are equal, so that nothing but the texts would tell."""
    schema = parse_schema("CREATE TABLE t (a CHAR(5), b VARCHAR(3), c STRING, d CHAR(5) NOT NULL)")
    found = schema_from_data(through_json(schema_to_data(schema)))
    (table,) = found
    assert [str(c.type) for c in table.columns] == ["CHAR(5)", "VARCHAR(3)", "STRING", "CHAR(5)"]
    assert [(c.type.length, c.type.padded) for c in table.columns] == [(5, True), (3, False), (None, False), (5, True)]
