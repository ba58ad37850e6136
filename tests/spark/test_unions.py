"""UNION over shards: one shard owns a row of the result, and all rows and changes are DuckDB's."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from everview.sql import parse_schema
from tests.engine.test_unions import MORE, TABLES, duck, row_of
from tests.scale import scaled
from tests.spark.cluster import Cluster

NAMES = ["U1", "U2", "U5", "U12", "U14", "names", "apart", "of_sides"]
SCHEMA = "; ".join(f"CREATE TABLE {name} ({columns})" for name, columns in TABLES.items())


def owners(cluster: Cluster) -> Counter[Any]:
    """In how many shards each row of the result is, in the step that gives it."""
    found: Counter[Any] = Counter()
    for shard in cluster.shards[-1]:
        for name, rows in shard.contents():
            if name == "v":
                width = rows.schema.get_field_index("_change_type")
                columns = [rows.column(i).to_pylist() for i in range(width)]
                found.update(zip(*columns, strict=True))
    return found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(scaled(1)))
def test_one_shard_owns_a_row(name: str, seed: int) -> None:
    r = random.Random(f"{name} {seed}")
    shards = r.choice((1, 2, 3, 4))
    cluster = Cluster({"v": MORE[name]}, parse_schema(SCHEMA), shards)
    read = [t.name for t in cluster.schema]
    held = {table: Counter[Any]() for table in TABLES}
    for _ in range(8):
        changes: dict[str, list[tuple[Any, int]]] = {}
        for _ in range(r.randint(1, 6)):
            table = r.choice(read)
            if r.random() < 0.4 and held[table]:
                row, weight = r.choice(sorted(held[table].elements(), key=repr)), -1
            else:
                row, weight = row_of(r, table), 1
            changes.setdefault(table, []).append((row, weight))
            held[table][row] += weight
            held[table] = +held[table]
        cluster.apply(changes)
    expected = Counter(duck(held).execute(MORE[name]).fetchall())
    assert cluster.results["v"] == expected
    owned = owners(cluster)
    assert set(owned) == set(expected)
    assert not expected or max(owned.values()) == 1
