"""Everview beside Pathway on joins and groups, both on one thread: processor time, in pairs that take turns.

``python -m benchmarks.pairs [--pairs 5] [--only tpch-q3,snb-q1] [--data FOLDER] [--write]`` runs the queries derived
from TPC-H and SNB in batches of 1,000 updates, net changes delivered. A pair is a run of ours and then one of
Pathway's; what counts is the median of the pairs' ratios, so that whatever else the machine does meets both. Both are
given the columns that the query names (ours keys, too); a further run of ours has the tables whole. Ours takes Arrow
tables that lie in memory, and what it makes of their values counts; what Pathway makes of its pandas frames does not,
nor does what either loads before the log. Both are checked against DuckDB first. ``--quick``: one pair, a tenth of the
data.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

from benchmarks import report, results
from benchmarks.bench import names
from benchmarks.case import Case, Data, read_cases
from benchmarks.experiments.base import at_least, markdown
from benchmarks.harness import Harness, Limits
from benchmarks.results import Record
from benchmarks.systems import SYSTEMS, System

MARK, END = "<!-- pairs: written by `make bench-pairs ARGS=--write` -->", "<!-- end -->"
CASES = ("tpch-q3", "tpch-q5", "tpch-q10", "tpch-q18", "snb-q1", "snb-q2", "snb-q3", "snb-q4")
DATA = {"tpch": Data("tpch", 0.02), "snb": Data("snb", 0.02)}
QUICK = 0.1
"""The part of that data for a first look."""
LIMITS = Limits(60)
OURS, THEIRS = (replace(SYSTEMS[name], threads=1) for name in ("everview", "pathway"))


def cases(only: tuple[str, ...], scale: float) -> Iterator[Case]:
    """The queries, each over one of the two sets of data."""
    found = {case.name: case for case in read_cases()}
    for name in only:
        data = DATA[name.partition("-")[0]].at(scale, None)
        case = replace(found[name], data=data, batch=1_000, per_update=False, modes=("delta",), first=None)
        case = replace(case, named_only=True)
        yield replace(case, check_scale=1.0, own_check_scale=1.0, deltas=None, profile=False)


def measured(harness: Harness, case: Case, pairs: int) -> Record:
    """So many pairs of checked runs."""
    for system in (OURS, THEIRS):
        check = harness.check(case, system, "delta")
        if check["status"] != "ok":
            return {"case": case.title, "status": check["status"], "reason": f"{system.title}: {check['reason']}"}
    ours, theirs, whole = [], [], []
    for _ in range(pairs):
        for system, runs, of in ((OURS, ours, case), (THEIRS, theirs, case), (OURS, whole, _whole(case))):
            runs.append(_run(harness, of, system))
            if runs[-1]["status"] != "ok":
                return {"case": case.title, "status": runs[-1]["status"], "reason": runs[-1].get("reason", "")}
    log = case.data.log(harness.data)
    found: Record = {"case": case.title, "data": case.data.title, "updates": log.updates, "status": "ok"}
    for system, runs in ((OURS, ours), (THEIRS, theirs)):
        for field in ("cpu_s", "run_s"):
            found[f"{system.name}_{field}"] = [round(r[field], 4) for r in runs]
    found["whole_cpu_s"] = [round(r["cpu_s"], 4) for r in whole]
    return found


def _whole(case: Case) -> Case:
    return replace(case, named_only=False)


def _run(harness: Harness, case: Case, system: System) -> Record:
    return harness.run(case, system, "delta", LIMITS, check=False)


def ratio(record: Record, field: str) -> float:
    """Pathway's time by ours, the median of the pairs."""
    both = zip(record[f"pathway_{field}"], record[f"everview_{field}"], strict=True)
    return median(theirs / max(ours, 1e-9) for theirs, ours in both)


def table(records: list[Record]) -> str:
    """A line a query."""
    header = ["query", "data", "updates", "our CPU", "Pathway's CPU", "Pathway ÷ ours, CPU", "wall time"]
    header.append("our CPU, whole tables")
    return markdown(header, map(_line, records))


def _line(record: Record) -> list[str]:
    if record["status"] != "ok":
        reason = str(record["reason"]).strip().splitlines() or [""]
        return [record["case"], "", "", "", "", record["status"], reason[-1][:80], ""]
    ours, theirs = (median(record[f"{s}_cpu_s"]) for s in ("everview", "pathway"))
    cpu = ratio(record, "cpu_s")
    shown = at_least(cpu) if cpu >= 1 else f"**{at_least(cpu)}**"
    updates, wall = f"{record['updates']:,}", at_least(ratio(record, "run_s"))
    whole = f"{median(record['whole_cpu_s']):.3f} s"
    return [record["case"], record["data"], updates, f"{ours:.3f} s", f"{theirs:.3f} s", shown, wall, whole]


def section(head: Record, records: list[Record]) -> str:
    """What the page shows of a run."""
    reached = all(r["status"] == "ok" and ratio(r, "cpu_s") >= 1 for r in records)
    told = f"Bar {'reached' if reached else '**missed**'}: Pathway ÷ ours ≥ 1 on every one."
    return f"{table(records)}\n\n{told} {results.provenance([head], 'pairs')}"


def main() -> int:
    """Measure, print, and keep what was measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pairs", description=__doc__)
    parser.add_argument("--pairs", type=int, help="of each query (5; quick: 1)")
    parser.add_argument("--only", type=lambda t: names(t, list(CASES)), default=CASES, help=f"of {', '.join(CASES)}")
    parser.add_argument("--data", type=Path, help="not needed: all data are generated")
    parser.add_argument("--quick", action="store_true", help="one pair of each, on a tenth of the data")
    parser.add_argument("--write", action="store_true", help="keep the times, and put the table into the docs")
    parser.add_argument("--resume", action="store_true", help=results.RESUME)
    options = parser.parse_args()
    if options.resume and results.stands("pairs"):
        return 0
    harness = Harness(None)
    records = []
    for case in cases(options.only, QUICK if options.quick else 1.0):
        records.append(measured(harness, case, options.pairs or (1 if options.quick else 5)))
        print(" | ".join(_line(records[-1])), file=sys.stderr, flush=True)
    head = results.circumstances("benchmarks.pairs")
    print(section(head, records))
    if options.write:
        results.put("pairs", head, records)
        report.fill(MARK, section(head, records), END)
    return 0 if all(r["status"] == "ok" for r in records) else 1


if __name__ == "__main__":
    sys.exit(main())
