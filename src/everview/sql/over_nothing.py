"""What an expression over aggregates is where there are no rows: COUNT is 0, and others are NULL."""

from __future__ import annotations

from everview.query.terms import Const, Expression, Var
from everview.query.types import BIGINT
from everview.query.view import aggregate_result
from everview.sql.datatypes import spark_name
from everview.sql.session import Groups


def over_nothing(groups: Groups, expression: Expression) -> Expression | None:
    """What an expression over a group is where there are no rows; None if it is NULL."""
    counts = {aggregate_result(i): a.function.is_count for i, a in enumerate(groups.aggregates)}
    if isinstance(expression.term, Var) and not counts.get(expression.term, True):
        return None
    if len(expression.parts) > 1 and not any(counts.get(v) for v in expression.variables) and _passes_null(expression):
        return None
    mapping = {
        aggregate_result(i): (
            Expression.of(Const(0), BIGINT)
            if a.function.is_count
            else Expression((f"CAST(NULL AS {spark_name(a.type)})",), a.type)
        )
        for i, a in enumerate(groups.aggregates)
    }
    return expression.inline(mapping)


def _passes_null(expression: Expression) -> bool:
    """True if an expression is plain arithmetic, which is NULL where a part of it is."""
    text = "".join(p for p in expression.parts if isinstance(p, str))
    return bool(expression.variables) and all(c in "0123456789.()+-*/ " for c in text)
