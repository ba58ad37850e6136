"""Random programs and random batches, for comparing the machine with the reference interpreter."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa
import pytest

from everview.kernel import Column, Machine, Unit, UpdateFault, ValueTable
from everview.kernel.cursors import Ask, Buckets, Concat, Guard, Member, Node, Part, Question, Union, all_nodes
from everview.kernel.program import (
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
    Math,
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
    Test,
    Update,
    ValueOf,
)
from everview.kernel.reference import Fault, Reference
from everview.kernel.wide_numbers import words_of

TEXTS = {i: text.encode() for i, text in enumerate(["pear", "", "app", "apple", "äpfel", "ap", "z"])}
"""Values of small words, in another order than those."""
VALUES = ValueTable()
VALUES.encode(0, pa.array([text.decode() for text in TEXTS.values()]))

WORD = ""
Frame = dict[Reg, str]


NESTING = 3
"""Loops inside loops, callees included: with more, an unlucky program runs for minutes."""


@dataclass
class _Effects:
    """What a procedure does to tables, callees included."""

    rows: set[str] = field(default_factory=set)
    anything: set[str] = field(default_factory=set)
    removes: set[str] = field(default_factory=set)
    loops: int = 0
    """How deep its loops are nested."""

    def add(self, inner: _Effects, loops: int = 0) -> None:
        """What is called, or done inside so many loops, is done."""
        self.rows |= inner.rows
        self.anything |= inner.anything
        self.removes |= inner.removes
        self.loops = max(self.loops, loops + inner.loops)


class ProgramMaker:
    """Writes programs that the verifier accepts; their updates may fault."""

    def __init__(self, random: Random, *, wide: bool = True) -> None:
        self.random = random
        self.wide = random.choice([0, 0, 0.4, 0.9]) if wide else 0  # How often a number may have several words.
        self.tables = tuple(self._table(i) for i in range(random.randint(1, 3)))
        self.channels = tuple((f"c{i}", random.randint(0, 6)) for i in range(random.randint(1, 2)))
        self.done: list[Procedure] = []
        self.effects: dict[str, _Effects] = {}
        self.here = _Effects()
        self.nesting = 0
        self.fresh = 0
        self.in_procedure = True
        self.reads_only = False
        self.functions: tuple[Function, ...] = ()
        self.extreme = random.choice([0, 0.02, 0.2])  # How often a literal is one that overflows.

    def program(self) -> Program:
        for i in range(self.random.randint(1, 3)):
            self._procedure(f"p{i}")
        self.in_procedure = False
        never = Function("never", (Reg("a0"),), (), (Lit(0),))
        self.functions = (*(self._function(i) for i in range(2)), never)
        self.reads_only = False
        cursors = tuple(self._cursor(i, tree=i > 0) for i in range(3))
        return Program(self.tables, self.channels, tuple(self.done), cursors, self.functions)

    def _table(self, i: int) -> Table:
        key = tuple(f"k{c}" for c in range(self.random.choice([0, 1, 1, 2, 2, 3])))
        values = tuple(f"v{c}" for c in range(self.random.randint(0, 2)))
        columns = range(len(key))
        indexes = tuple(
            tuple(self.random.sample(columns, self.random.randint(0, len(key))))
            for _ in range(self.random.randint(0, 3))
        )
        widths = tuple(self._words() for _ in values)
        orders = tuple(
            self._order(tuple(self.random.sample(columns, self.random.randint(0, len(key)))), widths)
            for _ in range(self.random.randint(0, 2))
        )
        levels = self.random.choice([1, 2, 3, 3, 5, 8])
        return Table(f"t{i}", key, values, indexes, orders, levels, () if set(widths) == {1} else widths)

    def _order(self, columns: tuple[int, ...], widths: tuple[int, ...]) -> Order:
        by_value = tuple(c for c in columns if self.random.random() < 0.3)
        descending = tuple(c for c in columns if self.random.random() < 0.3)
        return Order(columns, self._measure(widths), by_value, descending)

    def _words(self) -> int:
        return self.random.choice([1, 2, 2, 3, 6]) if self.random.random() < self.wide else 1

    def _measure(self, widths: tuple[int, ...]) -> int | None:
        narrow = [c for c, width in enumerate(widths) if width == 1]
        return self.random.choice(narrow) if narrow and self.random.random() < 0.5 else None

    def _procedure(self, name: str) -> None:
        self.here = self.effects[name] = _Effects()
        parameters = self._parameters(self.random.randint(1, 3))
        frame = dict.fromkeys(parameters, WORD)
        first = [self._upsert(frame, set(), set(), 3) for _ in range(self.random.randint(0, 2))]
        body = self._block(frame, set(), set(), 0)
        self.done.append(Procedure(name, parameters, (*(i for i in first if i is not None), *body)))

    def _parameters(self, count: int) -> tuple[Reg, ...]:
        return tuple(Reg(f"a{i}", self._words()) for i in range(count))

    def _cursor(self, i: int, tree: bool) -> Cursor:
        parameters = self._parameters(self.random.randint(0, 1))
        frame: Frame = dict.fromkeys(parameters, WORD)
        steps = self._steps(frame, 3, 3 if tree else 0)
        outputs = self._outputs(frame, self.random.randint(1, 5))
        return Cursor(f"q{i}", parameters, steps, outputs)

    def _steps(self, frame: Frame, loops: int, depth: int) -> tuple[Node, ...]:
        """A product of steps with at most so many loops within each other, and steps within steps."""
        steps: list[Node] = []
        for _ in range(self.random.randint(0, 3)):
            kinds = ["loop", "loop", "order"] if loops else []
            kinds += ["guard", "ask", "concat", "union", "union"] if depth else []
            kinds += ["buckets", "buckets"] if depth and loops else []
            if not kinds:
                break
            kind = self.random.choice(kinds)
            used = 0 if kind in {"guard", "ask"} else 1 if kind in {"loop", "order"} else min(loops, 2)
            node = self._node(kind, frame, used, depth - 1)
            if node is not None:
                steps.append(node)
                loops -= used
        return tuple(steps)

    def _node(self, kind: str, frame: Frame, loops: int, depth: int) -> Node | None:
        if kind in {"loop", "order"}:
            loop = self._step(frame) if kind == "loop" else self._in_order(frame)
            if loop is not None:
                frame[loop.row] = loop.table
            return loop
        if kind == "guard":
            return Guard(self.random.choice(list(Test)), *self._operands(2, frame))
        if kind == "ask":
            function = self._asked()
            targets = tuple(self._new("x") for _ in range(sum(map(self._output_width, function.results))))
            ask = Ask(targets, Question(function.name, self._operands(len(function.parameters), frame)))
            frame.update(dict.fromkeys(targets, WORD))
            return ask
        words = tuple(self._new("x") for _ in range(self.random.randint(0, 2)))
        result: Node | None
        if kind == "concat":
            parts = []
            for _ in range(self.random.randint(0, 3)):
                own = dict(frame)
                parts.append(Part(self._steps(own, loops, depth), tuple(self._word_output(own) for _ in words)))
            result = Concat(words, tuple(parts))
        elif kind == "union":
            count = self.random.randint(0, 3)
            result = Union(words, tuple(self._member(words, dict(frame), loops, depth) for _ in range(count)))
        else:
            own = dict(frame)
            each = self._step(own) if self.random.random() < 0.5 else self._in_order(own)
            if each is None:
                return None
            own[each.row] = each.table
            result = Buckets(words, each, self._member(words, own, loops - 1, depth))
        frame.update(dict.fromkeys(words, WORD))
        return result

    def _asked(self) -> Function:
        return self.random.choice([f for f in self.functions if all(p.words == 1 for p in f.parameters)])

    def _word_output(self, frame: Frame) -> Output:
        """What a part of a cursor gives: one word, made of single words."""
        if self.random.random() < 0.5:
            return self._operand(frame)
        return Product(self._operands(self.random.randint(0, 3), frame))

    def _output_width(self, output: Output) -> int:
        return output.words if isinstance(output, Product) else self._width(output)

    def _member(self, words: tuple[Reg, ...], frame: Frame, loops: int, depth: int) -> Member:
        function = self.random.choice((self._asked(), self.functions[-1], self.functions[-1]))
        arguments = self._operands(len(function.parameters), frame | dict.fromkeys(words, WORD))
        steps = self._steps(frame, loops, depth)
        outputs = tuple(self._word_output(frame) for _ in words)
        return Member(steps, outputs, Question(function.name, arguments))

    def _function(self, i: int) -> Function:
        self.here = _Effects()
        self.reads_only = True
        parameters = self._parameters(self.random.randint(1, 3))
        if i == 0:  # so that there is one which cursors can ask
            parameters = tuple(Reg(p.name) for p in parameters)
        frame: Frame = dict.fromkeys(parameters, WORD)
        body = self._block(frame, set(), set(), 0)
        results = self._outputs(frame, self.random.randint(1, 5))
        return Function(f"f{i}", parameters, body, results)

    def _step(self, frame: Frame) -> Step | None:
        loop = self._loop(frame)
        return None if loop is None else Step(self._new("r"), *loop, self._highest(loop))

    def _in_order(self, frame: Frame) -> InOrder | None:
        group = self._range(frame)
        if group is None:
            return None
        start = Lit(0) if self.random.random() < 0.5 else self._operand(frame)
        return InOrder(self._new("r"), *group, start, self.random.random() < 0.5)

    def _new(self, prefix: str) -> Reg:
        self.fresh += 1
        return Reg(f"{prefix}{self.fresh}")

    def _block(self, frame: Frame, walked: set[str], scanned: set[str], depth: int) -> tuple[Instruction, ...]:
        frame_here = dict(frame)
        size = self.random.randint(1, 5 if depth == 0 else 3)
        found = [self._instruction(frame_here, walked, scanned, depth) for _ in range(size)]
        frame.clear()
        frame.update(frame_here)
        return tuple(i for i in found if i is not None)

    def _operand(self, frame: Frame, words: int | None = 1) -> Operand:
        """An operand of so many words; None: of any number."""
        choices: list[Operand] = [r for r, kind in frame.items() if kind == WORD]
        for row, kind in frame.items():
            if kind != WORD:
                table = next(t for t in self.tables if t.name == kind)
                choices += [KeyOf(row, kind, c) for c in range(len(table.key))]
                choices += [ValueOf(row, kind, c) for c in range(len(table.values))]
        choices = [c for c in choices if words in (None, self._width(c))]
        if words is None and self.random.random() < self.wide:
            choices = [c for c in choices if self._width(c) > 1] or choices
        chance = self.random.random()
        if not choices or chance < 0.15:
            return Lit(self.random.choice([-1, 0, 1, 2, 3]))
        if chance < 0.15 + self.extreme:
            return Lit(self.random.choice([2**62, -(2**63), 2**63 - 1]))
        if chance > 0.95 and self.in_procedure and words in (None, 1):
            return Update()
        return self.random.choice(choices)

    def _width(self, operand: Operand) -> int:
        if isinstance(operand, ValueOf):
            return next(t for t in self.tables if t.name == operand.table).width(operand.column)
        return operand.words if isinstance(operand, Reg) else 1

    def _operands(self, count: int, frame: Frame, words: int | None = 1) -> tuple[Operand, ...]:
        return tuple(self._operand(frame, words) for _ in range(count))

    def _output(self, frame: Frame, words: int) -> Output:
        if self.random.random() < 0.5:
            operand = self._operand(frame, words)
            if self._width(operand) == words:
                return operand
        factors = self._operands(self.random.randint(0, 3), frame, None if self.wide else 1)
        return Product(factors, words)

    def _outputs(self, frame: Frame, width: int) -> tuple[Output, ...]:
        """Outputs that have so many words together."""
        found: list[Output] = []
        while width:
            words = min(width, self._words())
            found.append(self._output(frame, words))
            width -= words
        return tuple(found)

    def _row(self, frame: Frame, forbidden: set[str]) -> tuple[Reg, Table] | None:
        rows = [(r, kind) for r, kind in frame.items() if kind != WORD and kind not in forbidden]
        if not rows:
            return None
        row, kind = self.random.choice(rows)
        return row, next(t for t in self.tables if t.name == kind)

    def _instruction(self, frame: Frame, walked: set[str], scanned: set[str], depth: int) -> Instruction | None:
        kinds = ["compute", "store", "level", "level", "level?", "count", "emit", "remove", "call", "rank", "size"]
        kinds += ["before"]
        if depth < 4:
            kinds += ["upsert", "upsert", "add", "add", "add", "find", "if", "each", "scan"]
            kinds += ["nest", "nest", "select", "select", "silent"]
        if self.reads_only:
            kinds = ["compute", "level?", "count", "rank", "size", "before"]
            kinds += ["find", "if", "each", "scan", "select", "silent"] if depth < 4 else []
        maker = getattr(self, "_" + {"level?": "get_level"}.get(kind := self.random.choice(kinds), kind))
        result = maker(frame, walked, scanned, depth)
        assert result is None or not isinstance(result, tuple)
        return result

    def _compute(self, frame: Frame, *_: object) -> Instruction:
        operation = self.random.choice(list(Math))
        exact = operation in (Math.ADD, Math.SUBTRACT, Math.MULTIPLY)
        left, right = self._operands(2, frame, None if exact else 1)
        new = Reg(self._new("x").name, self._words() if exact else 1)
        target = self.random.choice([new, *(r for r, k in frame.items() if k == WORD and (exact or r.words == 1))])
        frame[target] = WORD
        return Compute(target, operation, left, right)

    def _store(self, frame: Frame, _walked: set[str], scanned: set[str], _depth: int) -> Instruction | None:
        found = self._row(frame, scanned)
        if found is None or not found[1].values:
            return None
        row, table = found
        self.here.anything.add(table.name)
        column = self.random.randrange(len(table.values))
        return Store(row, table.name, column, self._operand(frame, table.width(column)))

    def _level(self, frame: Frame, _walked: set[str], scanned: set[str], _depth: int) -> Instruction | None:
        found = self._row(frame, scanned)
        if found is None:
            return None
        self.here.anything.add(found[1].name)
        return SetLevel(found[0], found[1].name, self.random.randrange(found[1].levels))

    def _get_level(self, frame: Frame, *_: object) -> Instruction | None:
        found = self._row(frame, set())
        if found is None:
            return None
        target = self._new("x")
        frame[target] = WORD
        return GetLevel(target, found[0], found[1].name)

    def _count(self, frame: Frame, *_: object) -> Instruction | None:
        loop = self._loop(frame)
        if loop is None:
            return None
        target = self._new("x")
        frame[target] = WORD
        return Count(target, *loop, self._highest(loop))

    def _emit(self, frame: Frame, *_: object) -> Instruction:
        name, width = self.random.choice(self.channels)
        return Emit(name, self._outputs(frame, width))

    def _remove(self, frame: Frame, walked: set[str], scanned: set[str], _depth: int) -> Instruction | None:
        found = self._row(frame, walked | scanned)
        if found is None:
            return None
        row, table = found
        for effects in (self.here.rows, self.here.anything, self.here.removes):
            effects.add(table.name)
        self._void(frame, {table.name})
        return Remove(row, table.name)

    def _void(self, frame: Frame, tables: set[str]) -> None:
        for register in [r for r, kind in frame.items() if kind in tables]:
            del frame[register]

    def _call(self, frame: Frame, walked: set[str], scanned: set[str], _depth: int) -> Instruction | None:
        allowed = [
            p
            for p in self.done
            if not (self.effects[p.name].rows & walked)
            and not (self.effects[p.name].anything & scanned)
            and self.nesting + self.effects[p.name].loops <= NESTING
        ]
        if not allowed:
            return None
        callee = self.random.choice(allowed)
        effects = self.effects[callee.name]
        arguments = tuple(self._operand(frame, p.words) for p in callee.parameters)
        self._void(frame, effects.removes)
        self.here.add(effects)
        return Call(callee.name, arguments)

    def _upsert(self, frame: Frame, walked: set[str], scanned: set[str], depth: int) -> Instruction | None:
        tables = [t for t in self.tables if t.name not in walked | scanned]
        if not tables:
            return None
        table = self.random.choice(tables)
        key = self._operands(len(table.key), frame)
        row = self._new("r")
        self.here.rows.add(table.name)
        self.here.anything.add(table.name)
        if self.random.random() < 0.05:
            frame[row] = table.name
            return Insert(row, table.name, key)
        one, other = {**frame, row: table.name}, {**frame, row: table.name}
        found = self._block(one, walked, scanned, depth + 1) if self.random.random() < 0.5 else ()
        missing = self._block(other, walked, scanned, depth + 1) if self.random.random() < 0.5 else ()
        self._merge(frame, one, other)
        return Find(row, table.name, key, found, (Insert(row, table.name, key), *missing))

    def _add(self, frame: Frame, walked: set[str], scanned: set[str], depth: int) -> Instruction | None:
        tables = [t for t in self.tables if t.values and t.name not in walked | scanned]
        if not tables:
            return None
        table = self.random.choice(tables)
        name = table.name
        key = self._operands(len(table.key), frame)
        changed = range(self.random.randint(1, len(table.values)))
        changes = tuple(self._operand(frame, table.width(c)) for c in changed)
        row = self._new("r")
        self.here.rows.add(name)
        self.here.anything.add(name)

        def block(own: Frame, kept: set[str]) -> tuple[Instruction, ...]:
            return self._block(own, walked | kept, scanned, depth + 1) if self.random.random() < 0.6 else ()

        one, other, gone = ({**frame, row: name} for _ in range(3))
        appeared = block(one, set())
        vanished = None if self.random.random() < 0.2 else block(gone, {name})
        otherwise = block(other, set())
        untouched = dict(frame)
        self._merge(frame, one, other)
        if vanished is not None:
            self.here.removes.add(name)
            self._void(gone, {name})
            self._merge(frame, dict(frame), gone)
            self._merge(frame, dict(frame), untouched)
        return Add(row, name, key, changes, appeared, vanished, otherwise)

    def _find(self, frame: Frame, walked: set[str], scanned: set[str], depth: int) -> Instruction:
        table = self.random.choice(self.tables)
        key = self._operands(len(table.key), frame)
        row = self._new("r")
        one, other = {**frame, row: table.name}, dict(frame)
        found = self._block(one, walked, scanned, depth + 1)
        missing = self._block(other, walked, scanned, depth + 1)
        self._merge(frame, one, other)
        return Find(row, table.name, key, found, missing)

    def _range(self, frame: Frame) -> tuple[str, int, tuple[Operand, ...]] | None:
        """A group of an ordered index."""
        ordered = [t for t in self.tables if t.orders]
        if not ordered:
            return None
        table = self.random.choice(ordered)
        order = self.random.randrange(len(table.orders))
        width = self.random.randint(0, len(table.orders[order].columns))
        return table.name, order, self._operands(width, frame)

    def _select(self, frame: Frame, walked: set[str], scanned: set[str], depth: int) -> Instruction | None:
        group = self._range(frame)
        if group is None:
            return None
        rank = self._operand(frame)
        row = self._new("r")
        one, other = {**frame, row: group[0]}, dict(frame)
        found = self._block(one, walked, scanned, depth + 1)
        missing = self._block(other, walked, scanned, depth + 1)
        self._merge(frame, one, other)
        return Select(row, *group, rank, found, missing)

    def _rank(self, frame: Frame, *_: object) -> Instruction | None:
        found = self._row(frame, {t.name for t in self.tables if not t.orders})
        if found is None:
            return None
        row, table = found
        order = self.random.randrange(len(table.orders))
        target = self._new("x")
        frame[target] = WORD
        return Rank(target, row, table.name, order, self.random.randint(0, len(table.orders[order].columns)))

    def _size(self, frame: Frame, *_: object) -> Instruction | None:
        group = self._range(frame)
        if group is None:
            return None
        target = self._new("x")
        frame[target] = WORD
        return Size(target, *group)

    def _before(self, frame: Frame, *_: object) -> Instruction | None:
        group = self._range(frame)
        if group is None:
            return None
        target = self._new("x")
        frame[target] = WORD
        return Before(target, *group, self.random.randint(0, len(group[2])))

    def _if(self, frame: Frame, walked: set[str], scanned: set[str], depth: int) -> Instruction:
        left, right = self._operands(2, frame, None)
        one, other = dict(frame), dict(frame)
        then = self._block(one, walked, scanned, depth + 1)
        otherwise = self._block(other, walked, scanned, depth + 1) if self.random.random() < 0.5 else ()
        self._merge(frame, one, other)
        return If(self.random.choice(list(Test)), left, right, then, otherwise)

    def _silent(self, frame: Frame, walked: set[str], scanned: set[str], depth: int) -> Instruction:
        return Silent(self._block(frame, walked, scanned, depth + 1))

    def _merge(self, frame: Frame, one: Frame, other: Frame) -> None:
        both = {r: kind for r, kind in one.items() if other.get(r) == kind}
        frame.clear()
        frame.update(both)

    def _loop(self, frame: Frame) -> tuple[str, int, tuple[Operand, ...], int] | None:
        indexed = [t for t in self.tables if t.indexes]
        if not indexed:
            return None
        table = self.random.choice(indexed)
        index = self.random.randrange(len(table.indexes))
        key = self._operands(len(table.indexes[index]), frame)
        return table.name, index, key, min(self.random.choice([0, 0, 1, 2, 4]), table.levels - 1)

    def _highest(self, loop: tuple[str, int, tuple[Operand, ...], int]) -> int | None:
        """Where a loop's levels end."""
        levels = next(t for t in self.tables if t.name == loop[0]).levels
        return self.random.randrange(loop[3], levels) if self.random.random() < 0.4 else None

    def _each(self, frame: Frame, walked: set[str], scanned: set[str], depth: int) -> Instruction | None:
        loop = self._loop(frame)
        if loop is None or self.nesting == NESTING:
            return None
        row = self._new("r")
        return Each(row, *loop, self._body(frame, row, loop[0], walked, scanned, depth), self._highest(loop))

    def _scan(self, frame: Frame, walked: set[str], scanned: set[str], depth: int) -> Instruction | None:
        loop = self._loop(frame)
        if loop is None or self.nesting == NESTING:
            return None
        row = self._new("r")
        body = self._body(frame, row, loop[0], walked, scanned | {loop[0]}, depth)
        return Scan(row, *loop, body, self._highest(loop))

    def _body(
        self, frame: Frame, row: Reg, table: str, walked: set[str], scanned: set[str], depth: int
    ) -> tuple[Instruction, ...]:
        """A loop's body; what it removes is void from the second time round, so from the start, and after it."""
        outer = self.here
        removed: set[str] = set()
        self.nesting += 1
        while True:
            self.here = _Effects()
            self._void(frame, removed)
            body = self._block({**frame, row: table}, walked | {table}, scanned, depth + 1)
            if self.here.removes <= removed:
                break
            removed |= self.here.removes
        self.nesting -= 1
        outer.add(self.here, loops=1)
        self.here = outer
        return body

    def _nest(self, frame: Frame, *_: object) -> Instruction | None:
        inside = dict(frame)
        loops = []
        for _ in range(self.random.randint(1, max(1, NESTING - self.nesting))):
            loop = self._loop(inside)
            if loop is None or self.nesting == NESTING:
                return None
            row = self._new("r")
            inside[row] = loop[0]
            loops.append((row, loop))
        body: tuple[Instruction, ...] = (self._emit(inside),)
        for row, loop in reversed(loops):
            body = (Scan(row, *loop, body, self._highest(loop)),)
        self.here.add(_Effects(loops=len(loops)))
        return body[0]


