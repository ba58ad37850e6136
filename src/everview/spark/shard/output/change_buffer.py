"""What a batch changes in one view, as it comes: in memory while it is little, in a spill file from then on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from everview.spark.exchange.arrow_blob import pieces
from everview.spark.shard.messages import Leave
from everview.spark.shard.output.spill_file import SpillFile, Spills, SpillWriter

_VERSION: Final = "_commit_version"


class ChangeBuffer:
    """Changes on their way out of a shard; without room for a spill file, they stay in memory."""

    def __init__(self, spills: Spills | None = None, leave: Leave | None = None) -> None:
        self._way = (spills, leave) if spills is not None and leave is not None else None
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0
        self._outgoing: SpillWriter | None = None
        self.rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows of a feed in, without the shard's own count of versions: the feed has Spark's."""
        for piece in pieces(batch.drop_columns([_VERSION])):
            self._waiting.append(piece)
            self._bytes += piece.nbytes
            self.rows += piece.num_rows
        if self._waiting and self._way is not None:
            spills, leave = self._way
            if self._bytes >= leave.least:
                self._move(spills, leave)

    def _move(self, spills: Spills, leave: Leave) -> None:
        try:
            if self._outgoing is None:
                self._outgoing = spills.begin(self._waiting[0].schema, leave.batch)
            while self._waiting:
                self._outgoing.write(self._waiting[0])
                del self._waiting[0]
        except OSError:
            self._stay()

    def _stay(self) -> None:
        """There is no room: what has left comes back, and nothing leaves any more."""
        if self._outgoing is not None:
            self._waiting = self._outgoing.taken_back() + self._waiting
        self._outgoing = self._way = None

    def clear(self) -> None:
        """Forget everything: the batch begins again, or will never be."""
        if self._outgoing is not None:
            self._outgoing.drop()
        self._outgoing = None
        self._waiting = []
        self._bytes = self.rows = 0

    def spill_file(self) -> SpillFile | None:
        """The spill file with all changes, if there is one: nothing is added any more."""
        if self._outgoing is None:
            return None
        try:
            return self._outgoing.end()
        except OSError:
            self._stay()
            return None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The changes that are in no spill file."""
        return iter(self._waiting)
