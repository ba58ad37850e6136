"""Text that is JSON: values taken from it by a path, and what it has; Spark gives NULL for what is none."""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from everview.query.types import INT, STRING, array_of
from everview.sql.functions.entry import Call, function
from everview.sql.nodes import refused

_PATH: Final = re.compile(r"\$(\.[A-Za-z_]\w*|\[\d+\]|\['[^'\"\\]*'\])*")
"""Paths that mean the same to everybody: names and numbers, without wildcards."""


def _by_path(of: Call) -> exp.Expr:
    path = of.arguments[1]
    if not isinstance(path, exp.Literal) or not path.is_string or not _PATH.fullmatch(path.name):
        raise refused(of.name, "the path is a literal of names and numbers, as in '$.a.b[0]'")
    quoted = re.sub(r"\['([^']*)'\]", r'."\1"', path.name)
    return of.with_arguments(of.arguments[0], exp.Literal.string(quoted))


_IS_JSON: Final = "CASE WHEN json_valid(x) THEN {} END"

FUNCTIONS: Final = (
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
