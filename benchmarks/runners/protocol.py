"""What every runner speaks: the job it is given, the lines it prints, the fingerprint of what came out.

It needs the standard library, numpy, pandas and pyarrow alone, since it runs in every rival's environment.
docs/benchmarks.md describes the protocol.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from time import CLOCK_BOOTTIME, clock_gettime, perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.data.log import Log, cut
from benchmarks.runners import processes

UNSUPPORTED = 3
"""The exit code of a runner whose system cannot express the query; the reason is on standard error."""
PROGRESS_SECONDS = 0.5
NULL = np.uint64(0x9E3779B97F4A7C15)
"""What NULL counts as in a fingerprint."""
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Job:
    """One case on one system."""

    log: Path
    query: str
    """The query's name, for systems that have a program a query."""
    sql: str
    outputs: tuple[tuple[str, str], ...]
    """The view's columns: name and SQL type."""
    mode: str
    """``delta``, ``full`` or, where nothing is read, ``state``."""
    batch: int
    check: bool
    scratch: Path
    every: int = 10
    """What the query's filter divides by: in ``sql`` already, and for systems that have a program a query."""
    threads: int = 1
    shards: int = 1
    per_update: bool = True
    """Whether a system that can tell each update's own changes apart does so; else, they are a batch's net changes."""
    sizes: tuple[int, ...] = ()
    """The sizes of the batches one after the other, where they are not all of ``batch``; the log ends with them."""
    named_only: bool = False
    """Whether tables hold only the columns that the query names, and their keys, for systems that would hold all."""
    profile: bool = False
    """Whether to say in ``parts_s`` what the time was spent on, for systems that can."""

    @classmethod
    def read(cls, path: str | Path) -> Job:
        """The job in a JSON file."""
        told = json.loads(Path(path).read_text(encoding="utf-8"))
        told |= {"log": Path(told["log"]), "scratch": Path(told["scratch"])}
        told["outputs"] = tuple((name, type_) for name, type_ in told["outputs"])
        told["sizes"] = tuple(told["sizes"])
        return cls(**told)

    def write(self, path: Path) -> None:
        """Write it for a runner."""
        told = {**vars(self), "log": str(self.log), "scratch": str(self.scratch)}
        path.write_text(json.dumps(told), encoding="utf-8")

    def batches(self, log: Log, tables: dict[str, pa.Table] | None = None) -> list[tuple[int, dict[str, pa.Table]]]:
        """The log's batches; of other ``tables`` with ``_at`` in the place of the log's, if they are given."""
        return list(cut(tables or log.tables, self.ends(log.updates), log.updates))

    def ends(self, updates: int) -> list[int]:
        """After which of a log's updates its batches end."""
        return list(accumulate(self.sizes)) or [*range(self.batch, updates, self.batch), updates]

    def tenths(self, updates: int) -> list[int]:
        """After which of the updates the whole result is read in full mode."""
        return sorted({updates * i // 10 for i in range(1, 11)} - {0})


def job_and_log() -> tuple[Job, Log]:
    """What the command line names."""
    job = Job.read(sys.argv[1])
    return job, Log.read(job.log)


# --- what is printed -------------------------------------------------------------------------------------------------


class Meter:
    """Times a run and prints how far it is: ``ready``, ``loaded``, then ``step`` a batch, then ``finish``."""

    def __init__(self) -> None:
        self.updates = 0
        self.rows = 0
        self._startup = self._load = 0.0
        self._begun = self._told = perf_counter()
        self._cpu = 0.0
        self._latencies: list[float] = []
        self._sizes: list[int] = []

    def ready(self, *, at_once: bool = False) -> None:
        """The system is up, and takes the rows that are there before the log from now on.

        ``at_once``: and the log with them, so that the time limit counts from here.
        """
        self._startup = _seconds_alive()
        self._begun = perf_counter()
        if at_once:
            _tell("progress", updates=0, seconds=0.0)

    def loaded(self) -> None:
        """Those rows are in; from now on the log is timed."""
        self._load = perf_counter() - self._begun
        self._cpu = run_cpu()
        self._begun = self._told = perf_counter()
        _tell("progress", updates=0, seconds=0.0)

    def step(self, updates: int, rows: int = 0, seconds: float | None = None) -> None:
        """A batch is done; ``rows`` came out of it, and all of them were there after ``seconds``."""
        self.updates += updates
        self.rows += rows
        if seconds is not None:
            self._latencies.append(seconds)
            self._sizes.append(updates)
        if perf_counter() - self._told > PROGRESS_SECONDS:
            self._told = perf_counter()
            _tell("progress", updates=self.updates, seconds=self._told - self._begun)

    def finish(
        self,
        versions: dict[str, str],
        fingerprint: dict[str, Any] | None = None,
        **told: Any,
    ) -> None:
        """The last change is out: print the result. ``told`` replaces what is measured here, or adds to it."""
        seconds = perf_counter() - self._begun
        result = {
            "startup_s": self._startup,
            "load_s": self._load,
            "run_s": seconds,
            "cpu_s": run_cpu() - self._cpu,
            "updates": self.updates,
            "rows": self.rows,
            "latency_ms": latency(self._latencies),
            "latency_tenths_ms": [latency(part) for part in _tenths(self._latencies)],
            "batch_ms": self._by_size(),
            "fingerprint": fingerprint,
            "versions": versions,
        }
        _tell("result", **(result | told))

    def _by_size(self) -> dict[int, float]:
        """The median time of the batches of each size, in milliseconds."""
        found: dict[int, list[float]] = {}
        for size, seconds in zip(self._sizes, self._latencies, strict=True):
            found.setdefault(size, []).append(1000 * seconds)
        return {size: float(np.median(times)) for size, times in found.items()}


def latency(seconds: Sequence[float]) -> dict[str, float] | None:
    """Mean and percentiles in milliseconds."""
    if not seconds:
        return None
    sorted_ = 1000 * np.sort(np.asarray(seconds))
    p50, p99 = (float(sorted_[max(0, int(np.ceil(q * len(sorted_))) - 1)]) for q in (0.50, 0.99))
    return {"mean": float(sorted_.mean()), "p50": p50, "p99": p99, "max": float(sorted_[-1])}


def _tenths(seconds: Sequence[float]) -> list[Sequence[float]]:
    """Ten parts of about the same length, if there is enough for them."""
    if len(seconds) < 20:
        return []
    cuts = [len(seconds) * i // 10 for i in range(11)]
    return [seconds[a:b] for a, b in pairwise(cuts)]


def unsupported(reason: str) -> None:
    """End: the system cannot express the query."""
    print(reason, file=sys.stderr)
    sys.exit(UNSUPPORTED)


def _tell(event: str, **told: Any) -> None:
    print(json.dumps({"event": event, **told}), flush=True)


def _seconds_alive() -> float:
    """How long this process has been there."""
    return clock_gettime(CLOCK_BOOTTIME) - processes.start_of(os.getpid())


def run_cpu() -> float:
    """The processor time of the whole run so far."""
    run = os.environ.get(processes.MARK)
    return processes.cpu(processes.of_run(run) if run else [os.getpid()])


# --- what came out ---------------------------------------------------------------------------------------------------


class Fingerprint:
    """Counts and adds up a bag of rows, modulo 2⁶⁴: that of all changes is that of the final result."""

    def __init__(self, outputs: Sequence[tuple[str, str]]) -> None:
        self._types = [arrow_type(type_) for _, type_ in outputs]
        self._rows = 0
        self._sums = [0] * len(outputs)
        self._hash = 0

    def add(self, batch: pa.RecordBatch | pa.Table, weights: pa.Array | np.ndarray | None = None) -> None:
        """Rows that come (weight 1 if there are no weights) or go; the view's columns are the batch's first ones."""
        length = batch.num_rows
        weight = np.ones(length, np.uint64) if weights is None else np.asarray(weights).astype(np.int64).view(np.uint64)
        self._rows = self._rows + int(weight.sum()) & _MASK
        mixed = np.full(length, 0x243F6A8885A308D3, np.uint64)
        for i, type_ in enumerate(self._types):
            words = words_of(batch.column(i), type_)
            self._sums[i] = self._sums[i] + int((words * weight).sum()) & _MASK
            mixed = _mix(mixed ^ _mix(words + np.uint64(i + 1)))
        self._hash = self._hash + int((mixed * weight).sum()) & _MASK

    def to_dict(self) -> dict[str, Any]:
        """As a runner prints it."""
        return {"rows": self._rows, "sums": self._sums, "hash": self._hash}


def same(expected: dict[str, Any], found: dict[str, Any]) -> bool:
    """Whether two fingerprints agree, as far as both know."""
    return all(expected[k] == found[k] for k in ("rows", "sums", "hash") if found.get(k) is not None)


def arrow_type(sql_type: str) -> pa.DataType:
    """The Arrow type that a column is brought to, to be counted."""
    name, _, rest = sql_type.upper().partition("(")
    if name in ("DECIMAL", "NUMERIC"):
        scale = int(rest.rstrip(")").partition(",")[2] or 0)
        return pa.decimal128(38, scale)
    return {"STRING": pa.string(), "DATE": pa.date32(), "TIMESTAMP": pa.timestamp("us"), "BOOLEAN": pa.bool_()}.get(
        name, pa.int64()
    )


def words_of(column: pa.Array | pa.ChunkedArray, type_: pa.DataType) -> np.ndarray:
    """A column's values as unsigned 64-bit integers."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"))
    column = column.cast(type_)
    if pa.types.is_string(type_):
        from pandas.util import hash_array  # Not at the top: most runs do without pandas, whose import takes a while.

        words = hash_array(column.fill_null("").to_numpy(zero_copy_only=False).astype(object))
    elif pa.types.is_decimal(type_):
        # Two's complement, the low word first: that is the number modulo 2⁶⁴.
        both = np.frombuffer(column.buffers()[1], np.uint64)[2 * column.offset : 2 * (column.offset + len(column))]
        words = both[::2]
    else:
        plain = column.cast(pa.int32()) if pa.types.is_date(type_) else column
        plain = plain.cast(pa.int64())
        words = (plain.fill_null(0) if plain.null_count else plain).to_numpy().view(np.uint64)
    if column.null_count:
        words = np.where(pc.is_null(column).to_numpy(zero_copy_only=False), NULL, words)
    return words


def _mix(words: np.ndarray) -> np.ndarray:
    """Spreads every bit over the whole word (the finaliser of splitmix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
