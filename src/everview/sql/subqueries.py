"""NOT EXISTS, NOT IN, and subqueries within expressions: as truth values, compared by ANY and ALL, and as values.

``NOT EXISTS`` is EXCEPT ALL of the rows and those that have a match. Within an expression a subquery becomes a column:
rows with a match get its value, the others what it is over no rows, and UNION ALL puts them together. Where a row
without a match would not pass the condition anyway, the value is simply joined.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from sqlglot import exp

from everview.query.terms import Const, Expression
from everview.query.types import BOOLEAN
from everview.query.view import Body as AnyBody
from everview.query.view import Stage, group_key
from everview.sql.aggregates import aggregates_in
from everview.sql.apart import Kept, as_compared, block, go_on, kept, null_of, over, together, whole, without
from everview.sql.body import equality
from everview.sql.carried import inner_block
from everview.sql.domain import add_domain, two_queries_out
from everview.sql.grouping import OF_QUANTIFIER
from everview.sql.names import STANDS_FOR, Cell
from everview.sql.nested import bare, is_quantified, is_semi_join, subqueries_in
from everview.sql.only_value import only_value
from everview.sql.ordering import is_cut
from everview.sql.over_nothing import over_nothing
from everview.sql.semijoin import semi_join
from everview.sql.session import Rows, Selected, stage_columns
from everview.sql.windows import is_windowed

BESIDE = "rows of LATERAL, beside what they read of the rows before"


# --- rows without a match ---------------------------------------------------------------------------------------------


def negated(conjunct: exp.Expr) -> exp.Expr | None:
    """The EXISTS or IN that a conjunct negates; None if it is no such."""
    node = bare(conjunct)
    if isinstance(node, exp.Not):
        inner = bare(node.this)
        return inner if is_semi_join(inner) else None
    if isinstance(node, exp.NEQ) and is_quantified(node) and isinstance(node.expression, exp.All):
        return _as_in(node)
    return None


def anti_join(rows: Rows, node: exp.Expr) -> None:
    """Keep the rows for which EXISTS (…), or x IN (…), is false: NULL is not."""
    if isinstance(node, exp.In):
        for one in _unknown(rows, node):
            _drop(rows, _current(rows, one), node)
    _drop(rows, node, node)


def _drop(rows: Rows, node: exp.Expr, where: exp.Expr) -> None:
    """Drop the rows for which a condition with one EXISTS or IN holds."""
    with_match = matched(rows, node, where)
    columns = kept(rows)
    body = without(block(rows, rows.body, columns), block(rows, with_match.body, columns))
    go_on(rows, body, columns, "anti", "rows without a match", where)


def matched(rows: Rows, node: exp.Expr, where: exp.Expr) -> Rows:
    """The same rows as far as EXISTS, IN, or what is joined to such by AND, holds for them."""
    found = copied(rows)
    if isinstance(node, exp.And):  # a condition of the row, and EXISTS
        found.body.require(found.condition(node.this, "NOT IN"))
        node = node.expression
    semi_join(found, node)
    if found.correlations or found.outer_conditions or found.mixed:
        raise two_queries_out(rows, where)
    return found


def copied(rows: Rows) -> Rows:
    """The same rows once more, to go another way with; what they want of outer queries stays with the first."""
    found = replace(rows, body=rows.body.copied(), correlations=[], outer_conditions=[], mixed=[], compared=set())
    found.body.is_set = False
    return found


def _unknown(rows: Rows, node: exp.In) -> list[exp.Expr]:
    """When ``x IN (SELECT y …)`` is NULL, as conditions: there is a y that is NULL; or x is, and there is any row."""
    query = _query(node.args["query"])
    left = bare(node.this)
    sides = left.expressions if isinstance(left, exp.Tuple) else [left]
    names = [f"c{i}" for i in range(len(sides))]
    inner_nullable, as_rows = _outputs_nullable(rows, query)
    if inner_nullable is None or len(inner_nullable) != len(sides):
        inner_nullable = [True] * len(sides)  # what is wrong is told when it is read
    outer_nullable = []
    for side in sides:
        checker = rows.checker("IN")
        typed = checker.check(side)
        cells = [checker.cells[id(c)] for c in side.find_all(exp.Column) if id(c) in checker.cells]
        foreign = any(not rows.body.owns(c.expression) for c in cells)
        outer_nullable.append(foreign or not typed.strict or any(rows.body.nullable(c.expression) for c in cells))
    if not any(inner_nullable) and not any(outer_nullable):
        return []
    values = [bare(e.this if isinstance(e, exp.Alias) else e) for e in query.expressions] if as_rows else []
    source = query
    if not as_rows:
        alias = exp.TableAlias(this=exp.to_identifier("everview"), columns=[exp.to_identifier(n) for n in names])
        source = exp.Select(from_=exp.From(this=exp.Subquery(this=query.copy(), alias=alias)))
        values = [exp.column(n, "everview") for n in names]
    found: list[exp.Expr] = []
    if len(sides) == 1:
        if inner_nullable[0]:
            found.append(_exists(source, exp.Is(this=values[0].copy(), expression=exp.Null())))
        if outer_nullable[0]:
            is_null = exp.Is(this=_resolved(rows, sides[0]), expression=exp.Null())
            found.append(exp.And(this=is_null, expression=_exists(source, None)))
        return found
    tests: list[exp.Expr] = []
    for side, value, a, b in zip(sides, values, outer_nullable, inner_nullable, strict=True):
        ways: list[exp.Expr] = [exp.EQ(this=_resolved(rows, side), expression=value.copy())]
        ways += [exp.Is(this=_resolved(rows, side), expression=exp.Null())] if a else []
        ways += [exp.Is(this=value.copy(), expression=exp.Null())] if b else []
        tests.append(exp.paren(exp.or_(*ways, copy=False), copy=False))
    return [_exists(source, exp.and_(*tests, copy=False))]


def _outputs_nullable(rows: Rows, query: exp.Expr) -> tuple[list[bool] | None, bool]:
    """Which outputs of a subquery may be NULL, and whether conditions on them can be added to its WHERE."""
    if not isinstance(query, exp.Select) or is_cut(query) or is_windowed(query):
        found = rows.lowering.beside(rows, query)
        return [c.nullable for c in found.query.body.columns[: len(found.names)]], False
    inner = rows.lowering.block(query.copy(), rows.env, rows.scope)
    foreign = [not inner.body.owns(o.expression) for o in inner.outputs] if inner.groups is None else []
    nullable = [True] * len(inner.outputs) if any(foreign) else [c.nullable for c in inner.finish().columns]
    stars = any(e.is_star for e in query.expressions)
    return nullable, inner.groups is None and not inner.is_over_groups and not stars


def _exists(query: exp.Expr, condition: exp.Expr | None) -> exp.Exists:
    """EXISTS of a SELECT with one condition more."""
    found = query.copy()
    for name in ("distinct", "order"):
        found.set(name, None)
    if not (found.args.get("group") or found.args.get("having") or any(True for _ in _aggregates(found))):
        found.set("expressions", [exp.Literal.number(1)])
    if condition is not None:
        where = found.args.get("where")
        both = exp.And(this=where.this, expression=condition) if where is not None else condition
        found.set("where", exp.Where(this=both))
    return exp.Exists(this=found)


def _aggregates(select: exp.Expr) -> list[exp.Expr]:
    return [a for e in select.expressions for a in aggregates_in(e)]


def _resolved(rows: Rows, node: exp.Expr) -> exp.Expr:
    """A copy of an expression whose columns mean the same wherever it is put."""
    found = node.copy()
    for column in found.find_all(exp.Column):
        if rows.scope.lowered(column) is None:
            column.meta["cell"] = rows.scope.resolve(column)
    return found


def _query(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Subquery) and not node.args.get("joins") and not is_cut(node):
        node = node.this
    return node


# --- subqueries within expressions ------------------------------------------------------------------------------------


def lower_subqueries(rows: Rows, holder: exp.Expr, rejecting: Collection[int] = (), but: Collection[int] = ()) -> None:
    """Have columns stand for all subqueries below a node: ``rows.scope.subqueries`` says which.

    ``rejecting`` has the ids of those whose value, where it is NULL, makes the whole condition not hold; ``but`` of
    those that have been lowered already.
    """
    for node in subqueries_in(holder):
        if id(node) in but or id(node) in rows.scope.subqueries:
            continue
        if isinstance(node, exp.Exists):
            note(rows, node, _truth(rows, node))
        elif isinstance(node, exp.In):
            _replace_in(rows, node)
        elif is_quantified(node):
            if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any):
                _replace_in(rows, _replaced(node, _as_in(node)))
            elif isinstance(node, exp.NEQ) and isinstance(node.expression, exp.All):
                other = _as_in(node)
                _replaced(node, exp.paren(exp.Not(this=other), copy=False))
                _replace_in(rows, other)
            else:
                _replace_quantified(rows, node)
        else:
            (cell,) = values(rows, node, 1, needs_match=id(node) in rejecting)
            note(rows, node, cell)


def note(rows: Rows, node: exp.Expr, cell: Cell) -> None:
    """A column stands for a node from now on, whatever becomes of the rows."""
    rows.scope.subqueries[id(node)] = (node, cell)


def _replaced(node: exp.Expr, other: exp.Expr) -> exp.Expr:
    node.replace(other)
    return other


def _as_in(node: exp.Expr) -> exp.In:
    query = node.expression.this
    return exp.In(this=node.this, query=query if isinstance(query, exp.Subquery) else exp.Subquery(this=query))


def _truth(rows: Rows, node: exp.Expr) -> Cell:
    """Whether a condition with EXISTS or IN holds, as a column."""
    with_match = matched(rows, node, node)
    columns = kept(rows)
    stage = _unmatched(rows, with_match, columns)
    true, false = (Kept("mark", Expression.of(Const(yes), BOOLEAN)) for yes in (True, False))
    body = together([block(rows, with_match.body, [*columns, true]), over(stage, rows, [false])])
    return go_on(rows, body, columns, "mark", "rows with and without a match", node)[-1]


def _unmatched(rows: Rows, with_match: Rows, columns: Sequence[Kept]) -> Stage:
    body = without(block(rows, rows.body, columns), block(rows, with_match.body, columns))
    return rows.lowering.stage(body, "anti", "rows without a match")


def placeholder(rows: Rows, cell: Cell) -> exp.Expr:
    """A node for a column that has no name, whatever becomes of the rows."""
    node = exp.column(exp.to_identifier("everview", quoted=True))
    node.meta[STANDS_FOR] = id(node)  # which copies have, too
    note(rows, node, cell)
    return node


def _replace_in(rows: Rows, node: exp.Expr) -> None:
    """``x IN (…)`` as CASE over the answers to: is there a match; is a value NULL; is x NULL, and is there any row."""
    assert isinstance(node, exp.In)
    if subqueries_in(node.this):
        lower_subqueries(rows, node.this)
    unknown = _unknown(rows, node)
    match = placeholder(rows, _truth(rows, node))
    ifs = [exp.If(this=match, true=exp.Boolean(this=True))]
    for one in unknown:
        is_unknown = placeholder(rows, _truth(rows, _current(rows, one)))
        ifs.append(exp.If(this=is_unknown, true=exp.cast(exp.Null(), "boolean")))
    node.replace(exp.Case(ifs=ifs, default=exp.Boolean(this=False)))


def _current(rows: Rows, condition: exp.Expr) -> exp.Expr:
    """The condition, whose columns were resolved before other subqueries were put into the rows."""
    for column in condition.find_all(exp.Column):
        if "cell" in column.meta:
            column.meta["cell"] = rows.scope.resolve(column)
    return condition


_REVERSED: dict[type[exp.Expr], bool] = {exp.GT: False, exp.GTE: False, exp.LT: True, exp.LTE: True}
"""Whether ANY of some values is met by the largest of them, and not by the least."""


def _replace_quantified(rows: Rows, node: exp.Expr) -> None:
    """``x > ANY (SELECT y …)`` and the like by the number of rows, of values, and the least and the largest of them."""
    quantifier, left = node.expression, node.this
    query, is_any = quantifier.this, isinstance(quantifier, exp.Any)
    n, there, low, high = (placeholder(rows, cell) for cell in values(rows, query, 4, of=_four))
    if type(node) in _REVERSED:
        bound = high if _REVERSED[type(node)] == is_any else low
        test: exp.Expr = type(node)(this=left.copy(), expression=bound)
    else:
        sides = (type(node)(this=left.copy(), expression=bound) for bound in (low, high))
        test = exp.paren(exp.or_(*sides, copy=False) if is_any else exp.and_(*sides, copy=False), copy=False)
    decided = test if is_any else exp.Not(this=exp.paren(test, copy=False))
    is_null = exp.Is(this=left.copy(), expression=exp.Null())
    fewer = exp.LT(this=there, expression=n)
    again = placeholder(rows, rows.scope.subqueries[id(n)][1])
    ifs = [
        exp.If(this=exp.EQ(this=again, expression=exp.Literal.number(0)), true=exp.Boolean(this=not is_any)),
        exp.If(this=decided, true=exp.Boolean(this=is_any)),
        exp.If(this=exp.or_(is_null, fewer, copy=False), true=exp.cast(exp.Null(), "boolean")),
    ]
    node.replace(exp.Case(ifs=ifs, default=exp.Boolean(this=not is_any)))


def _four(query: exp.Expr) -> exp.Expr:
    """The SELECT of a subquery's number of rows, of values, and the least and the largest of these."""
    is_plain = isinstance(query, exp.Select) and not query.args.get("group") and not query.args.get("having")
    is_plain = is_plain and not is_cut(query) and not is_windowed(query)
    is_plain = is_plain and len(query.expressions) == 1 and not query.expressions[0].is_star
    if is_plain and not query.args.get("distinct") and not _aggregates(query):
        found, value = query.copy(), query.expressions[0]
        value = value.this if isinstance(value, exp.Alias) else value
        found.set("order", None)
    else:
        alias = exp.TableAlias(this=exp.to_identifier("everview"), columns=[exp.to_identifier("c0")])
        found = exp.Select(from_=exp.From(this=exp.Subquery(this=query.copy(), alias=alias)))
        value = exp.column("c0", "everview")
    calls = [("count", exp.Star()), ("count", value.copy()), ("min", value.copy()), ("max", value.copy())]
    found.set("expressions", [exp.Anonymous(this=name, expressions=[of]) for name, of in calls])
    for call in found.expressions:
        call.meta[OF_QUANTIFIER] = True
    return found


