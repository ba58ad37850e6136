"""A crash at any step of writing a batch leaves the target as it was or as it should be, and the replay makes it right.

A step is a call that changes something outside the process. The crash is an error at the n-th step, for every n until
there is none, before it and after it; for Parquet also the end of the process itself, without any cleaning up.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from everview.spark.targets import DeltaTarget, ParquetTarget, PostgresTarget, Target
from tests.spark.feeds import bag, ints

ROOT = Path(__file__).parent.parent.parent
FIRST = ints(0, *((x, 1 + x % 3) for x in range(20)))
SECOND = ints(1, *((x, -1) for x in range(0, 20, 5)), *((x, 1) for x in range(100, 105)))
BEFORE = {(x,): 1 + x % 3 for x in range(20)}
AFTER = {
    **{(x,): c for x in range(20) if (c := 1 + x % 3 - (x % 5 == 0))},
    **{(x,): 1 for x in range(100, 105)},
}


class Crash(BaseException):
    """Caught by nobody but the test."""


class Fuse:
    """Lets so many steps pass, then crashes, before the step or after it."""

    def __init__(self, steps: int, after: bool, crash: Callable[[], Any]) -> None:
        self.steps = steps
        self.after = after
        self.crash = crash

    def wrap(self, owner: Any, name: str, patch: pytest.MonkeyPatch) -> None:
        step = getattr(owner, name)

        def fused(*args: Any, **options: Any) -> Any:
            self.steps -= 1
            mine = self.steps == -1
            if mine and not self.after:
                self.crash()
            try:
                return step(*args, **options)
            finally:  # also where the step itself fails: a crash does not wait for what comes of it
                if mine and self.after:
                    self.crash()

        patch.setattr(owner, name, fused)


def steps_of(target: Target) -> list[tuple[Any, str]]:
    if isinstance(target, ParquetTarget):
        import pyarrow.parquet as pq

        names = ["fsync", "link", "symlink", "replace", "unlink", "mkdir", "rmdir"]
        return [*((os, name) for name in names), (pq.ParquetWriter, "write_table")]
    if isinstance(target, DeltaTarget):
        from deltalake import DeltaTable

        from everview.spark.targets import delta

        return [(delta._Storage, "write"), (DeltaTable, "create"), (DeltaTable, "create_write_transaction")]
    from psycopg import Connection

    return [(Connection, "execute"), (Connection, "cursor"), (Connection, "commit")]


def crash() -> None:
    raise Crash


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are counted, the disk is not waited for."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(params=["parquet", "delta", "postgres"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Target]:
    if request.param == "postgres":
        url = request.getfixturevalue("postgres")
        return lambda: PostgresTarget(url, token_hex(6), "crash")
    kind = ParquetTarget if request.param == "parquet" else DeltaTarget
    return lambda: kind(tmp_path / token_hex(6), bucket_rows=10)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("first", [True, False], ids=["new", "there"])
def test_a_crash_at_every_step(make: Callable[[], Target], first: bool, after: bool) -> None:
    crashed = 0
    while True:
        target = make()
        if not first:
            target.write(FIRST)
        made, old, new = (FIRST, {}, BEFORE) if first else (SECOND, BEFORE, AFTER)
        try:
            with pytest.MonkeyPatch.context() as patch:
                fuse = Fuse(crashed, after, crash)
                for owner, name in steps_of(target):
                    fuse.wrap(owner, name, patch)
                target.write(made)
        except Crash:
            there = bag(target.read_arrow()) if target.progress() else {}
            assert there in (old, new), f"step {crashed}: a part of a batch can be seen"
            assert target.write(made) == (there != new or target.progress() is None)
        else:
            break
        assert not target.write(made)
        assert bag(target.read_arrow()) == new, f"step {crashed}"
        if first:
            target.write(SECOND)
            assert bag(target.read_arrow()) == AFTER
        crashed += 1
    assert crashed >= 2


KILLED = """
import os, sys
import pytest
from everview.spark.targets import ParquetTarget
from tests.spark.test_materialize_crash import Fuse, SECOND, steps_of
target = ParquetTarget(sys.argv[1], bucket_rows=10)
fuse = Fuse(int(sys.argv[2]), False, lambda: os.kill(os.getpid(), 9))
patch = pytest.MonkeyPatch()
for owner, name in steps_of(target):
    fuse.wrap(owner, name, patch)
target.write(SECOND)
"""


@pytest.mark.slow
def test_a_process_killed_while_it_writes(tmp_path: Path) -> None:
    """Every few steps: those between are the same call for another file, and the test above has them all."""
    killed, seen = 0, set()
    while True:
        target = ParquetTarget(tmp_path / str(killed), bucket_rows=10)
        target.write(FIRST)
        command = [sys.executable, "-c", KILLED, str(target.path), str(killed)]
        done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
        if done.returncode == 0:
            break
        assert done.returncode == -9, done.stderr
        there = bag(target.read_arrow())
        assert there in (BEFORE, AFTER)
        seen.add(there == AFTER)
        target.write(SECOND)
        assert bag(target.read_arrow()) == AFTER
        assert len(list((target.path / "versions").iterdir())) == 2
        killed += 3
    assert seen
