"""Aggregates over whole partitions, ``SUM(x) OVER (PARTITION BY p)``: the rows joined with the groups that they make.

A frame that is always the whole partition gives all rows of it one value, the aggregate of their group. So such a call
is a column of a grouped stage over the same rows, which is joined with them by the keys; NULL is a key as others are.
An update changes one group, and the rows of that group only where its value is another one then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from everview.query.terms import Expression
from everview.query.totals import TOTALS
from everview.query.view import group_key
from everview.sql.aggregates import WHOLE, is_aggregate
from everview.sql.apart import null_safe
from everview.sql.body import Body, equality
from everview.sql.grouping import grouped_output
from everview.sql.names import Cell, Scope
from everview.sql.nodes import NUMBER, standing_for
from everview.sql.session import Groups, Rows, Selected, stage_columns

if TYPE_CHECKING:
    from everview.sql.select import Lower

_AROUND_VALUES: Final = (*WHOLE, exp.Where, exp.Order, exp.Ordered, exp.Distinct)
"""What of a call is no value itself, but may hold some."""


@dataclass(frozen=True)
class Total:
    """A call over whole partitions; a column stands in it for each value, with the place that this has in the rows."""

    partition: tuple[int, ...]
    call: exp.Expr
    values: tuple[tuple[exp.Column, int], ...]


def total_of(call: exp.Expr, partition: tuple[int, ...], place: Callable[[exp.Expr], int]) -> Total:
    """A call over whole partitions; ``place`` says where the rows have a value."""
    held = exp.Paren(this=call.copy())
    values = []
    for node in list(_values_in(held.this)):
        column = standing_for(node)
        values.append((column, place(node)))
        node.replace(column)
    for node in held.walk():
        node.meta.pop(NUMBER, None)  # Of the query as it is written, this is no aggregate: its window is a value.
    return Total(partition, held.this, tuple(values))


def _values_in(call: exp.Expr) -> Iterator[exp.Expr]:
    """The values of rows, or of groups, that a call of an aggregate reads: all but literals."""
    for value in list(call.args.values()):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, _AROUND_VALUES) or (child is call.this and isinstance(call, WHOLE)):
                yield from _values_in(child)
            elif isinstance(child, exp.Expr) and any(map(_is_of_rows, child.walk())):
                yield child


def _is_of_rows(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) or is_aggregate(node)


def add_totals(
    lower: Lower, outer: Rows, body: Body, columns: Sequence[Cell], own: Sequence[Cell], totals: Sequence[Total]
) -> list[Cell]:
    """Join the rows of ``outer`` with their groups; gives the cells of the totals, in their order.

    ``body`` has the same rows for the groups to be made of; ``own`` and ``columns`` are what both have of them.
    """
    found: dict[int, Cell] = {}
    for partition in dict.fromkeys(t.partition for t in totals):
        chosen = [i for i, t in enumerate(totals) if t.partition == partition]
        groups = Rows(lower, outer.env, Scope(lower.source), body.copied(), groups=Groups())
        lower.relations += len(body)
        keys = _group(groups, [columns[place] for place in partition], [own[place] for place in partition])
        places = {i: _place(groups, totals[i], columns) for i in chosen}
        made = groups.finish()
        stage = next((s for s in lower.stages if s.body == made), None) or lower.stage(made, "totals", TOTALS)
        terms = outer.atom(stage.name, stage.name, stage_columns(stage), totals[chosen[0]].call)
        for (key, may_be_null), term in zip(keys, terms, strict=False):
            for left, right in null_safe(key, term) if may_be_null else ((key, term),):
                outer.body.equate(left, right, equality(left, right))
        found |= {i: Cell(terms[place]) for i, place in places.items()}
    return [found[i] for i in range(len(totals))]


def _group(groups: Rows, keys: Sequence[Cell], own: Sequence[Cell]) -> list[tuple[Expression, bool]]:
    """Group by what partitions go by; gives what the rows have of each key, an output, and whether it may be NULL."""
    assert groups.groups is not None
    found: list[tuple[Expression, bool]] = []
    for cell, same in zip(keys, own, strict=True):
        if not cell.expression.variables:
            continue  # The same for all rows.
        number = groups.groups.key(groups.body, cell.expression, cell.strict)
        if number == len(found):
            output = Expression.of(group_key(number), cell.type)
            groups.outputs.append(Selected(groups.body.name_of(cell.expression), output, True, exp.Null()))
            found.append((same.expression, not cell.strict or groups.body.nullable(cell.expression)))
    return found


def _place(groups: Rows, total: Total, columns: Sequence[Cell]) -> int:
    """The output of the groups that a total is, new or known."""
    for column, place in total.values:
        column.meta["cell"] = columns[place]
    selected = grouped_output(groups, total.call, "total", total.call)
    known = [o.expression for o in groups.outputs]
    if selected.expression in known:
        return known.index(selected.expression)
    groups.outputs.append(selected)
    return len(known)
