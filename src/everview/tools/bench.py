"""``everview bench``: a view maintained over a log of updates, measured, and held to recomputing it.

The first half of the log is loaded in bulk. The second half is run in batches of several sizes, one after the other,
each until its share of the updates or its time is used up. All batches of a run are full: one that is larger than the
share has the share's size, and updates that fill no batch are left to the next run. For every batch the clock runs
from handing it over until its changes have been read. What the view then holds is compared with the query run afresh.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import ceil
from time import perf_counter
from typing import Any, Final

import pyarrow as pa

from everview.engine.database import Database
from everview.engine.progress import Progress
from everview.errors import DataError, EverviewError, KeyViolationError, UnsupportedError
from everview.plan.explain import Explanation
from everview.plan.text import verdict_line
from everview.tools.change_log import BEFORE, Log
from everview.tools.enclosureness import ViewEnclosureness, view_enclosureness
from everview.tools.oracle import MOST_FETCHED, Recomputation

SIZES: Final = (10_000, 100, 1)
"""Updates a batch, where nothing else is asked for."""
SECONDS: Final = 10.0
_BULK = 100_000  # updates a batch while loading


@dataclass(frozen=True)
class BatchRun:
    """What batches of one size cost."""

    size: int
    """Updates in each of them."""
    asked: int
    """The size that was to be measured; larger than ``size`` where there were not enough updates."""
    batches: int
    updates: int
    changes: int
    """Rows of changes that were delivered."""
    seconds: float
    steps: int
    """What the kernel did: exact, whatever the machine."""
    mean_ms: float
    p50_ms: float
    p99_ms: float

    @property
    def update_us(self) -> float:
        """Microseconds an update."""
        return 1e6 * self.seconds / self.updates

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "update_us": self.update_us, "steps_per_update": self.steps / self.updates}


@dataclass(frozen=True)
class Memory:
    """What the state takes at the end of a run."""

    rows: int
    total: int
    view: int

    @property
    def per_row(self) -> float:
        """Bytes for a row of the tables, those of the view included."""
        return self.total / max(1, self.rows)


@dataclass(frozen=True)
class Measurement:
    """All that ``everview bench`` has to say."""

    explanation: Explanation
    log: Log
    loaded: int
    load_seconds: float
    runs: tuple[BatchRun, ...]
    result_rows: int
    memory: Memory
    recompute_seconds: float
    recomputed_by: str
    compared: bool
    """Whether all rows were compared; only their number was if they are too many."""
    difference: str | None
    """What is wrong with the result; None if it is right."""
    enclosureness: ViewEnclosureness | str
    """λ, or why it is not known."""

    @property
    def break_even(self) -> int:
        """The batch size from which on recomputing is quicker; 1 if it always is."""
        return break_even([(r.size, r.seconds / r.batches) for r in self.runs], self.recompute_seconds)

    @property
    def extrapolated(self) -> bool:
        """True if no batch as large, or none as small, as the break-even was measured."""
        sizes = [r.size for r in self.runs]
        return not min(sizes) <= self.break_even <= max(sizes)

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "view": self.explanation.plan.view.name,
            "class": self.explanation.best_class,
            "verdict": verdict_line(self.explanation),
            "updates": len(self.log),
            "sliding_window": self.log.windowed,
            "load": {"updates": self.loaded, "seconds": self.load_seconds},
            "batches": [r.to_dict() for r in self.runs],
            "result_rows": self.result_rows,
            "memory": {**asdict(self.memory), "per_row": self.memory.per_row},
            "recompute": {"seconds": self.recompute_seconds, "by": self.recomputed_by},
            "break_even": self.break_even,
            "extrapolated": self.extrapolated,
            "result": {"correct": self.difference is None, "compared": self.compared, "difference": self.difference},
            "enclosureness": {"unknown": self.enclosureness}
            if isinstance(self.enclosureness, str)
            else self.enclosureness.to_dict(),
        }


def measure(
    db: Database, query: str, log: Log, *, sizes: Sequence[int] | None = None, seconds: float = SECONDS
) -> Measurement:
    """Run the only view of an empty database, made by ``query``, over a log; ``seconds`` is the time for each size."""
    (name,) = db.views
    view = db.view(name)
    if len(log) < 2:
        raise DataError(f"the data holds {len(log)} updates: too few to measure", hint="give at least 2 rows that come")
    Recomputation(query, log, -1)  # over empty tables: what DuckDB refuses is not worth measuring
    start = len(log) // 2
    began = perf_counter()
    with Progress("loading", start, "updates") as progress:
        _apply(db, log, BEFORE, log.initial())
        for first in range(0, start, _BULK):
            _apply(db, log, first, log.between(first, min(start, first + _BULK)))
            progress.add(min(_BULK, start - first))
    load_seconds = perf_counter() - began
    runs: list[BatchRun] = []
    place = start
    chosen = _sizes(len(log) - start, sizes)
    for i, size in enumerate(chosen):
        stop = place + max(1, (len(log) - place) // (len(chosen) - i))
        run, place = _run(db, log, place, min(stop, len(log)), size, seconds)
        runs.append(run)
        if place == len(log):
            break
    rows = len(view)
    with Progress("recomputing"):
        fresh = Recomputation(query, log, place)
        recompute_seconds = fresh.seconds(rows)
        compared = rows <= MOST_FETCHED
        difference = fresh.difference(view.to_arrow()) if compared else fresh.count_difference(rows)
    return Measurement(
        view.explain(),
        log,
        start,
        load_seconds,
        tuple(runs),
        rows,
        Memory(fresh.rows, db.nbytes(), view.stats()["bytes"]),
        recompute_seconds,
        f"{fresh.version}, {fresh.threads} threads",
        compared,
        difference,
        _enclosureness(db, log),
    )


def _sizes(updates: int, asked: Sequence[int] | None) -> Sequence[int]:
    """The batch sizes, largest first; by default those of which the updates give a few batches each."""
    if asked is not None:
        return sorted(set(asked), reverse=True)
    return [s for s in SIZES if 3 * s * len(SIZES) <= updates] or [1]


def _apply(db: Database, log: Log, first: int, changes: Iterable[tuple[str, pa.Table]]) -> None:
    """Apply changes of the log, the first of which has that place."""
    try:
        with db.batch() as batch:
            for table, rows in changes:
                batch.apply(table, rows)
    except DataError as error:
        raise _in_the_data(error, log, first) from error


def _in_the_data(error: DataError, log: Log, first: int) -> DataError:
    """The error of a batch with the row that the user's data has it in."""
    updates = log.tables.get(error.table or "")
    if updates is None or error.row is None:
        return error
    row = updates.row_of(updates.before(first) + error.row)
    what = error.message.removesuffix("; nothing has changed")
    what = what.removeprefix(f"row {error.row} of the changes to {error.table} ")
    hint = "let the old row go first: _change_type" if isinstance(error, KeyViolationError) else error.hint
    return type(error)(f"data of {error.table}, row {row}: {what}", table=error.table, row=row, hint=hint)


