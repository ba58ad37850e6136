"""Recorded updates of several tables in one order: to be replayed, measured and analysed.

A log comes from one file (or anything that speaks Arrow) a table. Beside the table's columns it may have

- ``_change_type`` (insert, delete, update_preimage, update_postimage) or ``_weight`` (copies: above 0 they come, below
  they go). Without either, the rows come in their order under a sliding window: a row goes just before the one comes
  that is a window's length later;
- ``_at``, the update's place among those of all tables, ascending; -1 for rows that were there before. Updates with
  the same place come one after the other, table by table. Without it, tables' updates are spread evenly over each
  other, each in its own order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from os import PathLike
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.input.from_arrow import first_true
from everview.engine.input.from_file import kind_of, read_file
from everview.engine.input.read import CHANGE_TYPE, COUNT, read_changes, read_rows
from everview.engine.input.rejection import Where
from everview.engine.values.rows import ZERO, counted, ones, repeated
from everview.errors import DataError, RowShapeError, UnknownTableError
from everview.query.schema import Schema, Table

ONE: Final = pa.scalar(1, pa.int64())
MOST: Final = pa.scalar(2**63 - 1, pa.uint64())
AT: Final = "_at"
WEIGHT: Final = "_weight"
BEFORE: Final = -1
"""The place of rows that were there before the log begins."""
WINDOW: Final = 0.2
"""The share of a table's rows that a sliding window holds."""


@dataclass(frozen=True)
class TableUpdates:
    """The updates of one table, in their order: rows of the table's types, copies that come or go, and places."""

    table: Table
    rows: pa.Table
    weights: pa.Array
    at: pa.Array
    taken: pa.Array | None = None
    """Which row of the data each update is about; None if they are the rows of the data, in their order."""

    def __len__(self) -> int:
        return len(self.weights)

    @cached_property
    def changes(self) -> pa.Table:
        """The updates as ``Database.apply`` takes them."""
        kinds = pc.if_else(pc.greater(self.weights, ZERO), "insert", "delete")
        changes, copies = self.rows.append_column(CHANGE_TYPE, kinds), pc.abs(self.weights)
        return changes if pc.all(pc.equal(copies, ONE), min_count=0).as_py() else changes.append_column(COUNT, copies)

    @cached_property
    def _places(self) -> Any:
        array = pa.concat_arrays([self.at])
        return memoryview(array.buffers()[1]).cast("q")[array.offset : array.offset + len(array)] if len(array) else ()

    def before(self, place: int) -> int:
        """How many of the updates come before a place of the log."""
        return bisect_left(self._places, place)

    def row_of(self, update: int) -> int:
        """The row of the data that an update is about."""
        return update if self.taken is None else int(self.taken[update].as_py())


@dataclass(frozen=True)
class Log:
    """Updates of several tables; ``len`` is how many there are, without the rows that were there before."""

    tables: Mapping[str, TableUpdates]
    windowed: bool
    """True if a sliding window was put over rows that came without changes."""

    def __len__(self) -> int:
        ends = [int(t.at[-1].as_py()) + 1 for t in self.tables.values() if len(t)]
        return max(ends, default=0)

    def between(self, first: int, stop: int) -> Iterator[tuple[str, pa.Table]]:
        """The changes of each table from one place to another, as ``Database.apply`` takes them."""
        for name, updates in self.tables.items():
            start, end = updates.before(first), updates.before(stop)
            if end > start:
                yield name, updates.changes.slice(start, end - start)

    def initial(self) -> Iterator[tuple[str, pa.Table]]:
        """The rows that were there before."""
        return self.between(BEFORE, 0)

    def until(self, stop: int) -> Iterator[tuple[TableUpdates, int]]:
        """Each table with how many of its updates come before a place, the rows that were there included."""
        for updates in self.tables.values():
            yield updates, updates.before(stop)


