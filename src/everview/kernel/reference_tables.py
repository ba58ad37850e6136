"""The tables of the reference interpreter: rows by number, their groups by level, and their order.

As short and slow as the interpreter, and as exact: rows of groups stand in the order in which the kernel has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from everview.kernel.program import Table


class Fault(Exception):
    """An update that had to be undone; ``kind`` is overflow or program."""

    def __init__(self, kind: str, message: str, update: int = 0) -> None:
        super().__init__(message)
        self.kind = kind
        self.update = update


class _Group:
    """Rows sorted by level, the highest first; ``above[l]`` rows are on level l or above."""

    def __init__(self, levels: int) -> None:
        self.rows: list[int] = []
        self.above = [0] * (levels + 1)

    def on(self, lowest: int, highest: int | None) -> list[int]:
        """The rows on some levels: a slice."""
        begin = 0 if highest is None else self.above[highest + 1]
        return self.rows[begin : self.above[lowest]]

    def move(self, row: int, before: int, after: int) -> None:
        """Swap a row over the borders between two levels, one by one."""
        for level in range(before + 1, after + 1):
            self._swap(self.rows.index(row), self.above[level])
            self.above[level] += 1
        for level in range(before, after, -1):
            self.above[level] -= 1
            self._swap(self.rows.index(row), self.above[level])

    def append(self, row: int) -> None:
        self.rows.append(row)
        self.above[0] += 1

    def remove(self, row: int) -> None:
        """The last row takes the place of one that stands on level 0."""
        self._swap(self.rows.index(row), len(self.rows) - 1)
        self.rows.pop()
        self.above[0] -= 1

    def _swap(self, i: int, j: int) -> None:
        self.rows[i], self.rows[j] = self.rows[j], self.rows[i]


class State:
    """One table: keys, values and levels by row number, and the groups of each index."""

    def __init__(self, table: Table, values: Mapping[int, bytes]) -> None:
        self.table = table
        self.texts = values
        self.keys: list[tuple[int, ...]] = []
        self.values: list[list[int]] = []
        self.levels: list[int] = []
        self.rows: dict[tuple[int, ...], int] = {}
        self.groups: list[dict[tuple[int, ...], _Group]] = [{} for _ in table.indexes]

    def group(self, index: int, key: tuple[int, ...], level: int, highest: int | None) -> list[int]:
        """The rows of a group on some levels; all rows of the table are in its own order."""
        if level == 0 and highest in (None, self.table.levels - 1) and not self.table.indexes[index]:
            return list(range(len(self.keys)))
        return (self.groups[index].get(key) or _Group(self.table.levels)).on(level, highest)

    def in_order(self, order: int, key: tuple[int, ...]) -> list[int]:
        """The rows of a group of an ordered index."""
        shape = self.table.orders[order]
        rows = [r for r, k in enumerate(self.keys) if tuple(k[c] for c in shape.columns[: len(key)]) == key]
        rows.sort(key=lambda r: self.keys[r])
        for c in reversed(shape.columns):
            by_value = c in shape.by_value
            rows.sort(key=lambda r: self._place(self.keys[r][c], by_value), reverse=c in shape.descending)
        return rows

    def _place(self, word: int, by_value: bool) -> tuple[bool, bytes, int]:
        """What a word is ordered by: its value, if it has one, after all words that have none."""
        is_text = by_value and word in self.texts
        return is_text, self.texts[word] if is_text else b"", word

    def ranked(self, order: int, key: tuple[int, ...]) -> list[int]:
        """How many ranks each row of a group has, in order."""
        measure = self.table.orders[order].measure
        rows = self.in_order(order, key)
        return [1 if measure is None else max(0, self.values[r][measure]) for r in rows]

    def before(self, order: int, key: Sequence[int], width: int) -> int:
        """How many ranks come before a key among those of the group by its first words."""
        group = tuple(key[:width])
        ranks = zip(self.in_order(order, group), self.ranked(order, group), strict=True)
        return sum(count for row, count in ranks if self._precedes(self.keys[row], order, key))

    def _precedes(self, row: tuple[int, ...], order: int, key: Sequence[int]) -> bool:
        shape = self.table.orders[order]
        for c, word in zip(shape.columns, key, strict=False):
            own, other = (self._place(w, c in shape.by_value) for w in (row[c], word))
            if own != other:
                return (own < other) != (c in shape.descending)
        return False

    def select(self, order: int, key: tuple[int, ...], rank: int) -> int | None:
        """The place of a rank among a group's rows in order."""
        widths = self.ranked(order, key)
        if rank < 0:
            rank += sum(widths)
        for place, width in enumerate(widths):
            if 0 <= rank < width:
                return place
            rank -= width
        return None

    def _own_groups(self, row: int) -> Iterator[_Group]:
        for columns, groups in zip(self.table.indexes, self.groups, strict=True):
            yield groups.setdefault(tuple(self.keys[row][c] for c in columns), _Group(self.table.levels))

    def insert(self, key: tuple[int, ...]) -> int:
        if key in self.rows:
            raise Fault("program", f"{self.table.name} has {key} already")
        row = len(self.keys)
        self.rows[key] = row
        self.keys.append(key)
        self.values.append([0] * len(self.table.values))
        self.levels.append(0)
        for group in self._own_groups(row):
            group.append(row)
        return row

    def set_level(self, row: int, level: int) -> None:
        for group in self._own_groups(row):
            group.move(row, self.levels[row], level)
        self.levels[row] = level

    def remove(self, row: int) -> None:
        self.set_level(row, 0)
        for group in self._own_groups(row):
            group.remove(row)
        del self.rows[self.keys[row]]
        last = len(self.keys) - 1
        if row != last:
            for group in self._own_groups(last):
                group.rows[group.rows.index(last)] = row
            self.keys[row], self.values[row], self.levels[row] = self.keys[last], self.values[last], self.levels[last]
            self.rows[self.keys[row]] = row
        del self.keys[last], self.values[last], self.levels[last]
