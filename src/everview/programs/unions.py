"""The rows that several parts of a unit hold, each once: listed without being kept, as the parts are asked for a row.

Each *member* lists its rows once and can be asked whether it has one. Nothing is stored for the union, so an update
costs what it costs the members; between two rows of the list each member is asked once and goes on by one row at most
(ucq-constraints.md 7, by substitution: docs/programs.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.kernel.cursors import Member, Node, Question, Union
from everview.kernel.program import (
    Compute,
    Cursor,
    Find,
    Function,
    GetLevel,
    If,
    Instruction,
    Lit,
    Math,
    Operand,
    Output,
    Product,
    Program,
    Reg,
    Test,
)
from everview.programs.link import renamed

ROWS = "rows"
"""The cursor that lists the union."""
ANY = "any"
"""The function that tells for a row whether any member has it."""
_FOUND = Reg("found")


@dataclass(frozen=True)
class RowOf:
    """A row of a table to find by its key, given as columns of the union, on this level or a higher one."""

    table: str
    key: tuple[int, ...]
    level: int = 0


@dataclass(frozen=True)
class AskedOf:
    """A function to ask, with columns of the union; it gives 0 for a row that is not there."""

    function: Function
    columns: tuple[int, ...]


@dataclass(frozen=True)
class Listed:
    """A member: what lists its rows, each once, under the names of the unit, and what tells whether a row is one.

    A column is an output of ``cursor``, by its place, or one word in all rows: ``fixed``. ``same`` are pairs of columns
    that always have the same word.
    """

    cursor: Cursor
    columns: tuple[int | Operand, ...]
    test: tuple[RowOf, ...] | AskedOf

    @property
    def fixed(self) -> tuple[tuple[int, Operand], ...]:
        """The columns that have one word in all rows, with it."""
        return tuple((i, c) for i, c in enumerate(self.columns) if not isinstance(c, int))

    @property
    def same(self) -> tuple[tuple[int, int], ...]:
        """Columns that are one output, each with the first that is."""
        pairs = ((self.columns.index(c), i) for i, c in enumerate(self.columns) if isinstance(c, int))
        return tuple((first, i) for first, i in pairs if first != i)


def has(number: int) -> str:
    """The function that tells for a row whether a member has it."""
    return f"has{number}"


def constant(number: int) -> Reg:
    """A parameter of the cursor and of all functions: the word of a constant that has another one at other times."""
    return Reg(f"constant{number}")


def compile_union(members: Sequence[Listed], constants: int, prefix: str) -> Program:
    """Cursor ``rows`` lists the union, ``has0``, ``has1`` … test a row for each member, and ``any`` for all of them.

    The cursor takes the words of the constants; the functions take those after the row's. The program's own names have
    the prefix, as those of other parts have theirs.
    """
    width = len(members[0].columns)
    words = tuple(Reg(f"@{i}") for i in range(width))
    given = tuple(constant(i) for i in range(constants))
    functions = [
        Function(prefix + has(i), (*words, *given), tuple(_tested(m, i, words)), (_FOUND,))
        for i, m in enumerate(members)
    ]
    either: list[Instruction] = [Compute(_FOUND, Math.ADD, Lit(0), Lit(0))]
    for i, member in enumerate(members):
        either.append(If(Test.EQUAL, _FOUND, Lit(0), tuple(_tested(member, i, words))))
    functions.append(Function(prefix + ANY, (*words, *given), tuple(either), (_FOUND,)))
    listed = []
    for i, member in enumerate(members):
        cursor = renamed(member.cursor, "", f"member{i}.")
        outputs = tuple(cursor.outputs[c] if isinstance(c, int) else c for c in member.columns)
        steps: tuple[Node, ...] = cursor.steps
        listed.append(Member(steps, outputs, Question(prefix + has(i), (*words, *given))))
    cursor = Cursor(prefix + ROWS, given, (Union(words, tuple(listed)),), words)
    return Program(cursors=(cursor,), functions=tuple(functions))


def _tested(member: Listed, number: int, words: Sequence[Reg]) -> list[Instruction]:
    """found ← 1 if a member has the row with these words, else 0."""
    match member.test:
        case AskedOf(function, columns):
            asked = renamed(function, "", f"asked{number}.")
            (result, *_) = asked.results
            body: list[Instruction] = [
                *(Compute(p, Math.ADD, words[c], Lit(0)) for p, c in zip(asked.parameters, columns, strict=True)),
                *asked.body,
                Compute(_FOUND, Math.ADD, _operand(result), Lit(0)),
            ]
        case lookups:
            body = [Compute(_FOUND, Math.ADD, Lit(1), Lit(0))]
            for i, lookup in reversed(list(enumerate(lookups))):
                row, level = Reg(f"row{number}.{i}"), Reg(f"level{number}.{i}")
                if lookup.level:
                    is_there = If(Test.AT_MOST, Lit(lookup.level), level, tuple(body))
                    body = [GetLevel(level, row, lookup.table), is_there]
                body = [Find(row, lookup.table, tuple(words[c] for c in lookup.key), tuple(body))]
    for first, again in member.same:
        body = [If(Test.EQUAL, words[first], words[again], tuple(body))]
    for column, word in member.fixed:
        body = [If(Test.EQUAL, words[column], word, tuple(body))]
    return [Compute(_FOUND, Math.ADD, Lit(0), Lit(0)), *body]


def _operand(output: Output) -> Operand:
    if isinstance(output, Product):
        raise ValueError(f"a function that tells whether a row is there gives a word, not {output}")
    return output
