"""Where rows in SQL and facts of a formula are the same: NULL in the way, copies, keys, and columns of components."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from everview.sql.formula_columns import Columns, Occurrence, Place, compared_with_constant, equated
from everview.sql.nested import bare


def check_nulls(
    columns: Columns,
    own: Iterable[Occurrence],
    conditions: Sequence[exp.Expr],
    counted: exp.Expr | None,
    *,
    is_negated: bool,
) -> None:
    """Refuse a table that may have rows with NULL for an element: no facts for the formula, but rows for SQL.

    COUNT(x) counts no row in which x is NULL.
    """
    rejecting = {place for condition in conditions for place in _not_null(columns, bare(condition), is_negated)}
    rejecting |= {columns.place(counted)} if counted is not None else set()
    for occurrence in own:
        table = occurrence.table
        for i in columns.elements_of(table):
            name = table.columns[i].name
            if may_be_null(Place(occurrence, i)) and Place(occurrence, i) not in rejecting:
                raise columns.source.query(
                    f"{table.name}.{name} holds elements and may be NULL: such a row is no fact of a formula, and SQL "
                    "would count it here",
                    occurrence.node,
                    hint=f"declare {name} NOT NULL, or add AND {occurrence.alias}.{name} IS NOT NULL",
                )


def may_be_null(place: Place) -> bool:
    """True if a column is neither declared NOT NULL nor part of the primary key."""
    table = place.occurrence.table
    column = table.columns[place.column]
    return column.nullable and column.name.lower() not in {c.lower() for c in table.primary_key}


def _not_null(columns: Columns, condition: exp.Expr, is_negated: bool) -> list[Place]:
    """The columns that are not NULL where a condition holds."""
    found: list[exp.Expr] = []
    if isinstance(condition, exp.EQ | exp.NEQ):
        found = [condition.this, condition.expression]
    elif isinstance(condition, exp.In) and (not condition.args.get("query") or not is_negated):
        left = bare(condition.this)
        found = list(left.expressions) if isinstance(left, exp.Tuple) else [left]
    elif isinstance(condition, exp.Not) and isinstance(bare(condition.this), exp.Is):
        found = [bare(condition.this).this]
    return [columns.place(bare(node)) for node in found if isinstance(bare(node), exp.Column)]


def is_determined(columns: Columns, select: exp.Select, known: Iterable[Place]) -> bool:
    """True if there is at most one row for each choice of what is known: the keys of all tables follow from it.

    What tables of the SELECTs around it hold is known.
    """
    return not _open_keys(columns, select, known)


def counted_by(columns: Columns, select: exp.Select, known: Iterable[Place]) -> Place | None:
    """The column of which each value stands for one row, what is known apart; None if there is none."""
    known = set(known)
    return next(
        (p for p in _open_keys(columns, select, known) or () if is_determined(columns, select, {*known, p})), None
    )


def _open_keys(columns: Columns, select: exp.Select, known: Iterable[Place]) -> list[Place]:
    """The columns of keys that do not follow from what is known, and all columns of tables without a key."""
    found = set(known)
    own = columns.occurrences[id(select)]
    pairs = []
    for condition in columns.conditions(select):
        if isinstance(bare(condition), exp.EQ):
            pair, tested = equated(columns, condition), compared_with_constant(columns, condition)
            pairs += [pair] if pair is not None else []
            found |= {p for p in pair or () if p.occurrence not in own}
            found |= {tested[0]} if tested is not None else set()
    size = 0
    while len(found) > size:
        size = len(found)
        for one, other in pairs:
            found |= {one, other} if {one, other} & found else set()
    missing = []
    for occurrence in own:
        table = occurrence.table
        key = table.positions(table.primary_key) if table.key_enforcement.is_used else ()
        missing += [p for p in (Place(occurrence, i) for i in key or range(table.arity)) if not key or p not in found]
    return missing


def are_linked(columns: Columns, one: Occurrence, other: Occurrence) -> bool:
    """True if equalities of elements, in these SELECTs and those around them, lead from one to the other."""
    selects: list[exp.Select] = []
    select: exp.Expr | None = max((one, other), key=lambda o: o.select.depth).select
    while isinstance(select, exp.Select):
        selects.append(select)
        select = select.find_ancestor(exp.Select)
    pairs = [equated(columns, condition) for select in selects for condition in columns.conditions(select)]
    reached, size = {one}, 0
    while len(reached) > size:
        size = len(reached)
        for pair in pairs:
            ends = {p.occurrence for p in pair if not columns.is_component(p)} if pair is not None else set()
            reached |= ends if ends & reached else set()
    return other in reached
