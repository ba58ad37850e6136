"""Which shards, and how many steps of them, views are kept by: the grids with the least load on the fullest shard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from everview.plan.ahead import MadeAhead, may_be_ahead, read_for, with_stages_ahead
from everview.plan.formula_shards import Components, checking, views_of, without_check
from everview.plan.shards import ONE, Dimension, Distribution, Grid, Route, ShardLevel, within
from everview.plan.split import first_rows, is_partial, split_up
from everview.plan.spread import Places
from everview.plan.weigh import Weigher
from everview.query.schema import Column, Schema, Table
from everview.query.terms import Expression, Var
from everview.query.view import (
    Block,
    Body,
    Cut,
    FormulaBody,
    SetOperation,
    Stage,
    View,
    arranged,
    blocks,
    relations_in,
)

_MERGING = 1.5  # A second step pays off if it takes at least so much off the fullest shard of the first.
_MERGING_GROUPS = 1.2  # The same of a step that gets groups, or first rows, and not the rows of joins.
_SMALL: Final = 0.1  # The rate of a table whose key others point at, beside theirs, where nobody has measured it.
_MOST_AHEAD: Final = 6
"""So many stages are looked at one by one, whether they are to be made ahead."""


def distribute(
    views: Sequence[View],
    schema: Schema,
    shards: int,
    *,
    rates: Mapping[str, float] | None = None,
    skew: Mapping[tuple[str, str], float] | None = None,
    like: Distribution | None = None,
) -> Distribution:
    """Choose shares for every view so that the most loaded shard has least to do.

    Args:
        views: what is kept, in an order in which later ones may read earlier ones.
        schema: the tables.
        shards: how many cells; every grid has exactly so many.
        rates: how many updates to expect at each table, relative to the others; if not given, equal, but fewer at a
            table whose primary key other tables' columns point at.
        skew: for (table, column) the part of the rows that the most frequent value has.
        like: where rows are already; a view of a name that is known there finds them where they are, if it can.
    """
    alone = [_standing_alone(view, views[:i]) for i, view in enumerate(views)]
    known = like.ahead.views if like is not None and like.ahead is not None else ()
    is_ahead = {v.name: like is None or bool(views_of(v.name, known)) for v in alone}
    found = _Steps()
    weigh = Weigher(schema, shards, _rates(alone, schema, rates), skew or {})
    for view in alone:
        by = Components.of(view.body, schema) if isinstance(view.body, FormulaBody) and shards > 1 else None
        if by is not None and by.are_spread:
            told, checked = checking(view)
            kept = [(v, _by_component(v, schema, by, shards)) for v in (without_check(view), *told)]
            found = found.and_also(_Steps(tuple(kept), (checked,), tuple(told)))
            continue
        own = _steps(view, weigh, like)
        ahead = _steps_ahead(view, weigh, own, like) if shards > 1 and is_ahead[view.name] else None
        found = found.and_also(ahead or own)
    made = [_as_table(v) for v, _ in found.ahead]
    first_reads, ahead_reads = ({r.table for _, g in level for r in g.routes} for level in (found.kept, found.ahead))
    tables = [t for t in schema if t.name in first_reads or t.name not in ahead_reads]
    first = _level(shards, (*tables, *made), found.kept)
    ahead_level = _level(shards, [t for t in schema if t.name in ahead_reads], found.ahead) if made else None
    names = {v.name for v, _ in (*found.kept, *found.ahead)}
    merge = None
    if found.merged:
        parts = tuple(map(_as_table, found.parts))
        merge = ShardLevel(shards, parts, found.merged, tuple(_merge_grid(v, shards) for v in found.merged))
    merged = frozenset(v.name for v in found.merged)
    return Distribution(shards, first, merge, merged, frozenset(weigh.cut & names), ahead_level)


def _level(shards: int, tables: Sequence[Table], kept: Sequence[tuple[View, Grid]]) -> ShardLevel:
    return _checking_keys(ShardLevel(shards, tuple(tables), tuple(v for v, _ in kept), tuple(g for _, g in kept)))


# --- steps -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Steps:
    """How views are kept: by the shards, by what merges those views' parts, and by what is made ahead of the shards."""

    kept: tuple[tuple[View, Grid], ...] = ()
    merged: tuple[View, ...] = ()
    parts: tuple[View, ...] = ()
    """What the shards keep for those that are merged."""
    load: float = 0.0
    """On the fullest shard, more where another step is needed."""
    ahead: tuple[tuple[View, Grid], ...] = ()

    def and_also(self, other: _Steps) -> _Steps:
        """These views and others."""
        return _Steps(
            self.kept + other.kept,
            self.merged + other.merged,
            self.parts + other.parts,
            self.load + other.load,
            self.ahead + other.ahead,
        )


