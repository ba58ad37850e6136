"""Queries that are started again when Spark has not waited long enough for one of its own Python processes.

When a query starts, the driver starts a Python process for each stateful operator and waits 10 seconds for it to
connect, which cannot be set. On a busy machine that is too short. Nothing has happened by then, so the query is started
again from its checkpoint.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import RLock
from time import monotonic
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.util import InheritableThread

log = logging.getLogger("everview.spark")

SIGN: Final = "Python worker failed to connect back"
"""What Spark says then."""
MOST_RESTARTS: Final = 3
_LOOK_MILLISECONDS: Final = 60_000


def restarting(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Start a query; if it fails as Spark's Python process was late, start it again, up to three times."""
    return _Restarting(start)


class _Restarting(StreamingQuery):
    """A query that stays the same object when it is started again."""

    def __init__(self, start: Callable[[], StreamingQuery]) -> None:
        self._start = start
        self._lock = RLock()
        self._restarts = 0
        self._stopped = False
        self._java: Any = start()._jsq
        InheritableThread(target=self._watch, name="everview-restarting", daemon=True).start()

    @property
    def _jsq(self) -> Any:
        """The query that runs now: everything else in the base class asks it."""
        with self._lock:
            if self._is_to_be_restarted():
                self._restart()
            return self._java

    def awaitTermination(self, timeout: int | None = None) -> bool | None:
        """Wait for the end, or for so many seconds; an end that is followed by a restart is none."""
        limit = None if timeout is None else monotonic() + timeout
        while True:
            java = self._jsq
            try:
                if limit is None:
                    java.awaitTermination()
                    return None
                return bool(java.awaitTermination(max(1, int((limit - monotonic()) * 1000))))
            except StreamingQueryException:
                if self._jsq is java:
                    raise

    def processAllAvailable(self) -> None:
        """Wait until everything that is there now has been taken in."""
        while True:
            java = self._jsq
            try:
                java.processAllAvailable()
                return
            except StreamingQueryException:
                if self._jsq is java:
                    raise

    def stop(self) -> None:
        """Stop it for good."""
        with self._lock:
            self._stopped = True
            self._java.stop()

    def _is_to_be_restarted(self) -> bool:
        if self._stopped or self._restarts == MOST_RESTARTS or self._java.isActive():
            return False
        error = self._java.exception()
        return bool(error.isDefined()) and SIGN in error.get().toString()

    def _restart(self) -> None:
        self._restarts += 1
        log.warning(
            "a Python process of Spark's did not connect within 10 seconds, as the machine is busy; "
            "the query is started again (%d of %d)",
            self._restarts,
            MOST_RESTARTS,
        )
        self._java = self._start()._jsq

    def _watch(self) -> None:
        """See to it also while nobody asks."""
        while True:
            java = self._java
            try:
                while not java.awaitTermination(_LOOK_MILLISECONDS):
                    pass
            except Exception:  # Whatever it has ended with, the next lines look at it.
                pass
            try:
                if self._jsq is java:
                    return
            except Exception:  # Spark itself has ended, or refuses a second start: whoever asks is told.
                return
