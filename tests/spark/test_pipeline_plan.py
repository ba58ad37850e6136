"""What a pipeline file means, and what a dry run shows of it: without Spark, and without Java."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from everview.cli.main import main
from everview.cli.status import line
from everview.errors import PipelineError
from everview.spark.pipeline.failure import cause_of
from everview.spark.pipeline.model import ChangeType, Pipeline
from everview.spark.pipeline.plan import check_paths, cores, missing, plan
from everview.spark.pipeline.progress import Progress
from everview.spark.pipeline.read import load

ROOT = Path(__file__).parent.parent.parent
SHOP = ROOT / "examples" / "shop.yaml"
FULL = """
name: all of it
sources:
  raw:
    format: kafka
    schema: {value: BINARY, offset: BIGINT}
    options: {subscribe: orders, kafka.bootstrap.servers: "${BROKER}:9092"}
  before: {format: parquet, path: /data/before, schema: "value BINARY, offset BIGINT", streaming: false}
  cities: {format: csv, path: cities, schema: "id BIGINT, name STRING", streaming: off, options: {header: true}}
tables:
  orders:
    source: raw
    columns:
      offset: offset
      id: {expression: "CAST(get_json_object(CAST(value AS STRING), '$.id') AS BIGINT)", type: BIGINT}
      city: {expression: "CAST(1 AS BIGINT)", type: BIGINT}
    key: [offset]
    not_null: id
    initial: before
    rate: 10
  cities: {source: cities}
views:
  named: SELECT o.id, c.name FROM orders o JOIN cities c ON o.city = c.id
  counted: {sql: "SELECT name, COUNT(*) AS n FROM named GROUP BY name"}
targets:
  counted: postgresql://me:secret@host/db?table=counted
checkpoint: s3://bucket/checkpoint
shards: 4
master: spark://host:7077
trigger: {interval: 10 seconds}
conf: {spark.executor.memory: 4g}
bad_rows: quarantine
dead_letter: delta:dead
memory_limit: 1.5 GiB
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "pipeline.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    monkeypatch.setenv("BROKER", "broker1")
    return load(written(tmp_path, FULL))


def test_everything_is_read(full: Pipeline, tmp_path: Path) -> None:
    assert full.name == "all of it"
    assert full.sources["raw"].options == {"subscribe": "orders", "kafka.bootstrap.servers": "broker1:9092"}
    assert (full.sources["raw"].streaming, full.sources["cities"].streaming) == (True, False)
    assert full.sources["cities"].path == str(tmp_path / "cities")
    assert full.sources["before"].path == "/data/before"
    orders = full.tables["orders"]
    assert str(orders.table) == "orders(offset*: BIGINT, id: BIGINT, city: BIGINT)"
    assert [c.nullable for c in orders.table.columns] == [False, False, True]
    assert [c.is_expression for c in orders.columns] == [False, True, True]
    assert (orders.initial, orders.rate, orders.change_type) == ("before", 10, None)
    assert full.rates == {"orders": 10}
    assert full.targets == {"counted": "postgresql://me:secret@host/db?table=counted"}
    assert (full.checkpoint, full.shards, full.master) == ("s3://bucket/checkpoint", 4, "spark://host:7077")
    assert full.spark_trigger == {"processingTime": "10 seconds"}
    assert (full.bad_rows, full.dead_letter) == ("quarantine", f"delta:{tmp_path}/dead")
    assert full.memory_limit == 1.5 * 2**30
    assert full.conf == {"spark.executor.memory": "4g"}


