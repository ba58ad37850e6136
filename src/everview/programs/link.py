"""The linker: the programs of a view's parts become one program, and so the view one unit.

A view's parts (the strategy's program for each core, counts of distinct rows or groups, values in order for MIN and
MAX) are written each for itself, with names that others have too. Here the names of each are put behind a prefix of its
own, registers apart, which belong to a procedure. What comes out is verified, saved, counted and dropped as one; a
part goes on to be called by its own names (``Part``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields
from operator import is_
from typing import Any, Final, TypeVar, cast

from everview.kernel.machine import Machine, Part, Unit
from everview.kernel.operations import Math, Test
from everview.kernel.program import Lit, Procedure, Program, Reg, Update

T = TypeVar("T")
_NAMING = frozenset(("name", "table", "channel", "procedure", "function"))
"""Fields that hold the name of a table, channel, procedure, cursor or function."""
_WITHOUT_NAMES: Final = frozenset((type(None), Reg, Lit, Update, Math, Test, str, int, bool))
"""Kinds of parts in which there is no such name, nor a register within."""
_FIELDS: dict[Any, tuple[str, ...]] = {}


class Linker:
    """Takes the programs of a unit's parts, one after the other, and links them in the end."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._parts: list[Part] = []
        self._prefixes: list[str] = []
        self._kinds: Counter[str] = Counter()

    def add(self, kind: str, program: Program) -> Part:
        """A further part, which can be used once all are linked; ``kind`` is what its names begin with in the unit."""
        part = Part(program)
        self._kinds[kind] += 1
        self._parts.append(part)
        self._prefixes.append(f"{kind}{self._kinds[kind]}.")
        return part

    def name_of(self, part: Part, name: str) -> str:
        """What a name of a part's is in the unit."""
        at = next(i for i, known in enumerate(self._parts) if known is part)
        return self._prefixes[at] + name

    def add_reader(self, kind: str, write: Callable[[str], Program]) -> tuple[Part, str]:
        """A further part without tables of its own, whose cursors and functions read those of the others.

        What it is written with is the prefix of its own names, which is given, too; others' are those of the unit
        (``name_of``), and so are its own for who uses it.
        """
        self._kinds[kind] += 1
        prefix = f"{kind}{self._kinds[kind]}."
        part = Part(write(prefix))
        self._parts.append(part)
        self._prefixes.append("")
        return part, prefix

    def link(self) -> Unit:
        """The unit of all parts."""
        unit = Unit(linked([part.program for part in self._parts], self._prefixes), self._machine)
        for part, prefix in zip(self._parts, self._prefixes, strict=True):
            part.bind(unit, prefix)
        return unit


def linked(programs: Sequence[Program], prefixes: Sequence[str]) -> Program:
    """One program that has all that others have, in their order, each with its names behind its prefix."""
    own = [prefix for prefix in prefixes if prefix]
    if len(set(own)) < len(own):
        raise ValueError(f"two parts have the same prefix: {', '.join(prefixes)}")
    found = [prefixed(p, prefix) if prefix else p for p, prefix in zip(programs, prefixes, strict=True)]
    return Program(
        tuple(table for p in found for table in p.tables),
        tuple(channel for p in found for channel in p.channels),
        tuple(procedure for p in found for procedure in p.procedures),
        tuple(cursor for p in found for cursor in p.cursors),
        tuple(function for p in found for function in p.functions),
    )


def prefixed(program: Program, prefix: str) -> Program:
    """The same program, with a prefix before the names of all that it has."""
    return Program(
        renamed(program.tables, prefix),
        tuple((prefix + name, width) for name, width in program.channels),
        renamed(program.procedures, prefix),
        renamed(program.cursors, prefix),
        renamed(program.functions, prefix),
    )


def renamed(item: T, prefix: str, registers: str = "") -> T:
    """A part of a program with a prefix before all names in it, and one before its registers; itself if it has none."""
    kind: Any = type(item)
    if kind is Reg and registers:
        register: Any = item
        return cast("T", Reg(registers + register.name, register.words))
    if kind in _WITHOUT_NAMES:
        return item
    if isinstance(item, tuple):
        changed = [renamed(one, prefix, registers) for one in item]
        return item if all(map(is_, item, changed)) else kind(changed)
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(f.name for f in fields(kind))
    names = _FIELDS[kind]
    before = [getattr(item, name) for name in names]
    after = [prefix + v if n in _NAMING else renamed(v, prefix, registers) for n, v in zip(names, before, strict=True)]
    if isinstance(item, Procedure):
        rows = ((renamed(row, prefix, registers), prefix + table) for row, table in item.row_of)
        after[names.index("row_of")] = tuple(rows)
    if all(map(is_, before, after)):
        return item
    found: T = kind(*after)
    return found
