"""The shares of a view's grid: those with the least to do for the fullest shard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import prod
from typing import Final

from everview.plan.shards import ONE, Dimension, Grid, Route
from everview.plan.shares import ways_to_share
from everview.plan.spread import Occurrence, Places, spread
from everview.query.schema import Schema
from everview.query.terms import Expression
from everview.query.view import Block, Cut, FormulaBody, Output, View, blocks

MOST_WORK: Final = 100_000
"""So many ways to share are weighed, counting occurrences; if there are more, those along few dimensions."""
_NEARLY: Final = 1.1  # So much more load may be, for what else is good.
_FILTERED = 0.3  # The part of a table's rows that a condition is taken to keep, where nobody has measured it.
_NULLS: Final = 0.02  # The same of a condition that keeps NULLs only.


@dataclass(frozen=True)
class Weigher:
    """Finds the shares with the least load on the fullest shard."""

    schema: Schema
    shards: int
    rates: Mapping[str, float]
    skew: Mapping[tuple[str, str], float]
    cut: set[str] = field(default_factory=set)
    """The views for which not all shares were weighed."""

    def piece(self, view: View, like: Grid | None = None, *, by_group: bool = False) -> tuple[View, Grid, float]:
        """The grid of a part of a view that is merged: however its rows are spread, its groups come together later.

        But where the first rows of groups, or of a set operation, are taken, these are whole before. One ``by_group``
        has, of those nearly as good, a grid with all of a group in one shard: then there are fewer parts.
        """
        cut = view.body
        if isinstance(cut, Cut) and not (isinstance(cut.body, Block) and cut.body.grouping is None):
            return view, *self.grid(replace(view, body=cut.body), like)
        first, *others = blocks(view.body)
        keys = first.grouping.keys if first.grouping is not None else [o.expression for o in first.outputs]
        shown = tuple(Output(f"c{i}", k) for i, k in enumerate(keys)) if by_group else ()
        loose = replace(view, body=replace(first, grouping=None, outputs=shown, distinct=False))
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
        weights = [self.rates[o.table] * o.joins * _kept(o) for o in occurrences]
        candidates = spread(view, self.schema) if self.shards > 1 and not isinstance(view.body, FormulaBody) else []
        if not candidates:
            one_cell = (Dimension(ONE, self.shards),) if self.shards > 1 else ()
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

    def rate(self, route: Route) -> float:
        """How many updates come on a route, relative to others."""
        return self.rates[route.table] * (_FILTERED if route.conditions else 1.0)

    def _is_checked(self, cuts: Sequence[Occurrence]) -> bool:
        """True if a table has a key, and its rows go to the key's shards as well, being cut by other columns."""
        table = self.schema.table(cuts[0].table) if cuts else None
        key = {c.lower() for c in table.checked_key} if table is not None else set()
        hashed = {v.name.lower() for o in cuts for e in o.hashed or () for v in e.variables}
        return bool(key) and not hashed <= key


def _kept(occurrence: Occurrence) -> float:
    """The part of a table's rows that are taken to pass an occurrence's conditions."""
    if any(len(c.parts) == 2 and c.parts[1] == " IS NULL" for c in occurrence.conditions):
        return _NULLS
    return _FILTERED if occurrence.filtered else 1.0


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
