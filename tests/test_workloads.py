"""Every query of the workloads is planned or refused as tests/workloads.toml says, and the generated docs are fresh."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.errors import UnsupportedError

ROOT = Path(__file__).parent.parent
WORKLOADS = ROOT / "benchmarks" / "workloads"
EXPECTED = tomllib.loads((Path(__file__).parent / "workloads.toml").read_text(encoding="utf-8"))
CASES = [(folder, name, outcome) for folder, queries in EXPECTED.items() for name, outcome in queries.items()]


def read(folder: str, name: str) -> str:
    return (WORKLOADS / folder / f"{name}.sql").read_text(encoding="utf-8")


@pytest.mark.parametrize(("folder", "name", "expected"), CASES, ids=[f"{f}-{n}" for f, n, _ in CASES])
def test_outcome(folder: str, name: str, expected: dict[str, Any]) -> None:
    schema = read(folder, "schema")
    if expected["outcome"] == "refused":
        with pytest.raises(UnsupportedError) as refused:
            ev.explain(read(folder, name), schema)
        assert (refused.value.construct, refused.value.line) == (expected["construct"], expected["line"])
        assert refused.value.hint
        return
    verdict = ev.explain(read(folder, name), schema)
    assert max(core.height for core in verdict.plan.cores) == expected["height"]
    assert [held for held, holds in verdict.classes.items() if holds] == expected["classes"]


@pytest.mark.parametrize("folder", EXPECTED)
def test_every_query_has_its_outcome(folder: str) -> None:
    queries = {p.stem for p in (WORKLOADS / folder).glob("*.sql")} - {"schema"}
    assert set(EXPECTED[folder]) == queries


@pytest.mark.slow
def test_generated_docs_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "make_docs.py"), "--check"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
