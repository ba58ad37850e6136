"""Every aggregate's examples (``query/aggregates.py``) have Spark SQL's values and types, embedded and on shards."""

from __future__ import annotations

import re
from typing import Any

import everview as ev
from everview.query.aggregates import AggregateFunction
from everview.spark.types import spark_type
from tests.engine.aggregates import COLUMNS, EXAMPLES, QUERY, differences, query, rows
from tests.engine.bags import plain

ROWS = rows()


def in_spark(example: str) -> str:
    """Spark has PRODUCT among the functions of DataFrames only."""
    found = re.fullmatch(r"product\((DISTINCT )?(\w)\)", example)
    if found is None:
        return example
    values = f"collect_list({found[1] or ''}CAST({found[2]} AS DOUBLE))"
    return f"CASE WHEN count({found[2]}) > 0 THEN aggregate({values}, 1D, (x, y) -> x * y) END"


def by_spark(
    spark: Any, there: list[tuple[Any, ...]], wanted: list[str] = EXAMPLES
) -> tuple[dict[Any, Any], list[Any]]:
    """By group, and the types; Spark cannot plan a query with DISTINCT and WITHIN GROUP, but for one call of both."""
    spark.createDataFrame(there, COLUMNS).createOrReplaceTempView("r")
    classes: dict[tuple[bool, bool], list[str]] = {}
    for example in wanted:
        is_distinct = "DISTINCT" in example
        classes.setdefault((is_distinct, is_distinct and "WITHIN" in example), []).append(example)
    values: dict[Any, dict[str, Any]] = {}
    types: dict[str, Any] = {}
    for examples in classes.values():
        frame = spark.sql(query(list(map(in_spark, examples))))
        for row in frame.collect():
            values.setdefault(row[0], {}).update(zip(examples, tuple(row)[1:], strict=True))
        types.update(zip(examples, (f.dataType for f in frame.schema.fields[1:]), strict=True))
    found = {group: tuple(of_group[e] for e in wanted) for group, of_group in values.items()}
    return found, [types[e] for e in wanted]


def test_embedded_views_give_what_spark_gives(spark: Any) -> None:
    db = ev.Database()
    db.sql(f"CREATE TABLE r ({COLUMNS}); CREATE MATERIALIZED VIEW v AS {QUERY}")
    db.insert("r", ROWS)
    wanted, types = by_spark(spark, ROWS)
    assert differences({row[0]: row[1:] for row in db.view("v")}, wanted) == []
    mine = [spark_type(column.type) for column in db._views["v"].view.columns[1:]]
    shown = ([t.simpleString() for t in each] for each in (mine, types))  # here elements may always be NULL
    assert dict(zip(EXAMPLES, next(shown), strict=True)) == dict(zip(EXAMPLES, next(shown), strict=True))
    db.delete("r", ROWS[::2])
    wanted, _ = by_spark(spark, ROWS[1::2])
    assert differences({row[0]: row[1:] for row in db.view("v")}, wanted) == []


def test_maintain_gives_what_spark_gives(spark: Any, stream: Any) -> None:
    """One view with an example of each aggregate, on two shards, through insertions and deletions."""
    first = [function.examples[0] for function in AggregateFunction if function.examples]
    found = stream({"r": spark.createDataFrame([], COLUMNS).schema})
    found.start(query(first), shards=2)
    found.put({"r": [(row, "insert") for row in ROWS]})
    found.put({"r": [(row, "delete") for row in ROWS[::2]]})
    result = found.result()
    assert set(result.values()) == {1}
    wanted, _ = by_spark(spark, ROWS[1::2], first)
    wanted = {group: tuple(map(plain, values)) for group, values in wanted.items()}
    assert differences({row[0]: row[1:] for row in result}, wanted, first) == []