def read_log(
    schema: Schema,
    sources: Mapping[str, Any] | str | PathLike[str],
    *,
    initial: Collection[str] = (),
    window: float = WINDOW,
) -> Log:
    """A log of a schema's tables.

    Args:
        schema: the tables.
        sources: for each table a file (CSV or Parquet, compressed or not) or Arrow data; or a folder that has a file
            named for each table.
        initial: tables whose rows are there before the first update.
        window: the share of a table's rows that stay, where the data does not say which rows go.
    """
    if isinstance(sources, str | PathLike):
        sources = _in_folder(schema, Path(sources))
    if not 0 < window <= 1:
        raise DataError(f"a window of {window} is no share of the rows", hint="give one above 0 and at most 1")
    early = {_table(schema, name).name for name in initial}
    found: dict[str, TableUpdates] = {}
    unordered: dict[str, TableUpdates] = {}
    windowed = False
    for name, source in sources.items():
        table = _table(schema, name)
        if table.name in found or table.name in unordered:
            raise DataError(f"table {table.name} is given twice", table=table.name, hint="put its rows into one file")
        data = read_file(source, table) if isinstance(source, str | PathLike) else pa.table(source)
        updates, is_ordered, is_windowed = _updates(table, data, table.name in early, window)
        windowed |= is_windowed
        (found if is_ordered else unordered)[table.name] = updates
    placed = [name for name, t in found.items() if len(t) and int(t.at[-1].as_py()) >= 0]
    if placed and unordered:
        given, other = placed[0], next(iter(unordered))
        raise DataError(
            f"the updates of {given} have places ({AT}), those of {other} have none",
            table=other,
            hint=f"give all tables a column {AT}, or none; or say that {other} is there before the log begins",
        )
    return Log(_closed_up(found) | _interleaved(unordered), windowed)


def _in_folder(schema: Schema, folder: Path) -> dict[str, Path]:
    """The files of a folder that are named for tables, and of a kind that can be read."""
    files: dict[str, list[Path]] = {}
    for file in sorted(folder.iterdir()):
        if kind_of(file) and file.is_file():
            files.setdefault(file.name.split(".")[0].lower(), []).append(file)
    found: dict[str, Path] = {}
    for table in schema:
        named = files.get(table.name.lower(), [])
        if len(named) > 1:
            listed = ", ".join(f.name for f in named)
            raise DataError(
                f"{folder} has several files for table {table.name}: {listed}",
                table=table.name,
                hint="leave one of them there, or name it: TABLE=FILE",
            )
        if named:
            found[table.name] = named[0]
    if not found:
        names = ", ".join(t.name for t in schema)
        raise DataError(f"{folder} has no file for any table ({names})", hint="name them as the tables: orders.parquet")
    return found


def _table(schema: Schema, name: str) -> Table:
    table = schema.table(name)
    if table is None:
        listed = ", ".join(t.name for t in schema) or "none"
        raise UnknownTableError(f"there is no table {name}", table=name, hint=f"the tables are: {listed}")
    return table


def _updates(table: Table, data: pa.Table, is_initial: bool, window: float) -> tuple[TableUpdates, bool, bool]:
    """A table's updates, whether their places are known, and whether a window was put over them."""
    at = _places(table, data) if _says(table, data, AT) else None
    data = data.drop_columns([AT]) if at is not None else data
    if _says(table, data, WEIGHT):
        weights = _weights(table, data)
        rows = read_rows(table, data.drop_columns([WEIGHT]), what="change")
    elif _says(table, data, CHANGE_TYPE):
        rows, weights = read_changes(table, data)
    else:
        rows = read_rows(table, data)
        weights = ones(len(rows))
        if at is None and not is_initial:
            order, weights = _sliding(len(rows), max(1, int(len(rows) * window)))
            return TableUpdates(table, rows.take(order), weights, counted(0, len(weights)), order), False, True
    if is_initial:
        at = repeated(BEFORE, len(rows))
    return TableUpdates(table, rows, weights, counted(0, len(rows)) if at is None else at), at is not None, False


