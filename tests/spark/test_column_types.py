"""CHAR and VARCHAR hold and compare in embedded views what Spark's own tables say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.engine.test_column_types import CHAR_EXPRESSIONS, CHAR_QUERIES, CHAR_ROWS, CHARS, chars, rows_of


@pytest.fixture(scope="module")
def table(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The rows in a table of Spark's."""
    place: Path = tmp_path_factory.mktemp("chars")
    spark.sql("DROP TABLE IF EXISTS r")
    spark.sql(f"CREATE TABLE r ({CHARS}) USING parquet LOCATION '{place}'")
    values = ", ".join(str(row).replace("None", "NULL") for row in CHAR_ROWS)
    spark.sql(f"INSERT INTO r VALUES {values}")
    yield spark
    spark.sql("DROP TABLE r")


def test_spark_compares_as_we_do(table: Any) -> None:
    columns = ", ".join(f"{e} AS y{i}" for i, e in enumerate(CHAR_EXPRESSIONS))
    found = {row[0]: row[1:] for row in rows_of(chars(), f"SELECT k, {columns} FROM r")}
    wanted = {row[0]: tuple(row)[1:] for row in table.sql(f"SELECT k, {columns} FROM r").collect()}
    for k, values in wanted.items():
        assert dict(zip(CHAR_EXPRESSIONS, found[k], strict=True)) == dict(zip(CHAR_EXPRESSIONS, values, strict=True))


@pytest.mark.parametrize("query", CHAR_QUERIES)
def test_spark_gives_the_same_rows(table: Any, query: str) -> None:
    query = query.replace("b.k FROM", "b.k AS other FROM")
    assert rows_of(chars(), query) == sorted((tuple(row) for row in table.sql(query).collect()), key=repr)
