"""PIVOT and UNPIVOT in FROM, as the SELECTs that they mean.

PIVOT groups by all columns that it does not name, and has each aggregate once for each value, of the rows that have it.
UNPIVOT has a row for each of some columns, with its name and its value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from everview.query.aggregates import BY_NAME, Counted, Gathered
from everview.sql.aggregates import aggregates_in, whole_call
from everview.sql.nodes import call
from everview.sql.refuse import refuse_clauses
from everview.sql.sql_text import SqlText

Columns = Callable[[exp.Expr], list[str]]
"""The names of the columns that an item of FROM has."""


def pivoted(source: SqlText, item: exp.Expr, columns_of: Columns) -> exp.Subquery | None:
    """An item of FROM with PIVOT or UNPIVOT behind it as a subquery; None if it has neither."""
    pivots = list(item.args.get("pivots") or ())
    if not pivots:
        return None
    inner = item.copy()
    inner.set("pivots", None)
    inner.set("joins", None)
    found: exp.Subquery | None = None
    for pivot in pivots:
        names = columns_of(inner.copy())
        if pivot.args.get("unpivot"):
            refuse_clauses(source, pivot, ("expressions", "fields", "unpivot", "include_nulls", "alias", "columns"))
            select = _unpivot(source, pivot, inner, names)
        else:
            select = _pivot(source, pivot, inner, names)
        inner = found = exp.Subquery(this=select, alias=pivot.args.get("alias"))
        found.meta.update(item.meta)
    return found


# --- PIVOT -----------------------------------------------------------------------------------------------------------


def _pivot(source: SqlText, pivot: exp.Expr, item: exp.Expr, names: Sequence[str]) -> exp.Select:
    (field,) = pivot.args["fields"]
    by = list(field.this.expressions) if isinstance(field.this, exp.Tuple) else [field.this]
    read = {c.name.lower() for c in by}
    for aggregate in pivot.expressions:
        read |= {c.name.lower() for c in aggregate.find_all(exp.Column)}
        if not any(True for _ in aggregates_in(aggregate)):
            raise source.aggregation("PIVOT takes aggregates", aggregate, hint="write PIVOT (SUM(x) FOR k IN (…))")
    for column in by:
        if column.name.lower() not in {n.lower() for n in names}:
            raise source.unknown("column", column.name, column, names, "there are")
    groups = [exp.column(exp.to_identifier(n, quoted=True)) for n in names if n.lower() not in read]
    outputs: list[exp.Expr] = [g.copy() for g in groups]
    shown = iter(pivot.args["columns"])
    for value in field.expressions:
        condition = _has(by, value.this if isinstance(value, exp.PivotAlias) else value)
        for aggregate in pivot.expressions:
            made = _among(aggregate.this if isinstance(aggregate, exp.Alias) else aggregate, condition)
            outputs.append(exp.alias_(made, next(shown).name or _tuple_name(value), quoted=True))
    select = exp.Select(expressions=outputs, from_=exp.From(this=item))
    if groups:
        select.set("group", exp.Group(expressions=groups))
    return select


def _tuple_name(value: exp.Expr) -> str:
    """What Spark calls several values together."""
    return "{" + ", ".join(v.name if isinstance(v, exp.Literal) else v.sql() for v in value.expressions) + "}"


def _has(by: Sequence[exp.Expr], value: exp.Expr) -> exp.Expr:
    """The condition that the columns have a value, which may be NULL."""
    values = list(value.expressions) if isinstance(value, exp.Tuple) else [value]
    pairs = zip(by, values, strict=False)
    return exp.and_(*(exp.NullSafeEQ(this=c.copy(), expression=v.copy()) for c, v in pairs), copy=False)


def _among(aggregate: exp.Expr, condition: exp.Expr) -> exp.Expr:
    """An aggregate of the rows for which a condition holds; NULL if there are none."""
    made = exp.Paren(this=aggregate.copy())
    has_null = True
    for inner in list(aggregates_in(made)):
        function = BY_NAME.get(inner.name.lower())
        has_null = has_null and function is not None and not isinstance(function.made, Counted | Gathered)
        whole = whole_call(inner)
        if isinstance(whole, exp.Filter):
            whole.expression.set("this", exp.and_(whole.expression.this, condition.copy(), copy=False))
        else:
            filtered = exp.Filter(expression=exp.Where(this=condition.copy()))
            whole.replace(filtered)
            filtered.set("this", whole)
    found = made.this
    if has_null and isinstance(found, exp.Filter):
        return found
    some = exp.GT(this=call("count_if", condition), expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=some, true=found)])


# --- UNPIVOT ---------------------------------------------------------------------------------------------------------


def _unpivot(source: SqlText, pivot: exp.Expr, item: exp.Expr, names: Sequence[str]) -> exp.Select:
    (field,) = pivot.args["fields"]
    (value,) = pivot.expressions
    if isinstance(value, exp.Tuple) or not isinstance(field.this, exp.Identifier | exp.Column):
        raise source.unsupported("UNPIVOT of several columns at once", value, hint="unpivot them one by one, and join")
    entries = []
    gone = set()
    for one in field.expressions:
        column = one.this if isinstance(one, exp.PivotAlias) else one
        if not isinstance(column, exp.Column):
            raise source.unsupported("UNPIVOT of several columns at once", column, hint="unpivot them one by one")
        if column.name.lower() not in {n.lower() for n in names}:
            raise source.unknown("column", column.name, column, names, "there are")
        gone.add(column.name.lower())
        label = one.args["alias"].name if isinstance(one, exp.PivotAlias) else column.name
        entries.append(call("named_struct", *_pair("n", exp.Literal.string(label)), *_pair("v", column)))
    kept = [exp.column(exp.to_identifier(n, quoted=True)) for n in names if n.lower() not in gone]
    alias = exp.TableAlias(
        this=exp.to_identifier("everview$unpivot", quoted=True),
        columns=[exp.to_identifier(field.this.name, quoted=True), exp.to_identifier(value.name, quoted=True)],
    )
    made = [exp.column(c.copy(), alias.this.copy()) for c in alias.columns]
    lateral = exp.Lateral(this=call("inline", call("array", *entries)), view=True, alias=alias)
    select = exp.Select(expressions=[*kept, *made], from_=exp.From(this=item), laterals=[lateral])
    if not pivot.args.get("include_nulls"):
        there = exp.Not(this=exp.Is(this=made[1].copy(), expression=exp.Null()))
        select.set("where", exp.Where(this=there))
    return select


def _pair(name: str, value: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
    return exp.Literal.string(name), value
