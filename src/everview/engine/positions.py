"""Reading rows by where they stand: at a position, by rank, in pages, at random, at or after a row.

Positions count copies, which stand side by side: ``view[rank(row) + i] == row`` for as many i as the row has copies.
They are those of the order in which rows are listed, but for copies that are listed apart, all of which stand where the
first one is. Where a view's query allows it, that order is one of values, kept with the number of results of each row,
and all of this takes O(log N) (q-hierarchical.md 10): asked for by OPTIONS (access = true), else from the first such
call on. Other views are listed up to what is wanted, or, where copies are listed apart, whole (``engine.places``).
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from math import isfinite, isnan
from typing import Any, overload

from everview.engine.input.from_python import from_values
from everview.engine.input.rejection import Where
from everview.engine.operators.answers import Answers, Given, Sought
from everview.engine.operators.counts import Fold
from everview.engine.places import Places, added_up, gathered
from everview.engine.relation import Relation, Row, T, tuples
from everview.engine.values.rows import WordRows
from everview.errors import TooManyRowsError, ValueTypeError, whole_number
from everview.strategies.strategy import MOST_RANKS

_PROBES = 32
"""So many positions are looked at together in the search for a row's place."""
_FEW = 2**16
"""So many rows that come about apart are put side by side before any of them is given to a loop."""
_REACH = 2**30
"""Of a result with more rows than positions go so many rows are listed to find one; beyond that it would never end."""


