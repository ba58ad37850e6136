"""GROUP BY, aggregates and HAVING: outputs as expressions over group keys and aggregate results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sqlglot import exp

from everview.query.aggregates import Taken
from everview.query.terms import Const, Expression, Var
from everview.query.types import BIGINT, TINYINT, DataType
from everview.query.view import Aggregate, aggregate_result, group_key
from everview.sql.aggregates import aggregates_in, is_aggregate
from everview.sql.check import Checker
from everview.sql.grouping_sets import GROUPINGS, grouping_mark, has_sets, listed_keys, sets_of
from everview.sql.names import STANDS_FOR
from everview.sql.nested import bare
from everview.sql.packing import packed
from everview.sql.products import factors_of
from everview.sql.session import Groups, Rows, Selected, rendered, written

OF_QUANTIFIER: Final = "of a quantifier"
"""What the aggregates say in their ``meta`` that ANY and ALL are made of."""


def is_grouped(select: exp.Select) -> bool:
    """True if the SELECT makes groups: by GROUP BY, by HAVING, or by an aggregate in its list."""
    having = select.args.get("having")
    places = [*select.expressions, *([having.this] if having else [])]
    return bool(select.args.get("group") or having) or any(True for p in places for _ in aggregates_in(p))


def add_groups(rows: Rows, select: exp.Select, projections: list[exp.Expr]) -> None:
    """Lower GROUP BY into the keys of the block."""
    rows.groups = Groups()
    group = select.args.get("group")
    if group is None:
        return
    if group.args.get("totals"):
        raise rows.source.unsupported("WITH TOTALS", group)
    if not has_sets(group):
        for node in _keys(rows, group, projections):
            _add_key(rows, node)
        return
    rows.scope.tell_apart()  # A column that is left out is NULL, its twin is not.
    for node in listed_keys(group):
        _add_key(rows, key_node(rows, node, projections))
    sets = [{_add_key(rows, key_node(rows, k, projections)) for k in keys} for keys in sets_of(rows.source, group)]
    whole = range(len(rows.groups.keys))
    rows.groups.left_out = [frozenset(i for i in whole if i not in kept) for kept in sets]


def _add_key(rows: Rows, node: exp.Expr) -> int:
    assert rows.groups is not None
    checker = rows.checker("GROUP BY")
    typed = checker.check(node)
    expression = written(node, checker, typed.type)
    if not rows.body.owns(expression):
        raise rows.source.unsupported("correlated column in GROUP BY", node, hint="join in FROM instead")
    return rows.groups.key(rows.body, expression, typed.strict)


def _keys(rows: Rows, group: exp.Group, projections: list[exp.Expr]) -> list[exp.Expr]:
    """The key expressions; ordinals and output aliases stand for what they name."""
    return [key_node(rows, node, projections) for node in key_nodes(group, projections)]


def key_nodes(group: exp.Group, projections: Sequence[exp.Expr]) -> list[exp.Expr]:
    """The keys as they are written; of GROUP BY ALL these are all outputs without aggregates."""
    if group.args.get("all"):
        return [_unaliased(p) for p in projections if not any(True for _ in aggregates_in(p))]
    nodes: list[exp.Expr] = []
    for node in group.expressions:
        nodes += node.expressions if isinstance(node, exp.Tuple) else [bare(node)]
    return nodes


def key_node(rows: Rows, node: exp.Expr, projections: Sequence[exp.Expr]) -> exp.Expr:
    """A key of GROUP BY as an expression; an ordinal or an output's alias stands for what it names."""
    named: exp.Expr | None = None
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        index = int(node.name)
        if not 1 <= index <= len(projections):
            raise rows.source.query(
                f"GROUP BY {index}: the SELECT list has {len(projections)} columns", node, hint="count from 1"
            )
        named = _unaliased(projections[index - 1])
    elif isinstance(node, exp.Column) and not node.table and rows.scope.find(node) is None:
        matches = [p for p in projections if isinstance(p, exp.Alias) and p.alias.lower() == node.name.lower()]
        named = _unaliased(matches[0]) if matches else None
    if named is None:
        return node
    if any(True for _ in aggregates_in(named)):
        raise rows.source.aggregation("GROUP BY names an output that is an aggregate", node)
    return named.copy()


def _unaliased(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Alias) else node


def grouped_output(rows: Rows, node: exp.Expr, name: str, place: exp.Expr) -> Selected:
    """An output of a grouped SELECT."""
    checker = rows.checker("SELECT", allow_aggregates=True)
    typed = checker.check(node)
    return Selected(name, _over_groups(rows, node, checker, typed.type), typed.strict, place)


def add_having(rows: Rows, having: exp.Having, projections: list[exp.Expr]) -> None:
    """Lower HAVING."""
    resolve_having(rows, having, projections)
    assert rows.groups is not None
    rows.groups.having = over_groups(rows, having.this, "HAVING")


def over_groups(rows: Rows, condition: exp.Expr, place: str) -> Expression:
    """A condition on groups."""
    checker = rows.checker(place, allow_aggregates=True)
    typed = checker.boolean(condition)
    return _over_groups(rows, condition, checker, typed.type)


