"""Runs a case on a system: in processes of its own, under its limits, with what came out checked.

Not finishing is a result: a run's status is ``ok``, ``wrong``, ``timeout``, ``memory``, ``unsupported`` or ``error``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from statistics import median
from threading import Lock, Thread
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

from benchmarks import systems
from benchmarks.case import Case
from benchmarks.expected import expected, outputs
from benchmarks.runners import processes
from benchmarks.runners.protocol import UNSUPPORTED, Job, same
from benchmarks.systems import ROOT, System

BUILD = ROOT / "build" / "bench"
GIB = 1 << 30
SAMPLE_SECONDS = 0.1
STARTING_SECONDS = 120
"""What start-up and loading may take beside the time limit."""
LAST_WORDS = 2_000
"""Characters of a failed run's standard error that are kept."""
ENOUGH_SECONDS, ENOUGH_WALL_SECONDS = 6, 8
"""A timed run is repeated until there are ``repeats`` of it or they took so long, without and with start-up."""

Record = dict[str, Any]
Watcher = Callable[[int, float, int], None]
"""Is told, now and then, the updates done, the seconds so far and the bytes in memory."""


@dataclass(frozen=True)
class Limits:
    """What a run may take; the time counts from its first line on, which it prints when it is up and loaded."""

    seconds: float
    memory: int = 12 * GIB


