"""What a job took, for systems that cannot tell the rows before the log from the log's own in one job."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

from benchmarks.runners.protocol import run_cpu

LEAST = 0.001
"""Seconds: two runs that differ by less cannot be told apart."""


@dataclass(frozen=True)
class Spent:
    """Wall and processor time."""

    seconds: float = 0.0
    cpu: float = 0.0

    def told(self, load: Spent) -> dict[str, float]:
        """What a result says of a run over everything, given what the rows before the log took alone."""
        rest = Spent(max(LEAST, self.seconds - load.seconds), max(LEAST, self.cpu - load.cpu))
        return {"load_s": load.seconds, "run_s": rest.seconds, "cpu_s": rest.cpu}


class Watch:
    """Measures from when it is made."""

    def __init__(self) -> None:
        self._begun, self._cpu = perf_counter(), run_cpu()

    def spent(self) -> Spent:
        """Until now."""
        return Spent(perf_counter() - self._begun, run_cpu() - self._cpu)
