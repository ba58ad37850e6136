"""Makes programs that do the same in fewer steps: same tables, rows, order of rows, emitted rows and faults.

Strategies write what is plain: small procedures that call each other, loops wherever there may be several rows. Here

- calls of small procedures are replaced by their bodies, and procedures that nobody calls any more go;
- a loop over a whole key, which has at most one row, is a lookup;
- a register that is but a copy is replaced by what it copies, tests of literals are decided, what does nothing goes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from operator import is_
from typing import Any, Final

from everview.kernel.effects import BLOCKS, Effects, Facts, called, flat, register_set, registers_set
from everview.kernel.program import (
    Add,
    Call,
    Compute,
    Count,
    Each,
    Emit,
    Find,
    GetLevel,
    If,
    Instruction,
    KeyOf,
    Lit,
    Math,
    Operand,
    Procedure,
    Product,
    Program,
    Reg,
    Scan,
    Select,
    Silent,
    Table,
    Test,
    Update,
    ValueOf,
)

SMALL = 24
"""A procedure of no more instructions is put in place of every call of it; a larger one if it is called but once."""
MOST = 2000
"""No procedure is made larger than this."""
LARGE = 4000
"""A program of more instructions stays as it is: it takes long to improve, and its time goes elsewhere."""
MARK = "'"
Block = tuple[Instruction, ...]


def optimise(program: Program, kept: Collection[str] | None = None) -> Program:
    """A program that does the same. Of its procedures those ``kept`` (None: all) can be applied still."""
    if sum(size(p.body) for p in program.procedures) > LARGE:
        return program
    program = _inlined(program, kept)
    procedures = tuple(replace(p, body=_Simpler(program, p).body()) for p in program.procedures)
    return _with_procedures(program, procedures)


def size(body: Iterable[Instruction]) -> int:
    """How many instructions a block has, with those in its blocks."""
    return sum(1 for _ in flat(body))


# --- parts of instructions -------------------------------------------------------------------------------------------


def _blocks(i: Instruction) -> tuple[str, ...]:
    """The names of an instruction's blocks."""
    names = BLOCKS.get(type(i), ())
    return ("appeared", "otherwise") if isinstance(i, Add) and i.vanished is None else names


def _with_blocks(i: Instruction, change: Callable[[Block], Block]) -> Instruction:
    """An instruction with other blocks."""
    changed: dict[str, Block] = {}
    for name in _blocks(i):
        before: Block = getattr(i, name)
        after = change(before)
        if after is not before:
            changed[name] = after
    part: Any = i
    found: Instruction = replace(part, **changed) if changed else i
    return found


def _same_or(before: Block, after: list[Instruction]) -> Block:
    """The block itself if nothing in it has changed, so that what stays is not looked at again."""
    same = len(before) == len(after) and all(map(is_, before, after))
    return before if same else tuple(after)


_PLAIN: Final = frozenset((type(None), Lit, Update, str, int, bool, Math, Test))
"""Kinds of parts in which there is no register."""
_NAMES: dict[Any, tuple[str, ...]] = {}


def _names(kind: Any) -> tuple[str, ...]:
    """The names of a kind of instruction's or operand's parts; looked up once, as that is slow."""
    if kind not in _NAMES:
        _NAMES[kind] = tuple(f.name for f in fields(kind))
    return _NAMES[kind]


def _with(body: Block, values: Mapping[Reg, Operand]) -> Block:
    """A block with other operands, or registers, for some registers."""
    found: Block = _replaced(body, values)
    return found


def _replaced(part: Any, values: Mapping[Reg, Operand]) -> Any:
    """The same object where nothing is replaced."""
    kind = type(part)
    if kind is Reg:
        return values.get(part, part)
    if kind in _PLAIN or not values:
        return part
    before = part if kind is tuple else [getattr(part, name) for name in _names(kind)]
    after = [_replaced(item, values) for item in before]
    if all(map(is_, before, after)):
        return part
    return tuple(after) if kind is tuple else kind(*after)


# --- calls -----------------------------------------------------------------------------------------------------------


def _inlined(program: Program, kept: Collection[str] | None) -> Program:
    """Bodies in place of calls, in the procedures that are kept and in those that they still call."""
    calls = Counter(name for p in program.procedures for name in called(p.body))
    lengths: dict[str, int] = {}

    def length(name: str) -> int:
        """How many instructions a procedure has once the calls in it have been replaced."""
        if name not in lengths:
            body = program.procedure(name).body
            inner = sum(length(c) - 1 for c in called(body) if _is_put_in(length(c), calls[c]))
            lengths[name] = size(body) + inner
        return lengths[name]

    wanted = [p.name for p in program.procedures] if kept is None else list(kept)
    wanted += [name for f in program.functions for name in called(f.body) if name not in wanted]
    facts = Facts(program)
    done: dict[str, Procedure] = {}
    for name in wanted:
        done[name] = _Inliner(program, facts, length, calls, program.procedure(name)).procedure()
        wanted += [n for n in called(done[name].body) if n not in wanted]
    return _with_procedures(program, [done[p.name] for p in program.procedures if p.name in done])


