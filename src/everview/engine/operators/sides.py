"""What has several sides: what they have in common, whatever is made of the rows of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from everview.engine.expressions.parked import Parked
from everview.engine.operators.answers import Answers
from everview.engine.operators.counts import Kept
from everview.engine.operators.join import Join
from everview.engine.values.rows import Changes, WordRows


class Operator(Answers, Protocol):
    """What gives rows: a block, or a set operation over two."""

    @property
    def width(self) -> int:
        """How many columns its rows have."""

    @property
    def cores(self) -> tuple[Join, ...]:
        """The cores below."""

    @property
    def folds(self) -> tuple[Kept, ...]:
        """The folds below."""

    @property
    def parked(self) -> tuple[Parked, ...]:
        """What an expression below fails on."""

    @property
    def needs_deltas(self) -> bool:
        """True if state outside the cores depends on their deltas, or a batch may be refused because of them."""

    @property
    def is_net_per_update(self) -> bool:
        """True if each changed row knows the update that made it, and no other changes it in the same update."""

    @property
    def keeps_update_numbers(self) -> bool:
        """True if what single updates have changed can be told of a whole batch, where its ``Changes`` ask for it."""

    def identifies_inputs(self, implied: Mapping[str, frozenset[int]]) -> bool:
        """True if a row says which row of each relation it is made of; ``implied`` columns follow from the others."""

    def seed(self) -> None:
        """Hold what there is before any input. It is called once, when the view's unit is linked."""

    def emit_deltas(self, wanted: bool) -> None:
        """Give what changes from now on, or stop; for sources that do not need their deltas themselves."""

    def process(self, changes: Changes) -> WordRows:
        """Take in updates and give what changed."""

    def rows(self, *, partly: bool = False) -> Iterator[WordRows]:
        """The whole result; with ``partly`` perhaps only its first rows are going to be read."""


def pieces_of(source: Operator, changes: Changes) -> Iterator[WordRows]:
    """Have a source take in updates; gives what changed, in bounded pieces if it can, and none of them empty."""
    found = source.pieces(changes) if hasattr(source, "pieces") else [source.process(changes)]
    return (piece for piece in found if len(piece))


class Sides(Answers):
    """Several operators side by side, whose rows have equal columns."""

    def __init__(self, sides: tuple[Operator, ...]) -> None:
        self.sides = sides
        self.width = sides[0].width

    @property
    def cores(self) -> tuple[Join, ...]:
        """The cores of all sides."""
        return tuple(c for s in self.sides for c in s.cores)

    @property
    def folds(self) -> tuple[Kept, ...]:
        """The folds of all sides."""
        return tuple(f for s in self.sides for f in s.folds)

    @property
    def parked(self) -> tuple[Parked, ...]:
        """What an expression of any side fails on."""
        return tuple(p for s in self.sides for p in s.parked)

    @property
    def needs_deltas(self) -> bool:
        """True if a side's state depends on its core's deltas."""
        return any(s.needs_deltas for s in self.sides)

    def seed(self) -> None:
        """Every side does."""
        for side in self.sides:
            side.seed()

    def emit_deltas(self, wanted: bool) -> None:
        """Every side does."""
        for side in self.sides:
            side.emit_deltas(wanted)


class OneSide(Sides):
    """What makes its rows of those of one other operator: all but what it makes of them, and keeps, is the other's."""

    def __init__(self, source: Operator) -> None:
        super().__init__((source,))
        self.source = source
