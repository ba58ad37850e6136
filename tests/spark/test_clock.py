"""Conditions on now() on shards: beside DuckDB at each micro-batch's time, rebuilt, and on Spark without input, too."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from everview.engine.clock import microseconds
from everview.sql import parse_schema
from tests.engine.test_clock import ENDING, OTHERS, TABLES, Model, plain
from tests.scale import scaled
from tests.spark.cluster import Cluster

SCHEMA = parse_schema("; ".join(f"CREATE TABLE {name} ({columns})" for name, columns in TABLES.items()))


@pytest.mark.parametrize("seed", range(scaled(4)))
def test_shards_are_duckdbs_at_the_batchs_time(seed: int) -> None:
    model = Model(seed)
    draw = random.Random(seed)
    queries = dict(draw.sample(sorted((ENDING | OTHERS).items()), 5))
    clusters = [Cluster(queries, SCHEMA, shards) for shards in (1, 3)]
    for step in range(8):
        model.go_on()
        changes = model.changes() if draw.random() < 0.7 else {}
        weighted = {t: [*((r, -1) for r in gone), *((r, 1) for r in come)] for t, (gone, come) in changes.items()}
        wanted = model.oracle(queries)
        for cluster in clusters:
            read = {t.name for t in cluster.schema}
            cluster.apply({t: rows for t, rows in weighted.items() if t in read}, microseconds(model.now))
            for name in queries:
                found = Counter({plain(row): n for row, n in cluster.results[name].items()})
                assert found == Counter({_plain(row): n for row, n in wanted[name].items()}), (name, step)
            if step == 4:
                cluster.rebuild()


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return row


def test_a_shard_forgets_what_nobody_reads_any_more() -> None:
    model = Model(1)
    cluster = Cluster({"groups": ENDING["groups"]}, SCHEMA, 2)
    for _ in range(6):
        model.go_on()
        gone, come = model.changes()["t"]
        cluster.apply({"t": [*((r, -1) for r in gone), *((r, 1) for r in come)]}, microseconds(model.now))
    cluster.apply({}, microseconds(datetime(2060, 1, 1, tzinfo=UTC)))
    assert cluster.results["groups"] == Counter()
    for shard in cluster.shards[0]:
        assert all(row[1] is None for row in shard.db.table("t")), "only rows without a time are left"
