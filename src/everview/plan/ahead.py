"""Stages that are made ahead of the shards: those of which every shard would need all rows.

A scalar subquery that nothing ties to the rows around it, EXISTS of anything at all, whether NOT IN finds a NULL: what
they say concerns all rows, wherever these are. So each shard of a step ahead makes partial groups of the rows that it
gets, a few for each, and the shards of the view get these instead of the tables. It is the second step of ``split``,
of a stage instead of the view; and so groups of several sets come together, and the first of all rows. Of a stage that
compares rows with those around it, what it compares is made so (``compared``).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from everview.plan.compared import grouped_beside, may_be_grouped
from everview.plan.split import AHEAD, in_two
from everview.query.schema import Schema
from everview.query.view import (
    Block,
    Body,
    Cut,
    FormulaBody,
    SetOperation,
    Stage,
    View,
    Windowed,
    blocks,
    without_unread,
)


@dataclass(frozen=True)
class MadeAhead:
    """A stage that is made ahead of the shards; or what it joins with its atom at a place, and that atom by shards."""

    stage: str
    beside: int | None = None


def may_be_ahead(view: View, schema: Schema) -> list[tuple[Stage, MadeAhead]]:
    """The stages of which first steps give less than the tables have: groups, different rows, and first rows."""
    if any(isinstance(body, FormulaBody) for body in (*(s.body for s in view.stages), view.body)):
        return []
    read = [s for s in view.stages if not any(_is_empty(b) for b in blocks(s.body))]
    whole = [(s, MadeAhead(s.name)) for s in read if _is_less(s.body)]
    return whole + [(s, MadeAhead(s.name, i)) for s in read for i in may_be_grouped(s, view, schema)]


def read_for(view: View, stage: Stage) -> set[str]:
    """A stage and those that it reads, whether by others or not."""
    made = without_unread(View(stage.name, stage.body, view.stages[: view.stages.index(stage)]))
    return {stage.name, *(s.name for s in made.stages)}


def with_stages_ahead(view: View, chosen: Collection[MadeAhead], schema: Schema) -> tuple[list[View], View] | None:
    """First steps of some stages, and the view over the tables that they are; None if it cannot be."""
    pieces: list[View] = []
    stages: list[Stage] = []
    ways = {c.stage: c.beside for c in chosen}
    for i, stage in enumerate(view.stages):
        earlier = replace(view, stages=view.stages[:i])
        if stage.name in ways:
            place, body = ways[stage.name], stage.body
            found: tuple[list[View], Body] | None
            if place is not None and isinstance(body, Block):
                found = grouped_beside(body, place, earlier, len(pieces), schema)
            else:
                found = in_two(body, earlier, len(pieces), AHEAD)
            if found is None:
                return None
            pieces += found[0]
            stage = replace(stage, body=found[1])
        stages.append(stage)
    made = without_unread(replace(view, stages=tuple(stages)))
    read = {a.relation for body in (*(s.body for s in made.stages), made.body) for b in blocks(body) for a in b.atoms}
    return [p for p in pieces if p.name in read], made


def _is_less(body: Body) -> bool:
    if isinstance(body, SetOperation):
        return _is_less(body.left) and _is_less(body.right)
    if isinstance(body, Windowed):
        return isinstance(body.body, Cut) and _is_less(body.body)
    if isinstance(body, Cut):
        is_bag = isinstance(body.body, Block) and body.body.grouping is None
        return is_bag and body.end is not None and not body.partition
    return isinstance(body, Block) and (body.grouping is not None or body.distinct)


def _is_empty(block: Block) -> bool:
    """True of rows that no table has: nothing is read for them."""
    return any(p.parts == ("false",) for p in block.predicates)
