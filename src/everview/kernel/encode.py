"""Programs as flat lists of words, the form in which the compiled kernel reads them (``cpp/decoder.h``).

Names become numbers: tables, channels, procedures and cursors by their place in the program, registers by the order
in which a procedure or cursor mentions them, its parameters first. Lists are preceded by their lengths. Functions come
after the procedures, and their channels after the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from everview.kernel.cursors import Ask, Buckets, Concat, Guard, Member, Node, Part, Question, Union
from everview.kernel.program import (
    Add,
    Call,
    Compute,
    Count,
    Cursor,
    Each,
    Emit,
    Find,
    Function,
    GetLevel,
    If,
    InOrder,
    Insert,
    Instruction,
    KeyOf,
    Lit,
    Operand,
    Order,
    Output,
    Procedure,
    Product,
    Program,
    Rank,
    Reg,
    Remove,
    Scan,
    Select,
    SetLevel,
    Silent,
    Size,
    Step,
    Store,
    Table,
    ValueOf,
)

T = TypeVar("T")
ENCODING = 5
"""Counts up with every change of the encoding: a kernel that was compiled before it must be built anew."""


def encode(program: Program) -> list[int]:
    """A program as a flat list of words; ``ValueError`` for names that are not there."""
    encoder = _Encoder(program)
    return [
        *_listed(program.tables, _table),
        len(program.channels) + len(program.functions),
        *(width for _, width in program.channels),
        *(len(f.results) for f in program.functions),
        *_listed((*program.procedures, *(asked(f) for f in program.functions)), encoder.procedure),
        *_listed(program.cursors, encoder.cursor),
    ]


def answers_of(function: str) -> str:
    """The name of the channel that holds a function's results until they are taken."""
    return f"answers of {function}"


def asked(function: Function) -> Procedure:
    """A function as the procedure that the kernel runs: after the program's own, with a channel for its results."""
    give = Emit(answers_of(function.name), function.results)
    return Procedure(function.name, function.parameters, (*function.body, give))


def _listed(items: Sequence[T], encoded: Callable[[T], Iterable[int]]) -> list[int]:
    return [len(items), *(word for item in items for word in encoded(item))]


def _table(table: Table) -> list[int]:
    indexes = _listed(table.indexes, lambda columns: [len(columns), *columns])
    return [len(table.key), len(table.values), *indexes, *_listed(table.orders, _order), table.levels - 1]


def _order(order: Order) -> list[int]:
    return [len(order.columns), *order.columns, 0 if order.measure is None else order.measure + 1]


