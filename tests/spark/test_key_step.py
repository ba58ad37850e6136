"""Quarantine on several shards: a second row of a key is a bad row like others; a batch can be skipped."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from everview.errors import PipelineError
from everview.spark import saved_tables

PEOPLE = {
    "p": StructType().add("id", "long").add("city", "string"),
    "o": StructType().add("person", "long").add("paid", "long"),
}
KEYS = "CREATE TABLE p (id BIGINT NOT NULL, city STRING, PRIMARY KEY (id))"
BY_CITY = "SELECT city, COUNT(*) AS n, MAX(id) AS greatest FROM p GROUP BY city"
PAID = "SELECT p.city, SUM(o.paid) AS paid FROM p JOIN o ON o.person = p.id GROUP BY p.city"


def aside(stream: Any) -> Counter[tuple[Any, ...]]:
    return Counter((b["table"], *b["row"].values(), b["copies"]) for b in stream.bad())


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
    s.put({"o": [((1, 10), "insert"), ((2, 20), "insert"), ((3, 30), "insert")]})
    s.stop()
    s.start(PAID, **options, skip_batch=1)
    s.put({"o": [((1, 100), "insert"), ((1, 10), "delete"), ((7, 1), "insert"), ((7, 1), "insert")]})
    s.put({"o": [((2, 5), "insert")]})
    held = {"p": [(1, "Bern"), (2, "Ede"), (3, None)], "o": [(1, 10), (2, 20), (2, 5), (3, 30)]}
    assert s.result() == s.expected(PAID, held)
    assert aside(s) == {
        ("p", 1, "Cork", 1): 1,
        ("p", 2, "Ede", 1): 1,
        ("o", 1, 100, 1): 1,
        ("o", 1, 10, -1): 1,
        ("o", 7, 1, 1): 2,
    }


def test_a_batch_cannot_be_skipped_where_its_rows_would_be_lost(stream: Any) -> None:
    s = stream({"p": PEOPLE["p"]})
    with pytest.raises(PipelineError, match="batch 3 is to be skipped, and there is no place for its rows"):
        s.start(BY_CITY, shards=2, skip_batch=3)
