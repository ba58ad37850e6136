"""The value of a subquery that has one row at most for each row that asks for it.

The rows of the subquery are joined with what is asked for, so that keys that nobody asks for may have many; then they
are counted by what ties them to the query around. More than one row fails as an expression of a group does: not before
the end of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from everview.query.aggregates import AggregateFunction
from everview.query.terms import Expression
from everview.query.types import BIGINT
from everview.query.view import Aggregate, Block, Body, Grouping, Output, Stage, aggregate_result, group_key
from everview.sql.apart import Kept, block, whole
from everview.sql.body import equality
from everview.sql.session import Rows, stage_columns

MORE_THAN_ONE: Final = "a subquery that stands for a value has more than one row"


def only_value(rows: Rows, body: Body, keys: int, asked: Sequence[Expression] = ()) -> Stage:
    """A stage of the only value in the first column of a subquery, by its last columns, so many ``keys``.

    ``asked`` are the expressions over the rows around that the keys are compared with, or nothing if the subquery has
    no other rows anyway.
    """
    stage = rows.lowering.stage(body, "values", "rows of a subquery that stands for a value")
    over, terms = whole(stage, rows)
    if asked and all(rows.body.owns(e) for e in asked):
        wanted = block(rows, rows.body, [Kept("k", e) for e in asked], distinct=True)
        outer = rows.lowering.stage(wanted, "outer", "the values that a subquery is asked for")
        rows.lowering.relations += 1
        for term, key in zip(
            over.add_atom(outer.name, "outer", stage_columns(outer)), terms[1 : 1 + keys], strict=True
        ):
            over.equate(key, term, equality(key, term))
    atoms, predicates, not_null, renamed = over.finish()
    first, *rest = (t.substitute(renamed) for t in terms[: 1 + keys])
    column = stage.columns[0]
    aggregates = (
        Aggregate(AggregateFunction.COUNT, None, BIGINT),
        Aggregate(AggregateFunction.MAX, first, column.type),
    )
    n, value = aggregate_result(0), aggregate_result(1)
    one = Expression(("CASE WHEN ", n, f" > 1 THEN raise_error('{MORE_THAN_ONE}') ELSE ", value, " END"), column.type)
    outputs = [Output(column.name, one, True)]
    outputs += [
        Output(c.name, Expression.of(group_key(i), c.type), c.nullable)
        for i, c in enumerate(stage.columns[1 : 1 + keys])
    ]
    grouped = Block(atoms, predicates, tuple(outputs), Grouping(tuple(rest), aggregates), False, not_null)
    return rows.lowering.stage(grouped, "scalar", "the only value of a subquery")
