"""A grouped block at work: counts and sums by group, further aggregates, HAVING and output columns (crown.md 9)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.accumulators import SLOT_BYTES, Accumulator, accumulator_for
from everview.engine.beyond import Beyond, Group, Place, refusal
from everview.engine.core import CoreRuntime, Measure
from everview.engine.dictionary import NULL, Dictionary
from everview.engine.expressions import Condition, Evaluator
from everview.engine.extremes import Extremes, has_order
from everview.engine.fold import Columns, Fold, Kept
from everview.engine.plain import Projection, flips
from everview.engine.rows import ZERO, Changes, Journal, WordRows, ones, repeated, zeros
from everview.engine.sums import Slot, result, slots_of
from everview.engine.words import arrow_type, from_words, to_words
from everview.plan.core_plan import CorePlan
from everview.plan.cores import is_summed
from everview.query.conjunctive import Semantics
from everview.query.terms import Expression, Term, Var
from everview.query.types import DataType
from everview.query.view import Aggregate, Block, Grouping, Output


class GroupedBlock:
    """SELECT … GROUP BY …, and global aggregates: one group over everything, which is always there."""

    def __init__(
        self,
        block: Block,
        plans: Sequence[CorePlan],
        relations: Mapping[str, tuple[DataType, ...]],
        dictionary: Dictionary,
    ) -> None:
        assert block.grouping is not None
        self.grouping: Grouping = block.grouping
        self.dictionary = dictionary
        self.width = len(block.outputs)
        self.slots = slots_of(block)
        ring = [Measure(s, i) for s in self.slots if s.atom is not None for i in range(s.limbs)]
        self.core = CoreRuntime(plans[0], ring, relations, dictionary)
        keys = [Output(str(k), k) for k in self.grouping.keys]
        self.projection = Projection(keys, self.core, dictionary)
        self.posted = tuple(dict.fromkeys(s.argument for s in self.slots if s.atom is None))
        self.measures = 1 + sum(s.limbs for s in self.slots)
        self.groups = Fold([k.type for k in self.grouping.keys], self.measures, dictionary)
        listed = [a for a in self.grouping.aggregates if not is_summed(a)]
        self.listed: list[Listed] = [
            (Extremes if has_order(a) else _Accumulated)(
                a, self.grouping, CoreRuntime(p, (), relations, dictionary), dictionary
            )
            for a, p in zip(listed, plans[1:], strict=True)
        ]
        self.finish = _Finish(block, self.slots, dictionary)
        self.needs_deltas = self.core.plan.folds_rows or self.finish.may_fail
        """True unless the core's own rows are the groups, with all that is asked of them, and always have values."""
        self.fold = Fold([o.type for o in block.outputs], 1, dictionary) if block.distinct else None
        self.evaluator = Evaluator(self.posted) if self.posted else None
        self.beyond = Beyond()
        self.is_watched = False
        """True once a sum has come near its limit: from then on every changed group is looked at."""

    is_positional = False

    @property
    def tells_updates(self) -> bool:
        """True if sums are all there is: what lists values knows only a batch's first and last."""
        return not self.listed

    def listen(self, loud: bool) -> None:
        """Give what changes from now on, or stop; a changed group's old values must be known for that."""
        if loud == self.core.awake or self.is_watched:
            return
        for core in self.cores:
            if loud:
                core.wake()
            else:
                core.sleep()
        if not self.needs_deltas:
            self.groups.let_go()
            for words, measures in self._core_groups() if loud else ():
                self.groups.add(words, measures, Journal())
            self.groups.settle()

    def _core_groups(self) -> Iterator[tuple[Columns, Columns]]:
        """The groups as the core lists them."""
        for columns, measures in self.core.scan():
            rows = WordRows(columns, measures[0], zeros(len(measures[0])))
            yield self.projection(rows).columns, self._changes(rows, measures)

    @property
    def cores(self) -> tuple[CoreRuntime, ...]:
        """The core of the groups, and one for each aggregate that needs its own."""
        return (self.core, *(a.core for a in self.listed))

    @property
    def folds(self) -> tuple[Kept, ...]:
        """The groups, the values of aggregates, and distinct rows."""
        further = [f for a in self.listed for f in a.folds]
        return (self.groups, *further, *((self.fold,) if self.fold else ()))

    def process(self, changes: Changes, journal: Journal) -> WordRows:
        """Take in updates; changed groups come out as the old row taken away and the new one added."""
        for core in self.cores:
            core.apply(changes, journal)
        if not self.core.awake:
            alarm = self.core.alarm()
            if alarm is not None:
                self._watch(changes.place(alarm), journal)
            return WordRows.empty(self.width)
        columns, measures, update = self.core.take(changes)
        rows = WordRows(columns, measures[0], update)
        mask = self.projection.passing(rows)
        if mask is not None:
            rows, measures = rows.filter(mask), tuple(m.filter(mask) for m in measures)
        if not len(rows) and not any(a.core.has_news for a in self.listed):
            return WordRows.empty(self.width)
        keyed = self.projection(rows)
        apart = changes.apart and self.tells_updates
        add = self.groups.trace if apart else self.groups.add
        steps = add(keyed.columns, self._changes(rows, measures), journal)
        words, old, new = touched = self.groups.touched()
        self.groups.settle(touched)
        count = len(old[0])
        listed = [a.process(changes, journal, words, count) for a in self.listed]
        if steps is None:
            found = self.finish.both(words, old, new, listed)
            position = repeated(changes.rows.update[0].as_py() if len(changes) else 0, count)
        else:
            found = self.finish.both(keyed.columns, *steps, [])
            position = keyed.update
        if self.beyond.groups or found.beyond:
            now = self.finish(words, new, [after for _, after in listed])
            self.beyond.update(_tuples(words, count), now.beyond, partial(_place, changes, keyed), journal)
        delta = _difference(found, position)
        if steps is not None:
            delta = delta.in_order()
        return delta if self.fold is None else flips(self.fold, delta, journal, apart=apart)

    def _watch(self, place: Place, journal: Journal) -> None:
        """From now on look at every changed group, and now at all of them; they are those of the core itself."""
        self.listen(True)
        self.is_watched = True
        journal.add(self._watch_no_more)
        for words, measures in self.groups.rows():
            found = self.finish(words, measures, [])
            if found.beyond:
                self.beyond.update(_tuples(words, len(measures[0])), found.beyond, lambda _: place, journal)

    def _watch_no_more(self) -> None:
        self.is_watched = False
        self.listen(False)

    def _changes(self, rows: WordRows, measures: Columns) -> Columns:
        """The change of the count and of every limb of every slot."""
        summed = iter(measures[1:])
        values: dict[Expression, pa.Array] = {}
        if self.evaluator is not None:
            found = self.evaluator(self.projection.values(rows, self.evaluator.variables), len(rows))
            values = dict(zip(self.posted, found, strict=True))
        changes = [rows.weight]
        for slot in self.slots:
            if slot.atom is not None:
                changes += [next(summed) for _ in range(slot.limbs)]
            else:
                changes += [pc.multiply_checked(limb, rows.weight) for limb in slot.split(values[slot.argument])]
        return tuple(changes)

    def rows(self) -> Iterator[WordRows]:
        """All groups."""
        if self.fold is not None:
            for columns, measures in self.fold.rows():
                yield WordRows(columns, pc.cast(pc.greater(measures[0], ZERO), pa.int64()), zeros(len(measures[0])))
            return
        empty = True
        for words, measures in self.groups.rows() if self.needs_deltas else self._core_groups():
            empty = False
            yield self._finished(words, measures)
        if empty and not self.grouping.keys:
            yield self._finished((), tuple(zeros(1) for _ in range(self.measures)))

    def _finished(self, words: Columns, measures: Columns) -> WordRows:
        length = len(measures[0])
        found = self.finish(words, measures, [a.results(words, length) for a in self.listed])
        for aggregate, _ in found.beyond:
            raise refusal(aggregate)
        weight = pa.repeat(pa.scalar(1, pa.int64()), len(found.there))
        return WordRows(found.columns, weight, zeros(len(found.there))).filter(found.there)

    def seed(self, journal: Journal) -> None:
        """A global aggregate has a row before any input: a DISTINCT over it must know."""
        if self.fold is not None and not self.grouping.keys:
            first = self._finished((), tuple(zeros(1) for _ in range(self.measures)))
            flips(self.fold, first, journal)


