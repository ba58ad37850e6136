"""Ordered indexes: ranks, selection, paging, at sizes that the random programs do not reach."""

from __future__ import annotations

from random import Random

import pytest

from everview.kernel import Column, Unit
from everview.kernel.printer import show_program
from everview.kernel.program import (
    Compute,
    Cursor,
    Emit,
    Find,
    If,
    InOrder,
    Insert,
    KeyOf,
    Lit,
    Math,
    Order,
    Procedure,
    Program,
    Rank,
    Reg,
    Remove,
    Select,
    Size,
    Store,
    Table,
    ValueOf,
)
from everview.kernel.program import (
    Test as Comparison,
)
from everview.kernel.verifier import ProgramError, verify
from tests.kernel.programs import words

G, V, N, R, S = (Reg(name) for name in "gvnrs")
BAG = "bag"


def program(measure: int | None) -> Program:
    """A bag of (group, value): it changes, and answers by rank; values come highest first in the second order."""
    body = (
        Compute(S, Math.ADD, ValueOf(R, BAG, 0), N),
        Store(R, BAG, 0, S),
        If(Comparison.EQUAL, S, Lit(0), (Remove(R, BAG),)),
    )
    told = (Rank(S, R, BAG, 0, 1), Emit("out", (KeyOf(R, BAG, 1), S)))
    outputs = (KeyOf(R, BAG, 0), KeyOf(R, BAG, 1), ValueOf(R, BAG, 0))
    return Program(
        (Table(BAG, ("g", "v"), ("n",), (), (Order((0, 1), measure), Order((1,), measure))),),
        (("out", 2),),
        (
            Procedure("change", (G, V, N), (Find(R, BAG, (G, V), body, (Insert(R, BAG, (G, V)), *body)),)),
            Procedure("at", (G, N), (Select(R, BAG, 0, (G,), N, told, (Emit("out", (Lit(-1), Lit(-1))),)),)),
            Procedure("sizes", (G,), (Size(R, BAG, 0, (G,)), Size(S, BAG, 1, ()), Emit("out", (R, S)))),
        ),
        (
            Cursor("up", (G, N), (InOrder(R, BAG, 0, (G,), N),), outputs),
            Cursor("down", (N,), (InOrder(R, BAG, 1, (), N, descending=True),), outputs),
        ),
    )


def rows(columns: list[Column]) -> list[tuple[int, ...]]:
    return list(zip(*(memoryview(c) for c in columns), strict=True))


def ask(machine: Unit, procedure: str, *arguments: int) -> tuple[int, ...]:
    machine.apply(procedure, [words([a]) for a in arguments])
    return rows(machine.take("out"))[0]


@pytest.mark.parametrize("measure", [None, 0])
@pytest.mark.parametrize("shape", ["random", "rising", "falling"])
def test_thousands_of_rows(measure: int | None, shape: str) -> None:
    r = Random(5)
    machine = Unit(program(measure))
    model: dict[tuple[int, int], int] = {}
    for turn in range(4):
        changes = []
        for i in range(2_000):
            value = {"random": r.randint(-500, 500), "rising": turn * 2_000 + i, "falling": -turn * 2_000 - i}[shape]
            key = (r.randrange(3), value)
            if model and r.random() < (0.3 if turn < 2 else 0.7):
                key = r.choice(list(model)) if i % 50 == 0 else next(iter(model))
            change = -model[key] if key in model and r.random() < 0.8 else r.randint(1, 3)
            model[key] = model.get(key, 0) + change
            if not model[key]:
                del model[key]
            changes.append((*key, change))
        machine.apply("change", [words(list(c)) for c in zip(*changes, strict=True)])
        check(machine, model, measure, r)
        data = machine.snapshot()
        machine = Unit(program(measure))
        machine.restore(data)
        check(machine, model, measure, r)
    gone = [(*k, -n) for k, n in model.items()]
    machine.apply("change", [words(list(c)) for c in zip(*gone, strict=True)])
    assert machine.nbytes() < 20_000
    assert ask(machine, "at", 0, 0) == (-1, -1)


