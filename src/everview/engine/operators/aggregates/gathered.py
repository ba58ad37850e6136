"""Aggregates that are read from all values of a group in their order: lists, texts, percentiles, the most frequent.

The kernel keeps each group's values in order, with their copies, as it does for the first rows of a partition. So an
update takes O(log n), and what is read then as long as it is: O(log n) for a percentile, and the group for a list.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import accumulate
from typing import assert_never

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.expressions.parked import Group
from everview.engine.operators.aggregates.sums import Result
from everview.engine.operators.counts import Columns, Fold
from everview.engine.operators.join import Join
from everview.engine.operators.select import Projection, flips
from everview.engine.operators.steps import CHUNK
from everview.engine.values.dictionary import NULL, Dictionary
from everview.engine.values.rows import Changes, WordRows
from everview.engine.values.words import arrow_type, from_words, is_wide, ordered_words
from everview.kernel.program import Order
from everview.programs.counts import Ranked
from everview.programs.link import Linker
from everview.query.aggregates import Gathered, Reading
from everview.query.conjunctive import Semantics
from everview.query.types import BIGINT, Kind
from everview.query.view import Aggregate, Grouping, Output

_NULL = pa.scalar(NULL, pa.int64())
_FLOATS = (Kind.FLOAT, Kind.DOUBLE)


class GatheredValues:
    """The values of one aggregate's argument, by group and in order; NULL is none of them."""

    def __init__(
        self, aggregate: Aggregate, grouping: Grouping, core: Join, dictionary: Dictionary, linker: Linker
    ) -> None:
        made = aggregate.function.made
        assert aggregate.argument is not None
        assert isinstance(made, Gathered)
        self.core = core
        self.dictionary = dictionary
        self.aggregate = aggregate
        self.reading = made.reading
        self.type = aggregate.argument.type
        self.is_turned, *parameters = [p.value for p in aggregate.parameters] or [False]
        self.separator = str(parameters[0]) if self.reading is Reading.TEXT else ""
        self.percentages = [float(str(p)) for p in parameters] if self.reading is not Reading.TEXT else []
        outputs = [Output(str(e), e) for e in (*grouping.keys, aggregate.argument)]
        self.projection = Projection(outputs, core, dictionary)
        keys = [k.type for k in grouping.keys]
        width = len(keys)
        as_set = core.plan.query.semantics is Semantics.SET and self.reading is not Reading.SET
        self.values = Fold([o.type for o in outputs], 1, dictionary, linker) if as_set else None
        order = Order(tuple(range(width + 1)), 0, (width,) if is_wide(self.type) else ())
        types = [*keys, BIGINT if self.type.kind in _FLOATS else self.type]
        self.kept = Fold(types, 1, dictionary, linker, ranked=Ranked(order, width, 1))
        self.totals = Fold(keys, 1, dictionary, linker)

    @property
    def folds(self) -> tuple[Fold, ...]:
        """The values in order, how many each group has, and the distinct ones, where only those count."""
        return (self.kept, self.totals, *(() if self.values is None else (self.values,)))

    def delta(self, changes: Changes) -> WordRows:
        """The groups' words and values that updates, which the core has taken in, have changed."""
        columns, measures, update = self.core.take(changes)
        return self.counting(self.projection.passed(WordRows(columns, measures[0], update), changes))

    def counting(self, delta: WordRows) -> WordRows:
        """What counts of the values that have changed: no NULL, and with DISTINCT those that come first and go last."""
        delta = delta.filter(pc.not_equal(delta.columns[-1], _NULL))
        return delta if self.values is None else flips(self.values, delta)

    def process(self, delta: WordRows, words: Columns, length: int) -> tuple[Result, Result]:
        """Take in what has changed; gives the results that some groups had before, and have now."""
        before = self.results(words, length)
        if not len(delta):
            return before, before
        *keys, values = delta.columns
        for fold, columns in ((self.kept, (*keys, ordered_words(values, self.type))), (self.totals, tuple(keys))):
            fold.add(columns, (delta.weight,))
            fold.settle()
        return before, self.results(words, length)

    def results(self, words: Columns, length: int) -> Result:
        """The aggregate's values for some groups."""
        groups: list[Group] = list(zip(*(c.to_pylist() for c in words), strict=True)) if words else [()] * length
        match self.reading:
            case Reading.ARRAY | Reading.SET:
                return self._arrays(groups), None
            case Reading.TEXT:
                return self._texts(groups), None
            case Reading.MOST_FREQUENT:
                return self._typed([self._most_frequent(group) for group in groups]), None
            case Reading.BETWEEN:
                return self._for_each_percentage(self._between(groups), len(groups)), None
            case Reading.ELEMENT:
                return self._for_each_percentage(self._elements(groups), len(groups)), None
            case _:
                assert_never(self.reading)

    # --- one after the other -----------------------------------------------------------------------------------------

    def _in_order(self, group: Group) -> Iterator[tuple[pa.Array, pa.Array]]:
        """A group's values, as words, with their copies."""
        for columns, (copies,) in self.kept.from_rank(group, 0, CHUNK):
            yield columns[-1], copies

    def _listed(self, group: Group) -> pa.Array:
        """All of a group's values as words, each as often as it counts."""
        found = []
        for values, copies in self._in_order(group):
            if self.reading is Reading.SET or pc.max(copies).as_py() == 1:
                found.append(values)
            else:
                places = [i for i, n in enumerate(copies.to_pylist()) for _ in range(n)]
                found.append(values.take(pa.array(places, pa.int64())))
        listed = pa.concat_arrays(found) if found else pa.array([], pa.int64())
        return listed[::-1] if self.is_turned else listed

    def _values_of(self, words: pa.Array) -> pa.Array:
        return from_words(ordered_words(words, self.type), self.type, self.dictionary)

    def _arrays(self, groups: list[Group]) -> pa.Array:
        listed = [self._listed(group) for group in groups]
        values = self._values_of(pa.concat_arrays([pa.array([], pa.int64()), *listed]))
        offsets = pa.array([0, *accumulate(map(len, listed))], pa.int32())
        return pa.ListArray.from_arrays(offsets, values).cast(arrow_type(self.aggregate.type))

    def _texts(self, groups: list[Group]) -> pa.Array:
        found: list[str | None] = []
        for group in groups:
            values = self._values_of(self._listed(group))
            if self.type.kind is Kind.STRUCT:
                values = pc.struct_field(values, 1)
            found.append(self.separator.join(values.to_pylist()) if len(values) else None)
        return pa.array(found, pa.string())

    def _most_frequent(self, group: Group) -> int | None:
        most, found = 0, None
        for values, copies in self._in_order(group):
            for value, count in zip(values.to_pylist(), copies.to_pylist(), strict=True):
                if count > most or (count == most and self.is_turned):
                    most, found = count, value
        return found

    # --- by rank -----------------------------------------------------------------------------------------------------

    def _total(self, group: Group) -> int:
        found = self.totals.measures_of(group)
        return 0 if found is None else found[0]

    def _at(self, group: Group, rank: int, total: int) -> int:
        """The word of the value with so many before it."""
        for columns, _ in self.kept.from_rank(group, total - 1 - rank if self.is_turned else rank, 1):
            return int(columns[-1][0].as_py())
        raise AssertionError(f"of {total} values there is none after {rank}")

    def _elements(self, groups: list[Group]) -> pa.Array:
        words: list[int | None] = []
        for group in groups:
            total = self._total(group)
            for percentage in self.percentages:
                rank = max(1, math.ceil(percentage * total)) - 1
                words.append(self._at(group, rank, total) if total else None)
        return self._typed(words)

    def _between(self, groups: list[Group]) -> pa.Array:
        low: list[int | None] = []
        high: list[int | None] = []
        way: list[tuple[float, float]] = []
        for group in groups:
            total = self._total(group)
            for percentage in self.percentages:
                position = percentage * (total - 1)
                below, above = math.floor(position), math.ceil(position)
                low.append(self._at(group, below, total) if total else None)
                high.append(self._at(group, above, total) if total and above != below else low[-1])
                way.append((above - position, position - below))
        found: list[float | None] = []
        for first, last, (to_first, to_last) in zip(self._doubles(low), self._doubles(high), way, strict=True):
            if first is None or last is None or first == last:
                found.append(first)
            else:
                found.append(to_first * first + to_last * last)
        return pa.array(found, pa.float64())

    def _doubles(self, words: list[int | None]) -> list[float | None]:
        return [None if v is None else float(v) for v in self._typed(words, as_result=False).to_pylist()]

    def _typed(self, words: list[int | None], *, as_result: bool = True) -> pa.Array:
        """Values of words that are kept in order."""
        there = pa.array(words, pa.int64())
        ordered = pc.if_else(pc.is_null(there), _NULL, ordered_words(pc.fill_null(there, 0), self.type))
        values = from_words(ordered, self.type, self.dictionary)
        wanted = self.aggregate.type
        return values.cast(arrow_type(wanted.element if wanted.kind is Kind.ARRAY else wanted)) if as_result else values

    def _for_each_percentage(self, values: pa.Array, groups: int) -> pa.Array:
        """One value a group, or an array of those of all percentages."""
        if self.aggregate.type.kind is not Kind.ARRAY:
            return values
        each = len(self.percentages)
        has_values = pc.is_valid(values).to_pylist()[::each] if each else [False] * groups
        ends = list(accumulate(each if there else 0 for there in has_values))
        offsets = pa.array([0, *ends], pa.int32())
        mask = pa.array([not there for there in has_values], pa.bool_())
        kept = values.drop_null()
        return pa.ListArray.from_arrays(offsets, kept, type=arrow_type(self.aggregate.type), mask=mask)

    def rebuild(self) -> None:
        """Nothing to do after a load: all state is in the unit."""

    def nbytes(self) -> int:
        """The memory that is not the unit's: none."""
        return 0
