"""Functions that take a lambda, over the elements of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sqlglot import exp

from everview.query.types import BOOLEAN, INT, DataType, Kind, array_of
from everview.sql.functions.elements import ROW, TEXTS
from everview.sql.functions.entry import Call, function
from everview.sql.nodes import call, cast, refused
from everview.sql.parts import with_values
from everview.sql.sql_text import SqlText


def _of_elements(types: Sequence[DataType]) -> tuple[DataType, ...]:
    """An element and its place."""
    return (types[0].element, INT) if types[0].kind is Kind.ARRAY else (types[0], INT)


def _of_both(types: Sequence[DataType]) -> tuple[DataType, ...]:
    return tuple(t.element if t.kind is Kind.ARRAY else t for t in types[:2])


def _of_sums(types: Sequence[DataType]) -> tuple[DataType, ...]:
    """What was aggregated so far and an element, or the result alone."""
    return (types[1],) if len(types) > 2 else (types[1], *_of_elements(types)[:1])


def elementwise(of: Call) -> tuple[exp.Expr, exp.Expr]:
    """An array and a lambda over it, whose second variable counts from 0."""
    array, function_ = of.arguments
    if not isinstance(function_, exp.Lambda) or len(function_.expressions) < 2:
        return array, function_
    place = function_.expressions[1]
    before = exp.Sub(this=exp.column(place.name), expression=exp.Literal.number(1))
    values = [exp.to_identifier(function_.expressions[0].name), exp.Paren(this=cast(exp.paren(before), INT))]
    body = with_values(function_, values)
    return array, exp.Lambda(this=body, expressions=[p.copy() for p in function_.expressions])


def _by(duckdb: str, around: str = "") -> Callable[[Call], exp.Expr]:
    def spelled(of: Call) -> exp.Expr:
        found = call(duckdb, *elementwise(of))
        return call(around, found) if around else found

    return spelled


def _filtered(of: Call) -> exp.Expr:
    array, function_ = elementwise(of)
    body = call("coalesce", function_.this, exp.Boolean(this=False))
    return call("list_filter", array, exp.Lambda(this=body, expressions=[p.copy() for p in function_.expressions]))


def _transformed(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    return array_of(types[1])


def _conditioned(result: DataType | None) -> Callable[..., DataType]:
    def rule(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
        if not (types[1].kind is Kind.BOOLEAN or types[1].is_open):
            raise source.mismatch(
                f"{node.name.lower()} needs a condition, and this is {types[1]}", node.expressions[1].this
            )
        return result or types[0]

    return rule


def _aggregated(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    if types[2] != types[1]:
        raise source.mismatch(
            f"{node.name.lower()} begins with {types[1]}, and its lambda gives {types[2]}",
            node.expressions[2].this,
            hint=f"CAST the beginning: CAST(0 AS {types[2]})",
        )
    return types[3] if len(types) > 3 else types[2]


def _reduced(of: Call) -> exp.Expr:
    array, start, merge, *finish = of.arguments
    type_ = of.types[1]
    found = call("list_reduce", array, merge, cast(start, type_) if type_ is not None else start)
    return with_values(finish[0], [found]) if finish and isinstance(finish[0], exp.Lambda) else found


def _zipped(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    return array_of(types[2])


def _zip(of: Call) -> exp.Expr:
    """Pairs of two arrays, the shorter one filled up with NULLs, and a lambda over both."""
    first, second, function_ = of.arguments
    assert isinstance(function_, exp.Lambda)
    if len(function_.expressions) != 2:
        raise refused("zip_with", "its lambda has two variables")
    pair = function_.expressions[0].name
    values = [call("struct_extract_at", exp.to_identifier(pair), exp.Literal.number(n)) for n in (1, 2)]
    body = with_values(function_, values)
    pairs = call("spark_zip", first, second)
    return call("list_transform", pairs, exp.Lambda(this=body, expressions=[exp.to_identifier(pair)]))


FUNCTIONS: Final = (
    function(
        "transform",
        "a f",
        _transformed,
        f"transform({ROW}, x -> x - 1)",
        f"transform({ROW}, (x, i) -> x * i)",
        f"transform({TEXTS}, x -> concat(x, s))",
        "transform(array(1, 2), x -> transform(array(3, 4), y -> x * y + n))",
        spelling=_by("list_transform"),
        binds=_of_elements,
    ),
    function(
        "filter",
        "a f",
        _conditioned(None),
        f"filter({ROW}, x -> x > 1)",
        f"filter({ROW}, (x, i) -> i < 2)",
        f"filter({TEXTS}, x -> x = s)",
        spelling=_filtered,
        binds=_of_elements,
    ),
    function(
        "exists",
        "a f",
        _conditioned(BOOLEAN),
        f"exists({ROW}, x -> x > 2)",
        f"exists({ROW}, x -> x > 99)",
        "exists(array(1, 2), x -> x > 5)",
        macros={
            "spark_any(a)": "CASE WHEN list_contains(a, TRUE) THEN TRUE WHEN list_count(a) < len(a) THEN NULL "
            "WHEN a IS NOT NULL THEN FALSE END"
        },
        spelling=_by("list_transform", "spark_any"),
        binds=_of_elements,
    ),
    function(
        "forall",
        "a f",
        _conditioned(BOOLEAN),
        f"forall({ROW}, x -> x > 2)",
        f"forall({ROW}, x -> x < 99)",
        "forall(array(1, 2), x -> x < 5)",
        macros={
            "spark_every(a)": "CASE WHEN list_contains(a, FALSE) THEN FALSE WHEN list_count(a) < len(a) THEN NULL "
            "WHEN a IS NOT NULL THEN TRUE END"
        },
        spelling=_by("list_transform", "spark_every"),
        binds=_of_elements,
    ),
    function(
        "aggregate reduce",
        "a x f f?",
        _aggregated,
        "aggregate(array(1, n, 3), 0, (sum, x) -> sum + x)",
        f"aggregate({ROW}, 0, (sum, x) -> sum + coalesce(x % 9, 1), sum -> sum * 10)",
        f"aggregate({TEXTS}, '', (t, x) -> concat(t, coalesce(x, '-')))",
        "reduce(array(i, n), CAST(0 AS BIGINT), (sum, x) -> sum + x)",
        spelling=_reduced,
        binds=_of_sums,
    ),
    function(
        "zip_with",
        "a a f",
        _zipped,
        f"zip_with({ROW}, array(1, 2), (x, y) -> coalesce(x % 9, 0) + y)",
        f"zip_with({TEXTS}, array(1), (x, y) -> concat(x, coalesce(y, 0)))",
        macros={
            "spark_zip(a, b)": "CASE WHEN a IS NOT NULL AND b IS NOT NULL THEN list_zip(a, b) END",
        },
        spelling=_zip,
        binds=_of_both,
    ),
)
