"""The systems that are compared: which runner each has, in which environment, and how much of the machine it gets."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORES = os.cpu_count() or 1
BOTH = ("delta", "full")


@dataclass(frozen=True)
class System:
    """Something that can run a case."""

    name: str
    title: str
    runner: str
    """The module in benchmarks/runners."""
    environment: str | None = None
    """The file in benchmarks/rivals that says what is installed for it; none for what runs in the project's own."""
    threads: int = CORES
    shards: int = 1
    per_update: bool = False
    """Whether it tells each update's own changes apart, so that their number is known."""
    recomputes: bool = False
    """Whether it runs the query afresh."""
    modes: tuple[str, ...] = ("delta",)
    """Whole results can be read from those that keep or compute them; the others give changes alone."""

    @property
    def is_ours(self) -> bool:
        """Whether it is Everview, or the program by hand that it is held against: neither may fail."""
        return self.name == "native" or self.name.startswith("everview")


SYSTEMS = {
    s.name: s
    for s in (
        System("everview", "Everview", "everview", threads=1, per_update=True, modes=BOTH),
        System("everview-spark-1", "Everview on Spark, 1 shard", "everview_spark", shards=1),
        System("everview-spark-2", "Everview on Spark, 2 shards", "everview_spark", shards=2),
        System("native", "C++ by hand", "native", threads=1, per_update=True),
        System("flink", "Flink", "flink", "flink"),
        System("pathway", "Pathway", "pathway", "pathway"),
        System("duckdb", "DuckDB, recomputing", "duckdb", recomputes=True, modes=BOTH),
        System("spark", "Spark, recomputing", "spark", "spark", recomputes=True, modes=BOTH),
    )
}


def interpreter(system: System, install: bool) -> Path | None:
    """The Python that runs a system; None if its environment is not there and is not to be made."""
    if system.environment is None:
        return Path(sys.executable)
    from benchmarks import environments

    if not install and not environments.is_current(system.environment):
        return None
    return environments.make(system.environment)
