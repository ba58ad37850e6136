"""Spark's part played by a few lines of Python: rows are routed, packed, kept by shards and merged, all in one process.

What stays out is Spark itself: Catalyst's hashes (others take their place, the same in every process), its state store
and its tasks. So random cases by the hundred show that routes and merges are right, and a handful of real ones that
Spark does the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any
from zlib import crc32

import pyarrow as pa

from everview.engine.expressions.evaluate import Evaluator
from everview.engine.input.read import table_schema
from everview.plan.shards import ShardLevel
from everview.query.schema import Schema, Table
from everview.query.terms import Var
from everview.query.view import Block, Body, FormulaBody, SetOperation, SetOperator, View
from everview.spark.checkpoint.pins import plan_over
from everview.spark.exchange.arrow_blob import read_blob
from everview.spark.exchange.forward import Forwarder, Passing, having
from everview.spark.exchange.key_step import accepted, key_shard_level, tables_with_spread_keys
from everview.spark.exchange.pack import Packer, packed_rows
from everview.spark.exchange.routing import Slice
from everview.spark.exchange.shard_specs import merge_shards_of
from everview.spark.exchange.unpack import Unpacker
from everview.spark.shard.messages import FEED
from everview.spark.shard.operator import ONWARD, ROWS
from everview.spark.shard.output.address import sent
from everview.spark.shard.output.change_buffer import ChangeBuffer
from everview.spark.shard.shard import Shard, ShardSpec
from tests.engine.bags import Bag, plain

Row = tuple[Any, ...]
Weighted = list[tuple[Row, int]]
Parts = dict[int, dict[str, list[pa.Table]]]
"""For each shard the rows of each table that it gets."""


def _has_each_row_in_one_shard(body: Body) -> bool:
    """True of groups that show their keys, sets and formulas; equal rows of all else may be in several shards."""
    if isinstance(body, Block) and body.grouping is not None and not body.distinct:
        shown = {o.expression.term for o in body.outputs}
        return shown >= set(body.grouping.key_names)
    if isinstance(body, Block):
        return body.distinct
    if isinstance(body, SetOperation):
        return not (body.operator is SetOperator.UNION and body.all)
    return isinstance(body, FormulaBody)


class Cluster:
    """Views over shards."""

    def __init__(
        self,
        sql: str | Mapping[str, str],
        schema: Schema,
        shards: int | None,
        quarantine: bool = False,
        **options: Any,
    ) -> None:
        plan = plan_over(sql, schema, shards, **options)
        self.views, self.schema, self.distribution, self.identity = (
            plan.views,
            plan.schema,
            plan.distribution,
            plan.identity,
        )
        self.whole = schema
        self.clock: int | None = None
        self.quarantine = quarantine
        self.once = {v.name for v in self.views if _has_each_row_in_one_shard(v.body)}
        """The views of whose feed no batch may have a row twice: as come in one shard, and as gone in another."""
        self.levels = list(self.distribution.levels)
        first, ahead = self.distribution.first, self.distribution.ahead
        self.ways = {ROWS: first} if ahead is None else {ROWS: ahead, ONWARD: first}
        self.but = {t.name for t in first.tables} if ahead is not None else set()
        self.shards = [self._made(level) for level in self.levels]
        self.step = key_shard_level(
            tables_with_spread_keys(self.distribution) if quarantine else (), self.levels[0].shards
        )
        self.by_key = self._made(self.step)
        self.results: dict[str, Bag] = {v.name: Counter() for v in self.views}
        self.bad: list[str] = []
        self.started = False

    def _made(self, level: ShardLevel) -> list[Shard]:
        but = self.but if level is self.distribution.ahead else ()
        spec = ShardSpec.of(level, quarantine=self.quarantine, but=but)
        return [Shard(spec.at(shard), self.clock) for shard in range(level.shards)]

    def apply(self, changes: Mapping[str, Weighted], clock: int | None = None) -> None:
        """One micro-batch, at a time if anything goes by the clock; where it must be so, a row of its feed is there
        once."""
        self.clock = clock
        told: set[tuple[str, Row]] = set()
        inputs: Parts = {}
        keyed: Parts = {}
        passing: Parts = {}
        for table in self.distribution.tables:
            is_keyed = table in self.step.tables
            levels = {ROWS: self.step} if is_keyed else having(self.ways, table)
            for shard, kind, name, data in self._routed(table, changes.get(table.name, []), levels):
                _put(keyed if is_keyed else inputs if kind == ROWS else passing, shard, name, data)
        by_key = self._forwarded(self.by_key, keyed, accepted(self.step.tables), self.ways)
        for shard, kind, name, data in by_key:
            _put(inputs if kind == ROWS else passing, shard, name, data)
        for number, level in enumerate(self.levels):
            if level is self.distribution.ahead:
                views = {v.name: v for v in level.views}
                for shard, _, name, data in self._forwarded(
                    self.shards[number], inputs, views, {ROWS: self.distribution.first}, clock
                ):
                    _put(passing, shard, name, data)
                inputs = passing
                continue
            targets = merge_shards_of(self.levels[number + 1]) if number + 1 < len(self.levels) else None
            onward: Parts = {}
            for s, shard in enumerate(self.shards[number]):
                is_first = level is self.distribution.first
                outcome = shard.apply(inputs.get(s, {}), None, clock if is_first else None)
                self.bad += outcome.bad
                changed = outcome.changes
                if not self.started:
                    changed = {view.name: ChangeBuffer() for view in shard.spec.views}
                    for name, batch in shard.contents():
                        changed[name].add(batch)
                for (view, target), blobs in sent(changed, targets).items():
                    for blob, _ in blobs:
                        if target == FEED:
                            rows = self._fed(view, read_blob(blob))
                            again = [row for row in rows if (view, row) in told]
                            if self.started and view in self.once:
                                assert again == [], view
                            assert len(set(rows)) == len(rows) or not self.started, view
                            told |= {(view, row) for row in rows}
                        else:
                            onward.setdefault(target, {}).setdefault(view, []).append(read_blob(blob))
            assert level.shards == len(self.shards[number])
            inputs = onward
        self.started = True

    def rebuild(self) -> None:
        """Every shard anew from the rows that it would have stored."""
        self.take(self)

    def take(self, other: Cluster) -> None:
        """Go on with the rows that another one's shards have stored, and with what it has told.

        What was made of them ahead of the shards comes anew, if the views are others.
        """
        anew = self.distribution.made | other.distribution.made if self.identity.differences(other.identity) else ()
        for number, level in enumerate(self.levels):
            fresh = self._made(level)
            for old, new in zip(other.shards[number], fresh, strict=True):
                for name, blob, _ in old.dump():
                    if name not in anew:
                        new.load({name: [read_blob(blob)]})
            self.shards[number] = fresh
        self.results, self.started = other.results, other.started

    def _forwarded(
        self,
        shards: Sequence[Shard],
        inputs: Parts,
        views: Mapping[str, View],
        levels: Mapping[str, ShardLevel],
        clock: int | None = None,
    ) -> list[tuple[int, str, str, pa.Table]]:
        """What a step before the shards takes in, for those after it."""
        parts = []
        for s, shard in enumerate(shards):
            outcome = shard.apply(inputs.get(s, {}), None, clock)
            self.bad += outcome.bad
            changed = outcome.changes
            if not self.started:
                changed = {view.name: ChangeBuffer() for view in shard.spec.views}
                for name, batch in shard.contents():
                    changed[name].add(batch)
            for (view, _), blobs in sent(changed, None).items():
                parts += [packed_rows([(0, "changes", view, rows, blob, None)]) for blob, rows in blobs]
        if not parts:
            return []
        forwarder = Forwarder.of(views, levels, range(self.distribution.shards))
        found = []
        for batch in Passing(Unpacker(tuple(views.values()), False, True))(iter(parts)):
            for at, (packer, view) in enumerate(zip(forwarder.packers, forwarder.views, strict=True)):
                for i, given in enumerate(packer.given):
                    own = batch.column(view).flatten()
                    batch = batch.append_column(f"_everview_cell{at}_{i}", _cells(given, packer.table, own))
            found += _unpacked(forwarder(iter([batch])))
        return found

    def _routed(
        self, table: Table, rows: Weighted, levels: Mapping[str, ShardLevel]
    ) -> list[tuple[int, str, str, pa.Table]]:
        if not rows:
            return []
        full = self.whole.table(table.name)
        assert full is not None
        places = full.positions(c.name for c in table.columns)
        fields = list(table_schema(table))
        arrays = [pa.array([row[i] for row, _ in rows], f.type) for i, f in zip(places, fields, strict=True)]
        packer = Packer.of(table, levels, range(self.distribution.shards), quarantine=self.quarantine)
        cells = [_cells(s, table, arrays) for s in packer.given]
        weight = pa.array([w for _, w in rows], pa.int64())
        names = [*(f.name for f in fields), "weight", "reason", *(f"cell{i}" for i in range(len(cells)))]
        batch = pa.RecordBatch.from_arrays([*arrays, weight, pa.nulls(len(rows), pa.string()), *cells], names=names)
        return _unpacked(packer(iter([batch])))

    def _fed(self, view: str, data: pa.Table) -> list[Row]:
        """Add a part of a view's feed up; gives its rows."""
        result = self.results[view]
        width = data.schema.get_field_index("_change_type")
        columns = [data.column(i).to_pylist() for i in range(width)]
        rows = list(zip(*columns, strict=True)) if columns else [()] * data.num_rows
        kinds, counts = data.column("_change_type").to_pylist(), data.column("_count").to_pylist()
        keys = [tuple(map(plain, row)) for row in rows]
        for key, kind, count in zip(keys, kinds, counts, strict=True):
            result[key] += count if kind in ("insert", "update_postimage") else -count
            if not result[key]:
                del result[key]
        return keys


