"""Queries within a query: where they stand, and which of them make the query a block of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sqlglot import exp

from everview.sql.chains import conjuncts

_CLAUSES: Final = ("expressions", "where", "group", "having", "order", "qualify")
COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)


def subqueries_in(node: exp.Expr) -> list[exp.Expr]:
    """The outermost subqueries of an expression: EXISTS, IN, comparisons with ANY or ALL, and those that give a value.

    What stands on the left of IN, or of a comparison with ANY, is part of that.
    """
    return [n for n in node.walk(bfs=False, prune=_is_subquery) if _is_subquery(n)]


def _is_subquery(node: exp.Expr) -> bool:
    if isinstance(node, exp.In):
        return node.args.get("query") is not None
    if isinstance(node, COMPARISONS):
        return is_quantified(node)
    return isinstance(node, exp.Exists | exp.Query)


def is_quantified(node: exp.Expr) -> bool:
    """True for a comparison with ANY or ALL rows of a subquery."""
    right = node.args.get("expression")
    return isinstance(right, exp.Any | exp.All) and isinstance(right.this, exp.Query)


def bare(node: exp.Expr) -> exp.Expr:
    """A node without parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def is_semi_join(conjunct: exp.Expr) -> bool:
    """True for EXISTS and IN, which keep or drop rows and give nothing else."""
    node = bare(conjunct)
    return isinstance(node, exp.Exists) or (isinstance(node, exp.In) and node.args.get("query") is not None)


def joins_of(select: exp.Expr) -> Iterator[exp.Join]:
    """All joins of a FROM clause, those in parentheses included, but not those of subqueries."""
    from_ = select.args.get("from_")
    items = [from_.this] if from_ is not None else []
    items += select.args.get("joins") or ()
    while items:
        item = items.pop()
        if isinstance(item, exp.Join):
            yield item
            items.append(item.this)
            continue
        items += item.args.get("joins") or ()
        if isinstance(item, exp.Paren) or (isinstance(item, exp.Subquery) and not isinstance(item.this, exp.Select)):
            items.append(item.this)


def is_outer(join: exp.Join) -> bool:
    """True for a join that keeps rows without a match, or only these."""
    return (bool(join.side) and join.kind != "SEMI") or join.kind == "ANTI"


EXPLODING: Final = frozenset("explode explode_outer posexplode posexplode_outer inline inline_outer unnest".split())
"""Functions that give a row once for each element of an array."""


def is_exploding(node: exp.Expr | None) -> bool:
    """True for a call that gives a row once for each element."""
    return isinstance(node, exp.Anonymous) and node.name.lower() in EXPLODING


def gives_elements(select: exp.Expr, joins: Sequence[exp.Join]) -> bool:
    """True if a SELECT has rows once for each element of an array, by LATERAL VIEW, in its list, or in FROM."""
    from_ = select.args.get("from_")
    items = [*([from_.this] if from_ is not None else []), *(join.this for join in joins)]
    if any(isinstance(i, exp.Unnest) for i in items):
        return True
    if any(isinstance(i, exp.Lateral | exp.Table) and isinstance(i.this, exp.Anonymous) for i in items):
        return True
    listed = (e.this if isinstance(e, exp.Alias | exp.Aliases) else e for e in select.expressions)
    return bool(select.args.get("laterals")) or any(map(is_exploding, listed))


def needs_own_body(select: exp.Expr) -> bool:
    """True if a SELECT is put together of several blocks over its rows, so that it cannot be part of another one."""
    joins = list(joins_of(select))
    if gives_elements(select, joins):
        return True
    if any(is_outer(join) or isinstance(join.this, exp.Lateral) for join in joins):
        return True
    conditions = [select.args["where"].this] if select.args.get("where") else []
    conditions += [join.args["on"] for join in joins if join.args.get("on") is not None]
    for condition in conditions:
        if any(subqueries_in(part) and not is_semi_join(part) for part in conjuncts(condition)):
            return True
    return any(subqueries_in(node) for node in select.expressions)
