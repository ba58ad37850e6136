"""Rows that come and go by the clock, each when its time says so: ``WHERE ts > now() - INTERVAL 7 DAYS``.

A row's time says once and for all from when on it is there and until when (``query.clock``). All rows that are not gone
yet stand in one queue, in the order in which the clock will have something to do with them: to let them in, or, once
they are in, to let them go. So the clock looks only at what is due, and a row costs O(log N) for each of the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.clock import Clock
from everview.engine.operators.counts import Columns, Fold, Kept
from everview.engine.operators.select import Select
from everview.engine.operators.sides import OneSide, pieces_of
from everview.engine.operators.steps import CHUNK
from everview.engine.values.dictionary import NULL, Dictionary
from everview.engine.values.rows import Changes, WordRows, negated, repeated, zeros
from everview.kernel.program import Order
from everview.programs.counts import Ranked
from everview.programs.link import Linker
from everview.query.clock import DAY, EARLIEST, NEVER, ClockBound, Span, Unit, first_begin, spans
from everview.query.terms import Var
from everview.query.types import BIGINT, Kind
from everview.query.view import Timed

BY_CLOCK = -1
"""The number of the update that changes what the clock does."""
_NULL, _DAY = pa.scalar(NULL, pa.int64()), pa.scalar(DAY, pa.int64())
_DUE, _END = 0, 1
"""The first two columns of the queue: when there is something to do, and when the row goes.