# --- values -----------------------------------------------------------------------------------------------------------


def values(
    rows: Rows,
    node: exp.Expr,
    count: int,
    *,
    of: Callable[[exp.Expr], exp.Expr] | None = None,
    needs_match: bool = False,
) -> list[Cell]:
    """The columns that stand for a subquery's values; ``of`` makes another SELECT of the subquery's."""
    query = _query(node)
    if of is not None:
        query = of(query)
    if not isinstance(query, exp.Select) or is_cut(query):
        result = rows.lowering.beside(rows, query)
        _check_width(rows, len(result.names), count, node)
        stage = only_value(rows, result.query.body, len(result.outer))
        if needs_match or not result.outer:
            return _joined(rows, stage, result.outer, node)[:count]
        return _attached(rows, stage, result.outer, [None] * count, node)
    inner = inner_block(rows, query, fits=_reads_its_own)
    _check_width(rows, len(inner.outputs), count, node)
    if inner.outer_conditions:
        raise rows.source.unsupported(
            "correlated scalar subquery",
            node,
            message="a condition of a scalar subquery only reads the query around it",
            hint="put it around the subquery: CASE WHEN … THEN (SELECT …) END",
        )
    is_tied = bool(inner.correlations or inner.mixed)
    is_carried = inner.carried is not None or bool(inner.mixed)
    add_domain(rows, inner, node)
    if inner.groups is None and not all(inner.body.owns(o.expression) for o in inner.outputs):
        raise rows.source.unsupported(
            "correlated output of a scalar subquery",
            node,
            message="a scalar subquery gives a column of the query around it",
            hint="select a column of the subquery, and compute outside of it",
        )
    tied = [(as_compared(a, b), b, where) for a, b, where in inner.correlations]
    inner.correlations = []
    outer = [b for _, b, _ in tied]
    has_one = inner.groups is not None and not inner.groups.keys and not inner.distinct
    nothing: list[Expression | None] = [None] * count
    if has_one and inner.groups is not None:
        if not is_tied and inner.groups.having is None:
            return _joined(rows, rows.lowering.stage(inner.finish(), "scalar", "scalar subquery"), [], node)[:count]
        _put_having_into_outputs(inner)
        nothing = [over_nothing(inner.groups, o.expression) for o in inner.outputs]
    keys = [_key(inner, a) for a, _, _ in tied]
    inner.outputs += [Selected(f"k{i}", key, True, node) for i, key in enumerate(keys)]
    body: AnyBody = inner.finish()
    if has_one and is_tied:
        stage = rows.lowering.stage(body, "scalar", "scalar subquery, by what ties it to the query around it")
    else:
        asked = [] if is_carried else outer
        stage = only_value(rows, body, len(keys), asked)
    if not tied:
        return _joined(rows, stage, [], node)[:count]
    if needs_match and not any(e is not None for e in nothing):
        return _joined(rows, stage, outer, node)[:count]
    return _attached(rows, stage, outer, nothing, node)


