"""Random sessions of a generator of its own, and what it notices: faults that are planted on purpose."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from everview.errors import EverviewError
from tests.engine.independent import FAULTS, Session
from tests.scale import SCALE, scaled

SESSIONS = scaled(24)
FAULTY = 32
ENOUGH = 8
"""So many sessions with a fault tell whether faults are noticed."""


def test_sessions_are_right(tmp_path: Path) -> None:
    seen = Counter[str]()
    for seed in range(SESSIONS):
        session = Session(seed, tmp_path)
        try:
            session.run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        seen += session.seen
    for what in ("refused", "fed", "compared", "_reloaded", "_passing", "_upserted", "_wrong"):
        assert seen[what] >= SESSIONS // 4, (what, seen)
    assert seen["refused definitions"] or SCALE < 1, seen


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_noticed_in_most_cases(fault: str, tmp_path: Path) -> None:
    planted = noticed = 0
    for seed in range(FAULTY):
        session = Session(seed, tmp_path, faults=fault)
        try:
            session.run()
            failed = False
        except (AssertionError, EverviewError):
            failed = True
        assert session.planted or not failed, f"seed {seed} fails, and nothing was planted"
        planted += session.planted
        noticed += failed
        if planted == ENOUGH:
            break
    assert planted >= FAULTY // 10
    assert noticed > 0.6 * planted, (noticed, planted)