@pytest.mark.parametrize("alone", [True, False])
def test_options_of_views(tmp_path: Path, alone: bool) -> None:
    text = """sources: {s: {format: json, path: ., schema: "a BIGINT, b BIGINT"}}
tables: {e: {source: s}}
views:
  hops:
    sql: CREATE VIEW hops OPTIONS (mode = 'dynamic') AS SELECT x.a, y.b FROM e x JOIN e y ON x.b = y.a
    options: {epsilon: 1/3, optimize: reads}
targets: {hops: parquet:out}
checkpoint: checkpoint
"""
    more = "  more: {sql: SELECT a FROM hops, options: {epsilon: 0.5}}\n"
    pipeline = load(written(tmp_path, text if alone else text.replace("targets", f"{more}targets")))
    assert pipeline.options["hops"] == {"epsilon": Fraction(1, 3), "optimize": "reads"}
    planned = plan(pipeline)
    shown = "options     epsilon = 1/3, optimize = 'reads', mode = 'dynamic'"
    assert shown in str(planned)
    kept = {v.name: str(v.options) for v in planned.distribution.first.views}
    wanted = {"hops": "epsilon = 1/3, optimize = 'reads', mode = 'dynamic'"} | (
        {} if alone else {"more": "epsilon = 0.5"}
    )
    assert kept == wanted


@pytest.mark.parametrize("comment", ["", "-- hops of two edges\n", "/* of two\n edges */ -- CREATE\n\n"])
@pytest.mark.parametrize("statement", ["", "create view hops as\n"])
def test_a_view_in_a_file_may_be_a_statement_after_comments(tmp_path: Path, comment: str, statement: str) -> None:
    text = """sources: {s: {format: json, path: ., schema: "a BIGINT, b BIGINT"}}
tables: {e: {source: s}}
views: {hops: {file: hops.sql}}
targets: {hops: parquet:out}
checkpoint: checkpoint
"""
    query = "SELECT x.a, y.b FROM e x JOIN e y ON x.b = y.a"
    (tmp_path / "hops.sql").write_text(comment + statement + query, encoding="utf-8")
    planned = plan(load(written(tmp_path, text)))
    assert [v.name for v in planned.distribution.first.views] == ["hops"]


def test_passwords_are_not_shown(full: Pipeline) -> None:
    text = str(plan(full))
    assert "secret" not in text
    assert "postgresql://me:…@host/db?table=counted" in text
    assert "secret" not in json.dumps(plan(full).to_dict())


def test_views_over_views(full: Pipeline) -> None:
    planned = plan(full)
    assert [v.plan.view.name for v in planned.verdicts] == ["named", "counted"]
    assert planned.distribution.shards == 4


def test_shop_example() -> None:
    shop = load(SHOP)
    assert shop.tables["lines"].change_type == ChangeType(
        "op", {"c": "insert", "d": "delete", "u-": "update_preimage", "u+": "update_postimage"}
    )
    assert shop.tables["orders"].table.primary_key == ("id",)
    assert "op" not in str(shop.tables["orders"].table)


@pytest.mark.parametrize(("trigger", "wanted"), [("available_now", {"availableNow": True}), ("once", {"once": True})])
def test_triggers(trigger: str, wanted: dict[str, bool]) -> None:
    assert load(SHOP, {"trigger": trigger}).spark_trigger == wanted
    assert load(SHOP).spark_trigger is None


@pytest.mark.parametrize(
    ("master", "wanted"),
    [
        ("local", 1),
        ("local[3]", 3),
        ("local[3,2]", 3),
        ("local[*]", os.cpu_count()),
        (None, os.cpu_count()),
        ("local-cluster[2,3,1024]", 6),
        ("yarn", None),
        ("spark://h:7077", None),
    ],
)
def test_cores(master: str | None, wanted: int | None) -> None:
    assert cores(master) == wanted


def test_shards_of_a_cluster_are_a_guess(tmp_path: Path) -> None:
    text = SHOP.read_text(encoding="utf-8").replace("shards: 2\n", "").replace("local[2]", "yarn")
    planned = plan(load(written(tmp_path, text)))
    assert planned.is_guess
    assert "one a core of yarn, which only a run can ask; shown here for 2" in str(planned)


