"""Aggregates that have a core and state of their own: one accumulator a group, filled with values as they change."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from everview.engine.expressions.parked import Group
from everview.engine.operators.aggregates.accumulators import SLOT_BYTES, Accumulator, accumulator_for
from everview.engine.operators.aggregates.sums import Result, in_type
from everview.engine.operators.counts import Columns, Fold, Kept
from everview.engine.operators.join import Join
from everview.engine.operators.select import Projection, flips
from everview.engine.operators.steps import explained
from everview.engine.values.dictionary import NULL, Dictionary
from everview.engine.values.rows import Changes, WordRows, zeros
from everview.engine.values.words import from_words
from everview.kernel.machine import UpdateFault
from everview.programs.link import Linker
from everview.query.conjunctive import Semantics
from everview.query.view import Aggregate, Grouping, Output


class Valued(Protocol):
    """An aggregate with a core of its own, which lists the values of each group."""

    core: Join
    projection: Projection

    @property
    def folds(self) -> tuple[Kept, ...]:
        """What it keeps in units."""

    def delta(self, changes: Changes) -> WordRows:
        """The groups' words and values that updates, which the core has taken in, have changed."""

    def rebuild(self) -> None:
        """Make what is not in units, after a load."""

    def nbytes(self) -> int:
        """The memory that it takes beside its units."""


class Listed(Valued, Protocol):
    """One of these that knows its value for a group by itself."""

    def process(self, delta: WordRows, words: Columns, length: int) -> tuple[Result, Result]:
        """Take in what has changed; gives the results that some groups had before, and have now."""

    def results(self, words: Columns, length: int) -> Result:
        """The aggregate's values for some groups."""


class Accumulated:
    """An aggregate whose values go into accumulators, one a group."""

    def __init__(
        self, aggregate: Aggregate, grouping: Grouping, core: Join, dictionary: Dictionary, linker: Linker
    ) -> None:
        assert aggregate.argument is not None
        self.aggregate = aggregate
        self.core = core
        self.dictionary = dictionary
        self.keys = len(grouping.keys)
        outputs = [Output(str(e), e) for e in (*grouping.keys, aggregate.argument)]
        self.projection = Projection(outputs, core, dictionary)
        self.type = aggregate.argument.type
        self.make = accumulator_for(aggregate)
        self.states: dict[Group, Accumulator] = {}
        self._bytes = 0
        self._group_bytes = SLOT_BYTES + sys.getsizeof((0,) * self.keys) + self.keys * sys.getsizeof(NULL)
        as_set = core.plan.query.semantics is Semantics.SET
        self.values = Fold([o.type for o in outputs], 1, dictionary, linker) if as_set else None

    @property
    def folds(self) -> tuple[Fold, ...]:
        """The distinct values, where only those count."""
        return () if self.values is None else (self.values,)

    def nbytes(self) -> int:
        """What the accumulators take, by estimate."""
        return self._bytes

    def delta(self, changes: Changes) -> WordRows:
        """The groups' words and values that updates, which the core has taken in, have changed."""
        columns, measures, update = self.core.take(changes)
        return self.counting(self.projection.passed(WordRows(columns, measures[0], update), changes))

    def counting(self, delta: WordRows) -> WordRows:
        """What counts of the values that have changed: with DISTINCT, those that come first and go last."""
        return delta if self.values is None else flips(self.values, delta)

    def process(self, delta: WordRows, words: Columns, length: int) -> tuple[Result, Result]:
        """Bring the accumulators up to date; gives the results that some groups had before, and have now."""
        before = self._add(delta)
        groups = _tuples(words, length)
        was = [before[g] if g in before else self._result(g) for g in groups]
        now = self.results(words, length)
        self.forget_empty(groups)
        return in_type(was, self.aggregate), now

    def _add(self, delta: WordRows) -> dict[Group, Any]:
        had = self._bytes
        try:
            before = self._counted(delta)
        except BaseException:  # some of them are counted
            self.core.part.whole.lose_log()
            raise
        machine, nbytes = self.dictionary.machine, sum(c.nbytes for c in (*delta.columns, delta.weight, delta.update))
        machine.on_roll_back_of(self.core.part.whole, partial(self._take_back, delta.negated()), nbytes)
        try:
            machine.grow_beside(self._bytes - had)
        except UpdateFault as fault:
            raise explained(fault) from fault
        return before

    def _counted(self, delta: WordRows) -> dict[Group, Any]:
        """Count values in or out; gives the results that their groups had before."""
        before: dict[Group, Any] = {}
        values = from_words(delta.columns[-1], self.type, self.dictionary).to_pylist()
        groups = _tuples(delta.columns[:-1], len(delta))
        for group, value, weight in zip(groups, values, delta.weight.to_pylist(), strict=True):
            state = self._state(group)
            if group not in before:
                before[group] = state.result()
                self._bytes -= state.nbytes()
            state.add(value, weight)
        self._bytes += sum(self.states[g].nbytes() for g in before)
        return before

    def _take_back(self, delta: WordRows) -> None:
        self.forget_empty(list(self._counted(delta)))

    def _state(self, group: Group) -> Accumulator:
        """A group's accumulator, made if there is none."""
        state = self.states.get(group)
        if state is None:
            state = self.states[group] = self.make()
            self._bytes += state.nbytes() + self._group_bytes
        return state

    def results(self, words: Columns, length: int) -> Result:
        """The aggregate's values for some groups."""
        return in_type([self._result(g) for g in _tuples(words, length)], self.aggregate)

    def _result(self, group: Group) -> Any:
        state = self.states.get(group)
        return (state or self.make()).result()

    def forget_empty(self, groups: Sequence[Group]) -> None:
        """Drop accumulators without values; a group that is gone leaves nothing behind."""
        for group in groups:
            state = self.states.get(group)
            if state is not None and state.is_empty():
                self._bytes -= state.nbytes() + self._group_bytes
                del self.states[group]

    def rebuild(self) -> None:
        """Fill the accumulators from the core, after a load."""
        self.states.clear()
        self._bytes = 0
        for columns, measures in self.core.scan():
            rows = self.projection.passed(WordRows(columns, measures[0], zeros(len(measures[0]))))
            if self.values is None:
                self._add(rows)
        if self.values is not None:
            for columns, measures in self.values.rows():
                self._add(WordRows(columns, pa.repeat(pa.scalar(1), len(measures[0])), zeros(len(measures[0]))))
        self.forget_empty(list(self.states))


def _tuples(columns: Columns, length: int) -> list[Group]:
    return list(zip(*(c.to_pylist() for c in columns), strict=True)) if columns else [()] * length
