"""One row for each element of an array: what a row gives follows from the row alone, so nothing is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.operators.sides import OneSide, Operator, pieces_of
from everview.engine.values.dictionary import NULL, Dictionary
from everview.engine.values.rows import Changes, WordRows
from everview.engine.values.words import from_words, to_words
from everview.query.view import Exploded

_AT_ONCE = 2**16
"""So many rows are taken apart at a time, and their elements held in memory."""
_NO_PLACE = pa.scalar(NULL, pa.int64())


class Elements(OneSide):
    """The rows of another operator, each as often as its array has elements, with one of these."""

    def __init__(self, source: Operator, exploded: Exploded, dictionary: Dictionary) -> None:
        super().__init__(source)
        self.exploded = exploded
        self.width = len(exploded.columns)
        self.dictionary = dictionary
        self._type = exploded.body.columns[exploded.column].type

    @property
    def is_net_per_update(self) -> bool:
        """False: an array may have an element twice."""
        return False

    @property
    def keeps_update_numbers(self) -> bool:
        """True if what gives the rows does."""
        return self.source.keeps_update_numbers

    def identifies_inputs(self, implied: Mapping[str, frozenset[int]]) -> bool:
        """Two elements of one row may be equal."""
        return False

    def process(self, changes: Changes) -> WordRows:
        """What changed, element by element."""
        return WordRows.concat(self.pieces(changes), self.width)

    def pieces(self, changes: Changes) -> Iterator[WordRows]:
        """The same, some rows at a time."""
        for rows in pieces_of(self.source, changes):
            yield from self._apart(rows)

    def placed(self, *, partly: bool) -> Iterator[WordRows] | None:
        """As they are listed, if each shows its place in the array: an array may have an element twice."""
        rows = self.source.placed(partly=partly) if self.exploded.has_position else None
        return None if rows is None else self._of(rows)

    def rows(self, *, partly: bool = False) -> Iterator[WordRows]:
        """All rows, element by element."""
        return self._of(self.source.rows(partly=partly))

    def _of(self, listed: Iterator[WordRows]) -> Iterator[WordRows]:
        for rows in listed:
            yield from self._apart(rows)

    def _apart(self, rows: WordRows) -> Iterator[WordRows]:
        for first in range(0, len(rows), _AT_ONCE):
            yield self._elements(rows.take(pa.array(range(first, min(len(rows), first + _AT_ONCE)), pa.int64())))

    def _elements(self, rows: WordRows) -> WordRows:
        arrays = from_words(rows.columns[self.exploded.column], self._type, self.dictionary)
        of_row = pc.list_parent_indices(arrays).cast(pa.int64())
        values = pc.list_flatten(arrays)
        words = to_words(values, self._type.element, self.dictionary)
        lengths = pc.fill_null(pc.list_value_length(arrays), 0).cast(pa.int64())
        begins = pc.subtract(pc.cumulative_sum(lengths), lengths)
        places = pc.subtract(pa.array(range(len(words)), pa.int64()), begins.take(of_row))
        if self.exploded.outer:
            empty = pc.indices_nonzero(pc.equal(lengths, 0)).cast(pa.int64())
            nothing = pa.repeat(_NO_PLACE, len(empty))
            of_row = pa.concat_arrays([of_row, empty])
            words, places = (pa.concat_arrays([found, nothing]) for found in (words, places))
        taken = rows.take(of_row)
        more = (places, words) if self.exploded.has_position else (words,)
        return taken.with_columns((*taken.columns, *more))
