"""The hand-written C++ programs: one a query, plain adjacency lists, deltas written into columns, on one core."""

from __future__ import annotations

import subprocess

import numpy as np
import pyarrow as pa

from benchmarks.data.graphs import Updates
from benchmarks.data.log import Log
from benchmarks.native import PROGRAMS, Native
from benchmarks.runners.protocol import Meter, job_and_log, unsupported


def main() -> None:
    """Run the job that the command line names."""
    job, log = job_and_log()
    if job.query not in PROGRAMS:
        unsupported(f"there is no hand-written program for {job.query}")
    if job.mode != "delta":
        unsupported("the hand-written programs keep no result that could be read")
    meter = Meter()
    native = Native(PROGRAMS[job.query], updates_of(log), job.every)
    meter.ready()
    meter.loaded()
    found = native.run("check" if job.check else "deltas")
    native.close()
    meter.step(found.updates, found.rows)
    compiler = subprocess.run(["c++", "-dumpfullversion"], capture_output=True, text=True, check=False).stdout.strip()
    fingerprint = {"rows": found.net[0], "sums": list(found.net[1:]), "hash": None} if job.check else None
    meter.finish({"c++": compiler}, fingerprint, run_s=found.seconds, cpu_s=found.seconds, peak_rss=found.peak)


def updates_of(log: Log) -> Updates:
    """The updates of a graph's log."""
    rows = log.tables["g"]
    source, target, weight = (rows.column(c).combine_chunks() for c in ("src", "dst", "_weight"))
    weight = pa.array(weight.to_numpy().astype(np.int64))
    return Updates(log.name, source, target, weight, window=0)


if __name__ == "__main__":
    main()
