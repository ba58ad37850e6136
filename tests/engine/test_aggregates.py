"""Every aggregate's entry: its examples are kept up to date as DuckDB computes them, and nobody forgets a kind."""

from __future__ import annotations

import re
from typing import Any

import duckdb
import pytest

import everview as ev
from everview.query.aggregates import BY_NAME, AggregateFunction, saved_as
from everview.query.types import BOOLEAN, INT, INTERVAL, STRING, decimal
from tests.engine.aggregates import COLUMNS, EXAMPLES, QUERY, differences, rows


def by_group(found: Any) -> dict[Any, Any]:
    return {row[0]: row[1:] for row in found}


def duckdb_says(there: list[tuple[Any, ...]]) -> dict[Any, Any]:
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE r ({COLUMNS})")
        connection.executemany(f"INSERT INTO r VALUES ({', '.join('?' * len(there[0]))})", there)
        query = re.sub(r"count_if\((.*?)\)", r"count(CASE WHEN \1 THEN 1 END)", QUERY)  # DuckDB's is NULL of NULLs
        query = query.replace(" mean(", " avg(").replace(" std(", " stddev(")
        return by_group(connection.execute(query).fetchall())


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
    called = {example.partition("(")[0] for example in function.examples}
    assert called == set(function.names)
    assert saved_as(function.value) is function
    assert all(BY_NAME[name] is function for name in function.names)


def test_every_example_is_there_once() -> None:
    assert len(EXAMPLES) == len(set(EXAMPLES)) > 30
    with pytest.raises(ValueError, match="there is no aggregate 'median'"):
        saved_as("median")


def test_types() -> None:
    given = {
        f.value: [str(f.type_of(t)) for t in (None, INT, decimal(10, 2), STRING, BOOLEAN, INTERVAL)]
        for f in AggregateFunction
    }
    assert given == {
        "count": ["BIGINT"] * 6,
        "sum": ["BIGINT", "BIGINT", "DECIMAL(20, 2)", "None", "None", "None"],
        "avg": ["BIGINT", "DOUBLE", "DECIMAL(14, 6)", "None", "None", "None"],
        "min": ["BIGINT", "INT", "DECIMAL(10, 2)", "STRING", "BOOLEAN", "None"],
        "max": ["BIGINT", "INT", "DECIMAL(10, 2)", "STRING", "BOOLEAN", "None"],
        "sums": ["BIGINT", "BINARY", "BINARY", "None", "None", "None"],
        "moments": ["BIGINT", "BINARY", "BINARY", "None", "None", "None"],
        **{
            n: ["BIGINT", "DOUBLE", "DOUBLE", "None", "None", "None"]
            for n in ("var_samp", "var_pop", "stddev_samp", "stddev_pop")
        },
    }
