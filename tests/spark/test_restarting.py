"""A query whose Python process Spark has not waited for long enough is started again; no other is."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import LongType, StructField, StructType

from everview.spark import maintain, materialize
from everview.spark.interpreter import worker_environment
from everview.spark.restarting import MOST_RESTARTS, SIGN, restarting
from everview.spark.targets import ParquetTarget
from tests.spark.harness import Stream
from tests.spark.shards import until

LATE = f"org.apache.spark.SparkException: {SIGN}."


class JavaQuery:
    """A query of Spark's that fails, or ends, or goes on until it is stopped."""

    def __init__(self, error: str | None, running: bool = False) -> None:
        self.error = error
        self.running = running

    def isActive(self) -> bool:
        return self.running

    def exception(self) -> Any:
        outer = self

        class Found:
            def isDefined(self) -> bool:
                return outer.error is not None

            def get(self) -> Any:
                return self

            def toString(self) -> str:
                return f"StreamingQueryException: {outer.error}"

        return Found()

    def awaitTermination(self, *_: Any) -> bool:
        if self.error is not None:
            raise StreamingQueryException(self.error)
        return not self.running

    processAllAvailable = awaitTermination

    def stop(self) -> None:
        self.running = False


def started(*queries: JavaQuery) -> tuple[Any, list[JavaQuery]]:
    """A query whose starts give one of these after the other, and those that are left."""
    left = list(queries)
    return restarting(lambda: StreamingQuery(left.pop(0))), left


def test_it_is_started_again_and_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    query, left = started(JavaQuery(LATE), JavaQuery(LATE), JavaQuery(None))
    with caplog.at_level(logging.WARNING, "everview.spark"):
        query.awaitTermination()
    assert not left
    assert [r.getMessage().rpartition("again ")[2] for r in caplog.records] == ["(1 of 3)", "(2 of 3)"]


def test_it_is_started_again_while_nobody_waits() -> None:
    _, left = started(JavaQuery(LATE), JavaQuery(None))
    until(lambda: not left)


def test_it_counts_as_running_in_between() -> None:
    query, _ = started(JavaQuery(LATE), JavaQuery(None, running=True))
    assert query.isActive
    query.stop()
    assert not query.isActive


def test_after_three_times_it_has_failed() -> None:
    query, left = started(*[JavaQuery(LATE) for _ in range(MOST_RESTARTS + 2)])
    for wait in (query.processAllAvailable, query.awaitTermination, lambda: query.awaitTermination(1)):
        with pytest.raises(StreamingQueryException, match=SIGN):
            wait()
    assert not query.isActive
    assert len(left) == 1


def test_other_failures_and_ends_are_left_alone() -> None:
    failed, left = started(JavaQuery("a bad row"), JavaQuery(None))
    with pytest.raises(StreamingQueryException, match="a bad row"):
        failed.awaitTermination()
    ended, other = started(JavaQuery(None), JavaQuery(None))
    assert ended.awaitTermination(5) is True
    assert (len(left), len(other)) == (1, 1)


SLOW = """
import os, sys, time
if any("transform_with_state_driver_worker" in word for word in sys.orig_argv):
    try:
        os.unlink(os.path.join(os.path.dirname(__file__), "late"))
        time.sleep(15)
    except FileNotFoundError:
        pass
"""


def test_spark_does_not_wait_for_a_process_that_is_late(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The real failure: the first Python process that the driver starts for the operator's schema sleeps too long."""
    late = tmp_path / "path" / "late"
    late.parent.mkdir()
    late.touch()
    (late.parent / "sitecustomize.py").write_text(SLOW)
    monkeypatch.setitem(spark.sparkContext.environment, "PYTHONPATH", str(late.parent))
    stream = Stream(spark, tmp_path, {"r": StructType([StructField("a", LongType())])})
    stream.write("r", [((1,), "insert"), ((1,), "insert")])
    feed = maintain(spark, "SELECT a, COUNT(*) AS n FROM r GROUP BY a", stream.frames(), shards=1)
    target = ParquetTarget(tmp_path / "target")
    query = materialize(feed, target, checkpoint=str(tmp_path / "checkpoint"), trigger="available now")
    query.awaitTermination()
    assert target.read_arrow().to_pylist() == [{"a": 1, "n": 2}]
    assert not late.exists()
    assert "started again (1 of 3)" in caplog.text


# --- what such a process reads before it connects ---------------------------------------------------------------------


def test_workers_read_pyspark_as_bytecode() -> None:
    """Spark puts its zip in front; the script of ours leaves it out, and everything else in."""
    environment = worker_environment()
    path = ["/somewhere", "/spark/python/lib/pyspark.zip", "/spark/python/lib/py4j-0.10.9.9-src.zip", "/with blank"]
    done = subprocess.run(
        [environment["PYSPARK_PYTHON"], "-c", "import sys, pyspark; print(pyspark.__file__, *sys.path, sep='\\n')"],
        env={**environment, "PYTHONPATH": ":".join(path)},
        check=True,
        capture_output=True,
        text=True,
    )
    module, *found = done.stdout.splitlines()
    import pyspark

    assert module == pyspark.__file__
    assert [p for p in found if p in path] == ["/somewhere", "/with blank"]


def test_another_spark_is_not_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert worker_environment()["PYSPARK_PYTHON"] == sys.executable
