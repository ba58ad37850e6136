"""What can be read row by row: the part that a view and a table have in common for a user."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from threading import RLock
from typing import Any, NoReturn, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.input.from_python import check_kind, from_values
from everview.engine.input.rejection import Where
from everview.engine.operators.answers import Answers, Sought
from everview.engine.operators.steps import CHUNK
from everview.engine.progress import Progress
from everview.engine.show import SHOWN_ROWS, as_html
from everview.engine.values.dictionary import UNKNOWN, Dictionary
from everview.engine.values.rows import ONE, WordRows
from everview.engine.values.words import NULL, arrow_type, from_words, is_wide, to_words
from everview.errors import DataError, RowShapeError, StaleReadError, TooManyRowsError, ValueTypeError
from everview.kernel import StaleCursor
from everview.query.types import DataType

Row = tuple[Any, ...]
T = TypeVar("T")
MOST_LISTED = 2**40
"""So many copies of some rows are made where all are wanted at once: no machine has the memory for more."""

_MADE_AT_ONCE = 4_096
"""So many tuples a loop over rows makes at a time: who reads the first few only does not wait for more."""


class Relation(ABC):
    """Rows under a name, with copies. Reading sees whole batches only, also beside threads that change them."""

    def __init__(self, name: str, columns: Sequence[tuple[str, DataType]], dictionary: Dictionary, lock: RLock) -> None:
        self.name = name
        self._columns = tuple(columns)
        self._types = tuple(type_ for _, type_ in columns)
        self._dictionary = dictionary
        self._lock = lock

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return pa.schema([pa.field(name, arrow_type(type_)) for name, type_ in self._columns])

    @abstractmethod
    def _rows(self, *, partly: bool = False) -> Iterator[WordRows]:
        """All rows, chunk by chunk; with ``partly`` perhaps only the first of them are going to be read."""

    def _placed(self, *, partly: bool) -> Iterator[WordRows]:
        """All rows in the order of their positions, each once, with all its copies."""
        return self._rows(partly=partly)

    def _streamed(self) -> Iterator[WordRows]:
        """All rows, chunk by chunk, at the delay promised: in the order of their positions if that allows it."""
        return self._rows()

    @abstractmethod
    def _ask(self, question: Callable[[Answers], T]) -> T:
        """What is answered to a question about the rows by who keeps them; None where they have to be listed."""

    def _kept_count(self) -> int | None:
        """How many rows there are, as it is kept beside them for whoever asks; None if it is not."""
        return None

    @abstractmethod
    def _changed(self) -> int:
        """A number that is another one after each change."""

    def count(self) -> int:
        """How many rows there are, copies included, as SELECT COUNT(*) would say; of any size."""
        with self._lock:
            known = self._ask(lambda rows: rows.count())
            if known is None:
                known = self._kept_count()
            if known is None:
                known = self._ask(lambda rows: rows.counted())
            if known is not None:
                return known
            try:
                return sum(rows.copies for rows in self._rows())
            except TooManyRowsError:
                known = self._ask(lambda rows: rows.recounted())
                if known is None:
                    raise
                return known

    def __len__(self) -> int:
        """The same, as far as Python's ``len`` goes: 2⁶³ − 1."""
        size = self.count()
        if size > sys.maxsize:
            raise TooManyRowsError(
                f"{self.name} has {size:,} rows, and Python's len() says no more than {sys.maxsize:,}",
                hint="ask count() for the number; page() and iter() read a part of the rows",
            )
        return size

    def __bool__(self) -> bool:
        """True if there is any row."""
        with self._lock:
            known = self._ask(lambda rows: rows.count())
            return any(len(rows) for rows in self._rows(partly=True)) if known is None else known > 0

    def __contains__(self, row: object) -> bool:
        """True if the row is there; a value of another type than its column's never is."""
        row = self._row(row)
        with self._lock:
            return self._contains(row)

    def _row(self, row: object) -> Sequence[Any]:
        """A row that was given, if it has the form of one."""
        if not isinstance(row, Sequence) or isinstance(row, str | bytes):
            raise RowShapeError(f"{self.name} holds rows, and {row!r} is none", hint="pass a tuple of its columns")
        if len(row) != len(self._types):
            raise RowShapeError(
                f"a row of {self.name} has {len(self._types)} columns, not {len(row)}",
                hint=f"its columns are {', '.join(self.schema.names)}",
            )
        return row

    def _contains(self, row: Sequence[Any]) -> bool:
        try:
            sought = self._sought(row)
        except ValueTypeError:
            return False
        return sought is not None and self._has(sought)

    def _has(self, sought: Sought) -> bool:
        known = self._ask(lambda rows: rows.test(sought))
        return any(sought.is_among(rows) for rows in self._rows(partly=True)) if known is None else known

    def _sought(self, row: Sequence[Any]) -> Sought | None:
        """A row to look for; None if a value of it cannot be in its column. One of another type is refused."""
        every = range(len(self._types))
        words = self._words(row, every)
        if words is None:
            return None
        known = zip(words, self._types, strict=True)
        if any(word == UNKNOWN and is_wide(type_) for word, type_ in known):
            return Sought(lambda: self._words(row, every) or [])
        return Sought(lambda: words)

    def _words(self, values: Sequence[Any], columns: Sequence[int]) -> list[int] | None:
        """The words of values of some columns; None if one is too large, or too long, to be in its column.

        A value of another type than its column's is refused.
        """
        found = []
        for value, column in zip(values, columns, strict=True):
            type_ = self._types[column]
            if value is None:
                found.append(NULL)
                continue
            where = Where(self.name, "look-up in", self._columns[column][0])
            check_kind(value, type_, where)
            try:
                array = from_values([value], type_, where)
            except DataError:
                return None
            words = self._dictionary.lookup(array) if is_wide(type_) else to_words(array, type_, self._dictionary)
            found.append(int(words[0].as_py()))
            if found[-1] == NULL:
                return None
        return found

    def __iter__(self) -> Iterator[Row]:
        """The rows as tuples, each as often as it has copies; of views in the order of their positions.

        But of a view that lists a row in several places, and many rows, they are in the order in which they come.

        They are all of one state: a StaleReadError ends the loop if the rows change before it does.
        """
        for batch, counts in self._steps():
            for start in range(0, batch.num_rows, _MADE_AT_ONCE):
                made = tuples(batch.slice(start, _MADE_AT_ONCE))
                for row, copies in zip(made, counts[start : start + _MADE_AT_ONCE], strict=True):
                    for _ in range(copies):
                        yield row

    def to_arrow(self) -> pa.Table:
        """All rows, copies repeated."""
        with self._lock, Progress(f"reading {self.name}") as progress:
            batches = []
            for rows in self._rows():
                batches.append(self._repeated(rows))
                progress.add(batches[-1].num_rows)
        return pa.Table.from_batches(batches, schema=self.schema)

    def to_pandas(self) -> Any:
        """All rows as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """All rows for whoever takes Arrow streams: ``pa.table(…)``, ``pl.DataFrame(…)``, DuckDB."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        """The first rows, as a notebook shows them."""
        shown, more = self._head(SHOWN_ROWS)
        return as_html(shown, more)

    def _head(self, most: int) -> tuple[pa.Table, int | None]:
        """The first rows, and how many there are beside them; None: some, but they have not been counted."""
        taken: list[pa.RecordBatch] = []
        size = 0
        with self._lock:
            for rows in self._rows(partly=True):
                taken.append(self._repeated(rows.slice(0, most + 1 - size), most=most + 1 - size))
                size += taken[-1].num_rows
                if size > most:
                    break
            known = self._ask(lambda rows: rows.count()) if size > most else size
        more = None if known is None else max(0, known - most)
        return pa.Table.from_batches(taken, schema=self.schema).slice(0, most), more

    def _repeated(self, rows: WordRows, most: int | None = None) -> pa.RecordBatch:
        """Rows as values, copies repeated; no more than so many, if ``most`` is given."""
        batch, counts = self._decoded(rows)
        if pc.all(pc.equal(rows.weight, ONE)).as_py():
            return batch
        if most is None and (size := rows.copies) > MOST_LISTED:
            raise TooManyRowsError(
                f"{self.name} has {size:,} copies of {len(rows):,} rows, and no more than {MOST_LISTED:,} are listed",
                hint="page() and iter() read a part of them; a view with COUNT(*) and GROUP BY has each row once",
            )
        positions: list[int] = []
        for i, copies in enumerate(counts):
            positions += [i] * (copies if most is None else min(copies, most))
        return batch.take(pa.array(positions, pa.int64()))

    def _steps(self) -> Iterator[tuple[pa.RecordBatch, list[int]]]:
        """All rows as values with their copies, batch by batch; others may have their turn between two of them."""
        chunks = self._streamed()
        seen = None
        while True:
            with self._lock:
                seen = self._changed() if seen is None else seen
                try:
                    found = next(chunks, None) if self._changed() == seen else self._stale()
                except StaleCursor:  # a feed was opened or closed, which changes the state, too
                    self._stale()
                if found is None:
                    return
                decoded = [self._decoded(found.slice(i, CHUNK)) for i in range(0, len(found), CHUNK)]
            yield from decoded

    def _stale(self) -> NoReturn:
        kind = type(self).__name__.lower()
        raise StaleReadError(
            f"{self.name} has changed since the first of its rows was read, or a feed of it was opened or closed",
            table=self.name,
            hint=f"read all rows before the next change, with list({kind}); beside other threads use {kind}.to_arrow()",
        ) from None

    def _decoded(self, rows: WordRows) -> tuple[pa.RecordBatch, list[int]]:
        """Rows as values, and the copies of each."""
        columns = zip(rows.columns, self._types, strict=True)
        arrays = [from_words(c, t, self._dictionary) for c, t in columns]
        counts = rows.weight.to_pylist()
        if arrays:
            return pa.RecordBatch.from_arrays(arrays, schema=self.schema), counts
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(counts), pa.struct([]))), counts

    def __repr__(self) -> str:
        columns = ", ".join(f"{name} {type_}" for name, type_ in self._columns)
        return f"<{type(self).__name__} {self.name}({columns})>"


def tuples(batch: pa.RecordBatch) -> list[Row]:
    """A batch's rows."""
    if batch.num_columns == 0:
        return [()] * batch.num_rows
    return list(zip(*(c.to_pylist(maps_as_pydicts="strict") for c in batch.columns), strict=True))
