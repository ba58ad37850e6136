"""Refuses ill-formed programs: a strategy's bug is found when the program is made, not when it runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from everview.kernel.cursor_check import check_cursor
from everview.kernel.effects import Facts, called, register_set, registers_set
from everview.kernel.program import (
    MOST_LEVELS,
    MOST_WORDS,
    Add,
    Before,
    Call,
    Compute,
    Count,
    Each,
    Emit,
    Find,
    Function,
    GetLevel,
    If,
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
    Table,
    ValueOf,
)
from everview.kernel.wide_numbers import words_needed

WORD = ""
"""The kind of a register that holds a number; a row handle's kind is the name of its table."""


class ProgramError(ValueError):
    """A program that breaks a rule; the message says where."""


def verify(program: Program) -> None:
    """Check names, widths, kinds of registers, that each is set, what loops change, and that calls end."""
    _unique("table", [t.name for t in program.tables])
    _unique("channel", [name for name, _ in program.channels])
    _unique("procedure", [p.name for p in program.procedures])
    _unique("cursor", [c.name for c in program.cursors])
    _unique("function", [f.name for f in program.functions])
    for table in program.tables:
        _check_table(table)
    facts = Facts(program)
    _check_calls(facts)
    for procedure in program.procedures:
        checker = Checker(facts, f"procedure {procedure.name}")
        checker.block(procedure.body, checker.given(procedure.parameters) | dict(procedure.row_of), frozenset())
    for cursor in program.cursors:
        check_cursor(Checker(facts, f"cursor {cursor.name}"), cursor)
    for function in program.functions:
        _check_function(facts, function)


def _check_table(table: Table) -> None:
    if not 1 <= table.levels <= MOST_LEVELS:
        raise ProgramError(f"table {table.name}: has {table.levels} levels, not 1 to {MOST_LEVELS}")
    for columns in (*table.indexes, *(o.columns for o in table.orders)):
        if len(set(columns)) != len(columns) or not all(0 <= c < len(table.key) for c in columns):
            raise ProgramError(f"table {table.name}: bad index on columns {columns}")
    if table.widths and len(table.widths) != len(table.values):
        raise ProgramError(f"table {table.name}: {len(table.widths)} widths for {len(table.values)} values")
    if not all(0 < width <= MOST_WORDS for width in table.widths):
        raise ProgramError(f"table {table.name}: a value has 1 to {MOST_WORDS} words, not {table.widths}")
    for order in table.orders:
        if order.measure is not None and not 0 <= order.measure < len(table.values):
            raise ProgramError(f"table {table.name}: there is no value number {order.measure} to measure by")
        if order.measure is not None and table.width(order.measure) != 1:
            raise ProgramError(f"table {table.name}: ranks are by a value of one word, not of several")
        if not set(order.by_value) <= set(order.columns) or len(set(order.by_value)) != len(order.by_value):
            raise ProgramError(f"table {table.name}: it is not ordered by columns {order.by_value}, of values")
        if not set(order.descending) <= set(order.columns) or len(set(order.descending)) != len(order.descending):
            raise ProgramError(f"table {table.name}: it is not ordered by columns {order.descending}, descending")


def _unique(kind: str, names: Sequence[str]) -> None:
    twice = {n for n in names if names.count(n) > 1}
    if twice:
        raise ProgramError(f"two {kind}s are named {min(twice)}")


def _check_calls(facts: Facts) -> None:
    """No procedure may come back to itself: the kernel's stack is as deep as the program, never as the data."""
    finished: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            raise ProgramError(f"procedure {name} calls itself: {' → '.join((*above, name))}")
        if name not in finished:
            for callee in called(facts.procedures[name].body):
                if callee not in facts.procedures:
                    raise ProgramError(f"procedure {name}: calls {callee}, which is not there")
                visit(callee, (*above, name))
            finished.add(name)

    for name in facts.procedures:
        visit(name, ())


Frame = dict[Reg, str]


