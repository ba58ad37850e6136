"""A target that is watched: the first rows of each batch's changes are kept, to be shown."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from everview.spark.targets import Batch, Target
from everview.spark.targets.base import Progress


class Watched(Target):
    """Another target, and the last batch's changes beside it."""

    def __init__(self, target: Target, most: int) -> None:
        self.target = target
        self.name = target.name
        self.most = most
        self.batch = -1
        self.changes: list[dict[str, Any]] = []
        """The last batch's changes, at most so many of them."""
        self.count = 0
        """How many there were in all."""

    def check(self, schema: pa.Schema) -> None:
        """As the target does."""
        self.target.check(schema)

    def write(self, batch: Batch) -> bool:
        """Write to the target, and keep what it was given."""
        changes: list[dict[str, Any]] = []
        count = 0
        for chunk in batch.chunks():
            count += chunk.num_rows
            changes += chunk.slice(0, max(0, self.most - len(changes))).to_pylist()
        if count:
            self.batch, self.changes, self.count = batch.id, changes, count
        return self.target.write(batch)

    def progress(self) -> Progress | None:
        """As the target says."""
        return self.target.progress()

    def read_arrow(self) -> pa.Table:
        """The target's rows."""
        return self.target.read_arrow()

    def drop(self) -> None:
        """Remove the target."""
        self.target.drop()