class Harness:
    """Runs cases on systems; each is checked once, and then timed."""

    def __init__(self, data: Path | None, *, repeats: int = 3, install: bool = True, memory: int = 12 * GIB) -> None:
        self.data = data
        self.repeats = repeats
        self.install = install
        self.memory = memory
        self._checks: dict[tuple[object, ...], Record] = {}
        self._expecting = Lock()

    def measure(self, case: Case, system: System, mode: str, watch: Watcher | None = None) -> Record:
        """A checked, timed run: the median time of several if they are short, and what else the middle one told."""
        found = self.describe(case, system, mode)
        python = systems.interpreter(system, self.install)
        if python is None:
            return found | {"status": "unsupported", "reason": "its environment is not installed"}
        check = self.check(case, system, mode, watch)
        found["check"] = check
        if check["status"] in ("wrong", "unsupported"):
            return found | {"status": check["status"], "reason": check["reason"]}
        limits = Limits(case.limits.get(system.name, case.limit), self.memory)
        runs: list[Record] = []
        while len(runs) < self.repeats and not _enough(runs):
            runs.append(self.run(case, system, mode, limits, check=False, watch=watch))
            if runs[-1]["status"] != "ok":
                return found | runs[-1]
        runs.sort(key=lambda r: r["run_s"])
        middle = runs[len(runs) // 2]
        middle["runs_s"] = [r["run_s"] for r in runs]
        middle["run_s"] = median(middle["runs_s"])
        middle["peak_rss"] = max(r["peak_rss"] for r in runs)
        if mode == "delta" and system.per_update and case.deltas not in (None, middle["rows"]):
            middle |= {"status": "wrong", "reason": f"{middle['rows']} rows of deltas, not {case.deltas}"}
        return found | middle

    def describe(self, case: Case, system: System, mode: str) -> Record:
        """What is run, as results say it."""
        return {
            "case": case.name,
            "title": case.title,
            "data": case.data.title,
            "source": case.data.source,
            "scale": case.data.scale,
            "system": system.name,
            "mode": mode,
            "batch": case.batch,
            "per_update": case.per_update,
            "every": case.every,
            "threads": system.threads,
            "shards": system.shards,
            "limit_s": case.limits.get(system.name, case.limit),
            "limit_bytes": self.memory,
            "log_updates": case.data.log(self.data).updates,
        }

    def check(self, case: Case, system: System, mode: str, watch: Watcher | None = None) -> Record:
        """Whether a system gives what DuckDB gives on the case's data or the part of it that is meant for that."""
        key = self.key_of_check(case, system, mode)
        if key not in self._checks:
            self._checks[key] = self._checked(self.to_check(case, system), system, mode, watch)
        return self._checks[key]

    def key_of_check(self, case: Case, system: System, mode: str) -> tuple[object, ...]:
        """Runs with equal ones need one check between them."""
        smaller = self.to_check(case, system)
        return (smaller.name, smaller.data, smaller.every, smaller.per_update, system.name, mode)

    def to_check(self, case: Case, system: System) -> Case:
        """What a system is checked on before it is timed on a case."""
        return case.to_check(self.data, own=system.name == "everview", rival=not system.is_ours)

    def _checked(self, case: Case, system: System, mode: str, watch: Watcher | None) -> Record:
        told = {"scale": case.data.scale, "reason": ""}
        if system.recomputes:  # Only the last result is looked at.
            case = replace(case, batch=1 + case.data.log(self.data).updates // 3)
        limits = Limits(3 * case.limits.get(system.name, case.limit), self.memory)  # Fingerprints take time, too.
        found = self.run(case, system, mode, limits, check=True, watch=watch)
        if found["status"] != "ok":
            return told | {"status": found["status"], "reason": found.get("reason", "")}
        with self._expecting:  # Systems that are checked side by side ask for the same.
            wanted = expected(case.data.log(self.data), case.sql, BUILD / "expected")
        if not same(wanted, found["fingerprint"]):
            return told | {"status": "wrong", "reason": f"expected {wanted}, found {found['fingerprint']}"}
        return told | {"status": "ok", "rows": wanted["rows"]}

    def run(
        self, case: Case, system: System, mode: str, limits: Limits, *, check: bool, watch: Watcher | None = None
    ) -> Record:
        """One run, its processes ended whatever happens."""
        python = systems.interpreter(system, self.install)
        log = case.data.log(self.data)
        with scratch() as folder:
            job = Job(
                log=log.folder,
                query=case.name,
                sql=case.sql,
                outputs=outputs(case.sql, log.schema),
                mode=mode,
                batch=case.batch,
                check=check,
                scratch=folder,
                every=case.every,
                threads=system.threads,
                shards=system.shards,
                per_update=case.per_update,
                sizes=case.sizes,
                named_only=case.named_only,
                profile=case.profile and not check,
            )
            job.write(folder / "job.json")
            command = [str(python), "-m", f"benchmarks.runners.{system.runner}", str(folder / "job.json")]
            return supervised(command, folder, limits, watch)


def _enough(runs: list[Record]) -> bool:
    """Whether the runs so far have taken so long that there need not be another."""
    return sum(r["run_s"] for r in runs) >= ENOUGH_SECONDS or sum(r["wall_s"] for r in runs) >= ENOUGH_WALL_SECONDS


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for a run, gone afterwards."""
    (BUILD / "scratch").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD / "scratch", ignore_cleanup_errors=True) as name:
        yield Path(name)


# --- processes -------------------------------------------------------------------------------------------------------


def supervised(command: list[str], folder: Path, limits: Limits, watch: Watcher | None = None) -> Record:
    """Run a runner under its limits; gives its status, its result and the most memory that its processes held."""
    run = uuid4().hex
    environment = {**os.environ, processes.MARK: run, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    environment["PYSPARK_PYTHON"] = command[0]
    begun = monotonic()
    lines: SimpleQueue[Record] = SimpleQueue()
    with (folder / "stderr").open("w+b") as errors:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        reader = Thread(target=_read, args=(process, lines), daemon=True)
        reader.start()
        status, found, peak = None, {}, 0
        deadline = begun + STARTING_SECONDS + limits.seconds
        try:
            while process.poll() is None:
                sleep(SAMPLE_SECONDS)
                held = processes.rss(processes.of_run(run))
                peak = max(peak, held)
                is_up = bool(found)
                _drain(lines, found)
                if found and not is_up:
                    deadline = monotonic() + limits.seconds
                if watch is not None:
                    watch(found.get("updates", 0), monotonic() - begun, held)
                if monotonic() > deadline:
                    status = "timeout"
                    break
                if held > limits.memory:
                    status = "memory"
                    break
        finally:
            end(run)
            process.wait()
        reader.join(5)
        _drain(lines, found)
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip()[-LAST_WORDS:]
    finished = found.pop("event", None) == "result"
    if status is None:
        code = process.returncode
        status = "ok" if code == 0 and finished else "unsupported" if code == UNSUPPORTED else "error"
    told = {"status": status, "wall_s": monotonic() - begun, "peak_rss": found.pop("peak_rss", peak)}
    if status != "ok":
        told["reason"] = {"timeout": f"after {limits.seconds:g} s", "memory": f"{peak / GIB:.1f} GiB"}.get(status, said)
    return found | told


def _read(process: subprocess.Popen[bytes], lines: SimpleQueue[Record]) -> None:
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            with suppress(ValueError):  # What a system prints of its own accord.
                told = json.loads(line)
                if isinstance(told, dict) and "event" in told:
                    lines.put(told)


def _drain(lines: SimpleQueue[Record], found: Record) -> None:
    with suppress(Empty):
        while True:
            found |= lines.get_nowait()


def end(run: str) -> None:
    """End every process of a run; those that were being started meanwhile, too."""
    for _ in range(50):
        left = processes.of_run(run)
        if not left:
            return
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        sleep(0.02)
