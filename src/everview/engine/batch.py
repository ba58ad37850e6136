"""A batch in the making: changes of several tables that are applied together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.base_table import BaseTable
from everview.engine.direct.batch import given_rows
from everview.engine.input.read import kept_rows, read_changes, read_rows
from everview.engine.values.nested import as_keys
from everview.engine.values.rows import ZERO, Changes, WordRows, counted, joined, negated, ones, repeated
from everview.engine.values.words import is_wide, to_words
from everview.errors import ClosedError, DataError, OverDeleteError, RefusedRow, RowShapeError, SchemaError
from everview.query.schema import Table

if TYPE_CHECKING:
    from everview.engine.database import Database


class Operation(Protocol):
    """One step of a batch. What it changes may depend on the steps before it, so it is asked when its turn comes."""

    @property
    def table(self) -> str:
        """The table that it changes."""

    @property
    def size(self) -> int:
        """About how many rows it is."""

    @property
    def adds(self) -> bool:
        """True if it may add rows."""

    def changes(self, base: BaseTable, position: int) -> list[Changes]:
        """What is to be done to the table as it is now; the first update is the batch's at ``position``."""


class WeightedRows(NamedTuple):
    """Rows of one table and the change of copies of each."""

    table: str
    data: pa.Table
    weight: pa.Array

    @property
    def size(self) -> int:
        """How many rows there are."""
        return len(self.weight)

    @property
    def adds(self) -> bool:
        """True if a row comes."""
        return bool(pc.any(pc.greater(self.weight, ZERO)).as_py())

    def changes(self, base: BaseTable, position: int) -> list[Changes]:
        """The rows themselves."""
        return [encoded(base, self.data, self.weight, position)]


@dataclass(frozen=True)
class Upsert:
    """Rows that come in the place of those with the same key."""

    table: str
    data: pa.Table
    adds = True

    @property
    def size(self) -> int:
        """How many rows come."""
        return int(self.data.num_rows)

    def known(self, base: BaseTable) -> tuple[WordRows, pa.Table]:
        """The rows that go, and those that come, if the table is as it will be then."""
        arrays = [joined(self.data.column(i)) for i in base.key]
        words = _stored(base, arrays)
        keys = [a if is_wide(base.types[i]) else w for i, a, w in zip(base.key, arrays, words, strict=True)]
        data = self.data
        if data.num_rows > 1 and len(last := _last_of_each(keys)) < data.num_rows:
            data, words = data.take(last), [w.take(last) for w in words]
        return base.with_keys(words)[0], data

    def changes(self, base: BaseTable, position: int) -> list[Changes]:
        """The rows that have the keys now go, the new ones come; of two with one key the last one stays."""
        words = [to_words(joined(self.data.column(i)), base.types[i], base.dictionary) for i in base.key]
        last = _last_of_each(words)
        data = self.data
        if len(last) < data.num_rows:
            data, words = data.take(last), [w.take(last) for w in words]
        gone = _going(base, base.with_keys(words)[0], position)
        return [gone, encoded(base, data, ones(data.num_rows), position + len(gone))]


