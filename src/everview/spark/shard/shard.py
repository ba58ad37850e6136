"""A shard at work: a database with the rows that came to it, its views, and what changed in them batch by batch.

Knows nothing of Spark. A shard is made of its base rows alone, so it can be rebuilt from them at any time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from math import nan
from time import perf_counter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.database import Database
from everview.engine.shard_interface import (
    RefusedRowsError,
    Weighted,
    apply_weighted,
    contents,
    define,
    rows_of,
    scan,
    set_clock,
    tell,
)
from everview.engine.values.nested import as_keys, from_key
from everview.engine.values.rows import joined, ones
from everview.errors import (
    BadRowError,
    DataError,
    ExpressionError,
    KeyViolationError,
    MemoryLimitError,
    OverDeleteError,
    ReferenceViolationError,
    RefusedRow,
)
from everview.plan.shard_tables import masked
from everview.plan.shards import MASK, ShardLevel
from everview.query.data import Data, checked, table_from_data, table_to_data, view_from_data, view_to_data
from everview.query.schema import Table
from everview.query.view import View
from everview.spark.exchange.arrow_blob import WEIGHT, pieces, write_blob
from everview.spark.shard.messages import bad_row
from everview.spark.shard.output.change_buffer import ChangeBuffer

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LEAVE_OUT: Final = "correct the data, or leave such rows out with WHERE or CASE"
SPEC_FORMAT: Final = 1
"""Of a shard's description as plain data."""


@dataclass(frozen=True)
class ShardSpec:
    """What the shards of one query keep: the same for all of them, and all they need to know."""

    tables: tuple[Table, ...]
    views: tuple[View, ...]
    alone: frozenset[str] = frozenset()
    """Views that are not spread: only the first shard has them."""
    quarantine: bool = False
    memory_limit: int | None = None
    homes: tuple[tuple[str, frozenset[int]], ...] = ()
    """For each table the shards that between them have each row once as its first occurrence."""
    here: frozenset[str] | None = None
    """The tables of which this shard is such a one; None: of all."""

    def at(self, shard: int) -> ShardSpec:
        """What one of the shards is to know."""
        views = tuple(v for v in self.views if shard == 0 or v.name not in self.alone)
        here = frozenset(t for t, shards in self.homes if shard in shards)
        return replace(self, views=views, homes=(), here=here)

    @staticmethod
    def of(
        level: ShardLevel, *, quarantine: bool = False, memory_limit: int | None = None, but: Collection[str] = ()
    ) -> ShardSpec:
        """What the shards of a level keep; of ``but`` some tables another level says which rows are put aside."""
        tables, views = masked(level, references=not quarantine)
        alone = frozenset(g.view for g in level.grids if g.is_on_one)
        homes = tuple((t.name, level.homes(t.name)) for t in tables if t.name not in but)
        return ShardSpec(tables, views, alone, quarantine, memory_limit, homes)

    def to_data(self) -> Data:
        """As plain data, which JSON can hold."""
        return {
            "format": SPEC_FORMAT,
            "tables": [table_to_data(t) for t in self.tables],
            "views": [view_to_data(v) for v in self.views],
            "alone": sorted(self.alone),
            "quarantine": self.quarantine,
            "memory_limit": self.memory_limit,
            "homes": [{"table": name, "shards": sorted(shards)} for name, shards in self.homes],
            "here": None if self.here is None else sorted(self.here),
        }

    @staticmethod
    def from_data(data: Data) -> ShardSpec:
        """What plain data says; refused if it is of another format, or damaged."""
        return checked("shard's description", data, SPEC_FORMAT, _read_spec)


def _read_spec(data: Data) -> ShardSpec:
    limit, here = data["memory_limit"], data["here"]
    return ShardSpec(
        tuple(map(table_from_data, data["tables"])),
        tuple(map(view_from_data, data["views"])),
        frozenset(map(str, data["alone"])),
        bool(data["quarantine"]),
        None if limit is None else int(limit),
        tuple((str(h["table"]), frozenset(map(int, h["shards"]))) for h in data["homes"]),
        None if here is None else frozenset(map(str, here)),
    )


@dataclass
class Outcome:
    """What a batch has changed, and what was wrong with it."""

    changes: Mapping[str, ChangeBuffer]
    bad: list[str] = field(default_factory=list)
    """Rows that were left out, as JSON."""
    accepted: list[tuple[str, pa.Table]] = field(default_factory=list)
    """The others, if any was."""
    refused: int = 0


