"""What a Python process spends its time on: looked at every few milliseconds, at next to no cost."""

from __future__ import annotations

import signal
from collections.abc import Callable
from time import perf_counter
from types import FrameType, TracebackType

INTERVAL = 0.002


class Sampler:
    """Adds up wall time by what ``part_of`` says of the innermost file that it knows.

    Python hears of a signal when it is back from compiled code, in the frame that called it, and all the time since the
    last look is counted there: so a call that takes long counts in full. Of short calls each has its chance.
    """

    def __init__(self, part_of: Callable[[str], str | None]) -> None:
        self._part_of = part_of
        self._last = 0.0
        self._looks = False
        self.seconds: dict[str, float] = {}

    def _look(self, number: int, frame: FrameType | None) -> None:
        if self._looks:  # The next signal has come before the last one is counted.
            return
        self._looks = True
        now = perf_counter()
        part = None
        while frame is not None and part is None:
            part, frame = self._part_of(frame.f_code.co_filename), frame.f_back
        name = part or "other"
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = perf_counter()
        self._looks = False

    def __enter__(self) -> Sampler:
        self._before = signal.signal(signal.SIGALRM, self._look)
        self._last = perf_counter()
        signal.setitimer(signal.ITIMER_REAL, INTERVAL, INTERVAL)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)