class Positions(Relation):
    """Rows that can be read by position."""

    @abstractmethod
    def _prepare_positions(self) -> None:
        """Have rows kept in order from now on, if they can be and nobody has asked for it yet."""

    @abstractmethod
    def _kept_places(self) -> Places | None:
        """The list of all rows with their copies side by side, if it was made of what they are now."""

    @abstractmethod
    def _keep_places(self, rows: WordRows) -> None:
        """Keep that list for as long as the rows do not change."""

    @abstractmethod
    def _net(self) -> Fold:
        """What adds the copies of rows up."""

    def _placed(self, *, partly: bool) -> Iterator[WordRows]:
        kept = self._kept_places()
        if kept is not None:
            yield kept.rows
            return
        placed = self._ask(lambda rows: rows.placed(partly=partly))
        if placed is not None:
            yield from placed
            return
        whole = frozenset(range(len(self._types)))
        looks_up = self._ask(lambda rows: rows.looks_up(whole))
        copies = (lambda words: self._copies(whole, words)) if looks_up else None
        yield from gathered(self._rows(partly=partly), self._net(), copies, self._keep_places)

    def _streamed(self) -> Iterator[WordRows]:
        kept = self._kept_places()
        placed = iter([kept.rows]) if kept is not None else self._ask(lambda rows: rows.placed(partly=False))
        if placed is not None:
            yield from placed
            return
        listed = self._rows()
        first: list[WordRows] = []
        while sum(map(len, first)) <= _FEW:
            chunk = next(listed, None)
            if chunk is None:
                yield added_up(first, self._net())
                return
            first.append(chunk)
        yield from first
        yield from listed

    def _copies(self, whole: frozenset[int], words: Sequence[int]) -> int:
        """How many copies a row has, which is there."""
        found = self._ask(lambda rows: rows.lookup(Given(whole, lambda: dict(enumerate(words)))))
        assert found is not None
        return sum(rows.copies for rows in found)

    def _ask_places(self, question: Callable[[Answers], T]) -> T:
        """The same as ``_ask``, of the list that is kept of all rows, if there is one."""
        kept = self._kept_places()
        return self._ask(question) if kept is None else question(kept)

    @overload
    def __getitem__(self, position: int) -> Row: ...

    @overload
    def __getitem__(self, position: slice) -> list[Row]: ...

    def __getitem__(self, position: int | slice) -> Row | list[Row]:
        """The row at a position, or those at a slice of positions; negative ones count from the end."""
        if isinstance(position, slice):
            return self._sliced(position)
        if not hasattr(position, "__index__"):
            raise TypeError(f"a position is an integer or a slice, not a {type(position).__name__}")
        position = whole_number(position, "a position")
        with self._lock:
            self._prepare_positions()
            offset = position if position >= 0 else position + self.count()
            rows = self._page(offset, 1) if offset >= 0 else []
        if not rows:
            raise IndexError(f"{self.name} has no row at position {position}")
        return rows[0]

    def _sliced(self, positions: slice) -> list[Row]:
        with self._lock:
            self._prepare_positions()
            start, stop, step = _bounds(positions, self.count())
            if step == 1:
                return self._page(start, max(0, stop - start))
            wanted = range(start, stop, step)
            return self._at(wanted) if wanted else []

    def page(self, *, offset: int = 0, limit: int) -> list[Row]:
        """Some rows, from a position on."""
        offset, limit = whole_number(offset, "offset"), whole_number(limit, "limit")
        if offset < 0 or limit < 0:
            raise ValueError("offset and limit are not negative")
        with self._lock:
            self._prepare_positions()
            return self._page(offset, limit)

    def rank(self, row: Sequence[Any]) -> int:
        """The first position of a row, from 0; a KeyError if it is not there.

        A ValueTypeError if a value is of another type than its column.
        """
        row = self._row(row)
        with self._lock:
            sought = self._sought(row)
            found = None if sought is None else self._rank(sought)
        if found is None:
            raise KeyError(f"{row!r} is not in {self.name}")
        return found

    def _rank(self, sought: Sought) -> int | None:
        is_there = self._ask(lambda rows: rows.test(sought))
        if is_there is False:
            return None
        self._prepare_positions()
        kept = self._kept_places()
        if kept is not None:
            return kept.rank(sought)
        known = self._ask(lambda rows: rows.rank(sought)) if is_there else None
        if known is not None:
            return known
        passed = 0
        for rows in self._placed(partly=True):
            place = sought.place(rows)
            if place is not None:
                return passed + rows.slice(0, place).copies
            passed += rows.copies
            self._check_reach(passed)
        return None

    def _check_reach(self, listed: int) -> None:
        """Refuse to list so many rows where positions are only not kept because there are too many of them."""
        size = self._ask(lambda rows: rows.count()) if listed > _REACH else None
        if size is not None and size >= MOST_RANKS:
            raise TooManyRowsError(
                f"{self.name} has {size:,} rows: positions are kept of less than 2^63 - 1, and without them only the "
                f"first {_REACH:,} can be found",
                hint="define a view of fewer of them, with WHERE; count() answers",
            )

    def sample(self, n: int, *, seed: int | None = None, replace: bool = False) -> list[Row]:
        """Rows drawn at random, each as likely as any other, copies being rows; with ``replace`` also several times.

        The same ``seed`` over the same rows draws the same ones.
        """
        n = whole_number(n, "the number of rows of a sample")
        if n < 0:
            raise ValueError("a sample has no negative number of rows")
        drawn = random.Random(None if seed is None else whole_number(seed, "the seed"))
        with self._lock:
            self._prepare_positions()
            size = self.count()
            if size >= MOST_RANKS:
                raise TooManyRowsError(
                    f"{self.name} has {size:,} rows, and only those of less than 2^63 - 1 can be sampled",
                    hint="define a view of fewer of them, with WHERE",
                )
            if replace:
                return self._at([drawn.randrange(size) for _ in range(n)]) if size and n else []
            if n > size:
                raise ValueError(f"{self.name} has {size:,} rows, and cannot give {n:,} of them without replace=True")
            return self._at(drawn.sample(range(size), n)) if n else []

    def first_at_or_after(self, row: Sequence[Any]) -> Row | None:
        """The first row that is not before a given one, which need not be there; None if all are before it.

        Rows are ordered by values, NULL first: by the columns in the order that ``explain`` says, where rows are kept
        in one, else by the columns from left to right.
        """
        row = self._row(row)
        with self._lock:
            self._prepare_positions()
            self._sought(row)  # A value of another type is refused.
            values = [self._comparable(i, value) for i, value in enumerate(row)]
            columns = self._ask(lambda rows: rows.order)
            size = self._ask(lambda rows: rows.count())
            if columns is not None and size is not None and size < MOST_RANKS:
                return self._searched(_in_order(values, columns), columns, size)
            self._check_reach(size or 0)
            everything = range(len(values))
            wanted = _in_order(values, everything)
            keyed = ((_in_order(row, everything), row) for row in self._all())
            later = (found for found in keyed if found[0] >= wanted)
            return min(later, key=lambda found: found[0], default=(None, None))[1]

    def _comparable(self, column: int, value: Any) -> Any:
        """A value as those of its column are compared; a number may be too large for it, or have too many digits."""
        if value is None:
            return None
        name, type_ = self._columns[column]
        try:
            return from_values([value], type_, Where(self.name, "look-up in", name))[0].as_py()
        except ValueTypeError:
            if isinstance(value, int | float | Decimal) and isfinite(value):
                return value
            raise

    def _searched(self, wanted: tuple[Any, ...], columns: Sequence[int], size: int) -> Row | None:
        """The first row in order that is not before what is wanted: many positions are looked at together."""
        low, high, best = 0, size, None  # all before low are before it, the one at high, if there is one, is not
        while low < high:
            probes = sorted({low + (high - low) * i // _PROBES for i in range(_PROBES)})
            for position, row in zip(probes, self._at(probes), strict=True):
                if _in_order(row, columns) >= wanted:
                    high, best = position, row
                    break
                low = position + 1
        return best

    def _all(self) -> Iterator[Row]:
        """All rows, each once."""
        for rows in self._rows():
            yield from tuples(self._decoded(rows)[0])

    def _page(self, offset: int, limit: int) -> list[Row]:
        size = self._ask_places(lambda rows: rows.count())
        if size is not None and offset >= size:
            return []
        accessed = self._accessed(range(offset, min(offset + limit, size))) if size is not None else None
        if accessed is not None:
            return accessed
        self._check_reach(offset + limit)
        return self._cut(offset, limit)

    def _at(self, positions: Sequence[int]) -> list[Row]:
        """The rows at some positions, each of which there is, in any order."""
        accessed = self._accessed(positions)
        if accessed is not None:
            return accessed
        self._check_reach(max(positions))
        found: dict[int, Row] = {}
        waiting = sorted(set(positions), reverse=True)
        passed = 0
        for rows in self._placed(partly=True):
            size = rows.copies
            if waiting and waiting[-1] < passed + size:
                batch, counts = self._decoded(rows)
                for row, copies in zip(tuples(batch), counts, strict=True):
                    passed += copies
                    while waiting and waiting[-1] < passed:
                        found[waiting.pop()] = row
            else:
                passed += size
            if not waiting:
                break
        return [found[position] for position in positions]

    def _accessed(self, positions: Sequence[int]) -> list[Row] | None:
        """The rows at some positions, each by itself; None if rows have to be listed for that."""
        found = self._ask_places(lambda rows: rows.access(positions)) if positions else WordRows.empty(len(self._types))
        return None if found is None else tuples(self._decoded(found)[0])

    def _cut(self, offset: int, limit: int) -> list[Row]:
        """The same out of the list of all rows."""
        found: list[Row] = []
        passed = 0
        for rows in self._placed(partly=True) if limit else ():
            size = rows.copies
            if passed + size > offset:
                batch, counts = self._decoded(rows)
                skipped = max(0, offset - passed)
                for row, copies in zip(tuples(batch), counts, strict=True):
                    found += [row] * min(max(0, copies - skipped), limit - len(found))
                    skipped = max(0, skipped - copies)
            passed += size
            if len(found) == limit:
                break
        return found


def _bounds(positions: slice, size: int) -> tuple[int, int, int]:
    """A slice's bounds, as ``slice.indices`` gives them, for a number of rows of any size."""
    step = 1 if positions.step is None else int(positions.step)
    if step == 0:
        raise ValueError("a slice's step is not 0")
    lowest, highest = (0, size) if step > 0 else (-1, size - 1)

    def placed(at: int | None, default: int) -> int:
        if at is None:
            return default
        return min(max(at + size if at < 0 else at, lowest), highest)

    first, last = (lowest, highest) if step > 0 else (highest, lowest)
    return placed(positions.start, first), placed(positions.stop, last), step


def _in_order(row: Sequence[Any], columns: Sequence[int]) -> tuple[Any, ...]:
    """What a row is compared by: NULL comes first, and NaN last."""
    return tuple(_comparable(row[c]) for c in columns)


def _comparable(value: Any) -> tuple[Any, ...]:
    if value is None:
        return (0,)
    if isinstance(value, float) and isnan(value):
        return (2,)
    if isinstance(value, dict):
        value = list(value.values())
    return (1, tuple(map(_comparable, value)) if isinstance(value, list) else value)