def _steps(view: View, weigh: Weigher, like: Distribution | None) -> _Steps:
    """By one step of shards, or by two."""
    known = {g.view: g for g in like.first.grids} if like is not None else {}
    direct, load = weigh.grid(view, known.get(view.name))
    ways = [_Steps(((view, direct),), load=load)]
    if weigh.shards > 1 and not _is_whole(view.body):
        for split in (split_up(view), _first_rows(view)):
            pieces = [weigh.piece(p, known.get(p.name)) for p in split[0]] if split else []
            if split is None or (isinstance(split[0][0].body, Cut) and pieces[0][1].is_on_one):
                continue
            cost = sum((_MERGING_GROUPS if _is_small(p, view) else _MERGING) * load for p, _, load in pieces)
            ways.append(_Steps(tuple((p, g) for p, g, _ in pieces), (split[1],), tuple(split[0]), cost))
    if like is not None and (view.name in known or view.name in like.merged):
        there = {v.name: type(v.body) for v in like.first.views}
        held = [w for w in ways if all(there.get(v.name) is type(v.body) for v, _ in w.kept)]
        return (held or ways)[0 if held or view.name in known else -1]
    return min(ways, key=lambda w: w.load)


def _first_rows(view: View) -> tuple[list[View], View] | None:
    """The first rows of groups and set operations; those of a bag are in ``split_up``."""
    body = view.body
    is_bag = isinstance(body, Cut) and isinstance(body.body, Block) and body.body.grouping is None
    found = None if is_bag else first_rows(view)
    return found and ([found[0]], found[1])


def _is_small(piece: View, view: View) -> bool:
    """True if a first step gives less than rows of a join; groups that all meet on one shard are no less."""
    return isinstance(piece.body, Cut) or (is_partial(piece) and not isinstance(view.body, Cut))


def _steps_ahead(view: View, weigh: Weigher, own: _Steps, like: Distribution | None) -> _Steps | None:
    """The same with stages made ahead, of which every shard would have all rows; None if that would not be better.

    Where such a step is there already, what sends rows to it as they came is better than all else.
    """
    needed = _needed_whole(own)
    candidates = [(s, way) for s, way in may_be_ahead(view, weigh.schema) if needed & read_for(view, s)]
    best: tuple[frozenset[MadeAhead], _Steps] | None = None
    bound = (like is not None, own.load / _MERGING_GROUPS if like is None else inf)
    tied = [(s, way) for s, way in candidates if any(map(_has_keys, blocks(s.body)))]
    free = [c for c in candidates if c not in tied]
    compared = [(s, way) for s, way in tied if way.beside is not None]
    for tried in (free, compared, *([c] for c in tied[:_MOST_AHEAD])):
        known = best[0] if best else frozenset[MadeAhead]()
        if not tried or {s.name for s, _ in tried} & {way.stage for way in known}:
            continue
        chosen = known | {way for _, way in tried}
        found = _with_ahead(view, chosen, weigh, like)
        by_key = tried is not free and isinstance(tried[0][0].body, Block)  # It may have as many rows as its table.
        if found is not None:
            elsewhere = like is not None and not _sends_like(found, like, view.name)
            if (elsewhere, found.load * (_MERGING_GROUPS if by_key else 1.0)) < bound:
                best, bound = (chosen, found), (elsewhere, found.load)
    return best and best[1]


def _sends_like(steps: _Steps, like: Distribution, view: str) -> bool:
    """True if the tables' rows go where they went as they were kept for a view."""
    levels = ((steps.ahead, like.ahead), (steps.kept, like.first))
    made = {v.name for v, _ in steps.ahead} | like.made

    def ways(grids: Iterable[Grid]) -> set[tuple[str, tuple[int, ...], object]]:
        return {(r.table, tuple(d.share for d in g.dimensions), r.coordinates) for g in grids for r in g.routes}

    for own, there in levels:
        before = [g for g in there.grids if g.view in views_of(view, there.views)] if there is not None else []
        if any(way[0] not in made for way in ways(g for _, g in own) ^ ways(before)):
            return False
    return True


def _needed_whole(own: _Steps) -> set[str]:
    """The stages with a table that every shard of a slice has whole, or one shard alone."""
    found = set()
    for view, grid in own.kept:
        routes, inner = iter(grid.routes), {s.name for s in view.stages}
        parts: tuple[Stage | View, ...] = (*view.stages, view)
        for part in parts:
            read = [next(routes) for b in blocks(part.body) for a in b.atoms if a.relation not in inner]
            if any(not c for route in read for c in route.coordinates):
                found.add(part.name)
    return found


def _has_keys(block: Block) -> bool:
    """True of groups, or different rows, of which there may be more than one."""
    values = block.grouping.keys if block.grouping else [o.expression for o in block.outputs]
    return any(e.variables for e in values)


def _with_ahead(view: View, chosen: frozenset[MadeAhead], weigh: Weigher, like: Distribution | None) -> _Steps | None:
    made = with_stages_ahead(view, chosen, weigh.schema)
    if made is None:
        return None
    there = {g.view: g for g in like.ahead.grids} if like is not None and like.ahead is not None else {}
    pieces = [weigh.piece(p, there.get(p.name), by_group=True) for p in made[0]]
    if any(isinstance(p.body, Cut) and g.is_on_one for p, g, _ in pieces):
        return None
    rates = dict(weigh.rates)
    for piece, grid, _ in pieces:
        most = max((weigh.rate(r) for r in grid.routes), default=0.0)
        fewer = _SMALL if is_partial(piece) or isinstance(piece.body, Cut) else 1.0
        rates[piece.name] = fewer * most if any(map(_has_keys, blocks(piece.body))) else 0.0
    schema = Schema((*weigh.schema, *(_as_table(p) for p in made[0])))
    own = _steps(made[1], replace(weigh, schema=schema, rates=rates), like)
    load = own.load + sum(load for _, _, load in pieces)
    return replace(own, load=load, ahead=tuple((p, g) for p, g, _ in pieces))


