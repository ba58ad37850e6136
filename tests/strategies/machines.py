"""The compiled kernel behind the reference interpreter's calls, and both side by side."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import pyarrow as pa

from everview.kernel import Unit
from everview.kernel.program import Program
from everview.kernel.reference import Reference

Row = tuple[int, ...]


class Kernel:
    """The kernel's machine with lists for columns."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.machine = Unit(program)

    def apply(self, procedure: str, columns: Sequence[Sequence[int]]) -> None:
        self.machine.apply(procedure, [array("q", c) for c in columns])

    def take(self, channel: str) -> list[list[int]]:
        return [pa.array(c).to_pylist() for c in self.machine.take(channel)]

    def rows(self, cursor: str, arguments: Sequence[int] = ()) -> list[Row]:
        opened = self.machine.open(cursor, arguments)
        found: list[Row] = []
        while True:
            columns = [pa.array(c).to_pylist() for c in opened.fetch(3)]
            if not columns or not columns[0]:
                return found
            found += zip(*columns, strict=True)

    def dump(self, table: str) -> list[tuple[Row, Row, int]]:
        return self.machine.dump(table)


class Both:
    """Every call goes to both machines, and they agree to the letter: tables, deltas and listings, in their order."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.kernel = Kernel(program)
        self.reference = Reference(program)

    def apply(self, procedure: str, columns: Sequence[Sequence[int]]) -> None:
        self.kernel.apply(procedure, columns)
        self.reference.apply(procedure, columns)
        for table in self.program.tables:
            self.dump(table.name)

    def take(self, channel: str) -> list[list[int]]:
        found, wanted = self.kernel.take(channel), self.reference.take(channel)
        assert found == wanted, channel
        return wanted

    def rows(self, cursor: str, arguments: Sequence[int] = ()) -> list[Row]:
        found, wanted = self.kernel.rows(cursor, arguments), self.reference.rows(cursor, arguments)
        assert found == wanted, cursor
        return wanted

    def dump(self, table: str) -> list[tuple[Row, Row, int]]:
        found, wanted = self.kernel.dump(table), self.reference.dump(table)
        assert found == wanted, table
        return wanted
