"""Faults on purpose: a driver program in processes of its own, what can be killed of it, and what must come out."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from everview.spark.interpreter import worker_environment
from everview.spark.session import PATIENT
from everview.spark.shard.server import started
from everview.spark.targets import ParquetTarget
from tests.spark.fault_job import TABLES, VIEWS
from tests.spark.feeds import bag

ROOT = Path(__file__).parent.parent.parent
LOCAL = "local[2,8]"
CLUSTER = "local-cluster[2,1,1024]"
KINDS = ("worker", "daemon", "shard", "executor", "driver")
SETTINGS = {
    **PATIENT,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    # A job of a few batches: Java's second compiler would only take the processor from it.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.task.maxFailures": "8",
    "spark.sql.session.timeZone": "UTC",
    "spark.deploy.maxExecutorRetries": "-1",
}
FAST = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
}
"""What makes small batches faster on local disks, and must not make them wrong."""
GIVEN_UP = "A shuffle map stage with indeterminate output was failed and retried"
"""Spark gives a job up if an executor takes the first step's output with it when the second one has begun to end."""


class Stream:
    """Files of changes for each table, and what the views hold after each of them."""

    def __init__(self, folder: Path, batches: int, seed: int) -> None:
        self.folder = folder
        self.batches = batches
        rng = random.Random(seed)
        held: dict[str, Counter[tuple[Any, ...]]] = {name: Counter() for name in TABLES}
        self.expected: list[dict[str, Counter[tuple[Any, ...]]]] = []
        self.held: list[dict[str, Counter[tuple[Any, ...]]]] = []
        for number in range(batches):
            for name in TABLES:
                rows = list(_changes(rng, name, held[name]))
                path = folder / "in" / name / f"{number:04}.parquet"
                path.parent.mkdir(parents=True, exist_ok=True)
                pq.write_table(_table(name, rows), path)
                os.utime(path, (1_000_000 + number, 1_000_000 + number))
            self.expected.append(_result(held))
            self.held.append({name: Counter(rows) for name, rows in held.items()})

    def told(self) -> int:
        """How many batches are in the target; of several targets, in the one that is behind."""
        target = self.folder / "target"
        if self.is_materialized():
            found = [t.progress() for t in self._targets().values()]
            return min(0 if p is None else p.batch + 1 for p in found)
        return sum(p.name.isdigit() for p in target.iterdir()) if target.exists() else 0

    def is_materialized(self) -> bool:
        """True if the views are kept in targets, not their feed."""
        return any((self.folder / "target" / name).exists() for name in VIEWS)

    def _targets(self) -> dict[str, ParquetTarget]:
        return {name: ParquetTarget(self.folder / "target" / name) for name in VIEWS}

    def repeated(self) -> int:
        """How many batches came more than once, and were the same."""
        return len(list((self.folder / "target").glob("*-again-*")))

    def check(self, *, whole: bool = True) -> None:
        """After every batch, the feed so far adds up to the views; no batch is missing, none is there twice."""
        if self.is_materialized():
            for name, kept in self._targets().items():
                progress = kept.progress()
                assert progress is not None
                assert not whole or self._is_all(self._files(progress.batch))
                assert bag(kept.read_arrow()) == self._wanted(progress.batch)[name], f"{name} at batch {progress.batch}"
            return
        target = self.folder / "target"
        assert not list(target.glob("*-differs")), "a batch came twice, and was not the same"
        numbers = sorted(int(p.name) for p in target.iterdir() if p.name.isdigit())
        assert numbers == list(range(len(numbers)))
        assert not whole or self._is_all(self._files(numbers[-1]))
        views: dict[str, Counter[tuple[Any, ...]]] = {name: Counter() for name in VIEWS}
        for number in numbers:
            for row in pq.read_table(target / str(number) / "feed.parquet").to_pylist():
                assert row["_commit_version"] == number
                sign = 1 if row["_change_type"] in {"insert", "update_postimage"} else -1
                views[row["_view"]][tuple(row[row["_view"]].values())] += sign * row["_count"]
            wanted = self._wanted(number)
            for name, rows in views.items():
                assert +rows == wanted[name], f"{name} after batch {number}"
                assert not -rows, f"{name} after batch {number}: rows went that were not there"

    def _files(self, batch: int) -> dict[str, int]:
        """The last file of each table that a batch has read: its own number, unless a driver was killed in between.

        Spark writes down what each source has found before it writes down the batch: killed there, it takes the next
        file into the same batch.
        """
        checkpoint = self.folder / "checkpoint"
        lines = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()[2:]
        found = {}
        for source, line in enumerate(lines):
            listed = next(p for p in (checkpoint / "sources" / str(source)).iterdir() if not p.name.startswith("."))
            (name,) = {t for t in TABLES if f"/in/{t}/" in listed.read_text(encoding="utf-8")}
            found[name] = int(json.loads(line)["logOffset"])
        return found

    def _is_all(self, files: dict[str, int]) -> bool:
        return set(files.values()) == {self.batches - 1}

    def _wanted(self, batch: int) -> dict[str, Counter[tuple[Any, ...]]]:
        """The views after a batch."""
        files = self._files(batch)
        if len(set(files.values())) == 1:
            return self.expected[files.popitem()[1]]
        return _result({name: self.held[number][name] for name, number in files.items()})


