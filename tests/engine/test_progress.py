"""The line that shows progress: at a terminal, after a second, and gone at the end; else nothing at all."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from everview.engine import progress
from everview.engine.progress import Progress

SHORT = "from everview.engine import progress; progress.PATIENCE = {patience}; progress._PAUSE = 0.0\n"
WORK = {
    "filling": """
import everview as ev
db = ev.Database()
db.sql("CREATE TABLE t (k BIGINT, s STRING)")
db.insert("t", [(i, str(i % 7)) for i in range(70_000)])
db.sql("CREATE MATERIALIZED VIEW sevens AS SELECT s, COUNT(*) AS n FROM t GROUP BY s")
""",
    "updating": """
import everview as ev, everview.engine.direct.batch as direct, everview.engine.transaction as t
direct.MOST = t.MOST_AT_ONCE = 1_000
db = ev.Database()
db.sql("CREATE TABLE t (k BIGINT); CREATE MATERIALIZED VIEW v AS SELECT k FROM t")
db.insert("t", [(i,) for i in range(10_000)])
""",
    "reading": """
import everview as ev
db = ev.Database()
db.sql("CREATE TABLE t (k BIGINT); CREATE MATERIALIZED VIEW v AS SELECT k FROM t")
db.insert("t", [(i,) for i in range(70_000)])
db.view("v").to_arrow()
""",
    "loading": """
import everview as ev, sys, os
db = ev.Database()
db.sql("CREATE TABLE t (k BIGINT); CREATE MATERIALIZED VIEW v AS SELECT k FROM t")
db.insert("t", [(i,) for i in range(1_000)])
db.save("saved.everview")
ev.Database.load("saved.everview")
""",
}


def at_a_terminal(code: str, folder: Path, **environment: str) -> str:
    """What a program writes to stderr if that is a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", code], stderr=theirs, cwd=folder, env={**os.environ, **environment}
    ) as process:
        os.close(theirs)
        written = b""
        while True:
            try:
                part = os.read(ours, 65_536)
            except OSError:  # Linux says so when the other end is closed
                break
            if not part:
                break
            written += part
    os.close(ours)
    assert process.returncode == 0, written.decode()
    return written.decode()


@pytest.mark.slow
@pytest.mark.parametrize(("what", "work"), WORK.items(), ids=WORK)
def test_what_is_shown(what: str, work: str, tmp_path: Path) -> None:
    shown = at_a_terminal(SHORT.format(patience=0.0) + work, tmp_path)
    assert what in shown
    lines = shown.split("\r")
    assert lines[-1] == ""
    assert lines[-2].strip() == ""
    assert all(len(line) < 80 for line in lines)
    assert "\n" not in shown


def test_quick_work_shows_nothing(tmp_path: Path) -> None:
    assert at_a_terminal(WORK["loading"], tmp_path) == ""


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    code = SHORT.format(patience=0.0) + WORK["filling"]
    assert at_a_terminal(code, tmp_path, EVERVIEW_PROGRESS="0") == ""


def test_without_a_terminal(tmp_path: Path) -> None:
    code = SHORT.format(patience=0.0) + WORK["filling"]
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_it_waits_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    written: list[str] = []
    monkeypatch.setattr(progress, "monotonic", lambda: now)
    monkeypatch.setattr(progress, "_is_wanted", lambda: True)
    monkeypatch.setattr(progress, "_write", written.append)
    with Progress("sorting", 1_000) as outer:
        now += 0.9
        outer.add(100)
        assert written == []
        now += 0.1
        outer.add(400)
        assert written == ["\rsorting [############............]  50% of 1,000 rows, 1 s left"]
        with Progress("inner") as inner:
            now += 5
            inner.add(7)
        assert len(written) == 1
        now += 1
        outer.add(10_000)
        assert "100%" in written[-1]
    assert written[-1].strip() == ""
    with Progress("counting") as unknown:
        now += 2
        unknown.add(12_345)
    assert "\rcounting: 12,345 rows, 2 s" in written[-2]


@pytest.mark.parametrize("stderr", [None, object()])
def test_odd_places_of_stderr(monkeypatch: pytest.MonkeyPatch, stderr: object) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(sys, "stderr", stderr)
    with Progress("working") as shown:
        shown.add(1)
