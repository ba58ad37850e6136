"""What a unit's snapshot holds, table by table: the words of its rows, to be looked at before they are trusted."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from everview.kernel.program import Program, Table

_HEADER = 5
"""How many words come before the first table (cpp/run/snapshot.h)."""


def saved_keys(data: bytes, program: Program) -> Iterator[tuple[Table, list[pa.Array]]]:
    """The columns of each table's keys in a snapshot that the program's unit has taken, and so is whole."""
    words = pa.Array.from_buffers(pa.int64(), len(data) // 8, [None, pa.py_buffer(data)])
    at = _HEADER
    for table in program.tables:
        rows, width = words[at].as_py(), len(table.key) + table.place(len(table.values))
        at += 1
        whole = pa.FixedSizeListArray.from_arrays(words.slice(at, rows * width), width) if rows and width else None
        yield table, [] if whole is None else [pc.list_element(whole, i) for i in range(len(table.key))]
        at += rows * width + -(-rows // 8)  # a level is a byte
        at += 1 + words[at].as_py()  # its indexes
