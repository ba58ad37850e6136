"""How views are spread over shards, as plain data: what a checkpoint pins, so that rows go on to where they were."""

from __future__ import annotations

from everview.plan.shards import Dimension, Distribution, Grid, Route, ShardLevel
from everview.query.data import (
    Data,
    checked,
    expression_from_data,
    expression_to_data,
    table_from_data,
    table_to_data,
    view_from_data,
    view_to_data,
)

FORMAT = 1
"""Of the data; whoever changes what a name in it means, or where rows of equal data go, counts up."""


def distribution_to_data(distribution: Distribution) -> Data:
    """A distribution as plain data: its levels with their tables, views and grids."""
    levels = [distribution.first, *([distribution.merge] if distribution.merge is not None else [])]
    ahead = {} if distribution.ahead is None else {"ahead": _level(distribution.ahead)}
    return {
        "format": FORMAT,
        "shards": distribution.shards,
        "levels": [_level(level) for level in levels],
        "merged": sorted(distribution.merged),
    } | ahead


def distribution_from_data(data: Data) -> Distribution:
    """The distribution that plain data holds."""
    return checked("distribution", data, FORMAT, _read)


def _level(level: ShardLevel) -> Data:
    return {
        "tables": [table_to_data(t) for t in level.tables],
        "views": [view_to_data(v) for v in level.views],
        "grids": [_grid(g) for g in level.grids],
    }


def _grid(grid: Grid) -> Data:
    return {
        "view": grid.view,
        "dimensions": [{"name": d.name, "share": d.share} for d in grid.dimensions],
        "routes": [
            {
                "table": r.table,
                "alias": r.alias,
                "hashed": [None if c is None else [expression_to_data(e) for e in c] for c in r.coordinates],
                "conditions": [expression_to_data(c) for c in r.conditions],
            }
            for r in grid.routes
        ],
    }


def _read(data: Data) -> Distribution:
    shards = int(data["shards"])
    first, *rest = (_read_level(level, shards) for level in data["levels"])
    merge = rest[0] if rest else None
    ahead = _read_level(data["ahead"], shards) if "ahead" in data else None
    return Distribution(shards, first, merge, frozenset(map(str, data["merged"])), ahead=ahead)


def _read_level(data: Data, shards: int) -> ShardLevel:
    tables = tuple(map(table_from_data, data["tables"]))
    views = tuple(map(view_from_data, data["views"]))
    return ShardLevel(shards, tables, views, tuple(map(_read_grid, data["grids"])))


def _read_grid(data: Data) -> Grid:
    dimensions = tuple(Dimension(str(d["name"]), int(d["share"])) for d in data["dimensions"])
    routes = tuple(_read_route(r, str(data["view"]), len(dimensions)) for r in data["routes"])
    return Grid(str(data["view"]), dimensions, routes)


def _read_route(data: Data, view: str, dimensions: int) -> Route:
    hashed = tuple(None if c is None else tuple(map(expression_from_data, c)) for c in data["hashed"])
    if len(hashed) != dimensions:
        raise ValueError(f"a route of {view} has {len(hashed)} coordinates, and its grid {dimensions} dimensions")
    return Route(
        view, str(data["table"]), str(data["alias"]), hashed, tuple(map(expression_from_data, data["conditions"]))
    )
