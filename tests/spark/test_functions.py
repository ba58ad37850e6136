"""Every function that has an entry has the same values embedded, in Spark SQL, and through ``maintain`` on Spark."""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal
from random import Random
from typing import Any

import pytest

import everview as ev
from everview.spark.types import spark_type
from tests.engine.functions import COLUMNS, EXAMPLES, ROWS, UNKNOWN, utc

EXPRESSIONS = [e for name, examples in EXAMPLES.items() if name not in UNKNOWN for e in examples]
QUERY = f"SELECT k, {', '.join(f'{e} AS y{i}' for i, e in enumerate(EXPRESSIONS))} FROM r"
RANDOM = [
    "soundex(s)", "levenshtein(s, u)", "substring_index(s, ',', n)", "substring_index(s, 'ab', n)", "find_in_set(u, s)",
    "find_in_set('a', s)", "luhn_check(w)", "crc32(s)", "crc32(u)", "btrim(s, 'ab')", "format_number(x, 2)",
    "format_number(p, 2)", "format_number(x, 0)", "format_number(l, 1)", "bround(x, 1)", "bround(x)", "bround(p, 1)",
    "bround(p)", "hypot(x, z)", "expm1(z)", "log1p(z)", "base64(s)", "octet_length(s)", "bit_length(u)", "bit_count(l)",
    "lpad(s, n, u)", "rpad(s, n, u)", "lpad(s, 9, 'xyz')", "replace(s, u, 'ab')", "replace(s, 'a', u)",
    "repeat(s, n)", "regexp_replace(s, '[ab]+', '<$0>')", "locate(u, s, n)", "factorial(n)",
]  # fmt: skip
RANDOM_COLUMNS = "k INT, s STRING, u STRING, w STRING, n INT, l BIGINT, x DOUBLE, z DOUBLE, p DECIMAL(12, 2)"
RANDOM_QUERY = f"SELECT k, {', '.join(f'{e} AS y{i}' for i, e in enumerate(RANDOM))} FROM r"


def _random_rows() -> list[tuple[Any, ...]]:
    random = Random(18)

    def text(letters: str, most: int) -> str:
        return "".join(random.choice(letters) for _ in range(random.randint(0, most)))

    rows = []
    for k in range(300):
        letters = random.choice(["ab,", "abcdefghijklmnopqrstuvwxyzHW -1", "aäß€😀b,", "ABhwpfZ "])
        x = random.choice([random.uniform(-100, 100), random.randint(-500, 500) / 8, random.gauss(0, 1e6)])
        row = (
            text(letters, 12),
            text(letters, 3),
            text("0123456789", 18),
            random.randint(-4, 7),
            random.randint(-(2**62), 2**62),
            x,
            random.choice([random.uniform(-0.9, 2), random.gauss(0, 1e-9)]),
            Decimal(random.randint(-(10**9), 10**9)).scaleb(-2),
        )
        rows.append((k, *(None if random.random() < 0.05 else value for value in row)))
    return rows


def _plain(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, tuple) and hasattr(value, "asDict"):
        return value.asDict()
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def _same(left: Any, right: Any) -> bool:
    left, right = _plain(left), _plain(right)
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-13) or (math.isnan(left) and math.isnan(right))
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):  # a map's entries have no order
        return left.keys() == right.keys() and all(_same(left[k], right[k]) for k in left)
    return type(left) is type(right) and bool(left == right)


def _differences(found: dict[int, Any], wanted: dict[int, Any], expressions: list[str]) -> list[str]:
    """What is not the same; whether a type may hold NULLs within is not compared, as all of Everview's may."""
    assert found.keys() == wanted.keys()
    return [
        f"{e}, row {k}: {mine!r}, and Spark says {theirs!r}"
        for k in wanted
        for e, mine, theirs in zip(expressions, found[k], wanted[k], strict=True)
        if not _same(mine, theirs)
    ]


def _embedded(query: str, columns: str, rows: list[tuple[Any, ...]]) -> tuple[dict[int, Any], list[Any]]:
    db = ev.Database()
    db.sql(f"CREATE TABLE r ({columns}); CREATE MATERIALIZED VIEW v AS {query}")
    db.insert("r", rows)
    types = [spark_type(column.type).simpleString() for column in db._views["v"].view.columns[1:]]
    return {row[0]: row[1:] for row in db.view("v")}, types


def _by_spark(spark: Any, query: str, columns: str, rows: list[tuple[Any, ...]]) -> tuple[dict[int, Any], list[Any]]:
    spark.createDataFrame([utc(row) for row in rows], columns).createOrReplaceTempView("r")
    frame = spark.sql(query)
    return {row[0]: tuple(row)[1:] for row in frame.collect()}, [f.dataType.simpleString() for f in frame.schema][1:]


@pytest.fixture(scope="module")
def wanted(spark: Any) -> tuple[dict[int, Any], list[Any]]:
    """What Spark SQL says."""
    return _by_spark(spark, QUERY, COLUMNS, ROWS)


def test_embedded_views_give_what_spark_gives(wanted: tuple[dict[int, Any], list[Any]]) -> None:
    """Of all functions, for all rows, that of NULLs among them; the types too."""
    values, types = _embedded(QUERY, COLUMNS, ROWS)
    assert _differences(values, wanted[0], EXPRESSIONS) == []
    assert dict(zip(EXPRESSIONS, types, strict=True)) == dict(zip(EXPRESSIONS, wanted[1], strict=True))


def test_maintain_gives_what_spark_gives(wanted: tuple[dict[int, Any], list[Any]], stream: Any, spark: Any) -> None:
    """One view with all functions as columns, in one streaming query."""
    found = stream({"r": spark.createDataFrame([], COLUMNS).schema})
    found.start({"v": QUERY}, shards=2)
    found.put({"r": [(utc(row), "insert") for row in ROWS]})
    rows = [row["v"] for batch in found.batches.values() for row in batch]
    assert _differences({row[0]: tuple(row)[1:] for row in rows}, wanted[0], EXPRESSIONS) == []


def test_random_arguments(spark: Any) -> None:
    """Of those functions that are built from others."""
    rows = _random_rows()
    values, types = _embedded(RANDOM_QUERY, RANDOM_COLUMNS, rows)
    theirs, their_types = _by_spark(spark, RANDOM_QUERY, RANDOM_COLUMNS, rows)
    assert _differences(values, theirs, RANDOM) == []
    assert types == their_types
