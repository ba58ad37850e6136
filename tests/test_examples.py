"""Everything in examples/ runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import everview as ev
from everview.cli.embedded import example

EXAMPLES = Path(__file__).parent.parent / "examples"
TEXTS = sorted([*EXAMPLES.glob("*.sql"), *EXAMPLES.glob("*.rules")])


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.name)
def test_script_runs(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, encoding="utf-8", check=False, cwd="/"
    )
    assert (done.returncode, done.stderr) == (0, "")
    for text in TEXTS:
        assert text.name in done.stdout
    assert "update O(1)" in done.stdout


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: p.name)
def test_text_is_explained(path: Path) -> None:
    verdicts = ev.explain_all(path.read_text(encoding="utf-8"))
    assert len(verdicts) >= 4
    for verdict in verdicts:
        assert str(verdict)


@pytest.mark.parametrize("name", ["graph.sql", "shop.sql", "shop.yaml"])
def test_the_demo_has_the_same_scripts(name: str) -> None:
    assert (EXAMPLES / name).read_text(encoding="utf-8") == example(name)


def test_every_example_has_its_line() -> None:
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for path in EXAMPLES.iterdir():
        if path.name != "README.md":
            assert f"- `{path.name}`:" in listed
