"""A grouped block at work: counts and sums by group, further aggregates, HAVING and output columns (crown.md 9)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.expressions.parked import Failure, Origin, Parked, came_from
from everview.engine.operators.aggregates.accumulated import Accumulated, Listed
from everview.engine.operators.aggregates.distinct import DistinctCount
from everview.engine.operators.aggregates.gathered import GatheredValues
from everview.engine.operators.aggregates.in_tree import WORDS, InTree, as_measure, change_between, from_measure
from everview.engine.operators.aggregates.min_max import Extremes
from everview.engine.operators.aggregates.sums import Result, slots_of
from everview.engine.operators.answers import Answers, Given, Sought
from everview.engine.operators.counts import Columns, Fold, Kept
from everview.engine.operators.group_output import Finish, difference
from everview.engine.operators.join import Join
from everview.engine.operators.select import Projection, flips
from everview.engine.values.dictionary import Dictionary
from everview.engine.values.rows import ZERO, Changes, Place, WordRows, ones, repeated, zeros
from everview.engine.values.wide import columns_of, in_word
from everview.errors import DataError
from everview.kernel.program import MOST_WORDS
from everview.plan.core_plan import CorePlan
from everview.plan.cores import is_summed
from everview.programs.link import Linker
from everview.query.aggregates import Chosen, Counted, Gathered, Ordered
from everview.query.types import DataType
from everview.query.view import Aggregate, Block, Grouping, Output

_SMALLER = "make the values, or the groups, smaller"


class GroupBy(Answers):
    """SELECT … GROUP BY …, and global aggregates: one group over everything, which is always there."""

    def __init__(
        self,
        block: Block,
        plans: Sequence[CorePlan],
        relations: Mapping[str, tuple[DataType, ...]],
        dictionary: Dictionary,
        linker: Linker,
    ) -> None:
        assert block.grouping is not None
        self.grouping: Grouping = block.grouping
        self.dictionary = dictionary
        self.width = len(block.outputs)
        self.slots = slots_of(block)
        self.core = Join(plans[0], [s for s in self.slots if s.parts], relations, dictionary, linker)
        keys = [Output(str(k), k) for k in self.grouping.keys]
        self.posted = tuple(dict.fromkeys(s.argument for s in self.slots if not s.parts))
        self.projection = Projection(keys, self.core, dictionary, self.posted)
        extremes = enumerate(plans[0].core.extremes)
        self.in_tree = tuple(InTree(i, e, self.grouping.keys, self.core, dictionary) for i, e in extremes)
        """The aggregates that are read off the core itself."""
        read = [a.aggregate for a in self.in_tree]
        listed = [a for a in self.grouping.aggregates if not is_summed(a) and a not in read]
        self.widths = self._measure_widths(listed)
        """Of how many words the count and each slot are, each number of values, and each that is read off the core."""
        types = [k.type for k in self.grouping.keys]
        self.groups = Fold(types, len(self.widths), dictionary, linker, widths=self.widths)
        self.valued: list[Listed | DistinctCount] = [
            _valued(a)(a, self.grouping, Join(p, (), relations, dictionary, linker), dictionary, linker)
            for a, p in zip(listed, plans[1:], strict=True)
        ]
        self.distinct = [a for a in self.valued if isinstance(a, DistinctCount)]
        """Those of them whose values are kept with the groups."""
        further: dict[Aggregate, Listed | DistinctCount | InTree] = dict(zip(listed, self.valued, strict=True))
        further |= {a.aggregate: a for a in self.in_tree}
        self.further = [further[a] for a in self.grouping.aggregates if a in further]
        """The aggregates that are no sums of the core, in their order."""
        self.finish = Finish(block, self.slots, self.widths, dictionary)
        self.needs_deltas = self.core.plan.folds_rows or self.finish.may_fail
        """True unless the core's own rows are the groups, with all that is asked of them, and always have values."""
        self.fold = Fold([o.type for o in block.outputs], 1, dictionary, linker) if block.distinct else None
        self.failing = Parked([k.type for k in self.grouping.keys], dictionary, self._explain)
        """The groups that HAVING, an output or the type of a sum fails on."""

    is_net_per_update = False

    def _measure_widths(self, valued: Sequence[Aggregate]) -> tuple[int, ...]:
        """Sums inside the core are as wide as it says; the others have as many more words as its count has."""
        count, *summed = self.core.widths
        inside = iter(summed)
        return (
            count,
            *(next(inside) if s.parts else min(MOST_WORDS, s.whole.words + count - 1) for s in self.slots),
            *(1 for a in valued if _valued(a) is DistinctCount),
            *(WORDS for _ in self.in_tree),
        )

    def identifies_inputs(self, implied: Mapping[str, frozenset[int]]) -> bool:
        """A group is made of many rows."""
        return False

    @property
    def keeps_update_numbers(self) -> bool:
        """True if sums are all there is: what lists values knows only a batch's first and last."""
        return not self.further

    def emit_deltas(self, wanted: bool) -> None:
        """Give what changes from now on, or stop; a changed group's old values must be known for that."""
        if wanted == self.core.emits_deltas or (not wanted and self.core.beyond() is not None):
            return  # Where a sum may be beyond its type, every changed group is looked at.
        for core in self.cores:
            if wanted:
                core.start_deltas()
            else:
                core.stop_deltas()
        if not self.needs_deltas:
            self.groups.let_go()
            for words, measures in self._core_groups() if wanted else ():
                found = (as_measure(a.words_of(words, measures[: self.widths[0]])) for a in self.in_tree)
                self.groups.add(words, (*measures, *(word for pair in found for word in pair)))
            self.groups.settle()

    def _core_groups(self, *, partly: bool = False) -> Iterator[tuple[Columns, Columns]]:
        """The groups as the core lists them."""
        return self._as_groups(self.core.scan(partly=partly))

    def _as_groups(self, listed: Iterator[tuple[Columns, Columns]]) -> Iterator[tuple[Columns, Columns]]:
        for columns, measures in listed:
            chosen = self.projection.chosen(self._weighed(columns, measures, zeros(len(measures[0]))))
            kept = measures if chosen.mask is None else tuple(m.filter(chosen.mask) for m in measures)
            yield chosen.outputs.columns, self._changes(kept, chosen.further)

    @property
    def cores(self) -> tuple[Join, ...]:
        """The core of the groups, and one for each aggregate that needs its own."""
        return (self.core, *(a.core for a in self.valued))

    @property
    def folds(self) -> tuple[Kept, ...]:
        """The groups, the values of aggregates, and distinct rows."""
        further = [f for a in self.valued for f in a.folds]
        return (self.groups, *further, *((self.fold,) if self.fold else ()))

    @property
    def parked(self) -> tuple[Parked, ...]:
        """The rows, and the groups, that an expression fails on."""
        below = [p for core in self.cores for p in core.parked]
        return (*below, self.projection.parked, *(a.projection.parked for a in self.valued), self.failing)

    @property
    def is_over_nothing(self) -> bool:
        """True for a global aggregate that has no input now: its row is there all the same."""
        if self.grouping.keys:
            return False
        kept = self.groups.rows() if self._has_groups else self._core_groups(partly=True)
        return not any(word[0].as_py() for _, measures in kept for word in measures[: self.widths[0]])

    def process(self, changes: Changes) -> WordRows:
        """Take in updates; changed groups come out as the old row taken away and the new one added."""
        for core in self.cores:
            core.apply(changes)
        if not self.core.emits_deltas:
            update = self.core.beyond()
            if update is not None:
                self._look_at_all(changes.place(update))
            return WordRows.empty(self.width)
        columns, measures, update = self.core.take(changes)
        chosen = self.projection.chosen(self._weighed(columns, measures, update), changes)
        keyed = chosen.outputs
        if chosen.mask is not None:
            measures = tuple(m.filter(chosen.mask) for m in measures)
        deltas = [a.delta(changes) for a in self.valued]
        if not len(keyed) and not any(map(len, deltas)):
            return WordRows.empty(self.width)
        per_update = changes.per_update and self.keeps_update_numbers
        add = self.groups.trace if per_update else self.groups.add
        steps = add(keyed.columns, self._with_nothing_beside(self._changes(measures, chosen.further)))
        for aggregate, values in zip(self.valued, deltas, strict=True):
            if isinstance(aggregate, DistinctCount):
                words, change = aggregate.counted(values)
                self.groups.add(words, self._change_of(aggregate, change))
        if deltas and any(p.counts is not None for p in self.parked):
            # A row that is parked in one core is there in another: its group's values may change alone.
            for delta in deltas:
                nothing = (zeros(len(delta)),) * self.groups.measures
                self.groups.add(delta.columns[:-1], nothing)
        words, old, new = touched = self._touched()
        self.groups.settle(touched)
        count = len(old[0])
        found_of = {id(a): self._kept_of(i, old, new) for i, a in enumerate(self.in_tree)}
        for a, d in zip(self.valued, deltas, strict=True):
            found_of[id(a)] = (
                self._counts_of(a, old, new) if isinstance(a, DistinctCount) else a.process(d, words, count)
            )
        listed = [found_of[id(a)] for a in self.further]
        if steps is None:
            found = self.finish.both(words, old, new, listed)
            position = repeated(changes.rows.update[0].as_py() if len(changes) else 0, count)
        else:
            found = self.finish.both(keyed.columns, *steps, [])
            position = keyed.update
        if found.failed is not None:
            self._park(words if steps is None else keyed.columns, found.failed, changes, keyed)
        delta = difference(found, position)
        if steps is not None:
            delta = delta.in_order()
        return delta if self.fold is None else flips(self.fold, delta, per_update=per_update)

    def _with_nothing_beside(self, measures: Columns) -> Columns:
        """Changes of sums, with none of the further measures."""
        return (*measures, *[zeros(len(measures[0]))] * (self.groups.measures - len(measures)))

    def _change_of(self, aggregate: DistinctCount, change: pa.Array) -> Columns:
        """Changes of a number of values, with none of the other measures."""
        columns = [zeros(len(change))] * self.groups.measures
        columns[self.place_of(aggregate)] = change
        return tuple(columns)

    def place_of(self, aggregate: DistinctCount) -> int:
        """Which of the measures is an aggregate's number of values."""
        return sum(self.widths[: 1 + len(self.slots)]) + self.distinct.index(aggregate)

    def _counts_of(self, aggregate: DistinctCount, old: Columns, new: Columns) -> tuple[Result, Result]:
        """The numbers of values that groups had, and have."""
        place = self.place_of(aggregate)
        return (old[place], None), (new[place], None)

    def _touched(self) -> tuple[Columns, Columns, Columns]:
        """The groups that may have changed, their old measures and their new ones, values off the core among them."""
        words, old, new = touched = self.groups.touched()
        if not self.in_tree:
            return touched
        count, sums = len(old[0]), len(new) - WORDS * len(self.in_tree)
        changes: list[pa.Array] = [zeros(count)] * sums
        now = list(new[:sums])
        for i, aggregate in enumerate(self.in_tree):
            values = aggregate.words_of(words, new[: self.widths[0]])
            changes += change_between(from_measure(old[sums + WORDS * i]), values)
            now += as_measure(values)
        self.groups.add(words, tuple(changes))
        return words, old, tuple(now)

    def _kept_of(self, number: int, old: Columns, new: Columns) -> tuple[Result, Result]:
        """The values that groups had, and have, of an aggregate that is read off the core."""
        aggregate, at = self.in_tree[number], len(old) - WORDS * (len(self.in_tree) - number)
        was, now = (aggregate.values(from_measure(measures[at])) for measures in (old, new))
        return was, now

    def _park(self, words: Columns, failed: pa.Array, changes: Changes, keyed: WordRows) -> None:
        """Count groups that fail now and did not before; of those before and after, one after the other."""
        was, now = (failed.slice(i * len(failed) // 2, len(failed) // 2).cast(pa.int64()) for i in (0, 1))
        change = pc.subtract(now, was)
        mask = pc.not_equal(change, ZERO)
        place = came_from(changes, keyed.columns, keyed.update)
        self.failing.add(tuple(c.filter(mask) for c in words), change.filter(mask), place)

    def _explain(self, words: Columns) -> Failure | None:
        """What is wrong with one group."""
        kept = self.groups.measures_of([w[0].as_py() for w in words]) or [0] * len(self.widths)
        measures = self._columns(kept)
        return self.finish.why(words, measures, self._further_of(words, measures))

    def _further_of(self, words: Columns, measures: Columns) -> list[Result]:
        """The values now of the aggregates that are no sums of the core, for groups with these measures."""
        count = measures[: self.widths[0]]
        length = len(count[0])
        return [
            a.results(words, count)
            if isinstance(a, InTree)
            else (measures[self.place_of(a)], None)
            if isinstance(a, DistinctCount)
            else a.results(words, length)
            for a in self.further
        ]

    def check_limits(self, place: Place) -> None:
        """Look at all groups if the core has passed a limit and nobody has looked yet: ``place`` is to blame then."""
        if not self.core.emits_deltas and self.core.beyond() is not None:
            self._look_at_all(place)

    def _look_at_all(self, place: Place) -> None:
        """From now on look at every changed group, and now at all of them; they are those of the core itself."""
        try:
            self.emit_deltas(True)
        except DataError as error:  # a strategy may keep sums in fewer words than their types have
            why = "a count or sum of a group leaves 64 bits; nothing has changed"
            raise DataError(why, table=place.table, row=place.row, hint=_SMALLER) from error
        for words, measures in self.groups.rows():
            failed = self.finish(words, measures, self._further_of(words, measures)).failed
            if failed is not None:
                count = pc.sum(failed).as_py()
                self.failing.add(tuple(c.filter(failed) for c in words), ones(count), lambda _: [Origin(place)])

    def _weighed(self, columns: Columns, measures: Columns, update: pa.Array) -> WordRows:
        """Rows of the core with their counts for weights; only rows that fail are counted by those, in 64 bits."""
        weight, beyond = in_word(measures[: self.widths[0]])
        if beyond is not None and self.projection.may_fail:
            raise DataError("a row of a join has more copies than 64 bits hold; nothing has changed", hint=_SMALLER)
        return WordRows(columns, weight, update)

    def _changes(self, measures: Columns, posted: Sequence[pa.Array]) -> Columns:
        """The change of the count and of every slot, in words; ``posted`` are the arguments over several atoms."""
        count, *widths = self.widths[: 1 + len(self.slots)]
        copies, summed = measures[:count], iter(measures[count:])
        values = dict(zip(self.posted, posted, strict=True))
        changes = list(copies)
        for slot, words in zip(self.slots, widths, strict=True):
            if slot.parts:
                changes += islice(summed, words)
                continue
            try:
                changes += slot.whole.change([values[slot.argument]], copies, words)
            except OverflowError as error:
                what = f"a sum of {slot.argument} has more than {64 * words} bits"
                raise DataError(f"{what}; nothing has changed", hint=_SMALLER) from error
        return tuple(changes)

    def _columns(self, measures: Sequence[int]) -> Columns:
        """One group's measures, which are numbers, as columns of words."""
        each = zip(measures, self.widths, strict=True)
        return tuple(column for number, words in each for column in columns_of(number, words))

    @property
    def _has_groups(self) -> bool:
        """True if ``groups`` holds all groups now, and not only the core does."""
        return self.needs_deltas or self.core.emits_deltas

    def count(self) -> int | None:
        """The fold's rows, or the groups, if no HAVING leaves some out; a global aggregate has one row."""
        if self.fold is not None:
            return self.fold.count()
        if self.grouping.having is not None:
            return None
        if not self.grouping.keys:
            return 1
        if self._has_groups:
            return self.groups.count()
        return self.core.distinct() if self.projection.keeps_all else None

    def test(self, row: Sought) -> bool | None:
        """A lookup in the fold, or of the group whose keys the row shows: its own row is then made and compared."""
        if self.fold is not None:
            return self.fold.holds(row.words)
        places = self.finish.key_places
        if places is None:
            return None
        words = row.words
        found = self._keyed({key: words[place] for key, place in enumerate(places)})
        return None if found is None else any(row.is_among(rows) for rows in found)

    def lookup(self, given: Given) -> Iterator[WordRows] | None:
        """The groups that have the keys among the columns, of which those that have the rest are left."""
        if self.fold is not None:
            return None
        words = given.words
        shown = {place: key for place, key in self.finish.keys_shown.items() if place in words}
        keys: dict[int, int] = {}
        for place, key in shown.items():
            if keys.setdefault(key, words[place]) != words[place]:
                return iter(())
        found = self._keyed(keys) if keys or not self.grouping.keys else None
        if found is None or len(shown) == len(words):
            return found
        return map(given.among, found)

    def looks_up(self, columns: frozenset[int]) -> bool:
        """True if all keys are among these columns, or the core finds groups, which are its rows, by those that are."""
        keys = self._keys_of(columns)
        if self.fold is not None or (self.grouping.keys and not keys):
            return False
        if not self.grouping.keys or (self._has_groups and len(keys) == len(self.grouping.keys)):
            return True
        return self._asks_core(keys) and self.core.looks_up(self.projection.variables_of(keys))

    def may_look_up(self, columns: frozenset[int]) -> bool:
        """True if it can, or the core could."""
        keys = self._keys_of(columns)
        if self.looks_up(columns) or self.fold is not None or not keys or not self._asks_core(keys):
            return self.looks_up(columns)
        return self.core.plan.maintenance.looks_up(self.projection.variables_of(keys))

    def _keys_of(self, columns: frozenset[int]) -> frozenset[int]:
        """The keys among some columns."""
        return frozenset(key for place, key in self.finish.keys_shown.items() if place in columns)

    def _asks_core(self, keys: frozenset[int]) -> bool:
        """True if the core's rows are the groups, and show these keys as they are."""
        return not self.needs_deltas and keys <= self.projection.plain_columns

    def _keyed(self, keys: Mapping[int, int]) -> Iterator[WordRows] | None:
        """The rows of the groups that have given words in some keys; None if groups have to be listed for that."""
        is_global = not self.grouping.keys
        if self._has_groups and len(keys) == len(self.grouping.keys):
            words = [word for _, word in sorted(keys.items())]
            kept = self.groups.measures_of(words)
            if kept is None and not is_global:
                return iter(())
            measures = self._nothing if kept is None else self._columns(kept)
            return iter((self._finished(tuple(repeated(word, 1) for word in words), measures),))
        if is_global:
            found = None if self.needs_deltas else self.core.look_up({})
            return self.rows(partly=True) if found is None else self._one_group(found)
        if not self._asks_core(frozenset(keys)):
            return None
        words_of_core = self.projection.core_words(keys)
        if words_of_core is None:
            return iter(())
        found = self.core.look_up(words_of_core)
        return None if found is None else (self._finished(*group) for group in self._as_groups(found))

    def _one_group(self, found: Iterator[tuple[Columns, Columns]]) -> Iterator[WordRows]:
        """The row over everything, given the core's, if there is any."""
        words, measures = next(self._as_groups(found), ((), self._nothing))
        yield self._finished(words, measures)

    def placed(self, *, partly: bool) -> Iterator[WordRows] | None:
        """As they are listed, if a fold has them, or each shows its keys."""
        return self.rows(partly=partly) if self.fold is not None or self.finish.key_places is not None else None

    def rows(self, *, partly: bool = False) -> Iterator[WordRows]:
        """All groups."""
        if self.fold is not None:
            for columns, measures in self.fold.rows():
                yield WordRows(columns, pc.cast(pc.greater(measures[0], ZERO), pa.int64()), zeros(len(measures[0])))
            return
        empty = True
        for words, measures in self.groups.rows() if self.needs_deltas else self._core_groups(partly=partly):
            empty = False
            yield self._finished(words, measures)
        if empty and not self.grouping.keys:
            yield self._finished((), self._nothing)

    def _finished(self, words: Columns, measures: Columns) -> WordRows:
        found = self.finish(words, measures, self._further_of(words, measures))
        if found.failed is not None and self.failing.counts is None:  # Nobody has looked at it when it changed.
            failure = self._explain(tuple(c.filter(found.failed).slice(0, 1) for c in words))
            raise DataError("a group has no value" if failure is None else failure.text())
        weight = pa.repeat(pa.scalar(1, pa.int64()), len(found.there))
        return WordRows(found.columns, weight, zeros(len(found.there))).filter(found.there)

    def seed(self) -> None:
        """A global aggregate has a row before any input: it may fail, and a DISTINCT over it must know."""
        if self.grouping.keys:
            return
        if self.fails_over_nothing:
            self.failing.add((), ones(1), lambda _: [])
        if self.fold is not None:
            flips(self.fold, self._finished((), self._nothing))

    @property
    def fails_over_nothing(self) -> bool:
        """True if a global aggregate that has no input has no value."""
        if not self.finish.may_fail:
            return False
        return self.finish((), self._nothing, self._further_of((), self._nothing)).failed is not None

    @property
    def _nothing(self) -> Columns:
        """The measures of a group without rows."""
        return tuple(zeros(1) for _ in range(self.groups.measures))


def _valued(aggregate: Aggregate) -> type[Extremes] | type[GatheredValues] | type[DistinctCount] | type[Accumulated]:
    """What keeps the values of an aggregate that its groups' core does not sum up."""
    made = aggregate.function.made
    if isinstance(made, Counted) and aggregate.distinct:
        return DistinctCount
    if isinstance(made, Ordered | Chosen):
        return Extremes
    return GatheredValues if isinstance(made, Gathered) else Accumulated