def _put_having_into_outputs(inner: Rows) -> None:
    """Have the one group of a subquery give NULL where HAVING leaves it out: it is asked of no rows, too."""
    assert inner.groups is not None
    having, inner.groups.having = inner.groups.having, None
    for output in inner.outputs if having is not None else ():
        assert having is not None
        parts = ("CASE WHEN ", *having.parts, " THEN ", *output.expression.parts, " END")
        output.expression, output.strict = Expression(parts, output.expression.type), False


def lateral(rows: Rows, query: exp.Select, node: exp.Expr) -> list[tuple[str, Cell]]:
    """The columns of a subquery in FROM that reads what stands before it: each row is joined with what it gives."""
    if is_one_row(query):
        names = [e.alias or output_text(e) for e in query.expressions]
        return list(zip(names, values(rows, query, len(names)), strict=True))
    inner = inner_block(rows, query, fits=_gives_its_own)
    add_domain(rows, inner, node)
    for condition in inner.outer_conditions:
        if not rows.body.owns(condition):
            raise two_queries_out(rows, node)
        rows.body.require(condition)
    tied = [(as_compared(a, b), b, where) for a, b, where in inner.correlations]
    inner.correlations, inner.outer_conditions = [], []
    listed = list(inner.outputs)
    if inner.groups is None and not all(inner.body.owns(o.expression) for o in listed):
        raise rows.source.unsupported("correlated output of LATERAL", node, hint="compute it in the outer SELECT list")
    inner.outputs += [Selected(f"k{i}", _key(inner, a), True, node) for i, (a, _, _) in enumerate(tied)]
    stage = rows.lowering.stage(inner.finish(), "lateral", "rows of LATERAL, by what ties them to the rows before it")
    cells = _joined(rows, stage, [b for _, b, _ in tied], node)
    return [(o.name, cell) for o, cell in zip(listed, cells, strict=True)]


