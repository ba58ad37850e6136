"""What an aggregate takes as the one value that is aggregated: several arguments are put into a struct."""

from __future__ import annotations

from collections.abc import Sequence

from everview.query.aggregates import Gathered, Taken
from everview.query.terms import Expression, Term
from everview.query.types import BOOLEAN, INT, DataType
from everview.sql.aggregates import AggregateCall, packed_type
from everview.sql.check import Checker
from everview.sql.products import checker_type
from everview.sql.session import written


def packed(call: AggregateCall, checker: Checker) -> Expression | None:
    """What is aggregated of each row; None if it is the row itself."""
    if call.takes is Taken.VALUE:
        value = call.value
        return None if value is None else written(value, checker, checker_type(checker, value))
    types = [checker_type(checker, a) for a in call.arguments]
    values = [written(a, checker, t) for a, t in zip(call.arguments, types, strict=True)]
    type_ = packed_type(call, types)
    assert type_ is not None
    there = values if call.takes in (Taken.PAIR, Taken.ROW) else [values[_deciding(call)]]
    parts: list[str | Term] = ["CASE WHEN "]
    for one in there:
        parts += ["(", *one.parts, ") IS NOT NULL AND "]
    if call.condition is not None:
        parts += ["(", *written(call.condition, checker, BOOLEAN).parts, ") AND "]
    parts[-1] = str(parts[-1]).removesuffix(" AND ")
    parts.append(" THEN ")
    parts += _struct(call, values, type_)
    parts.append(" END")
    return Expression(tuple(parts), type_)


def _deciding(call: AggregateCall) -> int:
    """The argument that decides whether a row counts: a key, or the text that is put in order by one."""
    return 0 if isinstance(call.function.made, Gathered) else 1


def _struct(call: AggregateCall, values: Sequence[Expression], type_: DataType) -> list[str | Term]:
    if type_ == INT:
        return ["1"]
    if call.takes is Taken.VALUE_BY_KEY:
        values = values[::-1]
    parts: list[str | Term] = []
    for name, value in zip(type_.names, values, strict=True):
        parts += [", " if parts else "named_struct(", f"'{name}', "]
        parts += ["CAST(", *value.parts, " AS DOUBLE)"] if call.takes is Taken.PAIR else value.parts
    return [*parts, ")"]
