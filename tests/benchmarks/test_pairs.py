"""Everview beside Pathway in pairs of runs: what is run, and how ratios are made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import everview as ev
from benchmarks import pairs, report
from benchmarks.runners.schema import narrowed


def test_every_query_is_run_alike() -> None:
    found = list(pairs.cases(pairs.CASES, 1.0))
    assert [case.name for case in found] == list(pairs.CASES)
    assert {(case.batch, case.per_update, case.data.source) for case in found} == {
        (1_000, False, "tpch"),
        (1_000, False, "snb"),
    }
    assert (pairs.OURS.threads, pairs.THEIRS.threads) == (1, 1)
    assert next(pairs.cases(("snb-q1",), 0.1)).data.scale == 0.002


def test_what_counts_is_the_median_of_the_pairs() -> None:
    record: dict[str, Any] = {"case": "Q", "data": "SF 1", "updates": 1000, "status": "ok"}
    record |= {f"everview_{f}": [1.0, 2.0, 4.0] for f in ("cpu_s", "run_s")}
    record |= {f"pathway_{f}": [3.0, 1.0, 4.0] for f in ("cpu_s", "run_s")}
    assert pairs.ratio(record, "cpu_s") == 1.0
    record["whole_cpu_s"] = [5.0, 7.0, 6.0]
    failed = {"case": "R", "status": "wrong", "reason": "Pathway: expected 1\nfound 2"}
    assert pairs.table([record, failed]).splitlines()[2:] == [
        "| Q | SF 1 | 1,000 | 2.000 s | 3.000 s | 1.00 | 1.00 | 6.000 s |",
        "| R |  |  |  |  | wrong | found 2 |  |",
    ]


def test_the_page_has_a_place_for_them() -> None:
    text = Path(report.TABLES).read_text(encoding="utf-8")
    assert pairs.END in text.partition(pairs.MARK)[2]


def test_tables_can_be_made_of_what_a_query_names() -> None:
    schema = """CREATE TABLE a (k INT PRIMARY KEY, x INT, y INT); CREATE TABLE b (k INT REFERENCES a (k), z INT, w INT);
        CREATE TABLE c (k INT)"""
    made, kept = narrowed(schema, {"a": ["x"], "b": ["k", "z"]})
    assert kept == {"a": ["k", "x"], "b": ["k", "z"]}
    db = ev.Database()
    db.sql(made)
    assert db.tables == ("a", "b")
    assert db.table("b").schema.names == ["k", "z"]
