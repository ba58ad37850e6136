"""What can be asked about rows without listing them: how many there are, whether one is there, which one stands where.

Every operator of a view, and every table, answers such a question or says None: "list the rows instead". Whoever reads
rows asks first, and so need not know operators by their kind. Rows count as often as they have copies, and stand in the
order in which the operator lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import pyarrow.compute as pc

from everview.engine.values.rows import ZERO, WordRows


class Sought:
    """A row that is asked for, as words.

    They may be others each time they are read: a string that a view computes has an id only once it was computed.
    """

    def __init__(self, look_up: Callable[[], list[int]]) -> None:
        self._look_up = look_up

    @property
    def words(self) -> list[int]:
        """The word of each column."""
        return self._look_up()

    def place(self, rows: WordRows) -> int | None:
        """Where the row is among others; None if it is not there, or has no copies."""
        mask = pc.greater(rows.weight, ZERO)
        for column, word in zip(rows.columns, self.words, strict=True):
            mask = pc.and_(mask, pc.equal(column, word))
        found = int(pc.index(mask, True).as_py())
        return None if found < 0 else found

    def is_among(self, rows: WordRows) -> bool:
        """True if the row is one of those."""
        return self.place(rows) is not None


class Given:
    """The words that rows which are looked up have in some columns, by the columns' places.

    As those of a row that is asked for, they may be others each time they are read.
    """

    def __init__(self, columns: frozenset[int], look_up: Callable[[], dict[int, int]]) -> None:
        self.columns = columns
        self._look_up = look_up

    @property
    def words(self) -> dict[int, int]:
        """The word of each of the columns."""
        return self._look_up()

    def among(self, rows: WordRows) -> WordRows:
        """Those of some rows that have the words."""
        mask = None
        for i, word in self.words.items():
            same = pc.equal(rows.columns[i], word)
            mask = same if mask is None else pc.and_(mask, same)
        return rows if mask is None else rows.filter(mask)


class Answers(Protocol):
    """Who can be asked about rows. Each answer is None, "list them", unless a subclass knows better."""

    def count(self) -> int | None:
        """How many rows there are, copies included."""
        return None

    def counted(self) -> int | None:
        """The same, where that takes a walk through what is stored, but not through all rows."""
        return None

    def recounted(self) -> int | None:
        """The same, where rows cannot be listed for it, as one has more copies than a word holds."""
        return None

    def test(self, row: Sought) -> bool | None:
        """Whether a row is there."""
        return None

    def access(self, positions: Sequence[int]) -> WordRows | None:
        """The rows at some positions, each of which is not negative and less than ``count()``."""
        return None

    def rank(self, row: Sought) -> int | None:
        """The first position of a row that is there."""
        return None

    @property
    def may_access(self) -> bool:
        """True if it could know positions, and does not as nobody has asked for that."""
        return False

    @property
    def order(self) -> tuple[int, ...] | None:
        """The columns by whose values its rows are listed in order, NULL first; None if in no such order."""
        return None

    def placed(self, *, partly: bool) -> Iterator[WordRows] | None:
        """All rows in the order of their positions: each once, with all its copies.

        None if it lists a row in several places, or does not know. With ``partly`` perhaps only the first of them are
        going to be read.
        """
        return None

    def lookup(self, given: Given) -> Iterator[WordRows] | None:
        """The rows that have given words in some columns; None unless ``looks_up`` says that it can."""
        return None

    def looks_up(self, columns: frozenset[int]) -> bool:
        """True if it can look rows up by these columns."""
        return False

    def may_look_up(self, columns: frozenset[int]) -> bool:
        """True if it can look rows up by these columns, or could if that was asked for in the view's options."""
        return False
