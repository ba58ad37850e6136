"""The hand-written programs: compiled when they are needed, run beside the engine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from benchmarks.data.graphs import Updates

SOURCES = Path(__file__).parent / "native"
BUILT = Path(__file__).resolve().parent.parent / "build" / "bench" / "native"
PROGRAMS = {
    "3-hop": "three_hop",
    "4-hop": "four_hop",
    "star": "star",
    "triangle": "triangle",
    "triangle-count": "triangle",
}
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


@cache
def _compiled(name: str, every: int) -> str:
    """Compile a program, unless that was done before from the same sources."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or "c++"
    sources = [SOURCES / f"{name}.cpp", SOURCES / "common.h"]
    told = "\0".join([compiler, *FLAGS, *(source.read_text(encoding="utf-8") for source in sources)])
    program = BUILT / f"{name}-{every}-{sha256(told.encode()).hexdigest()[:12]}"
    if not program.exists():
        BUILT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILT) as folder:
            made = Path(folder) / name
            subprocess.run([compiler, *FLAGS, f"-DFILTER={every}", str(sources[0]), "-o", str(made)], check=True)
            made.rename(program)
    return str(program)
