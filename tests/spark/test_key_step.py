"""Quarantine on several shards: a second row of a key is a bad row like others; a batch can be skipped."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from everview.errors import PipelineError, StateMismatchError
from everview.spark import saved_tables
from everview.spark.checkpoint.pins import plan_over
from everview.spark.exchange.key_step import tables_with_spread_keys
from everview.sql import parse_schema

PEOPLE = {
    "p": StructType().add("id", "long").add("city", "string"),
    "o": StructType().add("town", "string").add("paid", "long"),
}
KEYS = "CREATE TABLE p (id BIGINT NOT NULL, city STRING, PRIMARY KEY (id))"
BY_CITY = "SELECT a.city, COUNT(*) AS n, MAX(b.id) AS greatest FROM p a JOIN p b ON a.city = b.city GROUP BY a.city"
PAID = "SELECT p.id, p.city, o.paid FROM p JOIN o ON o.town = p.city"


def aside(stream: Any) -> Counter[tuple[Any, ...]]:
    return Counter((b["table"], *b["row"].values(), b["copies"]) for b in stream.bad())


@pytest.mark.parametrize("sql", [BY_CITY, PAID])
def test_the_views_here_need_the_step(sql: str) -> None:
    """People are spread by their city: where rows are cut by their key, nothing of this page would be tried."""
    schema = parse_schema(f"{KEYS}; CREATE TABLE o (town STRING, paid BIGINT)")
    assert [t.name for t in tables_with_spread_keys(plan_over(sql, schema, 2).distribution)] == ["p"]


def test_a_second_row_of_a_key_is_put_aside_on_two_shards(stream: Any, spark: SparkSession) -> None:
    s = stream({"p": PEOPLE["p"]})
    begin = spark.createDataFrame([(0, "Ede"), (0, "Delft")], PEOPLE["p"])
    options = {"shards": 2, "schema": KEYS, "bad_rows": "quarantine", "initial": {"p": begin}}
    s.start(BY_CITY, **options)
    s.put({"p": [((i, f"c{i % 4}"), "insert") for i in range(1, 9)]})
    s.put({"p": [((3, "another"), "insert"), ((9, "z"), "insert"), ((9, "c9"), "insert")]})
    s.stop()
    s.start(BY_CITY, **options)
    s.put({"p": [((3, "another"), "delete"), ((4, "c0"), "update_preimage"), ((4, "c7"), "update_postimage")]})
    held = [(0, "Delft"), *((i, f"c{i % 4}") for i in range(1, 9) if i != 4), (4, "c7"), (9, "c9")]
    assert s.result() == s.expected(BY_CITY, {"p": held})
    assert aside(s) == {
        ("p", 0, "Ede", 1): 1,
        ("p", 3, "another", 1): 1,
        ("p", 9, "z", 1): 1,
        ("p", 3, "another", -1): 1,
    }
    s.stop()
    rows = saved_tables(spark, str(s.folder / "checkpoint"))["p"].collect()
    assert Counter({(r["id"], r["city"]): r["_count"] for r in rows}) == Counter(held)


def test_of_static_rows_with_one_key_the_least_stays_and_a_batch_can_be_skipped(
    stream: Any, spark: SparkSession
) -> None:
    s = stream(PEOPLE)
    static = spark.createDataFrame([(1, "Cork"), (1, "Bern"), (2, "Ede"), (2, "Ede"), (3, None)], PEOPLE["p"])
    options = {"shards": 2, "schema": KEYS, "bad_rows": "quarantine", "frames": {"p": static}}
    s.start(PAID, **options)
    s.put({"o": [(("Bern", 10), "insert"), (("Ede", 20), "insert"), (("Cork", 30), "insert")]})
    s.stop()
    s.start(PAID, **options, skip_batch=1)
    skipped = [(("Bern", 100), "insert"), (("Bern", 10), "delete"), (("Goes", 1), "insert"), (("Goes", 1), "insert")]
    s.put({"o": skipped})
    s.put({"o": [(("Ede", 5), "insert")]})
    held = {"p": [(1, "Bern"), (2, "Ede"), (3, None)], "o": [("Bern", 10), ("Ede", 20), ("Ede", 5), ("Cork", 30)]}
    assert s.result() == s.expected(PAID, held)
    assert aside(s) == {
        ("p", 1, "Cork", 1): 1,
        ("p", 2, "Ede", 1): 1,
        ("o", "Bern", 100, 1): 1,
        ("o", "Bern", 10, -1): 1,
        ("o", "Goes", 1, 1): 2,
    }


def test_a_batch_cannot_be_skipped_where_its_rows_would_be_lost(stream: Any) -> None:
    s = stream({"p": PEOPLE["p"]})
    with pytest.raises(PipelineError, match="batch 3 is to be skipped, and there is no place for its rows"):
        s.start(BY_CITY, shards=2, skip_batch=3)


def test_a_step_by_key_neither_comes_nor_goes_unnoticed(stream: Any) -> None:
    """Of the rows that there were, a step that begins now would know nothing."""
    s = stream({"p": PEOPLE["p"]})
    place = str(s.folder / "checkpoint")
    s.start(BY_CITY, shards=2, schema=KEYS, place=place)
    s.put({"p": [((1, "Ede"), "insert")]})
    s.stop()
    with pytest.raises(StateMismatchError, match="tables that pass a step by key first: it has none"):
        s.start(BY_CITY, shards=2, schema=KEYS, place=place, bad_rows="quarantine")
    s.start(BY_CITY, shards=2, schema=KEYS, place=place)
    s.put({"p": [((2, "Ede"), "insert")]})
    assert s.result() == s.expected(BY_CITY, {"p": [(1, "Ede"), (2, "Ede")]})
