"""What a run took, for systems that cannot tell the rows before the log from the log's own."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

from benchmarks.runners.protocol import run_cpu


@dataclass(frozen=True)
class Spent:
    """Wall and processor time of all rows."""

    seconds: float
    cpu: float

    def told(self, initial: int, updates: int) -> dict[str, float]:
        """What a result says: the rows before the log have their share of the time by their number.

        That is more than they took, where they only fill tables for the log's rows to join with.
        """
        share = updates / max(1, initial + updates)
        return {"load_s": self.seconds * (1 - share), "run_s": self.seconds * share, "cpu_s": self.cpu * share}


class Watch:
    """Measures from when it is made."""

    def __init__(self) -> None:
        self._begun, self._cpu = perf_counter(), run_cpu()

    def spent(self) -> Spent:
        """Until now."""
        return Spent(perf_counter() - self._begun, run_cpu() - self._cpu)
