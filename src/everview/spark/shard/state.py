"""What Spark's state store holds of a shard: a log of its base rows, and where the shard stands.

Both are in a map: blobs by the number of their batch, from 1 on, and their place in it. So a batch writes its own blobs
and reads none. In a list it would not be so: a list is one value of the store, which Spark reads as a whole whenever
something is appended (it counts the rows of its state), and which cannot have more than 2 GB. Nor does a worker need
all of the log in memory: it is read, and compacted, blob by blob. (A shard that is rebuilt has a whole batch, packed.)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

SHARDS, MERGE, KEY_STEP, AHEAD = 0, 1, 2, 3
"""The steps of a query that keep state: its shards; what merges groups that span them; what checks keys before them;
what makes stages ahead of them."""
VARIABLE: Final = "shard"
"""The state's only variable: for Spark to set one up takes milliseconds, in every task."""
COMPACT_BYTES = 4 << 20
"""A log that has not grown by so much is never compacted."""
TIDY_BYTES = 64 << 10
"""Blobs of this size, on average, are not too small."""

Logged = tuple[int, str, bytes]
"""A batch's number, a table and rows of it."""
Key = tuple[int, int]
META_KEY: Final[Key] = (0, 0)
PIN_KEY: Final[Key] = (0, 1)
"""Of the text that says what the shard's rows belong to; it is written once."""
_ASIDE: Final = -1
"""The batch of what is no row."""

# Schemas are no text: what that means, Spark would ask the JVM in every task.
_KEY: Final = StructType([StructField("batch", LongType()), StructField("part", IntegerType())])
_VALUE: Final = StructType([StructField("name", StringType()), StructField("blob", BinaryType())])


@dataclass
class Meta:
    """What the state store says about a shard beside its rows."""

    shard: int = -1
    level: int = SHARDS
    """Which of the query's steps the shard is of."""
    token: str | None = None
    identity: str = ""
    """The digest of that which the rows belong to; in older checkpoints its whole text."""
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
    clock: int | None = None
    """What time it is in the shard, in microseconds since 1970; None if nothing goes by it."""

    @staticmethod
    def of(text: bytes) -> Meta:
        """As it was stored."""
        return Meta(**json.loads(text))

    def text(self) -> bytes:
        """As it is stored."""
        return json.dumps(asdict(self)).encode()

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


class ShardState:
    """The state of the shard whose key Spark has set."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._map = handle.getMapState(VARIABLE, _KEY, _VALUE)

    def meta(self) -> Meta | None:
        """Where the shard stands; None if it is new."""
        found = self._map.getValue(META_KEY)
        return None if found is None else Meta.of(bytes(found[1]))

    def put(self, meta: Meta) -> None:
        """Say where the shard stands."""
        self._map.updateValue(META_KEY, ("", meta.text()))

    def pin(self) -> str | None:
        """What the rows belong to; None if the state is older than that."""
        found = self._map.getValue(PIN_KEY)
        return None if found is None else bytes(found[1]).decode()

    def put_pin(self, text: str) -> None:
        """Say what the rows belong to."""
        self._map.updateValue(PIN_KEY, ("", text.encode()))

    def append(self, batch: int, rows: Iterable[tuple[str, bytes]], first: int = 0) -> None:
        """Add to a batch; of what is there of it already, ``first`` is the number of blobs."""
        for part, row in enumerate(rows, first):
            self._map.updateValue((batch, part), row)

    def put_aside(self, texts: Sequence[str]) -> None:
        """Add what is no row, and is not read as such."""
        if texts:
            known = sum(key[0] == _ASIDE for key in self.keys())
            self.append(_ASIDE, (("", text.encode()) for text in texts), known)

    def read(self) -> Iterator[Logged]:
        """All rows, batch after batch."""
        return ((batch, name, blob) for batch, _, name, blob in self.parts())

    def parts(self) -> Iterator[tuple[int, int, str, bytes]]:
        """The same, each with its place in its batch."""
        return self._read(key for key in self.keys() if key[0] > 0)

    def keys(self) -> list[Key]:
        """The blobs' numbers, in their order; the store has another one."""
        found = self._map.keys()
        return sorted(key for key in ((int(b), int(p)) for b, p in found) if key not in (META_KEY, PIN_KEY))

    def remove(self, keys: Iterable[Key]) -> None:
        """Forget some blobs."""
        for key in keys:
            self._map.removeKey(key)

    def taken_aside(self) -> list[str]:
        """What is no row, which is forgotten."""
        keys = [key for key in self.keys() if key[0] == _ASIDE]
        found = [blob.decode() for *_, blob in self._read(keys)]
        self.remove(keys)
        return found

    def _read(self, keys: Iterable[Key]) -> Iterator[tuple[int, int, str, bytes]]:
        for key in keys:
            found = self._map.getValue(key)
            assert found is not None
            yield *key, str(found[0]), bytes(found[1])
