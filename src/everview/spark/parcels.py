"""Parcels: large changes on their way from a shard's process to the worker that unpacks them, in a file.

The step that unpacks follows the shards' in the same Spark task, so both run on one machine. What travels through Spark
is a reference; the rows lie as Arrow in a file beside the shard's socket, which the worker maps. They are copied once,
instead of a dozen times through pandas, the JVM and sockets.

A parcel is read once: whoever opens it takes its name away. A task that runs again makes new ones. Those that nobody
has opened are removed with the next batch, or with the shard's process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

import pyarrow as pa

from everview.errors import PipelineError
from everview.spark.blobs import pieces

SUFFIX: Final = ".parcel"
LEAST_BYTES = 256 << 10
"""Changes below this size travel in Spark's rows: a file would not be faster."""
_MARK: Final = b"everview.parcel"


@dataclass(frozen=True)
class Parcel:
    """Where a parcel lies, and what must be found there."""

    path: str
    mark: str
    size: int
    rows: int

    def text(self) -> str:
        """The reference as it travels."""
        return json.dumps(asdict(self))

    @staticmethod
    def of(text: str) -> Parcel:
        """The reference that has travelled."""
        return Parcel(**json.loads(text))

    def opened(self) -> Iterator[pa.RecordBatch]:
        """The rows, mapped and not copied; a parcel that is not there as it was left fails before the first of them."""
        try:
            file = pa.memory_map(self.path)
        except OSError as error:
            raise self._lost(str(error)) from error
        if file.size() != self.size:
            raise self._lost(f"it has {file.size()} bytes instead of {self.size}")
        try:
            reader = pa.ipc.open_stream(file)
        except (pa.ArrowException, OSError) as error:
            raise self._lost(str(error)) from error
        if (reader.schema.metadata or {}).get(_MARK) != self.mark.encode():
            raise self._lost("it is another one")
        Path(self.path).unlink(missing_ok=True)
        return self._read(reader)

    def _read(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        found = 0
        try:
            for batch in reader:
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


class Post:
    """A shard's parcels: those that its process has left, and may have to clear away."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._left: list[tuple[int, Path]] = []

    def leave(self, batches: Sequence[pa.RecordBatch], version: int) -> Parcel | None:
        """Leave changes for a worker of this machine; None if there is no room for them."""
        mark = uuid4().hex
        path = self._socket.with_suffix(f".{mark}{SUFFIX}")
        schema = batches[0].schema
        rows = 0
        self._left.append((version, path))
        try:
            with (
                pa.OSFile(str(path), "wb") as file,
                pa.ipc.new_stream(file, schema.with_metadata({**(schema.metadata or {}), _MARK: mark})) as writer,
            ):
                for batch in batches:
                    for piece in pieces(batch):
                        writer.write_batch(piece)
                        rows += piece.num_rows
        except OSError:
            path.unlink(missing_ok=True)
            return None
        return Parcel(str(path), mark, os.stat(path).st_size, rows)

    def clear(self, version: int) -> None:
        """Remove what batches other than this one have left: none of them runs any more."""
        for made, path in self._left:
            if made != version:
                with suppress(OSError):
                    path.unlink(missing_ok=True)
        self._left = [(made, path) for made, path in self._left if made == version]
