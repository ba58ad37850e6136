"""Several processes share the tests, module by module: some begin at the front, others at the back, until they meet.

So all have work to the end, however long each module takes. ``scripts/test.sh`` starts them, each with
EVERVIEW_TEST_SHARE: "front:FOLDER" or "back:FOLDER", a folder in which a module is claimed by making a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

_SHARE = os.environ.pop("EVERVIEW_TEST_SHARE", None)
"""Taken out of the environment: a test that runs pytest itself runs all that it asks for."""
PROCESSES = ("tests/spark/", "tests/cli/")
"""Where tests start Spark and other processes, and often wait for them: at the front, where more than one begins."""


def shared_loop(session: pytest.Session) -> bool | None:
    """Run this process's share of the tests, as pytest's own loop would; None if nobody shares them."""
    if _SHARE is None or session.testsfailed or session.config.option.collectonly:
        return None
    items = claimed(session.items, *_SHARE.split(":", 1))
    item = next(items, None)
    while item is not None:
        following = next(items, None)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        item = following
    return True


def claimed(items: list[pytest.Item], end: str, folder: str) -> Iterator[pytest.Item]:
    """The tests of the modules that this process has claimed, each claimed when its turn has come."""
    by_module = [(name, list(found)) for name, found in groupby(items, key=lambda item: item.nodeid.split("::")[0])]
    by_module.sort(key=lambda module: not module[0].startswith(PROCESSES))
    for name, found in by_module if end == "front" else reversed(by_module):
        try:
            (Path(folder) / name.replace("/", "-")).touch(exist_ok=False)
        except FileExistsError:
            continue
        yield from found
