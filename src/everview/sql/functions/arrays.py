"""Functions of whole arrays: what is in them, in which order, and arrays made from others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sqlglot import exp

from everview.query.types import BIGINT, BOOLEAN, STRING, DataType, Kind, array_of, common_type, struct_of
from everview.sql.functions.elements import ROW, TEXTS, alike, as_type, plain, united_in, with_value
from everview.sql.functions.entry import Call, function, same
from everview.sql.nodes import call, refused
from everview.sql.sql_text import SqlText


def _united(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    found = united_in(node.expressions, types, source, "the arrays")
    if not found.has_order:
        raise source.mismatch(f"{found} cannot be compared", node, hint="a MAP has no order")
    return found


def _united_true(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    _united(node, types, source)
    return BOOLEAN


def _in_order(result: Callable[[DataType], DataType]) -> Callable[..., DataType]:
    def rule(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
        if types[0].is_open:
            return types[0]
        if types[0].element.is_nested:
            raise source.unsupported(
                f"{node.name.lower()} of {types[0]}", node, hint="put plain values in order: transform(a, x -> x.field)"
            )
        return result(types[0])

    return rule


def _ordered_whole(type_: DataType) -> DataType:
    return type_


def _ordered_element(type_: DataType) -> DataType:
    return type_.element


def _all_in_common(of: Call) -> exp.Expr:
    """All arrays in the type that they have in common."""
    known = [t for t in of.types if t is not None]
    wanted = known[0] if known else of.type
    for type_ in known[1:]:
        wanted = common_type(wanted, type_) or wanted
    return of.with_arguments(*(as_type(a, t, wanted) for a, t in zip(of.arguments, of.types, strict=True)))


def _joined(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    if not types[0].is_open and types[0].element.kind not in (Kind.STRING, Kind.NULL):
        raise source.mismatch(
            f"array_join takes an array of strings, and this is {types[0]}",
            node.expressions[0],
            hint="write transform(a, x -> CAST(x AS STRING))",
        )
    return STRING


def _join(of: Call) -> exp.Expr:
    array, mark, *other = of.arguments
    return call("spark_array_join", array, mark) if not other else call("spark_array_join_all", array, mark, *other)


def _sorted(of: Call) -> exp.Expr:
    way = of.arguments[1] if len(of.arguments) > 1 else exp.Boolean(this=True)
    if not isinstance(way, exp.Boolean):
        raise refused("sort_array", "its second argument is true or false")
    return call("spark_sort_array" if way.this else "spark_sort_array_down", of.arguments[0])


def _zipped(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    """Fields are called as the arrays are, or by their places."""
    fields = [(n, t.element if t.kind is Kind.ARRAY else t) for n, t in zip(_field_names(node), types, strict=True)]
    return array_of(struct_of(fields))


def _field_names(node: exp.Anonymous) -> list[str]:
    return [e.name if isinstance(e, exp.Column) else str(i) for i, e in enumerate(node.expressions)]


def _zip(of: Call) -> exp.Expr:
    """A struct for each place; beyond an array's end its field is NULL."""
    place = exp.to_identifier("place")
    names = of.type.element.names
    named = zip(names, of.arguments, strict=True)
    fields = [p for n, a in named for p in (exp.Literal.string(n), call("list_extract", a, place))]
    longest = call("greatest", *(call("len", a) for a in of.arguments))
    places = call("generate_series", exp.Literal.number(1), longest)
    found = call("list_transform", places, exp.Lambda(this=call("named_struct", *fields), expressions=[place]))
    missing = exp.or_(*(exp.Is(this=exp.paren(a.copy()), expression=exp.Null()) for a in of.arguments))
    return exp.Case(ifs=[exp.If(this=missing, true=exp.Null())], default=found)


_CONTAINS: Final = (
    "CASE WHEN a IS NULL OR v IS NULL THEN NULL WHEN list_contains(a, v) THEN TRUE "
    "WHEN list_count(a) < len(a) THEN NULL ELSE FALSE END"
)
_DISTINCT: Final = "list_filter(a, lambda e, i: coalesce(list_position(a, e), 0) = i)"
_JOINED: Final = "CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE list_concat(a, b) END"
_HAS: Final = "coalesce(list_position(b, e), 0) > 0"
_OVERLAP: Final = (
    "CASE WHEN a IS NULL OR b IS NULL THEN NULL "
    "WHEN len(list_filter(a, lambda e: e IS NOT NULL AND list_contains(b, e))) > 0 THEN TRUE "
    "WHEN len(a) > 0 AND len(b) > 0 AND (list_count(a) < len(a) OR list_count(b) < len(b)) THEN NULL ELSE FALSE END"
)