def test_dry_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--dry-run", str(SHOP)]) == 0
    text = capsys.readouterr().out
    for said in (
        "table       orders from order_changes (json, changes, key id)",
        "view        revenue(city STRING, category STRING, lines BIGINT, revenue DECIMAL(31, 2))",
        "view        to_send(",
        "verdict     ",
        "bounds      ",
        "tree        height",
        f"target      parquet:{ROOT}/examples/views/gardeners",
        "  revenue: 2 shards = ",
        "a row goes to 2.00 shards, expected",
        "checkpoint  ",
    ):
        assert said in text
    assert main(["run", "--dry-run", "--shards", "6", str(SHOP)]) == 0
    assert "to_send: 6 shards" in capsys.readouterr().out


def test_dry_run_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--dry-run", "--log", "json", str(SHOP)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [v["view"] for v in data["views"]] == ["revenue", "to_send", "gardeners"]
    assert data["shards"]["shards"] == 2
    assert set(data["targets"]) == {"revenue", "to_send", "gardeners"}


def test_dry_run_needs_no_java(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "everview", "run", "--dry-run", str(SHOP)]
    done = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_view_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "v.sql").write_text("SELECT who FROM\n  clicks WHERE x = 1", encoding="utf-8")
    text = """
sources: {s: {format: json, path: in, schema: who BIGINT}}
tables: {clicks: {source: s}}
views: {v: {file: v.sql}}
targets: {v: "parquet:out"}
checkpoint: c
"""
    with pytest.raises(Exception, match=r"v.sql: there is no column x \(at line 2, column 16\)"):
        plan(load(written(tmp_path, text)))


def test_the_error_that_the_docs_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
    text = page.partition("```yaml\n")[2].partition("```")[0]
    (tmp_path / "shop.yaml").write_text(text.replace("SUM(o.amount)", "SUM(o.amuont)"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PipelineError) as refused:
        plan(load(Path("shop.yaml")))
    assert f"```text\neverview: PipelineError: {refused.value}\n```" in page, str(refused.value)


SPARK_SAYS = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted due to stage failure: Task 0
in stage 3.0 failed 1 times: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
everview.errors.OverDeleteError: row 0 deletes (9, 9)

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "shard.py", line 1, in _without
everview.errors.BadRowError: a row of t cannot be taken in: it is not there; the row: {'a': 9}
hint: correct the stream, or use bad_rows='quarantine'

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:581)
Driver stacktrace:
"""


def test_cause_is_our_own_error() -> None:
    assert cause_of(SPARK_SAYS) == (
        "BadRowError: a row of t cannot be taken in: it is not there; the row: {'a': 9}\n"
        "hint: correct the stream, or use bad_rows='quarantine'"
    )


def test_cause_is_another_python_error() -> None:
    text = (
        "An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):\n"
        '  File "materialize.py", line 1, in __call__\n'
        "py4j.protocol.Py4JJavaError: An error occurred while calling o1.count.\n"
        ": org.apache.spark.SparkException: [PYTHON_EXCEPTION] Traceback (most recent call last):\n"
        '  File "shard.py", line 1\nTypeError: no such operand\n SQLSTATE: 38000.\n\tat org.apache.X(Y.scala:1)\n'
    )
    assert cause_of(text) == "TypeError: no such operand"


def test_cause_is_sparks_innermost() -> None:
    text = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: no\n"
        "\tat org.apache.spark.X(Y.scala:1)\nCaused by: java.io.IOException: a\n\tat x\n"
        "Caused by: java.io.FileNotFoundException: /data/x is gone\n\t... 3 more\n"
    )
    assert cause_of(text) == "FileNotFoundException: /data/x is gone"
    assert (
        cause_of("org.apache.spark.sql.AnalysisException: [NO] such thing\nmore")
        == "AnalysisException: [NO] such thing"
    )


MISSING = """
sources:
  s: {format: json, path: in, schema: "who TYPE"}
  unread: {format: json, path: nowhere, schema: "who BIGINT"}
