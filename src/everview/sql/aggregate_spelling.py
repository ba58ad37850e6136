"""Aggregates in functions of which DuckDB means what Spark, and a view, mean: for queries that it is to answer.

What is read from values in their order is computed of a list of them, and so is what DuckDB rounds, or divides by 0, in
another way; of equal ones it takes the one that a view takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import assert_never

from sqlglot import exp

from everview.query.aggregates import (
    Chosen,
    Combined,
    Counted,
    Gathered,
    Multiplied,
    Ordered,
    Packed,
    Paired,
    Reading,
    Shaped,
    Spread,
    Summed,
    Taken,
)
from everview.query.types import DOUBLE, DataType, Kind
from everview.sql.aggregates import AggregateCall, read_aggregate
from everview.sql.nodes import call, cast
from everview.sql.sql_text import SqlText

Over = Callable[[exp.Expr], exp.Expr]
"""What stands for the aggregate itself that a value is computed of: over a window it is one of another query."""


def aggregated(node: exp.Expr, type_: DataType, over: Over = lambda aggregate: aggregate) -> exp.Expr:
    """A call of an aggregate, with all that belongs to it; decimal averages are made elsewhere."""
    found = read_aggregate(SqlText(""), node)
    assert found is not None
    made = found.function.made
    match made:
        case Counted():
            return over(call("count", _distinct(found, _value(found))))
        case Summed():
            total = over(call("avg" if made.mean else "sum", _distinct(found, _value(found))))
            is_exact = type_.is_integer or type_.kind in (Kind.DECIMAL, Kind.DAY_TIME)
            if made.mean or not is_exact:
                return total
            typed = cast(total, type_)
            return exp.TryCast(this=typed.this, to=typed.args["to"], safe=True) if made.tried else typed
        case Spread():
            return over(call(found.function.value, _distinct(found, _value(found))))
        case Ordered():
            return over(call("max" if made.highest else "min", _value(found)))
        case Chosen():
            best = over(call("max" if made.highest else "min", _value(found)))
            return call("struct_extract", best, exp.Literal.string("value"))
        case Combined():
            return over(call(f"bit_{made.bits.value}", _distinct(found, _value(found))))
        case Shaped():
            return call(f"spark_{found.function.value}", over(_list(found)))
        case Multiplied():
            return over(call("product", _distinct(found, _value(found))))
        case Paired():
            return call(f"spark_{made.pairing.name.lower()}", call("spark_present", over(_list(found))))
        case Gathered():
            return _gathered(found, made, type_, over(_list(found)))
        case Packed():
            raise AssertionError("SQL has no name for it")
        case _:
            assert_never(made)


def _gathered(found: AggregateCall, made: Gathered, type_: DataType, collected: exp.Expr) -> exp.Expr:
    is_turned, *parameters = [_literal(p.value) for p in found.parameters] or [exp.Boolean(this=False)]
    if made.reading is Reading.SET:
        return call("spark_set", collected)
    values = call("spark_sorted", collected)
    if made.reading is Reading.MOST_FREQUENT:
        return call("spark_most", values, is_turned)
    values = call("spark_turned", values, is_turned)
    match made.reading:
        case Reading.ARRAY:
            return values
        case Reading.TEXT:
            return call("spark_joined_text", _shown(found, values), parameters[0])
        case Reading.BETWEEN | Reading.ELEMENT:
            name = "spark_between" if made.reading is Reading.BETWEEN else "spark_element"
            read = [call(name, values, cast(p, DOUBLE)) for p in parameters]
            if not found.is_many:
                return cast(read[0], type_)
            empty = exp.EQ(this=call("len", values), expression=exp.Literal.number(0))
            every = exp.If(this=empty, true=exp.Null())
            return exp.Case(ifs=[every], default=call("list_value", *read))
        case _:
            assert_never(made.reading)


def _shown(found: AggregateCall, values: exp.Expr) -> exp.Expr:
    """Texts that are put in order by something else stand behind that in structs."""
    if found.takes is not Taken.VALUE_BY_KEY:
        return values
    entry = exp.to_identifier("e")
    text = call("struct_extract", entry, exp.Literal.string("value"))
    return call("list_transform", values, exp.Lambda(this=text, expressions=[entry]))


def _literal(value: object) -> exp.Expr:
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    return exp.Literal.string(value) if isinstance(value, str) else exp.Literal.number(str(value))


def _distinct(found: AggregateCall, value: exp.Expr) -> exp.Expr:
    return exp.Distinct(expressions=[value]) if found.distinct else value


def _list(found: AggregateCall) -> exp.Expr:
    return call("list", _distinct(found, _value(found)))


def _value(found: AggregateCall) -> exp.Expr:
    """What is aggregated of each row: NULL where it does not count."""
    if not found.arguments:
        return exp.Star() if found.condition is None else _where([found.condition], exp.Literal.number(1))
    conditions = [] if found.condition is None else [found.condition]
    first = found.arguments[0]
    match found.takes:
        case Taken.VALUE:
            return first.copy() if not conditions else _where(conditions, first)
        case Taken.PAIR | Taken.ROW:
            conditions = [*map(_is_there, found.arguments), *conditions]
            if isinstance(found.function.made, Counted) and not found.distinct:
                return _where(conditions, exp.Literal.number(1))
            if found.takes is Taken.ROW:
                return _where(conditions, _struct({f"c{i}": a for i, a in enumerate(found.arguments)}))
            return _where(conditions, _struct(dict(zip("yx", (cast(a, DOUBLE) for a in found.arguments), strict=True))))
        case Taken.VALUE_BY_KEY:
            key = found.arguments[1]
            deciding = first if isinstance(found.function.made, Gathered) else key
            fields = {"key": key, "there": _is_there(first), "value": first}  # NULL is the least of all here
            if isinstance(found.function.made, Gathered):
                fields = {"found": _is_there(key), "key": key, "value": first}
            return _where([_is_there(deciding), *conditions], _struct(fields))


def _is_there(node: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Is(this=exp.paren(node.copy()), expression=exp.Null()))


def _where(conditions: list[exp.Expr], value: exp.Expr) -> exp.Expr:
    """The value where all conditions hold."""
    return exp.Case(ifs=[exp.If(this=exp.and_(*(c.copy() for c in conditions)), true=value.copy())])


def _struct(fields: Mapping[str, exp.Expr]) -> exp.Expr:
    named = [part for name, value in fields.items() for part in (exp.Literal.string(name), value)]
    return call("named_struct", *named)
