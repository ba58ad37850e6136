"""``everview run`` as a process: it stops on a signal, goes on from its checkpoint, and fails in few words."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from everview.spark.targets import named
from tests.spark.test_pipeline_run import clicks

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 1800.0
PIPELINE = """
name: clicks
sources: {clicks: {format: json, path: clicks, schema: "op STRING, who BIGINT, page STRING"}}
tables: {clicks: {source: clicks, change_type: {column: op, insert: c, delete: d}}}
views: {pages: "SELECT page, COUNT(*) AS n FROM clicks GROUP BY page"}
targets: {pages: "parquet:out"}
checkpoint: checkpoint
shards: 2
master: local[2]
conf: {spark.driver.extraJavaOptions: "-XX:TieredStopAtLevel=1"}
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    done = subprocess.run([ROOT / "scripts" / "java.sh"], check=True, capture_output=True, text=True)
    return {**os.environ, "JAVA_HOME": done.stdout.strip()}


def command(path: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "everview", "run", str(path), *options]


def events(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for row in process.stdout:
        yield json.loads(row)


def bag(folder: Path) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(r.values()) for r in named(f"parquet:{folder}/out").read_arrow().to_pylist())


def said(errors: str) -> list[str]:
    """The lines on standard error, but for those that tell that a busy machine made Spark give up at first."""
    return [line for line in errors.splitlines() if "the query is started again" not in line]


def test_signal_resume_and_failure(tmp_path: Path, environment: dict[str, str]) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(PIPELINE, encoding="utf-8")
    clicks(tmp_path, 1, ("c", 1, "a"), ("c", 2, "a"), ("c", 2, "b"))

    # It runs until it is told to stop: with SIGINT, after a batch.
    with subprocess.Popen(
        command(path, "--log", "json"), env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        watchdog = threading.Timer(PATIENCE, process.kill)
        watchdog.start()
        told = []
        for event in events(process):
            told.append(event)
            if event["event"] == "batch":
                os.kill(process.pid, signal.SIGINT)
        code = process.wait()
        watchdog.cancel()
        assert process.stderr is not None
        assert (code, said(process.stderr.read())) == (0, [])
    assert [t["event"] for t in told if t["event"] != "loading"] == ["start", "batch", "end"]
    assert told[-1] == {"event": "end", "reason": "stopped", "batches": 1, "rows": 3, "deltas": 2, "bad_rows": 0}
    assert bag(tmp_path) == Counter({("a", 2): 1, ("b", 1): 1})

    # Started again it goes on with the next batch, and tells of it in plain lines where there is no terminal.
    clicks(tmp_path, 2, ("d", 1, "a"), ("c", 3, "c"))
    run = command(path, "--trigger", "available_now")
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (done.returncode, said(done.stderr)) == (0, [])
    lines = [line for line in done.stdout.splitlines() if not line.startswith("first batch: ")]
    assert lines[0] == "clicks: starting Spark for pages"
    assert lines[2].startswith("batch 1 · 2 rows, ")
    assert lines[-1] == "done: 1 batches, 2 rows, 3 deltas"
    assert "\x1b" not in done.stdout
    assert bag(tmp_path) == Counter({("a", 1): 1, ("b", 1): 1, ("c", 1): 1})

    # A row that cannot be: the error is Everview's, and short.
    clicks(tmp_path, 3, ("d", 9, "nowhere"))
    done = subprocess.run(
        command(path, "--quiet"), env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 1
    assert done.stdout == ""
    first, *rest = said(done.stderr)
    assert first.startswith("everview: clicks failed: BadRowError: a row of clicks cannot be taken in")
    assert "nowhere" in first
    assert rest[-1].startswith("Spark's own log: ")
    assert len(rest) <= 3
    assert bag(tmp_path) == Counter({("a", 1): 1, ("b", 1): 1, ("c", 1): 1})
    Path(rest[-1].removeprefix("Spark's own log: ")).unlink()
