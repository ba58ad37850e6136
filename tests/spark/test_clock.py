"""Conditions on now() are refused on Spark, before anything runs."""

from __future__ import annotations

import pytest

from everview.errors import UnsupportedError
from everview.spark.views import read_views
from everview.sql import parse_schema

SCHEMA = parse_schema("CREATE TABLE e (id INT, ts TIMESTAMP); CREATE TABLE f (id INT)")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM e WHERE ts > now() - INTERVAL 7 DAYS",
        "SELECT id FROM f WHERE id IN (SELECT id FROM e WHERE ts > current_timestamp())",
    ],
)
def test_views_by_the_clock_are_refused(query: str) -> None:
    with pytest.raises(UnsupportedError, match=r" has a condition on now\(\), and on Spark no view goes by") as caught:
        read_views(query, SCHEMA)
    assert caught.value.construct == "now() on Spark"
    assert caught.value.hint
