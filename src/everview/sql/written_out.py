"""What Spark means by other words, written out in these before anything is read.

Row values, ``(a, b)``, are compared part by part from the left: a row is a struct in Spark, in which NULL is equal to
NULL and before all other values, so a comparison of two rows is never NULL. LIKE ANY and ALL are several LIKEs;
``stack`` is INLINE of an array; ``dateadd(unit, n, t)`` is ``timestampadd``; ``try_divide(a, b)`` is a / nullif(b, 0);
``decode(x, a, b, …)`` is CASE; ``array_sort`` by a comparison puts each element in behind those that are not above it;
VALUES as a whole query, or as a subquery of an expression, is a SELECT of all its columns; a subquery without FROM is
what it selects; ``grouping__id`` is ``grouping_id()``; DISTINCT ON takes the first row of each partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from everview.sql.aggregates import aggregates_in
from everview.sql.grouping_sets import has_sets
from everview.sql.nested import is_exploding
from everview.sql.nodes import call, is_whole

_SHIFTS: Final = ("dateadd", "date_add")
_GROUPING_ID: Final = "grouping__id"
_SORTED: Final = "sorted"
_TRIED: Final[dict[str, type[exp.Binary]]] = {"try_divide": exp.Div, "try_mod": exp.Mod}

_EQUAL = (exp.EQ, exp.NullSafeEQ)
_LESS: dict[type[exp.Expr], tuple[bool, bool]] = {
    exp.LT: (False, False),
    exp.LTE: (False, True),
    exp.GT: (True, False),
    exp.GTE: (True, True),
}
"""Whether the sides are to change places, and whether equal ones will do."""


def spelled(statement: exp.Expr) -> exp.Expr:
    """The statement with all of these written out."""
    holder = exp.Paren(this=statement)
    body = statement.expression if isinstance(statement, exp.Create) else statement
    for values in list(statement.find_all(exp.Values)):
        _put_in_select(values, is_whole_query=values is body)
    statement = holder.this
    for subquery in list(statement.find_all(exp.Subquery)):
        if _selects_a_value(subquery):
            (value,) = subquery.this.expressions
            subquery.replace(exp.paren(value.this if isinstance(value, exp.Alias) else value, copy=False))
    for select in statement.find_all(exp.Select):
        distinct = select.args.get("distinct")
        if isinstance(distinct, exp.Distinct) and distinct.args.get("on") is not None and not _has_place(select):
            _put_qualify(select, distinct.args["on"])
    for column in list(statement.find_all(exp.Column)):
        if column.name.lower() == _GROUPING_ID and not column.table:
            _put_grouping_id(column)
    for node in list(statement.find_all(exp.In, exp.Predicate, exp.Tuple, exp.Anonymous)):
        other = _spelled(node)
        if other is not None:
            node.replace(exp.paren(other, copy=False) if isinstance(other, exp.Connector) else other)
    found: exp.Expr = holder.this
    found.parent = None
    return found


def _put_grouping_id(column: exp.Column) -> None:
    """Have a call stand for the column that Spark has beside the groups of several sets."""
    select = column.find_ancestor(exp.Select)
    if select is None or not has_sets(select.args.get("group")):
        return
    number = call("grouping_id")
    number.meta.update(column.meta)
    column.replace(exp.alias_(number, _GROUPING_ID) if column.parent is select else number)


def _put_qualify(select: exp.Select, on: exp.Expr) -> None:
    """Have DISTINCT ON (a) … ORDER BY a, b be QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY a, b) = 1."""
    keys = on.expressions if isinstance(on, exp.Tuple) else [on.unnest()]
    order = select.args.get("order")
    items = [item.copy() for item in order.expressions] if order is not None else []
    keys = [_output_meant(select, key) for key in keys]
    for item in items:
        item.set("this", _output_meant(select, item.this))
    number = exp.Window(
        this=call("row_number"), partition_by=keys, order=exp.Order(expressions=items) if items else None
    )
    condition: exp.Expr = exp.EQ(this=number, expression=exp.Literal.number(1))
    qualify = select.args.get("qualify")
    if qualify is not None:
        condition = exp.and_(qualify.this, condition, copy=False)
    select.set("qualify", exp.Qualify(this=condition))
    select.set("distinct", None)


def _has_place(select: exp.Select) -> bool:
    """True if a key is a number, and a star among the outputs says not which of them it is."""
    order = select.args.get("order")
    on = select.args["distinct"].args["on"]
    keys = [*on.expressions, *([item.this for item in order.expressions] if order is not None else [])]
    return any(e.is_star for e in select.expressions) and any(is_whole(key) for key in keys)


def _output_meant(select: exp.Select, key: exp.Expr) -> exp.Expr:
    """What a key of ORDER BY stands for: the output of that number or alias, or itself."""
    listed = select.expressions
    found = key
    if is_whole(key) and 1 <= int(key.name) <= len(listed):
        found = listed[int(key.name) - 1]
    elif isinstance(key, exp.Column) and not key.table:
        names = [e for e in listed if isinstance(e, exp.Alias) and e.alias.lower() == key.name.lower()]
        found = names[0] if names else key
    return (found.this if isinstance(found, exp.Alias) else found).copy()


def _put_in_select(values: exp.Values, *, is_whole_query: bool) -> None:
    """Have a SELECT stand for VALUES where they are a query of their own, and no rows of FROM."""
    around = values.parent
    select = exp.Select(expressions=[exp.Star()], from_=exp.From(this=values.copy()))
    if isinstance(around, exp.In):
        around.set("query", exp.Subquery(this=select))
        around.set("expressions", None)
    elif isinstance(around, exp.Anonymous) and around.name.lower() == "exists":
        around.replace(exp.Exists(this=select))
    elif isinstance(around, exp.Any | exp.All):
        values.replace(exp.Subquery(this=select))
    elif is_whole_query or (isinstance(around, exp.Subquery) and isinstance(around.parent, exp.Condition)):
        values.replace(select)


def _selects_a_value(node: exp.Subquery) -> bool:
    """True for ``(SELECT x)`` within an expression, if x has no aggregates, window functions and rows of arrays."""
    around, select = node.parent, node.this
    if not isinstance(around, exp.Condition | exp.Where | exp.Having) or node.arg_key == "query":
        return False
    if isinstance(around, exp.Any | exp.All | exp.Exists) or not isinstance(select, exp.Select):
        return False
    if {k for k, v in select.args.items() if v} != {"expressions"} or len(select.expressions) != 1:
        return False
    (value,) = select.expressions
    many = any(is_exploding(n) or isinstance(n, exp.Window | exp.Star) for n in value.walk())
    return not many and not any(True for _ in aggregates_in(value))


def _spelled(node: exp.Expr) -> exp.Expr | None:
    """What a node is to be replaced by; None if it stays as it is, as lists of values of PIVOT do."""
    if isinstance(node.parent, exp.Pivot | exp.PivotAlias):
        return None
    if isinstance(node, exp.Tuple):
        is_value = isinstance(node.parent, exp.Anonymous | exp.Lambda | exp.Alias | exp.Select)
        is_value = is_value or (isinstance(node.parent, exp.Distinct) and isinstance(node.parent.parent, exp.Anonymous))
        return exp.Anonymous(this="struct", expressions=node.expressions) if is_value and node.expressions else None
    if isinstance(node, exp.Anonymous):
        return _called(node)
    left, right = node.this, node.args.get("expression")
    if isinstance(node, exp.In):
        rows = node.expressions
        if not isinstance(left, exp.Tuple) or not rows or not all(_fits(left, row) for row in rows):
            return None
        return exp.or_(*(_equal(left, row) for row in rows), copy=False)
    if isinstance(node, exp.Like | exp.ILike) and isinstance(right, exp.Any | exp.All):
        return _alike(node, right)
    if not isinstance(left, exp.Tuple) or not isinstance(right, exp.Tuple) or not _fits(left, right):
        return None
    if isinstance(node, _EQUAL):
        return _equal(left, right)
    if isinstance(node, exp.NEQ | exp.NullSafeNEQ):
        return exp.Not(this=exp.paren(_equal(left, right), copy=False))
    if type(node) in _LESS:
        turned, or_equal = _LESS[type(node)]
        pairs = list(zip(left.expressions, right.expressions, strict=True))
        return _less([(b, a) for a, b in pairs] if turned else pairs, or_equal)
    return None


def _called(node: exp.Anonymous) -> exp.Expr | None:
    name, arguments = node.name.lower(), node.expressions
    found: exp.Expr | None = None
    if name in _SHIFTS and len(arguments) == 3:
        found = call("timestampadd", *arguments)
    elif name in _TRIED and len(arguments) == 2:
        divisor = call("nullif", arguments[1], exp.Literal.number(0))
        found = exp.paren(_TRIED[name](this=exp.paren(arguments[0].copy()), expression=divisor), copy=False)
    elif name == "stack" and len(arguments) > 1 and is_whole(arguments[0]):
        found = _stacked(int(arguments[0].name), arguments[1:])
    elif name == "decode" and len(arguments) > 2:
        found = _decoded(*arguments)
    elif name == "ilike" and len(arguments) == 2:
        found = exp.ILike(this=arguments[0].copy(), expression=arguments[1].copy())
    elif name == "array_sort" and len(arguments) == 2 and isinstance(arguments[1], exp.Lambda):
        found = _sorted_by(*arguments)
    if found is not None:
        found.meta.update(node.meta)
    return found


def _decoded(value: exp.Expr, *others: exp.Expr) -> exp.Expr:
    """What stands behind the first that is equal, NULL being equal to NULL; or the last, if there is one left."""
    pairs = zip(others[::2], others[1::2], strict=False)
    ifs = [exp.If(this=exp.NullSafeEQ(this=value.copy(), expression=a.copy()), true=b.copy()) for a, b in pairs]
    return exp.Case(ifs=ifs, default=others[-1].copy() if len(others) % 2 else None)


def _sorted_by(array: exp.Expr, order: exp.Lambda) -> exp.Expr | None:
    """The elements put in one after the other, each behind those that the comparison does not find above it."""
    if len(order.expressions) != 2:
        return None
    left, right = (variable.name for variable in order.expressions)
    told = exp.Literal.string("a comparison of array_sort is NULL")
    above = call("coalesce", order.this, call("raise_error", told))
    if left in (_SORTED, right) or right == _SORTED:
        return None

    def kept(sign: type[exp.Binary]) -> exp.Expr:
        condition = sign(this=above.copy(), expression=exp.Literal.number(0))
        return call(
            "filter", exp.to_identifier(_SORTED), exp.Lambda(this=condition, expressions=[exp.to_identifier(left)])
        )

    inserted = call("concat", kept(exp.LTE), call("array", exp.to_identifier(right)), kept(exp.GT))
    empty = call("slice", array, exp.Literal.number(1), exp.Literal.number(0))
    names = [exp.to_identifier(name) for name in (_SORTED, right)]
    return call("aggregate", array, empty, exp.Lambda(this=inserted, expressions=names))


def _stacked(count: int, values: Sequence[exp.Expr]) -> exp.Expr | None:
    """So many rows of values, one after the other, filled up with NULLs."""
    width = -(-len(values) // count) if count else 0
    if not width:
        return None
    rows = []
    for first in range(0, count * width, width):
        parts = [*values[first : first + width], *(exp.Null() for _ in range(first + width - len(values)))]
        named = zip((exp.Literal.string(f"col{i}") for i in range(width)), parts[:width], strict=True)
        rows.append(call("named_struct", *(part for pair in named for part in pair)))
    return call("inline", call("array", *rows))


def _fits(left: exp.Tuple, right: exp.Expr) -> bool:
    return isinstance(right, exp.Tuple) and len(left.expressions) == len(right.expressions)


def _equal(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Two rows are equal if all parts are, NULL and NULL, too."""
    pairs = zip(left.expressions, right.expressions, strict=True)
    return exp.and_(*(exp.NullSafeEQ(this=a.copy(), expression=b.copy()) for a, b in pairs), copy=False)


