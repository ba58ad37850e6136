"""Settings of all tests: random ones are the same each time, and the fast ones are marked ``unit`` (`make unit`).

A test is a unit test unless it is marked ``slow`` or ``soak``, or is one of those of Spark and of the command line,
most of which start processes. Random tests are unit tests, too: `make unit` runs a part of their cases
(``tests/scale.py``).
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from everview import redaction
from tests.scale import SCALE, scaled
from tests.sharing import PROCESSES, shared_loop

settings.register_profile(
    "default",
    deadline=None,
    derandomize=True,
    max_examples=scaled(100) if SCALE <= 1 else 100,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", deadline=None, max_examples=2_000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

MOST_SECONDS: Final = 15.0
"""Of processor time, for a unit test where random tests are cut down: ten times what one is to take."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even read what has no unit tests, if only they are asked for."""
    inside = collection_path.is_relative_to(config.rootpath)
    name = f"{collection_path.relative_to(config.rootpath).as_posix()}/" if inside else ""
    return True if config.option.markexpr == "unit" and name.startswith(PROCESSES) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the unit tests."""
    for item in items:
        others = any(item.iter_markers("slow")) or any(item.iter_markers("soak"))
        if not others and not item.nodeid.startswith(PROCESSES):
            item.add_marker("unit")


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Leave to the other process what it has claimed, where there is one."""
    return shared_loop(session)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Fail a unit test that has become a slow one: whoever waits for `make unit` is to wait for little."""
    before = _processor_time()
    yield
    used = _processor_time() - before
    if SCALE < 1 and any(item.iter_markers("unit")) and used > MOST_SECONDS:
        pytest.fail(f"a unit test takes 1.5 s, this took {used:.0f}: mark it slow, or scale it (tests/scale.py)")


def _processor_time() -> float:
    """Of this process and of those that it has waited for: how busy the machine is changes it little."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@pytest.fixture(autouse=True)
def no_secrets_of_other_tests() -> Iterator[None]:
    """What one test keeps secret, another may show."""
    yield
    redaction.forget()
