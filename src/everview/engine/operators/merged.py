"""UNION ALL of sides that are kept in one order: its rows stand in that order, the copies of all sides side by side.

How many rows of a side come before any row its tree says in O(log N). So their sum says where a row stands; and which
row stands at a position is searched for in each side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.operators.answers import Given, Sought
from everview.engine.operators.counts import Columns
from everview.engine.operators.select import Select
from everview.engine.values.rows import WordRows, joined, repeated, zeros
from everview.strategies.strategy import MOST_RANKS

_PROBES = 32
"""So many positions are looked at together in a search."""


class Merged:
    """Positions in the rows of several sides, each of which shows all its variables once."""

    def __init__(self, sides: Sequence[Select]) -> None:
        self.sides = tuple(sides)
        self.width = sides[0].width

    @property
    def total(self) -> int | None:
        """How many rows there are; None if positions do not go so far."""
        sizes = [side.count() for side in self.sides]
        total = sum(size for size in sizes if size is not None)
        return None if None in sizes or total >= MOST_RANKS else total

    def ranks(self, columns: Columns) -> pa.Array:
        """How many rows come before each of some rows, which need not be there."""
        found = zeros(len(columns[0]))
        for side in self.sides:
            before = side.before(columns)
            assert before is not None
            found = pc.add(found, before)
        return found

    def rank(self, row: Sought) -> int:
        """The first position of a row."""
        return int(self.ranks(tuple(repeated(word, 1) for word in row.words))[0].as_py())

    def access(self, positions: Sequence[int]) -> WordRows:
        """The rows at some positions, each of which there is."""
        if isinstance(positions, range) and positions.step == 1 and len(positions) > 1:
            return self._between(positions.start, positions.stop)
        return self._searched(positions)

    def _searched(self, positions: Sequence[int]) -> WordRows:
        """The row at a position is, of those that each side has last at or before it, the one that comes last."""
        if not positions:
            return WordRows.empty(self.width)
        found, best, taken = [], [-1] * len(positions), [0] * len(positions)
        first = 0
        for side in self.sides:
            last = self._last_before(side, positions)
            inside = [i for i, place in enumerate(last) if place >= 0]
            rows = _at(side, [last[i] for i in inside])
            for i, (at, rank) in zip(inside, enumerate(self.ranks(rows.columns).to_pylist(), first), strict=True):
                if rank > best[i]:
                    best[i], taken[i] = rank, at
            found.append(rows)
            first += len(rows)
        return WordRows.concat(found, self.width).take(pa.array(taken, pa.int64()))

    def _last_before(self, side: Select, positions: Sequence[int]) -> list[int]:
        """For each position the last place in a side at which a row begins at or before it; −1 if there is none."""
        low, high = [-1] * len(positions), [side.count() or 0] * len(positions)
        probes = max(1, _PROBES // len(positions))
        while True:
            asked = [
                (i, place)
                for i, (a, b) in enumerate(zip(low, high, strict=True))
                for place in sorted({a + (b - a) * n // (probes + 1) for n in range(1, probes + 1)} | {(a + b) // 2})
                if a < place < b
            ]
            if not asked:
                return low
            ranks = self.ranks(_at(side, [place for _, place in asked]).columns).to_pylist()
            for (i, place), rank in zip(asked, ranks, strict=True):
                if rank <= positions[i]:
                    low[i] = max(low[i], place)
                else:
                    high[i] = min(high[i], place)

    def _between(self, start: int, stop: int) -> WordRows:
        """The rows from a position on up to another: of the first and the last row perhaps not all copies."""
        ends = self._searched([start, stop - 1])
        first, last = self.ranks(ends.columns).to_pylist()
        if first == last:
            return ends.take(pa.array([0] * (stop - start), pa.int64()))
        found, behind = [ends], first
        for side in self.sides:
            begin, end = side.before(ends.columns).to_pylist()  # type: ignore[union-attr]  # ``ranks`` has asked it
            begin += (copies := _copies(side, ends))
            behind += copies
            found.append(_at(side, range(begin, end)))
        inner = pc.sort_indices(self.ranks(WordRows.concat(found[1:], self.width).columns)) if last > behind else []
        taken = [0] * (min(behind, stop) - start), [2 + i.as_py() for i in inner], [1] * (stop - last)
        return WordRows.concat(found, self.width).take(pa.array([i for part in taken for i in part], pa.int64()))

    def rows(self, *, partly: bool) -> Iterator[WordRows]:
        """All rows in order, each once, with the copies of all sides."""
        streams = [side.rows(partly=partly) for side in self.sides]
        waiting: dict[int, pa.Table] = {}
        while True:
            for i, stream in enumerate(streams):
                if i not in waiting and (rows := next((r for r in stream if len(r)), None)) is not None:
                    waiting[i] = self._ranked(rows)
            if not waiting:
                return
            bound = min(table["rank"][-1].as_py() for table in waiting.values())  # Up to here no side has more to come.
            ready = []
            for i, table in list(waiting.items()):
                size = pc.sum(pc.less_equal(table["rank"], bound)).as_py()
                ready.append(table.slice(0, size))
                waiting[i] = table.slice(size)
                if size == len(table):
                    del waiting[i]
            yield self._together(pa.concat_tables(ready))

    def _ranked(self, rows: WordRows) -> pa.Table:
        names = [f"c{i}" for i in range(self.width)]
        return pa.table([*rows.columns, rows.weight, self.ranks(rows.columns)], names=[*names, "n", "rank"])

    def _together(self, rows: pa.Table) -> WordRows:
        """Rows in order, equal ones, which have one rank, as one."""
        rows = rows.append_column("place", pa.array(range(len(rows)), pa.int64()))
        found = rows.group_by("rank", use_threads=False).aggregate([("n", "sum"), ("place", "min")]).sort_by("rank")
        weight = joined(found["n_sum"])
        columns = rows.take(found["place_min"])
        return WordRows(tuple(joined(columns[f"c{i}"]) for i in range(self.width)), weight, zeros(len(weight)))


def _at(side: Select, positions: Sequence[int]) -> WordRows:
    rows = side.access(positions) if positions else WordRows.empty(side.width)
    assert rows is not None
    return rows


def _copies(side: Select, rows: WordRows) -> int:
    """How many copies a side has of the first of some rows."""
    words = {i: column[0].as_py() for i, column in enumerate(rows.columns)}
    found = side.lookup(Given(frozenset(words), lambda: words))
    assert found is not None
    return sum(rows.copies for rows in found)
