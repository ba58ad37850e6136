"""Expressions mean in embedded views what Spark itself says: the same values, of the same types."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

import everview as ev
from everview.errors import DataError
from everview.spark.types import spark_type
from tests.engine.test_meaning import COLUMNS, GUARDED, MEANINGS, ROW, UNREADABLE

EXPRESSIONS = [
    "p + i", "p - 1", "p * 3", "p * -3", "p * 1.5", "p + 0.005", "p - w", "p / w", "p % 7", "-p", "abs(-p)",
    "i + 1", "i * 2", "i - x", "x * i", "x / 3", "i / 2", "i % 2", "-i % 2", "i div 2", "-7 div i", "x % 2",
    "mod(i, 2)",
    "p > i", "p = 99999999.99", "p * 2 > w", "i + 1 = 4", "x < p", "i BETWEEN 1 AND 3.5", "i IN (1, 3)", "w IS NULL",
    "CAST(i AS STRING)", "CAST(p AS STRING)", "CAST(d AS STRING)", "CAST('12' AS INT)", "CAST(i AS DECIMAL(5, 1))",
    "CAST(p AS DECIMAL(12, 1))", "CAST(p AS DOUBLE)", "CAST(i AS DOUBLE)", "CAST(x AS INT)", "CAST(i > 2 AS INT)",
    "CAST(d AS TIMESTAMP)", "CAST(ts AS DATE)", "CAST('2024-02-29' AS DATE)", "TRY_CAST('no' AS INT)",
    "upper(s)", "lower(s)", "length(s)", "concat(s, '!')", "s || i", "trim('  a ')", "substring(s, 2, 3)", "left(s, 2)",
    "right(s, 2)", "instr(s, 'l')", "replace(s, 'l', 'L')", "repeat(s, 2)", "reverse(s)", "lpad(s, 7, '*')",
    "s LIKE 'H%'",
    "startswith(s, 'He')", "coalesce(NULL, s)", "nullif(i, 3)", "ifnull(NULL, i)", "if(i > 2, 'a', 'b')",
    "CASE i WHEN 3 THEN 'three' ELSE 'other' END", "greatest(i, 5)", "least(x, i)",
    "year(d)", "month(ts)", "day(d)", "quarter(d)", "hour(ts)", "minute(ts)", "dayofyear(d)", "weekofyear(d)",
    "last_day(d)", "date_add(d, 1)", "date_sub(d, 1)", "datediff(d, DATE '2024-01-01')", "add_months(d, 1)",
    "d + INTERVAL 1 MONTH", "ts + INTERVAL 1 HOUR", "date_trunc('HOUR', ts)", "trunc(d, 'YEAR')", "d < ts",
    "floor(x)", "ceil(x)", "round(x, 1)", "round(p, 1)", "floor(p)", "sign(-x)", "sqrt(x)", "power(x, 2)", "exp(0)",
    "pmod(-i, 2)", "abs(-i)",
]  # fmt: skip


@pytest.fixture(scope="module")
def row(spark: Any) -> Any:
    """The one row, as a view of Spark's."""
    spark.createDataFrame([ROW], COLUMNS).createOrReplaceTempView("meanings")
    return spark


@pytest.fixture(scope="module")
def answers(row: Any) -> dict[str, tuple[Any, Any]]:
    """What Spark says to all expressions: values and types."""
    texts = [*(e for e, _ in MEANINGS), *EXPRESSIONS]
    listed = ", ".join(f"{text} AS y{i}" for i, text in enumerate(texts))
    frame = row.sql(f"SELECT {listed} FROM meanings")
    (values,) = frame.collect()
    return dict(zip(texts, zip(values, (f.dataType for f in frame.schema), strict=True), strict=True))


def _embedded(expression: str) -> tuple[Any, Any]:
    db = ev.Database()
    db.sql(f"CREATE TABLE meanings ({COLUMNS})")
    db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {expression} AS y FROM meanings")
    db.insert("meanings", [ROW])
    ((value,),) = list(db.view("v"))
    (column,) = db._views["v"].view.columns
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value, spark_type(column.type)


@pytest.mark.parametrize("expression", [*(e for e, _ in MEANINGS), *EXPRESSIONS])
def test_spark_gives_the_same(answers: dict[str, tuple[Any, Any]], expression: str) -> None:
    wanted, its_type = answers[expression]
    value, type_ = _embedded(expression)
    assert type_ == its_type
    assert value == (pytest.approx(wanted) if isinstance(wanted, float) else wanted)


@pytest.mark.parametrize("expression", ["i / z", "x / z", "p / z", "i % z", "x % z", "p % z", "i div z", "p div z"])
def test_both_refuse_to_divide_by_zero(row: Any, expression: str) -> None:
    with pytest.raises(Exception, match=r"DIVIDE_BY_ZERO|REMAINDER_BY_ZERO"):
        row.sql(f"SELECT {expression} AS y FROM meanings").collect()
    with pytest.raises(DataError, match="division by zero"):
        _embedded(expression)


@pytest.mark.parametrize(("expression", "wanted"), GUARDED)
def test_a_condition_guards_in_spark_too(row: Any, expression: str, wanted: bool) -> None:
    ((value,),) = row.sql(f"SELECT {expression} AS y FROM meanings").collect()
    assert value == wanted


@pytest.mark.parametrize("expression", UNREADABLE)
def test_spark_cannot_read_it_either(row: Any, expression: str) -> None:
    with pytest.raises(Exception, match=r"CAST_INVALID_INPUT|CANNOT_PARSE|INVALID_INDEX_OF_ZERO"):
        row.sql(f"SELECT {expression} AS y FROM meanings").collect()
