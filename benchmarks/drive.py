"""Runs a view over a graph's updates, at two levels: in the kernel alone, and in the database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time

import pyarrow as pa
import pyarrow.compute as pc

import everview as ev
from benchmarks.data.graphs import Updates
from benchmarks.native import Measured
from everview.engine.values.dictionary import Dictionary
from everview.engine.values.rows import Changes, WordRows

WORKLOADS = Path(__file__).parent / "workloads" / "crown"
SLICE = 65_536
"""Rows of deltas that are taken at a time; the hand-written programs' columns are as long."""
ROW_BYTES = 16
"""An edge as Arrow."""
BATCH = 4_000
"""Updates in a batch of the database."""


def view_sql(query: str, every: int = 10) -> str:
    """A query of the CROWN paper; ``every`` is what its filter divides by."""
    return (WORKLOADS / f"{query}.sql").read_text(encoding="utf-8").replace("% 10 ", f"% {every} ")


def database(query: str, every: int = 10) -> ev.Database:
    """A new database with the graph's table and the view ``v``."""
    db = ev.Database()
    db.sql("CREATE TABLE g (src BIGINT NOT NULL, dst BIGINT NOT NULL)")
    db.sql(f"CREATE MATERIALIZED VIEW v AS {view_sql(query, every)}")
    return db


class Sums:
    """Adds up rows of deltas as the hand-written programs do: each column, and the product of vertices and weight."""

    def __init__(self) -> None:
        self.rows = 0
        self.sums: list[int] = []

    def add(self, columns: Sequence[pa.Array]) -> None:
        """The vertices, the weight, the update's position."""
        self.rows += len(columns[0])
        product = columns[0]
        for column in columns[1:-1]:
            product = pc.multiply(product, column)
        found = [pc.sum(c).as_py() or 0 for c in (*columns, product)]
        self.sums = [_wrapped(a + b) for a, b in zip(self.sums or [0] * len(found), found, strict=True)]


class KernelRun:
    """A core's program on updates that have been encoded beforehand."""

    def __init__(self, query: str, updates: Updates, every: int = 10) -> None:
        self.db = database(query, every)
        (self.core,) = self.db._views["v"].cores
        self.part = self.core.part
        self.updates = updates
        entry = self.core._entries["g"]
        self.entry = entry.entry
        rows = WordRows((updates.source, updates.target), updates.weight, updates.weight)
        changes = Changes("g", self.core_types(), rows, Dictionary())
        self.columns = [c for o in entry.atom_inputs for c in o.columns(changes)[0]]
        self.columns.append(updates.weight)
        shown = self.core.maintained.outputs
        self.places = [shown.index(v) for v in _output_variables(self.db) if v in shown]

    def core_types(self) -> tuple[object, ...]:
        """The types of the graph's columns."""
        return self.db._tables["g"].types

    def start(self, with_deltas: bool) -> None:
        """Empty state, telling its deltas or not."""
        self.part.clear()
        if with_deltas:
            self.part.apply(self.core.maintained.start_deltas, [pa.array([0])])

    def deltas(self, take: Callable[[Sequence[pa.Array]], None] | None = None) -> tuple[Measured, int]:
        """Apply everything, each slice of deltas taken as Arrow; also gives the most bytes that the state has had."""
        self.start(True)
        at = rows = peak = 0
        begun = process_time()
        while at < len(self.updates):
            piece = [c.slice(at, SLICE) for c in self.columns]
            at += self.part.apply(self.entry.with_deltas, piece, first_update=at, most_pending=SLICE)
            taken = [pa.array(c) for c in self.part.take("delta")]
            rows += len(taken[0])
            if take is not None:
                width = len(self.core.maintained.outputs)
                take([*(taken[i] for i in self.places), *taken[width:]])
            peak = max(peak, self.part.whole.nbytes())
            del taken
        return Measured(len(self.updates), rows, process_time() - begun), peak

    def state(self) -> tuple[float, int]:
        """Apply everything without a feed: seconds, and kernel steps."""
        self.start(False)
        steps = self.part.whole.steps
        begun = process_time()
        self.part.apply(self.entry.state_only, self.columns)
        return process_time() - begun, self.part.whole.steps - steps


def _output_variables(db: ev.Database) -> list[object]:
    outputs = db._views["v"].view.body.outputs
    return [o.expression.term for o in outputs if o.expression.term is not None]


class DatabaseRun:
    """The database as users have it: batches in, every update's delta out of a feed."""

    def __init__(self, query: str, updates: Updates, every: int = 10, batch: int = BATCH) -> None:
        self.db = database(query, every)
        kinds = pc.if_else(pc.greater(updates.weight, 0), "insert", "delete")
        table = pa.table({"src": updates.source, "dst": updates.target, "_change_type": kinds})
        self.batches = [table.slice(at, batch) for at in range(0, len(table), batch)]
        self.batch = batch

    def deltas(self, take: Callable[[Sequence[pa.Array]], None] | None = None) -> tuple[Measured, int]:
        """Apply everything, reading the feed after each batch; also gives the most bytes that the state has had."""
        feed = self.db.view("v").changes(per_update=True)
        rows = peak = updates = 0
        begun = process_time()
        for i, batch in enumerate(self.batches):
            self.db.apply("g", batch)
            for found in feed.read():
                rows += found.num_rows
                if take is not None:
                    take(_unsigned(found, i * self.batch))
            updates += len(batch)
            peak = max(peak, self.db.nbytes())
        seconds = process_time() - begun
        feed.close()
        return Measured(updates, rows, seconds), peak

    def state(self) -> float:
        """Apply everything without a feed: seconds."""
        begun = process_time()
        for batch in self.batches:
            self.db.apply("g", batch)
        return process_time() - begun


def _unsigned(batch: pa.RecordBatch, first: int) -> list[pa.Array]:
    """A feed's batch as the columns of the hand-written program."""
    width = batch.schema.get_field_index("_change_type")
    signs = pc.if_else(pc.equal(batch.column("_change_type"), "insert"), 1, -1)
    weight = pc.multiply(batch.column("_count"), signs)
    return [*(batch.column(i) for i in range(width)), weight, pc.add(batch.column("_update"), first)]


def _wrapped(word: int) -> int:
    return (word + 2**63) % 2**64 - 2**63
