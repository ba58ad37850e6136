"""Conditions on the clock: a row's time beside now() and what is added to that, and when they hold.

A row's time does not change, and the clock only goes on: so whether ``ts > now() - INTERVAL 7 DAYS`` holds for a row is
a matter of the clock alone, and can be said once and for all as spans of its time. Mostly it is one span; months make
several: one month before the 28th, 29th and 30th of March is the 28th of February, at the same time of day. All times
are microseconds since 1970, in UTC.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

EARLIEST: Final = -(2**63) + 1
"""Before all times; one less is the word of NULL."""
NEVER: Final = 2**63 - 1
"""After all times."""
DAY: Final = 86_400_000_000

_LENGTHS: Final = ((DAY, "day"), (DAY // 24, "hour"), (60_000_000, "minute"), (1_000_000, "second"), (1, "microsecond"))
_MONDAY: Final = 4 * DAY
"""The first one since 1970."""

Span = tuple[int, int]
"""From a moment on, up to another one, which is not in it."""


class Unit(Enum):
    """How a step changes a moment."""

    BEGIN = "begin"
    """It becomes the beginning of its day, or hour, or whatever has so many microseconds; weeks begin on Mondays."""
    BEGIN_OF_MONTHS = "begin of months"
    """It becomes the beginning of its month, quarter or year: of so many months."""
    MICROSECONDS = "microseconds"
    MONTHS = "months"
    """The same day of another month at the same time of day, or the last day of that month if it has no such day."""


_BEGINS: Final = (Unit.BEGIN, Unit.BEGIN_OF_MONTHS)


def first_begin(length: int) -> int:
    """When a day, an hour, or a week begins: one of the moments, all others are multiples of the length away."""
    return _MONDAY if length == 7 * DAY else 0


@dataclass(frozen=True, slots=True)
class Shift:
    """One step from the clock's time to what a row's time is compared with."""

    unit: Unit
    amount: int = 0

    def __str__(self) -> str:
        sign, size = ("-" if self.amount < 0 else "+"), abs(self.amount)
        if self.unit in (Unit.MONTHS, Unit.BEGIN_OF_MONTHS):
            each, name = 1, "month"
        else:
            each, name = next((each, name) for each, name in _LENGTHS if size % each == 0)
        number = "" if size == each and self.unit in _BEGINS else f"{size // each:,} "
        length = f"{number}{name}{'' if size == each else 's'}"
        return f" at the begin of its {length}" if self.unit in _BEGINS else f" {sign} {length}"


@dataclass(frozen=True, slots=True)
class ClockBound:
    """A row's time, the column at a place, compared with the clock's time after some shifts."""

    column: int
    operator: str
    """``<``, ``<=``, ``>`` or ``>=``: with the row's time on its left."""
    shifts: tuple[Shift, ...] = ()

    @property
    def is_end(self) -> bool:
        """True if the condition holds until some moment, and never again after it."""
        return self.operator in (">", ">=")

    @property
    def is_plain(self) -> bool:
        """True if there are no months in it, so that a later time of a row is never an earlier moment of the clock."""
        return all(shift.unit in (Unit.BEGIN, Unit.MICROSECONDS) for shift in self.shifts)

    def limit(self, moment: int) -> int:
        """The least time that the clock, shifted, must have reached for the condition to change, given a row's time."""
        return moment + 1 if self.operator in (">=", "<") else moment

    def spans(self, moment: int) -> list[Span]:
        """When the condition holds for a row of this time."""
        before = _before(self.shifts, self.limit(moment))
        return before if self.is_end else without([(EARLIEST, NEVER)], before)

    def end(self, moment: int) -> int:
        """After which moment of the clock it never holds again."""
        return max((end for _, end in self.spans(moment)), default=EARLIEST)

    def __str__(self) -> str:
        return f"{self.operator} now(){''.join(map(str, self.shifts))}"


def spans(bounds: Sequence[tuple[ClockBound, int]]) -> list[Span]:
    """When all conditions hold, each of them for a time of the row."""
    found: list[Span] = [(EARLIEST, NEVER)]
    for bound, moment in bounds:
        found = without(found, without([(EARLIEST, NEVER)], bound.spans(moment)))
    return found


def without(some: Sequence[Span], others: Sequence[Span]) -> list[Span]:
    """Spans less others; both are apart and in order."""
    found: list[Span] = []
    for begin, end in some:
        for first, last in others:
            if last <= begin or first >= end:
                continue
            if first > begin:
                found.append((begin, first))
            begin = max(begin, last)
        if begin < end:
            found.append((begin, end))
    return found


def _before(shifts: Sequence[Shift], limit: int) -> list[Span]:
    """When the clock, shifted, is before a limit."""
    found: list[Span] = [(EARLIEST, limit)]
    for shift in reversed(shifts):
        found = [span for begin, end in found for span in _coming_to(shift, begin, end)]
    return found


def _coming_to(shift: Shift, begin: int, end: int) -> Iterator[Span]:
    """The moments that one shift brings into a span."""
    ends, begins = _coming_before(shift, end), [] if begin == EARLIEST else _coming_before(shift, begin)
    yield from without(ends, begins)


def _coming_before(shift: Shift, limit: int) -> list[Span]:
    """The moments that one shift brings before a limit."""
    if shift.unit is Unit.MICROSECONDS:
        return [(EARLIEST, limit - shift.amount)]
    if shift.unit is Unit.BEGIN:
        first = first_begin(shift.amount)
        return [(EARLIEST, -(-(limit - first) // shift.amount) * shift.amount + first)]
    if shift.unit is Unit.BEGIN_OF_MONTHS:
        year, month, _ = date_of((limit - 1) // DAY)
        begun = year * 12 + month
        return [(EARLIEST, first_of(begun - begun % shift.amount + shift.amount) * DAY)]
    return _months_before(shift.amount, limit)


def _months_before(months: int, limit: int) -> list[Span]:
    """The moments that so many months bring before a limit.

    Several days come to the last one of a shorter month: on each of them what is later in the day than the limit is not
    before it. No day comes to the last ones of a longer month.
    """
    day, time = divmod(limit, DAY)
    year, month, of_month = date_of(day)
    source = year * 12 + month - months
    length, target = days_in(source), days_in(year * 12 + month)
    if of_month > length:
        return [(EARLIEST, first_of(source + 1) * DAY)]
    first = first_of(source) + of_month - 1
    last = first_of(source) + length - 1 if of_month == target else first
    later = [(each * DAY, each * DAY + time) for each in range(first + 1, last + 1)] if time else []
    return [(EARLIEST, first * DAY + time), *later]


def date_of(day: int) -> tuple[int, int, int]:
    """The year, the month from 0, and the day of the month, of a day since 1970, in any year."""
    shifted = day + 719_468
    era, of_era = divmod(shifted, 146_097)
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    of_month = of_year - (153 * month + 2) // 5 + 1
    month = month + 2 if month < 10 else month - 10
    return era * 400 + year + (1 if month < 2 else 0), month, of_month


def first_of(month: int) -> int:
    """The first day, since 1970, of a month, counted from that of the year 0."""
    year, of_year = divmod(month, 12)
    shifted = year - (1 if of_year < 2 else 0)
    era, of_era = divmod(shifted, 400)
    place = of_year - 2 if of_year >= 2 else of_year + 10
    of_years = of_era * 365 + of_era // 4 - of_era // 100 + (153 * place + 2) // 5
    return era * 146_097 + of_years - 719_468


def days_in(month: int) -> int:
    """How many days a month has."""
    return first_of(month + 1) - first_of(month)