They are equal if the row is in. Of a row that does not come again, and is not over yet, the second is EARLIEST: it only
stands there so that its table can let go of it.
"""


class TimedRows(OneSide):
    """Rows of a relation, of which those are there whose time it is."""

    source: Select
    needs_deltas = True
    is_net_per_update = False
    keeps_update_numbers = False

    def __init__(self, source: Select, timed: Timed, dictionary: Dictionary, linker: Linker) -> None:
        super().__init__(source)
        self.timed = timed
        self.width = len(timed.columns)
        self.clock = Clock()
        """The database's own, once there is one."""
        types = [BIGINT, BIGINT, *(c.type for c in timed.columns)]
        self.queue = Fold(types, 1, dictionary, linker, ranked=Ranked(Order((_DUE,), 0), 0, 1))
        self.gone: list[WordRows] = []
        """Rows that the clock has let go, for whoever wants to know whether their table can, too."""

    @property
    def now(self) -> int:
        """What time it is."""
        return EARLIEST if self.clock.now is None else self.clock.now

    @property
    def folds(self) -> tuple[Kept, ...]:
        """The queue."""
        return (self.queue, *super().folds)

    def identifies_inputs(self, implied: Mapping[str, frozenset[int]]) -> bool:
        """A row may go by itself."""
        return False

    def process(self, changes: Changes) -> WordRows:
        """Take in updates; gives those of rows whose time it is."""
        delta = WordRows.concat(pieces_of(self.source, changes), self.source.width)
        if not len(delta):
            return WordRows.empty(self.width)
        place, begin, end = self._spans([delta.columns[b.column] for b in self.timed.bounds])
        rows = delta.take(place)
        rows = rows.with_columns(rows.columns[: self.width])
        now = pa.scalar(self.now, pa.int64())
        ahead = pc.greater(pc.max_element_wise(begin, end), now)
        begin, end, rows = begin.filter(ahead), end.filter(ahead), rows.filter(ahead)
        is_in = pc.less_equal(begin, now)  # Of a row that does not come again this is when it is over.
        self._put(pc.if_else(is_in, end, begin), end, rows.columns, rows.weight)
        return rows.filter(is_in)

    def moved(self) -> WordRows:
        """The clock has gone on: gives the rows that come, and those that go, by that."""
        now = pa.scalar(self.now, pa.int64())
        found: list[WordRows] = []
        for columns, (copies,) in list(self._due()):
            due, end = columns[_DUE], columns[_END]
            rows = WordRows(columns[2:], copies, repeated(BY_CLOCK, len(copies)))
            was_in, is_in = pc.equal(due, end), pc.greater(end, now)
            self._put(due, end, rows.columns, negated(copies))
            entering = rows.filter(is_in)
            self._put(end.filter(is_in), end.filter(is_in), entering.columns, entering.weight)
            found += [rows.filter(was_in).negated(), entering]
            self.gone.append(rows.filter(pc.invert(is_in)))
        return WordRows.concat(found, self.width)

    def is_due(self, now: int) -> bool:
        """True if there is something to do by then."""
        first = next(self.queue.from_rank((), 0, 1), None)
        return first is not None and int(first[0][_DUE][0].as_py()) <= now

    def _due(self) -> Iterator[tuple[Columns, Columns]]:
        """What stands at the front of the queue, as far as it is due."""
        for columns, copies in self.queue.from_rank((), 0, CHUNK):
            is_due = pc.less_equal(columns[_DUE], pa.scalar(self.now, pa.int64()))
            due = int(pc.sum(is_due).as_py() or 0)  # They are in this order.
            if due:
                yield tuple(c.slice(0, due) for c in columns), tuple(c.slice(0, due) for c in copies)
            if due < len(is_due):
                return

    def _put(self, due: pa.Array, end: pa.Array, columns: Columns, weight: pa.Array) -> None:
        if len(weight):
            self.queue.add((due, end, *columns), (weight,))
            self.queue.settle()

    def _spans(self, times: Sequence[pa.Array]) -> tuple[pa.Array, pa.Array, pa.Array]:
        """The spans in which some rows are there: their rows' places, when they begin and when they end.

        A row that is over later than its last span ends has a further one, which begins then, and ends before all time.
        Without a time a row is never there, and never over.
        """
        times = [self._moments(b, c) for b, c in zip(self.timed.bounds, times, strict=True)]
        if not self._is_plain:
            return self._single_spans(times)
        size = len(times[0])
        begin, end = repeated(EARLIEST, size), repeated(NEVER, size)
        for bound, moments in zip(self.timed.bounds, times, strict=True):
            changes = _changing(bound, moments)
            if bound.is_end:
                end = pc.min_element_wise(end, changes, skip_nulls=False)
            else:
                begin = pc.max_element_wise(begin, changes, skip_nulls=False)
        is_never = pc.and_(pc.greater_equal(begin, end), pc.less(end, pa.scalar(NEVER, pa.int64())))
        begin, end = pc.if_else(is_never, end, begin), pc.if_else(is_never, pa.scalar(EARLIEST, pa.int64()), end)
        places = pc.indices_nonzero(pc.is_valid(pc.add(begin, end))).cast(pa.int64())
        return places, begin.take(places), end.take(places)

    def _single_spans(self, times: Sequence[pa.Array]) -> tuple[pa.Array, pa.Array, pa.Array]:
        """The same, time by time, as months may make several spans of one."""
        known: dict[tuple[int | None, ...], list[tuple[int, int]]] = {}
        found: list[tuple[int, int, int]] = []
        for place, moments in enumerate(zip(*(t.to_pylist() for t in times), strict=True)):
            if moments not in known:
                given = [(b, m) for b, m in zip(self.timed.bounds, moments, strict=True) if m is not None]
                known[moments] = _with_its_end(given) if len(given) == len(moments) else []
            found += [(place, begin, end) for begin, end in known[moments]]
        places, begins, ends = zip(*found, strict=True) if found else ((), (), ())
        return pa.array(places, pa.int64()), pa.array(begins, pa.int64()), pa.array(ends, pa.int64())

    @cached_property
    def _is_plain(self) -> bool:
        return all(b.is_plain for b in self.timed.bounds)

    def _moments(self, bound: ClockBound, words: pa.Array) -> pa.Array:
        """A column's times in microseconds; of those that are NULL, nothing."""
        known = pc.if_else(pc.equal(words, _NULL), pa.scalar(None, pa.int64()), words)
        is_date = self.timed.body.outputs[bound.column].type.kind is Kind.DATE
        return pc.multiply(known, _DAY) if is_date else known

    # --- rows that are of no use any more ---------------------------------------------------------------------------

    @cached_property
    def is_whole(self) -> bool:
        """True if its rows are those of its relation, with all columns: none is looked for by others, or left out."""
        (atom,) = self.timed.body.atoms
        shown = [o.expression.term for o in self.timed.body.outputs[: self.width]]
        return not self.timed.body.predicates and shown == list(atom.terms) and len(set(shown)) == len(shown)

    @cached_property
    def ends(self) -> bool:
        """True if rows go for good some time after theirs."""
        return any(b.is_end for b in self.timed.bounds)

    def is_over(self, changes: Changes) -> pa.Array:
        """Of some rows of its relation those that have gone for good, whether they were ever there or not."""
        ((_, columns, fits),) = self.source.core.atom_inputs(changes)
        (entry,) = self.source.core.maintained.entries
        words = dict(zip(entry.atom_inputs[0].variables, columns, strict=True))
        over = pa.repeat(False, len(changes))
        for bound in self.timed.bounds:
            term = self.timed.body.outputs[bound.column].expression.term
            if not bound.is_end or not isinstance(term, Var):
                continue
            moments = self._moments(bound, words[term])
            if bound.is_plain:
                ends = _changing(bound, moments)
            else:
                each = {m: bound.end(m) for m in set(moments.to_pylist()) if m is not None}
                ends = pa.array([each.get(m) for m in moments.to_pylist()], pa.int64())
            is_past = pc.fill_null(pc.less_equal(ends, pa.scalar(self.now, pa.int64())), False)
            over = pc.or_(over, is_past)
        return pc.and_(over, pc.not_equal(fits, pa.scalar(0, pa.int64())))

    # --- answers ---------------------------------------------------------------------------------------------------

    def rows(self, *, partly: bool = False) -> Iterator[WordRows]:
        """The rows whose time it is."""
        for columns, (copies,) in self.queue.rows():
            rows = WordRows(columns[2:], copies, zeros(len(copies)))
            yield rows.filter(pc.equal(columns[_DUE], columns[_END]))


def _with_its_end(given: Sequence[tuple[ClockBound, int]]) -> list[Span]:
    """The spans of a row, and one more that only says when it is over, if that is later."""
    found = spans(given)
    over = min((b.end(m) for b, m in given if b.is_end), default=NEVER)
    is_later = over < NEVER and (not found or found[-1][1] < over)
    return [*found, (over, EARLIEST)] if is_later else found


def _changing(bound: ClockBound, moments: pa.Array) -> pa.Array:
    """When a condition without months changes for some times: from then on it holds no longer, or it begins to."""
    found = pc.add(moments, pa.scalar(bound.limit(0), pa.int64()))
    for shift in reversed(bound.shifts):
        if shift.unit is Unit.BEGIN:
            length, first = pa.scalar(shift.amount, pa.int64()), pa.scalar(first_begin(shift.amount), pa.int64())
            begun = pc.subtract(pc.subtract(found, first), pa.scalar(1, pa.int64()))
            whole = pc.divide(begun, length)  # It is cut towards zero.
            whole = pc.if_else(pc.less(begun, pc.multiply(whole, length)), pc.subtract(whole, 1), whole)
            found = pc.add(pc.multiply(pc.add(whole, 1), length), first)
        else:
            found = pc.subtract(found, pa.scalar(shift.amount, pa.int64()))
    return found
