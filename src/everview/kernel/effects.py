"""What blocks of a program do: which instructions and calls are in them, which registers and tables they change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

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
    Insert,
    Instruction,
    Program,
    Rank,
    Reg,
    Remove,
    Scan,
    Select,
    SetLevel,
    Silent,
    Size,
    Store,
)


def called(body: Iterable[Instruction]) -> list[str]:
    """The procedures that a block calls, once a call."""
    return [i.procedure for i in flat(body) if isinstance(i, Call)]


BLOCKS: Final[Mapping[type[object], tuple[str, ...]]] = {
    Find: ("found", "missing"),
    Select: ("found", "missing"),
    If: ("then", "otherwise"),
    Each: ("body",),
    Scan: ("body",),
    Silent: ("body",),
    Add: ("appeared", "vanished", "otherwise"),
}
"""The names of the blocks of those kinds of instructions that have some."""


def flat(body: Iterable[Instruction], silent: bool = True) -> Iterator[Instruction]:
    """The instructions of a block and of the blocks in it; without ``silent``, not of those that tell nothing."""
    ahead = list(body)
    while ahead:
        i = ahead.pop()
        yield i
        kind = type(i)
        if kind in BLOCKS and (silent or kind is not Silent):
            for name in BLOCKS[kind]:
                ahead += getattr(i, name) or ()


def channels_told(program: Program, procedure: str) -> frozenset[str]:
    """The channels that rows may come to when a procedure is run, those of what it calls included."""
    found: set[str] = set()
    seen, ahead = {procedure}, [procedure]
    while ahead:
        body = program.procedure(ahead.pop()).body
        found |= {i.channel for i in flat(body) if isinstance(i, Emit)}
        more = set(called(body)) - seen
        seen |= more
        ahead += more
    return frozenset(found)


_SETS: Final[Mapping[type[object], str]] = {
    **dict.fromkeys((Find, Insert, Each, Scan, Select, Add), "row"),
    **dict.fromkeys((Compute, GetLevel, Count, Rank, Size, Before), "target"),
}


def register_set(i: Instruction) -> Reg | None:
    """The register that an instruction itself sets."""
    name = _SETS.get(type(i))
    if name is None:
        return None
    register: Reg = getattr(i, name)
    return register


def registers_set(body: Iterable[Instruction]) -> set[Reg]:
    """The registers that a block sets."""
    return {r for i in flat(body) if (r := register_set(i)) is not None}


@dataclass(frozen=True)
class Effects:
    """The tables that a block changes, callees included: at all, by rows that come or go, by rows that go.

    And whether it emits anything, which silent blocks do not.
    """

    changed: frozenset[str]
    moved: frozenset[str]
    removed: frozenset[str]
    emits: bool


class Facts:
    """What is looked up of a program again and again: its parts by name, and what blocks and calls change."""

    def __init__(self, program: Program) -> None:
        self.tables = {t.name: t for t in program.tables}
        self.procedures = {p.name: p for p in program.procedures}
        self.channels = dict(program.channels)
        self.functions = {f.name: f for f in program.functions}
        self._of_procedure: dict[str, Effects] = {}

    def of_procedure(self, name: str) -> Effects:
        """What a call of the procedure changes; calls must be known to end."""
        if name not in self._of_procedure:
            self._of_procedure[name] = self.of_block(self.procedures[name].body)
        return self._of_procedure[name]

    def of_block(self, body: Iterable[Instruction]) -> Effects:
        """What a block changes."""
        changed: set[str] = set()
        moved: set[str] = set()
        removed: set[str] = set()
        block = tuple(body)
        for i in flat(block):
            match i:
                case Store() | SetLevel():
                    changed.add(i.table)
                case Insert():
                    moved.add(i.table)
                case Remove():
                    removed.add(i.table)
                case Add():
                    (moved if i.vanished is None else removed).add(i.table)
                case Call():
                    callee = self.of_procedure(i.procedure)
                    changed |= callee.changed
                    moved |= callee.moved
                    removed |= callee.removed
                case _:
                    pass
        heard = flat(block, silent=False)
        told = (isinstance(i, Emit) or (isinstance(i, Call) and self.of_procedure(i.procedure).emits) for i in heard)
        emits = any(told)
        return Effects(frozenset(changed | moved | removed), frozenset(moved | removed), frozenset(removed), emits)
