"""What is wrong with a pipeline file is said before Spark starts, at its place: bad_pipelines/*.yaml say how."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from everview.cli.main import main
from everview.errors import PipelineError
from everview.spark.pipeline.plan import plan
from everview.spark.pipeline.read import load

BAD = sorted((Path(__file__).parent / "bad_pipelines").glob("*.yaml"))
MARK = "#! "


@pytest.mark.parametrize("path", BAD, ids=lambda p: p.stem)
def test_refusal(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    lines = path.read_text(encoding="utf-8").splitlines()
    wanted = [line.removeprefix(MARK) for line in lines if line.startswith(MARK)]
    with pytest.raises(PipelineError) as refused:
        plan(load(Path(path.name)))
    assert str(refused.value).replace(f"{path.parent}/", "").splitlines() == wanted


def test_there_are_many() -> None:
    assert len(BAD) >= 40


def test_command_refuses_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    path = next(p for p in BAD if p.stem == "unknown_key")
    assert main(["run", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "unknown_key.yaml: there is no key target (at line " in printed.err
    assert "did you mean targets" in printed.err


def test_no_such_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["run", str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--shards", "0"], "--shards: 0 is too small"),
        (["--shards", "many"], "--shards: a whole number is wanted"),
        (["--trigger", "now"], "--trigger: 'now' is neither available_now"),
    ],
)
def test_bad_options(option: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    example = Path(__file__).parent.parent.parent / "examples" / "shop.yaml"
    assert main(["run", str(example), "--dry-run", *option]) == 2
    assert said in capsys.readouterr().err


def test_no_java(tmp_path: Path) -> None:
    example = Path(__file__).parent.parent.parent / "examples" / "shop.yaml"
    command = [sys.executable, "-m", "everview", "run", str(example)]
    for environment in ({"PATH": str(tmp_path)}, {"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path)}):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert "Spark needs Java 17 or later, and none was found" in done.stderr
        assert "apt-get install openjdk-17-jre-headless" in done.stderr
        assert "Traceback" not in done.stderr


def test_java_that_is_too_old(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    example = Path(__file__).parent.parent.parent / "examples" / "shop.yaml"
    command = [sys.executable, "-m", "everview", "run", str(example)]
    done = subprocess.run(command, env={"JAVA_HOME": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"{java} is Java 8" in done.stderr


def test_spark_that_does_not_start(tmp_path: Path) -> None:
    example = Path(__file__).parent.parent.parent / "examples" / "shop.yaml"
    java = subprocess.run([example.parent.parent / "scripts" / "java.sh"], check=True, capture_output=True, text=True)
    command = [sys.executable, "-m", "everview", "run", str(example), "--master", "nowhere", "--quiet"]
    environment = {**os.environ, "JAVA_HOME": java.stdout.strip(), "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("everview: PipelineError: Spark did not start with master nowhere: ")
    assert len(done.stderr.splitlines()) == 2, done.stderr
