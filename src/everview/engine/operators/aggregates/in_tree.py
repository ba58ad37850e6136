"""MIN and MAX that the core of the groups keeps in order itself: read off it for any groups, at any time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.operators.aggregates.sums import Result
from everview.engine.operators.atoms import ValuesInOrder, values_in_order
from everview.engine.operators.counts import Columns
from everview.engine.operators.fetched import fetched
from everview.engine.operators.join import Join
from everview.engine.values.dictionary import NULL, Dictionary
from everview.engine.values.rows import ZERO, words_array, zeros
from everview.engine.values.wide import Numbers, is_positive
from everview.engine.values.words import arrow_type, from_words, is_wide, ordered_words
from everview.query.aggregates import Chosen
from everview.query.terms import Expression
from everview.strategies.core import Extreme
from everview.strategies.strategy import words_of_value

_NULL = pa.scalar(NULL, pa.int64())
WORDS = 2
"""Of how many words the number is that stands for a value among a group's measures."""


class InTree:
    """One of the core's extremes: a value for each group, and the same as a measure that groups can be kept with.

    As a measure it is a number that counts up from the least word, which stands for NULL and is 0. So old values are
    known, as old counts and sums are, while a batch's changes of groups are told.
    """

    def __init__(
        self, number: int, extreme: Extreme, keys: Sequence[Expression], core: Join, dictionary: Dictionary
    ) -> None:
        assert extreme.aggregate.argument is not None
        self.core = core
        self.dictionary = dictionary
        self.aggregate = extreme.aggregate
        self.type = extreme.aggregate.argument.type
        self.result_type = arrow_type(extreme.aggregate.type)
        is_pair = isinstance(extreme.aggregate.function.made, Chosen)
        self.shows_last_part = is_pair and extreme.aggregate.type != self.type
        self.function = core.maintained.extremes[number]
        terms = [k.term for k in keys]
        self.places = [terms.index(v) for v in core.maintained.outputs]

    def words_of(self, groups: Columns, count: Numbers) -> pa.Array:
        """The words by which the values of some groups are kept in order; NULL for those without any.

        ``count`` says how many rows they have: of those without any the core may have values, which join nothing.
        """
        given = [groups[place] for place in self.places] or [zeros(len(count[0]))]
        found, words = map(words_array, self.core.part.ask(self.function, given))
        return pc.if_else(pc.and_(pc.not_equal(found, ZERO), is_positive(count)), words, _NULL)

    def results(self, groups: Columns, count: Numbers) -> Result:
        """The values of some groups now, which have so many rows."""
        return self.values(self.words_of(groups, count))

    def values(self, words: pa.Array) -> Result:
        """The values that some words stand for."""
        return self.result_of(ordered_words(words, self.type))

    def result_of(self, words: pa.Array) -> Result:
        """Values by their own words."""
        found = from_words(words, self.type, self.dictionary)
        if self.shows_last_part:
            found = pc.struct_field(found, 1)
        return found.cast(self.result_type), None


def as_measure(words: pa.Array) -> Columns:
    """Words as numbers from 0, that of NULL: a low word, which has the sign turned, and a high one."""
    return pc.bit_wise_xor(words, _NULL), zeros(len(words))


def from_measure(low: pa.Array) -> pa.Array:
    """The words that such numbers stand for."""
    return pc.bit_wise_xor(low, _NULL)


def change_between(old: pa.Array, new: pa.Array) -> Columns:
    """By how much such numbers change, from old words to new ones."""
    return pc.subtract(new, old), pc.negate(pc.less(new, old).cast(pa.int64()))


def wide_words(core: Join) -> Iterator[tuple[pa.Array, pa.Array]]:
    """The ids of values that a core has computed of its rows to keep them in order, with their copies."""
    every = values_in_order(core.plan)
    computed = ValuesInOrder(core.plan, tuple(every), core.types, core.dictionary).computed
    for number, value in every.items():
        if value in computed and is_wide(value.type):
            yield from ((words, copies) for (words, copies), _ in fetched(core.part, words_of_value(number), 2))
