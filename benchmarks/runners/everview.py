"""Everview in this process: batches into a ``Database``, every change out of a feed, or the whole view read."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from time import perf_counter

import pyarrow as pa
import pyarrow.compute as pc

import everview as ev
from benchmarks.data.log import Log
from benchmarks.runners.protocol import Fingerprint, Job, Meter, job_and_log
from benchmarks.runners.sampler import Sampler
from benchmarks.runners.schema import narrowed, used_columns

COMING = pa.array(["insert", "update_postimage"])
Changes = dict[str, pa.Table]


def main() -> None:
    """Run the job that the command line names."""
    job, log = job_and_log()
    meter = Meter()
    batches, schema, initial = changes(job, log), log.schema, log.initial()
    if job.named_only:
        schema, kept = narrowed(schema, used_columns(job.sql, {name: log.names(name) for name in log.columns}))
        initial = {name: initial[name].select(columns) for name, columns in kept.items() if name in initial}
        batches = [
            (updates, {n: _named(part, kept[n]) for n, part in p.items() if n in kept}) for updates, p in batches
        ]
    db = ev.Database()
    db.sql(schema)
    meter.ready()
    with db.batch() as batch:
        for name, rows in initial.items():
            batch.insert(name, rows)
    db.sql(f"CREATE MATERIALIZED VIEW v AS {job.sql}")
    print_of = Fingerprint(job.outputs) if job.check else None
    run = deltas if job.mode == "delta" else whole
    sampler = Sampler(part_of) if job.profile else None
    with sampler or nullcontext():
        peak = run(db, job, batches, meter, print_of)
    found = None if print_of is None else print_of.to_dict()
    steps = db._views["v"].unit.steps
    told = {} if sampler is None else {"parts_s": sampler.seconds}
    meter.finish({"everview": ev.__version__}, found, state_bytes=peak, steps=steps, **told)


def _named(part: pa.Table, columns: Sequence[str]) -> pa.Table:
    return part.select([*columns, "_change_type"])


def part_of(file: str) -> str | None:
    """What code in a file does; None if its caller is to say."""
    if file.endswith("everview/kernel/machine.py"):
        return "kernel"
    if "/pyarrow/" in file:
        return "Arrow"
    if "/duckdb/" in file:
        return "DuckDB"
    return "Python" if "/everview/" in file or "/benchmarks/" in file else None


def changes(job: Job, log: Log) -> list[tuple[int, Changes]]:
    """The log's batches as tables with a ``_change_type``."""
    tables = {}
    for name, rows in log.tables.items():
        kinds = pc.if_else(pc.greater(rows.column("_weight"), 0), "insert", "delete")
        tables[name] = rows.drop(["_weight"]).append_column("_change_type", kinds)
    batches = job.batches(log, tables)
    return [(updates, {name: part.drop(["_at"]) for name, part in parts.items()}) for updates, parts in batches]


def apply(db: ev.Database, parts: Changes) -> None:
    """One batch, whatever tables it changes."""
    with db.batch() as batch:
        for name, rows in parts.items():
            batch.apply(name, rows)


def deltas(
    db: ev.Database, job: Job, batches: list[tuple[int, Changes]], meter: Meter, print_of: Fingerprint | None
) -> int:
    """Every change of every batch is read; gives the most bytes of state."""
    peak = db.nbytes()
    feed = db.view("v").changes(per_update=job.per_update)
    if print_of is not None:
        print_of.add(db.view("v").to_arrow())
    meter.loaded()
    for updates, parts in batches:
        begun = perf_counter()
        apply(db, parts)
        found = feed.read()
        meter.step(updates, sum(b.num_rows for b in found), perf_counter() - begun)
        peak = max(peak, db.nbytes())
        if print_of is not None:
            for told in found:
                print_of.add(told, weights(told))
    return peak


def weights(told: pa.RecordBatch) -> pa.Array:
    """The change of copies of each row of a feed."""
    coming = pc.is_in(told.column("_change_type"), COMING)
    count = told.column("_count")
    return pc.if_else(coming, count, pc.negate(count))


def whole(
    db: ev.Database, job: Job, batches: list[tuple[int, Changes]], meter: Meter, print_of: Fingerprint | None
) -> int:
    """The whole result is read after every tenth, or never (``state``); gives the most bytes of state."""
    peak = db.nbytes()
    meter.loaded()
    total = sum(updates for updates, _ in batches)
    due = job.tenths(total)
    if job.mode == "state":
        due = [total + 1]
    for updates, parts in batches:
        apply(db, parts)
        peak = max(peak, db.nbytes())
        rows = 0
        if meter.updates + updates >= due[0]:
            rows = len(db.view("v").to_arrow())
            while due and meter.updates + updates >= due[0]:
                due.pop(0)
        meter.step(updates, rows)
    if print_of is not None:
        print_of.add(db.view("v").to_arrow())
    return peak


if __name__ == "__main__":
    main()