class Shard:
    """The state of one shard, in this process."""

    def __init__(self, spec: ShardSpec, clock: int | None = None) -> None:
        self.spec = spec
        # Its clock is Spark's, which says the same when a batch comes again, and never this machine's.
        self.db = Database(memory_limit=spec.memory_limit, clock=lambda: _EPOCH)
        define(self.db, spec.tables, spec.views, implied=frozenset({MASK}))
        set_clock(self.db, clock)
        self.tables = {t.name: t for t in spec.tables}
        self.batch: int | None = None
        """Spark's number of the batch that is being applied, for messages."""
        self._listens = False
        self._told: Mapping[str, ChangeBuffer] = {}
        """Where the running batch's changes go."""
        self.updates = self.deltas = 0
        self.seconds = 0.0

    # --- rows in ---------------------------------------------------------------------------------------------------

    def load(self, rows: Mapping[str, list[pa.Table]]) -> list[str]:
        """Take a batch in without telling what it changes; gives the rows that were put aside."""
        outcome = Outcome({})
        self._take(rows, outcome)
        return outcome.bad

    def apply(
        self,
        rows: Mapping[str, list[pa.Table]],
        buffers: Mapping[str, ChangeBuffer] | None = None,
        clock: int | None = None,
    ) -> Outcome:
        """Take a batch in, all tables together; what it changes net goes into buffers, of which some may be given.

        What goes by the clock goes on to a time before, in microseconds since 1970.
        """
        begun = perf_counter()
        for view in self.spec.views if not self._listens else ():
            tell(self.db, view.name, partial(self._deliver, view.name))
        self._listens = True
        outcome = Outcome({v.name: ChangeBuffer() for v in self.spec.views} | dict(buffers or {}))
        self._told = outcome.changes
        try:
            self.updates += self._take(rows, outcome, clock)
        finally:
            self._told = {}
        self.deltas += sum(buffer.rows for buffer in outcome.changes.values())
        self.seconds += perf_counter() - begun
        return outcome

    def _deliver(self, view: str, batch: pa.RecordBatch) -> None:
        self._told[view].add(batch)

    def _take(self, rows: Mapping[str, list[pa.Table]], outcome: Outcome, clock: int | None = None) -> int:
        """Apply a batch, without the rows that are to be put aside; gives the number of rows applied."""
        operations = self._operations(rows)
        if self.spec.quarantine:
            operations = self._one_row_a_key(operations, outcome)
        while operations or clock is not None:
            for buffer in outcome.changes.values():
                buffer.clear()
            try:
                apply_weighted(self.db, operations, clock)
                break
            except RefusedRowsError as refused:
                operations = self._without(operations, refused.error, outcome)
            except MemoryLimitError:
                raise
            except ReferenceViolationError as error:
                raise self._points_nowhere(error) from error
            except DataError as error:
                raise self._not_at_its_end(error, operations) from error
        if outcome.refused:
            outcome.accepted = [(n, d.append_column(WEIGHT, w)) for n, d, w in operations]
        return sum(len(w) for _, _, w in operations)

    def _operations(self, rows: Mapping[str, list[pa.Table]]) -> list[Weighted]:
        """The net changes, as the order within a batch of a stream means nothing; what goes before what comes.

        In this order no result comes that would go again, and most views' changes are net as they are.
        """
        coming: list[Weighted] = []
        going: list[Weighted] = []
        for name in self.tables:
            found = [t for t in rows.get(name, ()) if t.num_rows]
            if not found:
                continue
            data = pa.concat_tables(found)
            if self.spec.quarantine or _may_meet(data):
                data = _netted(data)
            weight = data.column(WEIGHT)
            data = data.drop_columns([WEIGHT])
            positive = pc.greater(weight, 0)
            for wanted, mask in ((going, pc.invert(positive)), (coming, positive)):
                part = data if pc.all(mask).as_py() else data.filter(mask)
                if part.num_rows:
                    wanted.append(
                        (name, part, joined(weight if part is data else weight.filter(mask)).cast(pa.int64()))
                    )
        return [*going, *coming]

    def _without(self, operations: list[Weighted], error: DataError, outcome: Outcome) -> list[Weighted]:
        """The batch without the rows that were refused, if such rows are to be put aside; else the error in full."""
        if not self.spec.quarantine:
            raise self._not_taken_in(operations, error) from error
        found: list[Weighted] = []
        for number, (name, data, weight) in enumerate(operations):
            whys = {row.row or 0: _why(row) for row in error.refused if row.operation == number}
            if whys:
                aside = pa.array(np.isin(np.arange(data.num_rows), list(whys)))
                in_order = [why for _, why in sorted(whys.items())]
                self._put_aside(name, data.filter(aside), weight.filter(aside), in_order, outcome)
                data, weight = data.filter(pc.invert(aside)), weight.filter(pc.invert(aside))
            if data.num_rows:
                found.append((name, data, weight))
        return found

    def _not_taken_in(self, operations: list[Weighted], error: DataError) -> BadRowError:
        """What to say of a batch that has rows which cannot be taken in: one of them in full."""
        refused = error.refused[0]
        name, data, _ = operations[refused.operation]
        row = data.slice(refused.row or 0, 1).to_pylist()[0]
        row.pop(MASK, None)
        more = len(error.refused) - 1
        others = f"; and {more:,} more row{'s' if more > 1 else ''} of the batch" if more else ""
        return BadRowError(
            f"a row of {name} cannot be taken in{self._where}: {_why(refused)}; the row: {row}{others}; nothing has "
            "changed",
            table=name,
            row=refused.row,
            column=refused.column,
            hint=error.hint or "correct the stream, or use bad_rows='quarantine'",
        )

    def _not_at_its_end(self, error: DataError, operations: list[Weighted]) -> DataError:
        """What to say of a batch at whose end a view has no value: no row alone is to blame, so none is put aside.

        The row that made it so is shown in the place of its number, where it is clear which one that is.
        """
        text = error.message.removesuffix("; nothing has changed")
        mine = [data for name, data, _ in operations if name == error.table]
        if error.row is not None:
            place = f" (row {error.row} of the changes to {error.table})"
            row = mine[0].slice(error.row, 1).to_pylist()[0] if len(mine) == 1 else {}
            row.pop(MASK, None)
            text = text.replace(place, f" (a row of {error.table}: {row})" if row else "")
        hint = _LEAVE_OUT if isinstance(error, ExpressionError) or error.hint is None else error.hint
        return error.reworded(
            f"{text}{self._where}; nothing has changed", f"{hint}; or go on without the batch (skip_batch)"
        )

    def _points_nowhere(self, error: ReferenceViolationError) -> DataError:
        """What to say of a batch at whose end a row points at none; its place in it is nothing that anybody knows."""
        text = error.message.removesuffix("; nothing has changed").replace(f"row {error.row} of the", "a row of the", 1)
        return ReferenceViolationError(
            f"{text}{self._where}; nothing has changed",
            table=error.table,
            column=error.column,
            hint="bring both rows in one batch, go on without this one (skip_batch), or declare the foreign key "
            "NOT ENFORCED, if the streams of the two tables overtake each other",
        )

    def _one_row_a_key(self, operations: list[Weighted], outcome: Outcome) -> list[Weighted]:
        """The batch with one new row a key: the least by value stays, whatever the order in which rows have come."""
        found: list[Weighted] = []
        for name, data, weight in operations:
            table = self.tables[name]
            if not table.checked_key or weight[0].as_py() < 0:
                found.append((name, data, weight))
                continue
            first = _first_of_each_key(data, table)
            kept = (name, data.filter(first), ones(pc.sum(first).as_py()))
            others = pc.subtract(weight, pc.cast(first, pa.int64()))
            many = pc.greater(others, 0)
            if pc.any(many).as_py():
                whys = [same_batch(table)] * pc.sum(many).as_py()
                self._put_aside(name, data.filter(many), others.filter(many), whys, outcome)
            found.append(kept)
        return found

    def _put_aside(self, name: str, rows: pa.Table, weight: pa.Array, whys: Sequence[str], outcome: Outcome) -> None:
        """Leave rows out, and say so once: other shards that have them leave them out as well."""
        here = self.spec.here is None or name in self.spec.here
        for row, copies, why in zip(rows.to_pylist(), weight.to_pylist(), whys, strict=True):
            if row.pop(MASK, 1) & 1 and here:
                outcome.bad.append(bad_row(name, row, f"{why}{self._where}", int(copies)))
        outcome.refused += rows.num_rows

    @property
    def _where(self) -> str:
        return "" if self.batch is None else f" (batch {self.batch})"

    # --- rows out --------------------------------------------------------------------------------------------------

    def contents(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """All views' rows, as the changes that make them out of nothing."""
        for view in self.spec.views:
            for batch in contents(self.db, view.name):
                yield view.name, batch

    def dump(self) -> Iterator[tuple[str, bytes, int]]:
        """All base rows, as blobs to be stored."""
        for name in self.tables:
            for data, weight in scan(self.db, name):
                batch = data.append_column(WEIGHT, weight)
                for piece in pieces(batch):
                    yield name, write_blob(piece, stored=True), piece.num_rows

    def stats(self) -> dict[str, Any]:
        """Rows and bytes that the shard holds, and what it has done since it was made."""
        found = {v.name: self.db.view(v.name).stats() for v in self.spec.views}
        return {
            "bytes": self.db.nbytes(),
            "rows": {name: rows_of(self.db, name) for name in self.tables},
            "updates": self.updates,
            "deltas": self.deltas,
            "seconds": round(self.seconds, 6),
            "views": {n: {k: s[k] for k in ("bytes", "updates", "deltas", "failing")} for n, s in found.items()},
        }


def same_batch(table: Table) -> str:
    """Why a row is put aside that comes with another one of its key."""
    key = ", ".join(table.primary_key)
    return f"it comes with another row of its key ({key}), and the least by value stays"


def _first_of_each_key(data: pa.Table, table: Table) -> pa.Array:
    """True for the least row by value of each key, NULL being less than any value."""
    key = [table.columns[i].name for i in table.positions(table.primary_key)]
    sorted_by: dict[str, Any] = {}
    for column in as_keys(data.column(c.name) for c in table.columns if c.name != MASK):
        sorted_by[f"valid{len(sorted_by)}"] = pc.cast(pc.is_valid(column), pa.int8())
        sorted_by[f"value{len(sorted_by)}"] = column
    order = pc.sort_indices(pa.table(sorted_by), [(name, "ascending") for name in sorted_by])
    place = np.empty(data.num_rows, np.int64)
    place[order.to_numpy()] = np.arange(data.num_rows)
    least = (
        pa.table(as_keys(data.select(key).columns), names=key)
        .append_column(_PLACE, pa.array(place))
        .group_by(key, use_threads=False)
    )
    first = least.aggregate([(_PLACE, "min")]).column(f"{_PLACE}_min")
    return pa.array(np.isin(place, first.to_numpy()))


_PLACE = "_everview_place"


def _why(row: RefusedRow) -> str:
    """Why a row was refused; its place among what the shard was given, net, is nothing that anybody else knows."""
    if issubclass(row.error, OverDeleteError | KeyViolationError):
        return f"it {row.reason}"
    return row.reason if row.column is None else f"column {row.column}: {row.reason}"


def _may_meet(data: pa.Table) -> bool:
    """False only if no row that comes is one that goes.

    Rows of numbers and dates are told apart by a hash, which takes six tenths of the time of adding them up. Of others,
    it would cost as much.
    """
    comes = data.column(WEIGHT).to_numpy() > 0
    if comes.all() or not comes.any():
        return False
    mixed = np.zeros(data.num_rows, np.uint64)
    for column in data.drop_columns([WEIGHT]).columns:
        words = _words(column)
        if words is None:
            return True
        mixed = (mixed ^ words) * _MIXER
        mixed ^= mixed >> np.uint64(32)
    return bool(pc.any(pc.is_in(pa.array(mixed[comes]), value_set=pa.array(mixed[~comes]))).as_py())


_MIXER = np.uint64(0x9E3779B97F4A7C15)


def _words(column: pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[np.uint64]] | None:
    """Equal words for equal values, if that costs next to nothing."""
    kind = column.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        column = column.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())
    elif not pa.types.is_integer(kind):
        return None
    values = pc.fill_null(column, 0) if column.null_count else column
    words: np.ndarray[tuple[int], np.dtype[np.uint64]] = values.to_numpy().astype(np.uint64)
    return words


def _netted(data: pa.Table) -> pa.Table:
    """Equal rows as one, those that came and went again gone."""
    for i, column in enumerate(data.schema):
        if pa.types.is_floating(column.type):
            data = data.set_column(i, column, _one_zero_one_nan(data.column(i)))
    columns = [c for c in data.column_names if c != WEIGHT]
    keys = as_keys(data.select(columns).columns)
    whole = pa.table([*keys, data.column(WEIGHT)], names=[*columns, WEIGHT])
    summed = whole.group_by(columns, use_threads=False).aggregate([(WEIGHT, "sum")])
    summed = summed.rename_columns([*columns, WEIGHT])
    summed = summed.filter(pc.not_equal(summed.column(WEIGHT), 0)).select(data.column_names)
    return pa.table([from_key(c, f.type) for c, f in zip(summed.columns, data.schema, strict=True)], schema=data.schema)


def _one_zero_one_nan(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Doubles as SQL's GROUP BY sees them, for Arrow tells them apart by their bits."""
    return pc.if_else(pc.is_nan(values), pa.scalar(nan, values.type), pc.add(values, pa.scalar(0.0, values.type)))
