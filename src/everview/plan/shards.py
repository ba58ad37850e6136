"""How a view is spread over shards: HyperCube shares (crown.md 10), and the merge where groups span shards.

Shards are the cells of a grid. A *dimension* stands for a variable of the view's result; its *share* is how many
slices it has. A row goes to every cell that agrees with the hashes of its own values, so each result comes together in
exactly one cell. A view whose result has no such variable (a global aggregate, a DISTINCT over computed columns), or
none that is good, is split: its joins run on the grid, and a second step puts together what they give (``split``).
Stages that every cell would need whole are split as well, and their first steps made ahead of the shards (``ahead``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod

from everview.plan.formula_shards import CHECK, views_of
from everview.plan.split import is_partial
from everview.query.schema import Table
from everview.query.terms import Expression
from everview.query.view import View, blocks, relations_in

MASK = "_everview_occurrences"
"""The column that says as which occurrences of its table a row has come to a shard."""
MOST_OCCURRENCES = 62
ONE = "all"
"""The dimension of a grid along which all rows go to one shard."""


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

    @property
    def is_on_one(self) -> bool:
        """True if all rows go to one shard, of several."""
        return bool(self.routes) and all(() in r.coordinates for r in self.routes)

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
        return self.shards == 1 or all(within(route, key) for _, route in self.routes(table.name))

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
    """How views are spread over shards: one level; one after it, if some have to be merged; and one ahead of it."""

    shards: int
    first: ShardLevel
    merge: ShardLevel | None = None
    merged: frozenset[str] = field(default=frozenset())
    cut: frozenset[str] = field(default=frozenset(), compare=False)
    """The views, and parts of views, for which there were too many ways to share to weigh them all."""
    ahead: ShardLevel | None = None
    """What makes those tables of the first level that are first steps of stages."""

    @property
    def levels(self) -> tuple[ShardLevel, ...]:
        """All of them, in the order in which rows pass them."""
        return tuple(level for level in (self.ahead, self.first, self.merge) if level is not None)

    @property
    def made(self) -> frozenset[str]:
        """The tables of the first level that the level ahead of it makes."""
        return frozenset(v.name for v in self.ahead.views) if self.ahead is not None else frozenset()

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables whose rows come from outside."""
        own = [t for t in self.first.tables if t.name not in self.made]
        known = {t.name for t in own}
        return (*own, *(t for t in (self.ahead.tables if self.ahead else ()) if t.name not in known))

    def replication(self, table: str) -> float:
        """The expected number of shards that a row goes to, those ahead counted by themselves."""
        return sum(level.replication(table) for level in (self.ahead, self.first) if level is not None)

    def only(self, view: str) -> Distribution:
        """The part that concerns one of the views."""
        first, ahead = _only(view, self.first), self.ahead and _only(view, self.ahead)
        merged = self.merged & {view, f"{view}{CHECK}"}
        cut = self.cut & views_of(view, [*first.views, *(ahead.views if ahead else ())])
        return Distribution(
            self.shards, first, self.merge if merged else None, merged, cut, ahead if ahead and ahead.views else None
        )

    def to_dict(self) -> dict[str, object]:
        """As plain data."""
        found: dict[str, object] = {
            "shards": self.shards,
            "merged": sorted(self.merged),
            "cut": sorted(self.cut),
            "views": _views(self.first),
            "replication": {t.name: round(self.replication(t.name), 3) for t in self.tables},
        }
        return found | ({"ahead": _views(self.ahead)} if self.ahead is not None else {})

    def __str__(self) -> str:
        lines, parts = [], self._parts()
        for level in (self.ahead, self.first):
            for grid in level.grids if level is not None else ():
                shares = " × ".join(f"{d.name}: {d.share}" for d in grid.dimensions) or "one cell"
                whose = self._whose(grid.view)
                if level is self.ahead:
                    whose = "ahead, " + "; ".join(parts.get(grid.view, (grid.view,)))
                lines.append(f"{whose}: {self.shards} shards = {shares}")
                lines += _told(grid.view, self.ahead) if level is self.ahead else []
                named = ((parts[r.table][0] if r.table in parts else f"{r.table} as {r.alias}", r) for r in grid.routes)
                lines += dict.fromkeys(f"  {name}: {self._where(r)}" for name, r in named)
                if grid.is_on_one and {r.table for r in grid.routes} <= self.made:
                    lines.append("  what is made ahead of it comes together on one shard")
                elif grid.is_on_one:
                    lines.append("  runs on one shard: no column of its tables says which rows come together")
        for table in self.tables:
            lines.append(f"{table.name}: a row goes to {self.replication(table.name):.2f} shards, expected")
        if self.merge is not None:
            alone = {g.view for g in self.merge.grids if g.is_on_one}
            for names, how in ((self.merged - alone, "spread by their groups"), (self.merged & alone, "on one shard")):
                if names:
                    lines.append(f"merged in a second step, {how}: {', '.join(sorted(names))}")
            if joined := self._sending_rows():
                lines.append(f"sent as rows of joins, as partial groups would not do: {', '.join(joined)}")
        if self.cut:
            lines.append("the search for the best shares was cut: only those along few dimensions were weighed")
        return "\n".join(lines)

    def _parts(self) -> dict[str, tuple[str, str]]:
        """What is made ahead, in words: parts of which stage, and what that is for."""
        stages = [s for v in self.first.views for s in v.stages]
        read = ((relation, s) for s in stages for relation in relations_in(s.body) if relation in self.made)
        return {relation: (f"parts of {s.name}", s.purpose) for relation, s in read}

    def _whose(self, piece: str) -> str:
        return next((name for name in self.merged if piece.startswith(f"__{name}_")), piece)

    def _sending_rows(self) -> list[str]:
        """The grouped views whose shards send rows of joins, and not partial groups."""
        partial = {v.name for v in self.first.views if is_partial(v)}
        merged = self.merge.views if self.merge is not None else ()
        found = [(v.name, b) for v in merged if v.name in self.merged for b in blocks(v.body) if b.grouping]
        return sorted({name for name, block in found if not {a.relation for a in block.atoms} <= partial})

    def _where(self, route: Route) -> str:
        by = [f"by {_listed(c)}" for c in route.coordinates if c is not None]
        return " and ".join(by) or ("to every shard" if self.shards > 1 else "to the only shard")


