"""What a feed tells, beside what its view holds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import everview as ev
from everview.engine.transaction import is_net_per_update
from tests.engine.bags import Bag, differences, expect, plain
from tests.engine.case_data import Row


@dataclass
class Follower:
    """A feed and what it adds up to."""

    view: str
    per_update: bool
    feed: Any
    total: Bag | None
    """None until the view has a result for the first time."""
    pushed: list[pa.RecordBatch] | None
    closed: bool = False

    def take(self) -> list[pa.RecordBatch]:
        if self.pushed is None:
            return list(self.feed.read())
        found, self.pushed[:] = list(self.pushed), []
        return found


def check_feed(
    db: ev.Database, follower: Follower, rows: Bag | None, single: list[Bag | None] | None, most_batches: int
) -> None:
    """What a feed tells of a commit: it adds up to the view's rows, and where each update alone is known, to that."""
    name = follower.view
    runtime = db._views[name]
    once = bool(getattr(runtime.view.body, "distinct", False) or runtime.group_columns is not None)
    netted = not follower.per_update or not is_net_per_update(db, name)
    by_update: dict[int, Bag] = {}
    batches = follower.take()
    expect(len(batches) <= most_batches, f"{name}: {len(batches)} batches in the feed after one commit")
    for batch in batches:
        expect(batch.num_rows > 0, f"{name}: an empty batch in the feed")
        _check_pairs(name, batch)
        for row in batch.to_pylist():
            kind, version, count = row.pop("_change_type"), row.pop("_commit_version"), row.pop("_count")
            update = row.pop("_update") if follower.per_update else 0
            expect(version == db.version, f"{name}: version {version}, not {db.version}")
            expect(count >= 1 and (not once or count == 1), f"{name}: count {count} of {row}")
            values = tuple(map(plain, row.values()))
            delta = by_update.setdefault(update, Counter())
            sign = 1 if kind in ("insert", "update_postimage") else -1
            expect(not netted or values not in delta, f"{name}: {values} twice in update {update}")
            delta[values] += sign * count
    total: Bag = Counter(follower.total or {})
    for delta in by_update.values():
        for values, count in delta.items():
            expect(count != 0, f"{name}: {values} comes and goes in one delta")
            total[values] += count
    if follower.total is None:  # It begins with the first result that there is.
        follower.total = rows
        return
    expect(
        (rows is None or +total == rows) and all(c >= 0 for c in total.values()),
        lambda: f"{name}: feed ({follower.per_update=}) gives {+total}, view {rows}",
    )
    follower.total = +total
    if single is not None and follower.per_update and single[0] is not None:
        _check_singles(name, by_update, single)


def _check_singles(name: str, by_update: dict[int, Bag], single: list[Bag | None]) -> None:
    """Each update's delta; those between two states that can be computed together."""
    before, mine = single[0] or Counter(), Counter[Row]()
    for i, after in enumerate(single[1:]):
        mine.update(by_update.pop(i, Counter()))
        if after is None:
            continue
        change = Counter(after)
        change.subtract(before)
        for sign in (1, -1):
            found: Bag = Counter({v: sign * c for v, c in mine.items() if sign * c > 0})
            wanted: Bag = Counter({v: sign * c for v, c in change.items() if sign * c > 0})
            more, fewer = differences(found, wanted)
            if any(isinstance(v, float) for row in (*more, *fewer) for v in row):
                continue  # changes by rounding only are no changes to Everview
            expect(
                not more and not fewer,
                f"{name}: update {i} gives {dict(found)} instead of {dict(wanted)} ({sign})",
            )
        before, mine = after, Counter()
    expect(not by_update, f"{name}: deltas of updates {list(by_update)}, which there were not")


def _check_pairs(name: str, batch: pa.RecordBatch) -> None:
    kinds = batch.column(batch.schema.get_field_index("_change_type")).to_pylist()
    for i, kind in enumerate(kinds):
        if kind == "update_preimage":
            expect(kinds[i + 1 : i + 2] == ["update_postimage"], f"{name}: a preimage without postimage")
        if kind == "update_postimage":
            expect(i > 0 and kinds[i - 1] == "update_preimage", f"{name}: a postimage without preimage")
