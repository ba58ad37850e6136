"""What random constructs are written with: the columns of the query below them, and orders of these."""

from __future__ import annotations

import random

PLAIN = set("nsdtzb")
"""Kinds whose values both systems put in one order, and count as equal or not alike."""
Found = tuple[str, list[str]]
Spelled = list[tuple[str, str]]


class Parts:
    """Writes over a query whose columns are c0, c1 and so on, of given kinds.

    ``spelled`` gets what DuckDB has other words for, and those.
    """

    def __init__(self, r: random.Random, spelled: Spelled) -> None:
        self.r = r
        self.spelled = spelled

    def _columns(self, kinds: list[str]) -> list[str]:
        return [f"c{i}" for i in range(len(kinds))]

    def _of(self, kinds: list[str], wanted: str) -> list[str]:
        return [f"c{i}" for i, k in enumerate(kinds) if k in wanted]

    def _order(self, kinds: list[str]) -> list[str]:
        """All columns in some order, ascending or not, with NULL at either end."""
        ways = (" NULLS FIRST", " DESC NULLS LAST", " NULLS LAST", " DESC NULLS FIRST")
        by = [c + self.r.choice(ways) for c in self._columns(kinds)]
        self.r.shuffle(by)
        return by

    def _partition(self, kinds: list[str]) -> str:
        return f"PARTITION BY {self.r.choice(self._columns(kinds))} " if self.r.random() < 0.6 else ""

    def _column(self, kinds: list[str]) -> tuple[str, str]:
        """One of the columns, and its kind."""
        at = self.r.randrange(len(kinds))
        return f"c{at}", kinds[at]

    def _told(self, found: Found, ours: str, theirs: str) -> Found:
        """The query, in which DuckDB has other words for a part."""
        if ours != theirs:
            self.spelled.append((found[0], found[0].replace(ours, theirs, 1)))
        return found
