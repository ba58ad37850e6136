"""A result whose rows are kept beside what gives them, with indexes on sets of columns: OPTIONS (lookup = (…)).

It is for what cannot be looked up otherwise: columns that are computed, and queries whose trees do not have the columns
above the others. Each changed row is kept, so an update costs what it changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from everview.engine.operators.answers import Given, Sought
from everview.engine.operators.counts import Fold, Kept
from everview.engine.operators.sides import OneSide, Operator, pieces_of
from everview.engine.values.dictionary import Dictionary
from everview.engine.values.rows import Changes, WordRows, zeros
from everview.programs.link import Linker
from everview.query.types import DataType


class Indexed(OneSide):
    """Rows as another operator gives them, and an index of them for each of some sets of columns."""

    needs_deltas = True

    def __init__(
        self,
        source: Operator,
        types: Sequence[DataType],
        by: Sequence[frozenset[int]],
        dictionary: Dictionary,
        linker: Linker,
    ) -> None:
        super().__init__(source)
        self.by = tuple(by)
        self.kept = Fold(types, 1, dictionary, linker, by=[sorted(columns) for columns in by])

    def seed(self) -> None:
        """A global aggregate has a row before there is any input."""
        super().seed()
        for rows in self.source.rows():
            self._keep(rows)

    @property
    def folds(self) -> tuple[Kept, ...]:
        """The rows, and the folds of what gives them."""
        return (self.kept, *super().folds)

    @property
    def is_net_per_update(self) -> bool:
        """As what gives the rows."""
        return self.source.is_net_per_update

    @property
    def keeps_update_numbers(self) -> bool:
        """As what gives the rows."""
        return self.source.keeps_update_numbers

    def identifies_inputs(self, implied: Mapping[str, frozenset[int]]) -> bool:
        """As what gives the rows."""
        return self.source.identifies_inputs(implied)

    def process(self, changes: Changes) -> WordRows:
        """Take in updates, keep what changed and give it."""
        return WordRows.concat(self.pieces(changes), self.width)

    def pieces(self, changes: Changes) -> Iterator[WordRows]:
        """The same, piece by piece."""
        for piece in pieces_of(self.source, changes):
            self._keep(piece)
            yield piece

    def _keep(self, rows: WordRows) -> None:
        self.kept.add(rows.columns, (rows.weight,))
        self.kept.settle()

    def count(self) -> int | None:
        """As what gives the rows."""
        return self.source.count()

    def counted(self) -> int | None:
        """As what gives the rows."""
        return self.source.counted()

    def recounted(self) -> int | None:
        """As what gives the rows."""
        return self.source.recounted()

    def test(self, row: Sought) -> bool:
        """A lookup of the whole row."""
        return self.kept.holds(row.words)

    def access(self, positions: Sequence[int]) -> WordRows | None:
        """As what gives the rows."""
        return self.source.access(positions)

    def rank(self, row: Sought) -> int | None:
        """As what gives the rows."""
        return self.source.rank(row)

    @property
    def may_access(self) -> bool:
        """As what gives the rows."""
        return self.source.may_access

    @property
    def order(self) -> tuple[int, ...] | None:
        """As what gives the rows."""
        return self.source.order

    def lookup(self, given: Given) -> Iterator[WordRows] | None:
        """By the index on these columns, if there is one."""
        if given.columns not in self.by:
            return self.source.lookup(given)
        words = given.words
        found = self.kept.found(self.by.index(given.columns), [words[i] for i in sorted(words)])
        return (WordRows(columns, weight, zeros(len(weight))) for columns, (weight,) in found)

    def looks_up(self, columns: frozenset[int]) -> bool:
        """True if there is an index on these columns, or what gives the rows can do without."""
        return columns in self.by or self.source.looks_up(columns)

    def may_look_up(self, columns: frozenset[int]) -> bool:
        """True if there is an index, or what gives the rows can do without, or could."""
        return columns in self.by or self.source.may_look_up(columns)

    def placed(self, *, partly: bool) -> Iterator[WordRows] | None:
        """As what gives them says."""
        return self.source.placed(partly=partly)

    def rows(self, *, partly: bool = False) -> Iterator[WordRows]:
        """As what gives them lists them."""
        return self.source.rows(partly=partly)
