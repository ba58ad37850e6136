"""Functions of maps and structs: what they are made of, and maps made from others, in the order of their keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sqlglot import exp

from everview.query.types import BOOLEAN, STRING, DataType, Kind, array_of, common_type, map_of, struct_of
from everview.sql.functions.elements import as_type, united_in
from everview.sql.functions.entry import Call, function
from everview.sql.nodes import call, refused
from everview.sql.parts import with_values
from everview.sql.sql_text import SqlText

_PLAIN_MARK: Final = frozenset(r"\^$.|?*+()[]{}")


def _odd(nodes: Sequence[exp.Expr], types: Sequence[DataType], name: str, node: exp.Expr, source: SqlText) -> None:
    if len(nodes) % 2:
        raise source.mismatch(f"{name} takes pairs, and here are {len(nodes)} arguments", node)


def _map(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    _odd(node.expressions, types, "map", node, source)
    keys, values = (
        united_in(node.expressions[i::2], types[i::2], source, what)
        for i, what in enumerate(("the keys of a map", "the values of a map"))
    )
    return _keyed(keys, values, node, source)


def _keyed(key: DataType, value: DataType, node: exp.Expr, source: SqlText) -> DataType:
    if key.kind is Kind.NULL:
        raise source.mismatch("a map has keys that are not NULL", node, hint="give it a key: map(1, NULL)")
    if not key.has_order:
        raise source.mismatch(f"{key} cannot be the key of a MAP", node, hint="use a type without MAP")
    return map_of(key, value)


def _made(of: Call) -> exp.Expr:
    lists = []
    for i, part in enumerate(of.type.parts):
        pairs = zip(of.arguments[i::2], of.types[i::2], strict=True)
        lists.append(call("list_value", *(as_type(a, t, part) for a, t in pairs)))
    return call("spark_map", *lists)


def _struct(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    _odd(node.expressions, types, "named_struct", node, source)
    names = node.expressions[::2]
    for name in names:
        if not (isinstance(name, exp.Literal) and name.is_string):
            raise source.mismatch("the name of a field is written as a text", name, hint="named_struct('a', 1)")
    known = [n.name.lower() for n in names]
    if len(set(known)) < len(known):
        raise source.mismatch("two fields of a STRUCT have one name", node, hint="rename one of them")
    return struct_of(zip((n.name for n in names), types[1::2], strict=True))


def _with_fields(of: Call) -> exp.Expr:
    values = zip(of.arguments[1::2], of.types[1::2], of.type.parts, strict=True)
    typed = [as_type(a, t, part) if isinstance(a, exp.Literal) else a for a, t, part in values]
    return call("named_struct", *(a for pair in zip(of.arguments[::2], typed, strict=True) for a in pair))


def _of_arrays(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    if any(t.is_open for t in types):
        return types[0]
    return _keyed(types[0].element, types[1].element, node, source)


def _of_entries(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    type_ = types[0]
    if type_.is_open:
        return type_
    if type_.element.kind is not Kind.STRUCT or len(type_.element.parts) != 2:
        raise source.mismatch(
            f"map_from_entries takes an array of structs of two fields, and this is {type_}", node.expressions[0]
        )
    return _keyed(*type_.element.parts, node, source)


def _part(place: int) -> Callable[[exp.Anonymous, Sequence[DataType], SqlText], DataType]:
    def rule(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
        return types[0] if types[0].is_open else array_of(types[0].parts[place])

    return rule


def _entries(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    type_ = types[0]
    return type_ if type_.is_open else array_of(struct_of(zip(("key", "value"), type_.parts, strict=True)))


def _ordered(of: Call) -> None:
    if of.first_type is not None and of.first_type.kind is Kind.MAP and of.first_type.parts[0].is_nested:
        raise refused(f"{of.name} of {of.first_type}", "keys that are nested values are not put in order")


def _together(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    return united_in(node.expressions, types, source, "the maps")


def _has(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    if not types[0].is_open and common_type(types[0].parts[0], types[1]) is None:
        raise source.mismatch(f"the keys are {types[0].parts[0]}, and this is {types[1]}", node.expressions[1])
    return BOOLEAN


def _of_pairs(types: Sequence[DataType]) -> tuple[DataType, ...]:
    return types[0].parts if types[0].kind is Kind.MAP else (types[0], types[0])


def _other_keys(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    return types[0] if types[0].is_open else _keyed(types[1], types[0].parts[1], node, source)


def _other_values(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    return types[0] if types[0].is_open else map_of(types[0].parts[0], types[1])


def _condition(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    if not (types[1].kind is Kind.BOOLEAN or types[1].is_open):
        raise source.mismatch(f"map_filter needs a condition, and this is {types[1]}", node.expressions[1].this)
    return types[0]


def _over_entries(by: str) -> Callable[[Call], exp.Expr]:
    """A lambda of a key and a value as one over entries."""

    def spelled(of: Call) -> exp.Expr:
        map_, function_ = of.arguments
        assert isinstance(function_, exp.Lambda)
        if len(function_.expressions) != 2:
            raise refused(of.name, "its lambda has two variables: (key, value) -> …")
        entry = exp.to_identifier(function_.expressions[0].name)
        key, value = (call("struct_extract", entry, exp.Literal.string(name)) for name in ("key", "value"))
        made = with_values(function_, (key, value))
        if by != "filter":
            fields = (made, value) if by == "key" else (key, made)
            names = [exp.Literal.string(n) for n in ("key", "value")]
            made = call("named_struct", names[0], fields[0], names[1], fields[1])
        else:
            made = call("coalesce", made, exp.Boolean(this=False))
        found = exp.Lambda(this=made, expressions=[entry])
        list_function = "list_filter" if by == "filter" else "list_transform"
        return call("map_from_entries", call(list_function, call("map_entries", map_), found))

    return spelled


def _of_two_maps(types: Sequence[DataType]) -> tuple[DataType, ...]:
    first, second = ((t.parts if t.kind is Kind.MAP else (t, t)) for t in types[:2])
    return first[0], first[1], second[1]


def _zipped(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    if any(t.is_open for t in types[:2]):
        return types[0]
    if types[0].parts[0] != types[1].parts[0]:
        raise source.mismatch(
            f"the keys are {types[0].parts[0]} and {types[1].parts[0]}", node, hint="CAST one of the maps"
        )
    return _keyed(types[0].parts[0], types[2], node, source)


def _zip(of: Call) -> exp.Expr:
    """A lambda of each key that one of two maps has, and the value beside it in each."""
    first, second, function_ = of.arguments
    assert isinstance(function_, exp.Lambda)
    if len(function_.expressions) != 3:
        raise refused(of.name, "its lambda has three variables: (key, value1, value2) -> …")
    key = exp.to_identifier(function_.expressions[0].name)
    made = with_values(function_, [key, *(call("spark_value_at", m, key) for m in (first, second))])
    names = [exp.Literal.string(n) for n in ("key", "value")]
    entry = exp.Lambda(this=call("named_struct", names[0], key, names[1], made), expressions=[key.copy()])
    return call("map_from_entries", call("list_transform", call("spark_keys_of_both", first, second), entry))


def _split_to_map(of: Call) -> exp.Expr:
    for mark in of.arguments[1:]:
        if not isinstance(mark, exp.Literal) or not mark.name or _PLAIN_MARK.intersection(mark.name):
            raise refused("str_to_map", "what separates entries is a literal without signs of regular expressions")
    marks = [*of.arguments[1:], *(exp.Literal.string(m) for m in (",", ":")[len(of.arguments) - 1 :])]
    return of.with_arguments(of.arguments[0], *marks)


def _folded(name: str, of: Call) -> exp.Expr:
    found, *others = of.arguments
    for other in others:
        found = call(name, found, other)
    return found


_M: Final = "map('a', i, 'b', n, 'c', NULL)"

FUNCTIONS: Final = (
    function(
        "map",
        "x?*",
        _map,
        "map('a', i, 'b', 2)",
        "map(1, s, 2, u)",
        "map('a', array(i), 'b', NULL)",
        "map(1, 1, 2, 2.5)",
        macros={"spark_map(k, v)": "map(k, v)"},
        spelling=_made,
    ),
    function(
        "named_struct",
        "x*",
        _struct,
        "named_struct('a', i, 'b', s)",
        "named_struct('a', NULL, 'b', named_struct('c', 1, 'd', x))",
        "named_struct('a', array(1, i))",
        spelling=_with_fields,
    ),
    function(
        "map_from_arrays",
        "a a",
        _of_arrays,
        "map_from_arrays(array(1, 2), array(s, u))",
        macros={
            "spark_map_from_arrays(k, v)": "CASE WHEN k IS NULL OR v IS NULL THEN NULL WHEN len(k) <> len(v) THEN "
            "error('everview: map_from_arrays takes as many keys as values') ELSE map(k, v) END"
        },
    ),
    function(
        "map_from_entries",
        "a",
        _of_entries,
        "map_from_entries(array(named_struct('k', 1, 'v', s), named_struct('k', 2, 'v', u)))",
        macros={
            "spark_map_from_entries(a)": "CASE WHEN list_count(a) = len(a) THEN map_from_entries(a) END",
        },
    ),
    function(
        "map_keys",
        "m",
        _part(0),
        f"map_keys({_M})",
        macros={"spark_map_keys(m)": "list_sort(map_keys(m))"},
        spelling=_ordered,
    ),
    function(
        "map_entries",
        "m",
        _entries,
        f"map_entries({_M})",
        macros={
            "spark_map_entries(m)": "list_transform(spark_map_keys(m), lambda k: {'key': k, 'value': m[k]})",
        },
        spelling=_ordered,
    ),
    function(
        "map_values",
        "m",
        _part(1),
        f"map_values({_M})",
        macros={"spark_map_values(m)": "list_transform(spark_map_keys(m), lambda k: m[k])"},
        spelling=_ordered,
    ),
    function(
        "map_contains_key",
        "m x",
        _has,
        f"map_contains_key({_M}, 'b')",
        f"map_contains_key({_M}, u)",
        macros={"spark_map_contains_key(m, k)": "CASE WHEN k IS NOT NULL THEN list_contains(map_keys(m), k) END"},
    ),
    function(
        "map_concat",
        "m*",
        _together,
        f"map_concat({_M}, map('d', 4))",
        macros={
            "spark_map_concat(a, b)": "CASE WHEN a IS NOT NULL AND b IS NOT NULL THEN "
            "map_from_entries(list_concat(map_entries(a), map_entries(b))) END"
        },
        spelling=lambda of: _folded("spark_map_concat", of),
    ),
    function(
        "map_filter",
        "m f",
        _condition,
        f"map_filter({_M}, (k, v) -> v > 1)",
        f"map_filter({_M}, (k, v) -> k < 'b' OR v IS NULL)",
        spelling=_over_entries("filter"),
        binds=_of_pairs,
    ),
    function(
        "transform_keys",
        "m f",
        _other_keys,
        f"transform_keys({_M}, (k, v) -> concat(k, 'x'))",
        spelling=_over_entries("key"),
        binds=_of_pairs,
    ),
    function(
        "transform_values",
        "m f",
        _other_values,
        f"transform_values({_M}, (k, v) -> concat(k, v))",
        spelling=_over_entries("value"),
        binds=_of_pairs,
    ),
    function(
        "map_zip_with",
        "m m f",
        _zipped,
        f"map_zip_with({_M}, map('d', s, 'a', u), (k, x, y) -> concat(k, coalesce(x, 0), coalesce(y, '-')))",
        "map_zip_with(map(1, i), map(1, n, 2, 5), (k, x, y) -> x < y)",
        "map_zip_with(map(1, i), CAST(NULL AS MAP<INT, INT>), (k, x, y) -> x)",
        macros={
            "spark_value_at(m, k)": "m[k]",
            "spark_keys_of_both(a, b)": "CASE WHEN a IS NOT NULL AND b IS NOT NULL THEN "
            "list_sort(list_distinct(list_concat(map_keys(a), map_keys(b)))) END",
        },
        spelling=_zip,
        binds=_of_two_maps,
    ),
    function(
        "str_to_map",
        "s s? s?",
        map_of(STRING, STRING),
        "str_to_map('a:1,b:2,c')",
        "str_to_map('a=1;b=2=3', ';', '=')",
        macros={
            "spark_str_to_map(x, comma, mark)": "map_from_entries(list_transform(string_split(x, comma), "
            "lambda e: {'key': split_part(e, mark, 1), 'value': CASE WHEN contains(e, mark) "
            "THEN substring(e, instr(e, mark) + length(mark)) END}))"
        },
        spelling=_split_to_map,
    ),
)
