"""Subqueries that read columns of the query around them in ways that no equality between the two can say.

A subquery within a subquery may read what stands two queries out; an output, a key or an aggregate's argument may be
made of columns of both. The different values of the outer columns are then a stage that the subquery is joined with,
and it reads them there. What is left between the two queries are equalities with these columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sqlglot import exp

from everview.errors import UnsupportedError
from everview.query.terms import Expression
from everview.sql.apart import Kept, Pair, block, null_safe
from everview.sql.body import Body
from everview.sql.domain import EXPLODED, NESTED, TWO_QUERIES, WINDOWED
from everview.sql.names import Cell, Named, Relation, Scope, may_mean
from everview.sql.nested import joins_of
from everview.sql.session import Carried, Rows, stage_columns

CARRIED: Final = frozenset(
    (TWO_QUERIES, "correlated column in GROUP BY", "correlated aggregate", NESTED, EXPLODED, WINDOWED)
)
"""What a subquery is refused for that can be maintained if it has the values of the query around it."""


def inner_block(
    rows: Rows, query: exp.Select, *, as_set: bool = False, fits: Callable[[Rows], bool] = lambda inner: True
) -> Rows:
    """Lower a subquery's SELECT; if it does not fit as it is, joined with what it reads of the query around it."""
    again = query.copy()
    try:
        inner = rows.lowering.block(query, rows.env, rows.scope, as_set)
    except UnsupportedError as error:
        if error.construct not in CARRIED:
            raise
        found = _carried(rows, again, as_set)
        if found is not None:
            return found
        outer = [join for join in joins_of(again) if join.side in ("RIGHT", "FULL")]
        if error.construct != TWO_QUERIES or not outer:
            raise
        raise rows.source.unsupported(
            f"{outer[0].side} JOIN ON a column of the query around",
            rows.source.keyword(outer[0].this, outer[0].side),
            message=f"a {outer[0].side} JOIN of a subquery has a condition on a column of the query around it",
            hint="put the condition into WHERE, or join by LEFT JOIN",
        ) from error
    if fits(inner):
        return inner
    return _carried(rows, again, as_set) or inner


def _carried(rows: Rows, query: exp.Select, as_set: bool) -> Rows | None:
    """The subquery over the values of the outer columns that it names; None if there is no such way."""
    _turn_around(query)
    if any(join.side in ("RIGHT", "FULL") for join in joins_of(query)):
        return None  # what is joined with the values must keep all of them
    wanted = named_within(rows, query)
    if not wanted:
        return None
    columns = [Kept(rows.body.name_of(e), e, strict=e.term is not None) for e in wanted]
    values = block(rows, rows.body, columns, distinct=True)
    stage = rows.lowering.stage(values, "outer", "the values that a subquery reads of the query around it")
    body = Body(rows.lowering.fresh)
    rows.lowering.relations += 1
    terms = dict(zip(wanted, body.add_atom(stage.name, "outer", stage_columns(stage)), strict=True))
    carried = Carried(body, terms)
    inner = rows.lowering.block(query, rows.env, shadow(rows.scope, terms), as_set, carried)
    inner.correlations += [(a, b, query) for a, b in ties(rows, carried.terms)]
    return inner


def _turn_around(query: exp.Select) -> None:
    """Have ``FROM a RIGHT JOIN b ON c`` be ``FROM b LEFT JOIN a ON c``, where the order of columns is not seen."""
    joins, from_ = query.args.get("joins") or (), query.args.get("from_")
    if not joins or from_ is None or any(isinstance(e.unalias(), exp.Star) for e in query.expressions):
        return
    if joins[0].side == "RIGHT" and joins[0].args.get("on") is not None and not joins[0].method:
        left, right = from_.this, joins[0].this
        from_.set("this", right)
        joins[0].set("this", left)
        joins[0].set("side", "LEFT")


def ties(rows: Rows, terms: Mapping[Expression, Expression]) -> list[Pair]:
    """Values of columns of the rows, and these columns, as what is equal where they are: NULL is equal to NULL."""
    pairs: list[Pair] = []
    for outer, term in terms.items():
        pairs += null_safe(term, outer) if rows.body.nullable(outer) else [(term, outer)]
    return pairs


def named_within(rows: Rows, query: exp.Expr) -> list[Expression]:
    """The columns of the rows that have a name that stands in the subquery, or in one within it."""
    named = {meant for column in query.find_all(exp.Column) for meant in may_mean(column)}
    found: dict[Expression, None] = {}
    cells = [(r.alias.lower(), name.lower(), cell) for r in rows.scope.relations for name, cell in r.columns]
    cells += [("", c.name.lower(), c.cell) for c in rows.scope.columns]
    for alias, name, cell in cells:
        is_read = (alias, name) in named or ("", name) in named
        if is_read and not cell.closed and cell.expression.variables and rows.body.owns(cell.expression):
            found.setdefault(cell.expression)
    return list(found)


def shadow(scope: Scope, terms: dict[Expression, Expression]) -> Scope:
    """A scope in which names that meant an outer column mean the value that the subquery is joined with."""

    def moved(cell: Cell) -> Cell:
        return Cell(terms[cell.expression], cell.strict) if cell.expression in terms else cell

    found = Scope(scope.source, scope.parent)
    found.relations = [Relation(r.alias, [(n, moved(c)) for n, c in r.columns], r.qualifier) for r in scope.relations]
    found.columns = [Named(c.name, moved(c.cell), c.alias) for c in scope.columns]
    return found