def _less(pairs: Sequence[tuple[exp.Expr, exp.Expr]], or_equal: bool) -> exp.Expr:
    """The first part that differs decides; NULL is the least."""
    (a, b), *rest = pairs
    both = exp.LT(this=a.copy(), expression=b.copy())
    is_null, is_not = (exp.Is(this=side.copy(), expression=exp.Null()) for side in (a, b))
    less: exp.Expr = exp.Anonymous(
        this="coalesce", expressions=[both, exp.and_(is_null, exp.Not(this=is_not), copy=False)]
    )
    if not rest and not or_equal:
        return less
    same: exp.Expr = exp.NullSafeEQ(this=a.copy(), expression=b.copy())
    if rest:
        same = exp.and_(same, exp.paren(_less(rest, or_equal), copy=False), copy=False)
    return exp.or_(less, exp.paren(same, copy=False), copy=False)


def _alike(node: exp.Expr, quantifier: exp.Expr) -> exp.Expr | None:
    """``x LIKE ANY (…)`` as OR, and ``x LIKE ALL (…)`` as AND; NOT LIKE is asked of each pattern, as in Spark."""
    patterns = quantifier.this.unnest()
    listed = patterns.expressions if isinstance(patterns, exp.Tuple) else [patterns]
    if not listed or any(isinstance(p, exp.Query) for p in listed):
        return None
    likes: list[exp.Expr] = [type(node)(this=node.this.copy(), expression=pattern.copy()) for pattern in listed]
    if node.args.get("negate"):
        likes = [exp.Not(this=like) for like in likes]
    found = exp.or_(*likes, copy=False) if isinstance(quantifier, exp.Any) else exp.and_(*likes, copy=False)
    return found if len(likes) > 1 else likes[0]
