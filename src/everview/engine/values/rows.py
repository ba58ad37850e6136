"""Rows of words on their way through the engine: changes of a relation, and deltas of a view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.values.dictionary import Dictionary
from everview.engine.values.words import from_words
from everview.kernel.machine import constant_column, total
from everview.query.types import DataType

ZERO = pa.scalar(0, pa.int64())
"""For comparisons: Arrow is slow to find the type of a plain 0."""
ONE = pa.scalar(1, pa.int64())

FEW = 16
"""Up to so many rows Python's own integers are faster than Arrow's calls."""
SLICE = 131_072
"""Deltas are taken from the kernel, and handed to feeds, in pieces of about so many rows."""

_NOTHING = pa.array([], pa.int64())
_LOWEST = -(2**63)


@dataclass(frozen=True)
class WordRows:
    """Rows as columns of words, each with a weight (copies; negative: taken away) and the update that made it."""

    columns: tuple[pa.Array, ...]
    weight: pa.Array
    update: pa.Array

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def copies(self) -> int:
        """How many rows they are, copies included; of any size."""
        return total(self.weight)

    @staticmethod
    def empty(width: int) -> WordRows:
        """No rows."""
        return WordRows((_NOTHING,) * width, _NOTHING, _NOTHING)

    def filter(self, mask: pa.Array) -> WordRows:
        """The rows for which ``mask`` is true."""
        return WordRows(tuple(c.filter(mask) for c in self.columns), self.weight.filter(mask), self.update.filter(mask))

    def with_columns(self, columns: Sequence[pa.Array]) -> WordRows:
        """The same weights over other columns."""
        return WordRows(tuple(columns), self.weight, self.update)

    def negated(self) -> WordRows:
        """The rows with their weights turned: what takes them back."""
        return WordRows(self.columns, negated(self.weight), self.update)

    def slice(self, first: int, length: int) -> WordRows:
        """Some of the rows, without copying."""
        columns = tuple(c.slice(first, length) for c in self.columns)
        return WordRows(columns, self.weight.slice(first, length), self.update.slice(first, length))

    def in_order(self) -> WordRows:
        """By update; those of one stay as they are."""
        return self.take(pc.sort_indices(self.update))

    def take(self, places: pa.Array) -> WordRows:
        """The rows at these places."""
        return WordRows(tuple(c.take(places) for c in self.columns), self.weight.take(places), self.update.take(places))

    @staticmethod
    def concat(parts: Iterable[WordRows], width: int) -> WordRows:
        """One after the other."""
        listed = [p for p in parts if len(p)]
        if not listed:
            return WordRows.empty(width)
        if len(listed) == 1:
            return listed[0]
        columns = tuple(pa.concat_arrays([p.columns[i] for p in listed]) for i in range(width))
        return WordRows(
            columns, pa.concat_arrays([p.weight for p in listed]), pa.concat_arrays([p.update for p in listed])
        )


class Place(NamedTuple):
    """A row of what the user gave, where that is known: its table, its position, and which operation of the batch."""

    table: str | None = None
    row: int | None = None
    operation: int = 0


@dataclass
class Changes:
    """Updates of one relation in their order; values are decoded only where an expression asks for them."""

    relation: str
    types: tuple[DataType, ...]
    rows: WordRows
    dictionary: Dictionary
    is_base: bool = True
    """A base table keeps its wide values in the dictionary; rows of a stage or view must be kept by who stores them."""
    first: int = 0
    """Where these updates begin among those that the user has given."""
    places: pa.Array | None = None
    """Where each of them is there, if they are not one after the other."""
    start: int | None = None
    """The first update's number, if they are numbered one after the other."""
    no_nulls: frozenset[int] = frozenset()
    """Columns in which there is no NULL, as far as that is known."""
    per_update: bool = False
    """True if each update's own delta is wanted."""
    flips: pa.Array | None = None
    """Of updates of a base table: 1 where a row appears, −1 where it vanishes, else 0. None: so each of them does."""
    operation: int = 0
    """Which operation of the batch they are of,"""
    operations: pa.Array | None = None
    """or each of them, if they are of several."""
    is_given: bool = True
    """False of rows of a table that were there already, by which a view is filled: no row of a batch is to blame."""
    _values: dict[int, pa.Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def words(self, column: int) -> pa.Array:
        """A column as words."""
        return self.rows.columns[column]

    def values(self, column: int) -> pa.Array:
        """A column as values."""
        if column not in self._values:
            nullable = column not in self.no_nulls
            values = from_words(self.words(column), self.types[column], self.dictionary, nullable=nullable)
            self._values[column] = values
        return self._values[column]

    def place(self, update: int) -> Place:
        """The table and the row that the user gave for one of these updates; nothing if they are not the user's own."""
        if not self.is_base or not self.is_given:
            return Place()
        row = self.first + update if self.places is None else int(self.places[update].as_py())
        operation = self.operation if self.operations is None else int(self.operations[update].as_py())
        return Place(self.relation, row, operation)

    def row(self, update: int) -> tuple[object, ...]:
        """The values of one of these updates."""
        return tuple(self.values(i)[update].as_py() for i in range(len(self.types)))

    def slice(self, first: int, length: int = 1) -> Changes:
        """Some updates alone."""
        part = self.rows.slice(first, length)
        start = None if self.start is None else self.start + first
        places = None if self.places is None else self.places.slice(first, length)
        flips = None if self.flips is None else self.flips.slice(first, length)
        operations = None if self.operations is None else self.operations.slice(first, length)
        return replace(
            self,
            rows=part,
            first=self.first + first,
            start=start,
            places=places,
            operations=operations,
            flips=flips,
            _values={},
        )

    def chosen(self, places: pa.Array) -> Changes:
        """The updates at some places."""
        given = counted(self.first, len(self)) if self.places is None else self.places
        return replace(self, rows=self.rows.take(places), places=given.take(places), flips=None, _values={})

    def of_set(self) -> Changes:
        """The same updates as changes of a set of rows: their weights are the flips."""
        if not self.is_base:
            raise TypeError(f"{self.relation} is no base table: nobody knows when its rows appear and vanish")
        flips = pc.sign(self.rows.weight).cast(pa.int64()) if self.flips is None else self.flips
        return replace(self, rows=WordRows(self.rows.columns, flips, self.rows.update))


def words_array(column: object) -> pa.Array:
    """A column of the kernel as an Arrow array, without copying."""
    return pa.array(column)


def joined(column: pa.ChunkedArray) -> pa.Array:
    """A column's chunks as one array, without copying where there is one."""
    if column.num_chunks == 1:
        return column.chunk(0)
    combined = column.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined


class Shared:
    """An array that many batches have in common; it grows to the longest that is asked for, within bounds."""

    most = 1 << 20

    def __init__(self, make: Callable[[int], pa.Array], type_: pa.DataType = _NOTHING.type) -> None:
        self._make = make
        self._array = pa.array([], type_)

    def __call__(self, length: int) -> pa.Array:
        if length > self.most:
            return self._make(length)
        array = self._array  # another thread may put a shorter one in its place
        if length > len(array):
            array = self._array = self._make(min(self.most, 2 * length))
        return array.slice(0, length)


def repeated(word: int, length: int) -> pa.Array:
    """One word again and again."""
    return words_array(constant_column(word, length))


def counted(first: int, length: int) -> pa.Array:
    """The words first, first + 1, …"""
    if first + length <= Shared.most:
        return _positions(first + length).slice(first)
    return pc.add(_positions(length), pa.scalar(first, pa.int64()))


zeros = Shared(lambda length: repeated(0, length))
"""Words 0."""
ones = Shared(lambda length: repeated(1, length))
"""Words 1."""
_positions = Shared(lambda length: pc.subtract(pc.cumulative_sum(repeated(1, length)), pa.scalar(1, pa.int64())))


def has_lowest(weight: pa.Array) -> bool:
    """True if a weight is −2⁶³: so many copies can go, but cannot be told, as they are no number of copies."""
    return len(weight) > 0 and bool(pc.min(weight).as_py() == _LOWEST)


def negated(words: pa.Array) -> pa.Array:
    """Words with their sign turned, checked."""
    return pc.negate_checked(words)