def joined_beside(rows: Rows, query: exp.Expr, node: exp.Expr) -> list[tuple[str, Cell]]:
    """The same of a query of any form in FROM."""
    found = rows.lowering.beside(rows, query)
    stage = rows.lowering.stage(found.query.body, "lateral", BESIDE)
    return list(zip(found.names, _joined(rows, stage, found.outer, node), strict=True))


def _gives_its_own(inner: Rows) -> bool:
    """Whether what a subquery gives is made of its own columns."""
    return inner.groups is not None or all(inner.body.owns(o.expression) for o in inner.outputs)


def _reads_its_own(inner: Rows) -> bool:
    """The same, and no condition of it reads nothing but the query around it."""
    return not inner.outer_conditions and _gives_its_own(inner)


def is_one_row(query: exp.Expr) -> bool:
    """True for a SELECT of aggregates without GROUP BY and HAVING, which has one row whatever there is."""
    grouped = query.args.get("group") or query.args.get("having") or query.args.get("distinct")
    return isinstance(query, exp.Select) and not grouped and bool(_aggregates(query))


def output_text(node: exp.Expr) -> str:
    """What an output without an alias is called."""
    return str(node.name) if isinstance(node, exp.Column) else str(node.sql())


def _check_width(rows: Rows, found: int, wanted: int, node: exp.Expr) -> None:
    if found != wanted:
        raise rows.source.query(
            f"a subquery that stands for a value has {found} columns", node, hint="select one column in it"
        )


