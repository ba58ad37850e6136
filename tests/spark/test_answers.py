"""Answers of ``db.sql("SELECT …")`` are Spark's own: the same rows in the same order, of the same types."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

import everview as ev
from everview.engine.definitions import catalogue_of
from everview.query.catalogue import Answer, Queries
from everview.spark.types import spark_type
from everview.sql.script import read_commands

COLUMNS = "id INT, name STRING, age INT, pay DECIMAL(6, 2), x DOUBLE"
PEOPLE = [
    (1, "Ann", 30, Decimal("10.50"), 1.5),
    (2, "Bob", None, Decimal("2.25"), float("nan")),
    (3, None, 25, None, None),
    (4, "ann", 30, Decimal("0.01"), -1.0),
    (5, "", 41, Decimal("99.99"), float("inf")),
]
QUERIES = [
    "SELECT id, name FROM people ORDER BY name, id",
    "SELECT id, name FROM people ORDER BY name DESC, id DESC LIMIT 3",
    "SELECT id, age FROM people ORDER BY age NULLS LAST, 1 LIMIT 3 OFFSET 1",
    "SELECT id FROM people ORDER BY x DESC, id",
    "SELECT -id AS id, age FROM people ORDER BY id + 0",
    "SELECT id AS age, age AS id FROM people ORDER BY age DESC",
    "SELECT age, COUNT(*) AS n, AVG(pay) AS a, SUM(pay) AS s FROM people GROUP BY age ORDER BY n DESC, age",
    "SELECT age FROM people GROUP BY age ORDER BY COUNT(*) DESC, MAX(name) LIMIT 2",
    "SELECT DISTINCT upper(name) AS u FROM people ORDER BY length(u), u",
    "SELECT DISTINCT people.age FROM people ORDER BY people.age",
    "SELECT id FROM people UNION SELECT age FROM people ORDER BY id DESC LIMIT 4",
    "SELECT * FROM (SELECT id, name FROM people ORDER BY id DESC LIMIT 2) t ORDER BY id",
    "SELECT * FROM people a JOIN (SELECT name, MAX(id) AS top FROM people GROUP BY name) b USING (name) ORDER BY id",
    "SELECT 1 AS one, 7 / 2 AS half, 7 DIV 2 AS whole, CAST('2024-02-29' AS DATE) AS day, 1.10 + 2.205 AS sum",
    "SELECT COUNT(*) AS n, SUM(id) AS s, AVG(pay) AS a FROM people WHERE id > 9",
    "WITH w AS (SELECT age, pay * 2 AS p FROM people) SELECT age, p / 3 AS q FROM w ORDER BY p",
]


@pytest.fixture(scope="module")
def people(spark: Any) -> Any:
    """The rows, as a view of Spark's."""
    spark.createDataFrame(PEOPLE, COLUMNS).createOrReplaceTempView("people")
    return spark


@pytest.fixture(scope="module")
def db() -> ev.Database:
    made = ev.Database()
    made.sql(f"CREATE TABLE people ({COLUMNS})")
    made.insert("people", PEOPLE)
    return made


@pytest.mark.parametrize("query", QUERIES)
def test_spark_answers_the_same(people: Any, db: ev.Database, query: str) -> None:
    frame = people.sql(query)
    result = db.sql(query)
    assert result is not None
    assert repr([tuple(row) for row in frame.collect()]) == repr(list(result))
    (answer,) = read_commands(query, catalogue_of(db), Queries.ANSWERED)
    assert isinstance(answer, Answer)
    assert [f.dataType for f in frame.schema] == [spark_type(t) for t in answer.types]
    assert [f.name for f in frame.schema] == list(answer.names)