@dataclass(frozen=True)
class KeyDeletion:
    """Rows that go, named by their keys."""

    table: str
    keys: pa.Table
    adds = False

    @property
    def size(self) -> int:
        """How many rows go."""
        return int(self.keys.num_rows)

    def changes(self, base: BaseTable, position: int) -> list[Changes]:
        """The rows with these keys; a key that no row has is refused."""
        going, missing = self.found(base, position)
        if missing:
            error = OverDeleteError(
                f"key {missing[0].row} of those to delete from {self.table}, {self._key(missing[0].row or 0)}, is that "
                "of no row; nothing has changed",
                table=self.table,
                row=missing[0].row,
                column=missing[0].column,
                hint=missing[0].hint,
            )
            error.refused = tuple(missing)
            raise error
        return [going]

    def known(self, base: BaseTable) -> tuple[WordRows | None, None]:
        """The rows that go, if the table is as it will be then; None if there are not as many as keys."""
        found, _ = base.with_keys(_stored(base, [joined(column) for column in self.keys.columns]))
        return (found if len(found) == self.size else None), None

    def found(self, base: BaseTable, position: int) -> tuple[Changes, list[RefusedRow]]:
        """The rows that have the keys, and the keys that no row has."""
        arrays = [joined(column) for column in self.keys.columns]
        found, places = base.with_keys(_stored(base, arrays))
        is_whole = base.forgets or len(found) == self.size
        here = range(self.size) if is_whole else set(places.to_pylist())
        columns = ", ".join(self.keys.column_names)
        hint = "delete only keys of rows that are there: table.get(key) is None where there is none"
        missing = [
            RefusedRow(
                self.table,
                at,
                f"has the key {self._key(at)}, which is that of no row",
                OverDeleteError,
                columns,
                tuple(a[at].as_py() for a in arrays),
                hint=hint,
            )
            for at in range(self.size)
            if at not in here
        ]
        return _going(base, found, position), missing

    def _key(self, at: int) -> str:
        return "(" + ", ".join(repr(column[at].as_py()) for column in self.keys.columns) + ")"


def _stored(base: BaseTable, keys: Sequence[pa.Array]) -> list[pa.Array]:
    """Columns of the key as words; values that nobody has stored are alike."""
    stored, types = base.dictionary, [base.types[i] for i in base.key]
    return [stored.lookup(a) if is_wide(t) else to_words(a, t, stored) for a, t in zip(keys, types, strict=True)]


def encoded(base: BaseTable, data: pa.Table, weight: pa.Array, position: int) -> Changes:
    """A table's rows, given as values, as changes in words; the first is the batch's update at ``position``."""
    arrays = [joined(column) for column in data.columns]
    words = tuple(to_words(a, t, base.dictionary) for a, t in zip(arrays, base.types, strict=True))
    rows = WordRows(words, weight, counted(position, len(weight)))
    no_nulls = frozenset(i for i, a in enumerate(arrays) if not a.null_count)
    return Changes(base.schema.name, base.types, rows, base.dictionary, start=position, no_nulls=no_nulls)


def _going(base: BaseTable, rows: WordRows, position: int) -> Changes:
    gone = WordRows(rows.columns, negated(rows.weight), counted(position, len(rows)))
    return Changes(base.schema.name, base.types, gone, base.dictionary, start=position)


def _last_of_each(keys: Sequence[pa.Array]) -> pa.Array:
    """Where each key comes for the last time, in order."""
    names = [str(i) for i in range(len(keys))]
    numbered = pa.table([*as_keys(keys), counted(0, len(keys[0]))], names=[*names, "place"])
    places = numbered.group_by(names, use_threads=False).aggregate([("place", "max")]).column("place_max")
    return joined(places.take(pc.sort_indices(places)))


# --- what users hand over --------------------------------------------------------------------------------------------


def _twice(base: BaseTable, rows: Any, what: str) -> Any:
    """Rows that can be looked at twice, as most can."""
    return rows if type(rows) is list or type(rows) is pa.Table else kept_rows(base.schema, rows, what=what)


def inserted(base: BaseTable, rows: Any) -> Operation:
    """Rows to insert."""
    rows = _twice(base, rows, "insert")
    given = given_rows(base, rows, 1)
    if given is not None:
        return given
    data = read_rows(base.schema, rows, what="insert")
    return WeightedRows(base.schema.name, data, ones(data.num_rows))


