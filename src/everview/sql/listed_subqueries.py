"""Subqueries in the SELECT list, HAVING, and keys of GROUP BY and ORDER BY: columns stand for them in what is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from everview.sql.aggregates import aggregates_in, whole_call
from everview.sql.grouping import is_grouped, key_node, key_nodes
from everview.sql.nested import subqueries_in
from everview.sql.session import Rows
from everview.sql.subqueries import lower_subqueries, placeholder


def lower_listed(rows: Rows, select: exp.Select, *, by_order: bool) -> None:
    """Lower those of the SELECT list, and ``by_order`` those that say which rows are the first.

    Where there are groups: those within aggregates, and in keys, which are then the same wherever they are written.
    """
    having = select.args.get("having")
    listed = [*select.expressions, *([having] if having is not None else [])]
    if is_grouped(select):
        _lower_keys(rows, select, listed)
    for node in listed:
        if not subqueries_in(node):
            continue
        if is_grouped(select):
            for call in list(aggregates_in(node)):
                lower_subqueries(rows, whole_call(call))
        else:
            lower_subqueries(rows, node)
    order = select.args.get("order")
    for item in order.expressions if order is not None and by_order and not is_grouped(select) else ():
        if subqueries_in(item):
            _settle(rows, item)


def name_subqueries(select: exp.Select, name: Callable[[exp.Expr], str]) -> None:
    """Give outputs with subqueries the names that they have as they are written."""
    for node in list(select.expressions):
        if not isinstance(node, exp.Alias) and subqueries_in(node):
            node.replace(exp.Alias(this=node.copy(), alias=exp.to_identifier(name(node), quoted=True)))


def _lower_keys(rows: Rows, select: exp.Select, listed: Sequence[exp.Expr]) -> None:
    group = select.args.get("group")
    if group is None:
        return
    for written in key_nodes(group, select.expressions):
        wanted = key_node(rows, written, select.expressions).copy()
        holder = exp.Paren(this=wanted.copy())
        if subqueries_in(holder):
            _settle(rows, holder)
            for node in [same for place in (group, *listed) for same in place.walk() if same == wanted]:
                node.replace(holder.this.copy())


def _settle(rows: Rows, holder: exp.Expr) -> None:
    """Lower all subqueries below a node, and put columns into their places, which copies have, too."""
    lower_subqueries(rows, holder)
    for node in list(holder.walk()):
        if id(node) in rows.scope.subqueries:
            node.replace(placeholder(rows, rows.scope.subqueries[id(node)][1]))