FUNCTIONS: Final = (
    function(
        "arrays_zip",
        "a a*",
        _zipped,
        f"arrays_zip({ROW}, {TEXTS})",
        "arrays_zip(array(i, 2), array(x))",
        spelling=_zip,
    ),
    plain(
        "array_contains",
        "a x",
        alike(BOOLEAN),
        _CONTAINS,
        f"array_contains({ROW}, 3)",
        f"array_contains({TEXTS}, u)",
        "array_contains(array(1, 2), l)",
        "array_contains(array(1.5), 2)",
        spelling=with_value,
    ),
    plain("array_distinct", "a", same, _DISTINCT, f"array_distinct({ROW})", f"array_distinct({TEXTS})"),
    plain(
        "array_sort",
        "a",
        _in_order(_ordered_whole),
        "list_sort(a, 'ASC', 'NULLS LAST')",
        f"array_sort({ROW})",
        f"array_sort({TEXTS})",
        "array_sort(array(x, z, sqrt(x)))",
    ),
    function(
        "sort_array",
        "a b?",
        _in_order(_ordered_whole),
        f"sort_array({ROW})",
        f"sort_array({TEXTS}, false)",
        f"sort_array({ROW}, true)",
        macros={
            "spark_sort_array(a)": "list_sort(a, 'ASC', 'NULLS FIRST')",
            "spark_sort_array_down(a)": "list_sort(a, 'DESC', 'NULLS LAST')",
        },
        spelling=_sorted,
    ),
    function(
        "array_join",
        "a s s?",
        _joined,
        f"array_join({TEXTS}, '-')",
        f"array_join({TEXTS}, u, '*')",
        "array_join(CAST(array() AS ARRAY<STRING>), ',')",
        macros={
            "spark_array_join(a, mark)": "CASE WHEN a IS NULL OR mark IS NULL THEN NULL WHEN list_count(a) = 0 THEN "
            "'' ELSE list_reduce(list_filter(a, lambda e: e IS NOT NULL), lambda t, e: t || mark || e) END",
            "spark_array_join_all(a, mark, other)": "CASE WHEN mark IS NOT NULL AND other IS NOT NULL THEN "
            "spark_array_join(list_transform(a, lambda e: coalesce(e, other)), mark) END",
        },
        spelling=_join,
    ),
    plain(
        "array_max",
        "a",
        _in_order(_ordered_element),
        "list_max(a)",
        f"array_max({ROW})",
        f"array_max({TEXTS})",
        "array_max(array(x, z, sqrt(x)))",
    ),
    plain(
        "array_min",
        "a",
        _in_order(_ordered_element),
        "list_min(a)",
        f"array_min({ROW})",
        f"array_min({TEXTS})",
        "array_min(array(x, z, sqrt(x)))",
    ),
    plain(
        "array_position",
        "a x",
        alike(BIGINT),
        "CASE WHEN a IS NOT NULL AND v IS NOT NULL THEN CAST(coalesce(list_position(a, v), 0) AS BIGINT) END",
        f"array_position({ROW}, 3)",
        f"array_position({TEXTS}, u)",
        spelling=with_value,
    ),
    plain(
        "array_remove",
        "a x",
        alike(None),
        "CASE WHEN v IS NOT NULL THEN list_filter(a, lambda e: e IS DISTINCT FROM v) END",
        f"array_remove({ROW}, n)",
        f"array_remove({TEXTS}, 'b')",
        spelling=with_value,
    ),
    plain(
        "array_union",
        "a a",
        _united,
        {"spark_joined(a, b)": _JOINED, "spark_array_union(a, b)": "spark_array_distinct(spark_joined(a, b))"},
        f"array_union({ROW}, array(7, n))",
        f"array_union({TEXTS}, array('b'))",
        "array_union(array(1), array(l))",
        spelling=_all_in_common,
    ),
    plain(
        "array_intersect",
        "a a",
        _united,
        f"CASE WHEN b IS NOT NULL THEN list_filter(spark_array_distinct(a), lambda e: {_HAS}) END",
        f"array_intersect({ROW}, array(n, NULL, 3))",
        spelling=_all_in_common,
    ),
    plain(
        "array_except",
        "a a",
        _united,
        f"CASE WHEN b IS NOT NULL THEN list_filter(spark_array_distinct(a), lambda e: NOT {_HAS}) END",
        f"array_except({ROW}, array(n, 3))",
        f"array_except({ROW}, array(n, NULL))",
        spelling=_all_in_common,
    ),
    plain(
        "arrays_overlap",
        "a a",
        _united_true,
        _OVERLAP,
        f"arrays_overlap({ROW}, array(n, 3))",
        f"arrays_overlap({ROW}, array(99))",
        "arrays_overlap(array(1), array(2))",
        spelling=_all_in_common,
    ),
    plain(
        "array_compact",
        "a",
        same,
        "list_filter(a, lambda e: e IS NOT NULL)",
        f"array_compact({ROW})",
        f"array_compact({TEXTS})",
    ),
)
