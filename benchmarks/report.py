"""Writes the figures of docs/performance.md, the tables of docs/performance-tables.md, and the plots.

All come from the results files alone: no number is typed in. The first page is for those who decide, with a few figures
(``benchmarks.summary``) between marks; the second holds every table.

``python -m benchmarks.report`` writes, ``--check`` only compares.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import matplotlib as mpl

from benchmarks import bars, results, summary
from benchmarks.experiments import EXPERIMENTS
from benchmarks.systems import ROOT

PAGE = ROOT / "docs" / "performance.md"
TABLES = ROOT / "docs" / "performance-tables.md"
PLOTS = ROOT / "docs" / "performance"
MARK = "<!-- evidence: written by `make bench ARGS=--write` from benchmarks/results -->"
ABOUT_BARS = """\
What was promised before anything was measured, with the figure that was found. Figures are rounded against us."""
END = "<!-- end evidence -->"
FIGURES = re.compile(r"(?s)(<!-- figures: ([\w-]+) -->\n).*?(<!-- end figures -->)")
"""A generated place of the page: its mark names one of ``summary.BLOCKS``."""


def sections(folder: Path = results.RESULTS) -> str:
    """The generated part of the page."""
    parts = [f"### The bars\n\n{ABOUT_BARS}\n\n{bars.table(folder)}"]
    for experiment in EXPERIMENTS.values():
        records = results.read(experiment.results, folder)
        if not records:
            continue
        pictures = [f"![{name}](performance/{name}.svg)" for name in experiment.plots(records)]
        told = results.provenance(records, experiment.results)
        part = [f"### {experiment.title}", experiment.about.strip(), experiment.table(records), *pictures, told]
        parts.append("\n\n".join(part))
    return "\n\n".join(parts)


def tables_page(folder: Path = results.RESULTS) -> str:
    """The page of all tables as it should be."""
    before, mark, rest = TABLES.read_text(encoding="utf-8").partition(MARK)
    if not mark:
        raise ValueError(f"{TABLES.name} has no place for the report: {MARK}")
    return f"{before}{MARK}\n{sections(folder)}\n{END}{rest.partition(END)[2]}"


def page(folder: Path = results.RESULTS) -> str:
    """The page for readers who decide, as it should be."""
    text = PAGE.read_text(encoding="utf-8")
    return FIGURES.sub(lambda m: f"{m[1]}{summary.BLOCKS[m[2]](folder)}\n{m[3]}", text)


def fill(mark: str, text: str, end: str) -> None:
    """Put a benchmark's own table into its page, and write what else is made of what was measured anew."""
    before, found, after = TABLES.read_text(encoding="utf-8").partition(mark)
    if not found:
        raise ValueError(f"{TABLES.name} has no place for the table: {mark}")
    TABLES.write_text(f"{before}{mark}\n{text}\n{end}{after.partition(end)[2]}", encoding="utf-8")
    write()


def refill() -> None:
    """Write the pages and the plots anew, with the tables of the benchmarks that write their own."""
    from benchmarks import dial, engine, pairs, planning, spark

    for benchmark in (dial, engine, pairs, planning, spark):
        head, *records = results.read(benchmark.__name__.rpartition(".")[2]) or [None]
        if head is not None:
            fill(benchmark.MARK, benchmark.section(head, records), benchmark.END)
    write()


def write(folder: Path = results.RESULTS) -> None:
    """Write the pages and the plots."""
    TABLES.write_text(tables_page(folder), encoding="utf-8")
    PAGE.write_text(page(folder), encoding="utf-8")
    PLOTS.mkdir(exist_ok=True)
    mpl.rcParams.update({"svg.hashsalt": "everview", "svg.fonttype": "none", "font.size": 9})
    for experiment in EXPERIMENTS.values():
        records = results.read(experiment.results, folder)
        for name, drawn in (experiment.plots(records) if records else {}).items():
            drawn.savefig(PLOTS / f"{name}.png", dpi=130, metadata={"Software": None})
            drawn.savefig(PLOTS / f"{name}.svg", metadata={"Date": None})


def main() -> int:
    """Write the pages, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is not what it should be")
    if not parser.parse_args().check:
        refill()
        return 0
    wanted = {PAGE: page(), TABLES: tables_page()}
    return 0 if all(path.read_text(encoding="utf-8") == text for path, text in wanted.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
