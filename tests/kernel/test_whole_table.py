"""Scans of a whole table: an index on no columns has all rows in the table's order; only its levels are stored."""

from __future__ import annotations

from random import Random

import pytest

from everview.kernel import SNAPSHOTS, Machine, Unit
from everview.kernel.program import (
    Add,
    Count,
    Cursor,
    Each,
    Emit,
    Find,
    If,
    Instruction,
    KeyOf,
    Lit,
    Procedure,
    Product,
    Program,
    Reg,
    Remove,
    Scan,
    SetLevel,
    Step,
    Store,
    Table,
    ValueOf,
)
from everview.kernel.program import (
    Test as Comparison,
)
from tests.kernel.programs import Pair, words

A, B, C, R, S, N = (Reg(name) for name in "abcrsn")
T, U = "t", "u"
PIECE = 4_096
"""Rows of a whole table that the kernel takes at a time."""
TABLES = (Table(T, ("x", "y"), ("n",), ((),), levels=3), Table(U, ("x",), ("n",), ((), (0,))))


def program(*body: Instruction, tables: tuple[Table, ...] = TABLES) -> Program:
    """``change(a, b, c)`` and ``other(a, c)`` change the tables; ``run(a)`` is what the test is about."""
    rows = Cursor("rows", (), (Step(R, T, 0, (), 0),), (KeyOf(R, T, 0), KeyOf(R, T, 1), ValueOf(R, T, 0)))
    pairs = Cursor("pairs", (), (Step(R, T, 0, (), 0), Step(S, U, 0, (), 0)), (KeyOf(R, T, 0), KeyOf(S, U, 0)))
    joined = (Step(R, T, 0, (), 0), Step(S, U, 1, (KeyOf(R, T, 0),), 0))
    return Program(
        tables,
        (("out", 3),),
        (
            Procedure("change", (A, B, C), (Add(R, T, (A, B), (C,)),)),
            Procedure("other", (A, C), (Add(R, U, (A,), (C,)),)),
            Procedure("drop", (A, B), (Find(R, T, (A, B), (Remove(R, T),)),)),
            Procedure("lift", (A, B, C), (Find(R, T, (A, B), (SetLevel(R, T, 1),)),)),
            Procedure("run", (A,), body),
        ),
        (rows, pairs, Cursor("joined", (), joined, (KeyOf(R, T, 1), ValueOf(S, U, 0)))),
    )


EMIT = Emit("out", (KeyOf(R, T, 0), KeyOf(R, T, 1), ValueOf(R, T, 0)))
PAIR = Emit("out", (KeyOf(R, T, 1), KeyOf(S, U, 0), Product((A, ValueOf(R, T, 0), ValueOf(S, U, 0)))))
COUNTED = (Count(N, T, 0, (), 0), Emit("out", (N, N, N)))
BODIES: dict[str, tuple[Instruction, ...]] = {
    "a scan": (Scan(R, T, 0, (), 0, (EMIT,)),),
    "a scan that is no nest": (Scan(R, T, 0, (), 0, (Add(S, U, (KeyOf(R, T, 1),), (A,)), EMIT)),),
    "a loop that changes values": (Each(R, T, 0, (), 0, (Store(R, T, 0, A), EMIT)),),
    "a loop that changes levels": (Each(R, T, 0, (), 0, (SetLevel(R, T, 1), EMIT)), *COUNTED),
    "all pairs": (Scan(R, T, 0, (), 0, (Scan(S, U, 0, (), 0, (PAIR,)),)),),
    "all pairs by another way": (Scan(S, U, 0, (), 0, (Scan(R, T, 0, (), 0, (PAIR,)),)),),
    "a table with itself": (Scan(S, T, 0, (), 0, (Scan(R, T, 0, (), 0, (EMIT,)),)),),
    "a loop within": (Scan(R, T, 0, (), 0, (Scan(S, U, 1, (KeyOf(R, T, 0),), 0, (PAIR,)),)),),
    "a loop around": (Scan(S, U, 1, (A,), 0, (Scan(R, T, 0, (), 0, (PAIR,)),)),),
    "a count": COUNTED,
    "all levels": (Scan(R, T, 0, (), 0, (EMIT,), highest=2), Count(N, T, 0, (), 0, 2), Emit("out", (N, N, N))),
    "some levels": (Scan(R, T, 0, (), 0, (EMIT,), highest=1), Count(N, T, 0, (), 1, 1), Emit("out", (N, N, N))),
}


@pytest.mark.parametrize("name", BODIES)
def test_loops_over_all_rows(name: str) -> None:
    """As the reference has it, while rows come and go and are moved, and some updates fault."""
    random = Random(5)
    pair = Pair(program(*BODIES[name]))
    for turn in range(12):
        rows = [(random.randrange(5), random.randrange(5), random.choice([-1, 1, 2])) for _ in range(6)]
        assert pair.apply("change", [list(c) for c in zip(*rows, strict=True)]) is None
        assert pair.apply("other", [[random.randrange(5) for _ in range(3)], [1, 1, -1]]) is None
        if turn % 3 == 0:
            assert pair.apply("lift", [[1, 2, 3], [1, 2, 3], [0, 0, 0]]) is None
        if turn % 4 == 1:
            assert pair.apply("drop", [[0, 1, 2, 3], [1, 2, 3, 4]]) is None
        pair.apply("run", [[turn, 2**62 if turn == 8 else 0, turn % 2]])
        pair.check_channels()
        pair.check_cursors(random)