def words(values: list[int]) -> array[int]:
    return array("q", values)


def argument(random: Random, parameter: Reg, usual: int) -> tuple[int, ...]:
    """The words of an argument: a usual one, or one near a border of its words."""
    end = 2 ** (64 * parameter.words - 1)
    border = 2 ** (64 * random.randint(1, parameter.words) - 1) * random.choice([-1, 1])
    far = max(-end, min(border + random.randint(-2, 2), end - 1))
    return words_of(far if parameter.words > 1 and random.random() < 0.5 else usual, parameter.words)


def argument_columns(random: Random, parameters: Sequence[Reg], usual: Callable[[], int], rows: int) -> list[list[int]]:
    """Arguments of some rows, by columns of words."""
    given = [[word for p in parameters for word in argument(random, p, usual())] for _ in range(rows)]
    width = sum(p.words for p in parameters)
    return [[row[c] for row in given] for c in range(width)]


class Pair:
    """The machine and the reference side by side: every call is made on both, and both must agree on everything.

    The machine may run another program that should do the same.
    """

    def __init__(self, program: Program, on_machine: Program | None = None) -> None:
        self.program = program
        self.machine = Unit(on_machine or program, Machine(VALUES))
        self.reference = Reference(program, TEXTS)

    def apply(self, procedure: str, columns: list[list[int]], first_update: int = 0) -> str | None:
        """Run a batch on both; gives the kind of fault, if there was one, and how the tables stand."""
        fault = None
        try:
            self.reference.apply(procedure, columns, first_update=first_update)
        except Fault as raised:
            fault = (raised.kind, raised.update)
        seen = None
        try:
            self.machine.apply(procedure, [words(c) for c in columns], first_update=first_update)
        except UpdateFault as raised:
            seen = (raised.kind, raised.update)
        assert seen == fault
        self.check()
        return fault[0] if fault else None

    def check(self, machine: Unit | None = None) -> None:
        machine = machine or self.machine
        for table in self.program.tables:
            rows = self.reference.dump(table.name)
            assert machine.dump(table.name) == rows
            for number, columns in enumerate(table.indexes):
                keys = {tuple(key[c] for c in columns) for key, _, _ in rows}
                for key in keys | {(77,) * len(columns)}:
                    assert machine.group(table.name, number, key) == self.reference.group(table.name, number, key)
            for number, order in enumerate(table.orders):
                for width in range(len(order.columns) + 1):
                    keys = {tuple(key[c] for c in order.columns[:width]) for key, _, _ in rows}
                    for key in keys | {(77,) * width}:
                        wanted = self.reference.in_order(table.name, number, key)
                        assert machine.in_order(table.name, number, key) == wanted

    def check_channels(self) -> None:
        for name, _ in self.program.channels:
            rows = len(self.reference._channels[name])
            assert self.machine.pending(name) == rows
            assert [list(memoryview(c)) for c in self.machine.take(name)] == self.reference.take(name)

    def check_functions(self, random: Random) -> Counter[str]:
        """What functions give; a cursor that was opened before goes on."""
        seen: Counter[str] = Counter()
        for function in self.program.functions:
            columns = argument_columns(random, function.parameters, lambda: random.randint(-1, 3), 5)
            fault, expected = None, None
            try:
                expected = self.reference.ask(function.name, columns)
            except Fault as raised:
                fault = (raised.kind, raised.update)
            opened = [self.machine.open(c.name, [0] * sum(p.words for p in c.parameters)) for c in self.program.cursors]
            found, answers = None, None
            try:
                answers = [list(memoryview(c)) for c in self.machine.ask(function.name, [words(c) for c in columns])]
            except UpdateFault as raised:
                found = (raised.kind, raised.update)
            assert (found, answers) == (fault, expected)
            assert all(cursor.skip(0) == 0 for cursor in opened)
            seen[fault[0] if fault else "answers"] += 1
        self.check()
        return seen

    def check_cursors_at(self, words_of_them: list[int]) -> None:
        """All rows of all cursors of one parameter, for these arguments."""
        for cursor in self.program.cursors:
            for word in words_of_them:
                expected = self.reference.rows(cursor.name, [word])
                assert _rows(self.machine.open(cursor.name, [word]).fetch(10**6)) == expected

    def check_cursors(self, random: Random) -> Counter[str]:
        """Their rows, taken up again at many points; gives how many cursors gave several, and how many faulted."""
        seen: Counter[str] = Counter()
        for cursor in self.program.cursors:
            is_union = any(isinstance(node, Union | Buckets) for node, _ in all_nodes(cursor))
            arguments = [w for p in cursor.parameters for w in argument(random, p, random.randint(0, 3))]
            try:
                expected = self.reference.rows(cursor.name, arguments)
            except Fault as fault:
                faulty = self.machine.open(cursor.name, arguments)
                seen["faulty cursors"] += 1
                for _ in range(2):  # and it stays at that
                    with pytest.raises(OverflowError if fault.kind == "overflow" else RuntimeError):
                        faulty.fetch(10**6)
                continue
            opened = self.machine.open(cursor.name, arguments)
            rows: list[tuple[int, ...]] = []
            while batch := _rows(opened.fetch(4)):
                assert len(batch) <= 4
                rows += batch
            assert rows == expected
            for first in range(min(len(expected), 12)):
                again = self.machine.open(cursor.name, arguments)
                assert _rows(again.fetch(first)) == expected[:first]
                assert _rows(again.fetch(1)) == expected[first : first + 1]
                assert _rows(again.fetch(10**6)) == expected[first + 1 :]
                assert _rows(again.fetch(1)) == []
            skipping = self.machine.open(cursor.name, arguments)
            first = random.randint(0, len(expected) + 1)
            assert skipping.skip(first) == min(first, len(expected))
            assert _rows(skipping.fetch(10**6)) == expected[first:]
            seen["unions" if is_union else "lists"] += len(expected) > 1
        return seen


def _rows(columns: list[Column]) -> list[tuple[int, ...]]:
    return list(zip(*(memoryview(c) for c in columns), strict=True))
