"""WHERE and ON: each conjunct becomes a unification, a semi-join, a NOT NULL, or a predicate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlglot import exp

from everview.query.terms import Expression, Var
from everview.sql.apart import as_compared, equate_null_safe, null_safe
from everview.sql.chains import balanced, conjuncts
from everview.sql.clock import add_clock_condition, comparisons, reads_clock
from everview.sql.nested import bare, is_semi_join, subqueries_in
from everview.sql.semijoin import semi_join
from everview.sql.session import Rows, written
from everview.sql.subqueries import anti_join, lower_subqueries, negated


def add_condition(rows: Rows, condition: exp.Expr, place: str) -> None:
    """Add all conjuncts of a condition to the body."""
    waiting = []
    for conjunct in conjuncts(condition):
        if isinstance(conjunct, exp.Or) and conjunct.find(exp.Query) is None:
            rows.condition(conjunct, place)  # as a whole, before anything in it is absorbed
        for part in _factored(conjunct):
            if subqueries_in(part):
                waiting.append(part)
            else:
                _add_conjunct(rows, part, place)
    # What only joins comes first: what others make of the rows is made of fewer of them then.
    for part in sorted(waiting, key=_work):
        _add_with_subqueries(rows, part, place)


def _work(part: exp.Expr) -> int:
    """How a conjunct with subqueries changes what has been joined: it only joins, it drops rows, or it adds columns."""
    return 0 if is_semi_join(part) else 2 if negated(part) is None else 1


def _add_with_subqueries(rows: Rows, part: exp.Expr, place: str) -> None:
    """Add a conjunct that has subqueries."""
    if is_semi_join(part):
        semi_join(rows, bare(part))
        return
    one = negated(part)
    if one is not None:
        anti_join(rows, one)
        return
    holder = exp.Paren(this=part)
    holder.parent = part.parent
    rejecting = {id(n) for n in _operands(part) if isinstance(n, exp.Subquery)}
    lower_subqueries(rows, holder, rejecting)
    _add_conjunct(rows, holder.this, place)


def _factored(node: exp.Expr) -> list[exp.Expr]:
    """``(p AND a) OR (p AND b)`` as ``p`` and ``a OR b``: a join condition repeated in every branch is one still."""
    if not isinstance(node, exp.Or):
        return [node]
    branches = [list(conjuncts(branch)) for branch in _disjuncts(node)]
    common = [part for part in branches[0] if all(part in other for other in branches[1:])]
    if not common:
        return [node]
    rests = [[part for part in branch if part not in common] for branch in branches]
    if not all(rests):  # p OR (p AND a) is p
        return common
    return [*common, balanced(exp.or_(*(exp.and_(*rest, copy=False) for rest in rests), copy=False))]


def _disjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    bare = node
    while isinstance(bare, exp.Paren):
        bare = bare.this
    chain: list[exp.Expr] = []
    while isinstance(bare, exp.Or):
        chain.append(bare.expression)
        bare = bare.this
    if not chain:
        yield bare
        return
    yield from _disjuncts(bare)
    for part in reversed(chain):
        yield from _disjuncts(part)


def _add_conjunct(rows: Rows, node: exp.Expr, place: str) -> None:
    if reads_clock(rows, node):
        for part in comparisons(node):
            (add_clock_condition if reads_clock(rows, part) else _add_conjunct)(rows, part, place)
        return
    if isinstance(node, exp.EQ) and isinstance(node.this, exp.Tuple) and isinstance(node.expression, exp.Tuple):
        widths = len(node.this.expressions), len(node.expression.expressions)
        raise rows.source.mismatch(f"a row of {widths[0]} is compared with a row of {widths[1]}", node)
    checker = rows.checker(place)
    typed = checker.boolean(node)
    whole = written(node, checker, typed.type)
    for column in _compared(node):
        cell = checker.cells.get(id(column))
        if cell is not None and isinstance(cell.expression.term, Var):
            if rows.body.owns(cell.expression):
                rows.body.rule_out_null(cell.expression.term)
            else:
                rows.compared.add(cell.expression.term)
    if isinstance(node, exp.EQ | exp.NullSafeEQ):
        left = written(bare(node.this), checker, checker.check(node.this).type)
        right = written(bare(node.expression), checker, checker.check(node.expression).type)
        (_equate if isinstance(node, exp.EQ) else _equate_null_safe)(rows, left, right, whole, node)
        return
    subject = _not_null_subject(node)
    if subject is not None:
        value = written(subject, checker, checker.check(subject).type).term
        if isinstance(value, Var) and rows.body.owns(Expression.of(value)):
            rows.body.refuse_null(value)
            return
    require(rows, whole, node)


_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Like, exp.Between, exp.In)
_PASSING_NULL: Final = (exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Cast)


def _compared(node: exp.Expr) -> Iterator[exp.Column]:
    """Columns that are not NULL where the condition holds: a comparison of nothing is never true."""
    return (operand for operand in _operands(node) if isinstance(operand, exp.Column))


def _operands(node: exp.Expr) -> Iterator[exp.Expr]:
    """What a comparison is made of, as far as it is NULL where one of them is."""
    if isinstance(node, _COMPARISONS):
        operands = [node.this] if isinstance(node, (exp.In, exp.Between)) else [node.this, node.expression]
        while operands:
            operand = operands.pop()
            yield operand
            if isinstance(operand, _PASSING_NULL):
                operands += [a for a in (operand.this, operand.args.get("expression")) if isinstance(a, exp.Expr)]


def _not_null_subject(node: exp.Expr) -> exp.Expr | None:
    """x, for x IS NOT NULL."""
    if isinstance(node, exp.Not):
        inner = bare(node.this)
        if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
            return bare(inner.this)
    return None


def _equate(rows: Rows, left: Expression, right: Expression, whole: Expression, node: exp.Expr) -> None:
    body = rows.body
    if body.owns(whole):
        body.equate(left, right, whole)
    elif body.is_foreign(whole):
        rows.outer_conditions.append(whole)
    elif body.owns(left) and body.is_foreign(right):
        rows.correlations.append((left, right, node))
    elif body.owns(right) and body.is_foreign(left):
        rows.correlations.append((right, left, node))
    else:
        require(rows, whole, node)


def _equate_null_safe(rows: Rows, left: Expression, right: Expression, whole: Expression, node: exp.Expr) -> None:
    """``left <=> right``: an equality where one of them is never NULL, two where both may be."""
    body = rows.body
    if body.owns(right) and body.is_foreign(left):
        left, right = right, left
    if body.owns(left) and body.is_foreign(right):
        if body.nullable(left):
            rows.correlations += [
                (a, b, node) for a, b in null_safe(as_compared(left, right), as_compared(right, left))
            ]
        else:
            rows.correlations.append((left, right, node))
    elif body.owns(whole) and left.variables and right.variables:
        equate_null_safe(body, left, right, whole)
    else:
        require(rows, whole, node)


def require(rows: Rows, predicate: Expression, node: exp.Expr) -> None:
    """Add a predicate; of one that mixes the query's columns with an outer query's that has to take care."""
    if rows.body.owns(predicate):
        rows.body.require(predicate)
    elif rows.body.is_foreign(predicate):
        rows.outer_conditions.append(predicate)
    else:
        rows.mixed.append((predicate, node))
