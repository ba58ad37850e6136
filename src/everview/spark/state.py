"""What Spark's state store holds of a shard: a log of its base rows, and where the shard stands.

The log is a map of blobs, by the number of their batch and their place in it. So a batch writes its own blobs and reads
none. In a list it would not be so: a list is one value of the store, which Spark reads as a whole whenever something is
appended (it counts the rows of its state), and which cannot have more than 2 GB. Nor does anything need all of the log
in memory: it is read, and compacted, blob by blob.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, fields
from typing import Final

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

ROWS, META = "rows", "shard"
"""The names of the state's variables."""
COMPACT_BYTES = 4 << 20
"""A log that has not grown by so much is never compacted."""
TIDY_BYTES = 64 << 10
"""Blobs of this size, on average, are not too small."""

Logged = tuple[int, str, bytes]
"""A batch's number, a table and rows of it."""
Key = tuple[int, int]

# Schemas are no text: what that means, Spark would ask the JVM in every task.
_KEY: Final = StructType([StructField("batch", LongType()), StructField("part", IntegerType())])
_VALUE: Final = StructType([StructField("name", StringType()), StructField("blob", BinaryType())])


class RowLog:
    """The log of the shard whose key Spark has set."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._blobs = handle.getMapState(ROWS, _KEY, _VALUE)

    def append(self, batch: int, rows: Iterable[tuple[str, bytes]]) -> None:
        """Add a batch, whose number no other one has. Such below 0 hold what is no row, and are not read."""
        for part, row in enumerate(rows):
            self._blobs.updateValue((batch, part), row)

    def read(self) -> Iterator[Logged]:
        """All rows, batch after batch."""
        return self._read(key for key in self.keys() if key[0] >= 0)

    def keys(self) -> list[Key]:
        """The blobs' numbers, in their order; the store has another one."""
        found = self._blobs.keys()
        return sorted((int(batch), int(part)) for batch, part in found)

    def remove(self, keys: Iterable[Key]) -> None:
        """Forget some blobs."""
        for key in keys:
            self._blobs.removeKey(key)

    def taken_aside(self) -> list[bytes]:
        """What is no row, which is forgotten."""
        keys = [key for key in self.keys() if key[0] < 0]
        found = [blob for _, _, blob in self._read(keys)]
        self.remove(keys)
        return found

    def clear(self) -> None:
        """Forget everything."""
        self._blobs.clear()

    def _read(self, keys: Iterable[Key]) -> Iterator[Logged]:
        for key in keys:
            found = self._blobs.getValue(key)
            assert found is not None
            yield key[0], str(found[0]), bytes(found[1])


@dataclass
class Meta:
    """What the state store says about a shard beside its rows."""

    shard: int = -1
    token: str | None = None
    identity: str = ""
    batch: int = 0
    """The last number in the log."""
    stored: int = 0
    """Bytes in the log, and beside it rows and blobs."""
    logged: int = 0
    blobs: int = 0
    compacted: int = 0
    """The bytes when the log was last as short as it can be, or nearly so."""
    compactions: int = 0
    told: bool = False
    rebuilds: int = 0

    def grow(self, rows: int, blobs: list[tuple[str, bytes]]) -> None:
        """Count what was added to the log."""
        self.stored += sum(len(blob) for _, blob in blobs)
        self.logged += rows
        self.blobs += len(blobs)

    def is_long(self, least: int) -> bool:
        """True if the log has doubled since it was last looked at."""
        return self.stored - self.compacted > max(least, self.compacted)

    def is_tidy(self, rows: int) -> bool:
        """True if the log would not become much shorter: most of it are rows that are there, in blobs of some size."""
        return 2 * self.logged <= 3 * rows and self.blobs * TIDY_BYTES <= self.stored


_TYPES: Final[dict[str, DataType]] = {"int": LongType(), "bool": BooleanType()}
_META: Final = StructType([StructField(f.name, _TYPES.get(str(f.type), StringType())) for f in fields(Meta)])


class MetaState:
    """Where the shard stands whose key Spark has set."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._value = handle.getValueState(META, _META)

    def get(self) -> Meta | None:
        """None for a shard that is new."""
        found = self._value.get()
        return None if found is None else Meta(*found)

    def put(self, meta: Meta) -> None:
        """Keep it with the batch."""
        self._value.update(astuple(meta))
