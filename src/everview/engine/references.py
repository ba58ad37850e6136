"""Foreign keys, judged at the end of a batch: no row that is there may point at a row that is not.

Only keys that the batch touches are looked at: those of rows that point and have come, and those of rows that have gone
and may have been pointed at. Of these, one is a violation if no row has the key and some row points at it. So the order
of changes within a batch does not matter, and what comes and goes in it may point anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.base_table import BaseTable
from everview.engine.values.rows import ZERO, Changes
from everview.engine.values.words import NULL
from everview.errors import ReferenceViolationError, RefusedRow
from everview.query.schema import ForeignKey

_NULL = pa.scalar(NULL, pa.int64())


class Reference(NamedTuple):
    """A foreign key with the places of its columns, in the order of the key that it points at."""

    key: ForeignKey
    child: BaseTable
    columns: tuple[int, ...]
    """As the table declares them."""
    in_order: tuple[int, ...]
    parent: BaseTable

    def dangling(self, keys: Sequence[pa.Array]) -> pa.Array:
        """Of keys, given as columns in the order of the parent's, the places of those that are violations."""
        places = _where(pc.equal(self.parent.has_keys(keys), ZERO))
        if len(places):
            # The order of the child's own columns, in which it counts.
            order = [self.in_order.index(c) for c in self.columns]
            pointed = self.child.refers(self.columns, [keys[i].take(places) for i in order])
            places = places.take(_where(pc.greater(pointed, ZERO)))
        return places


def check_references(references: Iterable[Reference], batch: Sequence[Changes]) -> None:
    """Refuse a batch, which the tables have taken in, if it leaves a row that points at no row.

    The references are those of its tables, and those that point at these.
    """
    for refused in refused_by(references, batch):
        raise refused.alone()


def refused_by(references: Iterable[Reference], batch: Sequence[Changes]) -> Iterator[RefusedRow]:
    """The rows of such a batch because of which it is refused."""
    for reference in references:
        for changes in batch:
            if changes.relation == reference.child.schema.name:
                yield from _refused_children(reference, changes)
        for changes in batch:
            if changes.relation == reference.parent.schema.name:
                yield from _refused_parents(reference, changes)


def references_of(tables: Mapping[str, BaseTable]) -> Iterator[Reference]:
    """The foreign keys that are checked, table by table."""
    by_name = {name.lower(): table for name, table in tables.items()}
    for child in tables.values():
        for key in child.foreign_keys:
            parent = by_name.get(key.target.lower())
            if parent is None:
                continue
            columns = child.schema.positions(key.columns)
            targets = parent.schema.positions(key.target_columns)
            in_order = tuple(columns[targets.index(t)] for t in parent.key)
            yield Reference(key, child, columns, in_order, parent)


def _refused_children(reference: Reference, changes: Changes) -> Iterator[RefusedRow]:
    """Rows that have come point at rows that are there, or hold a NULL."""
    keys = [changes.words(i) for i in reference.in_order]
    points = pc.greater(changes.rows.weight, ZERO)
    for key in keys:
        points = pc.and_(points, pc.not_equal(key, _NULL))
    rows = _where(points)
    if len(rows) < len(points):
        keys = [key.take(rows) for key in keys]
    key = reference.key
    for row in rows.take(reference.dangling(keys)).to_pylist():
        yield reference.child.refused(
            changes,
            row,
            f"inserts {reference.child.shown(changes, row)}, and no row of {key.target} has the key at which its "
            f"foreign key {key} points",
            ReferenceViolationError,
            ", ".join(key.columns),
            f"insert the row of {key.target} before it, or in the same batch (db.batch())",
        )


def _refused_parents(reference: Reference, changes: Changes) -> Iterator[RefusedRow]:
    """Nothing points at rows that have gone, unless another one has come in their place."""
    rows = _where(pc.less(changes.rows.weight, ZERO))
    found = reference.dangling([changes.words(i).take(rows) for i in reference.parent.key])
    parent, child, key = reference.parent, reference.child, reference.key
    for row in rows.take(found).to_pylist():
        yield parent.refused(
            changes,
            row,
            f"deletes {parent.shown(changes, row)}, at which the foreign key {key} of rows of {child.schema.name} "
            "still points",
            ReferenceViolationError,
            ", ".join(parent.schema.primary_key),
            f"delete these rows of {child.schema.name} before it, or in the same batch (db.batch())",
        )


def _where(truths: pa.Array) -> pa.Array:
    """The places at which it is true."""
    return pc.indices_nonzero(truths)