def _checking_keys(level: ShardLevel) -> ShardLevel:
    """The level with a way for every table whose rows of one key meet nowhere: there, a second row is noticed.

    Such a way is no occurrence's, so no view sees the rows that come on it alone.
    """
    checks = []
    for table in level.tables:
        key = {c.lower() for c in table.checked_key}
        if not key or level.shards == 1:
            continue
        if not any(within(route, key) for _, route in level.routes(table.name)):
            own = [c for c in table.columns if c.name.lower() in key]
            hashed = tuple(Expression.of(Var(c.name), c.type) for c in own)
            name = f"{table.name}'s key"
            routes = (Route(name, table.name, "its key's check", (hashed,)),)
            checks.append(Grid(name, (Dimension("key", level.shards),), routes))
    return replace(level, grids=(*level.grids, *checks)) if checks else level


def _is_whole(body: Body) -> bool:
    """True for a bag of joined rows, which comes together anywhere, and for a formula, of which there are no parts."""
    return isinstance(body, FormulaBody) or (isinstance(body, Block) and body.grouping is None and not body.distinct)


# --- views -----------------------------------------------------------------------------------------------------------


def _standing_alone(view: View, earlier: Sequence[View]) -> View:
    """The view with the views that it reads as stages of its own."""
    stages: list[Stage] = []
    bodies = [*(s.body for s in view.stages), view.body]
    read = {name for body in bodies for name in relations_in(body)}
    for other in reversed(earlier):
        if other.name in read:
            own = [*other.stages, Stage(other.name, other.body, "another view")]
            stages = own + stages
            read |= {name for s in own for name in relations_in(s.body)}
    return replace(view, stages=(*dict.fromkeys(stages), *view.stages)) if stages else view


def _as_table(view: View) -> Table:
    return Table(view.name, tuple(Column(c.name, c.type.unbounded) for c in view.columns))


def _rates(views: Sequence[View], schema: Schema, given: Mapping[str, float] | None) -> dict[str, float]:
    """How many updates each table has: as given, or guessed from keys: what others point at is the small side."""
    if given:
        return {t.name: float(given.get(t.name, 1.0)) for t in schema}
    bodies = [body for view in views for body in (*(s.body for s in view.stages), view.body)]
    pointed = {name for body in bodies for name in _pointed_at(body, schema)}
    return {t.name: _SMALL if t.name in pointed else 1.0 for t in schema}


def _pointed_at(body: Body, schema: Schema) -> Iterator[str]:
    """The tables whose whole primary key is joined with columns of another one, which are not all of its key."""
    for block in blocks(body):
        keys: list[tuple[Table, frozenset[Var], frozenset[Var]]] = []
        for atom in block.atoms:
            table = schema.table(atom.relation)
            if table is not None:
                terms = [atom.terms[i] for i in table.positions(table.primary_key)]
                key = frozenset(t for t in terms if isinstance(t, Var))
                keys.append((table, key if len(key) == len(terms) else frozenset(), atom.variables))
        for table, key, _ in keys:
            if key and any(key <= held and key != own for other, own, held in keys if other is not table):
                yield table.name


# --- grids -----------------------------------------------------------------------------------------------------------


def _by_component(view: View, schema: Schema, by: Components, shards: int) -> Grid:
    """The grid of a formula, or of what its check is told, by the column that names components."""
    occurrences = Places.nowhere(view, schema).occurrences
    routes = tuple(Route(view.name, o.table, o.alias, ((by.columns[o.table],),)) for o in occurrences)
    return Grid(view.name, (Dimension(by.name, shards),), routes)


def _merge_grid(view: View, shards: int) -> Grid:
    """Rows that can become one row of the result meet: those with the same group, or the same row.

    Groups of different keys can give one row of a DISTINCT, or of a set operation: there, all meet.
    """
    routes = []
    narrow = any(True for _ in arranged(view.body))
    for block in blocks(view.body):
        (atom,) = block.atoms
        columns = {v: Var(f"c{i}") for i, v in enumerate(atom.terms) if isinstance(v, Var)}
        found = block.grouping.keys if block.grouping else [o.expression for o in block.outputs]
        hashed = tuple(e.substitute(columns) for e in found)
        narrow = narrow or not hashed or (block.grouping is not None and block.distinct)
        routes.append(Route(view.name, atom.relation, atom.relation, (hashed,)))
    if narrow or (isinstance(view.body, SetOperation) and any(b.grouping for b in blocks(view.body))):
        return Grid(view.name, (Dimension(ONE, shards),), tuple(replace(r, coordinates=((),)) for r in routes))
    return Grid(view.name, (Dimension("group", shards),), tuple(routes))
