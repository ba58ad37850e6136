"""Conditions other than equality between a subquery and the query around it.

The values that the query around it has in such conditions (its *domain*) are a stage. The subquery is joined with them,
which makes the conditions its own; what is left between the two are equalities with the domain's columns. So the cost
of an update is by the pairs of values and rows that the conditions let through.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from everview.query.terms import Expression
from everview.sql.apart import Kept, block, null_safe
from everview.sql.body import equality
from everview.sql.session import Rows, stage_columns

TWO_QUERIES: Final = "correlation across two queries"
NESTED: Final = "correlated subquery in FROM"
EXPLODED: Final = "array of another query"
WINDOWED: Final = "correlated column beside window functions"


def add_domain(rows: Rows, inner: Rows, node: exp.Expr) -> None:
    """Have the subquery ``inner`` of ``rows`` be tied by equalities only."""
    if not inner.mixed:
        return
    wanted: dict[Expression, bool] = {}
    for predicate, where in inner.mixed:
        for variable in sorted(predicate.variables):
            one = Expression.of(variable)
            if inner.body.owns(one):
                continue
            if not rows.body.owns(one):
                raise two_queries_out(rows, where)
            wanted[Expression.of(variable, rows.body.type_of(variable))] = variable not in inner.compared
    for _, outer, where in inner.correlations:
        if not rows.body.owns(outer):
            raise two_queries_out(rows, where)
        wanted.setdefault(outer, False)
    columns = [Kept(rows.body.name_of(e), e, strict=e.term is not None) for e in wanted]
    values = block(rows, rows.body, columns, distinct=True)
    stage = rows.lowering.stage(values, "outer", "the values that a subquery is tied to by other than equality")
    terms = dict(zip(wanted, inner.atom(stage.name, "outer", stage_columns(stage), node), strict=True))
    for inside, outer, _ in inner.correlations:
        inner.body.equate(inside, terms[outer], equality(inside, terms[outer]))
    variables = {e.term: t.term for e, t in terms.items()}
    for predicate, _ in inner.mixed:
        inner.body.require(predicate.substitute({v: t for v, t in variables.items() if v and t}))  # type: ignore[misc]
    inner.mixed, inner.correlations = [], []
    for outer, may_be_null in wanted.items():
        if may_be_null and rows.body.nullable(outer):
            inner.correlations += [(a, b, node) for a, b in null_safe(terms[outer], outer)]
        else:
            inner.correlations.append((terms[outer], outer, node))


def two_queries_out(rows: Rows, where: exp.Expr) -> Exception:
    """The error for a subquery that reads columns of a query that is not the one around it."""
    return rows.source.unsupported(
        TWO_QUERIES,
        where,
        message="this ties a subquery to a query that is not the one around it, but further out",
        hint="join the tables of the subquery in between in FROM",
    )
