"""Cases that fail are made smaller, as long as they fail in the same way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.engine.case_data import Case, Row
from tests.engine.differential import run_case


def smaller(case: Case, patience: int = 400) -> Case:
    """A smaller case that fails in the same way, found by leaving out steps, operations and rows."""

    def fails(candidate: Case) -> str | None:
        try:
            run_case(candidate)
        except Exception as error:
            return type(error).__name__
        return None

    kind = fails(case)
    tries = 0
    progress = True
    while progress and tries < patience:
        progress = False
        for candidate in _candidates(case):
            tries += 1
            if tries > patience:
                break
            if fails(candidate) == kind:
                case, progress = candidate, True
                break
    return case


def _candidates(case: Case) -> Iterable[Case]:
    size = len(case.steps)
    for length in (4, 2, 1):
        for start in range(size - length, -1, -1):
            yield case.without(start, start + length)
    for i, step in enumerate(case.steps):
        for j, (op, name, rows) in enumerate(step.operations):
            others = step.operations[:j], step.operations[j + 1 :]
            if len(step.operations) > 1:
                yield _with(case, i, (*others[0], *others[1]))
            for k in range(len(rows) if len(rows) > 1 else 0):
                yield _with(case, i, (*others[0], (op, name, rows[:k] + rows[k + 1 :]), *others[1]))


def _with(case: Case, i: int, operations: tuple[tuple[str, str, tuple[Row, ...]], ...]) -> Case:
    steps = list(case.steps)
    steps[i] = replace(steps[i], operations=operations)
    return replace(case, steps=tuple(steps))


def fail_with(case: Case) -> None:
    """Report a failing case, made smaller."""
    small = smaller(case)
    try:
        run_case(small)
    except Exception as error:
        pytest.fail(f"{small.show()}\n\n{type(error).__name__}: {error}")
