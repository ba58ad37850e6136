"""A fold at work: measures for every distinct row, and what changed since it was last settled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.operators.steps import CHUNK, beyond_a_word, explained, unlimited
from everview.engine.values.dictionary import Dictionary
from everview.engine.values.rows import FEW, ZERO, has_lowest, words_array, zeros
from everview.engine.values.words import is_wide
from everview.kernel.machine import Part, Unit, UpdateFault
from everview.programs.counts import PLACE, RANKED, ROWS, TRACE, Ranked, compile_fold, found_by
from everview.programs.link import Linker
from everview.query.types import DataType

Columns = tuple[pa.Array, ...]


class Kept(Protocol):
    """State around the cores: what has a part of the view's unit."""

    @property
    def part(self) -> Part:
        """The part that holds it."""

    @property
    def word_types(self) -> Mapping[str, DataType]:
        """The types of the values that words of its rows stand for, by what its program calls the columns."""

    def wide_words(self) -> Iterator[pa.Array]:
        """The ids of wide values that it uses: one use for each time that one comes."""

    def let_go(self) -> None:
        """Forget everything, once settled, and give the uses back."""


class Fold:
    """Keeps measures by row. Wide words of its rows stay in the dictionary for as long as the row is there.

    ``widths`` says of how many words each measure is (without it, all are of one): so many columns it has then in what
    is given and taken. ``by`` has sets of columns that rows are found by, and with ``ranked`` they are in order, too.
    It is a part of the unit that ``linker`` makes. Without one it is a unit by itself; ``is_kept`` is False then for
    one that only adds something up and is cleared at once.
    """

    def __init__(
        self,
        types: Sequence[DataType],
        measures: int,
        dictionary: Dictionary,
        linker: Linker | None = None,
        *,
        widths: Sequence[int] = (),
        by: Sequence[Sequence[int]] = (),
        ranked: Ranked | None = None,
        is_kept: bool = True,
    ) -> None:
        self.types = tuple(types)
        self.width = len(types)
        self.widths = tuple(widths) or (1,) * measures
        self.measures = sum(self.widths)
        """How many columns its measures are."""
        self.dictionary = dictionary
        program = compile_fold(self.width, self.widths, tuple(map(tuple, by)), ranked)
        alone = partial(Unit, program, dictionary.machine, is_logged=is_kept)
        self.part: Part = alone() if linker is None else linker.add("counts", program)
        self._wide = [i for i, t in enumerate(types) if is_wide(t)]

    @property
    def word_types(self) -> Mapping[str, DataType]:
        """The types of a row's columns, by what its program calls them."""
        return dict(zip(self.part.program.table(ROWS).key, self.types, strict=True))

    def wide_words(self) -> Iterator[pa.Array]:
        """Those of its rows."""
        for columns, _ in self.rows() if self._wide else ():
            yield from (columns[i] for i in self._wide)

    def add(self, columns: Columns, changes: Columns) -> None:
        """Change the measures of some rows."""
        self._apply("add", columns, changes)

    def trace(self, columns: Columns, changes: Columns) -> tuple[Columns, Columns]:
        """The same; gives the measures before each single change, and after it."""
        try:
            self._apply(TRACE, columns, changes)
        finally:
            told = tuple(words_array(c) for c in self.part.take(TRACE))
        return told[: self.measures], told[self.measures :]

    def _apply(self, procedure: str, columns: Columns, changes: Columns) -> None:
        if not len(changes[0]):
            return
        try:
            self.part.apply(procedure, [*columns, *changes])
        except UpdateFault as fault:
            raise explained(fault) from fault

    def touched(self) -> tuple[Columns, Columns, Columns]:
        """The rows whose measures may have changed since ``settle``: words, old measures, new measures."""
        columns = _all(self.part, "touched", self.width + 2 * self.measures)
        return columns[: self.width], columns[self.width : -self.measures], columns[-self.measures :]

    def settle(self, touched: tuple[Columns, Columns, Columns] | None = None) -> None:
        """Take the new measures for the old ones, and let go of rows that have none left.

        ``touched`` is what ``touched()`` has given, if it was asked already.
        """
        columns, old, new = touched or self.touched()
        now = _any(new)
        if self._wide:
            come = pc.subtract(now.cast(pa.int8()), _any(old).cast(pa.int8())).cast(pa.int64())
            for i in self._wide:
                self.dictionary.count(columns[i], come)
        gone = pc.invert(now)
        with unlimited(self.part.machine):
            self.part.apply("settle", [zeros(1)])
            if self.width:
                self.part.apply("drop", [c.filter(gone) for c in columns])

    def rows(self) -> Iterator[tuple[Columns, Columns]]:
        """All rows with their measures, chunk by chunk."""
        return self._fetched("all", ())

    def found(self, number: int, words: Sequence[int]) -> Iterator[tuple[Columns, Columns]]:
        """The rows that have these words in the columns of one of the sets ``by``, with their measures."""
        return self._fetched(found_by(number), words)

    def from_rank(self, partition: Sequence[int], start: int, most: int) -> Iterator[tuple[Columns, Columns]]:
        """The rows of a partition from a rank on, in order, in chunks of at most so many."""
        return self._fetched(RANKED, (*partition, start), most)

    def places(self, columns: Columns) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Whether rows are there (1, else 0), their first ranks, and those of the first rows with the same keys."""
        there, rank, first = map(words_array, self.part.ask(PLACE, columns))
        return there, rank, first

    def _fetched(self, name: str, words: Sequence[int], most: int = CHUNK) -> Iterator[tuple[Columns, Columns]]:
        cursor = self.part.open(name, words)
        while True:
            columns = tuple(words_array(c) for c in cursor.fetch(most))
            if not columns or not len(columns[0]):
                return
            yield columns[: self.width], columns[self.width :]

    def measures_of(self, words: Sequence[int]) -> list[int] | None:
        """The measures of one row, as numbers; None if it is not there."""
        found = self.part.find(ROWS, words)
        return None if found is None else found[0][: len(self.widths)]

    def holds(self, words: Sequence[int]) -> bool:
        """Whether a row is there, once settled: its first measure counts it."""
        measures = self.measures_of(words)
        return measures is not None and measures[0] > 0

    def count(self) -> int:
        """How many rows are there, once settled."""
        return self.part.size(ROWS) if self.width else int(self.holds(()))

    def sums(self, parts: Iterable[tuple[Columns, Columns]]) -> tuple[Columns, Columns]:
        """The rows of all parts with their measures added up, whatever the memory limit; nothing is kept."""
        try:
            with unlimited(self.part.machine):
                for columns, measures in parts:
                    self.add(columns, measures)
            rows, _, found = self.touched()
        finally:
            self.part.clear()
        return rows, found

    def summed(self, parts: Iterable[tuple[Columns, pa.Array]]) -> tuple[Columns, pa.Array]:
        """The rows of all parts with their weights added up; nothing is kept, as the fold is only there for this."""
        try:
            for columns, weight in parts:
                self.add(columns, (weight,))
            rows, _, (weights,) = self.touched()
        finally:
            self.part.clear()
        if has_lowest(weights):
            raise beyond_a_word()
        return rows, weights

    def let_go(self) -> None:
        """Forget everything, once settled."""
        for words in self.wide_words():
            self.dictionary.release(words)
        self.part.clear()


def _all(part: Part, cursor: str, width: int) -> Columns:
    opened = part.open(cursor)
    chunks: list[list[pa.Array]] = []
    while True:
        chunk = [words_array(c) for c in opened.fetch(CHUNK)]
        if not chunk or not len(chunk[0]):
            break
        chunks.append(chunk)
        if len(chunk[0]) < CHUNK:
            break
    if len(chunks) == 1:
        return tuple(chunks[0])
    if not chunks:
        return tuple(pa.array([], pa.int64()) for _ in range(width))
    return tuple(pa.concat_arrays([c[i] for c in chunks]) for i in range(width))


def _any(measures: Columns) -> pa.Array:
    """True where some measure is not 0."""
    if len(measures[0]) <= FEW:
        return pa.array([any(row) for row in zip(*(m.to_pylist() for m in measures), strict=True)], pa.bool_())
    result = pc.not_equal(measures[0], ZERO)
    for m in measures[1:]:
        result = pc.or_(result, pc.not_equal(m, ZERO))
    return result
