"""``explain``, ``--dry-run``, ``maintain`` and ``Database.sql`` take and refuse the same views, in the same words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import everview as ev
from everview.cli.main import main
from everview.errors import EverviewError, UnsupportedError
from everview.spark.maintain import plan_over
from everview.spark.pipeline.plan import plan
from everview.spark.pipeline.read import load
from everview.sql import parse_schema

COLUMNS = "i INT, x DOUBLE, s STRING, ts TIMESTAMP, d DATE, b BINARY"
REFUSED = [
    "bit_count(s)",
    "date_format(ts, s)",
    "sha2(s, i)",
    "collate(s, 'UTF8_LCASE')",
    "round(x, i)",
    "regexp_extract(s, 'a', i)",
    "encode(s, 'latin1')",
]
TAKEN = ["upper(s)", "i / 2", "date_format(ts, 'yyyy')", "substring_index(s, ',', 1)", "length(b)", "crc32(b)"]


def _embedded(sql: str, folder: Path) -> None:
    db = ev.Database()
    db.sql(f"CREATE TABLE r ({COLUMNS})")
    db.sql(f"CREATE MATERIALIZED VIEW v AS {sql}")


def _explained(sql: str, folder: Path) -> None:
    ev.explain(sql, schema=f"CREATE TABLE r ({COLUMNS})")


def _planned(sql: str, folder: Path) -> None:
    plan_over({"v": sql}, parse_schema(f"CREATE TABLE r ({COLUMNS})"), 2)


def _dry_run(sql: str, folder: Path) -> None:
    (folder / "in").mkdir(exist_ok=True)
    file = folder / "p.yaml"
    file.write_text(
        f'sources:\n  r: {{format: json, path: {folder}/in, schema: "{COLUMNS}"}}\n'
        f"tables:\n  r: {{source: r}}\nviews:\n  v: |\n    {sql}\n"
        f"targets:\n  v: parquet:{folder}/out\ncheckpoint: {folder}/checkpoint\n"
    )
    plan(load(file))


WAYS = [_embedded, _explained, _planned, _dry_run]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("expression", REFUSED)
def test_all_refuse_it(expression: str, way: Callable[[str, Path], None], tmp_path: Path) -> None:
    with pytest.raises(EverviewError) as refused:
        way(f"SELECT i, {expression} AS y FROM r", tmp_path)
    for word in ("Catalog Error", "Binder Error", "DuckDB", "VARCHAR", "BLOB", "LINE 1"):
        assert word not in str(refused.value)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("expression", TAKEN)
def test_all_take_it(expression: str, way: Callable[[str, Path], None], tmp_path: Path) -> None:
    way(f"SELECT i, {expression} AS y FROM r", tmp_path)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT i FROM r WHERE bit_count(s) > 1",
        "SELECT bit_count(s) AS k, COUNT(*) AS n FROM r GROUP BY bit_count(s)",
        "SELECT i, SUM(bit_count(s)) AS n FROM r GROUP BY i",
        "SELECT s, COUNT(*) AS n FROM r GROUP BY s HAVING bit_count(s) > 1",
        "SELECT a.i FROM r a JOIN r b ON bit_count(a.s) = b.i",
        "SELECT k FROM (SELECT DISTINCT bit_count(s) AS k FROM r) WHERE k > 1",
    ],
)
@pytest.mark.parametrize("way", WAYS[:3])
def test_wherever_the_expression_stands(query: str, way: Callable[[str, Path], None], tmp_path: Path) -> None:
    with pytest.raises(
        UnsupportedError, match="bit_count of STRING cannot be computed in a view: it takes integers and booleans"
    ):
        way(query, tmp_path)


def test_the_command_line_refuses_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    script = f"CREATE TABLE r ({COLUMNS}); SELECT bit_count(s) AS y FROM r"
    assert main(["explain", "--sql", script]) == 2
    assert "bit_count of STRING cannot be computed in a view: it takes integers and booleans" in capsys.readouterr().err
