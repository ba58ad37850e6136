"""From groups to rows: aggregates' values, HAVING, output columns, and how a group's old and new row differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.expressions.evaluate import Condition, Evaluator, either
from everview.engine.expressions.parked import Failure, beyond_its_type, of_a_check, reason, values_text
from everview.engine.operators.aggregates.sums import Result, Slot, kinds_of, one_after_the_other, result
from everview.engine.operators.counts import Columns
from everview.engine.values.dictionary import Dictionary
from everview.engine.values.rows import WordRows, ones, repeated
from everview.engine.values.wide import is_positive
from everview.engine.values.words import from_words, to_words
from everview.plan.cores import is_summed
from everview.query.terms import Expression, Term, Var
from everview.query.types import DataType
from everview.query.view import Aggregate, Block


@dataclass(frozen=True)
class Finished:
    """Output rows of groups, whether each is in the result, and where one would be but for something that fails."""

    columns: Columns
    there: pa.Array
    failed: pa.Array | None
    computed: Columns
    """Those of the columns that are no keys, and so may change while the group stays."""


@dataclass
class Finish:
    """From a group's words, measures and listed results to its output row, and whether it is in the result."""

    block: Block
    slots: Sequence[Slot]
    widths: Sequence[int]
    """Of how many words the count and each slot are."""
    dictionary: Dictionary
    _having: Condition | None = field(init=False)
    _outputs: Evaluator = field(init=False)
    _keys: dict[int, int] = field(init=False)
    """Which outputs are keys as they are: they stay words, and nobody looks at their values."""
    _places: dict[Var, list[tuple[str, int, int]]] = field(init=False, default_factory=dict)
    """For each aggregate the kinds of sums it is made of, and which columns of the measures have their words."""

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
        ends = list(accumulate(self.widths))
        kept = list(zip(self.slots, ends, ends[1:], strict=False))
        for v, aggregate in zip(grouping.aggregate_names, grouping.aggregates, strict=True):
            self._places[v] = [(k, first, last) for s, first, last in kept for k in kinds_of(aggregate, s)]

    @property
    def may_fail(self) -> bool:
        """True if there may be groups that HAVING or an output has no value for."""
        types = {v: k.type for v, k in zip(self.grouping.key_names, self.grouping.keys, strict=True)}
        for v, aggregate in zip(self.grouping.aggregate_names, self.grouping.aggregates, strict=True):
            types[v] = aggregate.type
        return self._outputs.may_fail(types) or (self._having is not None and self._having.may_fail(types))

    @property
    def keys_shown(self) -> dict[int, int]:
        """The output columns that are keys as they are, and which."""
        return self._keys

    @property
    def key_places(self) -> list[int] | None:
        """The output columns that show the keys as they are; None if some key is not shown."""
        places = {key: i for i, key in self._keys.items()}
        every = range(len(self.grouping.keys))
        return [places[key] for key in every] if all(key in places for key in every) else None

    def __call__(self, words: Columns, measures: Columns, listed: Sequence[Result]) -> Finished:
        length = len(measures[0])
        values, beyond = self._values(words, measures, listed)
        there = is_positive(measures[: self.widths[0]]) if self.grouping.keys else pa.repeat(pa.scalar(True), length)
        failed = None
        for _, much in beyond:
            failed = either(failed, pc.and_(there, much))
        if failed is not None:
            there = pc.and_not(there, failed)
        if self._having is not None:
            held, more = self._having.tried(values, length, there)
            there, failed = pc.and_(there, held), either(failed, more)
        arrays, more = self._outputs.tried(values, length, there)
        if more is not None:
            there, failed = pc.and_not(there, more), either(failed, more)
        computed = tuple(to_words(a, t, self.dictionary) for a, t in zip(arrays, self._types, strict=True))
        rest = iter(computed)
        columns = tuple(words[self._keys[i]] if i in self._keys else next(rest) for i in range(len(self.block.outputs)))
        return Finished(columns, there, failed, computed)

    def why(self, words: Columns, measures: Columns, listed: Sequence[Result]) -> Failure | None:
        """What is wrong with one group."""
        values, beyond = self._values(words, measures, listed, {*self._read, *self.grouping.key_names})
        for aggregate, _ in beyond:
            return beyond_its_type(aggregate, self._text(values, frozenset()))
        if self._having is not None and (unmet := self._having.why(values)) is not None:
            condition, error = unmet
            if (found := of_a_check(reason(error))) is not None:
                return found
            return Failure(f"HAVING {self._shown(condition)}", reason(error), self._text(values, condition.variables))
        failed = self._outputs.why(values)
        if failed is None:
            return None
        at, error = failed
        output = [o for i, o in enumerate(self.block.outputs) if i not in self._keys][at]
        what = f"column {output.name}, {self._shown(output.expression)},"
        return Failure(what, reason(error), self._text(values, output.expression.variables), column=output.name)

    def _shown(self, expression: Expression) -> str:
        """An expression over groups as the user wrote it, with keys and aggregates for their names here."""
        return "".join(self._shown_names.get(p, p.name) if isinstance(p, Var) else str(p) for p in expression.parts)

    def _text(self, values: Mapping[Var, pa.Array], read: frozenset[Var]) -> str:
        names = [*self.grouping.key_names, *sorted(read - {*self.grouping.key_names})]
        return values_text({Var(self._shown_names.get(v, v.name)): values[v] for v in names})

    @property
    def _shown_names(self) -> dict[Var, str]:
        keys = zip(self.grouping.key_names, self.grouping.keys, strict=True)
        aggregates = zip(self.grouping.aggregate_names, self.grouping.aggregates, strict=True)
        return {v: str(what) for v, what in (*keys, *aggregates)}

    def _values(
        self, words: Columns, measures: Columns, listed: Sequence[Result], read: set[Var] | None = None
    ) -> tuple[dict[Var, pa.Array], list[tuple[Aggregate, pa.Array]]]:
        """The values of keys that are read and of aggregates, and which aggregates are beyond their type where."""
        read = self._read if read is None else read
        values: dict[Var, pa.Array] = {}
        for v, key, column in zip(self.grouping.key_names, self.grouping.keys, words, strict=True):
            if v in read:
                values[v] = from_words(column, key.type, self.dictionary)
        further = iter(listed)
        beyond: list[tuple[Aggregate, pa.Array]] = []
        for v, aggregate in zip(self.grouping.aggregate_names, self.grouping.aggregates, strict=True):
            own = is_summed(aggregate)
            values[v], much = (
                result(aggregate, measures[: self.widths[0]], self._sums(v, measures)) if own else next(further)
            )
            if much is not None:
                beyond.append((aggregate, much))
        return values, beyond

    def both(self, words: Columns, old: Columns, new: Columns, listed: Sequence[tuple[Result, Result]]) -> Finished:
        """The rows of some groups before a change, and then those after it: all at once, which costs half as much."""
        twice = tuple(pa.concat_arrays([column, column]) for column in words)
        measures = tuple(pa.concat_arrays(pair) for pair in zip(old, new, strict=True))
        return self(twice, measures, [one_after_the_other(*pair) for pair in listed])

    def _sums(self, name: Var, measures: Columns) -> dict[str, Columns]:
        """The words of the sums that an aggregate is made of."""
        return {kind: measures[first:last] for kind, first, last in self._places[name]}


def difference(both: Finished, update: pa.Array) -> WordRows:
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