def _says(table: Table, data: pa.Table, name: str) -> bool:
    """True if the data has a column that says what happened, and it is not one of the table's own."""
    return name in data.column_names and table.position(name) is None


def _places(table: Table, data: pa.Table) -> pa.Array:
    at = _integers(table, data, AT)
    row = first_true(pc.less(at, BEFORE))
    if row >= 0:
        raise _refused(table, row, AT, f"{at[row]} is no place", "number the updates from 0; -1: there before the log")
    row = first_true(pc.greater(at[:-1], at[1:]))
    if row >= 0:
        raise _refused(table, row + 1, AT, f"{at[row + 1]} comes after {at[row]}: it goes down", "sort the rows by it")
    return at


def _weights(table: Table, data: pa.Table) -> pa.Array:
    weights = _integers(table, data, WEIGHT)
    row = first_true(pc.equal(weights, ZERO))
    if row >= 0:
        raise _refused(table, row, WEIGHT, "0 copies are no change", "leave the row out")
    return weights


def _integers(table: Table, data: pa.Table, name: str) -> pa.Array:
    """A column of integers without NULL."""
    column = data.column(name)
    if not len(column):
        return pa.array([], pa.int64())
    if not pa.types.is_integer(column.type):
        raise _refused(table, None, name, f"it holds {column.type}", "give integers")
    row = first_true(column.is_null())
    if row >= 0:
        raise _refused(table, row, name, "the value is NULL or missing", "give integers, no NULL")
    row = first_true(pc.greater(column, MOST)) if column.type == pa.uint64() else -1
    if row >= 0:
        raise _refused(table, row, name, f"{column[row]} is too large", f"give numbers up to {MOST}")
    return pa.concat_arrays(column.cast(pa.int64()).chunks)


def _refused(table: Table, row: int | None, column: str, message: str, hint: str) -> DataError:
    return Where(table.name, "data of", column).refuse(RowShapeError, row, message, hint)


def _sliding(rows: int, window: int) -> tuple[pa.Array, pa.Array]:
    """Which row each update is about, and whether it comes or goes: the oldest goes just before a new one comes."""
    order, weights = list(range(min(window, rows))), [1] * min(window, rows)
    for i in range(window, rows):
        order += (i - window, i)
        weights += (-1, 1)
    return pa.array(order, pa.int64()), pa.array(weights, pa.int64())


def _closed_up(tables: Mapping[str, TableUpdates]) -> dict[str, TableUpdates]:
    """Give updates the places 0, 1, …, where there are gaps (the log may have had other tables, too) or ties."""
    if not tables:
        return {}
    places = pa.concat_arrays([t.at for t in tables.values()])
    before = int(pc.sum(pc.less(places, ZERO)).as_py() or 0)
    ranks = pc.subtract(pc.sort_indices(pc.sort_indices(places)).cast(pa.int64()), before)  # both are stable
    return _placed(tables, pc.max_element_wise(ranks, pa.scalar(BEFORE, pa.int64())))


def _interleaved(tables: Mapping[str, TableUpdates]) -> dict[str, TableUpdates]:
    """Give updates places that spread those of each table evenly over all."""
    shares = [
        pc.divide(pc.add(counted(0, len(t)).cast(pa.float64()), 0.5), float(max(1, len(t)))) for t in tables.values()
    ]
    if len(shares) < 2:
        return dict(tables)
    order = pc.sort_indices(pa.concat_arrays(shares))  # stable
    return _placed(tables, pc.sort_indices(order).cast(pa.int64()))


def _placed(tables: Mapping[str, TableUpdates], places: pa.Array) -> dict[str, TableUpdates]:
    """The tables with other places, which are listed one table after the other."""
    ends = [0, *accumulate(map(len, tables.values()))]
    return {
        name: replace(t, at=places.slice(first, end - first))
        for (name, t), (first, end) in zip(tables.items(), pairwise(ends), strict=True)
    }
