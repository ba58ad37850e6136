"""Text that is JSON: values taken from it by a path, and what it has; Spark gives NULL for what is none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from everview.query.types import INT, STRING, DataType, Kind, array_of
from everview.sql.functions.entry import Call, function
from everview.sql.nodes import call, cast, refused
from everview.sql.sql_text import SqlText

_PATH: Final = re.compile(r"\$(\.[A-Za-z_]\w*|\[\d+\]|\['[^'\"\\]*'\])*")
"""Paths that mean the same to everybody: names and numbers, without wildcards."""


def _by_path(of: Call) -> exp.Expr:
    path = of.arguments[1]
    if not isinstance(path, exp.Literal) or not path.is_string or not _PATH.fullmatch(path.name):
        raise refused(of.name, "the path is a literal of names and numbers, as in '$.a.b[0]'")
    quoted = re.sub(r"\['([^']*)'\]", r'."\1"', path.name)
    return of.with_arguments(of.arguments[0], exp.Literal.string(quoted))


_AS_TEXT: Final = (Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.DECIMAL)
_TIMES: Final = {
    Kind.DATE: "%Y-%m-%d",
    Kind.TIMESTAMP: "%Y-%m-%dT%H:%M:%S.%gZ",
    Kind.TIMESTAMP_NTZ: "%Y-%m-%dT%H:%M:%S.%g",
}


def _to_json(of: Call) -> exp.Expr:
    type_ = of.types[0]
    if type_ is None:
        raise refused("to_json", "the type of its argument is not known")
    return _written(of.arguments[0], type_, 0)


def _written(value: exp.Expr, type_: DataType, depth: int) -> exp.Expr:
    """A value of a type as JSON; NULL if it is NULL."""
    if type_.kind in _AS_TEXT:
        return cast(value, STRING)
    if type_.kind is Kind.BOOLEAN:
        return call("spark_json_truth", value)
    if type_.kind in (Kind.FLOAT, Kind.DOUBLE):
        return call("spark_json_number", value)
    if type_.kind in _TIMES:
        plain = cast(value, DataType(Kind.TIMESTAMP_NTZ))
        return call("spark_json_text", call("strftime", plain, exp.Literal.string(_TIMES[type_.kind])))
    if type_.kind is Kind.BINARY:
        return call("spark_json_bytes", value)
    name = f"_j{depth}"
    part = exp.column(name)

    def over(array: exp.Expr, body: exp.Expr) -> exp.Expr:
        return call("list_transform", array, exp.Lambda(this=body, expressions=[exp.to_identifier(name)]))

    if type_.kind is Kind.ARRAY:
        return call("spark_json_array", over(value, _or_null(_written(part, type_.element, depth + 1))))
    if type_.kind is Kind.MAP:
        key, of_key = (call("struct_extract", part, exp.Literal.string(n)) for n in ("value", "key"))
        if type_.parts[0].kind is not Kind.STRING:
            raise refused("to_json", "the keys of a map are texts")
        field = call("spark_json_field", of_key, _or_null(_written(key, type_.parts[1], depth + 1)))
        return call("spark_json_object", over(call("map_entries", value), field))
    if type_.kind is Kind.STRUCT:
        fields = []
        for name_, of in zip(type_.names, type_.parts, strict=True):
            inner = call("struct_extract", part, exp.Literal.string(name_))
            fields.append(call("spark_json_field", exp.Literal.string(name_), _written(inner, of, depth + 1)))
        made = over(call("list_value", value), call("spark_json_object", call("list_value", *fields)))
        is_there = exp.Not(this=exp.Is(this=exp.paren(value.copy()), expression=exp.Null()))
        return exp.Case(ifs=[exp.If(this=is_there, true=call("list_extract", made, exp.Literal.number(1)))])
    return call("spark_json_text", value)


def _or_null(text: exp.Expr) -> exp.Expr:
    return call("coalesce", text, exp.Literal.string("null"))


def _json_of(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    if not (types[0].is_nested or types[0].is_open):
        raise source.mismatch(
            f"to_json takes a struct, an array or a map, and this is {types[0]}",
            node.expressions[0],
            hint="write to_json(struct(x))",
        )
    return STRING


_IS_JSON: Final = "CASE WHEN json_valid(x) THEN {} END"

FUNCTIONS: Final = (
    function(
        "to_json",
        "x",
        _json_of,
        "to_json(named_struct('i', i, 's', s, 'x', x, 'p', p, 'd', d, 'b', b, 'y', y, 't', t, 'n', NULL))",
        "to_json(array(n, NULL, 3))",
        "to_json(map('k', l, concat('a \"', coalesce(u, '')), NULL))",
        "to_json(array(named_struct('a', ts, 'b', array(named_struct('c', z)))))",
        "to_json(CAST(NULL AS STRUCT<a: INT>))",
        macros={
            "spark_json_text(x)": "CAST(to_json(CAST(x AS VARCHAR)) AS VARCHAR)",
            "spark_json_bytes(x)": "'\"' || to_base64(x) || '\"'",
            "spark_json_truth(x)": "CASE x WHEN TRUE THEN 'true' WHEN FALSE THEN 'false' END",
            "spark_json_quote(x)": "CASE WHEN isfinite(x) THEN '' ELSE '\"' END",
            "spark_json_number(x)": "spark_json_quote(x) || spark_fraction(x) || spark_json_quote(x)",
            "spark_json_field(name, x)": "spark_json_text(name) || ':' || x",
            "spark_json_array(l)": "'[' || coalesce(array_to_string(l, ','), '') || ']'",
            "spark_json_object(l)": "'{' || array_to_string(list_filter(l, lambda f: f IS NOT NULL), ',') || '}'",
        },
        spelling=_to_json,
    ),
    function(
        "get_json_object",
        "s s",
        STRING,
        "get_json_object(concat('{\"a\": {\"b\": [', i, ', \"', k, '\"]}, \"c\": null}'), '$.a.b[0]')",
        'get_json_object(\'{"a": {"b": [1, "x"], "c d": true}}\', \'$.a\')',
        'get_json_object(\'{"a": {"b": [1, "x"], "c d": true}}\', \'$.a.b[1]\')',
        'get_json_object(\'{"a": {"b": [1, "x"], "c d": true}}\', \'$.a[\\\'c d\\\']\')',
        "get_json_object('{\"a\": null}', '$.a')",
        "get_json_object(concat('{\"a\": \"', u, '\"}'), '$.a')",
        "get_json_object(s, '$.a')",
        macros={"spark_get_json_object(x, path)": _IS_JSON.format("json_extract_string(x, path)")},
        spelling=_by_path,
    ),
    function(
        "json_array_length",
        "s",
        INT,
        "json_array_length(concat('[', i, ', [1, 2]]'))",
        "json_array_length('{\"a\": 1}')",
        "json_array_length(s)",
        macros={
            "spark_json_array_length(x)": _IS_JSON.format(
                "CASE WHEN json_type(x) = 'ARRAY' THEN CAST(json_array_length(x) AS INTEGER) END"
            )
        },
    ),
    function(
        "json_object_keys",
        "s",
        array_of(STRING),
        'json_object_keys(concat(\'{"b": 1, "a": {"c": \', i, \'}}\'))',
        "json_object_keys('[1]')",
        "json_object_keys(s)",
        macros={
            "spark_json_object_keys(x)": _IS_JSON.format("CASE WHEN json_type(x) = 'OBJECT' THEN json_keys(x) END")
        },
    ),
)
