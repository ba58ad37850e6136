"""Positions in a union whose members, and what these have in common, are kept in one order (q-hierarchical.md 14).

Rows are listed by substitution: those of the first member first, and where one is a row of a later member, too, the
next row of that one comes in its place. So how many rows of each member have been listed before a position follows from
how many rows of the intersections come before the row that each member has come to, by inclusion and exclusion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import pyarrow as pa

from everview.engine.operators.counts import Columns
from everview.engine.operators.select import Select
from everview.engine.values.dictionary import Dictionary
from everview.engine.values.rows import WordRows
from everview.engine.values.words import from_words, is_wide
from everview.query.types import DataType
from everview.strategies.strategy import MOST_RANKS

_PROBES = 32
"""So many positions are looked at together in a search."""
Subset = tuple[int, ...]


class UnionPositions:
    """Finds rows by their positions in a union, and positions by rows.

    ``sets`` has the members, by their numbers alone, and the intersections of several that may have rows.
    """

    def __init__(
        self,
        members: int,
        sets: Mapping[Subset, Select],
        order: Sequence[int],
        types: Sequence[DataType],
        dictionary: Dictionary,
        has: Callable[[int, Columns], Sequence[bool]],
    ) -> None:
        self.members = members
        self.sets = sets
        self.order = tuple(order)
        self.types = tuple(types)
        self.dictionary = dictionary
        self._has = has
        self._sizes: dict[Subset, int] = {}

    @property
    def total(self) -> int | None:
        """How many rows there are; None if positions do not go so far."""
        sizes = {subset: one.count() for subset, one in self.sets.items()}
        if any(size is None or size >= MOST_RANKS for size in sizes.values()):
            return None
        self._sizes = {subset: size for subset, size in sizes.items() if size is not None}
        total = self._up_to(self.members)
        return total if total < MOST_RANKS else None

    def _size(self, subset: Subset) -> int:
        return self._sizes.get(subset, 0)

    def _up_to(self, members: int) -> int:
        """How many rows the first members have together."""
        chosen = _subsets(range(members))
        return sum((-1) ** (len(subset) + 1) * self._size(subset) for subset in chosen if subset)

    # --- what is at a position -------------------------------------------------------------------------------------

    def access(self, positions: Sequence[int]) -> WordRows | None:
        """The rows at some positions; None if rows must be listed to know."""
        if self.total is None:
            return None
        found: list[WordRows] = []
        places: list[int] = []
        for phase, inside in self._by_phase(positions):
            passed = self._passed(phase, [positions[i] for i in inside])
            rows = self._at(phase, passed[phase])
            for later in range(phase + 1, self.members):
                is_there = self._has(later, rows.columns)
                changed = [i for i, is_row in enumerate(is_there) if is_row]
                if changed:
                    other = self._at(later, [passed[later][i] for i in changed])
                    rows = _replaced(rows, changed, other)
            found.append(rows)
            places += inside
        at = {place: i for i, place in enumerate(places)}
        return WordRows.concat(found, len(self.types)).take(
            pa.array([at[i] for i in range(len(positions))], pa.int64())
        )

    def _by_phase(self, positions: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
        """The places among the positions at which rows of each member begin what is listed."""
        first = 0
        for phase in range(self.members):
            end = self._up_to(phase + 1)
            inside = [i for i, position in enumerate(positions) if first <= position < end]
            if inside:
                yield phase, inside
            first = end

    def _passed(self, phase: int, positions: Sequence[int]) -> dict[int, list[int]]:
        """For each member from ``phase`` on how many of its rows are listed before each position."""
        shift = self._size((phase,)) - self._up_to(phase + 1)
        passed = {phase: [position + shift for position in positions]}
        reached: dict[int, list[WordRows | None]] = {}
        for member in range(phase + 1, self.members):
            before = member - 1
            if before >= phase:
                reached[before] = self._reached(before, passed[before])
            counts = [0] * len(positions)
            for giver in range(member):
                for between in _subsets(range(giver + 1, member)):
                    subset = (giver, *between, member)
                    if subset in self.sets:
                        sign = (-1) ** len(between)
                        size = self._size(subset)
                        given = [size] * len(positions) if giver < phase else self._before(subset, reached[giver], size)
                        counts = [count + sign * n for count, n in zip(counts, given, strict=True)]
            passed[member] = counts
        return passed

    def _reached(self, member: int, passed: Sequence[int]) -> list[WordRows | None]:
        """The row that a member has come to when so many of its rows have been passed; None at its end."""
        inside = [i for i, n in enumerate(passed) if n < self._size((member,))]
        rows = self._at(member, [passed[i] for i in inside])
        found: list[WordRows | None] = [None] * len(passed)
        for place, i in enumerate(inside):
            found[i] = rows.slice(place, 1)
        return found

    def _before(self, subset: Subset, rows: Sequence[WordRows | None], size: int) -> list[int]:
        """How many rows of an intersection come before each row; all of them before the end."""
        counts = [size] * len(rows)
        inside = [i for i, row in enumerate(rows) if row is not None]
        if not inside or not size:
            return counts
        one = self.sets[subset]
        joined = WordRows.concat([row for row in rows if row is not None], len(self.types))
        if one.shows_each_once:
            found = one.before(joined.columns)
            assert found is not None
            known = found.to_pylist()
        else:
            known = [self._searched(one, size, self._key(joined, i)) for i in range(len(inside))]
        for i, n in zip(inside, known, strict=True):
            counts[i] = n
        return counts

    def _searched(self, one: Select, size: int, key: tuple[Any, ...]) -> int:
        """The same where a column is constant, or shown twice: the first position that is not before the row."""
        low, high = 0, size
        while low < high:
            probes = sorted({low + (high - low) * i // _PROBES for i in range(_PROBES)})
            rows = one.access(probes)
            assert rows is not None
            for i, position in enumerate(probes):
                if self._key(rows, i) >= key:
                    high = position
                    break
                low = position + 1
        return low

    def _key(self, rows: WordRows, row: int) -> tuple[Any, ...]:
        """What a row is compared by: as the ordered indexes compare words, and values for which words stand."""
        found: list[Any] = []
        for c in self.order:
            word = rows.columns[c].slice(row, 1)
            value = from_words(word, self.types[c], self.dictionary)[0].as_py() if is_wide(self.types[c]) else None
            found.append(_comparable(word[0].as_py() if value is None else value, value is not None))
        return tuple(found)

    def _at(self, member: int, positions: Sequence[int]) -> WordRows:
        found = self.sets[(member,)].access(positions)
        assert found is not None
        return found

    # --- where a row is --------------------------------------------------------------------------------------------

    def rank(self, row: WordRows, rank_in: Callable[[Select], int | None]) -> int | None:
        """The position of a row that is there; ``rank_in`` gives it in a member. None if rows must be listed to know.

        The row is listed when its last member comes to it: at the last position before which that one has passed no
        more rows than those before it.
        """
        total = self.total
        if total is None:
            return None
        last = max(member for member in range(self.members) if self._has(member, row.columns)[0])
        own = rank_in(self.sets[(last,)])
        if own is None:
            return None
        low, high = 0, self._up_to(last)
        position = own - self._size((last,)) + self._up_to(last + 1)
        if position >= high:
            return position
        while high - low > 1:  # Before the position ``low`` no more have been passed, before ``high`` more have.
            probes = sorted({low + (high - low) * i // _PROBES for i in range(1, _PROBES)} - {low})
            passed = [0] * len(probes)
            for phase, inside in self._by_phase(probes):
                for i, n in zip(inside, self._passed(phase, [probes[i] for i in inside])[last], strict=True):
                    passed[i] = n
            for probe, n in zip(probes, passed, strict=True):
                if n > own:
                    high = probe
                    break
                low = probe
        return low


def _subsets(members: range) -> Iterator[Subset]:
    """All sets of some members, the empty one first."""
    for size in range(len(members) + 1):
        yield from combinations(members, size)


def _replaced(rows: WordRows, places: Sequence[int], others: WordRows) -> WordRows:
    """Rows with others at some places."""
    taken = list(range(len(rows)))
    for i, place in enumerate(places):
        taken[place] = len(rows) + i
    return WordRows.concat([rows, others], len(rows.columns)).take(pa.array(taken, pa.int64()))


def _comparable(value: Any, is_value: bool) -> tuple[Any, ...]:
    """Words without a value, NULL among them, come before those with one."""
    if isinstance(value, list | dict):
        items = value.values() if isinstance(value, dict) else value
        value = tuple((0,) if v is None else _comparable(v, True) for v in items)
    return (is_value, value)
