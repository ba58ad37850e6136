"""What the section of a unit holds, block by block: written, read, and its words looked at before they are trusted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.storage.container import SectionWriter
from everview.kernel.machine import Unit
from everview.kernel.program import Program, Table

_HEADER = Struct("<5q")
"""What a block begins with (cpp/run/snapshot.h): magic, version, fingerprint, how many words follow, their checksum."""
_ROWS = Struct("<4q")
"""And then, one of rows: the table's number, -1, how many rows it has, and how many of them are in this block."""

Check = Callable[[Table, list[pa.Array]], None]


def write_unit(section: SectionWriter, unit: Unit) -> None:
    """Write a unit's state; there is never more than a block of it beside the unit."""
    for block in unit.blocks():
        section.write(block)


def read_unit(unit: Unit, stream: BinaryIO, check: Check) -> None:
    """Put a saved state back, looking at the keys of its rows block by block; ValueError if it cannot be the unit's."""

    def checked() -> Iterator[bytes]:
        for block in _blocks(stream):
            yield block
            found = _saved_keys(block, unit.program)  # The unit has taken the block, so it is whole.
            if found is not None:
                check(*found)

    unit.restore_blocks(checked())


def _blocks(stream: BinaryIO) -> Iterator[bytes]:
    while head := stream.read(_HEADER.size):
        words = _HEADER.unpack(head)[3] if len(head) == _HEADER.size else 0
        yield head + stream.read(max(0, words) * 8)


def _saved_keys(block: bytes, program: Program) -> tuple[Table, list[pa.Array]] | None:
    """A table, and the columns of its keys in a block of its rows; None for a block of groups."""
    number, what, _, rows = _ROWS.unpack_from(block, _HEADER.size)
    if what >= 0:
        return None
    table = program.tables[number]
    width = len(table.key) + table.place(len(table.values))
    words = pa.Array.from_buffers(pa.int64(), len(block) // 8, [None, pa.py_buffer(block)])
    if not rows or not width:
        return table, []
    first = (_HEADER.size + _ROWS.size) // 8
    whole = pa.FixedSizeListArray.from_arrays(words.slice(first, rows * width), width)
    return table, [pc.list_element(whole, i) for i in range(len(table.key))]
