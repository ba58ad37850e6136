"""The stateful operator: one key a shard. Durable truth is the shard's base rows, in Spark's state store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from everview.errors import StateMismatchError
from everview.spark.checkpoint.identity import Identity, misplaced
from everview.spark.shard.job_key import job_key
from everview.spark.shard.messages import FEED, LEAST_BYTES, Apply, Done, Leave, MergeShards
from everview.spark.shard.state import COMPACT_BYTES, Meta, ShardState
from everview.spark.worker import begin_task

if TYPE_CHECKING:
    # Not when the module is read, as all that tasks need: whenever a query starts, so does a process on the driver that
    # reads it only to ask for the state's schema.
    import pandas as pd

    from everview.spark.shard.client import ShardClient

PACKED: Final = "shard INT, kind STRING, name STRING, version BIGINT, rows BIGINT, blob BINARY, info STRING"
"""The columns of everything that travels packed."""
Packed = tuple[Any, ...]
"""A row of those columns."""
ROWS, CHANGES, BAD, BEAT, METRICS = "rows", "changes", "bad", "beat", "metrics"
ONWARD: Final = "onward"
"""Rows for the shard of the same number of the step after this one."""


@dataclass
class _Input:
    rows: list[tuple[str, bytes]] = field(default_factory=list)
    count: int = 0
    passed: list[Packed] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)


class ShardOperator(StatefulProcessor):
    """Keeps the shards of one level: takes packed rows in, gives packed changes out."""

    def __init__(
        self,
        specs: list[bytes],
        identity: Identity,
        keys: list[int],
        *,
        level: int = 0,
        merge_shards: MergeShards | None = None,
        onward: list[int] | None = None,
        quarantine: bool = False,
        is_timed: bool = False,
    ) -> None:
        self.key = job_key()
        """Drawn on the driver: with the operator it comes to the workers, and only to them."""
        self.specs = specs
        """For each shard its ShardSpec as compressed JSON: only its process has any use for it."""
        self.identity = identity
        self.shards = {key: shard for shard, key in enumerate(keys)}
        self.level = level
        self.merge_shards = merge_shards
        self.onward = onward
        """The keys of the next level's shards, if there is one: everything goes on to them."""
        self.quarantine = quarantine
        """Whether there may be rows that were put aside."""
        self.is_timed = is_timed
        """Whether rows come and go by the clock: then every shard has its turn in every batch, by a timer."""
        self.compact_bytes = COMPACT_BYTES
        self.parcel_bytes = LEAST_BYTES

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark at the start of each task."""
        self.state = ShardState(handle)
        self._handle = handle
        context = begin_task()
        if context is not None:  # In the driver, which only asks for the state's schema, there is none.
            self.query = context.getLocalProperty("sql.streaming.queryId") or "?"
            self.version = int(context.getLocalProperty("streaming.sql.batchId") or 0)

    def handleInitialState(self, key: Any, initialState: pd.DataFrame, timerValues: Any) -> None:
        """Called by Spark in the first batch with the rows of the static inputs: once for each chunk of them."""
        given = _gathered(iter([initialState]))
        meta = self.state.meta() or self._new(self.shards[int(key[0])], uuid4().hex)
        meta.batch = 1  # All static rows are one batch, which is taken in net.
        self.state.append(meta.batch, given.rows, meta.blobs)
        self.state.put_aside(given.bad)
        meta.grow(given.count, given.rows)
        self.state.put(meta)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        """Called by Spark for each shard that gets anything in a batch."""
        clock = self._wound(timerValues)
        yield from _framed(self._answers(self.shards.get(int(key[0]), -1), _gathered(rows), clock))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        """Called by Spark after that, for each shard that has asked for it in the batch before: all, if timed."""
        clock, meta = self._wound(timerValues), self.state.meta()
        if meta is None or clock is None or (meta.clock is not None and meta.clock >= clock):
            return  # It had rows in this batch.
        yield from _framed(self._answers(self.shards.get(int(key[0]), -1), _Input(), clock))

    def _wound(self, timerValues: Any) -> int | None:
        """The batch's time, which comes again with the batch, in microseconds; the shard has its turn in the next one.

        None if nothing goes by it.
        """
        if not self.is_timed:
            return None
        milliseconds = int(timerValues.getCurrentProcessingTimeInMs())
        self._handle.registerTimer(milliseconds + 1)
        return milliseconds * 1_000

    def _answers(self, shard: int, given: _Input, clock: int | None = None) -> Iterator[Packed]:
        """What the shard says to its part of a batch."""
        stored = self.state.meta()
        meta = self._checked(stored or self._new(shard))
        if meta.shard != shard or (
            stored is None and self.version > 0
        ):  # Every shard is there from the first batch on.
            raise StateMismatchError(misplaced(shard, len(self.shards), None if stored is None else meta.shard))
        if self.quarantine and not meta.told:
            given.bad += self.state.taken_aside()
        yield from given.passed
        if clock is not None:
            clock = max(clock, meta.clock or clock)
        if given.rows or not meta.told or clock != meta.clock:
            yield from self._applied(shard, meta, given, clock)
        here = self._home(shard)
        for text in given.bad:
            yield here, BAD, "", self.version, 1, None, text
        yield here, BEAT, "", self.version, 0, None, None

    def _new(self, shard: int, token: str | None = None) -> Meta:
        """A shard without rows."""
        self.state.put_pin(self.identity.text)
        return Meta(shard, self.level, token, self.identity.digest)

    def _checked(self, meta: Meta) -> Meta:
        """State of other views, tables or shards is refused, or, if that can be done and is wanted, taken over."""
        if meta.identity == self.identity.digest:
            return meta
        stored = Identity(self.state.pin() or meta.identity)
        same = not self.identity.differences(stored)
        if not same and not self.identity.can_take_over(stored):
            raise StateMismatchError(self.identity.refusal(stored))
        if self.identity.derived and not same:
            self.state.remove(self.state.keys())  # Its rows come anew.
            meta = Meta(meta.shard, self.level, compactions=meta.compactions, rebuilds=meta.rebuilds)
        elif not same:
            meta = self._without(self.identity.made | stored.made, meta)
        self.state.put_pin(self.identity.text)
        return replace(meta, identity=self.identity.digest, told=meta.told and same)

    def _without(self, tables: frozenset[str], meta: Meta) -> Meta:
        """Forget the rows of tables that a step ahead of this one makes, and now tells anew."""
        from everview.spark.exchange.arrow_blob import read_blob

        blobs = ((batch, part, blob) for batch, part, name, blob in self.state.parts() if name in tables)
        for batch, part, blob in list(blobs) if tables else ():
            self.state.remove([(batch, part)])
            meta = replace(
                meta,
                token=uuid4().hex,  # A process that has them is none of this shard any more.
                stored=meta.stored - len(blob),
                logged=meta.logged - read_blob(blob).num_rows,
                blobs=meta.blobs - 1,
            )
        return meta

    def _applied(self, shard: int, meta: Meta, given: _Input, clock: int | None) -> Iterator[Packed]:
        from everview.spark.shard.client import ShardClient
        from everview.spark.shard.output.spill_file import SpillFile

        before, after = meta.token, uuid4().hex
        with ShardClient(self.query, f"{self.level}/{shard}", self.specs[shard], self.key) as client:
            request = Apply(
                client.digest,
                before,
                after,
                given.rows,
                not meta.told,
                self.merge_shards,
                leave=Leave(self.version, self.parcel_bytes) if self.onward is None else None,
                batch=self.version,
                clock=None if clock is None else (meta.clock, clock),
            )
            reply, cause = client.apply(request, self.state.read)
            if given.rows or clock != meta.clock:
                meta.token, meta.clock = after, clock
            if given.rows:
                taken = given.rows if reply.accepted is None else reply.accepted
                meta.batch += 1
                self.state.append(meta.batch, taken)
                meta.grow(given.count, taken)
            holds_refused = bool(reply.bad) and not meta.told  # Rows that were there first may have been put aside.
            meta.told = True
            meta.rebuilds += cause is not None
            if holds_refused:
                meta = self._compacted(client, meta)
            elif meta.is_long(self.compact_bytes):
                meta = self._shortened(client, meta, sum(reply.stats["rows"].values()))
        self.state.put(meta)
        given.bad += reply.bad
        here = self._home(shard)
        for (view, target), blobs in reply.changes.items():
            for blob, count in blobs:
                if isinstance(blob, SpillFile):
                    yield here, CHANGES, view, self.version, count, None, blob.text()
                elif target == FEED or self.onward is None:
                    yield here, CHANGES, view, self.version, count, blob, None
                else:
                    yield self.onward[target], ROWS, view, self.version, count, blob, None
        yield here, METRICS, "", self.version, 0, None, self._metrics(shard, meta, reply, cause, given)

    def _shortened(self, client: ShardClient, meta: Meta, left: int) -> Meta:
        """Compact the log, if that makes it shorter and can be done now."""
        from everview.spark.shard.client import NoDumpError

        if meta.is_tidy(left):
            return replace(meta, compacted=meta.stored)
        try:
            return self._compacted(client, meta)
        except NoDumpError:
            return meta

    def _compacted(self, client: ShardClient, meta: Meta) -> Meta:
        """Replace the log by the rows that are left of it; NoDumpError if the shard does not give them.

        They are one batch: what a part of them alone would give, no view may ever have had.
        """
        from everview.spark.shard.client import NoDumpError

        assert meta.token is not None
        old = self.state.keys()
        fresh = Meta(batch=meta.batch + 1)
        try:
            for name, blob, rows in client.dump(meta.token):
                self.state.append(fresh.batch, [(name, blob)], fresh.blobs)
                fresh.grow(rows, [(name, blob)])
        except NoDumpError:
            self.state.remove((fresh.batch, part) for part in range(fresh.blobs))
            raise
        self.state.remove(old)
        return replace(
            meta,
            batch=fresh.batch,
            stored=fresh.stored,
            logged=fresh.logged,
            blobs=fresh.blobs,
            compacted=fresh.stored,
            compactions=meta.compactions + 1,
        )

    def _home(self, shard: int) -> int:
        """Where a shard's own rows go: to the next level's shard of that number, if there is one."""
        return shard if self.onward is None else self.onward[shard % len(self.onward)]

    def _metrics(self, shard: int, meta: Meta, reply: Done, cause: str | None, given: _Input) -> str:
        own = {
            "level": self.level,
            "shard": shard,
            "batch": self.version,
            "blobs": len(given.rows),
            "stored": meta.stored,
            "compactions": meta.compactions,
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
                found.count += int(r.rows)
            elif r.kind == BAD:
                found.bad.append(str(r.info))
            elif r.kind in (CHANGES, METRICS):
                found.passed.append(tuple(r))
            elif r.kind == ONWARD:
                found.passed.append(tuple(r._replace(kind=ROWS)))
    return found


_COLUMNS = [c.split()[0] for c in PACKED.split(", ")]
_BLOB = _COLUMNS.index("blob")


def _framed(rows: Iterator[Packed]) -> Iterator[pd.DataFrame]:
    """As few frames as there can be without any becoming large: each costs Spark some milliseconds."""
    import pandas as pd

    from everview.spark.exchange.arrow_blob import MOST_BYTES

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
