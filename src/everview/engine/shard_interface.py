"""The way in and out of a database that is a part of something larger: models in, weighted rows in and out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.batch import Operation, WeightedRows
from everview.engine.change_feed import Callback, Delivery, feed_schema
from everview.engine.clock import moment_of
from everview.engine.database import Database
from everview.engine.direct.batch import weighted_rows
from everview.engine.input.read import read_rows
from everview.engine.transaction import Transaction
from everview.engine.values.rows import Changes, WordRows
from everview.errors import DataError, KeyViolationError, OverDeleteError, told_together
from everview.query.schema import Table
from everview.query.view import View

Weighted = tuple[str, pa.Table, pa.Array]
"""Rows of one table, and for each how many copies come (above 0) or go (below 0)."""


class RefusedRowsError(Exception):
    """A batch was refused because of some rows, each of one of the operations: the error of one, which knows all."""

    def __init__(self, error: DataError) -> None:
        super().__init__(error.message)
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


def set_clock(db: Database, clock: int | None) -> None:
    """Say what time it is in a database without rows, in microseconds since 1970; None: that of its source."""
    if clock is not None:
        db._clock.now = clock


def apply_weighted(db: Database, operations: Sequence[Weighted], clock: int | None = None) -> None:
    """Apply rows with weights as one batch; every operation's weights have one sign, and no row is in two of them.

    The clock goes on before, to a time unless it is further.
    """
    checked: list[Operation] = []
    wrong: list[DataError] = []
    for i, (name, data, weight) in enumerate(operations):
        base = db._table(name)
        given = weighted_rows(base, data, weight)
        if given is not None:
            checked.append(given)
            continue
        try:
            checked.append(WeightedRows(name, read_rows(base.schema, data, what="change"), weight))
        except DataError as error:
            if not error.refused:
                raise
            error.refused = tuple(replace(row, operation=i) for row in error.refused)
            wrong.append(error)
    if wrong:
        raise RefusedRowsError(told_together(wrong)) from wrong[0]
    try:
        to = None if clock is None else moment_of(max(clock, db._clock.now or clock))
        with db._lock:
            Transaction(db).run(checked, disjoint=True, to=to)
    except (OverDeleteError, KeyViolationError) as error:
        # Of other errors no row is to blame: there is no room, or a view's row, made of many, has no value.
        raise RefusedRowsError(error) from error


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