def _put(parts: Parts, shard: int, name: str, data: pa.Table) -> None:
    parts.setdefault(shard, {}).setdefault(name, []).append(data)


def _unpacked(packed: Iterable[pa.RecordBatch]) -> list[tuple[int, str, str, pa.Table]]:
    """The rows among what travels packed: for which shard, of which step, and of which table."""
    found = []
    for part in packed:
        columns = (part.column(c).to_pylist() for c in ("shard", "kind", "name", "blob"))
        rows = [row for row in zip(*columns, strict=True) if row[1] in (ROWS, ONWARD)]
        found += [(s, kind, name, read_blob(blob)) for s, kind, name, blob in rows]
    return found


def _cells(given: Slice, table: Table, arrays: Sequence[pa.Array]) -> pa.Array:
    """What Catalyst would hash, by another hash."""
    columns = {Var(c.name): a for c, a in zip(table.columns, arrays, strict=True)}
    values = [v.to_pylist() for v in Evaluator(list(given.hashed))(columns, len(arrays[0]))]
    slices = [hash(tuple(map(_number, row))) * 0x9E3779B1 // 65536 % given.share for row in zip(*values, strict=True)]
    return pa.array(slices, pa.int32())


def _number(value: Any) -> int:
    """The same for all that SQL calls equal, in every process, as Python's own hash of text is not."""
    found = plain(value)
    return hash(found) if isinstance(found, int | float | Decimal) else crc32(repr(found).encode())