class Listed(Protocol):
    """An aggregate with a core of its own, which lists the values of each group."""

    core: CoreRuntime

    @property
    def folds(self) -> tuple[Kept, ...]:
        """What it keeps in machines."""

    def process(self, changes: Changes, journal: Journal, words: Columns, length: int) -> tuple[pa.Array, pa.Array]:
        """Take in what has changed; gives the results that some groups had before, and have now."""

    def results(self, words: Columns, length: int) -> pa.Array:
        """The aggregate's values for some groups."""

    def rebuild(self) -> None:
        """Make what is not in machines, after a load."""

    def nbytes(self) -> int:
        """The memory that it takes beside its machines."""


class _Accumulated:
    """An aggregate whose values go into accumulators, one a group."""

    def __init__(self, aggregate: Aggregate, grouping: Grouping, core: CoreRuntime, dictionary: Dictionary) -> None:
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
        self.values = Fold([o.type for o in outputs], 1, dictionary) if as_set else None

    @property
    def folds(self) -> tuple[Fold, ...]:
        """The distinct values, where only those count."""
        return () if self.values is None else (self.values,)

    def nbytes(self) -> int:
        """What the accumulators take, by estimate."""
        return self._bytes

    def process(self, changes: Changes, journal: Journal, words: Columns, length: int) -> tuple[pa.Array, pa.Array]:
        """Bring the accumulators up to date; gives the results that some groups had before, and have now."""
        columns, measures, update = self.core.take(changes)
        delta = self.projection.passed(WordRows(columns, measures[0], update))
        if self.values is not None:
            delta = flips(self.values, delta, journal)
        before = self._add(delta, journal)
        groups = _tuples(words, length)
        was = [before[g] if g in before else self._result(g) for g in groups]
        now = self.results(words, length)
        self.forget_empty(groups)
        return self._array(was), now

    def _array(self, results: list[Any]) -> pa.Array:
        return pa.array(results, arrow_type(self.aggregate.type))

    def _add(self, delta: WordRows, journal: Journal) -> dict[Group, Any]:
        before: dict[Group, Any] = {}
        values = from_words(delta.columns[-1], self.type, self.dictionary).to_pylist()
        groups = _tuples(delta.columns[:-1], len(delta))
        weights = delta.weight.to_pylist()
        for group, value, weight in zip(groups, values, weights, strict=True):
            state = self._state(group)
            if group not in before:
                before[group] = state.result()
                self._bytes -= state.nbytes()
            state.add(value, weight)
        self._bytes += sum(self.states[g].nbytes() for g in before)
        journal.add(lambda: self._take_back(groups, values, weights))
        return before

    def _take_back(self, groups: list[Group], values: list[Any], weights: list[int]) -> None:
        touched = set(groups)
        self._bytes -= sum(self._state(g).nbytes() for g in touched)
        for group, value, weight in zip(groups, values, weights, strict=True):
            self.states[group].add(value, -weight)
        self._bytes += sum(self.states[g].nbytes() for g in touched)
        self.forget_empty(groups)

    def _state(self, group: Group) -> Accumulator:
        """A group's accumulator, made if there is none."""
        state = self.states.get(group)
        if state is None:
            state = self.states[group] = self.make()
            self._bytes += state.nbytes() + self._group_bytes
        return state

    def results(self, words: Columns, length: int) -> pa.Array:
        """The aggregate's values for some groups."""
        return self._array([self._result(g) for g in _tuples(words, length)])

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
                self._add(rows, Journal())
        if self.values is not None:
            for columns, measures in self.values.rows():
                self._add(
                    WordRows(columns, pa.repeat(pa.scalar(1), len(measures[0])), zeros(len(measures[0]))), Journal()
                )
        self.forget_empty(list(self.states))


