"""Runs the experiments: ``python -m benchmarks --data ../shared/data --write``; docs/benchmarks.md describes them.

Every run is checked; the exit code is 1 if a result is wrong, or if one of ours is missing or could not be checked.
``--write`` keeps what was measured in benchmarks/results/ and writes the tables and plots of docs/performance*.md from
there; what is stopped half-way keeps what it has measured, and the rest as it was.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from benchmarks import report, results
from benchmarks.bench import Bench, names
from benchmarks.case import read_cases
from benchmarks.experiments import EXPERIMENTS, ON_REQUEST
from benchmarks.experiments.base import Experiment
from benchmarks.systems import SYSTEMS

QUICK_SCALE = 0.2


def main() -> int:
    """Run what was asked for."""
    options = parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended, too
    scale = options.scale or (QUICK_SCALE if options.quick else 1.0)
    bench = Bench(options.data, options.only, options.on, options.systems, scale, options.quick)
    always = tuple(name for name in EXPERIMENTS if name not in ON_REQUEST)
    chosen = options.experiments or (("runtime",) if options.quick else always)
    whole = not options.only and not options.on and set(options.systems) == set(SYSTEMS) and not options.quick
    try:
        for name in chosen:
            bench.known = results.recent(name) if options.resume else {}
            run(EXPERIMENTS[name], bench, write=options.write, whole=whole, ahead=not options.quick)
    finally:
        if options.write:
            report.write()
    for record, why in bench.failed:
        print(f"failed: {record['title']}, {record['data']}, {record['system']}: {why}", file=sys.stderr)
    return 1 if bench.failed else 0


def run(experiment: Experiment, bench: Bench, *, write: bool, whole: bool, ahead: bool = False) -> None:
    """Run an experiment; older measurements stay until there are newer ones, and, if all was run, no longer.

    With ``ahead``, all its checks come before the first time is taken.
    """
    if experiment.run is None:
        return
    print(f"--- {experiment.title}", file=sys.stderr)
    if ahead:
        bench.check_ahead(experiment.run)
    records = []
    for record in experiment.run(bench):
        records.append(record)
        if write:
            results.write(experiment.name, [record], whole=False)
    if records:
        print(experiment.table(records))
        if write and whole:
            results.write(experiment.name, records, whole=True)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    cases = sorted({case.name for case in read_cases()})
    found = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    found.add_argument("--data", type=Path, help="the folder with the graphs and snb-tiny; else, they are generated")
    found.add_argument("--on", default="", help="only data with this in their titles, such as 'file order'")
    found.add_argument("--only", type=lambda t: names(t, cases), default=(), help="cases, with commas in between")
    found.add_argument(
        "--systems", type=lambda t: names(t, list(SYSTEMS)), default=tuple(SYSTEMS), help=f"of {', '.join(SYSTEMS)}"
    )
    told = f"of {', '.join(EXPERIMENTS)}; {', '.join(ON_REQUEST)} are run by name only"
    found.add_argument("--experiments", type=lambda t: names(t, list(EXPERIMENTS)), default=(), help=told)
    found.add_argument("--scale", type=float, help=f"the part of the data that is used (1; quick: {QUICK_SCALE})")
    found.add_argument("--quick", action="store_true", help="a small set, once each, on the rivals that are installed")
    found.add_argument("--resume", action="store_true", help=results.RESUME)
    found.add_argument("--write", action="store_true", help="keep the results, and write docs/performance*.md")
    return found


if __name__ == "__main__":
    sys.exit(main())
