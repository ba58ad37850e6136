"""The reference interpreter: what programs mean, in plain Python, short and slow.

It is the kernel's specification and its test double. Rows, groups and emitted rows come in the same order as in the
kernel, so that the two can be compared to the letter.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from math import isfinite

from everview.kernel import reference_cursors
from everview.kernel.effects import channels_told
from everview.kernel.floats import float_of, word_of
from everview.kernel.program import (
    Add,
    Before,
    Call,
    Compute,
    Count,
    Each,
    Emit,
    Find,
    GetLevel,
    If,
    InOrder,
    Insert,
    Instruction,
    KeyOf,
    Lit,
    Math,
    Operand,
    Output,
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
    Test,
    ValueOf,
)
from everview.kernel.reference_tables import Fault, State
from everview.kernel.wide_numbers import number_of, words_of


class Reference:
    """Runs a program; the same calls as the kernel's ``Machine``, with lists for columns, and values by their ids."""

    def __init__(self, program: Program, values: Mapping[int, bytes] | None = None) -> None:
        self.program = program
        self._values = {} if values is None else values
        self._tables = {t.name: State(t, self._values) for t in program.tables}
        self._channels: dict[str, list[tuple[int, ...]]] = {name: [] for name, _ in program.channels}
        self._update = 0
        self._silent = 0

    def apply(
        self,
        procedure: str,
        columns: Sequence[Sequence[int]],
        *,
        first_update: int = 0,
        most_pending: int | None = None,
    ) -> int:
        """Run a procedure once a row; a fault undoes its own update and leaves the earlier ones.

        Stops once a channel that it tells holds ``most_pending`` rows; gives how many rows of input were done.
        """
        rows = list(zip(*columns, strict=True))
        told = channels_told(self.program, procedure)
        for i, arguments in enumerate(rows):
            if most_pending is not None and any(len(self._channels[name]) >= most_pending for name in told):
                return i
            self._update = first_update + i
            before = copy.deepcopy((self._tables, self._channels), {id(self._values): self._values})
            try:
                self._call(procedure, _numbers(self.program.procedure(procedure).parameters, arguments))
            except Fault as fault:
                self._tables, self._channels = before
                fault.update = i
                raise
        return len(rows)

    def unapply(self, procedure: str, columns: Sequence[Sequence[int]], weight: int, count: int) -> None:
        """Take the first ``count`` rows back: in reverse order, the weight negated, emitting nothing."""
        channels = copy.deepcopy(self._channels)
        for arguments in reversed(list(zip(*columns, strict=True))[:count]):
            negated = [-a if i == weight else a for i, a in enumerate(arguments)]
            self._call(procedure, _numbers(self.program.procedure(procedure).parameters, negated))
        self._channels = channels

    def ask(self, function: str, columns: Sequence[Sequence[int]]) -> list[list[int]]:
        """A function's results for each row of its arguments, by columns."""
        found = self.program.function(function)
        given = []
        for i, arguments in enumerate(zip(*columns, strict=True)):
            self._update = i
            try:
                given.append(self.answer(function, _numbers(found.parameters, arguments)))
            except Fault as fault:
                fault.update = i
                raise
        width = sum(map(self._width, found.results))
        return [[row[c] for row in given] for c in range(width)]

    def answer(self, function: str, arguments: Sequence[int]) -> tuple[int, ...]:
        """A function's results for one row of arguments, all of single words."""
        found = self.program.function(function)
        frame = dict(zip(found.parameters, arguments, strict=True))
        self._run(found.body, frame)
        return self._outputs(found.results, frame)

    def take(self, channel: str) -> list[list[int]]:
        """Empty a channel and give back what it held, by columns."""
        rows, self._channels[channel] = self._channels[channel], []
        width = dict(self.program.channels)[channel]
        return [[row[c] for row in rows] for c in range(width)]

    def rows(self, cursor: str, arguments: Sequence[int] = ()) -> list[tuple[int, ...]]:
        """All rows of a cursor."""
        found = self.program.cursor(cursor)
        frame = dict(zip(found.parameters, _numbers(found.parameters, arguments), strict=True))
        self._update = 0
        given = []
        for _ in reference_cursors.product(self, found.steps, frame):
            given.append(self._outputs(found.outputs, frame))
        return given

    def dump(self, table: str) -> list[tuple[tuple[int, ...], tuple[int, ...], int]]:
        """A table's rows in their order: key, values, level."""
        state = self._tables[table]
        return [(k, tuple(v), lv) for k, v, lv in zip(state.keys, state.values, state.levels, strict=True)]

    def group(self, table: str, index: int, key: tuple[int, ...]) -> list[int]:
        """The rows of a group in their order."""
        return self._tables[table].group(index, key, 0, None)

    def in_order(self, table: str, order: int, key: tuple[int, ...]) -> list[int]:
        """The rows of a group of an ordered index in their order."""
        return self._tables[table].in_order(order, key)

    def _call(self, procedure: str, arguments: Sequence[int]) -> None:
        found = self.program.procedure(procedure)
        self._run(found.body, dict(zip(found.parameters, arguments, strict=True)))

    def _run(self, body: Sequence[Instruction], frame: dict[Reg, int]) -> None:
        for instruction in body:
            self._execute(instruction, frame)

    def _execute(self, i: Instruction, frame: dict[Reg, int]) -> None:
        match i:
            case Compute():
                left, right = self._number(i.left, frame), self._number(i.right, frame)
                frame[i.target] = _compute(i.operation, left, right, i.target.words)
            case Find():
                row = self._tables[i.table].rows.get(self._key(i.key, frame))
                if row is None:
                    self._run(i.missing, frame)
                else:
                    frame[i.row] = row
                    self._run(i.found, frame)
            case Insert():
                frame[i.row] = self._tables[i.table].insert(self._key(i.key, frame))
            case Remove():
                self._tables[i.table].remove(frame[i.row])
            case Store():
                self._tables[i.table].values[frame[i.row]][i.column] = self._number(i.source, frame)
            case SetLevel():
                self._tables[i.table].set_level(frame[i.row], i.level)
            case GetLevel():
                frame[i.target] = self._tables[i.table].levels[frame[i.row]]
            case Count():
                frame[i.target] = len(self._rows(i, frame))
            case If():
                self._run(i.then if self.holds(i.test, i.left, i.right, frame) else i.otherwise, frame)
            case Each() | Scan():
                for row in self._rows(i, frame):
                    frame[i.row] = row
                    self._run(i.body, frame)
            case Emit():
                if not self._silent:
                    self._channels[i.channel].append(self._outputs(i.outputs, frame))
            case Silent():
                self._silent += 1
                try:
                    self._run(i.body, frame)
                finally:
                    self._silent -= 1
            case Call():
                self._call(i.procedure, [self._number(a, frame) for a in i.arguments])
            case Select():
                state, key = self._tables[i.table], self._key(i.key, frame)
                place = state.select(i.order, key, self._number(i.rank, frame))
                if place is None:
                    self._run(i.missing, frame)
                else:
                    frame[i.row] = state.in_order(i.order, key)[place]
                    self._run(i.found, frame)
            case Rank():
                state, row = self._tables[i.table], frame[i.row]
                key = tuple(state.keys[row][c] for c in state.table.orders[i.order].columns[: i.width])
                before = state.in_order(i.order, key).index(row)
                frame[i.target] = _in_range(sum(state.ranked(i.order, key)[:before]))
            case Add():
                self._add(i, frame)
            case Before():
                state, key = self._tables[i.table], self._key(i.key, frame)
                frame[i.target] = _in_range(state.before(i.order, key, i.width))
            case Size():
                frame[i.target] = _in_range(sum(self._tables[i.table].ranked(i.order, self._key(i.key, frame))))

    def _add(self, i: Add, frame: dict[Reg, int]) -> None:
        state, key = self._tables[i.table], self._key(i.key, frame)
        changes = self._key(i.changes, frame)
        row = state.rows.get(key)
        if row is None:
            if changes[0] == 0 and i.vanished is not None:
                return
            row = frame[i.row] = state.insert(key)
            state.values[row][: len(changes)] = changes
            self._run(i.appeared, frame)
            return
        frame[i.row] = row
        if i.vanished is not None and state.values[row][0] + changes[0] == 0:
            self._run(i.vanished, frame)
            state.remove(row)
            return
        for column, change in enumerate(changes):
            before = state.values[row][column]
            state.values[row][column] = _compute(Math.ADD, before, change, state.table.width(column))
        self._run(i.otherwise, frame)

    def broken(self, message: str) -> Fault:
        """A fault of the program."""
        return Fault("program", message)

    def loop_rows(self, step: Step | InOrder, frame: dict[Reg, int]) -> list[int]:
        """The rows of a cursor's loop, in order."""
        if isinstance(step, Step):
            return self._rows(step, frame)
        state, key, start = self._tables[step.table], self._key(step.key, frame), self._number(step.start, frame)
        if start < 0:
            return []
        place = state.select(step.order, key, -1 - start if step.descending else start)
        rows = state.in_order(step.order, key)
        if place is None:
            return []
        return rows[place::-1] if step.descending else rows[place:]

    def _rows(self, group: Count | Each | Scan | Step, frame: dict[Reg, int]) -> list[int]:
        key = self._key(group.key, frame)
        return self._tables[group.table].group(group.index, key, group.level, group.highest)

    def holds(self, test: Test, left: Operand, right: Operand, frame: dict[Reg, int]) -> bool:
        """Whether a test holds."""
        return _holds(test, self._number(left, frame), self._number(right, frame))

    def _key(self, key: tuple[Operand, ...], frame: dict[Reg, int]) -> tuple[int, ...]:
        return tuple(self._number(o, frame) for o in key)

    def _number(self, operand: Operand, frame: dict[Reg, int]) -> int:
        match operand:
            case Reg():
                return frame[operand]
            case Lit():
                return operand.value
            case KeyOf():
                return self._tables[operand.table].keys[frame[operand.row]][operand.column]
            case ValueOf():
                return self._tables[operand.table].values[frame[operand.row]][operand.column]
            case _:
                return self._update

    def _outputs(self, outputs: Sequence[Output], frame: dict[Reg, int]) -> tuple[int, ...]:
        """The words of all outputs, the lowest of each first."""
        return tuple(word for o in outputs for word in words_of(self.output(o, frame), self._width(o)))

    def output(self, output: Output, frame: dict[Reg, int]) -> int:
        """An operand, or a checked product of operands."""
        if not isinstance(output, Product):
            return self._number(output, frame)
        result = 1
        for factor in output.factors:
            result = _compute(Math.MULTIPLY, result, self._number(factor, frame), output.words)
        return result

    def _width(self, output: Output) -> int:
        match output:
            case Reg() | Product():
                return output.words
            case ValueOf():
                return self.program.table(output.table).width(output.column)
            case _:
                return 1


