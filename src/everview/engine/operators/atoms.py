"""What an atom of a core takes of its relation's rows: its conditions, its variables' types and values."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.operators.aggregates.sums import Summand, Summing
from everview.engine.values.dictionary import Dictionary
from everview.engine.values.rows import Changes
from everview.engine.values.wide import largest
from everview.engine.values.words import is_wide, ordered_words, to_words
from everview.plan.core_plan import CorePlan
from everview.query.terms import Expression, Var
from everview.query.types import DataType, Kind, same_words
from everview.strategies.strategy import AtomInput, Sum, WordOrders


def and_not(fits: pa.Array | None, failed: pa.Array | None, length: int) -> pa.Array | None:
    """The rows that fit and do not fail; None: all."""
    if failed is None:
        return fits
    return pc.and_not(pa.repeat(True, length) if fits is None else fits, failed)


class AtomValues(Mapping[Var, pa.Array]):
    """An atom's variables as values, decoded when asked for."""

    def __init__(self, changes: Changes, places: Mapping[Var, int]) -> None:
        self.changes = changes
        self.places = places
        self.extra: dict[Var, pa.Array] = {}

    def __getitem__(self, v: Var) -> pa.Array:
        return self.extra[v] if v in self.extra else self.changes.values(self.places[v])

    def __iter__(self) -> Iterator[Var]:
        return iter((*self.places, *self.extra))

    def __len__(self) -> int:
        return len(self.places) + len(self.extra)


def signature_of(plan: CorePlan, index: int, ranges: Mapping[Var, tuple[int, int]]) -> Hashable:
    """What decides which rows an atom takes and which words they have, with its variables named by their columns."""
    atom, columns = plan.query.atoms[index], columns_of(plan, index)
    own = [p.substitute(columns) for p in plan.filters_of(index)]
    never_null = {t for i, t in enumerate(atom.terms) if (atom.relation, i) in plan.facts.never_null}
    refused = frozenset(columns[v] for v in (atom.variables & plan.query.not_null) - never_null)
    within = frozenset((columns[v], ranges[v]) for v in atom.variables & ranges.keys())
    return atom.substitute(columns), tuple(own), refused, within


def columns_of(plan: CorePlan, index: int) -> dict[Var, Var]:
    """An atom's variables by the columns where they come first."""
    terms = plan.query.atoms[index].all_terms
    return {t: Var(f"#{i}") for i, t in reversed(list(enumerate(terms))) if isinstance(t, Var)}


def sum_of(plan: CorePlan, summing: Summing) -> Sum:
    """What a strategy is told of a sum that it has to keep."""
    kinds = {atom: part.signature(columns_of(plan, atom)) for atom, part in summing.parts.items()}
    return Sum({atom: part.words for atom, part in summing.parts.items()}, summing.most, kinds, summing.row_most)


def factors_at(plan: CorePlan, given: AtomInput, sums: Sequence[Summing]) -> Iterator[tuple[Summand, list[Expression]]]:
    """The factors that come in with an atom's rows, each with its arguments over the atom's own variables."""
    own = {column: v for v, column in columns_of(plan, given.atom).items()}
    for atom, j in (*((given.atom, j) for j in given.sums), *given.served_sums):
        part, columns = sums[j - 1].parts[atom], columns_of(plan, atom)
        yield part, [a.substitute({v: own[c] for v, c in columns.items()}) for a in part.arguments]


def values_in_order(plan: CorePlan) -> dict[int, Expression]:
    """The values that come in with rows to be kept in order in the core, by their numbers."""
    extremes = ((e.value, e.aggregate.argument) for e in plan.core.extremes)
    return {value: argument for value, argument in extremes if argument is not None}


def word_orders(types: Mapping[Var, DataType], in_order: Mapping[Var, DataType]) -> WordOrders:
    """How the words of a core's variables are compared, and those of wide values that are kept in order."""
    floats = (v for v, t in types.items() if t.kind in (Kind.FLOAT, Kind.DOUBLE))
    return WordOrders(frozenset(v for v, t in (*types.items(), *in_order.items()) if is_wide(t)), frozenset(floats))


class ValuesInOrder:
    """The values that come in with an atom's rows to be kept in order: columns as they are, others ``computed``."""

    def __init__(
        self, plan: CorePlan, numbers: Sequence[int], types: Mapping[Var, DataType], dictionary: Dictionary
    ) -> None:
        every = values_in_order(plan)
        self.dictionary = dictionary
        self.types = types
        self.values = tuple(every[number] for number in numbers)
        self.computed = tuple(value for value in self.values if self.column(value) is None)

    def column(self, value: Expression) -> Var | None:
        """The variable that has the value by the same words."""
        term = value.term
        return term if isinstance(term, Var) and same_words(self.types[term], value.type) else None

    def words(
        self,
        columns: Mapping[Var, pa.Array],
        arrays: Mapping[Expression, pa.Array],
        weight: pa.Array,
        fits: pa.Array | None,
    ) -> Iterator[pa.Array]:
        """The words by which each is kept in order; wide ones are kept alive for as long as their rows are there.

        Of rows that do not fit none is kept: it may be computed when they come and not when they go, or the reverse.
        """
        for value in self.values:
            column = self.column(value)
            if column is not None:
                yield ordered_words(columns[column], value.type)
                continue
            array = arrays[value] if fits is None else pc.if_else(fits, arrays[value], None)
            found = to_words(array, value.type, self.dictionary)
            if is_wide(value.type):
                self.dictionary.count(found, weight)
            yield ordered_words(found, value.type)


def variable_columns(plan: CorePlan, relations: Mapping[str, tuple[DataType, ...]]) -> dict[Var, list[DataType]]:
    """The types of the columns that each variable stands for, stored and computed ones."""
    found: dict[Var, list[DataType]] = {}
    for atom in plan.query.atoms:
        computed = [(c.term, c.expression.type) for c in atom.computed]
        for term, type_ in (*zip(atom.terms, relations[atom.relation], strict=True), *computed):
            if isinstance(term, Var):
                found.setdefault(term, []).append(type_)
    return found


def common_range(types: Sequence[DataType]) -> tuple[int, int] | None:
    """The integers that all of some integer types hold; None if they hold the same, or are none."""
    if len(set(types)) == 1 or not all(t.is_integer for t in types):
        return None
    most = min(largest(t) for t in types)
    return -most - 1, most


def in_range(ends: tuple[int, int] | None, words: pa.Array) -> list[pa.Array]:
    """Whether words are integers in a range, where that is to be asked."""
    if ends is None:
        return []
    least, most = ends
    return [pc.and_(pc.greater_equal(words, least), pc.less_equal(words, most))]
