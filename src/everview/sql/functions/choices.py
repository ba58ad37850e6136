"""Functions that choose one of their arguments, or ask whether there is a value at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from everview.query.types import BOOLEAN, DOUBLE, NULL, DataType, Kind
from everview.sql.functions.entry import Call, common, function, of_branches, same
from everview.sql.nodes import cast


def _as_doubles(arguments: Sequence[exp.Expr], types: Sequence[DataType | None]) -> list[exp.Expr]:
    pairs = zip(arguments, types, strict=True)
    return [cast(a, DOUBLE) if t is not None and t.kind is Kind.FLOAT else a for a, t in pairs]


def united(of: Call) -> exp.Expr | None:
    """A FLOAT among arguments that become a DOUBLE is one, as with operators; DuckDB would make the others FLOAT.

    Decimals of several scales are brought to that of the result.
    """
    if _has_scales(of.types):
        return of.with_arguments(*(cast(a, of.type) for a in of.arguments))
    if of.type.kind is not Kind.DOUBLE or not any(t is not None and t.kind is Kind.FLOAT for t in of.types):
        return None
    return of.with_arguments(*_as_doubles(of.arguments, of.types))


def _has_scales(types: Sequence[DataType | None]) -> bool:
    """True if there are decimals of several scales."""
    return len({t.scale for t in types if t is not None and t.kind is Kind.DECIMAL}) > 1


def _branches(of: Call) -> exp.Expr | None:
    if _has_scales(of.types[1:]):
        return of.with_arguments(of.arguments[0], *(cast(a, of.type) for a in of.arguments[1:]))
    if of.type.kind is not Kind.DOUBLE:
        return None
    return of.with_arguments(of.arguments[0], *_as_doubles(of.arguments[1:], of.types[1:]))


FUNCTIONS: Final = (
    function(
        "raise_error",
        "s",
        NULL,
        "if(i > 2147483647, raise_error(s), i)",
        macros={"spark_raise_error(s)": "error('everview: ' || s)"},
    ),
    function("coalesce", "x*", common, "coalesce(s, u, 'none')", "coalesce(i, x)", spelling=united),
    function("greatest", "x*", common, "greatest(i, n)", "greatest(x, z, 1)", "greatest(s, u)", spelling=united),
    function("least", "x*", common, "least(i, n)", "least(x, z, 1)", "least(s, u)", spelling=united),
    function("nvl ifnull", "x x", common, "nvl(i, 4)", "nvl(s, u)", "ifnull(i, 4)", spelling=united),
    function("nvl2", "x x x", of_branches, "nvl2(s, i, n)", "nvl2(i, s, 'none')", spelling=_branches),
    function("if", "b x x", of_branches, "if(b, s, u)", "if(i > 2, i, x)", spelling=_branches),
    function("nullif", "x x", same, "nullif(i, 3)", "nullif(s, '')", is_widened=True),
    function("nullifzero", "n", same, "nullifzero(i)", macros={"spark_nullifzero(x)": "nullif(x, 0)"}),
    function("zeroifnull", "n", same, "zeroifnull(i)", macros={"spark_zeroifnull(x)": "coalesce(x, 0)"}),
    function("isnull", "x", BOOLEAN, "isnull(s)", macros={"spark_isnull(x)": "x IS NULL"}),
    function("isnotnull", "x", BOOLEAN, "isnotnull(s)", macros={"spark_isnotnull(x)": "x IS NOT NULL"}),
    function(
        "equal_null",
        "x x",
        BOOLEAN,
        "equal_null(s, u)",
        "equal_null(i, n)",
        is_widened=True,
        is_padded=True,
    ),
    function(
        "isnan",
        "n",
        BOOLEAN,
        "isnan(x)",
        "isnan(sqrt(x))",
        macros={"spark_isnan(x)": "coalesce(isnan(CAST(x AS DOUBLE)), FALSE)"},
    ),
    function(
        "nanvl",
        "n n",
        common,
        "nanvl(sqrt(x), z)",
        macros={"spark_nanvl(a, b)": "CASE WHEN isnan(a) THEN b ELSE a END"},
        spelling=united,
    ),
)