class _Encoder:
    """Holds the numbers of names, and of the registers of the procedure or cursor at hand."""

    def __init__(self, program: Program) -> None:
        self._tables = {t.name: i for i, t in enumerate(program.tables)}
        self._top = {t.name: t.levels - 1 for t in program.tables}
        channels = (*(name for name, _ in program.channels), *(answers_of(f.name) for f in program.functions))
        self._channels = {name: i for i, name in enumerate(channels)}
        self._procedures = {p.name: i for i, p in enumerate(program.procedures)}
        first = (len(program.procedures), len(program.channels))
        self._functions = {f.name: [first[0] + i, first[1] + i] for i, f in enumerate(program.functions)}
        self._registers: dict[Reg, int] = {}

    def procedure(self, procedure: Procedure) -> list[int]:
        self._parameters(procedure)
        body = self._block(procedure.body)
        return [len(procedure.parameters), len(self._registers), *body]

    def cursor(self, cursor: Cursor) -> list[int]:
        self._parameters(cursor)
        steps = _listed(cursor.steps, self._node)
        outputs = _listed(cursor.outputs, self._output)
        return [len(cursor.parameters), len(self._registers), *steps, *outputs]

    def _parameters(self, owner: Procedure | Cursor) -> None:
        self._registers = {r: i for i, r in enumerate(owner.parameters)}
        if len(self._registers) != len(owner.parameters):
            raise ValueError(f"{owner.name} has two parameters of one name")

    def _register(self, register: Reg) -> int:
        return self._registers.setdefault(register, len(self._registers))

    def _operand(self, operand: Operand) -> list[int]:
        match operand:
            case Reg():
                return [0, self._register(operand)]
            case Lit():
                return [1, operand.value]
            case KeyOf():
                return [2, self._register(operand.row), _number(self._tables, operand.table), operand.column]
            case ValueOf():
                return [3, self._register(operand.row), _number(self._tables, operand.table), operand.column]
            case _:
                return [4]

    def _operands(self, operands: Sequence[Operand]) -> list[int]:
        return _listed(operands, self._operand)

    def _output(self, output: Output) -> list[int]:
        return self._operands(output.factors if isinstance(output, Product) else (output,))

    def _block(self, body: Sequence[Instruction]) -> list[int]:
        return _listed(body, self._instruction)

    def _row(self, row: Reg, table: str) -> list[int]:
        return [self._register(row), _number(self._tables, table)]

    def _loop(self, loop: Each | Scan | Step) -> list[int]:
        return [*self._row(loop.row, loop.table), *self._group(loop)]

    def _group(self, group: Each | Scan | Step | Count) -> list[int]:
        highest = self._top[group.table] if group.highest is None else group.highest
        return [group.index, *self._operands(group.key), group.level, highest]

    def _node(self, node: Node) -> list[int]:
        match node:
            case Step():
                return [0, *self._loop(node)]
            case InOrder():
                return [1, *self._range(node.row, node), *self._operand(node.start), int(node.descending)]
            case Guard():
                return [2, node.test, *self._operand(node.left), *self._operand(node.right)]
            case Ask():
                return [3, *self._question(node.question), *_listed(node.targets, self._one)]
            case Concat():
                return [4, *_listed(node.words, self._one), *_listed(node.parts, self._part)]
            case Union():
                return [5, *_listed(node.words, self._one), *_listed(node.members, self._part)]
            case Buckets():
                return [6, *_listed(node.words, self._one), *self._node(node.each), *self._part(node.bucket)]

    def _one(self, register: Reg) -> list[int]:
        return [self._register(register)]

    def _part(self, part: Part | Member) -> list[int]:
        given = [*_listed(part.steps, self._node), *_listed(part.outputs, self._output)]
        return [*given, *self._question(part.test)] if isinstance(part, Member) else given

    def _question(self, question: Question) -> list[int]:
        if question.function not in self._functions:
            raise ValueError(f"there is no {question.function}")
        return [*self._functions[question.function], *self._operands(question.arguments)]

    def _range(self, register: Reg, i: InOrder | Select | Size) -> list[int]:
        return [*self._row(register, i.table), i.order, *self._operands(i.key)]

    def _instruction(self, i: Instruction) -> list[int]:
        match i:
            case Compute():
                return [0, self._register(i.target), i.operation, *self._operand(i.left), *self._operand(i.right)]
            case Find():
                head = [1, *self._row(i.row, i.table), *self._operands(i.key)]
                return [*head, *self._block(i.found), *self._block(i.missing)]
            case Insert():
                return [2, *self._row(i.row, i.table), *self._operands(i.key)]
            case Remove():
                return [3, *self._row(i.row, i.table)]
            case Store():
                return [4, *self._row(i.row, i.table), i.column, *self._operand(i.source)]
            case SetLevel():
                return [5, *self._row(i.row, i.table), i.level]
            case GetLevel():
                return [6, self._register(i.target), *self._row(i.row, i.table)]
            case Count():
                return [7, *self._row(i.target, i.table), *self._group(i)]
            case If():
                head = [8, i.test, *self._operand(i.left), *self._operand(i.right)]
                return [*head, *self._block(i.then), *self._block(i.otherwise)]
            case Each():
                return [9, *self._loop(i), *self._block(i.body)]
            case Scan():
                return [10, *self._loop(i), *self._block(i.body)]
            case Emit():
                return [11, _number(self._channels, i.channel), *_listed(i.outputs, self._output)]
            case Call():
                return [12, _number(self._procedures, i.procedure), *self._operands(i.arguments)]
            case Select():
                head = [13, *self._range(i.row, i), *self._operand(i.rank)]
                return [*head, *self._block(i.found), *self._block(i.missing)]
            case Rank():
                return [14, self._register(i.target), *self._row(i.row, i.table), i.order, i.width]
            case Size():
                return [15, *self._range(i.target, i)]
            case Add():
                head = [16, *self._row(i.row, i.table), *self._operands(i.key), *self._operands(i.changes)]
                vanished = [0] if i.vanished is None else [1, *self._block(i.vanished)]
                return [*head, *self._block(i.appeared), *vanished, *self._block(i.otherwise)]
            case Silent():
                return [17, *self._block(i.body)]


def _number(numbers: dict[str, int], name: str) -> int:
    if name not in numbers:
        raise ValueError(f"there is no {name}")
    return numbers[name]
