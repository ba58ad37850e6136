"""Spark's Python workers, of which each runs task after task."""

from __future__ import annotations

import gc
import os
from contextlib import suppress
from itertools import count

from pyspark import TaskContext

_tasks = count(1)


def _beginner() -> int:
    """Who began this worker: its parent, or, if that has died already, the head of its group, which Spark's daemon is.

    An orphan's parent is another process, with which nothing would ever end.
    """
    parent, group = os.getppid(), os.getpgrp()
    with suppress(OSError):
        if os.getpgid(parent) == group:
            return parent
    return group


PARENT = _beginner()
"""Found now: asked later, the parent may have died."""


def begin_task() -> TaskContext | None:
    """Where in a query this is, if in a worker of Spark's.

    After every task Spark has a worker look through all of its objects for garbage (daemon.py). Most of them are
    modules' own, and stay: half of a small batch's time in Python would be spent on looking at them again. So they
    are set aside, once everything is imported, which is when the second task begins.
    """
    context = TaskContext.get()
    if context is not None and next(_tasks) == 2:
        gc.collect()
        gc.freeze()
    return context
