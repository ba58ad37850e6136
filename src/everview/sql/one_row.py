"""SELECT without FROM, and VALUES: rows that no table has.

A row that is always there is what an aggregate without GROUP BY gives over no input: a stage counts the rows of some
table for which FALSE holds. No row of the table ever enters it, so it costs nothing.
"""

from __future__ import annotations

from sqlglot import exp

from everview.query.aggregates import AggregateFunction
from everview.query.terms import Expression
from everview.query.types import BIGINT
from everview.query.view import Aggregate, Block, Grouping, Output, aggregate_result
from everview.sql.body import FALSE, Body
from everview.sql.session import Lowering, Rows, stage_columns
from everview.sql.sql_text import SqlText

PURPOSE = "one row"
MOST_ROWS = 100
_COUNT = Aggregate(AggregateFunction.COUNT, None, BIGINT)


def add_one_row(rows: Rows, where: exp.Expr) -> None:
    """Have a SELECT read one row that is always there."""
    lowering = rows.lowering
    stage = next((s for s in lowering.stages if s.purpose == PURPOSE), None)
    if stage is None:
        stage = lowering.stage(_one_row(lowering, where), "one_row", PURPOSE)
    rows.atom(stage.name, "one_row", stage_columns(stage), where)


def _one_row(lowering: Lowering, where: exp.Expr) -> Block:
    table = next(iter(lowering.schema), None)
    if table is None:
        raise lowering.source.unsupported(
            "SELECT without FROM",
            lowering.source.keyword(where, "SELECT"),
            message="SELECT without FROM needs a table to be there, though it reads no row of it",
            hint="create a table first",
        )
    lowering.source.read.append((where, table.name))
    body = Body(lowering.fresh)
    body.add_atom(table.name, table.name, table.columns, named=True)
    body.predicates[FALSE] = None
    atoms, predicates, not_null, _ = body.finish()
    output = Output("nothing", Expression.of(aggregate_result(0), BIGINT), False)
    return Block(atoms, predicates, (output,), Grouping((), (_COUNT,)), False, not_null)


def values_query(source: SqlText, values: exp.Values) -> exp.Query:
    """VALUES as a UNION ALL of SELECTs, whose columns Spark calls col1, col2, …"""
    rows = [list(t.expressions) if isinstance(t, exp.Tuple) else [t.unnest()] for t in values.expressions]
    if len(rows) > MOST_ROWS:
        raise source.too_large(f"VALUES has more than {MOST_ROWS} rows", values, hint="put the rows into a table")
    found: exp.Query | None = None
    for row in rows:
        if len(row) != len(rows[0]):
            raise source.query(f"VALUES has rows of {len(rows[0])} and of {len(row)} columns", row[0])
        columns = [exp.alias_(e.copy(), f"col{i}", quoted=True) for i, e in enumerate(row, 1)]
        for column, expression in zip(columns, row, strict=True):
            column.meta.update(expression.meta)
        one = exp.Select(expressions=columns)
        found = one if found is None else exp.Union(this=found, expression=one, distinct=False)
    assert found is not None
    return found
