"""Window functions at work: of the partitions in which a row changes, all values are computed anew, by DuckDB.

What is kept is the result, found by partition: its rows are the rows that came in, with the values of the window
functions behind them. So a batch costs the size of the partitions that it touches, whatever the functions are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.expressions.window_query import WindowQuery
from everview.engine.operators.answers import Given, Sought
from everview.engine.operators.counts import Columns, Fold, Kept
from everview.engine.operators.sides import OneSide, Operator, pieces_of
from everview.engine.values.dictionary import Dictionary
from everview.engine.values.rows import ZERO, Changes, WordRows, negated, ones, repeated, zeros
from everview.engine.values.words import from_words, to_words
from everview.errors import TooManyRowsError
from everview.programs.link import Linker
from everview.query.view import Windowed

_MOST_COPIES = 2**26
"""So many copies of rows may be in the partitions that one batch touches: each has values of its own."""
_ROWS_A_LOOKUP = 500
"""Looking up one partition takes as long as passing over so many rows, or more."""


class WindowValues(OneSide):
    """The rows of another operator, each with the values of window functions."""

    needs_deltas = True
    is_net_per_update = False
    keeps_update_numbers = False

    def __init__(self, source: Operator, windowed: Windowed, dictionary: Dictionary, linker: Linker) -> None:
        super().__init__(source)
        self.windowed = windowed
        self.width = len(windowed.columns)
        self.dictionary = dictionary
        self._types = [c.type for c in windowed.columns]
        self._inputs = source.width
        self._query = WindowQuery(windowed)
        self.kept = Fold(self._types, 1, dictionary, linker, by=[windowed.partition])

    def seed(self) -> None:
        """A global aggregate has a row before there is any input."""
        super().seed()
        for rows in self.source.rows():
            self._changed(rows)

    @property
    def folds(self) -> tuple[Kept, ...]:
        """The rows with their values, and the folds of what gives the rows."""
        return (self.kept, *super().folds)

    def identifies_inputs(self, implied: Mapping[str, frozenset[int]]) -> bool:
        """A value is made of many rows."""
        return False

    def process(self, changes: Changes) -> WordRows:
        """Take in updates; gives the rows whose values are others now, as they were and as they are."""
        delta = WordRows.concat(pieces_of(self.source, changes), self.source.width)
        if not len(delta):
            return WordRows.empty(self.width)
        columns, change = self._changed(delta)
        position = changes.rows.update[0].as_py() if len(changes) else 0
        return WordRows(columns, change, repeated(position, len(change)))

    def _changed(self, delta: WordRows) -> tuple[Columns, pa.Array]:
        was, copies = _one_of(list(self._of_partitions(delta)), self.width)
        values = self._values(_added_up((was[: self._inputs], copies), delta))
        self.kept.add(was, (negated(copies),))
        self.kept.add(values.columns, (values.weight,))
        columns, (old,), (new,) = touched = self.kept.touched()
        self.kept.settle(touched)
        change = pc.subtract(new, old)
        mask = pc.not_equal(change, ZERO)
        return tuple(c.filter(mask) for c in columns), change.filter(mask)

    def _of_partitions(self, delta: WordRows) -> Iterator[tuple[Columns, pa.Array]]:
        """The rows that are there of all partitions that some rows are in, with their copies."""
        by = self.windowed.partition
        if not self.kept.count():
            return
        touched = _distinct([delta.columns[i] for i in by]) if by else None
        if touched is not None and touched.num_rows * _ROWS_A_LOOKUP < self.kept.count():
            for words in zip(*(column.to_pylist() for column in touched.columns), strict=True):
                for columns, (copies,) in self.kept.found(0, words):
                    yield columns, copies
            return
        for columns, (copies,) in self.kept.rows():
            if touched is None:
                yield columns, copies
            else:
                mask = _are_in([columns[i] for i in by], touched)
                yield tuple(c.filter(mask) for c in columns), copies.filter(mask)

    def _values(self, rows: WordRows) -> WordRows:
        """Rows, copy by copy, with the values of the window functions."""
        size = rows.copies
        if size > _MOST_COPIES:
            raise TooManyRowsError(
                f"window functions are computed over partitions of {size:,} rows, and no more than {_MOST_COPIES:,} "
                "are taken at once",
                hint="partition by more columns, or send smaller batches",
            )
        if not size:
            return WordRows.empty(self.width)
        columns = rows.columns
        if size != len(rows):
            counts = rows.weight.to_pylist()
            places = pa.array([i for i, n in enumerate(counts) for _ in range(n)], pa.int64())
            columns = tuple(c.take(places) for c in columns)
        types = self._types[: self._inputs]
        arrays = {i: from_words(columns[i], types[i], self.dictionary) for i in self._query.reads}
        places, values = self._query(arrays, size)
        taken = [c.take(places) for c in columns]
        made = zip(values, self._types[self._inputs :], strict=True)
        taken += [to_words(array, type_, self.dictionary) for array, type_ in made]
        return WordRows(tuple(taken), ones(size), zeros(size))

    def count(self) -> int | None:
        """As what gives the rows: each stays one row."""
        return self.source.count()

    def test(self, row: Sought) -> bool:
        """A lookup among the rows that are kept."""
        return self.kept.holds(row.words)

    def looks_up(self, columns: frozenset[int]) -> bool:
        """True if the columns are those of the partition, or all that there are."""
        return len(columns) == self.width or columns == frozenset(self.windowed.partition)

    def may_look_up(self, columns: frozenset[int]) -> bool:
        """The same: nothing would be kept by other columns."""
        return self.looks_up(columns)

    def lookup(self, given: Given) -> Iterator[WordRows] | None:
        """A lookup of a whole row, or of a partition."""
        words = given.words
        if given.columns == frozenset(self.windowed.partition):
            found = self.kept.found(0, [words[i] for i in self.windowed.partition])
            return (WordRows(columns, copies, zeros(len(copies))) for columns, (copies,) in found)
        if len(words) < self.width:
            return None
        whole = [word for _, word in sorted(words.items())]
        copies = self.kept.measures_of(whole)
        if copies is None or not copies[0]:
            return iter(())
        return iter((WordRows(tuple(repeated(w, 1) for w in whole), repeated(copies[0], 1), zeros(1)),))

    def placed(self, *, partly: bool) -> Iterator[WordRows] | None:
        """As they are listed."""
        return self.rows(partly=partly)

    def rows(self, *, partly: bool = False) -> Iterator[WordRows]:
        """All rows with their values."""
        for columns, (copies,) in self.kept.rows():
            yield WordRows(columns, copies, zeros(len(copies)))


def _distinct(columns: Sequence[pa.Array]) -> pa.Table:
    """The different rows of some columns."""
    names = [f"c{i}" for i in range(len(columns))]
    return pa.table(list(columns), names=names).group_by(names, use_threads=False).aggregate([])


def _are_in(columns: Sequence[pa.Array], wanted: pa.Table) -> pa.Array:
    """Which rows of some columns are among those that are wanted."""
    if len(columns) == 1:
        return pc.is_in(columns[0], wanted.column(0).combine_chunks())
    rows = pa.table([*columns, pa.array(range(len(columns[0])))], names=[*wanted.column_names, "place"])
    found = rows.join(wanted, wanted.column_names, join_type="left semi", use_threads=False)
    return pc.is_in(rows["place"], found["place"].combine_chunks()).combine_chunks()


def _one_of(pieces: Sequence[tuple[Columns, pa.Array]], width: int) -> tuple[Columns, pa.Array]:
    """All pieces as one."""
    if not pieces:
        return tuple(zeros(0) for _ in range(width)), zeros(0)
    columns = tuple(pa.concat_arrays([piece[i] for piece, _ in pieces]) for i in range(width))
    return columns, pa.concat_arrays([copies for _, copies in pieces])


def _added_up(was: tuple[Columns, pa.Array], delta: WordRows) -> WordRows:
    """Rows and their changes with their copies added up, without those that are gone."""
    parts = [was, (delta.columns, delta.weight)]
    names = [f"c{i}" for i in range(len(delta.columns))]
    table = pa.concat_tables([pa.table([*columns, copies], names=[*names, "n"]) for columns, copies in parts])
    found = table.group_by(names, use_threads=False).aggregate([("n", "sum")]).combine_chunks()
    found = found.filter(pc.greater(found["n_sum"], ZERO)).combine_chunks()
    columns = tuple(_one(found[name]) for name in names)
    return WordRows(columns, _one(found["n_sum"]), zeros(found.num_rows))


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], pa.int64())])
