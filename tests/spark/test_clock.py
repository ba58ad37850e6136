"""Conditions on now() on shards: beside DuckDB at each micro-batch's time, rebuilt, and on Spark without input, too."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from everview.engine.clock import microseconds
from everview.query.types import INT, TIMESTAMP
from everview.spark import maintain, materialize
from everview.spark.checkpoint.pins import plan_over
from everview.spark.restarting import restarting
from everview.spark.time_zone import depending
from everview.sql import parse_schema
from tests.engine.bags import plain as value
from tests.engine.test_clock import ENDING, OTHERS, TABLES, Model, plain
from tests.scale import scaled
from tests.spark.cluster import Cluster
from tests.spark.harness import Stream

SCHEMA = parse_schema("; ".join(f"CREATE TABLE {name} ({columns})" for name, columns in TABLES.items()))


@pytest.mark.parametrize("seed", range(scaled(4)))
def test_shards_are_duckdbs_at_the_batchs_time(seed: int) -> None:
    model = Model(seed)
    draw = random.Random(seed)
    ahead = "latest_of_all"  # Made ahead of the shards, which go on with their clocks.
    queries = dict(draw.sample(sorted((ENDING | OTHERS).items()), 4)) | {ahead: OTHERS[ahead]}
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
                assert shown(cluster.results[name]) == shown(wanted[name]), (name, step)
            if step == 4:
                cluster.rebuild()


def shown(rows: Counter[Any]) -> Counter[Any]:
    """Rows as the harnesses of shards and of Spark show them, times without their zone."""
    return Counter({plain(map(value, row)): n for row, n in rows.items()})


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


WINDOW = timedelta(seconds=3)
RECENT = "SELECT k, v FROM e WHERE ts > now() - INTERVAL 3 SECONDS AND ts <= now()"
COUNTED = "SELECT k, COUNT(*) AS n, MAX(v) AS m FROM e WHERE ts > now() - INTERVAL 3 SECONDS AND ts <= now() GROUP BY k"
STRUCT = StructType().add("k", "integer").add("ts", "timestamp").add("v", "integer")


class Timed(Stream):
    """A stream whose query has a batch every half second, with input or without."""

    def begin(self, views: dict[str, str], **options: Any) -> None:
        feed = maintain(self.spark, views, self.frames(), checkpoint=str(self.folder / "checkpoint"), **options)

        def keep(frame: DataFrame, batch: int) -> None:
            self.batches[batch] = frame.collect()

        writer = feed.writeStream.foreachBatch(keep).option("checkpointLocation", str(self.folder / "checkpoint"))
        self.query = restarting(writer.trigger(processingTime="500 milliseconds").start)

    def wait(self, done: Callable[[], bool]) -> None:
        for _ in range(2_400):
            if self.query.exception() is not None:
                raise AssertionError(str(self.query.exception()))
            if done():
                return
            sleep(0.1)
        raise AssertionError("the query does not go on")

    def time_of(self, batch: int) -> datetime:
        """What Spark's log says the time of a batch is."""
        _, told, *_ = (self.folder / "checkpoint" / "offsets" / str(batch)).read_text().splitlines()
        return datetime.fromtimestamp(json.loads(told)["batchTimestampMs"] / 1_000, UTC)

    def after(self, batch: int, view: str) -> Counter[Any]:
        """What the feed adds up to after a batch."""
        all_batches = self.batches
        try:
            self.batches = {b: rows for b, rows in all_batches.items() if b <= batch}
            return self.result(view)
        finally:
            self.batches = all_batches


@pytest.mark.slow
def test_on_spark_rows_come_and_go_without_input_and_batches_come_again_at_their_time(
    stream: Callable[..., Stream], tmp_path: Path, spark: Any
) -> None:
    s = Timed(spark, tmp_path / "timed", {"e": STRUCT})
    begun = datetime.now(UTC).replace(microsecond=0)
    rows = [(i % 3, begun + timedelta(seconds=2 * i - 4), i) for i in range(400)]  # Also on a slow machine some come.
    rows.append((0, begun + timedelta(days=1), 400))
    s.write("e", [(row, "insert") for row in rows])

    def check() -> None:
        for batch in s.batches:
            now = s.time_of(batch)
            there = [(k, v) for k, ts, v in rows if now - WINDOW < ts <= now]
            assert s.after(batch, "recent") == Counter(there), batch
            groups = {k: [v for own, v in there if own == k] for k, _ in there}
            assert s.after(batch, "counted") == Counter({(k, len(v), max(v)) for k, v in groups.items()}), batch

    views = {"recent": RECENT, "counted": COUNTED}
    try:
        s.begin(views, shards=2)
        s.wait(lambda: len(s.batches) > 3 and len({b for b in s.batches if s.batches[b]}) > 2)
        s.stop()
        check()
        last = max(s.batches)
        before, told = s.time_of(last), Counter(s.after(last, "recent"))
        (s.folder / "checkpoint" / "commits" / str(last)).unlink(missing_ok=True)  # As if it had died there.
        (s.folder / "checkpoint" / "commits" / f".{last}.crc").unlink(missing_ok=True)
        del s.batches[last]
        s.begin(views)
        s.wait(lambda: max(s.batches) > last)
        assert (s.time_of(last), s.after(last, "recent")) == (before, told)
        s.write("e", [(rows[0], "delete"), (rows[-1], "delete")])  # One went long ago, one never comes.
        del rows[-1]
        more = max(s.batches) + 3
        s.wait(lambda: max(s.batches) > more)
    finally:
        s.stop()
    check()


@pytest.mark.slow
def test_a_query_that_is_to_end_ends(stream: Callable[..., Stream], tmp_path: Path) -> None:
    s = stream({"e": STRUCT})
    now = datetime.now(UTC)
    s.write("e", [((1, now + timedelta(days=1), 1), "insert"), ((2, now - timedelta(days=9), 2), "insert")])
    feed = maintain(s.spark, "SELECT k FROM e WHERE ts > now() - INTERVAL 7 DAYS", s.frames(), shards=2)
    target = f"parquet:{tmp_path / 'target'}"
    query = materialize(feed, target, checkpoint=str(tmp_path / "checkpoint"), trigger="available now")
    assert query.awaitTermination(240)
    assert s.spark.conf.get("spark.sql.streaming.noDataMicroBatches.enabled") == "true"


def test_other_zones_are_refused() -> None:
    views = plan_over(RECENT, parse_schema("CREATE TABLE e (k INT, ts TIMESTAMP, v INT)"), 2).views
    assert next(depending(views[0], {"e": [INT, TIMESTAMP, INT]})).type == TIMESTAMP
