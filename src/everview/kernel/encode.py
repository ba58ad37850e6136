"""Programs as flat lists of words, the form in which the compiled kernel reads them (``cpp/run/decoder.h``).

Names become numbers: tables, channels, procedures and cursors by their place in the program, registers by the order
in which a procedure or cursor mentions them, its parameters first. Lists are preceded by their lengths. Functions come
after the procedures, and their channels after the others.

The kernel knows words only. A number of several words is as many operands, registers or value columns side by side, the
lowest word first; only where carries matter does an instruction say how many words belong together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from typing import TypeVar

from everview.kernel.cursors import Ask, Buckets, Concat, Guard, Member, Node, Part, Question, Union
from everview.kernel.program import (
    MOST_WORDS,
    Add,
    Before,
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
from everview.kernel.wide_numbers import words_needed, words_of

T = TypeVar("T")
ENCODING = 11
"""Counts up with every change of the encoding or of what the kernel offers: one compiled before is to be built anew."""


def encode(program: Program) -> list[int]:
    """A program as a flat list of words; ``ValueError`` for names that are not there."""
    encoder = _Encoder(program)
    return [
        *_listed(program.tables, _table),
        len(program.channels) + len(program.functions),
        *(width for _, width in program.channels),
        *(encoder.columns(f.results) for f in program.functions),
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
    widths = _listed(range(len(table.values)), lambda column: [table.width(column)])
    indexes = _listed(table.indexes, lambda columns: [len(columns), *columns])
    orders = _listed(table.orders, lambda order: _order(table, order))
    return [len(table.key), *widths, *indexes, *orders, table.levels - 1]


def _order(table: Table, order: Order) -> list[int]:
    measure = 0 if order.measure is None else table.place(order.measure) + 1
    turned = [len(order.descending), *order.descending]
    return [len(order.columns), *order.columns, measure, len(order.by_value), *order.by_value, *turned]


class _Encoder:
    """Holds the numbers of names, and of the registers of the procedure or cursor at hand."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._tables = {t.name: i for i, t in enumerate(program.tables)}
        self._top = {t.name: t.levels - 1 for t in program.tables}
        channels = (*(name for name, _ in program.channels), *(answers_of(f.name) for f in program.functions))
        self._channels = {name: i for i, name in enumerate(channels)}
        self._procedures = {p.name: i for i, p in enumerate(program.procedures)}
        first = (len(program.procedures), len(program.channels))
        self._functions = {f.name: [first[0] + i, first[1] + i] for i, f in enumerate(program.functions)}
        self._registers: dict[Reg, int] = {}
        self._used = 0

    def columns(self, outputs: Sequence[Output]) -> int:
        """How many words outputs have together."""
        return sum(self._width(o) for o in outputs)

    def procedure(self, procedure: Procedure) -> list[int]:
        parameters = self._parameters(procedure)
        body = self._block(procedure.body)
        return [parameters, self._used, *body]

    def cursor(self, cursor: Cursor) -> list[int]:
        parameters = self._parameters(cursor)
        steps = _listed(cursor.steps, self._node)
        return [parameters, self._used, *steps, *self._outputs(cursor.outputs)]

    def _parameters(self, owner: Procedure | Cursor) -> int:
        """Number them; gives how many words they are."""
        self._registers = {}
        self._used = 0
        for parameter in owner.parameters:
            if parameter in self._registers:
                raise ValueError(f"{owner.name} has two parameters of one name")
            self._register(parameter)
        return self._used

    def _register(self, register: Reg) -> int:
        if register not in self._registers:
            self._registers[register] = self._used
            self._used += register.words
        return self._registers[register]

    def _width(self, operand: Output) -> int:
        match operand:
            case Reg() | Product():
                return operand.words
            case ValueOf():
                _number(self._tables, operand.table)
                return self._program.table(operand.table).width(operand.column)
            case Lit():
                return words_needed(operand.value)
            case _:
                return 1

    def _operand(self, operand: Operand, word: int = 0) -> list[int]:
        """One word of an operand."""
        match operand:
            case Reg():
                return [0, self._register(operand) + word]
            case Lit():
                return [1, words_of(operand.value, MOST_WORDS)[word]]
            case KeyOf():
                return [2, self._register(operand.row), _number(self._tables, operand.table), operand.column]
            case ValueOf():
                number = _number(self._tables, operand.table)
                place = self._program.table(operand.table).place(operand.column)
                return [3, self._register(operand.row), number, place + word]
            case _:
                return [4]

    def _operands(self, operands: Sequence[Operand]) -> list[int]:
        return _listed(operands, self._operand)

    def _words(self, operand: Operand, width: int | None = None) -> list[list[int]]:
        """All words of an operand; a literal has as many as are asked for."""
        return [self._operand(operand, word) for word in range(width or self._width(operand))]

    def _all_words(self, operands: Iterable[tuple[Operand, int]]) -> list[int]:
        """Those of several operands, each with the number of words that it must have."""
        return _flat([word for operand, width in operands for word in self._words(operand, width)])

    def _outputs(self, outputs: Sequence[Output]) -> list[int]:
        return _flat([word for output in outputs for word in self._output(output)])

    def _output(self, output: Output) -> list[list[int]]:
        """As many outputs for the kernel as it has words, but for a product that has carries."""
        if not isinstance(output, Product):
            return [[0, 1, *word] for word in self._words(output)]
        if output.words == 1 and all(self._width(f) == 1 for f in output.factors):
            return [[0, *self._operands(output.factors)]]
        return [[output.words, *_listed(output.factors, lambda factor: _flat(self._words(factor)))]]

    def _block(self, body: Sequence[Instruction]) -> list[int]:
        return _flat([one for i in body for one in self._instructions(i)])

    def _instructions(self, i: Instruction) -> list[list[int]]:
        """One instruction for the kernel, but for a store of several words."""
        if not isinstance(i, Store):
            return [self._instruction(i)]
        table = self._program.table(i.table)
        head = [4, *self._row(i.row, i.table)]
        words = enumerate(self._words(i.source, table.width(i.column)))
        return [[*head, table.place(i.column) + number, *word] for number, word in words]

    def _is_wide(self, *operands: Operand) -> bool:
        return any(self._width(operand) > 1 for operand in operands)

    def _both(self, i: Compute | If) -> list[int]:
        return [*_flat(self._words(i.left)), *_flat(self._words(i.right))]

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
        given = [*_listed(part.steps, self._node), *self._outputs(part.outputs)]
        return [*given, *self._question(part.test)] if isinstance(part, Member) else given

    def _question(self, question: Question) -> list[int]:
        if question.function not in self._functions:
            raise ValueError(f"there is no {question.function}")
        return [*self._functions[question.function], *self._operands(question.arguments)]

    def _range(self, register: Reg, i: InOrder | Select | Size | Before) -> list[int]:
        return [*self._row(register, i.table), i.order, *self._operands(i.key)]

    def _instruction(self, i: Instruction) -> list[int]:
        match i:
            case Compute() if self._is_wide(i.target, i.left, i.right):
                return [18, self._register(i.target), i.target.words, i.operation, *self._both(i)]
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
                raise AssertionError("a store is one instruction for each of its words")
            case SetLevel():
                return [5, *self._row(i.row, i.table), i.level]
            case GetLevel():
                return [6, self._register(i.target), *self._row(i.row, i.table)]
            case Count():
                return [7, *self._row(i.target, i.table), *self._group(i)]
            case If():
                wide = self._is_wide(i.left, i.right)
                head = [19 if wide else 8, i.test]
                head += self._both(i) if wide else [*self._operand(i.left), *self._operand(i.right)]
                return [*head, *self._block(i.then), *self._block(i.otherwise)]
            case Each():
                return [9, *self._loop(i), *self._block(i.body)]
            case Scan():
                return [10, *self._loop(i), *self._block(i.body)]
            case Emit():
                return [11, _number(self._channels, i.channel), *self._outputs(i.outputs)]
            case Call():
                number = _number(self._procedures, i.procedure)
                widths = (p.words for p in self._program.procedure(i.procedure).parameters)
                return [12, number, *self._all_words(zip(i.arguments, chain(widths, repeat(1)), strict=False))]
            case Select():
                head = [13, *self._range(i.row, i), *self._operand(i.rank)]
                return [*head, *self._block(i.found), *self._block(i.missing)]
            case Rank():
                return [14, self._register(i.target), *self._row(i.row, i.table), i.order, i.width]
            case Size():
                return [15, *self._range(i.target, i)]
            case Before():
                return [20, *self._range(i.target, i), i.width]
            case Add():
                table = self._program.table(i.table)
                changes = self._all_words((change, table.width(c)) for c, change in enumerate(i.changes))
                head = [16, *self._row(i.row, i.table), *self._operands(i.key), *changes]
                vanished = [0] if i.vanished is None else [1, *self._block(i.vanished)]
                return [*head, *self._block(i.appeared), *vanished, *self._block(i.otherwise)]
            case Silent():
                return [17, *self._block(i.body)]


def _flat(parts: Sequence[list[int]]) -> list[int]:
    """A list of things that have been encoded."""
    return [len(parts), *(word for part in parts for word in part)]


def _number(numbers: dict[str, int], name: str) -> int:
    if name not in numbers:
        raise ValueError(f"there is no {name}")
    return numbers[name]
