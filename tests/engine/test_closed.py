"""DuckDB is shut in: whatever text reaches it, it reads what it was given and nothing else of the machine."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pyarrow as pa
import pytest

import everview
from everview.engine.expressions.evaluate import Evaluator, _Query
from everview.errors import DataError, EverviewError
from everview.query.terms import Expression, Var
from everview.query.types import BIGINT, STRING
from everview.tools.oracle import Recomputation
from tests.engine.test_bench import random_log

SOURCE = Path(everview.__file__).parent
X = Var("x")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.csv"
    path.write_text("x\nhunter2\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("reader", ["read_csv('{}')", "read_text('{}')", "read_blob('{}')", "glob('{}')", "'{}'"])
def test_a_crafted_expression_reads_no_file(secret: Path, reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the front end, which knows no such function: the text is put into DuckDB's query as it is."""
    subquery = f"(SELECT CAST(COUNT(*) AS VARCHAR) FROM {reader.format(secret)})"
    monkeypatch.setattr("everview.sql.duckdb.duckdb_expression", lambda *_: subquery)
    query = _Query([Expression((X,), STRING)], {X: pa.int64()})
    with pytest.raises(DataError) as refused:
        query({X: pa.array([1])}, 1)
    assert re.search(r"Permission Error|does not exist", str(refused.value.__cause__))


@pytest.mark.parametrize(
    "statement",
    [
        "COPY (SELECT 1) TO '{}'",
        "ATTACH '{}'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SET TimeZone = 'Asia/Tokyo'",
        "SET threads = 4",
    ],
)
def test_its_settings_and_the_files_outside_stay_as_they_are(tmp_path: Path, statement: str) -> None:
    import duckdb

    from everview.sql.duckdb import open_duckdb

    with open_duckdb() as connection, pytest.raises(duckdb.Error, match=r"disabled by configuration|locked"):
        connection.execute(statement.format(tmp_path / "made"))
    assert not list(tmp_path.iterdir())


def test_what_is_registered_is_still_read_in_utc() -> None:
    expression = Expression(("concat(CAST(", X, " AS STRING), upper('z'))"), STRING)
    (found,) = Evaluator([expression])({X: pa.array([1, 2])}, 2)
    assert found.to_pylist() == ["1Z", "2Z"]
    instant = Expression(("hour(", X, ")"), BIGINT)
    (found,) = Evaluator([instant])({X: pa.array([3_600_000_000], pa.timestamp("us", "UTC"))}, 1)
    assert found.to_pylist() == [1]


def test_a_recomputation_reads_no_file(secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("everview.sql.duckdb.duckdb_query", lambda *_: f"SELECT * FROM read_csv('{secret}')")
    with pytest.raises(EverviewError) as refused:
        Recomputation("SELECT a FROM r", random_log(), 10)
    assert "disabled by configuration" in str(refused.value.__cause__)


def test_duckdb_is_opened_in_one_place_only() -> None:
    found = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "duckdb":
                found.append((str(path.relative_to(SOURCE)), node.attr))
    reaching = [place for place in found if place[1] != "__version__" and not place[1].endswith(("Error", "Exception"))]
    assert reaching == [("sql/duckdb.py", "connect")]
