"""MIN, MAX, MIN_BY and MAX_BY at work: each group's values in order, inside the kernel; of strings by their bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.operators.aggregates.sums import Result
from everview.engine.operators.counts import Columns
from everview.engine.operators.join import Join
from everview.engine.operators.select import Projection
from everview.engine.operators.steps import CHUNK, explained
from everview.engine.values.dictionary import NULL, Dictionary
from everview.engine.values.rows import ZERO, Changes, WordRows, words_array, zeros
from everview.engine.values.words import arrow_type, from_words, is_wide, ordered_words
from everview.kernel.machine import UpdateFault
from everview.programs.link import Linker
from everview.programs.min_max import READ, USES, VALUES, compile_extremes
from everview.query.aggregates import Chosen, Ordered
from everview.query.types import DataType
from everview.query.view import Aggregate, Grouping, Output

_NULL = pa.scalar(NULL, pa.int64())


class Extremes:
    """The values of one aggregate's argument, by group. Groups' words are kept alive by who counts the groups.

    Wide values stay in the dictionary for as long as they are in a group.
    """

    def __init__(
        self, aggregate: Aggregate, grouping: Grouping, core: Join, dictionary: Dictionary, linker: Linker
    ) -> None:
        assert aggregate.argument is not None
        self.core = core
        self.dictionary = dictionary
        self.type = aggregate.argument.type
        self.result_type = arrow_type(aggregate.type)
        self.projection = Projection(
            [Output(str(e), e) for e in (*grouping.keys, aggregate.argument)], core, dictionary
        )
        self.width = len(grouping.keys)
        self.is_wide = is_wide(self.type)
        self.key_types = tuple(k.type for k in grouping.keys)
        made = aggregate.function.made
        assert isinstance(made, Ordered | Chosen)
        self.shows_last_part = isinstance(made, Chosen) and aggregate.type != self.type
        self.part = linker.add("min_max", compile_extremes(self.width, made.highest, self.is_wide))

    @property
    def folds(self) -> tuple[Extremes, ...]:
        """What has a part of the unit: this."""
        return (self,)

    def delta(self, changes: Changes) -> WordRows:
        """The groups' words and values that updates, which the core has taken in, have changed."""
        columns, measures, update = self.core.take(changes)
        delta = self.projection.passed(WordRows(columns, measures[0], update), changes)
        return delta.filter(pc.not_equal(delta.columns[-1], _NULL))

    def process(self, delta: WordRows, words: Columns, length: int) -> tuple[Result, Result]:
        """Take in what has changed; gives the results that some groups had before, and have now."""
        before = self.results(words, length)
        self._change(delta)
        return before, self.results(words, length) if len(delta) else before

    def _change(self, delta: WordRows) -> None:
        if not len(delta):
            return
        columns = [*delta.columns[:-1], ordered_words(delta.columns[-1], self.type), delta.weight]
        try:
            if self.is_wide:
                self.dictionary.count(*map(words_array, self.part.emitted("change", columns, USES)))
            else:
                self.part.apply("change", columns)
        except UpdateFault as fault:
            raise explained(fault) from fault

    def results(self, words: Columns, length: int) -> Result:
        """The aggregate's values for some groups; NULL for those without any."""
        found, values = map(words_array, self.part.ask(READ, words or (zeros(length),)))
        return self.result_of(pc.if_else(pc.equal(found, ZERO), _NULL, ordered_words(values, self.type)))

    def result_of(self, words: pa.Array) -> Result:
        """Values by their words."""
        found = from_words(words, self.type, self.dictionary)
        if self.shows_last_part:
            found = pc.struct_field(found, 1)
        return found.cast(self.result_type), None

    def rows(self) -> Iterator[tuple[Columns, Columns]]:
        """All groups' values in their ordered words, and their copies; chunk by chunk."""
        cursor = self.part.open("all")
        while len((columns := tuple(words_array(c) for c in cursor.fetch(CHUNK)))[0]):
            yield columns[:-1], columns[-1:]

    @property
    def word_types(self) -> Mapping[str, DataType]:
        """What stands for what in its rows: the keys of groups, and values that are ids."""
        types = (*self.key_types, self.type) if self.is_wide else self.key_types
        return dict(zip(self.part.program.table(VALUES).key, types, strict=False))

    def wide_words(self) -> Iterator[pa.Array]:
        """The ids that it has one use of each in the dictionary."""
        for columns, _ in self.rows() if self.is_wide else ():
            yield columns[-1]

    def let_go(self) -> None:
        """Forget everything."""
        for words in self.wide_words():
            self.dictionary.release(words)
        self.part.clear()

    def rebuild(self) -> None:
        """Nothing to do after a load: all state is in the unit."""

    def nbytes(self) -> int:
        """The memory that is not the unit's: none."""
        return 0
