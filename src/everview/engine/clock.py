"""The clock of a database: stored, and only going on. What now() means in a view is what it says."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, TypeAlias

from everview.errors import ClockError

Moments: TypeAlias = Callable[[], datetime]
"""Who is asked what time it is."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def _of_this_machine() -> datetime:
    return datetime.now(UTC)


class Clock:
    """What time it is in a database: moved with every batch, and never back. Without a zone, times are in UTC."""

    def __init__(self, source: Moments | None = None) -> None:
        self.now: int | None = None
        """In microseconds since 1970; None before the first batch."""
        self.source = source or _of_this_machine

    def next(self, to: datetime | date | None = None) -> int:
        """What time it becomes: that which is given, or what the source says, unless the clock is further already."""
        if to is None:
            found = microseconds(self.source())
            return found if self.now is None else max(found, self.now)
        found = microseconds(to)
        if self.now is not None and found < self.now:
            raise ClockError(
                f"the clock stands at {shown(self.now)} and cannot go back to {shown(found)}; nothing has changed",
                hint="advance to a later time, or leave the time out: the clock then goes to the present, if that is "
                "later",
            )
        return found


def microseconds(moment: datetime | date) -> int:
    """A moment as a number."""
    if not isinstance(moment, datetime):
        if not isinstance(moment, date):
            raise ClockError(f"{moment!r} is no time", hint="give a datetime, or a date for its midnight, in UTC")
        moment = datetime.combine(moment, time())
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MICROSECOND


def moment_of(now: int) -> datetime:
    """A number as the moment that it is, in UTC."""
    return _EPOCH + now * _MICROSECOND


def shown(now: int) -> str:
    """A number as messages show it."""
    return f"{moment_of(now).replace(tzinfo=None)} UTC"