def _is_put_in(length: int, calls: int) -> bool:
    """Whether a procedure of so many instructions, called from so many places, is put in place of its calls."""
    return length <= SMALL or calls == 1


def _with_procedures(program: Program, procedures: Iterable[Procedure]) -> Program:
    """The same program with other procedures."""
    return Program(program.tables, program.channels, tuple(procedures), program.cursors, program.functions)


class _Inliner:
    """Puts bodies of callees in place of a procedure's calls, and of the calls in those."""

    def __init__(
        self, program: Program, facts: Facts, length: Callable[[str], int], calls: Counter[str], caller: Procedure
    ) -> None:
        self.program = program
        self.facts = facts
        self.length = length
        self.calls = calls
        self.caller = caller
        self.size = size(caller.body)
        self.copies = 0

    def procedure(self) -> Procedure:
        return replace(self.caller, body=self.block(self.caller.body, {}))

    def block(self, body: Block, values: Mapping[Reg, Operand]) -> Block:
        """A block with other operands for some registers, and without calls where that pays."""
        found: list[Instruction] = []
        for i in body:
            if isinstance(i, Call):
                found += self.call(_replaced(i, values))
            else:
                found.append(self.instruction(i, values))
        return _same_or(body, found)

    def instruction(self, i: Instruction, values: Mapping[Reg, Operand]) -> Instruction:
        blocks = _blocks(i)
        if not blocks:
            found: Instruction = _replaced(i, values)
            return found
        kind: Any = type(i)
        parts = {name: getattr(i, name) for name in _names(kind)}
        after = {n: self.block(v, values) if n in blocks else _replaced(v, values) for n, v in parts.items()}
        if all(after[name] is part for name, part in parts.items()):
            return i
        built: Instruction = kind(**after)
        return built

    def call(self, i: Call) -> Block:
        callee = self.program.procedure(i.procedure)
        length = self.length(i.procedure)
        if not _is_put_in(length, self.calls[i.procedure]) or self.size + length > MOST:
            return (i,)
        mine = registers_set(callee.body)
        if mine & dict(callee.row_of).keys():  # a row handle cannot be copied
            return (i,)
        self.size += length
        values: dict[Reg, Operand] = {r: self.fresh(r) for r in sorted(mine, key=str)}
        effects = self.facts.of_procedure(i.procedure)
        before: list[Instruction] = []
        for parameter, argument in zip(callee.parameters, i.arguments, strict=True):
            widened = isinstance(argument, Lit) and parameter.words > 1
            if parameter not in mine and _lasts(argument, effects) and not widened:
                values[parameter] = argument
                continue
            copy = self.fresh(parameter)
            values[parameter] = copy
            before.append(Compute(copy, Math.ADD, argument, Lit(0)))
        return (*before, *self.block(callee.body, values))

    def fresh(self, register: Reg) -> Reg:
        """A register of the caller for one of a callee; strategies' own names have no ' in them."""
        self.copies += 1
        return Reg(f"{register.name.split(MARK)[0]}{MARK}{self.copies}", register.words)


def _lasts(operand: Operand, effects: Effects) -> bool:
    """True if an operand is the same throughout what has these effects; a caller's registers always are."""
    match operand:
        case KeyOf():
            return operand.table not in effects.removed
        case ValueOf():
            return operand.table not in effects.changed
        case _:
            return True


# --- within a procedure ----------------------------------------------------------------------------------------------


