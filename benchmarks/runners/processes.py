"""The processes of a run: those that carry its mark in their environment, or descend from its first one.

A process group would not do: PySpark's workers and Everview's shards begin groups and sessions of their own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

MARK = "EVERVIEW_BENCH_RUN"
"""The environment variable that names the run a process belongs to."""
_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def of_run(run: str) -> list[int]:
    """The living processes of a run."""
    wanted = f"{MARK}={run}".encode()
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:  # It has just ended, or is somebody else's.
            continue
        if wanted in environment.split(b"\0"):
            found.append(int(pid))
    return found


def of_tree(first: int) -> list[int]:
    """A process and all that it has started, and they."""
    parents = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        for fields in _stats([pid]):
            parents[pid] = int(fields[1])
    found = {first}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found)


def rss(pids: Iterable[int]) -> int:
    """The bytes that processes hold in memory; pages that several of them share count for each."""
    return sum(int(fields[21]) * _PAGE for fields in _stats(pids))


def cpu(pids: Iterable[int]) -> float:
    """The processor seconds of processes so far, with those of their children that have ended."""
    return sum(sum(map(int, fields[11:15])) for fields in _stats(pids)) / _TICK


def start_of(pid: int) -> float:
    """When a process was started, in seconds since the machine was."""
    (fields,) = _stats([pid])
    return int(fields[19]) / _TICK


def _stats(pids: Iterable[int]) -> Iterator[list[str]]:
    """The fields of /proc/<pid>/stat from the third on: a process's name may hold spaces."""
    for pid in pids:
        try:
            yield Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
