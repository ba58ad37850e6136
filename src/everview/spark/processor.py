"""The stateful operator: one key a shard. Durable truth is the shard's base rows, in Spark's state store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from everview.errors import StateMismatchError
from everview.spark.blobs import MOST_BYTES
from everview.spark.client import ShardClient
from everview.spark.identity import Identity, misplaced
from everview.spark.messages import FEED, Apply, Done, Leave, Targets
from everview.spark.parcels import LEAST_BYTES, Parcel
from everview.spark.workers import begin_task

if TYPE_CHECKING:
    import pandas as pd  # Not when the module is read: the driver does so in a new process whenever a query starts.

PACKED: Final = "shard INT, kind STRING, name STRING, version BIGINT, rows BIGINT, blob BINARY, info STRING"
"""The columns of everything that travels packed."""
Packed = tuple[Any, ...]
"""A row of those columns."""
ROWS, CHANGES, BAD, BEAT, METRICS = "rows", "changes", "bad", "beat", "metrics"
LOG: Final = "batch BIGINT, name STRING, blob BINARY"
META: Final = (
    "shard INT, token STRING, identity STRING, batch BIGINT, stored BIGINT, compacted BIGINT, told BOOLEAN, "
    "rebuilds BIGINT"
)
_ASIDE: Final = -1
"""The batch of what is in the log and is no row: one that was put aside, as text."""
COMPACT_BYTES = 4 << 20
"""A log below this size is never compacted."""


@dataclass
class _Meta:
    """What the state store says about a shard beside its rows."""

    shard: int = -1
    token: str | None = None
    identity: str = ""
    batch: int = 0
    stored: int = 0
    compacted: int = 0
    told: bool = False
    rebuilds: int = 0

    def row(self) -> tuple[Any, ...]:
        return (
            self.shard,
            self.token,
            self.identity,
            self.batch,
            self.stored,
            self.compacted,
            self.told,
            self.rebuilds,
        )


@dataclass
class _Input:
    rows: list[tuple[str, bytes]] = field(default_factory=list)
    passed: list[Packed] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)


class ShardProcessor(StatefulProcessor):
    """Keeps the shards of one level: takes packed rows in, gives packed changes out."""

    def __init__(
        self,
        specs: list[bytes],
        identity: Identity,
        keys: list[int],
        *,
        level: int = 0,
        targets: Targets | None = None,
        onward: list[int] | None = None,
        quarantine: bool = False,
    ) -> None:
        self.specs = specs
        """A pickled ShardSpec for each shard: only its process has any use for it."""
        self.identity = identity
        self.shards = {key: shard for shard, key in enumerate(keys)}
        self.level = level
        self.targets = targets
        self.onward = onward
        """The keys of the next level's shards, if there is one: everything goes on to them."""
        self.quarantine = quarantine
        """Whether there may be rows that were put aside."""
        self.compact_bytes = COMPACT_BYTES
        self.parcel_bytes = LEAST_BYTES

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark at the start of each task."""
        self.log = handle.getListState("log", LOG)
        self.meta = handle.getValueState("meta", META)
        context = begin_task()
        if context is not None:  # In the driver, which only asks for the state's schema, there is none.
            self.query = context.getLocalProperty("sql.streaming.queryId") or "?"
            self.version = int(context.getLocalProperty("streaming.sql.batchId") or 0)

    def handleInitialState(self, key: Any, initialState: pd.DataFrame, timerValues: Any) -> None:
        """Called by Spark in the first batch with the rows of the static inputs: once for each chunk of them."""
        rows: list[tuple[int, str, bytes]] = []
        for r in initialState.itertuples(index=False):
            if r.kind == ROWS:
                rows.append((0, str(r.name), bytes(r.blob)))
            elif r.kind == BAD:
                rows.append((_ASIDE, "", str(r.info).encode()))
        stored = self.meta.get()
        meta = _Meta(self.shards[int(key[0])], uuid4().hex, self.identity.text) if stored is None else _Meta(*stored)
        meta.stored += sum(len(blob) for batch, _, blob in rows if batch != _ASIDE)
        if rows:
            self.log.appendList(rows)
        self.meta.update(meta.row())

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        """Called by Spark for each shard that gets anything in a batch."""
        yield from _framed(self._answers(self.shards.get(int(key[0]), -1), _gathered(rows)))

    def _answers(self, shard: int, given: _Input) -> Iterator[Packed]:
        """What the shard says to its part of a batch."""
        stored = self.meta.get()
        meta = _Meta(shard, identity=self.identity.text) if stored is None else _Meta(*stored)
        self._check(meta)
        if meta.shard != shard or (
            stored is None and self.version > 0
        ):  # Every shard is there from the first batch on.
            raise StateMismatchError(misplaced(shard, len(self.shards), None if stored is None else meta.shard))
        if self.quarantine and not meta.told:
            given.bad += self._put_aside()
        yield from given.passed
        if given.rows or not meta.told:
            yield from self._applied(shard, meta, given)
        here = self._home(shard)
        for text in given.bad:
            yield here, BAD, "", self.version, 1, None, text
        yield here, BEAT, "", self.version, 0, None, None

    def _check(self, meta: _Meta) -> None:
        """State of other views, tables or shards is refused, or, if that can be done and is wanted, taken over."""
        if meta.identity == self.identity.text:
            return
        stored = Identity(meta.identity)
        if not self.identity.can_take_over(stored):
            raise StateMismatchError(*self.identity.refusal(stored))
        if self.identity.derived:
            self.log.clear()
            meta.token, meta.batch, meta.stored, meta.compacted = None, 0, 0, 0
        meta.identity, meta.told = self.identity.text, False

    def _applied(self, shard: int, meta: _Meta, given: _Input) -> Iterator[Packed]:
        before, after = meta.token, uuid4().hex
        with ShardClient(self.query, f"{self.level}/{shard}", self.specs[shard]) as client:
            request = Apply(
                client.digest,
                before,
                after,
                given.rows,
                not meta.told,
                self.targets,
                leave=Leave(self.version, self.parcel_bytes) if self.onward is None else None,
                batch=self.version,
            )
            reply, cause = client.apply(request, self._stored)
            self._store(meta, given.rows if reply.accepted is None else reply.accepted)
            if given.rows:
                meta.token = after
            meta.told = True
            meta.rebuilds += cause is not None
            if meta.stored - meta.compacted > max(self.compact_bytes, meta.compacted):
                self._compact(client, meta)
        self.meta.update(meta.row())
        given.bad += reply.bad
        here = self._home(shard)
        for (view, target), blobs in reply.changes.items():
            for blob, count in blobs:
                if isinstance(blob, Parcel):
                    yield here, CHANGES, view, self.version, count, None, blob.text()
                elif target == FEED or self.onward is None:
                    yield here, CHANGES, view, self.version, count, blob, None
                else:
                    yield self.onward[target], ROWS, view, self.version, count, blob, None
        yield here, METRICS, "", self.version, 0, None, self._metrics(shard, meta, reply, cause, given)

    def _put_aside(self) -> list[str]:
        """The rows of the static inputs that could not be taken in: told in the first batch, and not kept longer."""
        rows = self._stored()
        found = [blob.decode() for batch, _, blob in rows if batch == _ASIDE]
        if found:
            self._replace_log([row for row in rows if row[0] != _ASIDE])
        return found

    def _stored(self) -> list[tuple[int, str, bytes]]:
        return [(int(b), str(n), bytes(d)) for b, n, d in self.log.get()]

    def _store(self, meta: _Meta, rows: list[tuple[str, bytes]]) -> None:
        if rows:
            meta.batch += 1
            self.log.appendList([(meta.batch, name, blob) for name, blob in rows])
            meta.stored += sum(len(blob) for _, blob in rows)

    def _compact(self, client: ShardClient, meta: _Meta) -> None:
        """Replace the log by the rows that are left of it."""
        assert meta.token is not None
        rows = client.dump(meta.token)
        if rows is None:
            return
        meta.batch += 1
        self._replace_log([(meta.batch, name, blob) for name, blob, _ in rows])
        meta.stored = meta.compacted = sum(len(blob) for _, blob, _ in rows)

    def _replace_log(self, rows: list[tuple[int, str, bytes]]) -> None:
        """Spark's lists cannot be put as empty ones."""
        if rows:
            self.log.put(rows)
        else:
            self.log.clear()

    def _home(self, shard: int) -> int:
        """Where a shard's own rows go: to the next level's shard of that number, if there is one."""
        return shard if self.onward is None else self.onward[shard % len(self.onward)]

    def _metrics(self, shard: int, meta: _Meta, reply: Done, cause: str | None, given: _Input) -> str:
        own = {
            "level": self.level,
            "shard": shard,
            "batch": self.version,
            "blobs": len(given.rows),
            "stored": meta.stored,
            "compacted": meta.compacted,
            "rebuilt": cause,
            "bad": len(given.bad),
            "rebuilds": meta.rebuilds,
        }
        return json.dumps(reply.stats | own)

    def close(self) -> None:
        """Called by Spark at the end of each task."""


def _gathered(frames: Iterator[pd.DataFrame]) -> _Input:
    found = _Input()
    for frame in frames:
        for r in frame.itertuples(index=False):
            if r.kind == ROWS:
                found.rows.append((str(r.name), bytes(r.blob)))
            elif r.kind == BAD:
                found.bad.append(str(r.info))
            elif r.kind in (CHANGES, METRICS):
                found.passed.append(tuple(r))
    return found


_COLUMNS = [c.split()[0] for c in PACKED.split(", ")]
_BLOB = _COLUMNS.index("blob")


def _framed(rows: Iterator[Packed]) -> Iterator[pd.DataFrame]:
    """As few frames as there can be without any becoming large: each costs Spark some milliseconds."""
    import pandas as pd

    waiting: list[Packed] = []
    size = 0
    for row in rows:
        waiting.append(row)
        size += len(row[_BLOB] or b"")
        if size >= MOST_BYTES:
            yield pd.DataFrame(waiting, columns=_COLUMNS)
            waiting, size = [], 0
    if waiting:
        yield pd.DataFrame(waiting, columns=_COLUMNS)