def _key(inner: Rows, expression: Expression) -> Expression:
    """A column that ties a subquery to the query around it: of its rows, or of its groups."""
    if inner.groups is None:
        return expression
    return Expression.of(group_key(inner.groups.key(inner.body, expression, strict=True)), expression.type)


def _joined(rows: Rows, stage: Stage, outer: Sequence[Expression], node: exp.Expr) -> list[Cell]:
    """The values of rows that have a match; others are gone."""
    terms = rows.atom(stage.name, "scalar", stage_columns(stage), node, named=True)
    for term, side in zip(terms[len(terms) - len(outer) :], outer, strict=True):
        _equate(rows, term, side, node)
    return [Cell(t) for t in terms[: len(terms) - len(outer)]]


def _equate(rows: Rows, term: Expression, side: Expression, node: exp.Expr) -> None:
    if not rows.body.owns(side):
        raise two_queries_out(rows, node)
    rows.body.equate(term, side, equality(term, side))


def _attached(
    rows: Rows, stage: Stage, outer: Sequence[Expression], nothing: Sequence[Expression | None], node: exp.Expr
) -> list[Cell]:
    """The values of rows that have a match, and for the others what there is over no rows."""
    columns = kept(rows)
    count = len(nothing)
    inside = copied(rows)
    cells = _joined(inside, stage, outer, node)[:count]
    keys, terms = whole(stage, rows)
    distinct = block(rows, keys, [Kept("k", t) for t in terms[len(terms) - len(outer) :]], distinct=True)
    known = rows.lowering.stage(distinct, "keys", "what has a match in the subquery")
    with_match = copied(rows)
    _joined(with_match, known, outer, node)
    found = [Kept("value", c.expression) for c in cells]
    empty = [Kept("value", e or null_of(c.expression), False) for e, c in zip(nothing, cells, strict=True)]
    unmatched = _unmatched(rows, with_match, columns)
    body = together([block(rows, inside.body, [*columns, *found]), over(unmatched, rows, empty)])
    return go_on(rows, body, columns, "attached", "rows with what a subquery gives for them", node)[-count:]