def _changes(rng: random.Random, table: str, held: Counter[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    for _ in range(40):
        there = [row for row, n in held.items() if n]
        if there and rng.random() < 0.35:
            row = rng.choice(there)
            held[row] -= 1
            yield (*row, "delete")
            continue
        key, text = rng.randrange(30), f"c{rng.randrange(30)}"
        row = {"r": (rng.randrange(1000), key), "s": (key, text), "t": (text, rng.randrange(400) * 0.25)}[table]
        held[row] += 1
        yield (*row, "insert")


_ARROW = {"BIGINT": pa.int64(), "STRING": pa.string(), "DOUBLE": pa.float64()}


def _table(name: str, rows: list[tuple[Any, ...]]) -> pa.Table:
    fields = [(c.split()[0], _ARROW[c.split()[1]]) for c in TABLES[name].split(", ")]
    fields = fields if rows and len(rows[0]) == len(fields) else [*fields, ("_change_type", pa.string())]
    schema = pa.schema(fields)
    return pa.Table.from_pylist([dict(zip(schema.names, r, strict=True)) for r in rows], schema=schema)


def _result(held: dict[str, Counter[tuple[Any, ...]]]) -> dict[str, Counter[tuple[Any, ...]]]:
    """The views by DuckDB."""
    with duckdb.connect() as db:
        for name, rows in held.items():
            listed = list(rows.elements())
            assert listed
            db.register(name, _table(name, listed))
        return {name: Counter(db.sql(sql).fetchall()) for name, sql in VIEWS.items()}


class Job:
    """The driver program; it can be started again and again."""

    def __init__(self, folder: Path, master: str, shards: int, settings: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.sockets = Path(tempfile.mkdtemp(prefix="evf"))
        given = SETTINGS | {"spark.local.dir": str(folder / "local")} | (settings or {})
        self.command = [sys.executable, str(Path(__file__).parent / "fault_job.py"), str(folder), master, str(shards)]
        self.command += [f"{name}={value}" for name, value in given.items()]
        self.process: subprocess.Popen[bytes] | None = None
        self.log = folder / "log"

    def start(self) -> None:
        """Run the program, from the checkpoint if there is one."""
        environment = {
            **os.environ,
            "SPARK_LOCAL_IP": "127.0.0.1",
            **worker_environment(),
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(self.sockets),
        }
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=log, env=environment, start_new_session=True, cwd=self.folder
            )

    def is_running(self) -> bool:
        """True until the program has ended."""
        return self.process is not None and self.process.poll() is None

    def wait(self, seconds: float = 3600.0) -> int:
        """Let it run to its end; gives its exit code."""
        assert self.process is not None
        return self.process.wait(seconds)

    def wait_for(self, done: Callable[[], bool], seconds: float = 3600.0) -> None:
        """Let it run until something is so."""
        limit = time.monotonic() + seconds
        while not done():
            assert self.is_running(), f"it has ended:\n{self.last_words()}"
            assert time.monotonic() < limit, f"it takes too long:\n{self.last_words()}"
            time.sleep(0.05)

    def last_words(self, characters: int = 6000) -> str:
        """The end of its log."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-characters:]

    def victims(self, kind: str) -> list[int]:
        """The living processes of a kind."""
        if kind == "shard":
            return [p for p, (_, words) in _processes().items() if _is_shard(words, self.sockets)]
        if self.process is None or self.process.poll() is not None:
            return []
        below = _below(self.process.pid)
        daemons = [p for p, (_, words) in below.items() if "pyspark.daemon" in words]
        match kind:
            case "worker":
                return [p for p in daemons if below[p][0] in daemons]
            case "daemon":
                return [p for p in daemons if below[p][0] not in daemons]
            case "executor":
                return [p for p, (_, words) in below.items() if any("CoarseGrainedExecutorBackend" in w for w in words)]
        return [self.process.pid]

    def kill(self, kind: str, rng: random.Random) -> bool:
        """Kill one process of a kind, if there is one; of the driver, both its Python and its Java."""
        if kind == "driver" and self.process is not None:
            java = [p for p, (parent, _) in _below(self.process.pid).items() if parent == self.process.pid]
            for process in (*java, self.process.pid):
                _kill(process)
            self.process.wait()
            return True
        victims = self.victims(kind)
        return bool(victims) and _kill(rng.choice(victims))

    def close(self) -> None:
        """End all that is left of it."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for process in self.victims("shard"):
            _kill(process)
        shutil.rmtree(self.sockets, ignore_errors=True)


def _kill(process: int) -> bool:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _processes() -> dict[int, tuple[int, list[str]]]:
    """All living processes: their parents and their command lines."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and started(int(entry.name)) is not None:
            try:
                parent = int((entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
                words = (entry / "cmdline").read_text(encoding="utf-8", errors="replace").split("\0")
            except (OSError, IndexError):
                continue
            found[int(entry.name)] = parent, words
    return found


def _below(process: int) -> dict[int, tuple[int, list[str]]]:
    everything = _processes()
    found: dict[int, tuple[int, list[str]]] = {}
    level = {process}
    while level:
        level = {p for p, (parent, _) in everything.items() if parent in level}
        found |= {p: everything[p] for p in level}
    return found


def _is_shard(words: list[str], sockets: Path) -> bool:
    return "everview.spark.shard.server" in words and any(w.startswith(f"{sockets}/") for w in words)


def committed(checkpoint: Path) -> int:
    """The last batch that Spark holds for done; -1 if there is none."""
    return max((int(p.name) for p in (checkpoint / "commits").glob("[0-9]*")), default=-1)


def uncommit(checkpoint: Path) -> int:
    """Make the last batch that was begun one whose tasks may be done, but which is not; gives its number."""
    last = max(int(p.name) for p in (checkpoint / "offsets").glob("[0-9]*"))
    (checkpoint / "commits" / str(last)).unlink(missing_ok=True)
    (checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)
    return last


def tear(checkpoint: Path, version: int, rng: random.Random) -> list[Path]:
    """Cut off the state store's files of a version and of those after it, as a crash in the middle of writing would."""
    found = []
    for path in sorted((checkpoint / "state").rglob("*")):
        number = path.name.lstrip(".").split(".")[0].split("_")[0]
        if path.suffix in {".changelog", ".zip"} and number.isdigit() and int(number) >= version:
            os.truncate(path, rng.randrange(path.stat().st_size))
            found.append(path)
    return found


def run_with_kills(
    job: Job, stream: Stream, kinds: list[str], rng: random.Random, *, pause: tuple[float, float], most: int
) -> Counter[str]:
    """Run the program to its end, with kills at random points; gives how many of each kind."""
    killed: Counter[str] = Counter()
    job.start()
    told = stream.told()
    while True:
        limit = time.monotonic() + rng.uniform(*pause)
        while job.is_running() and time.monotonic() < limit:
            time.sleep(0.02)
        if not job.is_running():
            if job.wait() == 0:
                return killed
            assert GIVEN_UP in job.last_words(20_000), f"it failed by itself after {dict(killed)}:\n{job.last_words()}"
            killed["given up"] += 1
            job.start()
            continue
        if killed.total() >= most or not job.victims("worker"):
            continue
        kind = rng.choice(kinds)
        if kind == "driver" and stream.told() == told:
            continue  # It must come forward between two starts, or it never ends.
        if job.kill(kind, rng):
            killed[kind] += 1
            if kind == "driver":
                told = stream.told()
                job.start()
