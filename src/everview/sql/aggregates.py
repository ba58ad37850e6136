"""Aggregate calls as they are written: COUNT(*), SUM(DISTINCT x), AVG(x) FILTER (WHERE …)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from everview.query.aggregates import BY_NAME, AggregateFunction
from everview.query.types import ANY, DataType
from everview.sql.functions.elsewhere import OTHER_AGGREGATES
from everview.sql.sql_text import SqlText


@dataclass(frozen=True)
class AggregateCall:
    """One call in the tree. ``argument`` None counts rows; ``condition`` is that of FILTER, or of count_if."""

    name: str
    function: AggregateFunction
    argument: exp.Expr | None
    condition: exp.Expr | None
    distinct: bool
    type: DataType = ANY

    def typed(self, type_: DataType) -> AggregateCall:
        """The same call with its result type."""
        return replace(self, type=type_)

    @property
    def value(self) -> exp.Expr | None:
        """What is aggregated, with the condition folded in as CASE; None for all rows."""
        if self.condition is None:
            return self.argument
        inner = exp.Literal.number(1) if self.argument is None else self.argument
        return exp.Case(ifs=[exp.If(this=self.condition, true=inner)])


def is_aggregate(node: exp.Expr) -> bool:
    """True for a call of an aggregate function, supported or not."""
    name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    return name in BY_NAME or name in OTHER_AGGREGATES


def aggregates_in(node: exp.Expr) -> Iterator[exp.Expr]:
    """The aggregate calls of an expression, not those of subqueries in it, nor window functions themselves."""
    for inner in node.walk(prune=lambda n: isinstance(n, exp.Query)):
        if is_aggregate(inner) and not _is_window_function(inner):
            yield inner


def _is_window_function(call: exp.Expr) -> bool:
    above: exp.Expr | None = call
    while above is not None and isinstance(above.parent, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        above = above.parent
    return above is not None and isinstance(above.parent, exp.Window) and above.arg_key == "this"


def read_aggregate(source: SqlText, node: exp.Expr) -> AggregateCall | None:
    """The aggregate call that a node is; None if it is another function. Unsupported aggregates are refused."""
    condition = None
    call = node
    if isinstance(node, exp.Filter):
        condition, call = node.expression.this, node.this
    if not isinstance(call, exp.Anonymous):
        return None
    name = call.name.lower()
    if name in OTHER_AGGREGATES:
        raise source.unsupported(
            f"aggregate {name}",
            call,
            message=f"the aggregate {name} is not supported",
            hint=f"there are {', '.join(BY_NAME)}",
        )
    function = BY_NAME.get(name)
    if function is None:
        return None
    arguments, distinct = _arguments(source, call)
    if name == "count_if":
        condition = exp.and_(condition, arguments[0], copy=False) if condition is not None else arguments[0]
        return AggregateCall(name, function, None, condition, False)
    distinct = distinct and function.has_inverse
    argument = arguments[0]
    counts_rows = isinstance(argument, exp.Star | exp.Literal | exp.Boolean) and not distinct
    if function.is_count and counts_rows:
        return AggregateCall(name, function, None, condition, False)
    return AggregateCall(name, function, argument, condition, distinct)


def _arguments(source: SqlText, call: exp.Anonymous) -> tuple[list[exp.Expr], bool]:
    name = call.name.lower()
    arguments, distinct = list(call.expressions), False
    if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
        arguments, distinct = list(arguments[0].expressions), True
    if not arguments:
        raise source.mismatch(f"{name} needs an argument", call, hint="write COUNT(*) to count rows")
    if len(arguments) > 1:
        if name == "count":
            raise source.unsupported("COUNT of several columns", call, hint="count one column, or COUNT(*)")
        raise source.mismatch(f"{name} takes 1 argument, and here are {len(arguments)}", call)
    if isinstance(arguments[0], exp.Star) and (name != "count" or distinct):
        raise source.syntax(f"* may only stand in COUNT(*), not in {name}", call)
    return arguments, distinct
