"""``materialize`` on Spark: a feed in files becomes a target, through restarts, several views and quarantine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from everview.errors import TargetError
from everview.spark import materialize
from everview.spark.targets import DeltaTarget, ParquetTarget, PostgresTarget, Target
from tests.spark.feeds import COLUMNS, INTS, META, SCHEMA, Change, bag, chunk, result

Feed = Callable[..., Any]

ROWS = [tuple(pool[i % len(pool)] for _, pool in COLUMNS.values()) for i in range(7)]
FIRST: list[Change] = [(row, "insert", 1 + i) for i, row in enumerate(ROWS)] + [((None,) * len(COLUMNS), "insert", 2)]
SECOND: list[Change] = [(ROWS[3], "delete", 2), (ROWS[6], "update_preimage", 7), (ROWS[0], "update_postimage", 1)]


def put(folder: Path, name: str, batch: pa.RecordBatch) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_batches([batch]), folder / f"{name}.parquet")


def stream(spark: Any, folder: Path, schema: pa.Schema) -> Any:
    """The files of a folder as a feed, one a batch."""
    from pyspark.sql.pandas.types import from_arrow_schema

    fields = from_arrow_schema(pa.schema([*schema, *META]), prefer_timestamp_ntz=True)
    return spark.readStream.schema(fields).option("maxFilesPerTrigger", 1).parquet(str(folder))


def run(changes: Any, target: Any, checkpoint: Path, **options: Any) -> None:
    query = materialize(changes, target, checkpoint=str(checkpoint), trigger="available now", **options)
    query.awaitTermination()


@pytest.fixture(params=["parquet", "delta", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    if request.param == "postgres":
        made = PostgresTarget(request.getfixturevalue("postgres"), "streamed")
        made.drop()
        return made
    return ParquetTarget(tmp_path / "t") if request.param == "parquet" else DeltaTarget(tmp_path / "t")


def test_a_feed_becomes_a_target(spark: Any, tmp_path: Path, target: Target) -> None:
    put(tmp_path / "in", "0", chunk(FIRST, 0))
    changes = stream(spark, tmp_path / "in", SCHEMA)
    run(changes, target, tmp_path / "checkpoint")
    assert bag(target.read_arrow()) == result([FIRST])
    put(tmp_path / "in", "1", chunk(SECOND, 1))
    put(tmp_path / "in", "2", chunk(SECOND[2:], 2))
    run(changes, target, tmp_path / "checkpoint")
    wanted = result([FIRST, SECOND, SECOND[2:]])
    assert bag(target.read_arrow()) == wanted
    assert bag(target.read(spark).toArrow()) == wanted


def test_a_query_that_died_between_the_targets_commit_and_sparks(spark: Any, tmp_path: Path, target: Target) -> None:
    put(tmp_path / "in", "0", chunk(FIRST, 0))
    changes = stream(spark, tmp_path / "in", SCHEMA)
    run(changes, target, tmp_path / "checkpoint")
    for name in ("0", ".0.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    put(tmp_path / "in", "1", chunk(SECOND, 1))
    run(changes, target, tmp_path / "checkpoint")
    assert bag(target.read_arrow()) == result([FIRST, SECOND])


def test_a_large_batch_comes_in_parts(spark: Any, tmp_path: Path) -> None:
    put(tmp_path / "in", "0", chunk([((x,), "insert", 1) for x in range(5_000)], 0, INTS))
    target = ParquetTarget(tmp_path / "t", bucket_rows=300)
    run(stream(spark, tmp_path / "in", INTS), target, tmp_path / "checkpoint", driver_rows=700)
    assert bag(target.read_arrow()) == {(x,): 1 for x in range(5_000)}


def test_another_checkpoint_is_another_query(spark: Any, tmp_path: Path) -> None:
    put(tmp_path / "in", "0", chunk([((1,), "insert", 1)], 0, INTS))
    changes = stream(spark, tmp_path / "in", INTS)
    run(changes, f"parquet:{tmp_path}/t", tmp_path / "one")
    query = materialize(changes, f"parquet:{tmp_path}/t", checkpoint=str(tmp_path / "two"))
    with pytest.raises(Exception, match="is written by another query"):
        query.processAllAvailable()
    query.stop()
    assert bag(ParquetTarget(tmp_path / "t").read_arrow()) == {(1,): 1}


def test_several_views_and_quarantine(spark: Any, tmp_path: Path) -> None:
    one, two = pa.struct([("x", pa.int64())]), pa.struct([("n", pa.string()), ("x", pa.int64())])
    schema = pa.schema([("_view", pa.string()), ("one", one), ("it's `2`", two), ("_quarantined", pa.string())])
    rows: list[Change] = [
        (("one", {"x": 1}, None, None), "insert", 2),
        (("it's `2`", None, {"n": None, "x": 3}, None), "insert", 1),
        ((None, None, None, '{"table": "t"}'), "quarantine", 1),
    ]
    put(tmp_path / "in", "0", chunk(rows, 0, schema))
    changes = stream(spark, tmp_path / "in", schema)
    first, second, dead = (ParquetTarget(tmp_path / n) for n in ("one", "two", "dead"))
    run(changes, {"one": first, "it's `2`": second}, tmp_path / "checkpoint", dead_letter=dead)
    assert bag(first.read_arrow()) == {(1,): 2}
    assert bag(second.read_arrow()) == {(None, 3): 1}
    assert bag(dead.read_arrow()) == {(0, '{"table": "t"}'): 1}
    for target, words in [
        (first, "several views: one, it's `2`"),
        ({"one": first}, "targets for one, and the feed has the views"),
        ({"one": first, "it's `2`": first}, "is given twice"),
    ]:
        with pytest.raises(TargetError, match=words):
            materialize(changes, target, checkpoint="x", dead_letter=dead)
    with pytest.raises(TargetError, match="rows in quarantine, and there is no target"):
        materialize(changes, {"one": first, "it's `2`": None}, checkpoint="x")


def test_what_is_no_feed(spark: Any, tmp_path: Path) -> None:
    put(tmp_path / "in", "0", chunk([], 0, INTS))
    changes = stream(spark, tmp_path / "in", INTS)
    target = ParquetTarget(tmp_path / "t")
    with pytest.raises(TargetError, match="streaming DataFrame"):
        materialize(spark.range(3), target, checkpoint="x")
    with pytest.raises(TargetError, match="no column _count"):
        materialize(changes.drop("_count"), target, checkpoint="x")
    with pytest.raises(TargetError, match="no rows in quarantine"):
        materialize(changes, target, checkpoint="x", dead_letter="parquet:/x")
    with pytest.raises(TargetError, match="names no target"):
        materialize(changes, "here", checkpoint="x")


def test_the_feed_itself_goes_to_any_sink(spark: Any, tmp_path: Path) -> None:
    put(tmp_path / "in", "0", chunk(FIRST, 0))
    changes = stream(spark, tmp_path / "in", SCHEMA)
    sink = changes.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    sink = sink.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    sink.start().awaitTermination()
    assert spark.read.parquet(str(tmp_path / "out")).count() == len(FIRST)
