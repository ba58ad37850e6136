"""Levels: a table declares how many it has, and loops, counts and cursors take a range of them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.kernel import Unit
from everview.kernel.printer import show_program
from everview.kernel.program import (
    MOST_LEVELS,
    Add,
    Count,
    Cursor,
    Each,
    Emit,
    Find,
    Function,
    If,
    Instruction,
    KeyOf,
    Lit,
    Procedure,
    Program,
    Reg,
    Remove,
    Scan,
    SetLevel,
    Step,
    Table,
)
from everview.kernel.program import Test as Comparison
from everview.kernel.verifier import ProgramError, verify
from tests.kernel.programs import Pair, words
from tests.scale import thoroughness

X, Y, L, R, S, N = (Reg(name) for name in "xylrsn")
Range = tuple[int, int]


def ranges(levels: int) -> list[Range]:
    return [(low, high) for low in range(levels) for high in range(low, levels)]


def moving(levels: int) -> Program:
    """``move(x, y, l)`` puts the pair (x, y) on level l, or takes it out if l is -1; x is that of a group.

    ``tell(x)`` emits the pairs of the group on each range of levels, by ``Scan`` and ``Each``; the cursors list them,
    and the functions count them.
    """
    table = Table("t", ("x", "y"), ("n",), ((0,), (1, 0)), levels=levels)
    to_level: tuple[Instruction, ...] = ()
    for level in range(levels):
        to_level = (If(Comparison.EQUAL, L, Lit(level), (SetLevel(R, "t", level),), to_level),)
    present = (Add(R, "t", (X, Y), (Lit(1),), (), None), *to_level)
    gone = (Find(R, "t", (X, Y), (Remove(R, "t"),)),)
    move = Procedure("move", (X, Y, L), (If(Comparison.EQUAL, L, Lit(-1), gone, present),))
    told = []
    for low, high in ranges(levels):
        emit = Emit("out", (Lit(low), Lit(high), KeyOf(S, "t", 0), KeyOf(S, "t", 1)))
        told.append(Scan(S, "t", 0, (X,), low, (emit,), high))
        told.append(Each(S, "t", 0, (X,), low, (emit, emit), high))
    pair = (KeyOf(S, "t", 0), KeyOf(S, "t", 1))
    cursors = tuple(Cursor(f"{r}", (X,), (Step(S, "t", 0, (X,), *r),), pair) for r in ranges(levels))
    functions = tuple(Function(f"{r}", (X,), (Count(N, "t", 0, (X,), *r),), (N,)) for r in ranges(levels))
    own = tuple(
        Function(f"own {r}", (X, Y), (Find(R, "t", (X, Y), (Count(N, "t", 0, (KeyOf(R, "t", 0),), *r),), _zero),), (N,))
        for r in ranges(levels)
    )
    single = tuple(Function(f"one {r}", (X, Y), (Count(N, "t", 1, (Y, X), *r),), (N,)) for r in ranges(levels))
    tell = Procedure("tell", (X,), tuple(told))
    return Program((table,), (("out", 4),), (move, tell), cursors, (*functions, *own, *single))


_zero = (Count(N, "t", 1, (Lit(-9), Lit(-9)), 0),)


@thoroughness(60)
@given(st.integers(1, MOST_LEVELS), st.data())
def test_ranges_are_the_rows_on_those_levels(levels: int, data: st.DataObject) -> None:
    program = moving(levels)
    pair = Pair(program)
    here: dict[tuple[int, int], int] = {}
    move = st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(-1, levels - 1))
    for moves in data.draw(st.lists(st.lists(move, max_size=12), max_size=4)):
        pair.apply("move", [list(column) for column in zip(*moves, strict=True)] if moves else [[], [], []])
        for x, y, level in moves:
            here.pop((x, y), None) if level < 0 else here.update({(x, y): level})
        assert {key: level for key, _, level in pair.machine.dump("t")} == here
        for x in range(3):
            group = [pair.machine.dump("t")[row] for row in pair.machine.group("t", 0, (x,))]
            assert [level for _, _, level in group] == sorted((level for _, _, level in group), reverse=True)
            for low, high in ranges(levels):
                wanted = {key for key, level in here.items() if key[0] == x and low <= level <= high}
                listed = pair.reference.rows(f"{(low, high)}", [x])
                assert sorted(listed) == sorted(wanted)
                assert list(memoryview(pair.machine.ask(f"{(low, high)}", [words([x])])[0])) == [len(wanted)]
                for y in range(5):
                    inside = (x, y) in wanted
                    (one,) = pair.machine.ask(f"one {(low, high)}", [words([x]), words([y])])
                    assert list(memoryview(one)) == [int(inside)]
                    (own,) = pair.machine.ask(f"own {(low, high)}", [words([x]), words([y])])
                    assert list(memoryview(own)) == [len(wanted) if (x, y) in here else 0]
        pair.check_cursors_at([0, 1, 2])
        pair.apply("tell", [[0, 1, 2]])
        pair.check_channels()
    machine = Unit(program)
    machine.restore(pair.machine.snapshot())
    pair.check(machine)


def test_a_group_takes_no_memory_for_levels_that_its_table_does_not_have() -> None:
    """Of 20,000 groups of one row: 16 bytes each without levels, and 4 more a level."""
    sizes = []
    for levels in range(1, MOST_LEVELS + 1):
        add = Add(R, "t", (X, Y), (Lit(1),))
        table = Table("t", ("x", "y"), ("n",), ((0,),), levels=levels)
        program = Program((table,), (), (Procedure("add", (X, Y), (add,)),))
        machine = Unit(program)
        machine.apply("add", [words(list(range(20_000)))] * 2)
        sizes.append(machine.nbytes())
    more = [b - a for a, b in pairwise(sizes)]
    assert all(20_000 * 3 <= m <= 20_000 * 6 for m in more)  # arrays have some room to grow
    assert 20_000 * 26 <= sum(more) <= 20_000 * 32  # seven levels, and a byte a row for its level from the second on


@pytest.mark.parametrize(
    ("levels", "body", "message"),
    [
        (0, (), "has 0 levels, not 1 to 8"),
        (9, (), "has 9 levels, not 1 to 8"),
        (1, (Count(N, "t", 0, (X,), 1),), "t has no level 1"),
        (3, (Count(N, "t", 0, (X,), 1, 3),), "t has no level 3"),
        (3, (Scan(R, "t", 0, (X,), 2, (), 1),), "no levels 2 to 1"),
        (3, (Each(R, "t", 0, (X,), -1, ()),), "t has no level -1"),
    ],
)
def test_levels_that_are_not_there(levels: int, body: tuple[Instruction, ...], message: str) -> None:
    program = Program((Table("t", ("x", "y"), (), ((0,),), levels=levels),), (), (Procedure("p", (X,), body),))
    with pytest.raises(ProgramError, match=message):
        verify(program)
    cursor = Cursor("c", (), (Step(R, "t", 0, (Lit(1),), 0, 1),), ())
    with pytest.raises(ProgramError, match="t has no level 1"):
        verify(Program((Table("t", ("x", "y"), (), ((0,),)),), cursors=(cursor,)))


def test_they_are_shown() -> None:
    text = show_program(moving(3))
    assert "index 1 on (y, x); 3 levels" in text
    assert "n ← count t.0[x] levels 1 to 1" in text
    assert "for s in t.0[x] levels 0 to 2" in text
