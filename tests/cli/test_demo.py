"""``everview demo``: the shop's changes are the same each time, and Spark's job makes of them what Spark SQL does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from everview.cli.shop import STEPS, TABLES, Shop, Step

ROOT = Path(__file__).parent.parent.parent
GOES = ("d", "u-")


def row(change: dict[str, object]) -> tuple[object, ...]:
    return tuple(v for k, v in change.items() if k != "op")


def test_the_shop_is_the_same_each_time() -> None:
    assert list(Shop().steps()) == list(Shop().steps())
    assert list(Shop(seed=8).steps()) != list(Shop().steps())


def test_the_shop_never_takes_away_what_is_not_there() -> None:
    there: dict[str, Counter[tuple[object, ...]]] = {t: Counter() for t in TABLES}
    shop = Shop()
    steps: list[Step] = list(shop.steps())
    for step in steps:
        for table, changes in step.items():
            for change in changes:
                there[table][row(change)] += -1 if change["op"] in GOES else 1
                assert there[table][row(change)] >= 0
    assert len(steps) == STEPS + 1
    assert {c["op"] for step in steps for changes in step.values() for c in changes} == {"c", "d", "u-", "u+"}
    assert sum(there["orders"].values()) == len(shop.orders)
    assert [t for t, changes in steps[-1].items() if changes] == ["products"], "the last step is one batch for sure"
    assert "is corrected from" in shop.last


@pytest.mark.slow
def test_the_demo_on_spark() -> None:
    java = subprocess.run([ROOT / "scripts" / "java.sh"], check=True, capture_output=True, text=True).stdout.strip()
    done = subprocess.run(
        [sys.executable, "-m", "everview", "demo"],
        env={**os.environ, "JAVA_HOME": java},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(re.findall(r"(?m)^batch \d+ · [\d,]+ rows, [\d,]+/s · ", done.stdout)) >= 3
    assert re.findall(r"(?m)^  (\w+) +[\d,]+ rows  equal: yes$", done.stdout) == ["revenue", "to_send", "gardeners"]
    assert "update_preimage" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 122
    assert "\x1b" not in done.stdout
    shown = (ROOT / "README.md").read_text(encoding="utf-8").partition("$ make demo\n")[2].partition("```")[0]
    result = done.stdout[done.stdout.index("revenue: ") : done.stdout.index("\nNext: ")]
    assert result in shown, "the README shows another result: make docs ARGS=--demo"
    verdicts = done.stdout[: done.stdout.index("\nStarting Spark")]
    assert verdicts in shown
