"""How long ``import everview`` takes, and that it does not import Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from statistics import median

from matplotlib.figure import Figure

from benchmarks.bench import Bench
from benchmarks.experiments.base import Experiment, at_most, markdown
from benchmarks.results import Record

RUNS = 9
PROGRAM = """
import json, sys
from time import perf_counter
begun = perf_counter()
import everview
seconds = perf_counter() - begun
print(json.dumps([seconds, [m for m in ("pyspark", "pandas") if m in sys.modules]]))
"""


def run(bench: Bench) -> Iterator[Record]:
    """Import it in new processes."""
    if bench.only:
        return
    found = []
    for _ in range(RUNS):
        done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
        found.append(json.loads(done.stdout))
    yield bench.told(
        {
            "case": "import",
            "title": "import everview",
            "status": "ok",
            "runs_s": sorted(seconds for seconds, _ in found),
            "run_s": median(seconds for seconds, _ in found),
            "imported": sorted({name for _, names in found for name in names}),
        }
    )


def table(records: list[Record]) -> str:
    """The median and the slowest."""
    rows = [
        [r["title"], f"{at_most(r['run_s'])} s", f"{at_most(r['runs_s'][-1])} s", ", ".join(r["imported"]) or "neither"]
        for r in records
    ]
    return markdown(["what", "median", "slowest", "pyspark, pandas imported"], rows)


def plots(records: list[Record]) -> dict[str, Figure]:
    """None."""
    return {}


START = Experiment(
    name="start",
    title="Start",
    about=f"The time that `import everview` takes in a new process, of {RUNS} of them.",
    results="start",
    table=table,
    plots=plots,
    run=run,
)
