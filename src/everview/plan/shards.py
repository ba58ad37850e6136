"""How a view is spread over shards: HyperCube shares (crown.md 10), and the merge where groups span shards.

Shards are the cells of a grid. A *dimension* stands for a variable of the view's result; its *share* is how many
slices it has. A row goes to every cell that agrees with the hashes of its own values, so each result comes together in
exactly one cell. A view whose result has no such variable (a global aggregate, a DISTINCT over computed columns), or
none that is good, is split: its joins run on the grid, and a second step puts together what they give (``split``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import prod

from everview.plan.formula_shards import CHECK, Components, checking, views_of, without_check
from everview.plan.shares import ways_to_share
from everview.plan.split import is_partial, split_up
from everview.plan.spread import Occurrence, Places, spread
from everview.query.schema import Column, Schema, Table
from everview.query.terms import Expression, Var
from everview.query.view import Block, Body, FormulaBody, SetOperation, Stage, View, arranged, blocks, relations_in

MASK = "_everview_occurrences"
"""The column that says as which occurrences of its table a row has come to a shard."""
MOST_OCCURRENCES = 62
MOST_WORK = 100_000
"""So many ways to share are weighed, counting occurrences; if there are more, those along few dimensions."""
_MERGING = 1.5  # A second step pays off if it takes at least so much off the fullest shard of the first.
_MERGING_GROUPS = 1.2  # The same of a step that gets groups, and not the rows of joins.
_NEARLY = 1.1  # So much more load may be, for what else is good.
_SMALL = 0.1  # The rate of a table whose key others point at, beside theirs, where nobody has measured it.
_ONE = "all"
"""The dimension of a grid along which all rows go to one shard."""
_FILTERED = 0.3  # The part of a table's rows that a condition is taken to keep, where nobody has measured it.


@dataclass(frozen=True)
class Dimension:
    """A variable of the result and the number of slices of its values."""

    name: str
    share: int


@dataclass(frozen=True)
class Route:
    """Where a table's rows go as one occurrence in a view: for each dimension what is hashed, None for every slice."""

    view: str
    table: str
    alias: str
    coordinates: tuple[tuple[Expression, ...] | None, ...]
    conditions: tuple[Expression, ...] = ()
    """Rows for which one of them does not hold are not needed on this route."""


@dataclass(frozen=True)
class Grid:
    """The cells of one view: its dimensions, and the route of every occurrence of a table in it."""

    view: str
    dimensions: tuple[Dimension, ...]
    routes: tuple[Route, ...]

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return prod(d.share for d in self.dimensions)

    def sends_like(self, other: Grid) -> bool:
        """True if every occurrence's rows go where those of the other's go, conditions apart."""
        shares, others = ([d.share for d in g.dimensions] for g in (self, other))
        ways, there = ([(r.table, r.coordinates) for r in g.routes] for g in (self, other))
        return (shares, ways) == (others, there)

    def coordinates(self, cell: int) -> tuple[int, ...]:
        """Where a cell lies."""
        found = []
        for dimension in reversed(self.dimensions):
            cell, slice_ = divmod(cell, dimension.share)
            found.append(slice_)
        return tuple(reversed(found))


@dataclass(frozen=True)
class ShardLevel:
    """One pass over shards: the tables that come in, the views kept, and a grid for each of them."""

    shards: int
    tables: tuple[Table, ...]
    views: tuple[View, ...]
    grids: tuple[Grid, ...]

    def routes(self, table: str) -> tuple[tuple[Grid, Route], ...]:
        """The routes of a table in all views; the position of one is its bit in the mask."""
        return tuple((g, r) for g in self.grids for r in g.routes if r.table == table)

    def is_masked(self, table: str) -> bool:
        """True if a row may come to a cell as some of its table's occurrences only."""
        routes = self.routes(table)
        return len({tuple(zip((d.share for d in g.dimensions), r.coordinates, strict=True)) for g, r in routes}) > 1

    def keeps_keys_together(self, table: Table) -> bool:
        """True if rows of a table that have the same key always come to the same cells."""
        key = {c.lower() for c in table.checked_key}
        return self.shards == 1 or all(_within(route, key) for _, route in self.routes(table.name))

    def homes(self, table: str) -> frozenset[int]:
        """The cells that between them have each row once as the first occurrence of its table."""
        routes = self.routes(table)
        if not routes:
            return frozenset({0})
        grid, route = routes[0]
        whole = [k for k, hashed in enumerate(route.coordinates) if hashed is None]
        return frozenset(s for s in range(self.shards) if all(grid.coordinates(s)[k] == 0 for k in whole))

    def replication(self, table: str) -> float:
        """The expected number of cells that a row goes to, its hashes being independent."""
        routes = self.routes(table)
        return _expected_cells(routes, self.shards) if routes else 0.0


