"""Every query of the workloads is planned, kept while small data changes, and equal to DuckDB after every batch.

The texts of TPC-DS and JOB come from packages: ``make workloads`` fetches them, and runs all of this.
"""

from __future__ import annotations

import pytest

import everview as ev
from benchmarks.texts import has_texts, schema, texts
from tests.engine.workload_run import Workload, follow

QUERIES = {"chbench": 22, "nexmark": 22, "finance": 6, "tpcds": 99, "job": 113}
PARTS = {"chbench": 1, "nexmark": 1, "finance": 1, "tpcds": 6, "job": 6}
CASES = [(folder, part) for folder, parts in PARTS.items() for part in range(parts)]


def needed(folder: str) -> None:
    if not has_texts(folder):
        pytest.skip(f"the texts of {folder} are in packages that `make workloads` fetches")


@pytest.mark.slow
@pytest.mark.parametrize("folder", QUERIES)
def test_all_are_planned(folder: str) -> None:
    needed(folder)
    found = texts(folder)
    assert len(found) == QUERIES[folder]
    refused = {}
    for name, text in found.items():
        try:
            assert ev.explain(text, schema(folder)).plan.cores
        except ev.errors.EverviewError as error:
            refused[name] = str(error)
    assert refused == {}


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "part"), CASES, ids=[f"{f}-{p}" for f, p in CASES])
def test_equal_to_duckdb_while_rows_change(folder: str, part: int) -> None:
    needed(folder)
    workload = Workload(folder)
    mine = list(workload.texts)[part :: PARTS[folder]]
    rows = {name: follow(workload, name) for name in mine}
    assert sum(map(bool, rows.values())) > len(mine) // 2, rows
