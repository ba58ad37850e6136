"""The cases that are data: SQL, batches and the expected feed (``cases/*.test``), each beside DuckDB."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.bags import Difference
from tests.engine.cases import FOLDER, Case, load, parameters, play


@pytest.mark.parametrize(("file", "case"), parameters())
def test_case(file: str, case: Case, tmp_path: Path) -> None:
    try:
        play(case, tmp_path)
    except Exception as error:
        error.add_note(f"in tests/engine/cases/{file}, case {case.title}")
        raise


def test_there_are_cases() -> None:
    found = [case.title for path in FOLDER.glob("*.test") for case in load(path)]
    assert len(found) >= 30
    assert len(set(found)) == len(found), "each has a title of its own"


WRONG = {
    "a feed that tells more": ("delete t (1)", "expect feed v", "delete (1) x 2", "missing"),
    "a feed that tells less": ("delete t (1)", "expect feed v", "", "superfluous"),
    "other rows": ("insert t (2)", "expect rows v", "(1)\n(3)", "superfluous"),
    "an error that does not come": ("insert t (2)", "expect error DataError", "t", "DID NOT RAISE"),
    "an error of other words": ("delete t (7)", "expect error OverDeleteError", "by moonlight", "is not in"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_go_as_it_says_fails(name: str, tmp_path: Path) -> None:
    operation, head, body, message = WRONG[name]
    path = tmp_path / "wrong.test"
    path.write_text(
        f"""case {name}
statement
CREATE TABLE t (a INT);
CREATE MATERIALIZED VIEW v AS SELECT a FROM t

batch
insert t (1)

feed v

batch
{operation}

{head}
{body}
"""
    )
    (case,) = load(path)
    with pytest.raises((Difference, pytest.fail.Exception), match=message):
        play(case, tmp_path)
