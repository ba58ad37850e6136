"""Every aggregate's entry: its examples are kept up to date as DuckDB computes them, and nobody forgets a kind."""

from __future__ import annotations

import re
from typing import Any

import pytest

import everview as ev
from everview.query.aggregates import BY_NAME, AggregateFunction, saved_as
from everview.query.types import BOOLEAN, INT, INTERVAL, STRING, decimal, struct_of
from everview.sql import parse_schema
from everview.sql.duckdb import duckdb_query, open_duckdb
from tests.engine.aggregates import COLUMNS, EXAMPLES, QUERY, differences, rows


def by_group(found: Any) -> dict[Any, Any]:
    return {row[0]: row[1:] for row in found}


def duckdb_says(there: list[tuple[Any, ...]]) -> dict[Any, Any]:
    with open_duckdb(locked=False) as connection:
        connection.execute(f"CREATE TABLE r ({COLUMNS.replace('STRING', 'VARCHAR')})")
        connection.executemany(f"INSERT INTO r VALUES ({', '.join('?' * len(there[0]))})", there)
        schema = parse_schema(f"CREATE TABLE r ({COLUMNS})")
        return by_group(connection.execute(duckdb_query(QUERY, schema)).fetchall())


@pytest.mark.parametrize("seed", range(3))
def test_examples_are_what_duckdb_computes(seed: int) -> None:
    there = rows(seed)
    db = ev.Database()
    db.sql(f"CREATE TABLE r ({COLUMNS}); CREATE MATERIALIZED VIEW v AS {QUERY}")
    db.insert("r", there)
    assert differences(by_group(db.view("v")), duckdb_says(there)) == []
    gone, there = there[::3], [row for i, row in enumerate(there) if i % 3]
    db.delete("r", gone)
    assert differences(by_group(db.view("v")), duckdb_says(there)) == []
    db.delete("r", there)
    assert list(db.view("v")) == []


@pytest.mark.parametrize("function", AggregateFunction, ids=lambda f: f.value)
def test_an_entry_has_an_example_of_each_name(function: AggregateFunction) -> None:
    called = {name for example in function.examples for name in re.findall(r"(\w+)\(", example)}
    assert called - {"sort_array", "array"} == set(function.names)
    assert saved_as(function.value) is function
    assert all(BY_NAME[name] is function for name in function.names)


def test_every_example_is_there_once() -> None:
    assert len(EXAMPLES) == len(set(EXAMPLES)) > 30
    with pytest.raises(ValueError, match="there is no aggregate 'histogram'"):
        saved_as("histogram")


NUMBERS = ["DOUBLE", "DOUBLE", "None", "None", "None"]
SAME = ["INT", "DECIMAL(10, 2)", "STRING", "BOOLEAN", "None"]
TYPES = {
    "count approx_count_distinct regr_count": ["BIGINT"] * 5,
    "sum try_sum": ["BIGINT", "DECIMAL(20, 2)", "None", "None", "None"],
    "avg try_avg": ["DOUBLE", "DECIMAL(14, 6)", "None", "None", "None"],
    "min max any_value last mode": SAME,
    "bool_and bool_or": ["None", "None", "None", "BOOLEAN", "None"],
    "bit_and bit_or bit_xor": ["INT", "None", "None", "None", "None"],
    "collect_list collect_set": [t if t == "None" else f"ARRAY<{t}>" for t in SAME],
    "listagg": ["None", "None", "STRING", "None", "None"],
    "percentile_approx": ["INT", "DECIMAL(10, 2)", "None", "None", "None"],
    "sums moments": ["BINARY", "BINARY", "None", "None", "None"],
    "var_samp var_pop stddev_samp stddev_pop skewness kurtosis percentile percentile_disc product": NUMBERS,
    "max_by min_by corr covar_pop covar_samp regr_avgx regr_avgy": ["None"] * 5,
    "regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy": ["None"] * 5,
}
"""Those of integers, decimals, strings, booleans and intervals."""


def test_types() -> None:
    given = {
        f.value: [str(f.type_of(t)) for t in (INT, decimal(10, 2), STRING, BOOLEAN, INTERVAL)]
        for f in AggregateFunction
    }
    assert given == {name: types for names, types in TYPES.items() for name in names.split()}
    assert {str(f.type_of(None)) for f in AggregateFunction} == {"BIGINT"}


def test_types_of_what_is_put_together() -> None:
    pair = struct_of((("key", INT), ("value", STRING)))
    assert str(AggregateFunction.MAX_BY.type_of(pair)) == "STRING"
    assert str(AggregateFunction.CORR.type_of(pair)) == "DOUBLE"
    assert str(AggregateFunction.TEXT.type_of(pair)) == "STRING"
