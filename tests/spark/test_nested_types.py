"""Arrays, structs and maps go through Spark and come back, and are grouped, joined and spread as Spark does."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

COLUMNS = "k INT, a ARRAY<INT>, s STRUCT<x: DECIMAL(20, 2), y: ARRAY<STRING>>, m MAP<STRING, STRING>, g STRING"
VIEWS = {
    "whole": "SELECT k, a, s, m FROM r",
    "groups": "SELECT a, s, COUNT(*) AS n, MAX(a) AS high FROM r GROUP BY a, s",
    "joined": "SELECT r.k, t.k AS l, t.m FROM r JOIN r AS t ON r.a = t.a AND r.s = t.s",
    "maps": "SELECT m, g, COUNT(*) AS n FROM r GROUP BY m, g",
    "different": "SELECT DISTINCT s FROM r",
}
ROWS: list[tuple[Any, ...]] = [
    (1, [1, None], {"x": "1.50", "y": ["a\0", None]}, {"b": "1", "a": None}, "p"),
    (2, [1, None], {"x": "1.50", "y": ["a\0", None]}, {"a": None, "b": "1"}, "p"),
    (3, None, None, None, None),
    (4, [], {"x": None, "y": []}, {}, "q"),
    (5, [7], {"x": None, "y": None}, {"": "x"}, "q"),
    (6, [7], {"x": None, "y": None}, {"": "x"}, "p"),
]


def _row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    struct = row[2] and {"x": row[2]["x"] and Decimal(row[2]["x"]), "y": row[2]["y"]}
    entries = None if row[3] is None else list(row[3].items())
    return (*row[:2], struct, entries, row[4])


def test_nested_columns_on_shards(stream: Any, spark: Any) -> None:
    """Several views over one table, changed in three batches, one of them from a checkpoint."""
    found = stream({"r": spark.createDataFrame([], COLUMNS).schema})
    found.start(VIEWS, shards=3)
    rows = [_row(row) for row in ROWS]
    found.put({"r": [(row, "insert") for row in rows[:4]]})
    found.stop()
    found.start(VIEWS, shards=3)
    found.put({"r": [(row, "insert") for row in rows[4:]] + [(rows[0], "delete")]})
    found.put({"r": [(rows[5], "delete"), (rows[0], "insert")]})
    there = [(*row[:3], None if row[3] is None else dict(row[3]), row[4]) for row in rows[:5]]
    for name, query in VIEWS.items():
        assert found.result(name) == found.expected(query, {"r": there}), name
