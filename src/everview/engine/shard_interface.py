"""The way in and out of a database that is a part of something larger: models in, weighted rows in and out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.batch import WeightedRows
from everview.engine.change_feed import Callback, Delivery, feed_schema
from everview.engine.database import Database
from everview.engine.input.read import read_rows
from everview.engine.values.rows import Changes, WordRows
from everview.errors import DataError, KeyViolationError, OverDeleteError
from everview.query.schema import Table
from everview.query.view import View

Weighted = tuple[str, pa.Table, pa.Array]
"""Rows of one table, and for each how many copies come (above 0) or go (below 0)."""


class RefusedRowError(Exception):
    """A batch was refused because of one row: which of the operations it is in, and what is wrong."""

    def __init__(self, operation: int, error: DataError) -> None:
        super().__init__(error.message)
        self.operation = operation
        self.error = error


def define(
    db: Database, tables: Sequence[Table], views: Sequence[View], *, implied: frozenset[str] = frozenset()
) -> None:
    """Create tables and views that have been read already; ``implied`` columns follow from the others of their row.

    Their views are going to be told of all the time.
    """
    db._told = True
    db._implied |= {t.name: frozenset(i for i, c in enumerate(t.columns) if c.name in implied) for t in tables}
    db._define(tables, views)


def apply_weighted(db: Database, operations: Sequence[Weighted]) -> None:
    """Apply rows with weights as one batch; every operation's weights have one sign, and no row is in two of them."""
    checked = []
    for i, (name, data, weight) in enumerate(operations):
        try:
            checked.append(WeightedRows(name, read_rows(db._table(name).schema, data, what="change"), weight))
        except DataError as error:
            raise RefusedRowError(i, error) from error
    try:
        db._commit(checked, disjoint=True)
    except DataError as error:
        at = _operation_of(error, operations)
        if at is None or error.row is None or not isinstance(error, OverDeleteError | KeyViolationError):
            raise  # No row is to blame if there is no room, nor of all those that a view's row is made of.
        raise RefusedRowError(at, error) from error


def _operation_of(error: DataError, operations: Sequence[Weighted]) -> int | None:
    """Rows too many are among those that go, any other wrong row among those that come."""
    goes = isinstance(error, OverDeleteError)
    for i, (name, _, weight) in enumerate(operations):
        if name == error.table and (weight[0].as_py() < 0) == goes:
            return i
    return None


def scan(db: Database, table: str) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
    """A table's rows and their copies, chunk by chunk."""
    base = db._table(table)
    names = [c.name for c in base.schema.columns]
    for rows in base.rows():
        changes = Changes(table, base.types, rows, base.dictionary)
        arrays = [changes.values(i) for i in range(len(base.types))]
        yield pa.RecordBatch.from_arrays(arrays, names=names), rows.weight


def rows_of(db: Database, table: str) -> int:
    """How many different rows a table holds."""
    return db._table(table).distinct


def tell(db: Database, view: str, callback: Callback) -> None:
    """Have a view's net changes handed over as they come, before their batch has ended: it may still be refused."""
    db.open_feed(db.view(view)._runtime, Delivery.AS_COMPUTED, callback)


def contents(db: Database, view: str) -> Iterator[pa.RecordBatch]:
    """A view's rows as the batches of a feed that would make it out of nothing."""
    found = db.view(view)
    runtime = found._runtime
    schema = feed_schema(runtime.view.columns, False)
    for rows in runtime.rows():
        yield _as_inserts(found._decoded(WordRows(rows.columns, rows.weight, rows.update))[0], rows.weight, schema)


def _as_inserts(batch: pa.RecordBatch, weight: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
    size = len(weight)
    kinds = pa.repeat(pa.scalar("insert", pa.string()), size)
    version = pa.repeat(pa.scalar(0, pa.int64()), size)
    return pa.RecordBatch.from_arrays([*batch.columns, kinds, version, pc.abs(weight)], schema=schema)
