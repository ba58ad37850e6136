"""A level's shards as the driver describes them to the workers: in a form that costs them nothing to read.

Whenever a query starts, Spark starts a Python process for each stateful operator, to ask for its state's schema. So the
operator holds text and bytes, and what it imports is little; the models are for the shards' processes.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection

from everview.plan.shards import ShardLevel
from everview.spark.shard.messages import MergeShards
from everview.spark.shard.shard import ShardSpec


def specs_of(
    level: ShardLevel, *, quarantine: bool, memory_limit: int | None, but: Collection[str] = ()
) -> list[bytes]:
    """For each shard what its process has to know, compressed: Spark broadcasts what has more than a megabyte in all.

    The process on the driver that only asks for the state's schema has no broadcasts, and the query would fail there.
    """
    spec = ShardSpec.of(level, quarantine=quarantine, memory_limit=memory_limit, but=but)
    return [zlib.compress(json.dumps(spec.at(shard).to_data()).encode()) for shard in range(level.shards)]


def merge_shards_of(merge: ShardLevel) -> MergeShards:
    """By which columns the rows of the first step go on to the second."""
    columns = {}
    for grid in merge.grids:
        for route in grid.routes:
            table = next(t for t in merge.tables if t.name == route.table)
            (hashed,) = route.coordinates
            names = [next(iter(e.variables)).name for e in hashed or ()]
            places = [table.position(n) for n in names]
            columns[route.table] = tuple(p for p in places if p is not None)
    return MergeShards(columns, merge.shards)
