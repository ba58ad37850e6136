"""Arrays that are made, and elements that are taken from them; what functions of arrays have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from sqlglot import exp

from everview.query.types import INT, NULL, DataType, Kind, array_of, common_type
from everview.sql.durations import MICROSECONDS, duration
from everview.sql.functions.conversions import converted
from everview.sql.functions.entry import Call, Function, function, same
from everview.sql.nodes import call, cast
from everview.sql.sql_text import SqlText

MOST_ELEMENTS: Final = 1024 * 1024
"""So many elements may an array have that an expression makes of nothing but numbers."""


def as_type(node: exp.Expr, have: DataType | None, want: DataType) -> exp.Expr:
    """A value in a type that it has a common one with; a literal, too, says its type."""
    if have is None or have.kind is Kind.NULL or (have == want and not isinstance(node, exp.Literal)):
        return node
    return converted(node, have, want, cast(node, want))


def united_in(nodes: Sequence[exp.Expr], types: Sequence[DataType], source: SqlText, what: str) -> DataType:
    """The type that values have in common."""
    found = NULL
    for node, type_ in zip(nodes, types, strict=True):
        united = common_type(found, type_)
        if united is None:
            raise source.mismatch(
                f"{what} have types {found} and {type_}, which do not go together", node, hint="CAST them to one type"
            )
        found = united
    return found.unbounded


def _array(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    return array_of(united_in(node.expressions, types, source, "the elements of an array"))


def _made(of: Call) -> exp.Expr:
    element = of.type.element
    return call("list_value", *(as_type(a, t, element) for a, t in zip(of.arguments, of.types, strict=True)))


def element(nodes: Sequence[exp.Expr], types: Sequence[DataType], source: SqlText) -> DataType:
    """The type of an array's elements or a map's values, of which the second node says which."""
    of, by = types
    if of.is_open:
        return of
    if of.kind is Kind.MAP:
        if common_type(of.parts[0], by) is None:
            raise source.mismatch(f"the keys of this map are {of.parts[0]}, and this is {by}", nodes[1], hint="CAST it")
        return of.parts[1]
    if not (by.is_integer or by.is_open):
        raise source.mismatch(f"elements of an array are counted, and this is {by}", nodes[1], hint="use an integer")
    return of.element


def _element_of(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    return element(node.expressions, types, source)


def alike(result: DataType | None) -> Callable[[exp.Anonymous, Sequence[DataType], SqlText], DataType]:
    """A rule: the second argument is of the elements' type; the result, that of the array if none is given."""

    def rule(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
        place = next((i for i, t in enumerate(types) if t.kind is Kind.ARRAY), None)
        if place is None:
            return result or types[0]
        other = types[-1 - place] if len(types) == 2 else types[-1]
        united = common_type(types[place].element, other)
        if united is None or not united.has_order:
            raise source.mismatch(
                f"{node.name.lower()}: elements are {types[place].element}, and this is {other}", node.expressions[-1]
            )
        return result or array_of(united)

    return rule


def with_value(of: Call) -> exp.Expr:
    """An array and a value, in the types that go together."""
    array, value = of.types[0], of.types[1]
    if array is None or array.kind is not Kind.ARRAY or value is None:
        return of.with_arguments(*of.arguments)
    united = common_type(array.element, value) or array.element
    return of.with_arguments(
        as_type(of.arguments[0], array, array_of(united)), as_type(of.arguments[1], value, united), *of.arguments[2:]
    )


def _element(of: Call) -> exp.Expr:
    """``element_at`` counts from 1, or takes a map's key."""
    first, value = of.types[0], of.arguments[1]
    if first is not None and first.kind is Kind.MAP:
        return call("spark_key", of.arguments[0], as_type(value, of.types[1], first.parts[0]))
    return of.with_arguments(*of.arguments)


def of_bracket(value: exp.Expr, place: exp.Expr, have: DataType, place_type: DataType | None) -> exp.Expr:
    """``a[0]`` or ``m['k']``."""
    if have.kind is Kind.MAP:
        return call("spark_key", value, as_type(place, place_type, have.parts[0]))
    return call("spark_at", value, place)


def _flat(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    if not types[0].is_open and types[0].element.kind is not Kind.ARRAY:
        raise source.mismatch(f"flatten takes an array of arrays, and this is {types[0]}", node.expressions[0])
    return types[0] if types[0].is_open else types[0].element


def _repeated(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    return array_of(types[0])


_DAY: Final = MICROSECONDS["DAY"]


def _sequence(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    found = common_type(types[0], types[1])
    is_time = found is not None and found.is_temporal and (len(types) > 2 or found.kind is Kind.DATE)
    if found is None or not (found.is_integer or is_time):
        raise source.mismatch(
            f"sequence takes integers, dates, or times and a step, and these are {types[0]} and {types[1]}",
            node,
            hint="count numbers, and compute the values of them: transform(sequence(0, 9), i -> …)",
        )
    if is_time and len(types) > 2:
        months, micros = duration(source, node.expressions[2])
        is_whole_step = micros % _DAY == 0 if found.kind is Kind.DATE else not months
        if (months and micros) or not is_whole_step:
            raise source.unsupported(
                f"sequence of {found} with this step",
                node.expressions[2],
                hint="dates go by days or by months, times by other lengths than months",
            )
    return array_of(found)


def _counted(of: Call) -> exp.Expr:
    start, stop, *step = of.arguments
    if step and of.type.element.is_temporal:
        if of.types[2] is not None and of.types[2].kind is Kind.DAY_TIME:  # which is microseconds by now
            if of.type.element.kind is not Kind.DATE:
                return call("spark_time_steps", start, stop, step[0])
            return call("spark_day_steps", start, stop, exp.IntDiv(this=step[0], expression=exp.Literal.number(_DAY)))
        months, _ = duration(SqlText(""), step[0])
        number = exp.Literal.number(abs(months))
        return call("spark_month_steps", start, stop, number if months >= 0 else exp.Neg(this=number))
    if of.type.element.kind is Kind.DATE:
        return call("spark_dates", *of.arguments)
    return cast(call("spark_numbers", start, stop, step[0] if step else call("spark_way", start, stop)), of.type)


def plain(
    names: str,
    parameters: str,
    result: DataType | Callable[..., DataType],
    macro: str | Mapping[str, str],
    *examples: str,
    spelling: Callable[[Call], exp.Expr | None] | None = None,
    binds: Callable[[Sequence[DataType]], tuple[DataType, ...]] | None = None,
) -> Function:
    """An entry for what DuckDB is taught by one macro, or by several."""
    first = names.split(maxsplit=1)[0]
    arguments = {"a": "(a)", "a x": "(a, v)", "a a": "(a, b)"}.get(parameters, "(a)")
    macros = {f"spark_{first}{arguments}": macro} if isinstance(macro, str) else macro
    return function(names, parameters, result, *examples, macros=macros, spelling=spelling, binds=binds)


_SIZE: Final = "CAST(len(a) AS INTEGER)"
_ACCESS_MACROS: Final = {
    "spark_at(a, i)": "CASE WHEN a IS NULL OR i IS NULL THEN NULL WHEN i < 0 OR i >= len(a) THEN error("
    "'everview: an array of ' || len(a) || ' elements has none at [' || i || '], as the first one is at [0]') "
    "ELSE a[CAST(i AS BIGINT) + 1] END",
    "spark_key(m, k)": "m[k]",
    "spark_element_at(a, i)": "CASE WHEN a IS NULL OR i IS NULL THEN NULL WHEN i = 0 OR abs(i) > len(a) THEN error("
    "'everview: an array of ' || len(a) || ' elements has no number ' || i) ELSE a[CAST(i AS BIGINT)] END",
}
_SLICE: Final = (
    "CASE WHEN a IS NULL OR start IS NULL OR n IS NULL THEN NULL WHEN start = 0 THEN error('everview: slice counts "
    "elements from 1') WHEN n < 0 THEN error('everview: slice takes no ' || n || ' elements') "
    "WHEN start < 0 AND -start > len(a) THEN a[1:0] "
    "WHEN start < 0 THEN a[len(a) + start + 1:len(a) + start + CAST(n AS BIGINT)] "
    "ELSE a[start:start + CAST(n AS BIGINT) - 1] END"
)
_INSERT: Final = (
    "CASE WHEN a IS NULL OR i IS NULL THEN NULL WHEN i = 0 THEN error('everview: array_insert counts from 1') "
    f"WHEN abs(i) > {MOST_ELEMENTS} THEN error('everview: an array has at most {MOST_ELEMENTS} elements') "
    "WHEN i > len(a) THEN list_append(list_resize(a, CAST(i - 1 AS BIGINT)), v) "
    "WHEN i > 0 THEN list_concat(list_append(a[1:i - 1], v), a[i:]) "
    "WHEN -i > len(a) + 1 THEN list_concat(list_resize([v], -i - len(a)), a) "
    "ELSE list_concat(list_append(a[1:len(a) + i + 1], v), a[len(a) + i + 2:]) END"
)
_TOO_MANY: Final = f"error('everview: an array has at most {MOST_ELEMENTS} elements')"
_SEQUENCE_MACROS: Final = {
    "spark_way(a, b)": "CASE WHEN a <= b THEN 1 ELSE -1 END",
    "spark_numbers(a, b, step)": "CASE WHEN a IS NULL OR b IS NULL OR step IS NULL THEN NULL "
    "WHEN (step = 0 AND a <> b) OR (step > 0 AND a > b) OR (step < 0 AND a < b) THEN "
    "error('everview: a sequence from ' || a || ' does not come to ' || b || ' by steps of ' || step) "
    "WHEN step = 0 THEN [CAST(a AS BIGINT)] "
    f"WHEN (CAST(b AS HUGEINT) - a) // step >= {MOST_ELEMENTS} THEN {_TOO_MANY} "
    "ELSE generate_series(CAST(a AS BIGINT), CAST(b AS BIGINT), CAST(step AS BIGINT)) END",
    "spark_day_steps(a, b, step)": "list_transform(spark_numbers(0, CAST(b AS DATE) - CAST(a AS DATE), step), "
    "lambda n: CAST(a AS DATE) + CAST(n AS INTEGER))",
    "spark_month_steps(a, b, step)": "list_filter(list_transform(spark_numbers(0, datediff('month', CAST(a AS DATE), "
    "CAST(b AS DATE)), step), lambda n: CAST(CAST(a AS DATE) + to_months(CAST(n AS INTEGER)) AS DATE)), "
    "lambda d: CASE WHEN step > 0 THEN d <= CAST(b AS DATE) ELSE d >= CAST(b AS DATE) END)",
    "spark_time_steps(a, b, step)": "list_transform(spark_numbers(0, epoch_us(b) - epoch_us(a), step), "
    "lambda n: a + to_microseconds(n))",
    "spark_dates(a, b)": "list_transform(spark_numbers(0, CAST(b AS DATE) - CAST(a AS DATE), "
    "spark_way(CAST(a AS DATE), CAST(b AS DATE))), lambda n: CAST(a AS DATE) + CAST(n AS INTEGER))",
}
_REPEAT: Final = (
    f"CASE WHEN n IS NULL THEN NULL WHEN n > {MOST_ELEMENTS} THEN {_TOO_MANY} "
    "ELSE list_transform(generate_series(1, n), lambda i: x) END"
)
ROW: Final = "array(i, n, NULL, 3, n)"
TEXTS: Final = "array(s, 'b', u, NULL, s)"
_KNOWN: Final = "array(3, 1, 2, 1)"

FUNCTIONS: Final = (
    function(
        "array",
        "x?*",
        _array,
        "array(i, n)",
        "array(i, x, NULL)",
        "array(s, 'a')",
        "array(array(1, i), array(n))",
        "array(p, 1)",
        "array(d, NULL)",
        spelling=_made,
    ),
    function(
        "element_at",
        "c x",
        _element_of,
        f"element_at({_KNOWN}, 2)",
        f"element_at({ROW}, -1)",
        "element_at(map('a', i, 'b', n), 'a')",
        "element_at(map(1, s), 2)",
        macros=_ACCESS_MACROS,
        spelling=_element,
    ),
    function(
        "try_element_at",
        "c x",
        _element_of,
        f"try_element_at({ROW}, 9)",
        f"try_element_at({TEXTS}, -2)",
        "try_element_at(map('a', i), s)",
        macros={
            "spark_try_element_at(a, i)": "CASE WHEN i = 0 THEN error('everview: the first element of an "
            "array is number 1') ELSE a[CAST(i AS BIGINT)] END",
        },
        spelling=_element,
    ),
    plain(
        "get",
        "a i",
        _element_of,
        {"spark_get(a, i)": "CASE WHEN i >= 0 THEN a[CAST(i AS BIGINT) + 1] END"},
        f"get({ROW}, n)",
        f"get({ROW}, -1)",
        f"get({TEXTS}, i)",
    ),
    function(
        "size cardinality",
        "c",
        INT,
        f"size({ROW})",
        f"cardinality({TEXTS})",
        "size(map('a', 1))",
        "size(CAST(NULL AS ARRAY<INT>))",
        macros={"spark_size(a)": _SIZE, "spark_map_size(a)": "CAST(len(map_keys(a)) AS INTEGER)"},
        spelling=lambda of: (
            call("spark_map_size", *of.arguments)
            if of.first_type is not None and of.first_type.kind is Kind.MAP
            else None
        ),
    ),
    plain("array_size", "a", INT, _SIZE, f"array_size({ROW})"),
    function(
        "slice",
        "a i i",
        same,
        f"slice({ROW}, 2, 2)",
        f"slice({ROW}, -2, 9)",
        f"slice({ROW}, -9, 2)",
        f"slice({TEXTS}, 4, n)",
        macros={"spark_slice(a, start, n)": _SLICE},
    ),
    plain(
        "flatten",
        "a",
        _flat,
        "CASE WHEN list_count(a) = len(a) THEN flatten(a) END",
        "flatten(array(array(1, i), array(n, NULL)))",
        "flatten(array(array(s), NULL))",
    ),
    plain(
        "array_append",
        "a x",
        alike(None),
        "CASE WHEN a IS NOT NULL THEN list_append(a, v) END",
        f"array_append({ROW}, n)",
        f"array_append({TEXTS}, NULL)",
        spelling=with_value,
    ),
    plain(
        "array_prepend",
        "a x",
        alike(None),
        "CASE WHEN a IS NOT NULL THEN list_prepend(v, a) END",
        f"array_prepend({ROW}, n)",
        f"array_prepend({TEXTS}, u)",
        spelling=with_value,
    ),
    function(
        "array_insert",
        "a i x",
        alike(None),
        f"array_insert({ROW}, 2, n)",
        f"array_insert({ROW}, 8, n)",
        f"array_insert({ROW}, -1, n)",
        f"array_insert({ROW}, -3, n)",
        f"array_insert({ROW}, -8, n)",
        macros={"spark_array_insert(a, i, v)": _INSERT},
    ),
    function(
        "array_repeat",
        "x i",
        _repeated,
        "array_repeat(s, n)",
        "array_repeat(i, 2)",
        "array_repeat('a', -1)",
        macros={"spark_array_repeat(x, n)": _REPEAT},
    ),
    function(
        "sequence",
        "x x x?",
        _sequence,
        "sequence(n, 5)",
        "sequence(5, n)",
        "sequence(0, n, 1)",
        "sequence(-n, n + 9, 4)",
        "sequence(CAST(n AS BIGINT), 3)",
        "sequence(DATE '2024-02-27', DATE '2024-03-02')",
        "sequence(DATE '2024-02-27', DATE '2024-02-25')",
        "sequence(DATE '2024-02-27', date_add(DATE '2024-02-27', n), INTERVAL 2 DAYS)",
        "sequence(DATE '2024-01-31', DATE '2024-05-15', INTERVAL 1 MONTH)",
        "sequence(DATE '2024-03-31', DATE '2023-12-31', INTERVAL '-1' MONTH)",
        "sequence(TIMESTAMP '2024-02-27 10:00:00', TIMESTAMP '2024-02-27 12:30:00', INTERVAL 1 HOUR)",
        macros=_SEQUENCE_MACROS,
        spelling=_counted,
    ),
)
