"""What the shards of a level keep: its tables and views, and of the constraints those that a shard can check.

A shard sees a part of each table. Keys are checked everywhere, as rows of one key meet somewhere; a foreign key only
where each row comes with the one at which it points, wherever it comes.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from everview.plan.held_values import hash_type
from everview.plan.shards import MASK, Grid, Route, ShardLevel
from everview.query.schema import Column, Enforcement, ForeignKey, Schema, Table, Updates
from everview.query.terms import Expression, Term, Var
from everview.query.types import BIGINT, BOOLEAN
from everview.query.view import Block, Body, FormulaBody, View, each_block, relations_in


def keeps_references_together(level: ShardLevel, table: Table, key: ForeignKey) -> bool:
    """True if, wherever a row of a table comes, the row at which it points by a foreign key comes as well.

    Only then a shard can check the key. A table whose own key is checked comes with all its rows.
    """
    parent = next((t for t in level.tables if t.name.lower() == key.target.lower()), None)
    if parent is None or not parent.checked_key:
        return False
    return level.shards == 1 or all(
        any(_follows(way, other, table, key, parent) for other in level.routes(parent.name))
        for way in level.routes(table.name)
    )


def _follows(way: tuple[Grid, Route], other: tuple[Grid, Route], table: Table, key: ForeignKey, parent: Table) -> bool:
    """True if rows that come on one way find there, by the other, the rows at which they point by a foreign key."""
    (grid, route), (there, target) = way, other
    if all(hashed is None for hashed in target.coordinates):
        return True
    if [d.share for d in grid.dimensions] != [d.share for d in there.dimensions]:
        return False
    points: dict[Var, Term] = {}
    for column, pointed in zip(key.columns, key.target_columns, strict=True):
        (at,), (to,) = table.positions([column]), parent.positions([pointed])
        if hash_type(table.columns[at].type) == hash_type(parent.columns[to].type):
            points[Var(parent.columns[to].name)] = Var(table.columns[at].name)

    def same(mine: tuple[Expression, ...] | None, theirs: tuple[Expression, ...] | None) -> bool:
        if theirs is None:
            return True
        if mine is None or any(not e.variables <= points.keys() for e in theirs):
            return False
        return [e.parts for e in mine] == [e.substitute(points).parts for e in theirs]

    return all(map(same, route.coordinates, target.coordinates))


def as_checked(level: ShardLevel, *, references: bool = True) -> Schema:
    """A level's tables with the constraints that its shards check, or rely on; no others may be used."""

    def checked(table: Table, key: ForeignKey) -> ForeignKey:
        is_checked = references and keeps_references_together(level, table, key)
        if key.enforcement is not Enforcement.ENFORCED or is_checked:
            return key
        return replace(key, enforcement=Enforcement.IGNORED)

    def kept(table: Table) -> Table:
        # A shard sees a part of the queue, and of its rows after a restart not in which batch they came.
        updates = table.updates if references and table.updates is Updates.APPEND else Updates.ANY
        return replace(table, foreign_keys=tuple(checked(table, k) for k in table.foreign_keys), updates=updates)

    return Schema(tuple(map(kept, level.tables)))


def masked(level: ShardLevel, *, references: bool = True) -> tuple[tuple[Table, ...], tuple[View, ...]]:
    """A level's tables and views as its shards keep them: with the mask, where occurrences go different ways.

    Without ``references`` no foreign key is checked: where a shard may leave out a row, others would not know.
    """
    tables = tuple(
        replace(t, columns=(*t.columns, Column(MASK, BIGINT, nullable=False))) if level.is_masked(t.name) else t
        for t in as_checked(level, references=references)
    )
    bits = {t.name: count() for t in level.tables}
    places = {t.name: t.arity for t in level.tables}

    def visible(block: Block) -> Block:
        atoms, conditions = [], list(block.predicates)
        for atom in block.atoms:
            if atom.relation in places:
                bit = 1 << next(bits[atom.relation])
                if level.is_masked(atom.relation):
                    mask = Var(f"${MASK}{len(conditions)}")
                    atom = replace(atom, terms=(*atom.terms, mask))
                    conditions.append(Expression(("(", mask, f" & {bit}) = {bit}"), BOOLEAN))
            atoms.append(atom)
        return replace(block, atoms=tuple(atoms), predicates=tuple(conditions))

    def seen(body: Body) -> Body:
        if not isinstance(body, FormulaBody):
            return each_block(body, visible)
        own = {name: 1 << next(bits[name]) for name in relations_in(body)}
        tested = {name: (places[name], bit) for name, bit in own.items() if level.is_masked(name)}
        return body.each_source(lambda s: replace(s, bit=tested.get(s.table)))

    views = []
    for view in level.views:
        stages = tuple(replace(s, body=seen(s.body)) for s in view.stages)
        views.append(replace(view, stages=stages, body=seen(view.body)))
    return tables, tuple(views)


def unchecked(level: ShardLevel) -> list[str]:
    """For each constraint that is to be enforced and that no shard can check, a line that says so."""
    kinds = [
        f"that {table.name} changes as OPTIONS (updates = '{table.updates.value}') says is neither checked nor used"
        for table, kept in zip(level.tables, as_checked(level), strict=True)
        if table.updates is not kept.updates
    ]
    return kinds + [
        f"the foreign key {key} of {table.name} is neither checked nor used: a row and the one at which it points "
        "come to different shards; NOT ENFORCED RELY behind it uses it unchecked"
        for table, kept in zip(level.tables, as_checked(level), strict=True)
        for key in table.foreign_keys
        if key not in kept.foreign_keys
    ]
