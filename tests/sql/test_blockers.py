"""A statement with several constructs that are not supported is refused with all of them."""

from __future__ import annotations

import pytest

from everview.errors import UnsupportedError
from everview.sql import parse_schema, parse_view

SCHEMA = parse_schema("CREATE TABLE r (a INT, b INT, s STRING, d DATE); CREATE TABLE t (b INT, c INT)")


def refused(text: str) -> tuple[UnsupportedError, list[tuple[str, int | None, int | None]]]:
    with pytest.raises(UnsupportedError) as caught:
        parse_view(text, SCHEMA)
    error = caught.value
    return error, [(e.construct, e.line, e.column) for e in error.others]


def test_outputs_conditions_and_clauses() -> None:
    error, others = refused(
        "SELECT a, rand() AS x\nFROM r TABLESAMPLE (10 PERCENT)\nWHERE d < uuid() AND a = 1 SORT BY a"
    )
    every = {(error.construct, error.line, error.column), *others}
    assert every == {
        ("non-deterministic function", 1, 11),
        ("TABLESAMPLE", 2, 8),
        ("non-deterministic function", 3, 11),
        ("SORT BY", 3, 28),
    }
    assert others == sorted(others, key=lambda o: (o[1] or 0, o[2] or 0))
    text = str(error)
    assert all(f"line {line}, column {column}" in text for _, line, column in every)
    assert text.count("put the value into a column of a table") == 2


def test_what_stands_in_a_subquery_is_told_too() -> None:
    error, others = refused("SELECT a FROM (SELECT a, rand() AS x FROM r SORT BY a) q CLUSTER BY a")
    assert {error.construct, *(c for c, _, _ in others)} == {"CLUSTER BY", "SORT BY", "non-deterministic function"}


def test_one_alone_has_no_others() -> None:
    error, others = refused("SELECT a FROM r SORT BY a")
    assert (error.construct, others) == ("SORT BY", [])


def test_what_makes_no_sense_without_it_ends_the_search() -> None:
    """A join cannot be taken out: what follows of that is not told as if it were wrong."""
    _, others = refused("SELECT r.a, t.c FROM r RIGHT ANTI JOIN t ON r.b = t.b WHERE t.c > 1")
    assert others == []
