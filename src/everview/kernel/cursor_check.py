"""Refuses ill-formed cursors: part of the verifier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from everview.kernel.cursors import (
    MOST_NESTED,
    Ask,
    Buckets,
    Concat,
    Guard,
    Member,
    Node,
    Part,
    Question,
    Union,
    all_nodes,
    registers_of,
)
from everview.kernel.program import Cursor, InOrder, Product, Reg, Step

if TYPE_CHECKING:
    from everview.kernel.verifier import Checker, Frame

WORD = ""


def check_cursor(checker: Checker, cursor: Cursor) -> None:
    """Check what steps read, what they set, and what they ask."""
    set_once = Counter(cursor.parameters)
    for node, depth in all_nodes(cursor):
        set_once.update(registers_of(node))
        if depth > MOST_NESTED:
            raise checker.fault(f"products are within products more than {MOST_NESTED} deep")
    twice = [register for register, times in set_once.items() if times > 1]
    if twice:
        raise checker.fault(f"{twice[0]} is set twice")
    for register in set_once.keys() - set(cursor.parameters):
        if register.words > 1:
            raise checker.fault(f"{register} is to hold a row or a word, which has one word")
    frame: Frame = checker.given(cursor.parameters)
    _check_steps(checker, cursor.steps, frame)
    checker.outputs(cursor.outputs, frame)


def _check_steps(checker: Checker, steps: Sequence[Node], frame: Frame) -> None:
    for node in steps:
        _check_node(checker, node, frame)


def _check_node(checker: Checker, node: Node, frame: Frame) -> None:
    match node:
        case Step():
            checker.group(node, frame)
            frame[node.row] = node.table
        case InOrder():
            checker.order(node.table, node.order, len(node.key), node.key, frame)
            checker.words((node.start,), frame)
            frame[node.row] = node.table
        case Guard():
            checker.words((node.left, node.right), frame)
        case Ask():
            results = _check_question(checker, node.question, frame)
            if results != len(node.targets):
                raise checker.fault(f"{node.question.function} gives {results} words, not {len(node.targets)}")
            frame.update(dict.fromkeys(node.targets, WORD))
        case Concat():
            for part in node.parts:
                _check_part(checker, part, node.words, frame)
            frame.update(dict.fromkeys(node.words, WORD))
        case Union():
            for member in node.members:
                _check_part(checker, member, node.words, frame)
                _check_test(checker, member, node.words, frame)
            frame.update(dict.fromkeys(node.words, WORD))
        case Buckets():
            own = dict(frame)
            _check_node(checker, node.each, own)
            _check_part(checker, node.bucket, node.words, own)
            _check_test(checker, node.bucket, node.words, own)
            frame.update(dict.fromkeys(node.words, WORD))


def _check_part(checker: Checker, part: Part | Member, words: Sequence[Reg], frame: Frame) -> None:
    own = dict(frame)
    _check_steps(checker, part.steps, own)
    if len(part.outputs) != len(words):
        raise checker.fault(f"a part gives {len(part.outputs)} words, not {len(words)}")
    for output in part.outputs:
        checker.words(output.factors if isinstance(output, Product) else (output,), own)
        if checker.width(output) != 1:
            raise checker.fault(f"{output} has {checker.width(output)} words, and a part gives single ones")


def _check_test(checker: Checker, member: Member, words: Sequence[Reg], frame: Frame) -> None:
    if _check_question(checker, member.test, frame | dict.fromkeys(words, WORD)) == 0:
        raise checker.fault(f"{member.test.function} gives nothing, so it tests nothing")


def _check_question(checker: Checker, question: Question, frame: Frame) -> int:
    """Check a question; gives how many words answer it."""
    function = checker.facts.functions.get(question.function)
    if function is None:
        raise checker.fault(f"asks {question.function}, which is not there")
    if len(function.parameters) != len(question.arguments):
        wanted = len(function.parameters)
        raise checker.fault(f"{function.name} takes {wanted} arguments, not {len(question.arguments)}")
    checker.words(question.arguments, frame)
    if any(p.words > 1 for p in function.parameters):
        raise checker.fault(f"{function.name} takes numbers of several words, and is asked with single ones")
    return sum(map(checker.width, function.results))