def _told(name: str, ahead: ShardLevel | None) -> list[str]:
    """What a shard ahead of the others says of its own rows, in words: its groups, or different rows."""
    found = []
    pieces = [v for v in ahead.views if v.name == name and is_partial(v)] if ahead is not None else []
    for block in (b for piece in pieces for b in blocks(piece.body)):
        by = block.grouping.keys if block.grouping is not None else [o.expression for o in block.outputs]
        found.append(f"  a shard tells one row for each {', '.join(map(str, by))}" if by else "  a shard tells one row")
    return list(dict.fromkeys(found))


def within(route: Route, columns: set[str]) -> bool:
    """True if a route hashes nothing but these columns."""
    return all(v.name.lower() in columns for c in route.coordinates for e in c or () for v in e.variables)


def _only(view: str, level: ShardLevel) -> ShardLevel:
    """The part of a level that concerns one of the views."""
    pieces = views_of(view, level.views)
    grids = tuple(g for g in level.grids if g.view in pieces)
    read = {r.table for g in grids for r in g.routes}
    tables = tuple(t for t in level.tables if t.name in read)
    return ShardLevel(level.shards, tables, tuple(v for v in level.views if v.name in pieces), grids)


def _views(level: ShardLevel) -> dict[str, object]:
    """The shares and routes of a level's views, as plain data."""
    return {
        g.view: {
            "shares": {d.name: d.share for d in g.dimensions},
            "routes": [
                {"table": table, "as": alias, "by": list(by)}
                for table, alias, by in dict.fromkeys(
                    (r.table, r.alias, tuple(map(_listed, r.coordinates))) for r in g.routes
                )
            ],
        }
        for g in level.grids
    }


def _expected_cells(routes: Iterable[tuple[Grid, Route]], shards: int) -> float:
    """1 − Π (1 − part of the cells) for each cell, over routes that hash different values."""
    ways: dict[object, float] = {}
    for grid, route in routes:
        hashed = [(d.share, c) for d, c in zip(grid.dimensions, route.coordinates, strict=True) if c is not None]
        ways[tuple(hashed)] = prod(1 / share for share, _ in hashed)
    missed = prod(1 - part for part in ways.values())
    return shards * (1 - missed)


def _listed(coordinate: tuple[Expression, ...] | None) -> str:
    if coordinate is None:
        return "all"
    return ", ".join(map(str, coordinate)) or "nothing: one shard"