def _place(changes: Changes, keyed: WordRows, group: Group) -> Place:
    """The last update that changed a group."""
    mask = pa.repeat(pa.scalar(True), len(keyed))
    for column, key in zip(keyed.columns, group, strict=True):
        mask = pc.and_(mask, pc.equal(column, key))
    last = pc.max(keyed.update.filter(mask)).as_py()
    return changes.place(0 if last is None else last - changes.rows.update[0].as_py())


@dataclass(frozen=True)
class _Rows:
    """Output rows of groups, whether each is in the result, and which aggregates are beyond their type where."""

    columns: Columns
    there: pa.Array
    beyond: list[tuple[Aggregate, pa.Array]]
    computed: Columns
    """Those of the columns that are no keys, and so may change while the group stays."""


@dataclass
class _Finish:
    """From a group's words, measures and listed results to its output row, and whether it is in the result."""

    block: Block
    slots: Sequence[Slot]
    dictionary: Dictionary
    _having: Condition | None = field(init=False)
    _outputs: Evaluator = field(init=False)
    _keys: dict[int, int] = field(init=False)
    """Which outputs are keys as they are: they stay words, and nobody looks at their values."""
    _places: dict[Var, list[tuple[str, int, int]]] = field(init=False, default_factory=dict)
    """For each aggregate the kinds of sums it is made of, and which measures have their limbs."""

    def __post_init__(self) -> None:
        grouping = self.block.grouping
        assert grouping is not None
        self.grouping = grouping
        self._having = Condition([grouping.having]) if grouping.having else None
        places: dict[tuple[Term | None, DataType], int] = {
            (v, k.type): i for i, (v, k) in enumerate(zip(grouping.key_names, grouping.keys, strict=True))
        }
        shown = {i: (o.expression.term, o.type) for i, o in enumerate(self.block.outputs)}
        self._keys = {i: places[term, type_] for i, (term, type_) in shown.items() if (term, type_) in places}
        computed = [o for i, o in enumerate(self.block.outputs) if i not in self._keys]
        self._outputs = Evaluator([o.expression for o in computed])
        self._types = [o.type for o in computed]
        self._read = {*self._outputs.variables, *(self._having.variables if self._having else ())}
        ends = list(accumulate((s.limbs for s in self.slots), initial=1))
        kept = list(zip(self.slots, ends, ends[1:], strict=False))
        for v, aggregate in zip(grouping.aggregate_names, grouping.aggregates, strict=True):
            self._places[v] = [(s.kind, first, last) for s, first, last in kept if s.argument == aggregate.argument]

    @property
    def may_fail(self) -> bool:
        """True if there may be groups that HAVING or an output has no value for."""
        types = {v: k.type for v, k in zip(self.grouping.key_names, self.grouping.keys, strict=True)}
        for v, aggregate in zip(self.grouping.aggregate_names, self.grouping.aggregates, strict=True):
            types[v] = aggregate.type
        return self._outputs.may_fail(types) or (self._having is not None and self._having.may_fail(types))

    def __call__(self, words: Columns, measures: Columns, listed: Sequence[pa.Array]) -> _Rows:
        length = len(measures[0])
        values: dict[Var, pa.Array] = {}
        for v, key, column in zip(self.grouping.key_names, self.grouping.keys, words, strict=True):
            if v in self._read:
                values[v] = from_words(column, key.type, self.dictionary)
        further = iter(listed)
        beyond: list[tuple[Aggregate, pa.Array]] = []
        for v, aggregate in zip(self.grouping.aggregate_names, self.grouping.aggregates, strict=True):
            if is_summed(aggregate):
                values[v], much = result(aggregate, measures[0], self._sums(v, measures))
                if much is not None:
                    beyond.append((aggregate, much))
            else:
                values[v] = next(further)
        there = pc.greater(measures[0], ZERO) if self.grouping.keys else pa.repeat(pa.scalar(True), length)
        if self._having is not None:
            there = pc.and_(there, self._having(values, length, there))
        arrays = self._outputs(values, length, there)
        computed = tuple(to_words(a, t, self.dictionary) for a, t in zip(arrays, self._types, strict=True))
        rest = iter(computed)
        columns = tuple(words[self._keys[i]] if i in self._keys else next(rest) for i in range(len(self.block.outputs)))
        return _Rows(columns, there, beyond, computed)

    def both(self, words: Columns, old: Columns, new: Columns, listed: Sequence[tuple[pa.Array, pa.Array]]) -> _Rows:
        """The rows of some groups before a change, and then those after it: all at once, which costs half as much."""
        twice = tuple(pa.concat_arrays([column, column]) for column in words)
        measures = tuple(pa.concat_arrays(pair) for pair in zip(old, new, strict=True))
        return self(twice, measures, [pa.concat_arrays(pair) for pair in listed])

    def _sums(self, name: Var, measures: Columns) -> dict[str, Columns]:
        """The limbs of the sums that an aggregate is made of."""
        return {kind: measures[first:last] for kind, first, last in self._places[name]}


def _difference(both: _Rows, update: pa.Array) -> WordRows:
    """Of rows before and then after: old ones taken away, new ones added, nothing where both are there and the same."""
    count = len(update)
    was, now = both.there.slice(0, count), both.there.slice(count)
    same = pc.and_(was, now)
    for column in both.computed:
        same = pc.and_(same, pc.equal(column.slice(0, count), column.slice(count)))
    other = pc.invert(same)
    mask = pa.concat_arrays([pc.and_(was, other), pc.and_(now, other)])
    weight = pa.concat_arrays([repeated(-1, count), ones(count)])
    return WordRows(both.columns, weight, pa.concat_arrays([update, update])).filter(mask)


def _tuples(columns: Columns, length: int) -> list[Group]:
    return list(zip(*(c.to_pylist() for c in columns), strict=True)) if columns else [()] * length
