"""A level's shards as the driver describes them to the workers: in a form that costs them nothing to read.

Spark starts a Python process for a stateful operator in every batch, to ask for its state's schema. So the operator
holds text and bytes, and what it imports is little; the models are for the shards' processes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from everview.plan.shards import Level, masked
from everview.query.view import View
from everview.spark.identity import FORMAT, Identity
from everview.spark.messages import Targets
from everview.spark.routing import Routing
from everview.spark.shard import ShardSpec


def specs_of(level: Level, *, quarantine: bool, memory_limit: int | None) -> list[bytes]:
    """For each shard what its process has to know."""
    spec = ShardSpec.of(level, quarantine=quarantine, memory_limit=memory_limit)
    return [json.dumps(spec.at(shard).to_data()).encode() for shard in range(level.shards)]


def identity_of(level: Level, views: Sequence[View], *, migrate: bool = False, derived: bool = False) -> Identity:
    """What the state of a level belongs to; ``views`` are those of the whole query, ``derived`` the second level's."""
    tables, _ = masked(level)
    routes = [
        [g.view, [[d.name, d.share] for d in g.dimensions], [[r.table, str(r.coordinates)] for r in g.routes]]
        for g in level.grids
    ]
    conditions = [
        [t.name, bit, [text for text, _ in way.conditions]]
        for t in level.tables
        for bit, way in enumerate(Routing.of(t, level).ways)
        if way.conditions
    ]
    found = {
        "format": FORMAT,
        "shards": level.shards,
        "tables": [f"{t} {[c.nullable for c in t.columns]} {t.small_domains}" for t in tables],
        "views": [str(v) for v in views],
        "routes": [*routes, *conditions] if level.shards > 1 else [],
        "homes": {t.name: sorted(level.homes(t.name)) for t in tables},
    }
    return Identity(json.dumps(found, sort_keys=True), migrate, derived)


def targets_of(merge: Level) -> Targets:
    """By which columns the rows of the first step go on to the second."""
    columns = {}
    for grid in merge.grids:
        for route in grid.routes:
            table = next(t for t in merge.tables if t.name == route.table)
            (hashed,) = route.coordinates
            names = [next(iter(e.variables)).name for e in hashed or ()]
            places = [table.position(n) for n in names]
            columns[route.table] = tuple(p for p in places if p is not None)
    return Targets(columns, merge.shards)
