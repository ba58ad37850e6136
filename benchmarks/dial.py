"""The dial measured: what an update and a row that is read cost by ε. ``python -m benchmarks.dial [--write]``

Two queries over tables whose keys have degrees of every size, from one row to a large part of the table, so that each ε
has keys on both sides of its threshold. Steps are counted by the kernel and repeat exactly; times are CPU times.
"""

from __future__ import annotations

import argparse
import sys
from array import array
from collections.abc import Iterator
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

import matplotlib as mpl

import everview as ev
from benchmarks import report, results
from benchmarks.experiments.base import figure
from everview.kernel import Unit

PICTURE = Path(__file__).parent.parent / "docs" / "performance" / "dial.svg"
MARK, END = "<!-- dial: written by `make bench-dial ARGS=--write` -->", "<!-- end -->"
Record = dict[str, Any]
EPSILONS = [Fraction(i, 8) for i in range(9)]
ROWS = 4_096
READ = 300
QUERIES = {
    "pairs: r(a, b), s(b, c) → a, c": "pairs(a, c) :- r(a, b), s(b, c).",
    "triangles by edge: r(a, b), s(b, c), t(c, a) → a, b": "edges(a, b) :- r(a, b), s(b, c), t(c, a).",
}


def rows_of(relations: list[str], seed: int = 1) -> Iterator[tuple[str, int, int]]:
    """Rows of all tables in turns; a value x is drawn with probability about 1/x, on either side."""
    random = Random(seed)
    known: set[tuple[str, int, int]] = set()
    while len(known) < ROWS:
        relation = relations[len(known) % len(relations)]
        x, y = (int((ROWS // 4) ** random.random()) for _ in range(2))
        if (relation, x, y) not in known:
            known.add((relation, x, y))
            yield relation, x, y


def measure(title: str, rule: str, epsilon: Fraction) -> Record:
    """What updates and reads cost at one ε: inserts, then as many deletes and inserts of rows again."""
    verdict = ev.explain(rule, epsilon=epsilon)
    main = verdict.plan.main
    assert main.dial is not None, verdict
    maintained = main.compile()
    unit = Unit(maintained.program)
    relations = [atom.relation for atom in main.query.atoms]
    rows = list(rows_of(relations))
    spent, count = 0.0, 0
    again = [(row, change) for row in rows[: ROWS // 2] for change in (-1, 1)]
    for (relation, change), group in groupby(
        [*((row, 1) for row in rows), *again], key=lambda update: (update[0][0], update[1])
    ):
        entry = maintained.entry(relation)
        assert entry is not None
        terms = main.query.atoms[entry.atom_inputs[0].atom].terms
        updates = [dict(zip(terms, row[1:], strict=True)) for row, _ in group]
        columns = [[u[v] for u in updates] for v in entry.atom_inputs[0].variables]
        words = [array("q", c) for c in (*columns, [1] * len(updates), [change] * len(updates))]
        start = process_time()
        unit.apply(entry.state_only, words)
        spent += process_time() - start
        count += len(updates)
    steps = unit.steps
    cursor = unit.open("result")
    most, before, read = 0, 0, 0
    start = process_time()
    while read < READ:
        columns_read = cursor.fetch(1)
        if not columns_read or not len(columns_read[0]):
            break
        most, before, read = max(most, cursor.steps - before), cursor.steps, read + 1
    delay = process_time() - start
    return {
        "query": title,
        "epsilon": str(epsilon),
        "rows": ROWS,
        "updates": count,
        "steps_per_update": round(steps / count, 2),
        "us_per_update": round(1e6 * spent / count, 2),
        "rows_read": read,
        "steps_per_row": round(before / read, 2),
        "most_steps_per_row": most,
        "us_per_row": round(1e6 * delay / read, 2),
    }


def draw(records: list[Record]) -> None:
    """A panel a query: steps an update and steps a row against ε."""
    mpl.rcParams.update({"svg.hashsalt": "everview", "svg.fonttype": "none"})
    drawn, axes = figure(9, 3.4, len(QUERIES))
    for axis, title in zip(axes, QUERIES, strict=True):
        own = [r for r in records if r["query"] == title]
        epsilons = [float(Fraction(r["epsilon"])) for r in own]
        axis.plot(epsilons, [r["steps_per_update"] for r in own], "o-", color="#2f6fde", label="an update")
        axis.plot(epsilons, [r["steps_per_row"] for r in own], "s--", color="#c53030", label="a row that is read")
        axis.set_title(title, fontsize=9)
        axis.set_xlabel("ε")
        axis.set_ylabel("kernel steps")
        axis.set_yscale("log")
        axis.legend(fontsize=8)
    drawn.savefig(PICTURE, metadata={"Date": None})


def section(head: Record, records: list[Record]) -> str:
    """What the page shows of a run."""
    lines = ["| query | ε | steps an update | µs | steps a row | most | µs |", "|---" * 7 + "|"]
    for r in records:
        numbers = (
            r["steps_per_update"],
            r["us_per_update"],
            r["steps_per_row"],
            r["most_steps_per_row"],
            r["us_per_row"],
        )
        lines.append(f"| {r['query']} | {r['epsilon']} | " + " | ".join(f"{n:,}" for n in numbers) + " |")
    return "\n".join(lines) + f"\n\n{results.provenance([head], 'dial')}"


def main() -> int:
    """Measure, print, and with ``--write`` keep the figures and draw them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the figures, put them into the docs and draw them")
    options = parser.parse_args()
    records = [measure(title, rule, epsilon) for title, rule in QUERIES.items() for epsilon in EPSILONS]
    head = results.circumstances("benchmarks.dial")
    print(section(head, records))
    if options.write:
        results.put("dial", head, records)
        report.fill(MARK, section(head, records), END)
        draw(records)
    return 0


if __name__ == "__main__":
    sys.exit(main())
