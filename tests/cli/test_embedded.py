"""``everview demo --embedded``: the verdicts differ, the refusal is shown, and every view is in the table."""

from __future__ import annotations

import time
from io import StringIO

import pytest

from everview.cli.embedded import SCRIPTS, example, run_embedded
from everview.cli.main import main

VIEWS = {
    "hops": "any updates",
    "star": "any updates",
    "three_hops": "FIFO, inserts",
    "watched_paths": "inserts",
    "reachable": "–",
    "triangles": "–",
    "order_value": "any updates",
    "revenue_by_city": "any updates",
    "buyers": "any updates",
    "products": "any updates",
}


@pytest.fixture(scope="module")
def shown() -> str:
    out = StringIO()
    start = time.perf_counter()
    assert run_embedded(out) == 0
    assert time.perf_counter() - start < 600
    return out.getvalue()


def test_progress_and_every_view(shown: str) -> None:
    total = len(VIEWS) + 1
    for number, name in enumerate(VIEWS, start=1):
        assert f"\n{number}/{total} {name}\n" in shown


@pytest.mark.parametrize(("view", "constant"), VIEWS.items())
def test_table(shown: str, view: str, constant: str) -> None:
    table = shown[shown.index("All of them") :]
    (row,) = [line for line in table.splitlines() if line.startswith(f"{view} ")]
    assert row.rstrip().endswith(constant)


def test_kinds_differ(shown: str) -> None:
    table = shown[shown.index("All of them") :]
    for kind in ("q-hierarchical", "free-connex", "acyclic", "cyclic", "refused: non-deterministic"):
        assert kind in table


def test_refusal_has_its_place_and_hint(shown: str) -> None:
    assert "refused: rand gives another value each time" in shown
    assert "(at line 7, column 7)" in shown
    assert "hint: " in shown


def test_lines_fit_a_terminal(shown: str) -> None:
    assert max(map(len, shown.splitlines())) <= 122


def test_command(capsys: pytest.CaptureFixture[str], shown: str) -> None:
    assert main(["demo", "--embedded"]) == 0
    assert capsys.readouterr().out.partition("Now live")[0] == shown.partition("Now live")[0]


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_come_with_the_package(script: str) -> None:
    assert "CREATE MATERIALIZED VIEW" in example(script)


def test_the_views_live(shown: str) -> None:
    live = shown[shown.index("Now live") :]
    counts = [line.split() for line in live.splitlines() if line[:5].strip().isdigit()]
    assert [row[0] for row in counts] == [str(i) for i in range(1, 11)]
    assert all(int(cell.replace(",", "")) > 0 for cell in counts[-1])
    assert "'_change_type': " in live
