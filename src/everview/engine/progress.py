"""One line that says how far a long piece of work is; for people who wait at a terminal, and nobody else."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from time import monotonic
from types import TracebackType
from typing import ClassVar, Final

PATIENCE: Final = 1.0
"""Seconds before anything is shown: most work is done by then."""

_PAUSE = 0.1  # seconds between two drawings
_BAR = 24  # characters


class Progress:
    """Counts work that is done, ``total`` of it if that is known; a line on stderr shows it and is wiped at the end.

    Shows nothing if stderr is no terminal or EVERVIEW_PROGRESS is 0. Of several at once, only the first to show itself
    does. ``add`` costs a look at the clock.
    """

    _shown: ClassVar[Progress | None] = None

    def __init__(self, what: str, total: int | None = None, unit: str = "rows") -> None:
        self._what = what
        self._total = total
        self._unit = unit
        self.done = 0
        """How much is done."""
        self._began = monotonic()
        self._next = self._began + PATIENCE
        self._width = 0

    def add(self, done: int) -> None:
        """So much more is done."""
        self.done += done
        now = monotonic()
        if now >= self._next:
            self._next = now + _PAUSE
            self._draw(now)

    def _draw(self, now: float) -> None:
        if Progress._shown not in (None, self) or not _is_wanted():
            return
        Progress._shown = self
        line = self._line(now - self._began)[: _columns() - 1]
        padding = " " * (self._width - len(line))
        self._width = len(line)
        _write(f"\r{line}{padding}")

    def _line(self, seconds: float) -> str:
        if not self._total:
            return f"{self._what}: {self.done:,} {self._unit}, {seconds:.0f} s"
        part = min(1.0, self.done / self._total)
        bar = ("#" * round(part * _BAR)).ljust(_BAR, ".")
        left = f", {seconds / part - seconds:.0f} s left" if part else ""
        return f"{self._what} [{bar}] {part:4.0%} of {self._total:,} {self._unit}{left}"

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """The work is over, well or not: wipe the line."""
        if Progress._shown is self:
            Progress._shown = None
            _write(f"\r{' ' * self._width}\r")


def _is_wanted() -> bool:
    if os.environ.get("EVERVIEW_PROGRESS") == "0" or sys.stderr is None:
        return False
    with suppress(Exception):  # whatever somebody has put in the place of stderr
        return bool(sys.stderr.isatty())
    return False


def _columns() -> int:
    with suppress(Exception):
        return max(20, os.get_terminal_size(sys.stderr.fileno()).columns or 80)
    return 80


def _write(text: str) -> None:
    with suppress(Exception):  # a terminal that went away must not end the work
        sys.stderr.write(text)
        sys.stderr.flush()