def resolve_having(rows: Rows, having: exp.Having, projections: list[exp.Expr]) -> None:
    """As in Spark, a plain name in HAVING means a grouped column, else an output alias, else any column."""
    for column in list(having.find_all(exp.Column)):
        if column.table or column.find_ancestor(exp.Query) is not having.parent or _is_grouped_column(rows, column):
            continue
        matches = [p for p in projections if isinstance(p, exp.Alias) and p.alias.lower() == column.name.lower()]
        if matches:
            named = matches[0].this.copy()
            column.replace(named if is_aggregate(named) or isinstance(named, exp.Column) else exp.Paren(this=named))


def _is_grouped_column(rows: Rows, column: exp.Column) -> bool:
    """True if a name in HAVING is a group's key, or stands inside an aggregate, where aliases do not reach."""
    assert rows.groups is not None
    cell = rows.scope.find(column)
    inside = any(is_aggregate(call) for call in _ancestors(column))
    return cell is not None and (inside or cell.expression in rows.groups.written)


def _ancestors(node: exp.Expr) -> Iterator[exp.Expr]:
    parent = node.parent
    while parent is not None and not isinstance(parent, exp.Query):
        yield parent
        parent = parent.parent


def _over_groups(rows: Rows, node: exp.Expr, checker: Checker, type_: DataType) -> Expression:
    """An expression over group keys and aggregates; a column outside both is an error."""
    groups = rows.groups
    assert groups is not None

    def hole(n: exp.Expr) -> Expression | None:
        if isinstance(n, exp.Anonymous) and n.name.lower() in GROUPINGS:
            return _grouping(rows, n, checker)
        call = checker.calls.get(id(n))
        if call is not None:
            argument, value = packed(call, checker), call.value
            if argument is not None and not n.meta.get(OF_QUANTIFIER):
                _refuse_foreign(rows, argument, n)
            if argument is not None and not rows.body.owns(argument):
                raise rows.source.unsupported("correlated aggregate", n, hint="join with a grouped subquery in FROM")
            factors, most = ((), None) if value is None or call.takes is not Taken.VALUE else factors_of(value, checker)
            safe, risky = (factors, ()) if most is None else ((), factors)
            aggregate = Aggregate(
                call.function, argument, call.type, call.distinct, None, safe, call.parameters, risky, most
            )
            return Expression.of(aggregate_result(groups.aggregate(aggregate)), call.type)
        if isinstance(n, exp.Identifier | exp.DataType | exp.Var) or any(True for _ in aggregates_in(n)):
            return None
        cell = checker.cells.get(id(n))
        if cell is not None and rows.over_groups & {id(n), n.meta.get(STANDS_FOR)}:
            return cell.expression
        if cell is not None or not isinstance(n, exp.Literal | exp.Boolean | exp.Null):
            plain = cell.expression.parts if cell else written(n, checker, type_).parts
            for index, key in enumerate(groups.written):
                if key.parts == plain:
                    return Expression.of(group_key(index), key.type)
                if cell is not None and len(key.parts) == 1 and plain[0] == key.parts[0]:  # a field of the key
                    return Expression((group_key(index), *plain[1:]), cell.type)
        if cell is not None and cell.expression.variables:
            column = n.sql()
            if not rows.body.owns(cell.expression):
                raise rows.source.unsupported(
                    "column of the query around beside aggregates",
                    n,
                    message=f"column {column} of the query around stands beside aggregates",
                    hint=f"compute with it outside: (SELECT max(y) FROM …) + {column}",
                )
            raise rows.source.aggregation(
                f"column {column} is neither grouped nor inside an aggregate",
                n,
                hint=f"add {column} to GROUP BY, or aggregate it" if groups.keys else f"add GROUP BY {column}",
            )
        return cell.expression if cell is not None else None

    return rendered(node, hole, type_, rows.source)


def _refuse_foreign(rows: Rows, argument: Expression, call: exp.Expr) -> None:
    """Raise for an aggregate of nothing but columns of the query around: in SQL it would be one of that query's."""
    carried = set() if rows.carried is None else {term.term for term in rows.carried.terms.values()}
    own = [v for v in argument.variables if v not in carried and rows.body.owns(Expression.of(v))]
    if argument.variables and not own:
        raise rows.source.unsupported(
            "aggregate of the query around",
            call,
            message="all columns of this aggregate are of the query around the subquery",
            hint="aggregate in the query around, or make the columns those of a subquery in FROM",
        )


def _grouping(rows: Rows, call: exp.Anonymous, checker: Checker) -> Expression:
    """GROUPING and GROUPING_ID: which keys are left out of a row's set, as bits, the last key's the lowest."""
    groups = rows.groups
    assert groups is not None
    if groups.left_out is None:
        raise rows.source.aggregation(f"{call.name} needs GROUPING SETS, ROLLUP or CUBE", call)
    places = []
    for argument in call.expressions:
        plain = written(argument, checker, checker.check(argument).type)
        if plain not in groups.written:
            raise rows.source.aggregation(f"{call.name} takes keys of GROUP BY", argument)
        places.append(groups.written.index(plain))
    if call.name.lower() == "grouping":
        if len(places) != 1:
            raise rows.source.mismatch(f"grouping takes 1 argument, and here are {len(places)}", call)
        return Expression.of(grouping_mark(places[0]), TINYINT)
    places = places or list(range(len(groups.keys)))
    parts: list[str | Const | Var] = []
    for i, place in enumerate(places):
        parts += [" + " if parts else "", f"{2 ** (len(places) - 1 - i)} * CAST(", grouping_mark(place), " AS BIGINT)"]
    return Expression(("(", *parts, ")"), BIGINT)