@dataclass(frozen=True)
class Distribution:
    """How views are spread over shards: one level, and a second one if some have to be merged."""

    shards: int
    first: ShardLevel
    merge: ShardLevel | None = None
    merged: frozenset[str] = field(default=frozenset())
    cut: frozenset[str] = field(default=frozenset(), compare=False)
    """The views, and parts of views, for which there were too many ways to share to weigh them all."""

    def only(self, view: str) -> Distribution:
        """The part that concerns one of the views."""
        pieces = views_of(view, self.first.views)
        grids = tuple(g for g in self.first.grids if g.view in pieces)
        read = {r.table for g in grids for r in g.routes}
        tables = tuple(t for t in self.first.tables if t.name in read)
        views = tuple(v for v in self.first.views if v.name in pieces)
        first = ShardLevel(self.shards, tables, views, grids)
        merged = self.merged & {view, f"{view}{CHECK}"}
        return Distribution(self.shards, first, self.merge if merged else None, merged, self.cut & pieces)

    def to_dict(self) -> dict[str, object]:
        """As plain data."""
        return {
            "shards": self.shards,
            "merged": sorted(self.merged),
            "cut": sorted(self.cut),
            "views": {
                g.view: {
                    "shares": {d.name: d.share for d in g.dimensions},
                    "routes": [
                        {"table": table, "as": alias, "by": list(by)}
                        for table, alias, by in dict.fromkeys(
                            (r.table, r.alias, tuple(map(_listed, r.coordinates))) for r in g.routes
                        )
                    ],
                }
                for g in self.first.grids
            },
            "replication": {t.name: round(self.first.replication(t.name), 3) for t in self.first.tables},
        }

    def __str__(self) -> str:
        lines = []
        for grid in self.first.grids:
            shares = " × ".join(f"{d.name}: {d.share}" for d in grid.dimensions) or "one cell"
            whose = next((name for name in self.merged if grid.view.startswith(f"__{name}_")), grid.view)
            lines.append(f"{whose}: {self.shards} shards = {shares}")
            lines += dict.fromkeys(f"  {r.table} as {r.alias}: {self._where(r)}" for r in grid.routes)
            if any(d.name == _ONE for d in grid.dimensions):
                lines.append("  runs on one shard: no column of its tables says which rows come together")
        for table in self.first.tables:
            lines.append(f"{table.name}: a row goes to {self.first.replication(table.name):.2f} shards, expected")
        if self.merge is not None:
            alone = {g.view for g in self.merge.grids if any(d.name == _ONE for d in g.dimensions)}
            for names, how in ((self.merged - alone, "spread by their groups"), (self.merged & alone, "on one shard")):
                if names:
                    lines.append(f"merged in a second step, {how}: {', '.join(sorted(names))}")
            if joined := self._sending_rows():
                lines.append(f"sent as rows of joins, as partial groups would not do: {', '.join(joined)}")
        if self.cut:
            lines.append("the search for the best shares was cut: only those along few dimensions were weighed")
        return "\n".join(lines)

    def _sending_rows(self) -> list[str]:
        """The grouped views whose shards send rows of joins, and not partial groups."""
        partial = {v.name for v in self.first.views if is_partial(v)}
        merged = self.merge.views if self.merge is not None else ()
        found = [(v.name, b) for v in merged if v.name in self.merged for b in blocks(v.body) if b.grouping]
        return sorted({name for name, block in found if not {a.relation for a in block.atoms} <= partial})

    def _where(self, route: Route) -> str:
        by = [f"by {_listed(c)}" for c in route.coordinates if c is not None]
        return " and ".join(by) or ("to every shard" if self.shards > 1 else "to the only shard")


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
    kept: list[View] = []
    merged: list[View] = []
    parts: list[Table] = []
    grids: list[Grid] = []
    weigh = _Weigher(schema, shards, _rates(alone, schema, rates), skew or {})
    known = {g.view: g for g in like.first.grids} if like is not None else {}
    for view in alone:
        by = Components.of(view.body, schema) if isinstance(view.body, FormulaBody) and shards > 1 else None
        if by is not None and by.are_spread:
            told, checked = checking(view)
            kept += (without_check(view), *told)
            grids += [_by_component(v, schema, by, shards) for v in (without_check(view), *told)]
            merged.append(checked)
            parts += map(_as_table, told)
            continue
        direct, load = weigh.grid(view, known.get(view.name))
        split = split_up(view) if shards > 1 and not _is_whole(view.body) else None
        pieces = [weigh.piece(p, known.get(p.name)) for p in split[0]] if split else []
        whole = load <= sum((_MERGING_GROUPS if is_partial(p) else _MERGING) * load for p, _, load in pieces)
        if like is not None and (view.name in known or view.name in like.merged):
            whole = view.name in known
        if split is None or whole:
            kept.append(view)
            grids.append(direct)
            continue
        kept += split[0]
        grids += [grid for _, grid, _ in pieces]
        merged.append(split[1])
        parts += map(_as_table, split[0])
    first = _checking_keys(ShardLevel(shards, tuple(schema), tuple(kept), tuple(grids)))
    cut = frozenset(weigh.cut & {v.name for v in kept})
    if not merged:
        return Distribution(shards, first, cut=cut)
    second = tuple(_merge_grid(view, shards) for view in merged)
    names = frozenset(v.name for v in merged)
    return Distribution(shards, first, ShardLevel(shards, tuple(parts), tuple(merged), second), names, cut)


