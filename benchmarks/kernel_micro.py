"""The kernel alone: paths of three edges over a random graph, inserted and then deleted first in, first out.

``python -m benchmarks.kernel_micro [edges] [vertices]`` prints the time an update and an emitted row take, the memory a
row of a table takes, and the time to list, save and restore the state.
"""

from __future__ import annotations

import sys
from array import array
from random import Random
from time import process_time

from everview.kernel import Unit
from everview.kernel.program import (
    Call,
    Cursor,
    Emit,
    Find,
    If,
    Insert,
    Instruction,
    KeyOf,
    Lit,
    Procedure,
    Product,
    Program,
    Reg,
    Remove,
    Scan,
    Step,
    Store,
    Table,
    Test,
    Update,
    ValueOf,
)

SOURCE, TARGET = 0, 1
BATCH = 512


def three_hops() -> Program:
    """Edges e1(a, b), e2(b, c), e3(c, d), each a copy of one graph; every change of a path is emitted."""
    source, target, weight = Reg("source"), Reg("target"), Reg("weight")
    tables = tuple(Table(f"e{i}", ("source", "target"), ("count",), ((SOURCE,), (TARGET,))) for i in (1, 2, 3))

    def row(i: int) -> Reg:
        return Reg(f"r{i}")

    def after(i: int, *body: Instruction) -> Scan:
        """The edges of copy i that begin where the edge of copy i - 1, or else the new one, ends."""
        start = KeyOf(row(i - 1), f"e{i - 1}", TARGET) if i - 1 != new else target
        return Scan(row(i), f"e{i}", SOURCE, (start,), 0, body)

    def before(i: int, *body: Instruction) -> Scan:
        end = KeyOf(row(i + 1), f"e{i + 1}", SOURCE) if i + 1 != new else source
        return Scan(row(i), f"e{i}", TARGET, (end,), 0, body)

    procedures = []
    for new in (1, 2, 3):
        ends = {new: (source, target)}
        counts = []
        for i in (1, 2, 3):
            if i != new:
                ends[i] = (KeyOf(row(i), f"e{i}", SOURCE), KeyOf(row(i), f"e{i}", TARGET))
                counts.append(ValueOf(row(i), f"e{i}", 0))
        emit = Emit("delta", (Update(), Product((weight, *counts)), ends[1][0], ends[2][0], ends[3][0], ends[3][1]))
        if new == 1:
            loops = after(2, after(3, emit))
        elif new == 2:
            loops = before(1, after(3, emit))
        else:
            loops = before(2, before(1, emit))
        own = f"e{new}"
        change = If(
            Test.LESS,
            Lit(0),
            weight,
            (Insert(Reg("own"), own, (source, target)), Store(Reg("own"), own, 0, weight)),
            (Find(Reg("own"), own, (source, target), (Remove(Reg("own"), own),)),),
        )
        procedures.append(Procedure(f"change{new}", (source, target, weight), (loops, change)))
    everywhere = Procedure(
        "change", (source, target, weight), tuple(Call(p.name, (source, target, weight)) for p in procedures)
    )
    paths = Cursor(
        "paths",
        (),
        (
            Step(row(2), "e2", 2, (), 0),
            Step(row(1), "e1", TARGET, (KeyOf(row(2), "e2", SOURCE),), 0),
            Step(row(3), "e3", SOURCE, (KeyOf(row(2), "e2", TARGET),), 0),
        ),
        (
            KeyOf(row(1), "e1", SOURCE),
            KeyOf(row(2), "e2", SOURCE),
            KeyOf(row(3), "e3", SOURCE),
            KeyOf(row(3), "e3", TARGET),
        ),
    )
    tables = (tables[0], Table("e2", ("source", "target"), ("count",), ((SOURCE,), (TARGET,), ())), tables[2])
    return Program(tables, (("delta", 6),), (*procedures, everywhere), (paths,))


def graph(edges: int, vertices: int) -> list[tuple[int, int]]:
    """Distinct edges between vertices of unequal weight."""
    random = Random(1)
    found: dict[tuple[int, int], None] = {}
    while len(found) < edges:
        found[int(vertices * random.random() ** 2), int(vertices * random.random() ** 2)] = None
    return list(found)


def run(machine: Unit, edges: list[tuple[int, int]], weight: int) -> tuple[float, int]:
    """Apply all edges in batches, draining each batch's changes; gives the seconds taken and the rows emitted."""
    seconds, rows = 0.0, 0
    for start in range(0, len(edges), BATCH):
        piece = edges[start : start + BATCH]
        columns = [array("q", [a for a, _ in piece]), array("q", [b for _, b in piece])]
        columns.append(array("q", [weight] * len(piece)))
        begun = process_time()
        machine.apply("change", columns)
        taken = machine.take("delta")
        rows += len(taken[0])
        del taken
        seconds += process_time() - begun
    return seconds, rows


def main() -> None:
    edge_count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    edges = graph(edge_count, int(sys.argv[2]) if len(sys.argv) > 2 else edge_count // 6)
    machine = Unit(three_hops())
    empty = machine.nbytes()
    seconds, rows = run(machine, edges, 1)
    print(f"insert:  {seconds:6.2f} s, {1e9 * seconds / len(edges):8.0f} ns an update, {rows:,} rows emitted,", end=" ")
    print(f"{1e9 * seconds / rows:.1f} ns a row, {machine.steps / len(edges):.0f} steps an update")
    for name, (count, size) in machine.table_stats().items():
        print(f"memory:  table {name}: {count:,} rows, {size / count:.0f} bytes a row")
    begun = process_time()
    cursor = machine.open("paths")
    listed = 0
    while fetched := len(cursor.fetch(100_000)[0]):
        listed += fetched
    seconds = process_time() - begun
    print(f"listing: {seconds:6.2f} s, {listed:,} rows, {1e9 * seconds / listed:.1f} ns a row")
    begun = process_time()
    data = machine.snapshot()
    middle = process_time()
    machine.restore(data)
    print(f"state:   {len(data):,} bytes saved in {middle - begun:.2f} s, restored in {process_time() - middle:.2f} s")
    seconds, rows = run(machine, edges, -1)
    print(f"delete:  {seconds:6.2f} s, {1e9 * seconds / len(edges):8.0f} ns an update, {rows:,} rows emitted,", end=" ")
    print(f"{1e9 * seconds / rows:.1f} ns a row")
    print(f"memory:  {machine.nbytes():,} bytes when all is gone, {empty:,} before")


if __name__ == "__main__":
    main()