tables: {clicks: {source: s}}
views: {v: SELECT who FROM clicks}
targets: {v: "parquet:out"}
checkpoint: c
master: MASTER
"""


def test_a_path_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A dry run and a run are refused before Spark starts; a cluster may have what this machine has not."""
    path = written(tmp_path, MISSING.replace("TYPE", "BIGINT").replace("MASTER", "local[2]"))
    assert main(["run", "--dry-run", str(path)]) == 2
    text, wrong = capsys.readouterr()
    assert f"source s reads {tmp_path}/in, and there is no such file or folder" in wrong
    assert f"missing     {tmp_path}/in of source s: a run is refused until it is there" in text
    assert "nowhere" not in text
    assert plan(load(path)).to_dict()["missing"] == {"s": f"{tmp_path}/in"}
    with pytest.raises(PipelineError) as caught:
        check_paths(load(path))
    assert f"source s reads {tmp_path}/in, and there is no such file or folder" in caught.value.message
    assert caught.value.line == 3
    (tmp_path / "in").mkdir()
    assert not missing(load(path))
    for other in ("in/*.json", "s3://bucket/in", "hdfs://h/in", f"file:{tmp_path}/in", f"file://{tmp_path}/in"):
        path.write_text(path.read_text().replace("path: in,", f'path: "{other}",'))
        assert not missing(load(path))
        path.write_text(path.read_text().replace(f'path: "{other}",', "path: in,"))
    (tmp_path / "in").rmdir()
    path = written(tmp_path, MISSING.replace("TYPE", "BIGINT").replace("MASTER", "yarn"))
    assert not missing(load(path))


def test_a_type_that_spark_does_not_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for type_ in ("NUMBER", "TIME", "STRING COLLATE UTF8_LCASE"):
        path = written(tmp_path, MISSING.replace("TYPE", type_).replace("MASTER", "yarn"))
        assert main(["run", "--dry-run", str(path)]) == 2
        told = capsys.readouterr().err
        assert "sources.s.schema" in told
        assert type_.rpartition(" ")[2] in told


def test_targets_with_options_and_urls(tmp_path: Path) -> None:
    text = MISSING.replace("TYPE", "BIGINT").replace("MASTER", "yarn")
    for target, wanted in (
        ("parquet:out", f"parquet:{tmp_path}/out"),
        (f"parquet:file://{tmp_path}/out", f"parquet:{tmp_path}/out"),
        ("parquet:out?keep=5", f"parquet:{tmp_path}/out?keep=5"),
        ("delta:out?history=true", f"delta:{tmp_path}/out?history=true"),
        ("delta:s3://b/out?history=true", "delta:s3://b/out?history=true"),
    ):
        assert load(written(tmp_path, text.replace("parquet:out", target))).targets == {"v": wanted}
    with pytest.raises(PipelineError, match=r"targets\.v: a delta target has no option histroy"):
        load(written(tmp_path, text.replace("parquet:out", "delta:out?histroy=true")))


def test_how_far_behind_the_sources_are() -> None:
    def source(latest: object, end: object) -> dict[str, object]:
        return {"description": "x", "numInputRows": 1, "metrics": {}, "latestOffset": latest, "endOffset": end}

    kafka = source('{"t": {"0": 120, "1": 7}}', '{"t": {"0": 100, "1": 7}}')
    entry = {
        "batchId": 0,
        "timestamp": "",
        "numInputRows": 1,
        "durationMs": {"addBatch": 1, "triggerExecution": 500},
        "sources": [kafka, source({"version": 9}, {"version": 7}), source(None, "5"), source("x", "y")],
        "observedMetrics": {},
        "stateOperators": [],
    }
    (batch,) = Progress().new([entry])
    assert [s["behind"] for s in batch.sources] == [20, 2, None, None]
    assert batch.behind == 22
    assert "took 0.5 s" in line(batch, 1)
    assert "22 behind" in line(batch, 1)
    assert "lag" not in line(batch, 1)
    assert "lag_seconds" not in batch.to_dict()
    entry["sources"] = [source(None, None)]
    (batch,) = Progress().new([entry])
    assert batch.behind is None
    assert "behind" not in line(batch, 1)
