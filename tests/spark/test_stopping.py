"""The processes of a stopped query end on every machine, also where the driver cannot see their sockets."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from everview.spark.interpreter import worker_environment
from everview.spark.shard import stopping
from everview.spark.shard.server import started
from tests.spark.faults import ROOT, SETTINGS
from tests.spark.shards import until


@pytest.fixture
def there() -> Iterator[Path]:
    """The temporary folder of another machine."""
    with tempfile.TemporaryDirectory(prefix="ev") as path:
        yield Path(path)


@pytest.mark.slow
def test_processes_of_a_stopped_query_end_where_only_executors_see_them(tmp_path: Path, there: Path) -> None:
    given = SETTINGS | {"spark.executorEnv.TMPDIR": str(there), "spark.local.dir": str(tmp_path / "local")}
    environment = {**os.environ, **worker_environment(), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "tests" / "spark" / "stop_job.py"), str(tmp_path)]
    command += [f"{name}={value}" for name, value in given.items()]
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment, cwd=tmp_path, text=True
        ) as job,
    ):
        assert job.stdin is not None
        assert job.stdout is not None
        told = job.stdout.readline()
        shards = list(map(int, told.split()))
        assert len(shards) == 2, (tmp_path / "log").read_text(encoding="utf-8")[-4_000:]
        assert all(map(started, shards))
        assert len(list(there.glob("everview-*/*.sock"))) == 2
        for shard in shards:
            assert Path(os.readlink(f"/proc/{shard}/cwd")).is_relative_to(tmp_path / "local")
        job.stdin.write("stop\n")
        job.stdin.flush()
        until(lambda: not any(map(started, shards)))
        assert job.poll() is None
        job.stdin.write("end\n")
        job.stdin.close()
        assert job.wait(600) == 0
    assert not list(there.glob("everview-*/*.sock"))


def test_a_query_that_was_started_again_keeps_its_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    context = SimpleNamespace(
        defaultParallelism=3,
        setJobDescription=asked.append,
        parallelize=lambda rows, tasks: SimpleNamespace(foreachPartition=lambda f: asked.append((tasks, f.args[0]))),
    )
    spark: Any = SimpleNamespace(sparkContext=context)
    monkeypatch.setattr(stopping, "_running", lambda _: {"again"})
    stopping._dismiss_elsewhere(spark, {"again"})
    assert not asked
    stopping._dismiss_elsewhere(spark, {"again", "ended"})
    assert asked[-1] == (3, ["ended"])


def test_only_tasks_in_other_processes_have_to_be_told() -> None:
    for master, elsewhere in (
        ("local", False),
        ("local[2,8]", False),
        ("local-cluster[2,1,1024]", True),
        ("yarn", True),
    ):
        spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(master=master))
        assert stopping._has_executors(spark) is elsewhere
