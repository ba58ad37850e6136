"""The memory limit of a database: what it may be, how the machine keeps it, and how it is refused to go beyond."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import pyarrow as pa

from everview.errors import MemoryLimitError
from everview.kernel.machine import Machine, UpdateFault

_LEFT: Final[ContextVar[int | None]] = ContextVar("everview_bytes_left", default=None)


@contextmanager
def within(left: int | None) -> Iterator[None]:
    """Let expressions make so many bytes of text at a time while a batch is applied; None: any number."""
    before = _LEFT.set(left)
    try:
        yield
    finally:
        _LEFT.reset(before)


def bytes_left() -> int | None:
    """How many bytes of text expressions may make at a time; None if there is no limit."""
    return _LEFT.get()


def checked_limit(limit: Any) -> int | None:
    """A memory limit that is one."""
    if limit is None:
        return None
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise MemoryLimitError(
            f"memory_limit is {limit!r}, which is no number of bytes",
            hint="pass an int, 1 or more, or None for no limit",
        )
    return limit


@contextmanager
def bounded(machine: Machine, more: int | None) -> Iterator[None]:
    """Let all units of a machine, with what is kept beside them, grow by so many bytes at most; None: by any number."""
    machine.beside_bytes = 0
    machine.memory_limit = None if more is None else machine.nbytes() + more
    try:
        yield
    finally:
        machine.memory_limit = None


def too_much(what: str, limit: int | None) -> MemoryLimitError:
    """The error to raise for what does not fit."""
    than = "there is" if limit is None else f"the limit of {limit:,} bytes"
    return MemoryLimitError(
        f"{what} needs more memory than {than}; nothing has changed",
        hint="raise memory_limit, or keep less in the tables",
    )


def is_of_memory(error: BaseException) -> bool:
    """True if there was no memory for something."""
    is_fault = isinstance(error, UpdateFault) and error.kind == "memory"
    return is_fault or isinstance(error, MemoryError | MemoryLimitError | pa.ArrowMemoryError)


def unfilled(view: str) -> MemoryLimitError:
    """What whoever needs a view is told that could not be filled again."""
    return MemoryLimitError(
        f"{view} has lost its rows: a batch was taken back, and there was no memory to fill the view again; tables and "
        "feeds are as they were before that batch",
        table=view,
        hint="free memory in this process: the view is filled when it is read, or when the next batch comes",
    )