def deleted(base: BaseTable, rows: Any, keys: Any) -> Operation:
    """Rows to delete, or the keys of such."""
    if (rows is None) == (keys is None):
        said = "rows and keys" if rows is not None else "neither rows nor keys"
        raise RowShapeError(
            f"delete from {base.schema.name} was given {said}",
            table=base.schema.name,
            hint="pass either the rows to delete, or keys=[…] of a table with a primary key",
        )
    if keys is not None:
        return KeyDeletion(base.schema.name, _read_keys(base, keys))
    rows = _twice(base, rows, "delete")
    given = given_rows(base, rows, -1)
    if given is not None:
        return given
    data = read_rows(base.schema, rows, what="delete")
    return WeightedRows(base.schema.name, data, repeated(-1, data.num_rows))


def applied(base: BaseTable, changes: Any) -> Operation:
    """Rows with a change type."""
    changes = _twice(base, changes, "change")
    given = given_rows(base, changes, 0)
    return WeightedRows(base.schema.name, *read_changes(base.schema, changes)) if given is None else given


def upserted(base: BaseTable, rows: Any) -> Operation:
    """Rows to replace others by key."""
    _check_keyed(base, "upsert replaces rows by primary key")
    return Upsert(base.schema.name, read_rows(base.schema, rows, what="upsert"))


def _read_keys(base: BaseTable, keys: Any) -> pa.Table:
    """Keys as a table of the key's columns: values, or for a key of several columns tuples, dicts or Arrow."""
    _check_keyed(base, "pass the whole rows to delete")
    schema = Table(base.schema.name, tuple(base.schema.columns[i] for i in base.key), base.schema.primary_key)
    is_table = isinstance(keys, Mapping) or hasattr(keys, "columns") or hasattr(keys, "schema")
    if not is_table and (not isinstance(keys, Iterable) or isinstance(keys, str | bytes)):
        raise RowShapeError(
            f"delete from {base.schema.name} takes a list of keys, and {keys!r:.60} is none",
            table=base.schema.name,
            hint="write keys=[…], also for a single one",
        )
    if isinstance(keys, pa.Array | pa.ChunkedArray):
        keys = keys.to_pylist()
    if len(base.key) == 1 and not is_table:
        keys = [key if isinstance(key, tuple | list | Mapping) else (key,) for key in keys]
    return read_rows(schema, keys, what="delete")


def _check_keyed(base: BaseTable, hint: str) -> None:
    if not base.key:
        raise SchemaError(f"{base.schema.name} has no primary key", hint=hint)


class Batch:
    """Changes that are collected to be applied together, in their order, when the block ends."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.operations: list[Operation] = []
        self.bases: list[BaseTable] = []
        self._is_open = False
        self._has_ended = False

    def __enter__(self) -> Batch:
        if self._has_ended or self._is_open:
            raise ClosedError("the batch is used already", hint="begin a new one with db.batch()")
        self._is_open = True
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        self._is_open, self._has_ended = False, True
        if error is None:
            self._database._commit(self.operations, self.bases)

    def insert(self, table: str, rows: Any) -> None:
        """Insert rows when the batch is applied."""
        self._add(table, inserted, rows)

    def delete(self, table: str, rows: Any = None, *, keys: Any = None) -> None:
        """Delete rows, or those with some keys at that moment, when the batch is applied."""
        self._add(table, deleted, rows, keys)

    def apply(self, table: str, changes: Any) -> None:
        """Apply rows with a ``_change_type`` when the batch is applied."""
        self._add(table, applied, changes)

    def upsert(self, table: str, rows: Any) -> None:
        """Insert rows when the batch is applied, replacing those that have the same key at that moment."""
        self._add(table, upserted, rows)

    def _add(self, table: str, read: Callable[..., Operation], *given: Any) -> None:
        base = self._database._table(table)
        try:
            operation = read(base, *given)
        except DataError as error:
            error.refused = tuple(replace(row, operation=len(self.operations)) for row in error.refused)
            raise
        if not self._is_open:
            said = "has ended" if self._has_ended else "has not begun"
            raise ClosedError(f"the batch {said}", hint="change tables inside of a block: with db.batch() as batch: …")
        self.operations.append(operation)
        self.bases.append(base)
