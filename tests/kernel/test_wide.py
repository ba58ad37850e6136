"""Numbers of several words: the kernel computes with them as Python does, and what leaves its words is a fault."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.kernel import Unit, UpdateFault
from everview.kernel.printer import show_program
from everview.kernel.program import (
    Add,
    Compute,
    Cursor,
    Emit,
    Function,
    If,
    Instruction,
    KeyOf,
    Lit,
    Math,
    Operand,
    Order,
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
from everview.kernel.program import Test as Comparison
from everview.kernel.verifier import ProgramError, verify
from everview.kernel.wide_numbers import number_of, words_of
from tests.kernel.programs import Pair
from tests.scale import thoroughness

K, R, S = Reg("k"), Reg("r"), Reg("s")


def number(words: int) -> st.SearchStrategy[int]:
    """Any number of so many words, mostly near where words end."""
    ends = [2 ** (64 * w - 1) for w in range(1, words + 1)] + [2**31, 0]
    signed = st.sampled_from([sign * end for end in ends for sign in (-1, 1)])
    near = st.builds(int.__add__, signed, st.integers(-3, 3))
    low, high = -(2 ** (64 * words - 1)), 2 ** (64 * words - 1) - 1
    return st.one_of(near.map(lambda n: min(max(n, low), high)), st.integers(low, high))


def split(numbers: Sequence[int], words: int) -> list[array[int]]:
    """A column of numbers as columns of words."""
    rows = [words_of(n, words) for n in numbers]
    return [array("q", [row[i] for row in rows]) for i in range(words)]


def calculator(operation: Math, left: int, right: int, target: int) -> Unit:
    a, b, c = Reg("a", left), Reg("b", right), Reg("c", target)
    functions = (
        Function("compute", (a, b), (Compute(c, operation, a, b),), (c,)),
        Function("product", (a, b), (), (Product((a, b), target),)),
        *(Function(test.name, (a, b), _holds(test, a, b), (Reg("held"),)) for test in Comparison),
    )
    return Unit(Program(functions=functions))


def _holds(test: Comparison, a: Operand, b: Operand) -> tuple[Instruction, ...]:
    one, zero = (Compute(Reg("held"), Math.ADD, Lit(n), Lit(0)) for n in (1, 0))
    return (If(test, a, b, (one,), (zero,)),)


@pytest.mark.parametrize("operation", [Math.ADD, Math.SUBTRACT, Math.MULTIPLY])
@thoroughness(60)
@given(data=st.data())
def test_arithmetic_is_that_of_python(operation: Math, data: st.DataObject) -> None:
    left, right, target = (data.draw(st.integers(1, 6)) for _ in range(3))
    machine = calculator(operation, left, right, target)
    exact = {Math.ADD: int.__add__, Math.SUBTRACT: int.__sub__, Math.MULTIPLY: int.__mul__}[operation]
    for _ in range(8):
        a, b = data.draw(number(left)), data.draw(number(right))
        columns = [*split([a], left), *split([b], right)]
        expected = exact(a, b)
        for function in ("compute",) if operation is not Math.MULTIPLY else ("compute", "product"):
            made = (expected,) if function == "compute" else (a, expected)  # from left to right
            if all(-(2 ** (64 * target - 1)) <= n < 2 ** (64 * target - 1) for n in made):
                assert number_of([memoryview(c)[0] for c in machine.ask(function, columns)]) == expected
                continue
            with pytest.raises(UpdateFault, match="would leave") as fault:
                machine.ask(function, columns)
            assert fault.value.kind == "overflow"
        for test, holds in zip(Comparison, (a == b, a != b, a < b, a <= b), strict=True):
            assert [memoryview(c)[0] for c in machine.ask(test.name, columns)] == [holds]


@thoroughness(60)
@given(words=st.integers(2, 6), data=st.data())
def test_a_row_is_there_for_as_long_as_all_its_words_are_not_0(words: int, data: st.DataObject) -> None:
    change, other = Reg("change", words), Reg("other", 2)
    table = Table("sums", ("k",), ("n", "m"), ((),), widths=(words, 2))
    told = {what: (Emit("told", (Lit(i), change)),) for i, what in enumerate(("appeared", "vanished", "otherwise"))}
    add = Add(R, "sums", (K,), (change, other), **told)
    cursor = Cursor("all", (), (Step(R, "sums", 0, (), 0),), (KeyOf(R, "sums", 0), ValueOf(R, "sums", 0)))
    program = Program((table,), (("told", 1 + words),), (Procedure("add", (K, change, other), (add,)),), (cursor,))
    pair = Pair(program)
    total = 0
    for _ in range(data.draw(st.integers(1, 12))):
        n = data.draw(st.one_of(number(words), st.just(-total), st.sampled_from([2**64, -(2**64), 2**128 % 2**127])))
        n = min(max(n, -(2 ** (64 * words - 1))), 2 ** (64 * words - 1) - 1)
        columns = [[0], *([w] for w in words_of(n, words)), *([w] for w in words_of(data.draw(number(1)), 2))]
        if pair.apply("add", columns) is None:
            total += n
        pair.check_channels()
        rows = pair.machine.dump("sums")
        assert [values[0] for _, values, _ in rows] == ([total] if total else [])
        assert list(zip(*(memoryview(c) for c in pair.machine.open("all").fetch(9)), strict=True)) == (
            [(0, *words_of(total, words))] if total else []
        )
    again = Unit(program)
    again.restore(pair.machine.snapshot())
    pair.check(again)


EDGES = Table("edges", ("x", "y"), ("n",), ((0,), (), (1,)), widths=(2,))


def walks() -> Pair:
    """Products of several words in nests that the kernel runs at one go: by look-ahead, as all pairs, and by row."""
    n, factor = Reg("n", 2), Reg("factor", 3)
    put = (Add(R, "edges", (K, S), (n,)),)
    nest: list[Procedure] = []
    for name, index, key in (("paths", 0, (KeyOf(R, "edges", 1),)), ("pairs", 0, (K,)), ("all", 1, ())):
        outputs = (
            KeyOf(S, "edges", 1),
            Product((factor, ValueOf(R, "edges", 0), ValueOf(S, "edges", 0)), 5),
            ValueOf(S, "edges", 0),
            Product((ValueOf(S, "edges", 0), Lit(-3)), 3),
            Product((ValueOf(R, "edges", 0),)),
        )
        inner = Scan(S, "edges", index, key, 0, (Emit("out", outputs),))
        nest.append(Procedure(name, (K, factor), (Scan(R, "edges", 0, (K,), 0, (inner,)),)))
    steps = (Step(R, "edges", 1, (), 0), Step(S, "edges", 0, (KeyOf(R, "edges", 1),), 0))
    both = Product((ValueOf(R, "edges", 0), ValueOf(S, "edges", 0)), 4)
    cursor = Cursor("paths", (), steps, (KeyOf(R, "edges", 0), both))
    return Pair(Program((EDGES,), (("out", 12),), (Procedure("put", (K, S, n), put), *nest), (cursor,)))


@pytest.mark.parametrize("weights", [(1,), (1, 2), (1, 2**40), (2**62, -1), (2**63, 2**64 - 1), (-(2**127), 2**126)])
@pytest.mark.parametrize("fan", [1, 3, 40])
def test_products_in_nests(weights: tuple[int, ...], fan: int) -> None:
    pair = walks()
    edges = [(0, i) for i in range(1, fan + 1)] + [(i, 100 * i + j) for i in range(1, fan + 1) for j in range(i % 4)]
    values = [words_of(weights[(x + y) % len(weights)], 2) for x, y in edges]
    columns = [[x for x, _ in edges], [y for _, y in edges], [v[0] for v in values], [v[1] for v in values]]
    assert pair.apply("put", columns) is None
    for factor in (1, -1, 2**31, 2**64, -(2**130)):
        words = words_of(factor, 3)
        for walk in ("paths", "pairs", "all"):
            pair.apply(walk, [[0, 1], *([w, w] for w in words)])
            pair.check_channels()
    expected = pair.reference.rows("paths")
    found = [memoryview(c).tolist() for c in pair.machine.open("paths").fetch(10**6)]
    assert list(zip(*found, strict=True)) == expected


def test_small_numbers_stay_small() -> None:
    """Words above a small number's are 0 or -1: they do not make a table's cells wide."""
    change = Reg("change", 3)
    table = Table("sums", ("k",), ("n",), widths=(3,))
    machine = Unit(Program((table,), (), (Procedure("add", (K, change), (Add(R, "sums", (K,), (change,)),)),)))
    rows = 10_000
    numbers = [words_of(-5 - i if i % 2 == 0 else i, 3) for i in range(rows)]
    keys, (low, _, high) = array("q", range(rows)), (array("q", words) for words in zip(*numbers, strict=True))
    machine.apply("add", [keys, low, high, high])
    small = machine.nbytes()
    machine.apply("add", [array("q", [0]), array("q", [0]), array("q", [1]), array("q", [0])])
    assert machine.find("sums", [0]) == ([2**64 - 5], 0)
    assert machine.nbytes() < small + rows
    machine.apply("add", [array("q", [0]), array("q", [2**40]), array("q", [0]), array("q", [0])])
    assert machine.find("sums", [0]) == ([2**64 + 2**40 - 5], 0)
    assert machine.find("sums", [1]) == ([1], 0)
    assert machine.nbytes() > small + rows * 4 * 4 * 0.9


def test_programs_with_numbers_of_several_words_are_printed() -> None:
    shown = show_program(walks().program)
    assert "table edges(x, y) → n:2" in shown
    assert "procedure put(k, s, n:2)" in shown
    assert "factor:3 * r.v0 * s.v0:5" in shown


A = Reg("a", 2)
PAIR = Table("t", ("k",), ("n",), ((),), widths=(2,))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ((Compute(Reg("q"), Math.DIVIDE, A, Lit(2)),), "a:2 has 2 words, where one is wanted"),
        ((Compute(Reg("q", 2), Math.ROOT, K, Lit(2)),), "is to hold what is a single word"),
        ((Add(R, "t", (K,), (K,)),), "k has 1 words, where 2 are wanted"),
        ((Add(R, "t", (A,), (A,)),), "a:2 has 2 words, where one is wanted"),
        ((Add(R, "t", (K,), (A,), (Store(R, "t", 0, K),)),), "k has 1 words, where 2 are wanted"),
        ((Add(Reg("r", 2), "t", (K,), (A,)),), "which has one word"),
        ((Compute(Reg("q", 7), Math.ADD, K, K),), "no such number of words"),
        ((Compute(Reg("a"), Math.ADD, K, K),), "no such number of words"),
        ((Emit("out", (K,)),), "channel out takes 2 words, not 1"),
        ((Emit("out", (Product((K,), 7),)),), "no such number of words"),
    ],
)
def test_the_verifier_counts_words(body: tuple[Instruction, ...], message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        verify(Program((PAIR,), (("out", 2),), (Procedure("p", (K, A), body),)))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (Table("t", ("k",), ("n",), widths=(1, 2)), "2 widths for 1 values"),
        (Table("t", ("k",), ("n",), widths=(7,)), "1 to 6 words"),
        (Table("t", ("k",), ("n",), (), (Order((0,), 0),), 1, (2,)), "by a value of one word"),
    ],
)
def test_the_verifier_checks_widths(table: Table, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        verify(Program((table,)))
