"""Rows on their way: thousands at a time, as Arrow IPC streams, each with the change of copies of every row.

Python's stateful operators are slow per row, not per byte; so rows travel between Spark's operators, and lie in its
state store, as blobs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

WEIGHT: Final = "_everview_weight"
"""How many copies of a row come (above 0) or go (below 0)."""
MOST_BYTES: Final = 8 << 20
"""Blobs are cut so that they stay about below this size."""

_STORED = pa.ipc.IpcWriteOptions(compression="zstd")
_SENT = pa.ipc.IpcWriteOptions(compression="lz4")


def write_blob(batch: pa.RecordBatch | pa.Table, *, stored: bool) -> bytes:
    """Rows as a blob; ``stored`` ones are packed tighter than those that are only sent."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_STORED if stored else _SENT) as writer:
        writer.write(batch)
    return bytes(sink.getvalue())


def read_blob(blob: bytes | memoryview) -> pa.Table:
    """The rows of a blob."""
    with pa.ipc.open_stream(pa.py_buffer(blob)) as reader:
        return reader.read_all()


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in pieces of which each makes a blob."""
    rows = max(1, batch.num_rows * MOST_BYTES // max(batch.nbytes, 1)) if batch.nbytes > MOST_BYTES else batch.num_rows
    for at in range(0, batch.num_rows, max(rows, 1)):
        yield batch.slice(at, rows)
