"""What has changed in a view since a version: the last batches' net changes are kept, and added up when asked for.

OPTIONS (history = n) keeps those of the last n batches, as a feed that nobody reads. What a batch added and a later one
took away again is not part of a difference.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from math import isnan
from threading import RLock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.base_table import MOST_COPIES
from everview.engine.change_feed import AFTER, BEFORE, DELETE, INSERT, ChangeFeed, Delivery
from everview.engine.values.nested import as_keys, from_key
from everview.errors import EverviewError, HistoryExceeded, TooManyRowsError

_HALVES = "#above", "#below"
"""The upper and the lower bits of a number of copies, summed apart: a sum of numbers of 64 bits may have more."""


class Span:
    """Since when what changes in a view is known."""

    def __init__(self, view: str, most: int, version: Callable[[], int]) -> None:
        self.view = view
        self.most = most
        """Of so many batches it is kept."""
        self._version = version
        self.first = version()
        """The version after which everything is kept, but for what ``most`` leaves out."""

    @property
    def oldest(self) -> int:
        """The oldest version since which changes are known."""
        return max(self.first, self._version() - self.most)

    def check(self, version: int) -> None:
        """Raise if it is not known what has changed since a version."""
        if version > self._version():
            raise ValueError(f"the database has version {self._version()}, and {version} is to come")
        if version < self.oldest:
            raise HistoryExceeded(
                f"what has changed in {self.view} is known since version {self.oldest}, and not since {version}",
                hint=f"it keeps the last {self.most:,} batches: OPTIONS (history = …) may ask for more",
            )


class History(ChangeFeed, Span):
    """The net changes of the last batches of a view."""

    def __init__(
        self,
        view: str,
        schema: pa.Schema,
        lock: RLock,
        room: Callable[[ChangeFeed], int],
        most: int,
        version: Callable[[], int],
    ) -> None:
        ChangeFeed.__init__(self, view, schema, lambda _: None, lock, room, Delivery.NET, None)
        Span.__init__(self, view, most, version)
        self._entries: deque[tuple[int, pa.RecordBatch]] = deque()

    def push(self, batch: pa.RecordBatch) -> None:
        """Keep what a batch has changed."""
        self._entries.append((int(batch.column("_commit_version")[0].as_py()), batch))
        self.nbytes += batch.nbytes
        room = self._room(self)
        if self.nbytes > room:
            self.give_up(room)

    def publish(self) -> None:
        """The batch is at its end: let go of what is too old now."""
        while self._entries and self._entries[0][0] <= self._version() - self.most:
            self.nbytes -= self._entries.popleft()[1].nbytes

    def give_up(self, room: int) -> None:
        """Begin anew, as what is kept takes more than there is room for."""
        self._begin()

    def end(self, why: EverviewError) -> None:
        """Begin anew, as a batch's changes cannot be told."""
        self._begin()

    def _begin(self) -> None:
        self._entries.clear()
        self.nbytes = 0
        self.first = self._version()

    def restore(self, first: int, batches: Sequence[pa.RecordBatch]) -> None:
        """Keep what was saved."""
        self._begin()
        self.first = first
        for batch in batches:
            self._entries.append((int(batch.column("_commit_version")[0].as_py()), batch))
            self.nbytes += batch.nbytes

    def saved(self) -> Iterator[pa.RecordBatch]:
        """What is kept, oldest first."""
        return (batch for _, batch in self._entries)

    def since(self, version: int, keys: Sequence[int] | None) -> pa.Table:
        """What has changed since a version, net; ``keys`` are the columns by which rows of groups are paired."""
        self.check(version)
        kept = [batch for number, batch in self._entries if number > version]
        return _net(pa.Table.from_batches(kept, schema=self.schema), self._version(), keys)


def _net(changes: pa.Table, version: int, keys: Sequence[int] | None) -> pa.Table:
    """Changes added up by rows, as one batch of a feed."""
    schema = changes.schema
    width = len(schema) - 3
    added = pc.is_in(changes["_change_type"], pa.array([INSERT, AFTER]))
    signed = pc.if_else(added, changes["_count"], pc.negate(changes["_count"]))
    names = [f"c{i}" for i in range(width)]
    halves = pc.shift_right(signed, 32), pc.bit_wise_and(signed, 2**32 - 1)
    rows = pa.table([*as_keys(changes.columns[:width]), *halves], names=[*names, *_HALVES])
    summed = rows.group_by(names, use_threads=False).aggregate([(half, "sum") for half in _HALVES])
    above, below = (summed[f"{half}_sum"].to_pylist() for half in _HALVES)
    # Over no columns and no rows there is one sum, which is NULL.
    totals = [((high or 0) << 32) + (low or 0) for high, low in zip(above, below, strict=True)]
    if any(abs(n) > MOST_COPIES for n in totals):
        raise TooManyRowsError(
            "a row has come or gone more often since then than 64 bits can say",
            hint="ask for what has changed since a later version, or read the whole view",
        )
    summed = summed.filter(pa.array([n != 0 for n in totals], pa.bool_()))
    net = [n for n in totals if n]
    places, kinds = list(range(len(net))), [INSERT if n > 0 else DELETE for n in net]
    if keys is not None:
        places, kinds = _paired(net, list(zip(*(summed[names[i]].to_pylist() for i in keys), strict=True)))
    found = summed.select(names).take(pa.array(places, pa.int64()))
    told = (pa.array(kinds, pa.string()), pa.array([version] * len(places), pa.int64()))
    counts = pa.array([abs(net[place]) for place in places], pa.int64())
    columns = [from_key(c, f.type) for c, f in zip(found.columns, schema, strict=False)]
    return pa.table([*columns, *told, counts], schema=schema)


def _paired(net: Sequence[int], keys: Sequence[tuple[Any, ...]]) -> tuple[list[int], list[str]]:
    """Rows by groups: an old and a new one of the same group, one after the other, are an update."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for place, key in enumerate(keys or [()] * len(net)):
        groups.setdefault(tuple("NaN" if isinstance(v, float) and isnan(v) else v for v in key), []).append(place)
    places: list[int] = []
    kinds: list[str] = []
    for found in groups.values():
        found.sort(key=lambda place: net[place])
        places += found
        is_update = len(found) == 2 and net[found[0]] < 0 < net[found[1]]
        kinds += [BEFORE, AFTER] if is_update else [INSERT if net[p] > 0 else DELETE for p in found]
    return places, kinds