class _Simpler:
    """Rewrites the body of one procedure."""

    def __init__(self, program: Program, procedure: Procedure) -> None:
        self.tables: dict[str, Table] = {t.name: t for t in program.tables}
        self.procedure = procedure
        self.levels = 0

    def body(self) -> Block:
        body = self.block(self.procedure.body, inside=False)
        while True:
            copies = self.copies(body)
            simpler = self.dropped(_with(self.without_setting(body, copies), copies) if copies else body)
            if simpler is body:
                return body
            body = simpler

    # --- loops of one row ---

    def block(self, body: Block, inside: bool) -> Block:
        return _same_or(body, [one for i in body for one in self.instruction(i, inside)])

    def instruction(self, i: Instruction, inside: bool) -> Block:
        """``inside`` is true in a loop around nothing but loops and one emit: the kernel runs these at one go."""
        if not isinstance(i, Each | Scan):
            return (_with_blocks(i, lambda body: self.block(body, inside=False)),)
        if inside or len(i.key) != len(self.tables[i.table].key):
            nest = _is_nest(i)
            return (_with_blocks(i, lambda body: self.block(body, inside=nest)),)
        columns = self.tables[i.table].indexes[i.index]
        key = tuple(operand for _, operand in sorted(zip(columns, i.key, strict=True), key=lambda pair: pair[0]))
        found = self.block(i.body, inside=False)
        if i.level or i.highest is not None:
            self.levels += 1
            level = Reg(f"level of one{MARK}{self.levels}")
            if i.highest is not None:
                found = (If(Test.AT_MOST, level, Lit(i.highest), found),)
            if i.level:
                found = (If(Test.AT_MOST, Lit(i.level), level, found),)
            found = (GetLevel(level, i.row, i.table), *found)
        return (Find(i.row, i.table, key, found),)

    # --- copies, and what does nothing ---

    def copies(self, body: Block) -> dict[Reg, Operand]:
        """Registers that are set once, to a literal or to a register that does not change afterwards."""
        times = Counter(self.procedure.parameters)
        times.update(r for i in flat(body) if (r := register_set(i)) is not None)
        found: dict[Reg, Operand] = {}
        for i in flat(body):
            if not isinstance(i, Compute) or times[i.target] != 1:
                continue
            source = self.copied(i)
            if isinstance(source, Lit | Update) or (isinstance(source, Reg) and times[source] == 1):
                found[i.target] = source
        return {r: _end(source, found) for r, source in found.items()}

    def without_setting(self, body: Block, registers: Collection[Reg]) -> Block:
        """A block in which these registers are not computed."""
        kept = (i for i in body if not isinstance(i, Compute) or i.target not in registers)
        return _same_or(body, [_with_blocks(i, lambda inner: self.without_setting(inner, registers)) for i in kept])

    def dropped(self, body: Block) -> Block:
        """A block without decided tests, empty branches, and words that nobody reads and that cannot fault."""
        read = {r for i in flat(body) for r in _read(i)}

        def without(i: Instruction) -> Block:
            match i:
                case If(test, Lit(left), Lit(right)):
                    return i.then if _holds(test, left, right) else i.otherwise
                case If():
                    return (i,) if i.then or i.otherwise else ()
                case Each() | Scan():
                    return (i,) if i.body else ()
                case Silent():
                    body = _without_emits(i.body)
                    if not called(body):
                        return body
                    return (i,) if body is i.body else (Silent(body),)
                case Find() | Select():
                    return (i,) if i.found or i.missing else ()
                case Count() | GetLevel():
                    return (i,) if i.target in read else ()
                case Compute():
                    return (i,) if i.target in read or self.copied(i) is None else ()
                case _:
                    return (i,)

        def block(body: Block) -> Block:
            return _same_or(body, [one for i in body for one in without(_with_blocks(i, block))])

        return block(body)

    def copied(self, i: Compute) -> Operand | None:
        """What a computation gives unchanged, in as many words; None if it computes something."""
        source = _copied(i)
        return source if source is not None and self.width(source) == i.target.words else None

    def width(self, operand: Operand) -> int:
        match operand:
            case Reg():
                return operand.words
            case ValueOf():
                return self.tables[operand.table].width(operand.column)
            case _:
                return 1


def _without_emits(body: Block) -> Block:
    """A block without what it would emit itself."""
    return _same_or(body, [_with_blocks(i, _without_emits) for i in body if not isinstance(i, Emit)])


def _is_nest(i: Instruction) -> bool:
    """True for loops around nothing but loops and one emit."""
    if not isinstance(i, Scan) or len(i.body) != 1:
        return False
    return isinstance(i.body[0], Emit) or _is_nest(i.body[0])


def _copied(i: Compute) -> Operand | None:
    """What a computation gives unchanged, whatever it is; None if it computes something."""
    left, right = i.left, i.right
    exact = {Math.ADD: int.__add__, Math.SUBTRACT: int.__sub__, Math.MULTIPLY: int.__mul__}
    if i.operation not in exact:
        return None
    if isinstance(left, Lit) and isinstance(right, Lit):
        value = exact[i.operation](left.value, right.value)
        return Lit(value) if -(2**63) <= value < 2**63 else None
    neutral = Lit(1 if i.operation is Math.MULTIPLY else 0)
    if right == neutral:
        return left
    return right if left == neutral and i.operation is not Math.SUBTRACT else None


def _end(source: Operand, copies: Mapping[Reg, Operand]) -> Operand:
    """Where a chain of copies begins."""
    while isinstance(source, Reg) and source in copies:
        source = copies[source]
    return source


def _holds(test: Test, left: int, right: int) -> bool:
    if test is Test.EQUAL:
        return left == right
    if test is Test.NOT_EQUAL:
        return left != right
    return left < right if test is Test.LESS else left <= right


def _read(i: Instruction) -> set[Reg]:
    """The registers that an instruction itself reads."""
    names = _names(type(i))
    left_out = _blocks(i)
    if register_set(i) is not None:
        left_out = (*left_out, "target" if "target" in names else "row")
    return {r for name in names if name not in left_out for r in _mentioned(getattr(i, name))}


def _mentioned(part: object) -> Iterator[Reg]:
    match part:
        case Reg():
            yield part
        case KeyOf() | ValueOf():
            yield part.row
        case Product():
            yield from _mentioned(part.factors)
        case tuple():
            for item in part:
                yield from _mentioned(item)
        case _:
            pass
