"""Which expressions are taken to fail on some data."""

from __future__ import annotations

import pytest

from everview.query.terms import Expression, Var
from everview.query.types import BIGINT, DOUBLE, INT, STRING, DataType, decimal
from everview.sql.fallible import may_fail

A, B = Var("a"), Var("b")


@pytest.mark.parametrize(
    ("parts", "types", "expected"),
    [
        ((A,), (BIGINT,), False),
        ((A, " + 1"), (BIGINT,), True),
        ((A, " * ", B), (BIGINT, BIGINT), True),
        (("-", A), (BIGINT,), True),
        ((A, " % 10 = 0"), (BIGINT,), False),
        ((A, " % ", B), (BIGINT, BIGINT), True),
        ((A, " & ", B), (BIGINT, BIGINT), True),
        ((A, " & ", B), (INT, INT), False),
        ((A, " & 4 = 4"), (BIGINT,), False),
        ((A, " < ", B), (BIGINT, BIGINT), False),
        ((A, " + 1 < ", B), (BIGINT, BIGINT), True),
        ((A, " < ", B), (BIGINT, decimal(10, 2)), False),
        (("CAST(", A, " AS INT) = 1"), (BIGINT,), True),
        ((A, " IN (1, 2) AND NOT ", B, " IS NULL"), (BIGINT, BIGINT), False),
        ((A, " + ", B), (DOUBLE, DOUBLE), False),
        ((A, " * 2.5 - 1"), (DOUBLE,), False),
        ((A, " < '1'"), (DOUBLE,), True),
        ((A, " / ", B), (DOUBLE, DOUBLE), True),
        (("upper(", A, ") || 'x'"), (STRING,), False),
        (("CASE WHEN ", A, " LIKE 'a%' THEN ", A, " ELSE ", B, " END"), (STRING, STRING), False),
        ((A, " LIKE ", B), (STRING, STRING), True),
        ((A, " = 3"), (STRING,), True),
        (("CAST(", A, " AS BIGINT)"), (STRING,), True),
        ((A, " = ", B), (STRING, BIGINT), True),
    ],
    ids=lambda v: "".join(map(str, v)) if isinstance(v, tuple) and v and isinstance(v[0], str | Var) else None,
)
def test_may_fail(parts: tuple[str | Var, ...], types: tuple[DataType, ...], expected: bool) -> None:
    assert may_fail(Expression(parts), dict(zip((A, B), types, strict=False))) is expected
