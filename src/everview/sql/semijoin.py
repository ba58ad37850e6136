"""IN (subquery), EXISTS and LEFT SEMI JOIN: an atom over a stage, or inlined where copies do not count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from everview.query.terms import Expression
from everview.query.types import compared_in
from everview.query.view import Block, Output, SetOperation, group_key
from everview.sql.aggregates import aggregates_in
from everview.sql.apart import as_compared
from everview.sql.body import Body, equality
from everview.sql.carried import inner_block
from everview.sql.domain import add_domain
from everview.sql.names import Scope
from everview.sql.nested import needs_own_body
from everview.sql.ordering import is_cut, read_bounds
from everview.sql.session import Beside, Query, Rows, Selected, spell_names, stage_columns, written
from everview.sql.windows import is_windowed

Pair = tuple[Expression, Expression, exp.Expr]
"""Inner side, outer side, and where the equality was written."""


def semi_join(rows: Rows, node: exp.Expr) -> None:
    """Add EXISTS (…) or x IN (…), a condition of its own, to the body."""
    query = node.args["query"] if isinstance(node, exp.In) else node.this
    while isinstance(query, exp.Subquery) and not query.args.get("joins") and not is_cut(query):
        query = query.this
    outer = _outer_sides(rows, node) if isinstance(node, exp.In) else []
    word = "IN" if isinstance(node, exp.In) else "EXISTS"
    if word == "EXISTS" and isinstance(query, exp.Select):
        query = _without_stars(_without_limit(rows, query))
    if isinstance(query, exp.Select) and not is_cut(query):
        if _is_plain(rows, query):
            inner = rows.lowering.inline(query, rows.env, rows.body, rows.scope)
            _inlined(rows, inner, outer, node)
            return
        again = query.copy()
        inner = inner_block(rows, query, as_set=True, fits=lambda found: _compares_its_own(found, word))
        if inner.groups is not None and not inner.groups.keys and (inner.correlations or inner.outer_conditions):
            inner = _over(rows, rows.lowering.beside(rows, again), node)  # which has a row even where nothing matches
        tie(rows, inner, outer, node, word)
    elif isinstance(query, exp.Query):
        found = rows.lowering.beside(rows, query)
        if found.outer:
            tie(rows, _over(rows, found, node), outer, node, word)
        else:
            _set_operation(rows, found.query, outer, node, word)
    else:
        raise rows.source.syntax(f"{word} needs a subquery in parentheses", node)


def exists_of_one_group(select: exp.Select) -> None:
    """EXISTS of aggregates without GROUP BY, in a SELECT: there is a row if HAVING says so, of no rows, too."""
    for node in list(select.find_all(exp.Exists)):
        query = node.this.unnest()
        if not isinstance(query, exp.Select) or query.args.get("group") or is_cut(query) or is_windowed(query):
            continue
        having = query.args.get("having")
        if having is None:
            continue
        true, false = exp.Boolean(this=True), exp.Boolean(this=False)
        condition = exp.Paren(this=having.this.copy())
        spell_names(condition, query)
        is_grouped = any(True for _ in aggregates_in(condition))
        query.set("having", None if is_grouped else exp.Having(this=exp.Boolean(this=True)))
        query.set("distinct", None)
        query.set("expressions", [condition.this])
        node.replace(exp.Case(ifs=[exp.If(this=exp.Subquery(this=query), true=true)], default=false))


def _over(rows: Rows, found: Beside, node: exp.Expr) -> Rows:
    """A SELECT of all rows of a subquery, tied to the rows by the values that it reads of them."""
    stage = rows.lowering.stage(found.query.body, "beside", "rows of a subquery, beside what they read of other rows")
    inner = Rows(rows.lowering, rows.env, Scope(rows.source, rows.scope), Body(rows.lowering.fresh))
    terms = inner.atom(stage.name, "beside", stage_columns(stage), node)
    width = len(found.names)
    inner.outputs = [Selected(n, t, True, node) for n, t in zip(found.names, terms, strict=False)]
    inner.correlations = [(t, outer, node) for t, outer in zip(terms[width:], found.outer, strict=True)]
    return inner


def _compares_its_own(inner: Rows, word: str) -> bool:
    """Whether IN compares with columns of the subquery alone."""
    return word != "IN" or inner.groups is not None or all(inner.body.owns(o.expression) for o in inner.outputs)


def _without_limit(rows: Rows, query: exp.Select) -> exp.Select:
    """The SELECT of an EXISTS without a LIMIT that leaves at least one row: whether there is one it does not change."""
    if not is_cut(query):
        return query
    bounds = read_bounds(rows.source, query)
    if bounds.offset or bounds.limit == 0:
        return query
    found = query.copy()
    for name in ("limit", "offset", "order"):
        found.set(name, None)
    return found


def _without_stars(query: exp.Select) -> exp.Select:
    """The SELECT of an EXISTS, whose * reads no column."""
    if query.args.get("group") or not all(e.is_star for e in query.expressions):
        return query
    found = query.copy()
    found.set("expressions", [exp.Literal.number(1)])
    return found


def _is_plain(rows: Rows, query: exp.Select) -> bool:
    grouped = query.args.get("group") or query.args.get("having")
    plain = not grouped and not any(True for e in query.expressions for _ in aggregates_in(e))
    return rows.body.is_set and plain and not needs_own_body(query)


def _outer_sides(rows: Rows, node: exp.In) -> list[Expression]:
    left = node.this.unnest()
    parts = left.expressions if isinstance(left, exp.Tuple) else [left]
    sides = []
    for part in parts:
        checker = rows.checker("IN")
        type_ = checker.check(part).type
        sides.append(written(part.unnest(), checker, type_))
    return sides


def _pairs(rows: Rows, outputs: Sequence[Expression], outer: Sequence[Expression], node: exp.Expr) -> list[Pair]:
    """The equalities of x IN (SELECT y …); EXISTS has none."""
    if not isinstance(node, exp.In):
        return []
    if len(outputs) != len(outer):
        raise rows.source.query(
            f"IN compares {len(outer)} column{'s' * (len(outer) != 1)} with a subquery of {len(outputs)}",
            node,
            hint=f"select {len(outer)} column{'s' * (len(outer) != 1)} in the subquery",
        )
    for a, b in zip(outputs, outer, strict=True):
        if compared_in(a.type, b.type) is None:
            raise rows.source.mismatch(f"IN compares {b.type} with {a.type}", node, hint="CAST one of the two")
    return [(a, b, node) for a, b in zip(outputs, outer, strict=True)]


def _inlined(rows: Rows, inner: Rows, outer: Sequence[Expression], node: exp.Expr) -> None:
    """Copies do not count: the subquery's atoms are the block's own, and its correlations plain conditions."""
    rows.absorb(inner)
    for a, b, _ in _pairs(rows, [o.expression for o in inner.outputs], outer, node):
        equate_with(rows, a, b, node)


def tie(rows: Rows, inner: Rows, outer: Sequence[Expression], node: exp.Expr, word: str) -> None:
    """A stage with the distinct values of the tied columns, and an atom over it."""
    add_domain(rows, inner, node)
    source, groups = rows.source, inner.groups
    pairs: list[tuple[Selected, Expression, exp.Expr]] = []
    for (a, b, _), selected in zip(
        _pairs(rows, [o.expression for o in inner.outputs], outer, node), inner.outputs, strict=False
    ):
        if groups is None and not inner.body.owns(a):
            raise source.unsupported("correlated output in IN", selected.place, hint="compare it outside the subquery")
        pairs.append((replace(selected, expression=as_compared(a, b)), b, node))
    for a, b, where in inner.correlations:
        a = as_compared(a, b)
        if groups is not None:
            a = Expression.of(group_key(groups.key(inner.body, a, strict=True)), a.type)
        pairs.append((Selected(_column_name(where, len(pairs)), a, True, where), b, where))
    for predicate in inner.outer_conditions:
        _require_outer(rows, predicate, node)
    inner.outputs = [selected for selected, _, _ in pairs]
    inner.distinct = True
    _add_stage(rows, inner.finish(), [b for _, b, _ in pairs], node, word)


def _column_name(where: exp.Expr, index: int) -> str:
    column = where.find(exp.Column)
    return column.name if column is not None else f"c{index}"


def _set_operation(rows: Rows, query: Query, outer: Sequence[Expression], node: exp.Expr, word: str) -> None:
    """UNION and the like on the right side: a stage of its own, then its distinct values."""
    body = query.body
    _pairs(rows, [o.expression for o in body.columns], outer, node)
    if isinstance(body, SetOperation) and not body.all and word == "IN":
        _add_stage(rows, body, outer, node, word)
        return
    stage = rows.lowering.stage(body, "subquery", f"set operation on the right side of {word}")
    over = Body(rows.lowering.fresh, is_set=True)
    terms = over.add_atom(stage.name, "subquery", stage_columns(stage))
    wanted = terms if word == "IN" else []
    atoms, predicates, not_null, renamed = over.finish()
    outputs = tuple(
        Output(c.name, t.substitute(renamed), c.nullable) for c, t in zip(body.columns, wanted, strict=False)
    )
    _add_stage(rows, Block(atoms, predicates, outputs, None, True, not_null), outer, node, word)


def _add_stage(rows: Rows, body: Block | SetOperation, outer: Sequence[Expression], node: exp.Expr, word: str) -> None:
    base = word.lower().replace(" ", "_")
    stage = rows.lowering.stage(body, base, f"right side of {word}")
    terms = rows.atom(stage.name, base, stage_columns(stage), node, named=True)
    for term, side in zip(terms, outer, strict=True):
        equate_with(rows, term, side, node)


def equate_with(rows: Rows, inner: Expression, outer: Expression, node: exp.Expr) -> None:
    """Equate a subquery's column with the outer expression, which may itself belong further out."""
    whole = equality(outer, inner)
    if rows.body.owns(whole):
        rows.body.equate(inner, outer, whole)
    elif rows.body.owns(inner) and rows.body.is_foreign(outer):
        rows.correlations.append((inner, outer, node))
    elif rows.body.is_foreign(whole):
        rows.outer_conditions.append(whole)
    else:
        rows.mixed.append((whole, node))


def _require_outer(rows: Rows, predicate: Expression, node: exp.Expr) -> None:
    if rows.body.owns(predicate):
        rows.body.require(predicate)
    elif rows.body.is_foreign(predicate):
        rows.outer_conditions.append(predicate)
    else:
        rows.mixed.append((predicate, node))
