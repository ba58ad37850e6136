"""Nothing is lost and nothing comes twice, whatever is killed: a handful of ``make soak-faults``."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from everview.spark.checkpoint.pins import plan_over
from everview.sql import parse_schema
from tests.spark.fault_job import COMPACT, MATERIALIZE, PARCELS, TABLES, VIEWS
from tests.spark.faults import CLUSTER, FAST, LOCAL, Job, Stream, committed, run_with_kills, tear, uncommit
from tests.spark.shards import until

Start = Callable[..., Job]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Makes a job that is gone after the test."""
    jobs: list[Job] = []

    def make(master: str, shards: int, **settings: str) -> Job:
        jobs.append(Job(tmp_path, master, shards, settings))
        return jobs[-1]

    yield make
    for job in jobs:
        job.close()


@pytest.mark.slow
def test_worker_shard_and_driver_killed_and_files_half_written(tmp_path: Path, start: Start) -> None:
    rng = random.Random(1)
    stream = Stream(tmp_path, 5, 1)
    job = start(LOCAL, 2, **{COMPACT: "2000", PARCELS: "1"})
    job.start()
    for told, kind in enumerate(("worker", "shard", "driver"), 1):
        job.wait_for(lambda told=told: stream.told() >= told)  # type: ignore[misc]
        assert job.kill(kind, rng)
    tear(tmp_path / "checkpoint", uncommit(tmp_path / "checkpoint") + 1, rng)
    job.start()
    assert job.wait() == 0, job.last_words()
    assert tear(tmp_path / "checkpoint", uncommit(tmp_path / "checkpoint") + 1, rng)
    job.start()
    assert job.wait() == 0, job.last_words()
    stream.check()
    assert stream.repeated() >= 1
    assert (tmp_path / "compacted").exists()
    until(lambda: not job.victims("shard"))
    until(lambda: not list(job.sockets.glob("everview-*")))


def test_the_views_have_a_level_before_the_shards_and_one_behind_them() -> None:
    """So that faults hit these as well."""
    schema = parse_schema(";".join(f"CREATE TABLE {name} ({columns})" for name, columns in TABLES.items()))
    found = plan_over(VIEWS, schema, 2).distribution
    assert found.merge is not None
    assert found.ahead is not None


@pytest.mark.soak
def test_targets_are_exact_whatever_is_killed(tmp_path: Path, start: Start) -> None:
    stream = Stream(tmp_path, 6, 4)
    job = start(LOCAL, 2, **FAST, **{COMPACT: "2000", MATERIALIZE: "yes", PARCELS: "1"})
    kinds = ["driver", "worker", "shard", "daemon"]
    killed = run_with_kills(job, stream, kinds, random.Random(4), pause=(0.2, 3.0), most=4)
    assert killed.total() >= 1
    stream.check()
    assert (tmp_path / "compacted").exists()
    until(lambda: not job.victims("shard"))


@pytest.mark.soak
def test_executors_killed_without_a_restart(tmp_path: Path, start: Start) -> None:
    stream = Stream(tmp_path, 4, 2)
    job = start(CLUSTER, 3)
    killed = run_with_kills(job, stream, ["executor"], random.Random(2), pause=(1.0, 4.0), most=2)
    assert killed["executor"] >= 1  # a job that is quick may end before the second
    stream.check()
    until(lambda: not job.victims("shard"))


@pytest.mark.soak
@pytest.mark.skipif(os.geteuid() != 0, reason="a small file system can only be mounted by root")
def test_a_full_disk_then_damaged_state(tmp_path: Path, start: Start) -> None:
    """A full disk stops the query; with room again it goes on. State that was damaged after its commit is refused."""
    stream = Stream(tmp_path, 4, 3)
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", checkpoint], check=False)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        job = start(LOCAL, 1, **FAST)
        job.start()
        job.wait_for(lambda: stream.told() >= 1)
        ballast = checkpoint / "ballast"
        fill(ballast)
        assert job.wait() != 0
        assert "No space left on device" in job.last_words(200_000)
        stream.check(whole=False)
        assert 1 <= stream.told() < 4
        ballast.unlink()
        job.start()
        assert job.wait() == 0, job.last_words()
        stream.check()
        more = Stream(tmp_path, 5, 3)
        assert tear(checkpoint, committed(checkpoint) + 1, random.Random(3))
        job.start()
        if job.wait() == 0:
            more.check()
        else:
            assert "CANNOT_LOAD_STATE_STORE" in job.last_words(200_000)
            more.check(whole=False)
            assert more.told() == 4
    finally:
        subprocess.run(["umount", "--lazy", checkpoint], check=True)


def fill(path: Path) -> None:
    """Write until there is no room."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            with suppress(OSError):
                while file.write(bytes(size)):
                    pass
