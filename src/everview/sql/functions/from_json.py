"""``from_json``: text that is JSON as a value of a type; what does not fit is NULL, field by field, as in Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp
from sqlglot.errors import SqlglotError

from everview.query.types import DataType, Kind
from everview.sql.datatypes import read_type
from everview.sql.dialect import EverviewSpark
from everview.sql.functions.entry import Call, function
from everview.sql.nodes import call, cast, refused
from everview.sql.sql_text import SqlText

_NUMBERS: Final = "('BIGINT', 'UBIGINT', 'HUGEINT', 'UHUGEINT')"
_TEXT: Final = "json_extract_string(j, '$')"
_READERS: Final = {
    Kind.BOOLEAN: "spark_json_as_boolean",
    Kind.FLOAT: "spark_json_as_double",
    Kind.DOUBLE: "spark_json_as_double",
    Kind.DECIMAL: "spark_json_as_number",
    Kind.STRING: "spark_json_as_text",
    Kind.BINARY: "spark_json_as_bytes",
    Kind.DATE: "spark_json_as_day",
    Kind.TIMESTAMP: "spark_json_as_moment",
    Kind.TIMESTAMP_NTZ: "spark_json_as_time",
}


def _named(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    """The type that the second argument says: as CAST writes it, or the fields of a struct."""
    schema = node.expressions[1]
    if not isinstance(schema, exp.Literal) or not schema.is_string:
        raise source.unsupported("from_json by other than a literal", schema, hint="write from_json(s, 'a INT')")
    found = _type(schema.name) or _type(f"STRUCT<{schema.name}>")
    type_ = None if found is None else read_type(found, source, schema)
    if type_ is None or not type_.is_nested:
        raise source.mismatch(
            f"'{schema.name}' is no type of a struct, an array or a map", schema, hint="write 'a INT, b STRING'"
        )
    return type_


def _type(text: str) -> exp.DataType | None:
    try:
        (parsed,) = EverviewSpark().parse(f"SELECT CAST(NULL AS {text})")
    except (SqlglotError, ValueError):
        return None
    if not isinstance(parsed, exp.Select) or [key for key, value in parsed.args.items() if value] != ["expressions"]:
        return None
    cast_ = parsed.expressions[0]
    is_one = len(parsed.expressions) == 1 and isinstance(cast_, exp.Cast) and isinstance(cast_.this, exp.Null)
    return cast_.to if is_one else None


def _read(of: Call) -> exp.Expr:
    text = of.arguments[0]
    root = call("spark_json_root", text)
    if of.type.kind is not Kind.STRUCT:
        return _value(root, of.type, 0)
    return exp.Case(ifs=[exp.If(this=call("spark_json_is_some", text), true=_fields(root, of.type, 0))])


def _value(json: exp.Expr, type_: DataType, depth: int) -> exp.Expr:
    """A JSON value in a type; NULL if it does not fit."""
    if type_.kind is Kind.STRUCT:
        return exp.Case(
            ifs=[exp.If(this=call("spark_json_is", json, _literal("OBJECT")), true=_fields(json, type_, depth))]
        )
    name = f"_p{depth}"
    part = exp.column(name)
    if type_.kind is Kind.ARRAY:
        elements = call("spark_json_elements", json)
        values = _over(elements, name, _value(part, type_.element, depth + 1))
        return call("spark_json_if_whole", values, elements)
    if type_.kind is Kind.MAP:
        if type_.parts[0].kind is not Kind.STRING:
            raise refused("from_json", "the keys of a map are texts")
        entries = call("spark_json_entries", json)
        value = call("struct_extract", part, _literal("value"))
        read = _over(entries, name, _value(value, type_.parts[1], depth + 1))
        keys = _over(entries, name, call("struct_extract", part, _literal("key")))
        whole = call("spark_json_if_whole", read, _over(entries, name, value))
        return call("spark_json_map", keys, whole)
    if type_.is_integer:
        return _tried(call("spark_json_as_whole", json), type_)
    reader = _READERS.get(type_.kind)
    if reader is None:
        raise refused("from_json", f"it does not know how {type_} is written")
    found = call(reader, json)
    return _tried(found, type_) if type_.kind in (Kind.DECIMAL, Kind.FLOAT) else found


def _fields(json: exp.Expr, type_: DataType, depth: int) -> exp.Expr:
    name = f"_p{depth}"
    fields: list[exp.Expr] = []
    for field, part in zip(type_.names, type_.parts, strict=True):
        path = _literal('$."' + field.replace('"', '\\"') + '"')
        fields += [_literal(field), cast(_value(call("spark_json_at", exp.column(name), path), part, depth + 1), part)]
    made = _over(call("list_value", json), name, call("named_struct", *fields))
    return call("list_extract", made, exp.Literal.number(1))


def _over(array: exp.Expr, name: str, body: exp.Expr) -> exp.Expr:
    return call("list_transform", array, exp.Lambda(this=body, expressions=[exp.to_identifier(name)]))


def _tried(node: exp.Expr, type_: DataType) -> exp.Expr:
    typed = cast(node, type_)
    return exp.TryCast(this=typed.this, to=typed.args["to"], safe=True)


def _literal(text: str) -> exp.Expr:
    return exp.Literal.string(text)


FUNCTIONS: Final = (
    function(
        "from_json",
        "s s",
        _named,
        'from_json(concat(\'{"a": \', i, \', "b": [\', n, \', 2], "c": {"d": "\', k, \'"}}\'), '
        "'a INT, b ARRAY<BIGINT>, c STRUCT<d: STRING>')",
        'from_json(\'{"a": "1", "b": 1.5, "c": [1, "x"], "d": {"e": true, "f": 1}}\', '
        "'a INT, b STRING, c ARRAY<INT>, d STRUCT<e: BOOLEAN, f: STRING>')",
        'from_json(\'{"a": 300, "b": 1e3, "c": "NaN", "d": 12.345, "e": "1.5", "f": null}\', '
        "'a TINYINT, b DOUBLE, c DOUBLE, d DECIMAL(6, 2), e DECIMAL(3, 1), f INT')",
        'from_json(\'{"a": "2024-02-29", "b": "2024-02-29T01:02:03", "d": 7, "e": "2024-02-29 05:06:07.5"}\', '
        "'a DATE, b TIMESTAMP, c DATE, d TIMESTAMP, e TIMESTAMP_NTZ')",
        'from_json(\'[{"a": 1}, {"a": "x"}, null]\', \'ARRAY<STRUCT<a: INT>>\')',
        "from_json('[1, 2.5]', 'ARRAY<INT>')",
        "from_json('{\"x\": 1, \"y\": null}', 'MAP<STRING, INT>')",
        'from_json(\'{"x": {"y": [1]}, "z": 3}\', \'MAP<STRING, STRING>\')',
        "from_json('[{\"a\": 1}, {\"a\": 2}]', 'a INT')",
        "from_json('no json', 'a INT, b STRING')",
        "from_json(s, 'a INT')",
        "from_json('[1', 'ARRAY<INT>')",
        'from_json(\'{"a": {"b": {"c": [[1, 2], [3]]}}}\', \'a STRUCT<b: STRUCT<c: ARRAY<ARRAY<INT>>>>\').a.b.c[0][1]',
        macros={
            "spark_json_is_some(x)": "trim(x) <> ''",
            "spark_json_root(x)": "CASE WHEN json_valid(x) THEN CAST(x AS JSON) END",
            "spark_json_is(j, kind)": "json_type(j) = kind",
            "spark_json_at(j, path)": "json_extract(j, path)",
            "spark_json_elements(j)": "CASE WHEN json_type(j) = 'ARRAY' THEN CAST(j AS JSON[]) END",
            "spark_json_entries(j)": "CASE WHEN json_type(j) = 'OBJECT' THEN "
            "map_entries(CAST(j AS MAP(VARCHAR, JSON))) END",
            "spark_json_if_whole(values, elements)": "CASE WHEN list_count(values) = "
            "len(list_filter(elements, lambda e: json_type(e) <> 'NULL')) THEN values END",
            "spark_json_map(keys, values)": "CASE WHEN values IS NOT NULL THEN map(keys, values) END",
            "spark_json_as_boolean(j)": "CASE WHEN json_type(j) = 'BOOLEAN' THEN CAST(j AS BOOLEAN) END",
            "spark_json_as_whole(j)": f"CASE WHEN json_type(j) IN {_NUMBERS} THEN {_TEXT} END",
            "spark_json_as_number(j)": f"CASE WHEN json_type(j) IN {_NUMBERS} OR json_type(j) = 'DOUBLE' "
            f"OR (json_type(j) = 'VARCHAR' AND NOT contains({_TEXT}, ' ')) THEN spark_read_decimal({_TEXT}, TRUE) END",
            "spark_json_as_double(j)": f"CASE WHEN json_type(j) IN {_NUMBERS} OR json_type(j) = 'DOUBLE' "
            f"THEN CAST({_TEXT} AS DOUBLE) WHEN json_type(j) = 'VARCHAR' THEN CASE "
            f"WHEN {_TEXT} = 'NaN' THEN CAST('nan' AS DOUBLE) WHEN {_TEXT} IN ('Infinity', '+Infinity', '+INF') "
            f"THEN CAST('inf' AS DOUBLE) WHEN {_TEXT} IN ('-Infinity', '-INF') THEN CAST('-inf' AS DOUBLE) END END",
            "spark_json_as_text(j)": f"CASE WHEN json_type(j) <> 'NULL' THEN {_TEXT} END",
            "spark_json_as_bytes(j)": f"CASE WHEN json_type(j) = 'VARCHAR' THEN TRY(from_base64({_TEXT})) END",
            "spark_json_as_day(j)": f"CASE WHEN json_type(j) = 'VARCHAR' THEN "
            f"TRY_CAST(spark_read_date({_TEXT}, TRUE) AS DATE) END",
            "spark_json_as_moment(j)": f"CASE WHEN json_type(j) = 'VARCHAR' THEN "
            f"TRY_CAST(spark_read_timestamp({_TEXT}, TRUE) AS TIMESTAMPTZ) WHEN json_type(j) IN {_NUMBERS} "
            f"THEN TRY(make_timestamptz(CAST({_TEXT} AS BIGINT) * 1000000)) END",
            "spark_json_as_time(j)": f"CASE WHEN json_type(j) = 'VARCHAR' THEN "
            f"TRY_CAST(spark_read_timestamp({_TEXT}, TRUE) AS TIMESTAMP) END",
        },
        spelling=_read,
    ),
)
