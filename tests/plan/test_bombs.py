"""No short statement takes long or much memory to plan, explain, draw or define: it works, or is refused in words."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from everview.errors import SizeError
from everview.sql import parse_rules, parse_view
from tests.plan.bomb_family import statements
from tests.plan.bombs import BOMBS
from tests.sql.cases import schema

REFUSED = {
    "doubled sums",
    "doubled texts",
    "doubled joins",
    "doubled EXISTS",
    "product",
    "calls",
    "guards",
    "divisions",
}
NESTED = {"parentheses", "CASE", "calls of pure names"}
MOST_SECONDS = 20.0
"""Each of five ways to plan takes a few seconds at most on an idle machine."""


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_short_statements_are_planned_or_refused_quickly(name: str) -> None:
    assert len(BOMBS[name]) <= 4_000
    command = [sys.executable, "-m", "tests.plan.bombs", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert ("SizeError" in found["error"]) == (name in REFUSED), found
    assert ("SqlSyntaxError" in found["error"]) == (name in NESTED), found
    assert found["error"] == "" or name in REFUSED | NESTED
    assert found["seconds"] < MOST_SECONDS, found
    assert found["megabytes"] < 500, found


@pytest.mark.slow
def test_what_was_cut_is_said() -> None:
    from everview import explain

    verdict = explain(BOMBS["64 joined"], "CREATE TABLE e (a INT, b INT)")
    assert any("was cut" in note for note in verdict.notes)
    assert "or more" in str(verdict)


def test_size_errors_say_what_where_and_what_to_do() -> None:
    many = ", ".join(f"r x{i}" for i in range(101))
    with pytest.raises(SizeError, match="more than 100 relations are joined") as caught:
        parse_view(f"SELECT x0.a FROM {many}", schema())
    assert caught.value.column == len(f"SELECT x0.a FROM {many}") - len("r x100") + 1
    assert caught.value.hint is not None
    assert "a view of its own" in caught.value.hint
    parse_view(f"SELECT x0.a FROM {', '.join(f'r x{i}' for i in range(100))}", schema())
    goals = ", ".join(f"e(x{i})" for i in range(101))
    with pytest.raises(SizeError, match="the rule has 101 atoms") as refused:
        parse_rules(f"v(x0) :- {goals}.")
    assert refused.value.column == len(f"v(x0) :- {goals}") - len("e(x100)") + 1


HANDFUL = [
    "doubled UNION ALL of queries",
    "sum and difference",
    "doubled sum",
    "EXISTS in EXISTS",
    "many NOT IN",
]


@pytest.mark.slow
@pytest.mark.parametrize("shape", HANDFUL)
def test_a_handful_of_the_wide_family_keeps_the_limits(shape: str) -> None:
    command = [sys.executable, "-m", "tests.plan.bomb_family", shape, "--seconds", str(MOST_SECONDS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(f"{shape} of ") >= 3


@pytest.mark.slow
def test_the_family_is_of_short_statements() -> None:
    found = dict(statements())
    assert len(found) > 400
    assert max(map(len, found.values())) <= 2_000
