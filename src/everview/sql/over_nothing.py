"""What an expression over aggregates is where there are no rows: COUNT is 0, a list is empty, and others are NULL."""

from __future__ import annotations

from everview.query.aggregates import Gathered, Reading
from everview.query.terms import Const, Expression, Var
from everview.query.types import BIGINT
from everview.query.view import Aggregate, aggregate_result
from everview.sql.datatypes import spark_name
from everview.sql.session import Groups


def over_nothing(groups: Groups, expression: Expression) -> Expression | None:
    """What an expression over a group is where there are no rows; None if it is NULL."""
    found = {aggregate_result(i): _of_nothing(a) for i, a in enumerate(groups.aggregates)}
    if isinstance(expression.term, Var) and found.get(expression.term, expression) is None:
        return None
    if len(expression.parts) > 1 and not any(found.get(v) for v in expression.variables) and _passes_null(expression):
        return None
    nulls = {
        aggregate_result(i): Expression((f"CAST(NULL AS {spark_name(a.type)})",), a.type)
        for i, a in enumerate(groups.aggregates)
    }
    return expression.inline({v: found[v] or null for v, null in nulls.items()})


def _of_nothing(aggregate: Aggregate) -> Expression | None:
    """What an aggregate is of no rows; None if it is NULL."""
    if aggregate.function.is_count:
        return Expression.of(Const(0), BIGINT)
    made = aggregate.function.made
    if isinstance(made, Gathered) and made.reading in (Reading.ARRAY, Reading.SET):
        return Expression((f"CAST(array() AS {spark_name(aggregate.type)})",), aggregate.type)
    return None


def _passes_null(expression: Expression) -> bool:
    """True if an expression is plain arithmetic, which is NULL where a part of it is."""
    text = "".join(p for p in expression.parts if isinstance(p, str))
    return bool(expression.variables) and all(c in "0123456789.()+-*/ " for c in text)
