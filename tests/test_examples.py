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
    assert printed(path)


def printed(path: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, encoding="utf-8", check=False, cwd="/"
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_every_text_is_in_the_table() -> None:
    shown = printed(EXAMPLES / "explain_views.py")
    for text in TEXTS:
        assert text.name in shown
    assert "update O(1)" in shown


def test_the_dial_changes_costs_and_not_the_result() -> None:
    lines = [line.split() for line in printed(EXAMPLES / "dial.py").splitlines() if line.startswith("epsilon ")]
    assert [line[1] for line in lines] == ["0", "1/4", "1/2", "1"]
    assert len({line[-2] for line in lines}) == 1
    heavy = [int(line[line.index("heavy") - 1]) for line in lines]
    assert heavy == sorted(heavy, reverse=True)
    assert heavy[0] > heavy[-1] == 0


def test_an_edge_between_hubs_is_in_as_many_triangles_as_they_share_neighbours() -> None:
    shown = printed(EXAMPLES / "triangles.py")
    assert "ivm-eps-triangle" in shown
    lines = [line.split(": ")[1] for line in shown.splitlines() if "the edge between the hubs" in line]
    counts = [int(line.split()[0].replace(",", "")) for line in lines]
    assert counts == [counts[0], counts[0] + 3 * 1_000, counts[0]]
    assert not shown.splitlines()[-1].startswith("0 heavy keys")


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


def test_the_road_network_is_as_sql_says_it() -> None:
    lines = printed(EXAMPLES / "roads.py").splitlines()
    kept = [line.split("; ")[1] for line in lines if line.endswith(" lonely") and "; " in line]
    assert len(kept) == 5
    assert lines[-1] == f"asked afresh: {kept[-1]}"
    assert any("has 5 neighbours or more, and may have 4; nothing has changed" in line for line in lines)
