"""Cursor trees: what a cursor's steps may be besides loops (docs/programs.md).

A cursor is a *product* of steps: each step gives rows, that is, sets its registers once a row, for every row of the
steps before it, whose registers it may read. Loops (``Step``, ``InOrder``) are such steps. Those here put products
together: rows one after the other (``Concat``), the rows of several sets without repetition (``Union``), and of as many
sets as a group has rows (``Buckets``). ``Guard`` and ``Ask`` let a product depend on what its registers hold.

No two steps of a cursor set the same register. What is set inside a part or member is known there only; outside, the
``words`` are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from everview.kernel.program import Cursor, InOrder, Operand, Output, Reg, Step, Test

MOST_NESTED = 64
"""Products within products are at most so deep; the cursor itself is the first."""


@dataclass(frozen=True, slots=True)
class Question:
    """A function, and what it is asked with."""

    function: str
    arguments: tuple[Operand, ...] = ()

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class Guard:
    """One row if the test holds, none if not."""

    test: Test
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class Ask:
    """One row: ``targets`` ← what a function gives. So a row of a union gets its weight."""

    targets: tuple[Reg, ...]
    question: Question


@dataclass(frozen=True, slots=True)
class Part:
    """Of a concatenation: ``outputs`` for every row of the product of ``steps``, which may begin with a guard."""

    steps: tuple[Node, ...]
    outputs: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
class Concat:
    """``words`` ← the rows of each part, one part after the other; rows that several parts give come several times."""

    words: tuple[Reg, ...]
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """Of a union: the set of ``outputs`` for the rows of the product of ``steps``, which gives none of them twice.

    ``test`` asks a function whether the set has the row that the union's words hold: its first result is 0 if not.
    """

    steps: tuple[Node, ...]
    outputs: tuple[Output, ...]
    test: Question


@dataclass(frozen=True, slots=True)
class Union:
    """``words`` ← the rows of all members, each row once."""

    words: tuple[Reg, ...]
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Buckets:
    """``words`` ← the rows of all buckets, each row once: there is a bucket for every row of the loop ``each``.

    ``bucket`` and its test read, besides what is set before, the row of the loop.
    """

    words: tuple[Reg, ...]
    each: Step | InOrder
    bucket: Member


Node: TypeAlias = Step | InOrder | Guard | Ask | Concat | Union | Buckets


def inner(node: Node) -> tuple[tuple[Node, ...], ...]:
    """The products that a step is put together of."""
    match node:
        case Concat():
            return tuple(part.steps for part in node.parts)
        case Union():
            return tuple(member.steps for member in node.members)
        case Buckets():
            return ((node.each,), node.bucket.steps)
        case _:
            return ()


def registers_of(node: Node) -> tuple[Reg, ...]:
    """The registers that a step sets for those after it."""
    match node:
        case Step() | InOrder():
            return (node.row,)
        case Ask():
            return node.targets
        case Concat() | Union() | Buckets():
            return node.words
        case _:
            return ()


def all_nodes(cursor: Cursor) -> Iterator[tuple[Node, int]]:
    """The steps of a cursor, and those in them, with how many products are around each, its own parts included."""
    ahead = [(node, 1 + bool(inner(node))) for node in cursor.steps]
    while ahead:
        node, depth = ahead.pop()
        yield node, depth
        ahead += [(below, depth + bool(inner(below))) for steps in inner(node) for below in steps]
