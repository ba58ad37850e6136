"""Every query of the workloads is planned, kept while small data changes, and equal to DuckDB after every batch.

The texts of TPC-DS and JOB come from packages: ``make workloads`` fetches them, and runs all of this.
"""

from __future__ import annotations

import pytest

from benchmarks.texts import has_texts
from tests.engine.workload_run import Workload, follow

QUERIES = {"chbench": 22, "nexmark": 22, "finance": 6, "tpcds": 99, "job": 113}
LEAST = {"chbench": 0.9, "nexmark": 0.9, "finance": 0.9, "tpcds": 0.4, "job": 0.2}
"""How many of the results have rows, at least: some conditions are rarely met."""
PARTS = {"chbench": 1, "nexmark": 1, "finance": 1, "tpcds": 6, "job": 6}
CASES = [(folder, part) for folder, parts in PARTS.items() for part in range(parts)]


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "part"), CASES, ids=[f"{f}-{p}" for f, p in CASES])
def test_equal_to_duckdb_while_rows_change(folder: str, part: int) -> None:
    if not has_texts(folder):
        pytest.skip(f"the texts of {folder} are in packages that `make workloads` fetches")
    workload = Workload(folder)
    assert len(workload.texts) == QUERIES[folder]
    mine = list(workload.texts)[part :: PARTS[folder]]
    rows = {name: follow(workload, name) for name in mine}
    assert sum(map(bool, rows.values())) > len(mine) * LEAST[folder], rows
