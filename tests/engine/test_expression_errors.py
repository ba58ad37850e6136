"""Why an expression has no value for a row is said in Everview's words: kinds of failure, one by one."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pytest

import everview as ev
from everview.errors import DataError

COLUMNS = "i INT, l BIGINT, x DOUBLE, s STRING, p DECIMAL(38, 0), d DATE, ts TIMESTAMP, y BINARY, t TINYINT"
ROW = (2**31 - 1, 2**62, 1e300, "x%s", Decimal(10**37), date(2024, 1, 31), datetime(2024, 1, 31), b"\xff", -128)
FAILURES = [
    ("i / (i - i)", "division by zero"),
    ("i % (i - i)", "division by zero"),
    ("i + 1", r"2147483647 \+ 1 is out of range for INT"),
    ("l * 4", "is out of range for BIGINT"),
    ("p * 1000", "is out of range for DECIMAL"),
    ("abs(t)", "out of range|does not fit"),
    ("CAST(x AS INT)", "1e\\+300 does not fit into INT"),
    ("CAST(l AS INT)", "4611686018427387904 does not fit into INT"),
    ("CAST(i AS DECIMAL(4, 1))", r"2147483647 does not fit into DECIMAL\(4, 1\)"),
    ("CAST(s AS INT)", "'x%s' cannot be cast"),
    ("CAST(s AS DATE)", "'x%s' cannot be cast"),
    ("CAST(concat('2024-13-', day(d)) AS DATE)", "'2024-13-31' is no day or time that there is"),
    ("CAST(concat('2024-13-', day(d)) AS TIMESTAMP)", "'2024-13-31' is no day or time that there is"),
    ("make_date(2024, 2, day(d))", "a date or timestamp is out of range"),
    ("to_date(concat('2024-02-', day(d)), 'yyyy-MM-dd')", "a date or timestamp is out of range"),
    ("s RLIKE concat('(', s)", "is no regular expression"),
    ("split_part(s, 'l', day(d) - 31)", "split_part has no part 0"),
    ("CAST(y AS STRING)", "bytes are no text in UTF-8"),
]
LEAKS = (
    "Error",
    "INT32",
    "INT64",
    "VARCHAR",
    "BLOB",
    "DuckDB",
    "LINE",
    "try_cast",
    "explicit cast",
    "strptime",
    "everview:",
)


@pytest.mark.parametrize(("expression", "wanted"), FAILURES)
def test_a_failure_is_said_in_our_words(expression: str, wanted: str) -> None:
    db = ev.Database()
    db.sql(f"CREATE TABLE r ({COLUMNS}); CREATE MATERIALIZED VIEW v AS SELECT {expression} AS z FROM r")
    with pytest.raises(DataError, match=wanted) as refused:
        db.insert("r", [ROW])
    assert [word for word in LEAKS if word in str(refused.value)] == []