def _checking_keys(level: ShardLevel) -> ShardLevel:
    """The level with a way for every table whose rows of one key meet nowhere: there, a second row is noticed.

    Such a way is no occurrence's, so no view sees the rows that come on it alone.
    """
    checks = []
    for table in level.tables:
        key = {c.lower() for c in table.checked_key}
        if not key or level.shards == 1:
            continue
        if not any(_within(route, key) for _, route in level.routes(table.name)):
            own = [c for c in table.columns if c.name.lower() in key]
            hashed = tuple(Expression.of(Var(c.name), c.type) for c in own)
            name = f"{table.name}'s key"
            routes = (Route(name, table.name, "its key's check", (hashed,)),)
            checks.append(Grid(name, (Dimension("key", level.shards),), routes))
    return replace(level, grids=(*level.grids, *checks)) if checks else level


def _within(route: Route, columns: set[str]) -> bool:
    """True if a route hashes nothing but these columns."""
    return all(v.name.lower() in columns for c in route.coordinates for e in c or () for v in e.variables)


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
        return Grid(view.name, (Dimension(_ONE, shards),), tuple(replace(r, coordinates=((),)) for r in routes))
    return Grid(view.name, (Dimension("group", shards),), tuple(routes))


@dataclass(frozen=True)
class _Weigher:
    """Finds the shares with the least load on the fullest shard."""

    schema: Schema
    shards: int
    rates: Mapping[str, float]
    skew: Mapping[tuple[str, str], float]
    cut: set[str] = field(default_factory=set)
    """The views for which not all shares were weighed."""

    def piece(self, view: View, like: Grid | None = None) -> tuple[View, Grid, float]:
        """The grid of a part of a view that is merged: however its rows are spread, its groups come together later."""
        first, *others = blocks(view.body)
        loose = replace(view, body=replace(first, grouping=None, outputs=(), distinct=False))
        inner = {s.name for s in view.stages}
        own = sum(a.relation not in inner for a in first.atoms)
        if like is not None:
            like = replace(like, routes=like.routes[: len(Places.nowhere(loose, self.schema).occurrences)])
        found, load = self.grid(loose, like)
        # All members read the same tables in the same order.
        again = [replace(route) for _ in others for route in found.routes[len(found.routes) - own :]]
        return view, replace(found, routes=(*found.routes, *again)), load

    def grid(self, view: View, like: Grid | None = None) -> tuple[Grid, float]:
        """The best grid of a view and the load on its fullest shard; of equals the one with fewest dimensions.

        One that sends rows where another grid does is better than all others. Among those that are nearly as good as
        the best, one is taken that has equal rows of the result in one shard, if there is any: where they are in
        several, one may tell that such a row came and another that one went, in the same batch.
        """
        occurrences = Places.nowhere(view, self.schema).occurrences
        weights = [self.rates[o.table] * o.joins * (_FILTERED if o.filtered else 1.0) for o in occurrences]
        candidates = spread(view, self.schema) if self.shards > 1 and not isinstance(view.body, FormulaBody) else []
        if not candidates:
            one_cell = (Dimension(_ONE, self.shards),) if self.shards > 1 else ()
            hashed: tuple[tuple[Expression, ...] | None, ...] = ((),) if self.shards > 1 else ()
            routes = tuple(Route(view.name, o.table, o.alias, hashed) for o in occurrences)
            return Grid(view.name, one_cell, routes), sum(weights)

        @cache
        def cut(candidate: int, share: int) -> list[float]:
            """The part of each occurrence's rows that the fullest slice gets."""
            return [o.part(share, self.skew) for o in candidates[candidate].occurrences]

        def load(shares: tuple[int, ...]) -> float:
            used = [(k, s) for k, s in enumerate(shares) if s > 1]
            parts = [float(prod(of_one)) for of_one in zip(*(cut(k, s) for k, s in used), strict=True)]
            checks = [
                self.rates[o.table] * (1 - part) / self.shards
                for i, (o, part) in enumerate(zip(occurrences, parts, strict=True))
                if self._is_checked([candidates[k].occurrences[i] for k, _ in used])
            ]
            return round(sum(w * p for w, p in zip(weights, parts, strict=True)) + sum(checks), 9)

        def made(shares: tuple[int, ...]) -> Grid:
            used = [(c, s) for c, s in zip(candidates, shares, strict=True) if s > 1]
            routes = tuple(
                Route(view.name, o.table, o.alias, tuple(c.occurrences[i].hashed for c, _ in used), o.conditions)
                for i, o in enumerate(occurrences)
            )
            return Grid(view.name, tuple(Dimension(c.name, s) for c, s in used), routes)

        held = [] if like is None else [s for s in _held(like, candidates) if made(s).sends_like(like)]
        found = ways_to_share(self.shards, len(candidates), MOST_WORK // len(occurrences))
        if found.cut and not held:
            self.cut.add(view.name)
        loads = {shares: load(shares) for shares in held or found.ways}
        nearly = _NEARLY * min(loads.values())
        together = [
            shares
            for shares, own in loads.items()
            if own <= nearly and all(c.is_shown for c, n in zip(candidates, shares, strict=True) if n > 1)
        ]
        shares = min(together or loads, key=lambda shares: (loads[shares], sum(n > 1 for n in shares)))
        return made(shares), loads[shares]

    def _is_checked(self, cuts: Sequence[Occurrence]) -> bool:
        """True if a table has a key, and its rows go to the key's shards as well, being cut by other columns."""
        table = self.schema.table(cuts[0].table) if cuts else None
        key = {c.lower() for c in table.checked_key} if table is not None else set()
        hashed = {v.name.lower() for o in cuts for e in o.hashed or () for v in e.variables}
        return bool(key) and not hashed <= key


def _held(like: Grid, candidates: Sequence[Places]) -> list[tuple[int, ...]]:
    """The shares of another grid for these candidates; none if one of its dimensions is not among them."""
    ways = [tuple(o.hashed for o in c.occurrences) for c in candidates]
    shares = [1] * len(candidates)
    for k, dimension in enumerate(like.dimensions):
        way = tuple(r.coordinates[k] for r in like.routes)
        if way not in ways:
            return []
        shares[ways.index(way)] *= dimension.share
    return [tuple(shares)]


def _expected_cells(routes: Iterable[tuple[Grid, Route]], shards: int) -> float:
    """1 − Π (1 − part of the cells) for each cell, over routes that hash different values."""
    ways: dict[object, float] = {}
    for grid, route in routes:
        hashed = [(d.share, c) for d, c in zip(grid.dimensions, route.coordinates, strict=True) if c is not None]
        ways[tuple(hashed)] = prod((1 / share if c else 1 / grid.cells) for share, c in hashed)
    missed = prod(1 - part for part in ways.values())
    return shards * (1 - missed)


def _listed(coordinate: tuple[Expression, ...] | None) -> str:
    if coordinate is None:
        return "all"
    return ", ".join(map(str, coordinate)) or "nothing: one shard"
