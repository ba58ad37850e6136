"""Spill files: large changes on their way from a shard's process to the worker that unpacks them, in a file.

The step that unpacks follows the shards' in the same Spark task, so both run on one machine. What travels through Spark
is a reference; the rows lie as Arrow in a file in a local folder of Spark's, which the worker maps. They are copied
once, instead of a dozen times through pandas, the JVM and sockets. A large batch's later changes are compressed, to a
quarter or so: up to some size the memory is that of the batch before, which costs less than compression; beyond it,
more.

A spill file is read once: whoever opens it takes its name away. A task that runs again makes new ones. Those that
nobody has opened are removed with the next batch, or with the shard's process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Final
from uuid import uuid4

import pyarrow as pa

from everview.errors import PipelineError

SUFFIX: Final = ".parcel"
_MARK: Final = b"everview.parcel"
PLAIN_BYTES = 256 << 20
"""Of a batch's changes so many are left as they are; what comes after them is compressed, in a stream of its own."""
_PLAIN: Final = pa.ipc.IpcWriteOptions(use_threads=False)
_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_READING: Final = pa.ipc.IpcReadOptions(use_threads=False)
"""A shard has a core of its own, and no more."""


@dataclass(frozen=True)
class SpillFile:
    """Where a spill file lies, and what must be found there."""

    path: str
    mark: str
    size: int
    rows: int

    def text(self) -> str:
        """The reference as it travels."""
        return json.dumps(asdict(self))

    @staticmethod
    def of(text: str) -> SpillFile:
        """The reference that has travelled."""
        return SpillFile(**json.loads(text))

    def opened(self) -> Iterator[pa.RecordBatch]:
        """The rows, mapped and not copied; one that is not as it was left fails before the first of them."""
        try:
            file = pa.memory_map(self.path)
        except OSError as error:
            raise self._lost(str(error)) from error
        if file.size() != self.size:
            raise self._lost(f"it has {file.size()} bytes instead of {self.size}")
        try:
            reader = pa.ipc.open_stream(file, options=_READING)
        except (pa.ArrowException, OSError) as error:
            raise self._lost(str(error)) from error
        if (reader.schema.metadata or {}).get(_MARK) != self.mark.encode():
            raise self._lost("it is another one")
        Path(self.path).unlink(missing_ok=True)
        return self._read(file, reader)

    def _read(self, file: pa.NativeFile, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        found = 0
        try:
            for batch in _rest(file, reader):
                found += batch.num_rows
                yield batch
        except (pa.ArrowException, OSError) as error:
            raise self._lost(str(error)) from error
        if found != self.rows:
            raise self._lost(f"it has {found} rows instead of {self.rows}")

    def _lost(self, why: str) -> PipelineError:
        return PipelineError(
            f"changes of a shard that were left in {self.path} cannot be read: {why}",
            hint="nothing is lost: the task has to run again, which Spark does where spark.task.maxFailures (or "
            "local[n,failures]) allows it",
        )


def _rest(file: pa.NativeFile, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """The rows of a stream that was opened, and of those that follow it in the file."""
    yield from reader
    while file.tell() < file.size():
        yield from pa.ipc.open_stream(file, options=_READING)


class SpillWriter:
    """A spill file that is being written. OSError, if there is no room: what was written before can be taken back."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._mark = uuid4().hex
        self._rows = self._pieces = self._bytes = 0
        self._file = pa.OSFile(str(path), "wb")
        self._schema = schema.with_metadata({**(schema.metadata or {}), _MARK: self._mark})
        self._writer = pa.ipc.new_stream(self._file, self._schema, options=_PLAIN)

    def write(self, piece: pa.RecordBatch) -> None:
        """Add rows, which are read together as well."""
        if self._bytes <= PLAIN_BYTES < self._bytes + piece.nbytes:
            self._writer.close()
            self._writer = pa.ipc.new_stream(self._file, self._schema, options=_COMPRESSED)
        self._writer.write_batch(piece)
        self._bytes += piece.nbytes
        self._rows += piece.num_rows
        self._pieces += 1

    def end(self) -> SpillFile:
        """There is nothing to add: the reference to it."""
        self._writer.close()
        self._file.close()
        return SpillFile(str(self._path), self._mark, os.stat(self._path).st_size, self._rows)

    def drop(self) -> None:
        """Away with it."""
        with suppress(OSError):  # Without room, closing may fail, too.
            self._file.close()
        self._path.unlink(missing_ok=True)

    def taken_back(self) -> list[pa.RecordBatch]:
        """The pieces that have been written as a whole; the file goes."""
        found = []
        if self._pieces:
            file = pa.memory_map(str(self._path))
            pieces = _rest(file, pa.ipc.open_stream(file, options=_READING))
            found = [piece.replace_schema_metadata() for piece in islice(pieces, self._pieces)]
        self.drop()
        return found


class Spills:
    """A shard's spill files: those that its process has left, and may have to clear away."""

    def __init__(self, folder: Path, shard: str) -> None:
        self._folder = folder
        self._shard = shard
        """What their names begin with: shards share the folder."""
        self._left: list[tuple[int, Path]] = []

    def begin(self, schema: pa.Schema, version: int) -> SpillWriter:
        """Begin to leave changes for a worker of this machine; OSError if that cannot be."""
        path = self._folder / f"{self._shard}.{uuid4().hex}{SUFFIX}"
        self._left.append((version, path))
        return SpillWriter(path, schema)

    def clear(self, version: int) -> None:
        """Remove what batches other than this one have left: none of them runs any more."""
        for made, path in self._left:
            if made != version:
                with suppress(OSError):
                    path.unlink(missing_ok=True)
        self._left = [(made, path) for made, path in self._left if made == version]

    def close(self) -> None:
        """Remove everything that this process has left. The folder is for other shards, too, and goes with Spark's."""
        self.clear(-1)

    def inherit(self) -> None:
        """Remove what earlier processes of the shard have left: nobody reads it any more."""
        for path in self._folder.glob(f"{self._shard}.*{SUFFIX}"):
            with suppress(OSError):
                path.unlink(missing_ok=True)