def _run(db: Database, log: Log, first: int, stop: int, size: int, seconds: float) -> tuple[BatchRun, int]:
    """Batches of one size from a place on, until another place or the time is reached; also gives where it ended."""
    (name,) = db.views
    view = db.view(name)
    asked, size = size, min(size, stop - first)
    times: list[float] = []
    steps, changes = view.stats()["steps"], 0
    began, place = perf_counter(), first
    with view.changes() as feed, Progress(f"batches of {size:,}", stop - first, "updates") as progress:
        while place + size <= stop and (not times or perf_counter() - began < seconds):
            end = place + size
            batch = list(log.between(place, end))
            start = perf_counter()
            _apply(db, log, place, batch)
            delivered = feed.read()
            times.append(perf_counter() - start)
            changes += sum(b.num_rows for b in delivered)
            progress.add(end - place)
            place = end
    ordered = sorted(times)
    total = sum(times)
    run = BatchRun(
        size=size,
        asked=asked,
        batches=len(times),
        updates=place - first,
        changes=changes,
        seconds=total,
        steps=view.stats()["steps"] - steps,
        mean_ms=1e3 * total / len(times),
        p50_ms=1e3 * _quantile(ordered, 0.5),
        p99_ms=1e3 * _quantile(ordered, 0.99),
    )
    return run, place


def _quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest of the values that at least this share of them do not exceed."""
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def break_even(measured: Sequence[tuple[int, float]], recompute: float) -> int:
    """The least batch size whose batch takes as long as recomputing, from sizes and their seconds a batch.

    Between two sizes the time is taken to grow evenly, and from 0 up to the least; beyond the largest an update costs
    what it does there. Where a larger batch happened to be quicker than a smaller one, the smaller one decides.
    """
    points = [(0, 0.0), *sorted(measured)]
    for (size, seconds), (larger, longer) in pairwise(points):
        if longer >= recompute:
            share = (recompute - seconds) / (longer - seconds) if longer > seconds else 1.0
            return _whole(size + max(0.0, share) * (larger - size))
    size, seconds = points[-1]
    return _whole(size * recompute / seconds)


def _whole(size: float) -> int:
    """The least number of updates that is no less; what only rounding has added does not count."""
    return max(1, ceil(size * (1 - 1e-12)))


def _enclosureness(db: Database, log: Log) -> ViewEnclosureness | str:
    try:
        return view_enclosureness(db, log)
    except UnsupportedError as error:
        return error.message
    except EverviewError as error:  # such as a log that no database would take
        return str(error)
