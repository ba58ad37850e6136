"""When a condition on the clock holds: the spans that are computed, against the condition itself at many moments."""

from __future__ import annotations

import operator
from calendar import monthrange
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest

from everview.engine.operators.timed import _changing
from everview.query.clock import DAY, ClockBound, Shift, Unit, date_of, days_in, first_of, spans
from tests.scale import scaled

HOUR = DAY // 24
OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def shifted(moment: int, shift: Shift) -> int:
    """By Python's calendar."""
    if shift.unit is Unit.MICROSECONDS:
        return moment + shift.amount
    time = EPOCH + timedelta(microseconds=moment)
    midnight = time.replace(hour=0, minute=0, second=0, microsecond=0)
    if shift.unit is Unit.BEGIN:
        begin = {
            DAY: midnight,
            HOUR: time.replace(minute=0, second=0, microsecond=0),
            7 * DAY: midnight - timedelta(days=time.weekday()),
        }[shift.amount]
        return (begin - EPOCH) // timedelta(microseconds=1)
    month = time.year * 12 + time.month - 1
    month = month - month % shift.amount if shift.unit is Unit.BEGIN_OF_MONTHS else month + shift.amount
    if shift.unit is Unit.BEGIN_OF_MONTHS:
        time = midnight.replace(day=1)
    year, of_year = divmod(month, 12)
    day = min(time.day, monthrange(year, of_year + 1)[1])
    return (time.replace(year=year, month=of_year + 1, day=day) - EPOCH) // timedelta(microseconds=1)


def a_bound(random: Random) -> ClockBound:
    def shift() -> Shift:
        unit = random.choice(list(Unit))
        amount = {
            Unit.MICROSECONDS: random.choice((-9, -1, 5, 40)) * 6 * HOUR + random.choice((0, 1)),
            Unit.MONTHS: random.randint(-14, 14),
            Unit.BEGIN: random.choice((HOUR, DAY, 7 * DAY)),
            Unit.BEGIN_OF_MONTHS: random.choice((1, 3, 12)),
        }
        return Shift(unit, amount[unit])

    return ClockBound(0, random.choice(list(OPERATORS)), tuple(shift() for _ in range(random.randint(0, 3))))


def holds(bound: ClockBound, moment: int, now: int) -> bool:
    for shift in bound.shifts:
        now = shifted(now, shift)
    return bool(OPERATORS[bound.operator](moment, now))


@pytest.mark.parametrize("seed", range(scaled(5)))
def test_spans_are_when_the_condition_holds(seed: int) -> None:
    random = Random(seed)
    for _ in range(60):
        bounds = [a_bound(random) for _ in range(random.choice((1, 1, 2)))]
        moments = [19_000 * DAY + random.randint(0, 3_600) * 6 * HOUR + random.choice((0, 1, -1)) for _ in bounds]
        found = spans(list(zip(bounds, moments, strict=True)))
        assert all(begin < end for begin, end in found)
        assert all(a[1] <= b[0] for a, b in pairwise(found))
        edges = [edge + more for span in found for edge in span if abs(edge) < 2**57 for more in (-1, 0, 1)]
        tried = [19_000 * DAY + random.randint(-1_600, 6_000) * 6 * HOUR for _ in range(30)]
        for now in edges + tried:
            wanted = all(holds(b, m, now) for b, m in zip(bounds, moments, strict=True))
            assert any(begin <= now < end for begin, end in found) == wanted, (bounds, moments, now)
            if any(b.is_end and now >= b.end(m) for b, m in zip(bounds, moments, strict=True)):
                assert not wanted


def test_many_times_at_once_as_one_by_one() -> None:
    random = Random(4)
    tried = 0
    while tried < 60:
        bound = a_bound(random)
        if not bound.is_plain:
            continue
        tried += 1
        moments = [random.randint(-3 * 10**4, 3 * 10**4) * DAY // random.choice((1, 7)) for _ in range(20)]
        for moment, changes in zip(moments, _changing(bound, pa.array(moments, pa.int64())).to_pylist(), strict=True):
            ((begin, end),) = bound.spans(moment)
            assert changes == (end if bound.is_end else begin), (bound, moment)


def test_calendar() -> None:
    for day in range(-140_000, 2_930_000, 7_919):
        time = (EPOCH + timedelta(days=day)).date()
        assert date_of(day) == (time.year, time.month - 1, time.day)
        month = time.year * 12 + time.month - 1
        assert first_of(month) == day - time.day + 1
        assert days_in(month) == monthrange(time.year, time.month)[1]


def test_as_text() -> None:
    shifts = (Shift(Unit.BEGIN, DAY), Shift(Unit.MONTHS, -1), Shift(Unit.MICROSECONDS, 90 * 60 * 10**6))
    assert str(ClockBound(0, ">", shifts)) == "> now() at the begin of its day - 1 month + 90 minutes"
    assert str(ClockBound(0, "<", (Shift(Unit.BEGIN_OF_MONTHS, 3),))) == "< now() at the begin of its 3 months"
