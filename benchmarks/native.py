"""The hand-written programs: compiled when they are needed, run beside the engine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.data.graphs import Updates

SOURCES = Path(__file__).parent / "native"
PROGRAMS = {"3-hop": "three_hop", "4-hop": "four_hop", "star": "star"}
"""The queries that there is a program for."""
FLAGS = ("-std=c++20", "-O3", "-DNDEBUG")


@dataclass(frozen=True)
class Measured:
    """What a run gave: updates, rows of deltas, seconds of processor time, and sums over the rows if asked for."""

    updates: int
    rows: int
    seconds: float
    sums: tuple[int, ...] = ()
    net: tuple[int, ...] = ()
    """The number of rows of the final result, and the sum of each of its columns."""
    peak: int = 0
    """The most bytes of memory."""


class Native:
    """A hand-written program for one query, and the updates it is run on."""

    def __init__(self, name: str, updates: Updates, every: int = 10) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="everview-bench-")
        self._program = _compiled(name, every)
        self._file = str(Path(self._folder.name) / "updates")
        Path(self._file).write_bytes(updates.packed())

    def run(self, mode: str) -> Measured:
        """Run it once: ``deltas``, ``check`` or ``state``."""
        done = subprocess.run([self._program, mode, self._file], check=True, capture_output=True, text=True)
        found = json.loads(done.stdout)
        sums, net = tuple(found["sums"]), tuple(found["net"])
        return Measured(found["updates"], found["rows"], found["seconds"], sums, net, found["peak"])

    def close(self) -> None:
        """Remove the file of updates."""
        self._folder.cleanup()


_built = tempfile.TemporaryDirectory(prefix="everview-native-")


@cache
def _compiled(name: str, every: int) -> str:
    """Compile a program, once a process."""
    program = str(Path(_built.name) / f"{name}-{every}")
    compiler = os.environ.get("CXX") or shutil.which("g++") or "c++"
    subprocess.run([compiler, *FLAGS, f"-DFILTER={every}", str(SOURCES / f"{name}.cpp"), "-o", program], check=True)
    return program
