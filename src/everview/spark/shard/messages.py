"""What a Spark worker and a shard's process say to each other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from everview.spark.shard.output.spill_file import SpillFile

FEED: Final = -1
"""Where changes go that are the result's own."""
LEAST_BYTES = 256 << 10
"""Changes below this size travel in Spark's rows: a spill file would not be faster."""


@dataclass(frozen=True)
class Rebuild:
    """Begin to make the shard anew; its base rows follow, as many times Load, and then Rebuilt.

    ``clock`` is what time it was in the shard then, in microseconds; None if nothing goes by it.
    """

    spec: bytes
    digest: str
    clock: int | None = None


@dataclass(frozen=True)
class Load:
    """Base rows (batch, table and blob), batch after batch; the next ones may go on with the last batch."""

    rows: list[tuple[int, str, bytes]]


@dataclass(frozen=True)
class Rebuilt:
    """Those were all rows: the shard is at this version now, unless it was to be ``whole``, and some were put aside."""

    token: str | None
    whole: bool = False


@dataclass(frozen=True)
class Apply:
    """Take a batch in that follows one version and makes the next; ``everything``: tell all rows of the views."""

    digest: str
    before: str | None
    after: str
    rows: list[tuple[str, bytes]]
    everything: bool
    merge_shards: MergeShards | None
    stats: bool = True
    leave: Leave | None = None
    """None: all changes have to travel in the reply."""
    batch: int = 0
    """Spark's number of it, for messages."""
    clock: tuple[int | None, int] | None = None
    """What time it was before, and what time it becomes; None if nothing goes by the clock."""


@dataclass(frozen=True)
class Leave:
    """Changes for the feed of so many bytes are to be left as a spill file, for a batch of Spark's."""

    batch: int
    least: int


@dataclass(frozen=True)
class MergeShards:
    """Which views' rows go on to a second step, by which of their columns, and the shards there."""

    columns: dict[str, tuple[int, ...]]
    shards: int


@dataclass(frozen=True)
class Dump:
    """Give the first of all base rows as of a version, or those that follow the ones that were given; none: no more."""

    token: str
    more: bool = False


@dataclass(frozen=True)
class Dumped:
    """Base rows: of which table, and how many; none if there are no more."""

    rows: list[tuple[str, bytes, int]]


@dataclass(frozen=True)
class Ready:
    """The request was done, and there is nothing to say about it."""


@dataclass(frozen=True)
class Need:
    """The shard is not at that version: rebuild it first."""


@dataclass(frozen=True)
class Done:
    """The changes as blobs or spill files with their numbers of rows, by view and where they go on to; rows put aside;
    figures."""

    changes: dict[tuple[str, int], list[tuple[bytes | SpillFile, int]]]
    bad: list[str]
    stats: dict[str, Any]
    accepted: list[tuple[str, bytes]] | None = None
    """The rows that were taken in, where they are not those that were sent."""


@dataclass(frozen=True)
class Failed:
    """The request was refused, and nothing has changed."""

    error: Exception
    trace: str


def bad_row(table: str, row: Mapping[str, Any], reason: str, copies: int = 0) -> str:
    """A row that was put aside, as the dead-letter output has it."""
    return json.dumps({"table": table, "row": row, "copies": copies, "reason": reason}, default=str)
