"""Subqueries in the SELECT list and the HAVING of a grouped query: the groups are a stage, and joined with them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sqlglot import exp

from everview.query.terms import Expression, Var
from everview.query.types import BOOLEAN
from everview.query.view import aggregate_result, group_key
from everview.sql.aggregates import aggregates_in, whole_call
from everview.sql.body import Body, equality
from everview.sql.chains import conjuncts
from everview.sql.domain import two_queries_out
from everview.sql.grouping import grouped_output, over_groups, resolve_having
from everview.sql.names import Cell, Named, Relation, Scope
from everview.sql.nested import COMPARISONS, bare, subqueries_in
from everview.sql.session import Rows, Selected, stage_columns
from everview.sql.subqueries import lower_subqueries, note, placeholder


def subqueries_over_groups(rows: Rows, select: exp.Select) -> bool:
    """True if the SELECT list or HAVING has subqueries outside of aggregates."""
    having = select.args.get("having")
    nodes = [*select.expressions, *([having.this] if having is not None else [])]
    return any(id(found) not in rows.scope.subqueries for node in nodes for found in subqueries_in(node))


def after_grouping(rows: Rows, select: exp.Select, projections: Sequence[tuple[exp.Expr, str]]) -> Rows:
    """The groups as rows of their own, with the outputs and conditions of the SELECT."""
    if rows.correlations or rows.mixed or rows.outer_conditions or rows.carried:
        raise two_queries_out(rows, select)
    having = select.args.get("having")
    listed = [(exp.Paren(this=_bare(p)), name, p) for p, name in projections]
    if having is not None:
        resolve_having(rows, having, [p for p, _ in projections])
    conditions = [exp.Paren(this=node) for node in conjuncts(having.this)] if having is not None else []
    for node in [*(n for n, _, _ in listed), *conditions]:
        for call in list(aggregates_in(node)):
            whole = whole_call(call)
            grouped_output(rows, whole, "", whole)  # which makes it an aggregate of the groups
    found, standing = _groups(rows)
    for node, _, _ in listed:
        _lower(rows, found, standing, node, ())
    for holder in conditions:
        rejecting = {id(n) for n in _sides(holder.this)} if isinstance(holder.this, COMPARISONS) else ()
        _lower(rows, found, standing, holder, rejecting)
    groups = rows.groups
    assert groups is not None
    rows.scope.subqueries |= found.scope.subqueries
    terms = {v: found.scope.subqueries[id(n)][1].expression for v, n in standing.items()}
    found.outputs = []
    for holder, name, place in listed:
        one = grouped_output(rows, holder.this, name, place)
        found.outputs.append(Selected(name, one.expression.inline(terms), one.strict, place))
    for node in (holder.this for holder in conditions):
        condition = over_groups(rows, node, "HAVING").inline(terms)
        if isinstance(node, exp.EQ):
            left, right = (
                grouped_output(rows, bare(side), "", side).expression.inline(terms)
                for side in (node.this, node.expression)
            )
            found.body.equate(left, right, equality(left, right))
        else:
            found.body.require(Expression(condition.parts, BOOLEAN))
    found.distinct = rows.distinct
    return found


def _groups(rows: Rows) -> tuple[Rows, dict[Var, exp.Expr]]:
    """Rows over the stage of the groups, and nodes that stand for keys and aggregates, by their variables."""
    groups = rows.groups
    assert groups is not None
    rows.outputs = [
        Selected(rows.body.name_of(key), Expression.of(group_key(i), key.type), strict, exp.Null())
        for i, (key, strict) in enumerate(zip(groups.written, groups.strict, strict=True))
    ]
    rows.outputs += [
        Selected(f"a{i}", Expression.of(aggregate_result(i), a.type), True, exp.Null())
        for i, a in enumerate(groups.aggregates)
    ]
    distinct, rows.distinct = rows.distinct, False
    stage = rows.lowering.stage(rows.finish(), "groups", "groups that subqueries are put beside")
    rows.distinct = distinct
    scope = Scope(rows.source, rows.scope.parent)
    found = Rows(rows.lowering, rows.env, scope, Body(rows.lowering.fresh), is_over_groups=True)
    terms = found.atom(stage.name, "groups", stage_columns(stage), exp.Null())
    keys = dict(zip(groups.written, terms, strict=False))
    scope.relations = [
        Relation(r.alias, [(n, Cell(keys[c.expression])) for n, c in r.columns if c.expression in keys], r.qualifier)
        for r in rows.scope.relations
    ]
    shown = [c for c in rows.scope.columns if c.cell.expression in keys]
    scope.columns = [Named(c.name, Cell(keys[c.cell.expression]), c.alias) for c in shown]
    variables = [group_key(i) for i in range(len(groups.keys))]
    variables += [aggregate_result(i) for i in range(len(groups.aggregates))]
    standing: dict[Var, exp.Expr] = {}
    for variable, term in zip(variables, terms, strict=True):
        standing[variable] = exp.Null()
        note(found, standing[variable], Cell(term))
    return found, standing


def _lower(
    rows: Rows, found: Rows, standing: Mapping[Var, exp.Expr], node: exp.Expr, rejecting: Collection[int]
) -> None:
    known = set(found.scope.subqueries)
    for one in subqueries_in(node):
        for call in list(aggregates_in(one.this)) if isinstance(one, (exp.In, *COMPARISONS)) else ():
            whole = whole_call(call)
            term = grouped_output(rows, whole, "", whole).expression.term
            assert isinstance(term, Var)
            whole.replace(placeholder(found, found.scope.subqueries[id(standing[term])][1]))
    lower_subqueries(found, node, rejecting, but=rows.scope.subqueries)
    rows.over_groups |= set(found.scope.subqueries) - known


def _sides(node: exp.Expr) -> list[exp.Expr]:
    return [bare(node.this), bare(node.expression)]


def _bare(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Alias) else node
