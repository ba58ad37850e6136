"""Texts that expressions make are bounded before they are made: each of them, and a batch's within the memory limit."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

import everview as ev
from everview.errors import DataError, MemoryLimitError

MOST = 16 * 1024 * 1024
LONG = [
    ("repeat('a', 100000000)", "100000000"),
    ("repeat(s, n)", "100000000"),
    ("repeat(repeat(s, 10000), 10000)", "100000000"),
    ("space(n)", "100000000"),
    ("lpad(s, n, 'x')", "100000000"),
    ("rpad(s, n)", "100000000"),
    ("rpad(s, n, '€')", "400000000"),
    ("replace(repeat(s, 10000), 'a', repeat('b', 10000))", "100000000"),
    ("regexp_replace(repeat(s, 2000000), 'a', '0123456789')", "[0-9]+ bytes"),
    ("upper(concat(repeat(s, n), 'x'))", "100000000"),
]


def _database(expression: str, limit: int | None = None) -> ev.Database:
    db = ev.Database(memory_limit=limit)
    db.sql(f"CREATE TABLE r (k INT, s STRING, n INT); CREATE MATERIALIZED VIEW v AS SELECT k, {expression} AS y FROM r")
    return db


@pytest.mark.parametrize(("expression", "size"), LONG)
def test_a_text_beyond_the_bound_is_an_error_and_is_not_made(expression: str, size: str) -> None:
    """The peak of the process's memory does not move by the text's size."""
    db = _database(expression)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match=rf"{size}.*a text has at most {MOST}"):
        db.insert("r", [(1, "a", 100_000_000)])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 80_000
    assert len(db.view("v")) == 0


@pytest.mark.parametrize("expression", [f"repeat(s, {MOST})", f"rpad(s, {MOST})", f"space({MOST})"])
def test_a_text_of_the_bound_is_made(expression: str) -> None:
    db = _database(f"length({expression})")
    db.insert("r", [(1, "a", 1)])
    assert list(db.view("v")) == [(1, MOST)]


@pytest.mark.parametrize(
    "expression",
    [
        "repeat(s, n)",
        "length(repeat(s, n))",
        "rpad(s, n, 'xy')",
        "space(n)",
        "replace(concat('b', s), 'b', repeat(s, n))",
        "upper(repeat(repeat(s, 100), n div 100))",
        "CASE WHEN n > 0 THEN lpad(s, n) END",
    ],
)
def test_a_batch_makes_no_more_than_the_memory_limit_leaves(expression: str) -> None:
    """Before it makes anything; half of the batch is taken."""
    db = _database(expression, 50_000_000)
    rows = [(k, "a", 1_000_000) for k in range(60)]
    with pytest.raises(MemoryLimitError, match=r"would make [0-9,]+ bytes of text, and the memory limit leaves"):
        db.insert("r", rows)
    assert len(db.view("v")) == 0
    db.insert("r", rows[:5])
    assert len(db.view("v")) == 5


def test_arguments_that_are_guarded_do_not_count_as_failures() -> None:
    db = _database("CASE WHEN n <> 0 THEN repeat(s, 10 div n) END", 50_000_000)
    db.insert("r", [(1, "a", 0), (2, "a", 5)])
    assert sorted(db.view("v")) == [(1, None), (2, "aa")]


def test_filling_a_view_keeps_to_the_limit() -> None:
    db = ev.Database(memory_limit=50_000_000)
    db.sql("CREATE TABLE r (k INT, s STRING, n INT)")
    db.insert("r", [(k, "a", 1_000_000) for k in range(60)])
    with pytest.raises(MemoryLimitError):
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT k, repeat(s, n) AS y FROM r")
    assert db.views == ()


@pytest.mark.slow
def test_a_process_with_a_limit_stays_small() -> None:
    """Of 60 texts of 10 MB, none is made: the whole process keeps below 400 MB."""
    script = (
        "import everview as ev, pathlib, re\n"
        "db = ev.Database(memory_limit=50_000_000)\n"
        "db.sql('CREATE TABLE r (k INT, s STRING)')\n"
        "db.sql('CREATE MATERIALIZED VIEW v AS SELECT k, repeat(s, 10000000) AS y FROM r')\n"
        "try:\n    db.insert('r', [(k, 'a') for k in range(60)])\n"
        "except ev.errors.MemoryLimitError:\n"
        "    status = pathlib.Path('/proc/self/status').read_text()\n"
        "    print(re.search('VmHWM:[^0-9]*([0-9]+)', status)[1])\n"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert 0 < int(out) < 400_000