def check(machine: Unit, model: dict[tuple[int, int], int], measure: int | None, r: Random) -> None:
    """Ranks, sizes and pages of each group against sorted lists."""
    for group in range(4):
        values = sorted(v for g, v in model if g == group)
        wide = [v for v in values for _ in range(1 if measure is None else model[group, v])]
        assert ask(machine, "sizes", group)[0] == len(wide)
        for rank in {0, 1, -1, len(wide) - 1, len(wide), -len(wide), -len(wide) - 1, r.randint(0, len(wide) + 1)}:
            expected = (-1, -1)
            if -len(wide) <= rank < len(wide):
                expected = (wide[rank], wide.index(wide[rank]))
            assert ask(machine, "at", group, rank) == expected
        start = r.randint(0, len(wide))
        listed = rows(machine.open("up", [group, start]).fetch(10**6))
        wanted = values[values.index(wide[start]) :] if start < len(wide) else []
        assert listed == [(group, v, model[group, v]) for v in wanted]
    everything = sorted(model, key=lambda k: (k[1], k[0]), reverse=True)
    cursor = machine.open("down", [0])
    pieces = []
    while len((piece := cursor.fetch(300))[0]):
        pieces += rows(piece)
    assert pieces == [(*k, model[k]) for k in everything]
    assert rows(machine.open("down", [-1]).fetch(1)) == []


def test_measures_beyond_64_bits() -> None:
    machine = Unit(program(0))
    machine.apply("change", [words([1, 1, 2]), words([1, 2, 1]), words([2**63 - 1, 5, 7])])
    assert ask(machine, "at", 1, -1) == (2, 2**63 - 1)
    assert ask(machine, "at", 2, 6) == (1, 0)
    with pytest.raises(RuntimeError, match="64 bits"):
        machine.apply("sizes", [words([1])])


def test_what_is_negative_takes_no_ranks() -> None:
    machine = Unit(program(0))
    machine.apply("change", [words([1, 1, 1]), words([1, 2, 3]), words([-4, 2, 1])])
    assert ask(machine, "at", 1, 0) == (2, 0)
    assert ask(machine, "sizes", 1) == (3, 3)
    machine.apply("change", [words([1]), words([1]), words([6])])
    assert ask(machine, "at", 1, 0) == (1, 0)
    assert ask(machine, "at", 1, 2) == (2, 2)


def test_steps_grow_with_the_logarithm() -> None:
    steps = []
    for size in (1_000, 64_000):
        machine = Unit(program(None))
        machine.apply("change", [words([0] * size), words(list(range(size))), words([1] * size)])
        before = machine.steps
        ask(machine, "at", 0, size // 2)
        steps.append(machine.steps - before)
    assert steps[1] <= steps[0] + 3 * 6


def test_text() -> None:
    text = show_program(program(0))
    for line in (
        "order 0 by (g, v), ranks by n; order 1 by (v), ranks by n",
        "select r at n in bag order 0[g]",
        "s ← rank r in bag order 0 by 1",
        "r ← size bag order 0[g]",
        "for r in bag order 1[] down from n",
    ):
        assert line in text


@pytest.mark.parametrize(
    ("table", "instruction", "message"),
    [
        (Table("t", ("a",), (), (), (Order((1,)),)), None, "bad index"),
        (Table("t", ("a",), (), (), (Order((0, 0)),)), None, "bad index"),
        (Table("t", ("a",), (), (), (Order((0,), 0),)), None, "no value number 0"),
        (Table("t", ("a",)), Size(R, "t", 0, ()), "no ordered index 0"),
        (Table("t", ("a",), (), (), (Order((0,)),)), Size(R, "t", 0, (G, G)), "has 1 columns, not 2"),
        (Table("t", ("a",), (), (), (Order((0,)),)), Select(R, "t", 0, (), S), "s holds no word"),
        (Table("t", ("a",), (), (), (Order((0,)),)), Rank(S, R, "t", 0, 0), "r holds no row"),
    ],
)
def test_refused(table: Table, instruction: Size | Select | Rank | None, message: str) -> None:
    body = () if instruction is None else (instruction,)
    with pytest.raises(ProgramError, match=message):
        verify(Program((table,), (), (Procedure("p", (G,), body),)))