class Checker:
    """Walks a block with the registers that are set for certain, and their kinds."""

    def __init__(self, facts: Facts, place: str) -> None:
        self.facts = facts
        self.place = place
        self.widths: dict[str, int] = {}
        """Of the registers, by their names."""

    def fault(self, message: str) -> ProgramError:
        return ProgramError(f"{self.place}: {message}")

    def block(self, body: Sequence[Instruction], frame: Frame, walked: frozenset[str]) -> Frame:
        """Check a block; gives back the registers set after it. ``walked`` tables must keep their rows."""
        frame = dict(frame)
        for instruction in body:
            self.instruction(instruction, frame, walked)
        return frame

    def given(self, parameters: Iterable[Reg]) -> Frame:
        """The frame in which these are set."""
        return {self.sized(p): WORD for p in parameters}

    def sized(self, register: Reg) -> Reg:
        """A register, which has the same number of words wherever it is named."""
        known = self.widths.setdefault(register.name, register.words)
        if not 0 < known <= MOST_WORDS or register.words != known:
            raise self.fault(f"{register} has no such number of words")
        return register

    def instruction(self, i: Instruction, frame: Frame, walked: frozenset[str]) -> None:
        if (row := register_set(i)) is not None:
            self.sized(row)
            if row.words > 1 and not isinstance(i, Compute):
                raise self.fault(f"{row} is to hold a row or a count, which has one word")
        match i:
            case Compute():
                exact = i.operation in (Math.ADD, Math.SUBTRACT, Math.MULTIPLY)
                (self.numbers if exact else self.words)((i.left, i.right), frame)
                if not exact and i.target.words > 1:
                    raise self.fault(f"{i.target} is to hold what is a single word")
                frame[i.target] = WORD
            case Find():
                self.key(i.table, i.key, frame)
                after = self.block(i.found, {**frame, i.row: i.table}, walked)
                self.merge(frame, after, self.block(i.missing, frame, walked))
            case Insert():
                self.key(i.table, i.key, frame)
                self.keeps_rows(i.table, walked)
                frame[i.row] = i.table
            case Remove():
                self.row(i.row, i.table, frame)
                self.keeps_rows(i.table, walked)
                self.void(i.table, frame)
            case Store():
                self.row(i.row, i.table, frame)
                self.column(i.column, len(self.facts.tables[i.table].values), f"value of {i.table}")
                self.fits(i.source, self.facts.tables[i.table].width(i.column), frame)
            case SetLevel():
                self.row(i.row, i.table, frame)
                self.level(i.table, i.level)
            case GetLevel():
                self.row(i.row, i.table, frame)
                frame[i.target] = WORD
            case Count():
                self.group(i, frame)
                frame[i.target] = WORD
            case If():
                self.numbers((i.left, i.right), frame)
                self.merge(frame, self.block(i.then, frame, walked), self.block(i.otherwise, frame, walked))
            case Each() | Scan():
                self.loop(i, frame, walked)
            case Emit():
                self.outputs(i.outputs, frame)
                width, given = self.facts.channels.get(i.channel), sum(map(self.width, i.outputs))
                if width != given:
                    raise self.fault(f"channel {i.channel} takes {width} words, not {given}")
            case Call():
                self.call(i, frame, walked)
            case Select():
                self.order(i.table, i.order, len(i.key), i.key, frame)
                self.words((i.rank,), frame)
                after = self.block(i.found, {**frame, i.row: i.table}, walked)
                self.merge(frame, after, self.block(i.missing, frame, walked))
            case Rank():
                self.row(i.row, i.table, frame)
                self.order(i.table, i.order, i.width, (), frame)
                frame[i.target] = WORD
            case Size():
                self.order(i.table, i.order, len(i.key), i.key, frame)
                frame[i.target] = WORD
            case Before():
                self.order(i.table, i.order, len(i.key), i.key, frame)
                if not 0 <= i.width <= len(i.key):
                    raise self.fault(f"a group by {i.width} of {len(i.key)} words")
                frame[i.target] = WORD
            case Add():
                self.add(i, frame, walked)
            case Silent():
                after = self.block(i.body, frame, walked)
                frame.clear()
                frame.update(after)

    def loop(self, i: Each | Scan, frame: Frame, walked: frozenset[str]) -> None:
        self.group(i, frame)
        effects = self.facts.of_block(i.body)
        if isinstance(i, Scan) and i.table in effects.changed:
            raise self.fault(f"a scan's body changes {i.table}, which it walks over: use Each")
        for table in effects.removed:  # from the second time round on, and after the loop
            self.void(table, frame)
        self.block(i.body, {**frame, i.row: i.table}, walked | {i.table})

    def add(self, i: Add, frame: Frame, walked: frozenset[str]) -> None:
        self.key(i.table, i.key, frame)
        values = len(self.facts.tables[i.table].values)
        if not 0 < len(i.changes) <= values:
            raise self.fault(f"{len(i.changes)} words are added to the {values} values of {i.table}")
        for column, change in enumerate(i.changes):
            self.fits(change, self.facts.tables[i.table].width(column), frame)
        self.keeps_rows(i.table, walked)
        own = {**frame, i.row: i.table}
        appeared, after = self.block(i.appeared, own, walked), self.block(i.otherwise, own, walked)
        if i.vanished is None:
            self.merge(frame, appeared, after)
            return
        if i.table in self.facts.of_block(i.vanished).moved or i.row in registers_set(i.vanished):
            raise self.fault(f"{i.row} of {i.table} vanishes, but the block that runs before loses hold of it")
        gone = self.block(i.vanished, own, walked)
        self.void(i.table, gone)
        untouched = dict(frame)  # as it is left if there is nothing to add to
        self.merge(frame, appeared, after)
        self.merge(frame, frame, gone)
        self.merge(frame, frame, untouched)

    def call(self, i: Call, frame: Frame, walked: frozenset[str]) -> None:
        callee = self.facts.procedures[i.procedure]
        if len(callee.parameters) != len(i.arguments):
            raise self.fault(f"{callee.name} takes {len(callee.parameters)} arguments, not {len(i.arguments)}")
        kinds = dict(callee.row_of)
        for parameter, argument in zip(callee.parameters, i.arguments, strict=True):
            if parameter not in kinds:
                self.fits(argument, parameter.words, frame)
            elif not isinstance(argument, Reg) or frame.get(argument) != kinds[parameter]:
                raise self.fault(f"{callee.name} takes a row of {kinds[parameter]} as {parameter}")
        effects = self.facts.of_procedure(callee.name)
        for table in effects.moved & walked:
            raise self.fault(f"{callee.name} adds or removes rows of {table} inside a loop over it")
        for table in effects.removed:
            self.void(table, frame)

    def void(self, table: str, frame: Frame) -> None:
        """A removed row voids every handle of its table."""
        for register in [r for r, kind in frame.items() if kind == table and table != WORD]:
            del frame[register]

    def merge(self, frame: Frame, one: Frame, other: Frame) -> None:
        """After two branches only what both set alike is set."""
        both = {r: kind for r, kind in one.items() if other.get(r) == kind}
        frame.clear()
        frame.update(both)

    def keeps_rows(self, table: str, walked: frozenset[str]) -> None:
        if table in walked:
            raise self.fault(f"rows of {table} come or go inside a loop over it")

    def words(self, operands: Sequence[Operand], frame: Frame) -> None:
        """Operands that must be of one word."""
        self.numbers(operands, frame)
        for operand in operands:
            if self.width(operand) > 1:
                raise self.fault(f"{operand} has {self.width(operand)} words, where one is wanted")

    def fits(self, operand: Operand, width: int, frame: Frame) -> None:
        """An operand that must have so many words; a literal has as many as are wanted."""
        self.numbers((operand,), frame)
        has = self.width(operand)
        if has > width if isinstance(operand, Lit) else has != width:
            raise self.fault(f"{operand} has {has} words, where {width} are wanted")

    def width(self, output: Output) -> int:
        """The number of words of an operand or product."""
        match output:
            case Reg() | Product():
                return output.words
            case ValueOf():
                return self.facts.tables[output.table].width(output.column)
            case Lit():
                return words_needed(output.value)
            case _:
                return 1

    def numbers(self, operands: Iterable[Operand], frame: Frame) -> None:
        """Operands of any number of words."""
        for operand in operands:
            match operand:
                case Reg():
                    if frame.get(operand) != WORD:
                        raise self.fault(f"{operand} holds no word here")
                case KeyOf():
                    self.row(operand.row, operand.table, frame)
                    self.column(operand.column, len(self.facts.tables[operand.table].key), f"key of {operand.table}")
                case ValueOf():
                    self.row(operand.row, operand.table, frame)
                    width = len(self.facts.tables[operand.table].values)
                    self.column(operand.column, width, f"value of {operand.table}")
                case Lit():
                    if words_needed(operand.value) > MOST_WORDS:
                        raise self.fault(f"{operand} has more than {MOST_WORDS} words")
                case _:
                    pass

    def outputs(self, outputs: Iterable[Output], frame: Frame) -> None:
        for output in outputs:
            operands = output.factors if isinstance(output, Product) else (output,)
            self.numbers(operands, frame)
            self.words([o for o in operands if isinstance(o, Lit)], frame)
            if not 0 < self.width(output) <= MOST_WORDS:
                raise self.fault(f"{output} has no such number of words")

    def row(self, register: Reg, table: str, frame: Frame) -> None:
        self.known(table)
        if frame.get(register) != table:
            raise self.fault(f"{register} holds no row of {table} here")

    def known(self, table: str) -> None:
        if table not in self.facts.tables:
            raise self.fault(f"there is no table {table}")

    def key(self, table: str, key: Sequence[Operand], frame: Frame) -> None:
        self.known(table)
        if len(key) != len(self.facts.tables[table].key):
            raise self.fault(f"a key of {table} has {len(self.facts.tables[table].key)} words, not {len(key)}")
        self.words(key, frame)

    def group(self, group: Count | Each | Scan | Step, frame: Frame) -> None:
        """Some levels of a group of an index."""
        table, index, key = group.table, group.index, group.key
        self.known(table)
        indexes = self.facts.tables[table].indexes
        if not 0 <= index < len(indexes):
            raise self.fault(f"{table} has no index {index}")
        if len(key) != len(indexes[index]):
            raise self.fault(f"index {index} of {table} takes {len(indexes[index])} words, not {len(key)}")
        self.words(key, frame)
        self.level(table, group.level)
        if group.highest is not None:
            self.level(table, group.highest)
            if group.highest < group.level:
                raise self.fault(f"there are no levels {group.level} to {group.highest}")

    def order(self, table: str, order: int, width: int, key: Sequence[Operand], frame: Frame) -> None:
        """An ordered index, and a group by its first columns."""
        self.known(table)
        orders = self.facts.tables[table].orders
        if not 0 <= order < len(orders):
            raise self.fault(f"{table} has no ordered index {order}")
        if not 0 <= width <= len(orders[order].columns):
            raise self.fault(f"ordered index {order} of {table} has {len(orders[order].columns)} columns, not {width}")
        self.words(key, frame)

    def column(self, column: int, width: int, what: str) -> None:
        if not 0 <= column < width:
            raise self.fault(f"there is no {what} number {column}")

    def level(self, table: str, level: int) -> None:
        if not 0 <= level < self.facts.tables[table].levels:
            raise self.fault(f"{table} has no level {level}")


def _check_function(facts: Facts, function: Function) -> None:
    checker = Checker(facts, f"function {function.name}")
    for name in called(function.body):
        if name not in facts.procedures:
            raise checker.fault(f"calls {name}, which is not there")
    effects = facts.of_block(function.body)
    if effects.changed or effects.emits:
        raise checker.fault("changes tables or emits, but functions only read")
    after = checker.block(function.body, checker.given(function.parameters), frozenset())
    checker.outputs(function.results, after)
