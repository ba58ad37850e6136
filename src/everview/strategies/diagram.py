"""A strategy's shape as boxes and links, which the text and the picture of ``explain`` draw alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum


class Box(Enum):
    """What a box stands for; its value is what the picture's legend says of it, if anything."""

    INPUT = ""
    GROUP = "dashed: generalized node"
    JOIN = "red: a join kept materialised"


@dataclass(frozen=True)
class DiagramNode:
    """A box, what it shares with the one above, and the boxes below."""

    label: str
    box: Box = Box.INPUT
    key: str = ""
    """The variables on the link to the box above; empty at the top."""
    is_listed: bool = True
    """True if it is visited when the result is read, and does not only have to match."""
    children: tuple[DiagramNode, ...] = ()

    def walk(self) -> Iterator[DiagramNode]:
        """The node and all below it, top-down."""
        yield self
        for child in self.children:
            yield from child.walk()

    def lines(self) -> list[str]:
        """The tree with box characters; ● is listed when the result is read, ○ only has to be there."""
        return [self._line(), *self._below("")]

    def _line(self) -> str:
        mark = "●" if self.is_listed else "○"
        return f"{mark} {self.label}  on {self.key}" if self.key else f"{mark} {self.label}"

    def _below(self, indent: str) -> Iterator[str]:
        for child in self.children:
            last = child is self.children[-1]
            yield f"{indent}{'└─' if last else '├─'} {child._line()}"
            yield from child._below(indent + ("   " if last else "│  "))


@dataclass(frozen=True)
class Diagram:
    """A tree of boxes with its titles: ``kind`` for the margin, ``title`` in full, ``caption`` in a few words."""

    kind: str
    title: str
    caption: str
    root: DiagramNode
