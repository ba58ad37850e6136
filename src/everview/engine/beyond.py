"""Groups whose sums are beyond their type: a batch may pass through such a state, but must not end in it.

SUM of BIGINT beyond 64 bits, or of decimals beyond 38 digits, is an error as in Spark's ANSI mode, and the batch is
refused. Until the batch ends, such a sum counts as NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from everview.engine.rows import Journal
from everview.errors import DataError
from everview.query.types import Kind
from everview.query.view import Aggregate

Group = tuple[int, ...]
Place = tuple[str | None, int | None]
"""A table and a row of the user's input, where that is known."""


class Beyond:
    """The groups of a block that are beyond their type now, and the updates that brought them there."""

    def __init__(self) -> None:
        self.groups: dict[Group, tuple[Aggregate, Place]] = {}

    def update(
        self,
        groups: Sequence[Group],
        beyond: Sequence[tuple[Aggregate, pa.Array]],
        place: Callable[[Group], Place],
        journal: Journal,
    ) -> None:
        """Take in how it is with some groups after an update."""
        before = dict(self.groups)
        journal.add(lambda: self._become(before))
        journal.check(self.refuse)
        for group in groups:
            self.groups.pop(group, None)
        for aggregate, mask in beyond:
            for group, much in zip(groups, mask.to_pylist(), strict=True):
                if much:
                    self.groups[group] = aggregate, place(group)

    def _become(self, groups: dict[Group, tuple[Aggregate, Place]]) -> None:
        self.groups = groups

    def refuse(self) -> None:
        """Raise if any group is beyond its type."""
        for aggregate, place in self.groups.values():
            raise refusal(aggregate, place)


def refusal(aggregate: Aggregate, place: Place = (None, None)) -> DataError:
    """What to say of a result that is too large."""
    what = str(aggregate.type) if aggregate.type.kind is Kind.DECIMAL else f"the 64 bits of {aggregate.type}"
    table, row = place
    return DataError(
        f"{aggregate} leaves {what}; nothing has changed",
        table=table,
        row=row,
        hint="cast what is summed up to a wider type, or make the values or the groups smaller",
    )
