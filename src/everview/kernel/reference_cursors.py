"""What cursors mean: every kind of step as a generator, which docs/programs.md shows.

A generator sets its registers in the frame before each ``yield``. The kernel gives the same rows in the same order, and
can stop after any of them and go on later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from everview.kernel.cursors import Ask, Buckets, Concat, Guard, Member, Node, Part, Question, Union
from everview.kernel.program import InOrder, Operand, Output, Reg, Step, Test

Frame = dict[Reg, int]
Row = tuple[int, ...]


class State(Protocol):
    """What steps read: the reference interpreter."""

    def loop_rows(self, step: Step | InOrder, frame: Frame) -> Sequence[int]:
        """The rows of a loop."""

    def holds(self, test: Test, left: Operand, right: Operand, frame: Frame) -> bool:
        """Whether a test holds."""

    def output(self, output: Output, frame: Frame) -> int:
        """An operand or product."""

    def answer(self, function: str, arguments: Sequence[int]) -> Row:
        """What a function gives."""

    def broken(self, message: str) -> Exception:
        """A fault of the program."""


def product(state: State, steps: Sequence[Node], frame: Frame) -> Iterator[None]:
    """For every row of the first step all rows of the others; one row if there are no steps."""
    if not steps:
        yield
        return
    for _ in rows(state, steps[0], frame):
        yield from product(state, steps[1:], frame)


def rows(state: State, node: Node, frame: Frame) -> Iterator[None]:
    """The rows of one step."""
    match node:
        case Step() | InOrder():
            for row in state.loop_rows(node, frame):
                frame[node.row] = row
                yield
        case Guard():
            if state.holds(node.test, node.left, node.right, frame):
                yield
        case Ask():
            frame.update(zip(node.targets, _answer(state, node.question, frame), strict=True))
            yield
        case Concat():
            for part in node.parts:
                for row_ in given(state, part, dict(frame)):
                    frame.update(zip(node.words, row_, strict=True))
                    yield
        case Union():
            members = [(given(state, m, dict(frame)), _test(state, node.words, m, dict(frame))) for m in node.members]
            for row_ in union(state, members):
                frame.update(zip(node.words, row_, strict=True))
                yield
        case Buckets():
            buckets = []
            for outer in state.loop_rows(node.each, frame):
                own = frame | {node.each.row: outer}
                buckets.append((given(state, node.bucket, dict(own)), _test(state, node.words, node.bucket, own)))
            for row_ in union(state, buckets):
                frame.update(zip(node.words, row_, strict=True))
                yield


def given(state: State, part: Part | Member, frame: Frame) -> Iterator[Row]:
    """The rows that a part or member gives, in a frame of its own."""
    for _ in product(state, part.steps, frame):
        yield tuple(state.output(output, frame) for output in part.outputs)


def union(state: State, sets: Sequence[tuple[Iterator[Row], Callable[[Row], bool]]]) -> Iterator[Row]:
    """Each row of some sets once, by substitution: a row that a later set has makes way for that set's next row.

    The row itself comes when the later set has come to it. So no set runs dry before its time, and between two rows
    each set is tested once and moves on by one row at most.
    """
    while True:
        found: Row | None = None
        for more, has in sets:
            if found is None:
                found = next(more, None)
            elif has(found):
                found = next(more, None)
                if found is None:
                    raise state.broken("a test says that a set has a row which it has not given")
        if found is None:
            return
        yield found


def _test(state: State, words: Sequence[Reg], member: Member, frame: Frame) -> Callable[[Row], bool]:
    """Whether a member has a row."""
    return lambda row: _answer(state, member.test, frame | dict(zip(words, row, strict=True)))[0] != 0


def _answer(state: State, question: Question, frame: Frame) -> Row:
    return state.answer(question.function, [state.output(operand, frame) for operand in question.arguments])