def filled(rows: int, others: int, *body: Instruction) -> tuple[Machine, list[int], list[int]]:
    """A machine with so many rows, of which some have gone: the last one took the place of each."""
    machine = Unit(program(*body))
    keys = list(range(rows + 3))
    machine.apply("change", [words(keys), words([k % 7 for k in keys]), words([1] * len(keys))])
    for gone in (0, rows // 2, rows - 1) if rows else ():
        machine.apply("drop", [words([keys[gone]]), words([keys[gone] % 7])])
        last = keys.pop()
        if gone < len(keys):
            keys[gone] = last
    machine.apply("other", [words(list(range(others))), words([1] * others)])
    return machine, keys, list(range(others))


@pytest.mark.parametrize("rows", [1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 3 * PIECE + 5])
def test_more_rows_than_are_taken_at_a_time(rows: int) -> None:
    machine, keys, _ = filled(rows, 0, Scan(R, T, 0, (), 0, (EMIT,)))
    wanted = [(k, k % 7, 1) for k in keys]
    machine.apply("run", [words([1])])
    assert list(zip(*map(memoryview, machine.take("out")), strict=True)) == wanted
    for limit in (1_000, PIECE, PIECE + 1, 10**6):
        cursor, found = machine.open("rows"), []
        while piece := list(zip(*map(memoryview, cursor.fetch(limit)), strict=True)):
            assert len(piece) <= limit
            found += piece
        assert found == wanted


@pytest.mark.parametrize(("rows", "others"), [(3, PIECE + 2), (PIECE + 2, 3), (PIECE, 2), (2, PIECE), (0, 9), (9, 0)])
@pytest.mark.parametrize("limit", [777, 10**6])
def test_all_pairs_of_many_rows(rows: int, others: int, limit: int) -> None:
    machine, keys, more = filled(rows, others)
    cursor, found = machine.open("pairs"), []
    while piece := list(zip(*map(memoryview, cursor.fetch(limit)), strict=True)):
        found += piece
    assert found == [(k, o) for k in keys for o in more]


def test_groups_are_looked_up_for_many_rows() -> None:
    machine, keys, more = filled(PIECE + 50, PIECE + 20)
    found = list(zip(*map(memoryview, machine.open("joined").fetch(10**6)), strict=True))
    assert found == [(k % 7, 1) for k in keys if k in set(more)]


def test_after_a_fault_in_the_middle_the_next_scans_are_whole() -> None:
    """Also one of a group, which has no more pieces to take; the fault is in the first piece of three."""
    product = Emit("out", (KeyOf(R, T, 0), Lit(0), Product((A, ValueOf(R, T, 0)))))
    group = Scan(S, U, 1, (A,), 0, (Emit("out", (KeyOf(S, U, 0), A, A)),))
    body = If(Comparison.LESS, A, Lit(9), (group,), (Scan(R, T, 0, (), 0, (product,)),))
    unit, keys, _ = filled(2 * PIECE + 9, 9, body)
    unit.apply("change", [words([keys[5]]), words([keys[5] % 7]), words([2**40])])
    with pytest.raises(RuntimeError, match="64 bits"):
        unit.apply("run", [words([2**30])])
    unit.apply("run", [words([3])])
    assert [list(memoryview(c)) for c in unit.take("out")] == [[3], [3], [3]]
    unit.apply("run", [words([10])])
    assert list(memoryview(unit.take("out")[0])) == keys


def bytes_a_row(*loops: Instruction, index: bool = True) -> float:
    tables = TABLES if index else (Table(T, ("x", "y"), ("n",), levels=3), TABLES[1])
    procedures = program(*loops, tables=TABLES).procedures
    machine = Unit(Program(tables, (("out", 3),), procedures))
    rows = 20_000
    machine.apply("change", [words(list(range(rows))), words([1] * rows), words([1] * rows)])
    return machine.nbytes() / rows


def test_only_the_levels_of_all_rows_are_stored() -> None:
    without = bytes_a_row(index=False)
    assert bytes_a_row(*BODIES["a scan"], *BODIES["a count"]) == without
    assert bytes_a_row(Scan(R, T, 0, (), 1, (EMIT,))) > without + 12
    assert bytes_a_row(Count(N, T, 0, (), 1)) > without + 12
    assert bytes_a_row(Count(N, T, 0, (), 0, 1)) > without + 12
    assert bytes_a_row(Count(N, T, 0, (), 0, 2)) == without


def test_a_snapshot_of_the_version_before_is_refused() -> None:
    machine, _, _ = filled(5, 0)
    data = bytearray(machine.snapshot())
    machine.restore(bytes(data))
    data[8:16] = (SNAPSHOTS - 1).to_bytes(8, "little")
    with pytest.raises(ValueError, match="another version"):
        machine.restore(bytes(data))
