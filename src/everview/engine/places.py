"""Where rows stand that are listed several times: each where it is listed first, with all its copies.

A view may list a row in several places: as a row of several sides of UNION ALL, or of a join whose joining columns are
not shown. For positions its copies are put side by side. Where the copies of a row can be looked up, rows are given one
by one: those that are passed over later were paid for by the copies given before, so the first rows cost no more than
their number. Where they cannot, or so many rows are wanted that listing everything is cheaper, the whole list is added
up, and kept for as long as the database does not change.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.operators.answers import Answers, Sought
from everview.engine.operators.counts import Fold
from everview.engine.operators.fetched import FEWER, TOO_MANY
from everview.engine.values.rows import WordRows, ones, zeros
from everview.errors import DataError, TooManyRowsError

_ROWS_A_LOOKUP = 500
"""Looking up one row's copies takes as long as listing so many rows, or more."""
_LOOKUPS = 16
"""So many rows are looked up before more are listed."""


class Places(Answers):
    """All rows of a result, each once with all its copies, which stand where they are here."""

    def __init__(self, rows: WordRows, state: object) -> None:
        self.rows = rows
        self.state = state
        """Of which state of the view they are."""
        self._size = rows.copies
        self._ends = _running(rows.weight, self._size)

    def count(self) -> int:
        """How many copies there are of all rows."""
        return self._size

    def access(self, positions: Sequence[int]) -> WordRows:
        """The rows at some positions."""
        places = pa.array([bisect_right(self._ends, position) for position in positions], pa.int64())
        return WordRows(tuple(c.take(places) for c in self.rows.columns), ones(len(places)), zeros(len(places)))

    def rank(self, row: Sought) -> int | None:
        """The position of a row's first copy."""
        place = row.place(self.rows)
        return None if place is None else self._ends[place - 1] if place else 0


def _running(weight: pa.Array, size: int) -> Sequence[int]:
    """The position behind the last copy of each row."""
    if size >= 2**63:
        return list(accumulate(weight.to_pylist()))
    ends = pc.cumulative_sum(weight)
    return memoryview(ends.buffers()[1]).cast("q")[: len(ends)] if len(ends) else ()


def gathered(
    listed: Iterator[WordRows],
    net: Fold,
    copies_of: Callable[[Sequence[int]], int] | None,
    keep: Callable[[WordRows], None],
) -> Iterator[WordRows]:
    """Rows that may be listed several times, each once, where it is listed first, with all its copies.

    ``copies_of`` looks up how many copies a row has, if that can be done. Who reads so many rows that listing all of
    them costs less has them all added up; ``keep`` is then given the result.
    """
    chunks: list[WordRows] = []
    waiting: list[WordRows] = []
    seen: set[tuple[int, ...]] = set()
    read = 0
    while True:
        while copies_of is None or not waiting or read < _ROWS_A_LOOKUP * (len(seen) + _LOOKUPS):
            chunk = next(listed, None)
            if chunk is None:
                everything = added_up(chunks, net)
                keep(everything)
                yield everything.slice(len(seen), len(everything) - len(seen))
                return
            read += len(chunk)
            chunks.append(chunk)
            if copies_of is not None:
                waiting += [chunk.slice(i, _LOOKUPS) for i in range(0, len(chunk), _LOOKUPS)]
        rows = waiting.pop(0)
        places, copies = [], []
        for place, words in enumerate(_words(rows)):
            if words not in seen:
                seen.add(words)
                places.append(place)
                copies.append(copies_of(words))
        taken = rows.take(pa.array(places, pa.int64()))
        yield WordRows(taken.columns, pa.array(copies, pa.int64()), taken.update)


def _words(rows: WordRows) -> Iterator[tuple[int, ...]]:
    if not rows.columns:
        return iter([()] * len(rows))
    return zip(*(c.to_pylist() for c in rows.columns), strict=True)


def added_up(chunks: Sequence[WordRows], net: Fold) -> WordRows:
    """Each row of some chunks once, where it comes first, with the copies that it has in all of them.

    The kernel keeps rows in the order in which they come to an empty table, as ``net`` is.
    """
    try:
        columns, (weight,) = net.sums((c.columns, (c.weight,)) for c in chunks)
    except DataError as error:
        raise TooManyRowsError(TOO_MANY, hint=FEWER) from error
    return WordRows(columns, weight, zeros(len(weight)))
