"""Types of columns mean all that they say: lengths, blanks, collations and sizes, as in Spark, or they are refused."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

import everview as ev
from everview.errors import EverviewError, TypeMismatchError, UnsupportedError, ValueTypeError

CHARS = "k INT, c CHAR(3), v VARCHAR(3), s STRING, d CHAR(5)"
CHAR_ROWS = [(1, "a", "a", "a", "a"), (2, "abc  ", "abc  ", "a", "a"), (3, "ééé", "ééé", None, None)]
CHAR_EXPRESSIONS = [
    "c", "v", "d", "length(c)", "length(v)", "c || 'x'",
    "c = 'a'", "'a' = c", "(c) = 'a'", "c <> 'a'", "c <=> 'a'", "c < 'a '", "c = 'abc  '", "c = 'abcd'", "c >= 'b'",
    "c = s", "c = d", "d > c", "c = v", "v = 'a  '", "c BETWEEN 'a' AND 'b'", "c IN ('a', 'b     ')", "c IN ('a', s)",
    "CASE c WHEN 'a' THEN 1 ELSE 0 END", "equal_null(c, 'a')", "nullif(c, 'a')", "upper(c) = 'A'",
    "coalesce(c, 'x') = 'a'",
    "c LIKE 'a'", "CAST(c AS STRING) = 'a'", "CAST(s AS VARCHAR(1))", "CAST(s AS CHAR(3))",
]  # fmt: skip
CHAR_QUERIES = [
    "SELECT d FROM (SELECT c AS d FROM r) WHERE d = 'a'",
    "SELECT d FROM (SELECT MIN(c) AS d FROM r) WHERE d = 'a'",
    "SELECT d FROM (SELECT c AS d FROM r GROUP BY c) WHERE d = 'a'",
    "SELECT a.k, b.k FROM r a JOIN r b ON a.c = b.d",
    "SELECT c FROM r GROUP BY c HAVING c = 'a'",
    "SELECT k FROM r a WHERE EXISTS (SELECT 1 FROM r b WHERE b.d = a.c)",
    "SELECT k FROM r a WHERE c IN (SELECT d FROM r)",
    "SELECT a.k, b.k FROM r a JOIN r b USING (c)",
]
"""tests/spark/test_column_types.py has Spark compute all of these as well."""


def chars() -> ev.Database:
    """A database with the rows."""
    db = ev.Database()
    db.sql(f"CREATE TABLE r ({CHARS})")
    db.insert("r", CHAR_ROWS)
    return db


def rows_of(db: ev.Database, query: str) -> list[tuple[Any, ...]]:
    """What a view of the query holds."""
    db.sql(f"CREATE MATERIALIZED VIEW answer AS {query}")
    return sorted(db.view("answer"), key=repr)


def test_char_is_padded_and_blanks_beyond_the_length_are_cut_off() -> None:
    wanted = [(1, "a  ", "a", "a", "a    "), (2, "abc", "abc", "a", "a    "), (3, "ééé", "ééé", None, None)]
    assert rows_of(chars(), "SELECT * FROM r") == wanted


@pytest.mark.parametrize(("column", "value"), [("c", "abcd"), ("v", "éééé"), ("d", "123456")])
@pytest.mark.parametrize("arrow", [False, True])
def test_a_longer_value_is_a_bad_row(column: str, value: str, arrow: bool) -> None:
    db = chars()
    rows = [{"k": 8, column: "ok"}, {"k": 9, column: value}]
    with pytest.raises(ValueTypeError, match=rf"row 1.*column {column}.*does not fit into (VAR)?CHAR"):
        db.insert("r", pa.Table.from_pylist(rows) if arrow else rows)
    assert len(rows_of(db, "SELECT * FROM r")) == 3


def test_a_row_is_deleted_by_its_value_without_blanks() -> None:
    db = chars()
    db.delete("r", [CHAR_ROWS[0]])
    assert [row[0] for row in rows_of(db, "SELECT k FROM r")] == [2, 3]


def test_the_values_of_a_check_are_padded_too() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE q (c CHAR(3) CHECK (c IN ('a', 'b')))")
    db.insert("q", [("a",), ("b  ",)])
    assert rows_of(db, "SELECT c FROM q WHERE c = 'b'") == [("b  ",)]


def test_a_view_over_a_view_knows_that_a_column_is_padded() -> None:
    db = chars()
    db.sql("CREATE MATERIALIZED VIEW first AS SELECT c AS e, k FROM r")
    assert rows_of(db, "SELECT k FROM first WHERE e = 'a'") == [(1,)]


@pytest.mark.parametrize(
    ("type_", "what"),
    [
        ("STRING COLLATE UTF8_LCASE", "column a has the collation UTF8_LCASE"),
        ("VARCHAR(3) COLLATE UNICODE_CI", "column a has the collation UNICODE_CI"),
        ("STRING NOT NULL COLLATE UNICODE", "column a has the collation UNICODE"),
        *((t, "are not supported") for t in (
            "TIMESTAMP(3)", "TIMESTAMP_NTZ(6)", "BINARY(3)", "FLOAT(3)", "INT(11)", "STRING(5)", "DATE(3)", "NUMBER",
            "DECIMAL(5, 2, 1)", "INT8", "FLOAT8", "TIMESTAMPTZ", "NVARCHAR(3)", "VARBINARY(3)", "TIME", "TIME(3)",
            "TIMESTAMP WITH TIME ZONE", "INTERVAL MONTH", "CHAR(x)",
        )),
        ("INTERVAL", "column a is an INTERVAL"),
    ],
)  # fmt: skip
def test_what_a_type_says_and_we_do_not_do_is_refused(type_: str, what: str) -> None:
    with pytest.raises(UnsupportedError, match=what):
        ev.Database().sql(f"CREATE TABLE t (a {type_})")


@pytest.mark.parametrize("type_", ["VARCHAR", "CHAR"])
def test_a_length_must_be_said(type_: str) -> None:
    with pytest.raises(TypeMismatchError, match=f"{type_} needs a length"):
        ev.Database().sql(f"CREATE TABLE t (a {type_})")


def test_binary_collation_and_ntz_in_words_are_what_they_say() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE t (a STRING COLLATE UTF8_BINARY, b TIMESTAMP WITHOUT TIME ZONE)")
    db.insert("t", [("x", datetime(2024, 1, 2))])
    assert rows_of(db, "SELECT a, b, CAST('2024-01-02' AS TIMESTAMP WITHOUT TIME ZONE) = b AS e FROM t") == [
        ("x", datetime(2024, 1, 2), True)
    ]


@pytest.mark.parametrize(
    "expression",
    [
        "s COLLATE UTF8_LCASE",
        "s = 'A' COLLATE UNICODE",
        "collate(s, 'UTF8_LCASE')",
        "collation(s)",
        "CAST(s AS STRING COLLATE UTF8_LCASE)",
        "CAST(s AS TIMESTAMP(3))",
        "CAST(s AS NUMBER)",
        "c = concat('a', '')",
    ],
)
def test_expressions_of_such_types_are_refused_by_the_verdict(expression: str) -> None:
    with pytest.raises(UnsupportedError):
        ev.explain(f"SELECT {expression} AS y FROM r", schema=f"CREATE TABLE r ({CHARS})")
    with pytest.raises(UnsupportedError):
        rows_of(chars(), f"SELECT {expression} AS y FROM r")


def test_using_does_not_pad() -> None:
    """Where the two lengths differ it is refused; ON pads."""
    schema = "CREATE TABLE p (c CHAR(3)); CREATE TABLE q (c CHAR(5))"
    with pytest.raises(EverviewError, match=r"USING with CHAR\(3\) and CHAR\(5\)"):
        ev.explain("SELECT c FROM p JOIN q USING (c)", schema=schema)
