"""Values that are the same in all rows have no cells: none of it shows, whatever breaks it and whatever is undone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.kernel import Machine, Unit
from everview.kernel.program import (
    Add,
    Compute,
    Cursor,
    Emit,
    Find,
    KeyOf,
    Lit,
    Math,
    Procedure,
    Product,
    Program,
    Reg,
    Scan,
    Step,
    Store,
    Table,
    ValueOf,
)
from tests.kernel.programs import Pair, words
from tests.scale import thoroughness

A, B, C, D, R, N = (Reg(name) for name in "abcdrn")
T = "t"
FIELDS = (KeyOf(R, T, 0), ValueOf(R, T, 0), ValueOf(R, T, 1), Product((B, ValueOf(R, T, 1))))
PROGRAM = Program(
    (Table(T, ("x", "y"), ("n", "m"), ((0,), ())),),
    (("out", 4),),
    (
        Procedure("add", (A, B, C, D), (Add(R, T, (A, B), (C, D)),)),
        Procedure("first", (A, B, C), (Add(R, T, (A, B), (C,)),)),
        Procedure("put", (A, B, C), (Find(R, T, (A, B), (Store(R, T, 1, C),)),)),
        Procedure("fail", (A, B, C, D), (Add(R, T, (A, B), (C, D)), Compute(N, Math.MULTIPLY, Lit(2**62), Lit(4)))),
        Procedure("list", (A, B), (Scan(R, T, 0, (A,), 0, (Emit("out", FIELDS),)),)),
    ),
    (Cursor("all", (B,), (Step(R, T, 1, (), 0),), FIELDS),),
)
WORDS = st.sampled_from([1] * 12 + [0, 2, -1, 2**31, -(2**31), -(2**63), 2**62])
KEYS = st.integers(0, 3)
CALLS = st.one_of(
    st.tuples(st.just("add"), KEYS, KEYS, st.sampled_from([1, 1, 1, -1, 2]), WORDS),
    st.tuples(st.just("first"), KEYS, KEYS, st.sampled_from([1, -1])),
    st.tuples(st.just("put"), KEYS, KEYS, WORDS),
    st.tuples(st.just("fail"), KEYS, KEYS, st.sampled_from([1, -1, 2]), WORDS),
    st.tuples(st.just("list"), KEYS, st.sampled_from([1, 3])),
)


@thoroughness(150)
@given(st.lists(CALLS, max_size=30))
def test_machine_and_reference_agree(calls: list[tuple[str, int, int]]) -> None:
    pair = Pair(PROGRAM)
    for number, (name, *arguments) in enumerate(calls):
        pair.apply(name, [[a] for a in arguments])
        pair.check_channels()
        if number % 7 == 6:
            other = Unit(PROGRAM)
            other.restore(pair.machine.snapshot())
            pair.check(other)
            pair.machine = other
            for channel, _ in PROGRAM.channels:
                pair.reference.take(channel)
    pair.check()


def filled(rows: int, n: int, m: int) -> Machine:
    machine = Unit(PROGRAM)
    keys = list(range(rows))
    machine.apply("add", [words(keys), words(keys), words([n] * rows), words([m] * rows)])
    return machine


def test_what_all_rows_share_is_read() -> None:
    unit = filled(100, 4, 9)
    assert list(zip(*map(memoryview, unit.open("all", [3]).fetch(200)), strict=True)) == [
        (i, 4, 9, 27) for i in range(100)
    ]
    unit.apply("list", [words([5, 6]), words([1, 2])])
    assert [list(memoryview(c)) for c in unit.take("out")] == [[5, 6], [4, 4], [9, 9], [9, 18]]


def test_what_all_rows_share_takes_no_memory() -> None:
    rows = 30_000
    shared, others = filled(rows, 1, 1).nbytes(), filled(rows, 4, 9).nbytes()
    assert shared == others
    machine = filled(rows, 1, 1)
    machine.apply("put", [words([5]), words([5]), words([7])])
    assert 7 * rows < machine.nbytes() - shared < 10 * rows, "the last column and those before it have cells"
    copy = Unit(PROGRAM)
    copy.restore(filled(rows, 4, 9).snapshot())
    assert copy.nbytes() == pytest.approx(shared, rel=0.05)


@pytest.mark.parametrize("word", [2, 2**40, -(2**63)])
def test_other_words_come_and_the_rows_go(word: int) -> None:
    machine = filled(5_000, 1, 1)
    machine.apply("put", [words([17]), words([17]), words([word])])
    assert machine.find(T, (17, 17)) == ([1, word], 0)
    assert machine.find(T, (18, 18)) == ([1, 1], 0)
    keys = words(list(range(5_000)))
    machine.apply("add", [keys, keys, words([-1] * 5_000), words([0] * 5_000)])
    machine.apply("add", [keys, keys, words([3] * 5_000), words([4] * 5_000)])
    assert machine.find(T, (17, 17)) == ([3, 4], 0)
    assert machine.nbytes() <= filled(5_000, 1, 1).nbytes() * 1.05