def _numbers(parameters: Sequence[Reg], words: Sequence[int]) -> list[int]:
    """The arguments that the words of one row are."""
    ends = [sum(p.words for p in parameters[: i + 1]) for i in range(len(parameters))]
    if len(words) != (ends[-1] if ends else 0):
        raise ValueError(f"{len(words)} words are given for {parameters}")
    return [number_of(words[end - p.words : end]) for p, end in zip(parameters, ends, strict=True)]


def _compute(operation: Math, left: int, right: int, words: int = 1) -> int:
    match operation:
        case Math.ADD:
            return _in_range(left + right, words)
        case Math.SUBTRACT:
            return _in_range(left - right, words)
        case Math.MULTIPLY:
            return _in_range(left * right, words)
        case Math.ROOT:
            return _root(left, right)
        case Math.DIVIDE | Math.REMAINDER:
            return _divide(operation, left, right)
    return _compute_float(operation, left, right)


def _divide(operation: Math, left: int, right: int) -> int:
    if right == 0:
        raise Fault("program", f"{left} is divided by 0")
    return _in_range(left // right if operation is Math.DIVIDE else left % right)


def _compute_float(operation: Math, left: int, right: int) -> int:
    a, b = float(left) if operation is Math.FLOAT_SCALE else float_of(left), float_of(right)
    match operation:
        case Math.FLOAT_ADD:
            found = a + b
        case Math.FLOAT_SUBTRACT:
            found = a - b
        case Math.FLOAT_DIVIDE:
            if b == 0:
                raise Fault("program", f"{a} is divided by 0")
            found = a / b
        case _:
            found = a * b
    if not isfinite(found):
        raise Fault("overflow", f"{found} is not finite")
    return word_of(found)


def _root(left: int, right: int) -> int:
    if left < 0 or right < 1:
        raise Fault("program", f"{left} has no root number {right}")
    root = 0
    for bit in reversed(range(64)):
        more = root + (1 << bit)
        if right * (more.bit_length() - 1) < 64 and more**right <= left:
            root = more
    return root


def _in_range(result: int, words: int = 1) -> int:
    if not -(2 ** (64 * words - 1)) <= result < 2 ** (64 * words - 1):
        raise Fault("overflow", f"{result} leaves {64 * words} bits")
    return result


def _holds(test: Test, left: int, right: int) -> bool:
    return {
        Test.EQUAL: left == right,
        Test.NOT_EQUAL: left != right,
        Test.LESS: left < right,
        Test.AT_MOST: left <= right,
    }[test]
