"""The linker: the programs of a view's parts become one program, and so the view one unit.

A view's parts (the strategy's program for each core, counts of distinct rows or groups, values in order for MIN and
MAX) are written each for itself, with names that others have too. Here the names of each are put behind a prefix of its
own, registers apart, which belong to a procedure. What comes out is verified, saved, counted and dropped as one; a
part goes on to be called by its own names (``Part``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypeVar

from everview.kernel.machine import Machine, Part, Unit
from everview.kernel.operations import Math, Test
from everview.kernel.program import Lit, Procedure, Program, Reg, Update

T = TypeVar("T")
_NAMING = frozenset(("name", "table", "channel", "procedure", "function"))
"""Fields that hold the name of a table, channel, procedure, cursor or function."""
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

    def link(self) -> Unit:
        """The unit of all parts."""
        unit = Unit(linked([part.program for part in self._parts], self._prefixes), self._machine)
        for part, prefix in zip(self._parts, self._prefixes, strict=True):
            part.bind(unit, prefix)
        return unit


def linked(programs: Sequence[Program], prefixes: Sequence[str]) -> Program:
    """One program that has all that others have, in their order, each with its names behind its prefix."""
    if len(set(prefixes)) < len(prefixes):
        raise ValueError(f"two parts have the same prefix: {', '.join(prefixes)}")
    renamed = [prefixed(program, prefix) for program, prefix in zip(programs, prefixes, strict=True)]
    return Program(
        tuple(table for p in renamed for table in p.tables),
        tuple(channel for p in renamed for channel in p.channels),
        tuple(procedure for p in renamed for procedure in p.procedures),
        tuple(cursor for p in renamed for cursor in p.cursors),
        tuple(function for p in renamed for function in p.functions),
    )


def prefixed(program: Program, prefix: str) -> Program:
    """The same program, with a prefix before the names of all that it has."""
    return Program(
        _renamed(program.tables, prefix),
        tuple((prefix + name, width) for name, width in program.channels),
        _renamed(program.procedures, prefix),
        _renamed(program.cursors, prefix),
        _renamed(program.functions, prefix),
    )


def _renamed(item: T, prefix: str) -> T:
    """A part of a program with a prefix before all names in it; the same object if there are none."""
    kind: Any = type(item)
    if item is None or kind in (Reg, Lit, Update, Math, Test, str, int, bool):
        return item
    if isinstance(item, tuple):
        changed = tuple(_renamed(one, prefix) for one in item)
        return item if all(a is b for a, b in zip(item, changed, strict=True)) else kind(changed)
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(f.name for f in fields(kind))
    before = [getattr(item, name) for name in _FIELDS[kind]]
    after = [prefix + v if n in _NAMING else _renamed(v, prefix) for n, v in zip(_FIELDS[kind], before, strict=True)]
    if isinstance(item, Procedure):
        after[_FIELDS[kind].index("row_of")] = tuple((row, prefix + table) for row, table in item.row_of)
    if all(a is b for a, b in zip(before, after, strict=True)):
        return item
    renamed: T = kind(*after)
    return renamed
