"""A batch's changes of tables, added up before the views see them, where a join could change twice otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.values.rows import ZERO, Changes, WordRows, counted, repeated


def net_changes(batch: Sequence[Changes]) -> list[Changes]:
    """What a batch changes in all: each row once, the rows that go, of all tables, before those that come.

    In this order a combination of rows goes with the first of its rows that goes, and comes with the last that comes:
    where every row appears or vanishes, a join changes each of its rows at most once, and nothing is left to add up
    behind it, where there may be many times as much.
    """
    tables = list(dict.fromkeys(changes.relation for changes in batch))
    given = [[c for c in batch if c.relation == name] for name in tables]
    netted = [(_netted(parts), parts) for parts in given]
    signs = [(changes, parts, pc.greater(changes.rows.weight, ZERO)) for changes, parts in netted]
    parts = [_chosen(c, p, pc.invert(comes)) for c, p, comes in signs] + [_chosen(c, p, comes) for c, p, comes in signs]
    return [part for part in parts if len(part)]


def is_net(flips: list[int], disjoint: bool) -> bool:
    """True if no combination of rows can have come or gone twice in a batch, given what its operations did.

    So it is if every update made a row appear or vanish, those that vanished first, and none of them appeared again:
    a combination goes with the first of its rows that goes, and comes with the last that comes.
    """
    return 0 not in flips and flips == sorted(flips) and (disjoint or len(set(flips)) < 2)


def _netted(batch: Sequence[Changes]) -> Changes:
    """One table's changes, equal rows as one; each is numbered by where its first change was among all of them."""
    width = len(batch[0].types)
    firsts = accumulate((len(c) for c in batch), initial=0)
    numbered = (
        WordRows(c.rows.columns, c.rows.weight, counted(at, len(c))) for c, at in zip(batch, firsts, strict=False)
    )
    rows = WordRows.concat(numbered, width)
    names = [str(i) for i in range(width)]
    table = pa.table([*rows.columns, rows.weight, rows.update], names=[*names, "weight", "place"])
    grouped = table.group_by(names, use_threads=False).aggregate([("weight", "sum"), ("place", "min")])
    grouped = grouped.filter(pc.not_equal(grouped.column("weight_sum"), ZERO))
    *columns, weight, places = (_whole(grouped.column(n)) for n in (*names, "weight_sum", "place_min"))
    no_nulls = frozenset.intersection(*(c.no_nulls for c in batch))
    rows = WordRows(tuple(columns), weight, places)
    return replace(batch[0], rows=rows, no_nulls=no_nulls, flips=None, _values={})


def _chosen(changes: Changes, given: Sequence[Changes], mask: pa.Array) -> Changes:
    rows = changes.rows.filter(mask)
    numbered = WordRows(rows.columns, rows.weight, counted(0, len(rows)))
    places = pa.concat_arrays([counted(0, len(c)) for c in given]).take(rows.update)
    operations = pa.concat_arrays([repeated(c.operation, len(c)) for c in given]).take(rows.update)
    return replace(changes, rows=numbered, start=0, places=places, operations=operations, _values={})


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.int64())
