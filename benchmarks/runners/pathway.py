"""Pathway: the query in its Table API, every batch of the log at a time of its own, all cores as worker threads.

Fed by ``pw.debug.table_from_pandas`` with ``__time__`` and ``__diff__``, which is how Pathway takes a prepared stream
of inserts and deletes. All of it is handed over at once, and Pathway is free to work on several times together, so
there is no latency of a batch to tell. A row that goes is named by the key that it had when it came.

As Pathway's documentation advises:

- *Null* output connector: "a program is benchmarked and the IO part needs to be simplified as much as possible". Its
  own count of what it wrote is what is told. Check runs ``pw.io.subscribe`` instead.
- *Multiprocessing and multithreading*: ``PATHWAY_THREADS``, a worker a core. Monitoring is off.

In Pathway's favour: only the columns that the query names are handed over, and making Pathway's rows of the pandas
frame, which happens in Python and once a worker, counts as start-up.

Rows that are there before the log are a time of their own, but not worked on alone: the run's time is shared out by
their number.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from itertools import accumulate
from threading import Lock
from typing import Any

import pandas as pd
import pathway as pw
import pyarrow as pa
from pathway.internals import api

from benchmarks.data.log import Log
from benchmarks.runners.pathway_rows import as_declared, field, frame
from benchmarks.runners.pathway_sql import Relation, Unsupported, translate
from benchmarks.runners.protocol import Fingerprint, Job, Meter, arrow_type, job_and_log, unsupported
from benchmarks.runners.schema import used_columns
from benchmarks.runners.spent import Spent, Watch

ROWS = 100_000
"""Changes that are counted at a time in a check run."""


def main() -> None:
    """Run the job that the command line names."""
    job, log = job_and_log()
    if job.mode == "full":
        unsupported("Pathway delivers changes to a sink; its result cannot be read at a moment of one's choice")
    os.environ["PATHWAY_THREADS"] = str(job.threads)
    meter = Meter()
    used = used_columns(job.sql, {name: log.names(name) for name in log.columns})
    ends = list(accumulate(updates for updates, _ in job.batches(log)))
    frames = {name: frame(log.tables[name], columns, ends) for name, columns in used.items()}
    try:
        spent, rows, found = run(job, log, frames, partial(meter.ready, at_once=True))
    except Unsupported as reason:
        unsupported(str(reason))
    before = sum(int((f["__time__"] == 0).sum()) for f in frames.values())
    told = spent.told(before, sum(map(len, frames.values())) - before)
    meter.finish({"pathway": version("pathway")}, found, updates=log.updates, rows=rows, **told)


def run(
    job: Job, log: Log, frames: dict[str, pd.DataFrame], started: Callable[[], None]
) -> tuple[Spent, int | None, dict[str, Any] | None]:
    """Run the query; says when Pathway has the rows. Gives what it took, the number of changes, their fingerprint."""
    view = translate(job.sql, {name: relation(rows, log.columns[name]) for name, rows in frames.items()})
    taken, written = Taken(job, [view.columns[name][0] for name, _ in job.outputs]), Written()
    if job.check:
        pw.io.subscribe(view.table, taken.change)
    else:
        pw.io.null.write(view.table)
    converted = Converted(len(frames) * job.threads, started)
    with converted, written:
        pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    spent = converted.watch.spent()
    return (spent, None, taken.fingerprint()) if job.check else (spent, written.rows, None)


# --- what goes in ----------------------------------------------------------------------------------------------------


def relation(rows: pd.DataFrame, columns: list[tuple[str, str]]) -> Relation:
    """A table of Pathway."""
    known, types = {}, {}
    for name, type_ in columns:
        if field(name) in rows:
            declared = arrow_type(type_)
            scale = declared.scale if pa.types.is_decimal(declared) else 0 if pa.types.is_int64(declared) else None
            optional = bool(rows[field(name)].isna().any())
            base: Any = str if pa.types.is_string(declared) else int
            types[field(name)] = pw.column_definition(dtype=base | None if optional else base)
            known[name] = (scale, optional)
    return Relation(pw.debug.table_from_pandas(rows, schema=pw.schema_builder(types)), known)


class Converted:
    """Knows when every worker has made Pathway's rows of the frames: the run is timed from there."""

    def __init__(self, wanted: int, started: Callable[[], None]) -> None:
        self._wanted = wanted
        self._started = started
        self._lock = Lock()
        self.watch = Watch()

    def __enter__(self) -> None:
        self._convert = api.static_table_from_pandas

        def convert(*given: Any, **named: Any) -> Any:
            made = self._convert(*given, **named)
            with self._lock:
                self._wanted -= 1
                if self._wanted == 0:
                    self._started()
                    self.watch = Watch()
            return made

        api.static_table_from_pandas = convert

    def __exit__(self, *_: object) -> None:
        api.static_table_from_pandas = self._convert
        if self._wanted > 0:
            raise RuntimeError("Pathway did not take all tables: the run was not timed")


# --- what comes out --------------------------------------------------------------------------------------------------


class Written(logging.Handler):
    """Adds up what the workers' null outputs say they wrote."""

    SAID = re.compile(r"NullWriter: Done writing (\d+) entries, closing data sink")

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.rows: int | None = None

    def __enter__(self) -> None:
        logging.getLogger().addHandler(self)
        logging.getLogger().setLevel(logging.INFO)

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """A line of Pathway's log."""
        if said := self.SAID.search(record.getMessage()):
            self.rows = (self.rows or 0) + int(said[1])


class Taken:
    """The changes of a check run."""

    def __init__(self, job: Job, scales: list[int | None]) -> None:
        self._outputs = job.outputs
        self._scales = scales
        self._found = Fingerprint(job.outputs)
        self._rows: list[tuple[Any, ...]] = []
        self._weights: list[int] = []

    def change(self, key: object, row: dict[str, Any], time: int, is_addition: bool) -> None:
        """What ``pw.io.subscribe`` calls."""
        self._rows.append(tuple(row[field(name)] for name, _ in self._outputs))
        self._weights.append(1 if is_addition else -1)
        if len(self._rows) >= ROWS:
            self._count()

    def fingerprint(self) -> dict[str, Any]:
        """Of all changes."""
        self._count()
        return self._found.to_dict()

    def _count(self) -> None:
        columns = list(zip(*self._rows, strict=True)) or [()] * len(self._outputs)
        arrays = [
            as_declared(c, arrow_type(t), s) for c, (_, t), s in zip(columns, self._outputs, self._scales, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, [name for name, _ in self._outputs])
        self._found.add(batch, pa.array(self._weights, pa.int64()))
        self._rows, self._weights = [], []


if __name__ == "__main__":
    main()
