"""LEFT, RIGHT and FULL OUTER JOIN: UNION ALL of the inner join and, with NULLs, the rows without a match.

Each side has a body of its own. The inner join has both; rows of one side are without a match if no row of the other
one exists for which the condition holds, which is an anti join. A row whose first partner comes, or whose last one
goes, changes from one of them to the other: so a feed tells of it once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from everview.errors import UnknownNameError
from everview.query.terms import Expression
from everview.query.types import DataType, common_type
from everview.query.view import Body as AnyBody
from everview.sql.apart import Kept, block, go_on, kept, null_of, together, whole, without
from everview.sql.body import cast, equality
from everview.sql.conditions import add_condition
from everview.sql.datatypes import same_word
from everview.sql.domain import two_queries_out
from everview.sql.names import Named, Scope
from everview.sql.nested import subqueries_in
from everview.sql.semijoin import tie
from everview.sql.session import Rows
from everview.sql.subqueries import copied, lower_subqueries

Merged = Sequence[tuple[Named, Named]]
"""The columns that USING or NATURAL equates, of one side and of the other."""


def outer_join(rows: Rows, right: Rows, join: exp.Join, merged: Merged) -> None:
    """Join ``right`` to the rows, and go on over what comes out."""
    on = join.args.get("on")
    if on is not None and subqueries_in(on):
        on = _without_subqueries(rows, right, on)
    side = join.side
    both = _both(rows, right, on, merged)
    if right.correlations or right.mixed or right.outer_conditions or both.correlations or both.mixed:
        raise two_queries_out(rows, join)
    columns = kept(rows), kept(right)
    shown = [_shown(a.cell.expression, b.cell.expression, side) for a, b in merged]
    inner = [*columns[0], *columns[1], *(Kept(a.name, e, False) for (a, _), e in zip(merged, shown, strict=True))]
    # Where both sides are equal either will do, and a column as it is can be joined, grouped and spread by.
    equal = [Kept(a.name, _as(a.cell.expression, e.type), False) for (a, _), e in zip(merged, shown, strict=True)]
    bodies: list[AnyBody] = [block(rows, both.body, [*inner[: len(inner) - len(equal)], *equal])]
    if side in ("LEFT", "FULL"):
        bodies.append(_without_match(rows, right, on, merged, columns, shown, join))
    if side in ("RIGHT", "FULL"):
        turned = [(b, a) for a, b in merged]
        bodies.append(_without_match(right, rows, on, turned, columns, shown, join))
    rows.scope = both.scope
    cells = go_on(rows, together(bodies), inner, f"{side.lower()}_join", f"{side} OUTER JOIN", join)
    if merged:
        own = cells[len(cells) - len(merged) :]
        once = [Named(a.name, cell) for (a, _), cell in zip(merged, own, strict=True)]
        gone = {c.name.lower() for c in once}
        rows.scope.columns = [*once, *(c for c in rows.scope.columns if c.name.lower() not in gone)]


def _without_subqueries(rows: Rows, right: Rows, on: exp.Expr) -> exp.Expr:
    """The condition with columns of one side or the other in the place of subqueries, which read that side alone."""
    holder = exp.Paren(this=on.copy())
    for node in subqueries_in(holder):
        try:
            lower_subqueries(rows, holder, but=_all_but(holder, node))
        except UnknownNameError:
            lower_subqueries(right, holder, but=_all_but(holder, node))
    standing = rows.scope.subqueries | right.scope.subqueries
    for node in list(holder.walk()):
        if id(node) in standing:
            column = exp.column(exp.to_identifier("everview", quoted=True))
            column.meta["cell"] = standing[id(node)][1]
            node.replace(column)
    found: exp.Expr = holder.this
    return found


def _all_but(holder: exp.Expr, one: exp.Expr) -> set[int]:
    return {id(node) for node in subqueries_in(holder) if node is not one}


def _both(rows: Rows, right: Rows, on: exp.Expr | None, merged: Merged) -> Rows:
    """The inner join, under the names of both sides."""
    scope = Scope(rows.source, rows.scope.parent, subqueries=rows.scope.subqueries)
    scope.relations = list(rows.scope.relations)
    for relation in right.scope.relations:
        scope.add_alias(replace(relation), relation_place(right, relation.alias))
    scope.columns = [*rows.scope.columns, *right.scope.columns]
    found = copied(rows)
    found.body = rows.body.joined(right.body)
    found.body.is_set = False
    found.scope = scope
    for a, b in merged:
        found.body.equate(a.cell.expression, b.cell.expression, equality(a.cell.expression, b.cell.expression))
    if on is not None:
        add_condition(found, on.copy(), "ON")
    return found


def relation_place(rows: Rows, alias: str) -> exp.Expr:
    """The node that brought a relation into scope."""
    return rows.places.get(alias.lower(), exp.Null())


def _without_match(
    rows: Rows,
    other: Rows,
    on: exp.Expr | None,
    merged: Merged,
    columns: tuple[Sequence[Kept], Sequence[Kept]],
    shown: Sequence[Expression],
    join: exp.Join,
) -> AnyBody:
    """The rows of one side without a match on the other one, with NULLs for what that has."""
    own = kept(rows)
    rest = _rest(rows, other, on, merged, own, join)
    body, terms = whole(rows.lowering.stage(rest, "anti", "rows without a match"), rows)
    mine = {c.expression: term for c, term in zip(own, terms, strict=True)}
    listed = [
        Kept(c.name, mine.get(c.expression) or null_of(c.expression), c.expression in mine)
        for side in columns
        for c in side
    ]
    for (a, _), expression in zip(merged, shown, strict=True):
        value = a.cell.expression
        listed.append(Kept(a.name, _as(mine.get(value, value), expression.type)))
    return block(rows, body, listed)


def _rest(rows: Rows, other: Rows, on: exp.Expr | None, merged: Merged, own: Sequence[Kept], join: exp.Join) -> AnyBody:
    inner = copied(other)
    inner.scope = Scope(rows.source, rows.scope, other.scope.relations, other.scope.columns)
    if on is not None:
        add_condition(inner, on.copy(), "ON")
    inner.correlations += [(b.cell.expression, a.cell.expression, exp.column(a.name)) for a, b in merged]
    with_match = copied(rows)
    tie(with_match, inner, [], join, "JOIN")
    if with_match.correlations or with_match.outer_conditions or with_match.mixed:
        raise two_queries_out(rows, join)
    return without(block(rows, rows.body, own), block(rows, with_match.body, own))


def drop_matched(rows: Rows, other: Rows, merged: Merged, join: exp.Join) -> None:
    """Keep the rows without a match in another relation, by columns of the same names."""
    own = kept(rows)
    go_on(rows, _rest(rows, other, None, merged, own, join), own, "anti", "rows without a match", join)


def _shown(left: Expression, right: Expression, side: str) -> Expression:
    """What USING shows: the column of the side that has all rows, or of either."""
    if side != "FULL":
        return left if side == "LEFT" else right
    type_ = common_type(left.type, right.type) or left.type
    return Expression(("coalesce(", *_as(left, type_).parts, ", ", *_as(right, type_).parts, ")"), type_.unbounded)


def _as(expression: Expression, type_: DataType) -> Expression:
    return expression if same_word(expression.type, type_) else cast(expression, type_)
