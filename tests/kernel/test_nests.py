"""Scans within scans, which the kernel runs as one: many groups at a time, and weights of 1 without multiplying."""

from __future__ import annotations

import pytest

from everview.kernel.program import (
    Compute,
    Emit,
    Find,
    Insert,
    Instruction,
    KeyOf,
    Lit,
    Math,
    Procedure,
    Product,
    Program,
    Reg,
    Scan,
    Store,
    Table,
    ValueOf,
)
from tests.kernel.programs import Pair

A, B, C, R, S = (Reg(name) for name in "abcrs")
EDGES = Table("edges", ("x", "y"), ("n",), ((0,),))
WEIGHT = Product((C, ValueOf(R, "edges", 0), ValueOf(S, "edges", 0)))
FAN = 40
"""Rows of the outer loop: more than are looked up together."""


def paths(*before: Instruction) -> Pair:
    """``put(a, b, c)`` gives an edge the weight c; ``walk(a, b, c)`` lists the paths of two edges from a."""
    emit = Emit("out", (A, KeyOf(R, "edges", 1), KeyOf(S, "edges", 1), WEIGHT, ValueOf(S, "edges", 0)))
    second = Scan(S, "edges", 0, (KeyOf(R, "edges", 1),), 0, (emit,))
    put = (Find(R, "edges", (A, B), (), (Insert(R, "edges", (A, B)),)), Store(R, "edges", 0, C))
    walk = (*before, Scan(R, "edges", 0, (A,), 0, (second,)))
    procedures = (Procedure("put", (A, B, C), put), Procedure("walk", (A, B, C), walk))
    return Pair(Program((EDGES,), (("out", 5),), procedures))


def filled(*before: Instruction) -> Pair:
    """Vertex 0 has edges to 1 … FAN, and vertex i has i % 6 edges."""
    pair = paths(*before)
    edges = [(0, i, 1) for i in range(1, FAN + 1)] + [
        (i, 100 * i + j, 1) for i in range(1, FAN + 1) for j in range(i % 6)
    ]
    assert pair.apply("put", [list(column) for column in zip(*edges, strict=True)]) is None
    return pair


@pytest.mark.parametrize("edge", [(0, 3), (0, FAN), (3, 301), (10, 1003)], ids=str)
def test_a_weight_other_than_1_counts_for_as_long_as_it_is_there(edge: tuple[int, int]) -> None:
    pair = filled()
    for weight in (1, 3, 1):
        assert pair.apply("put", [[edge[0]], [edge[1]], [weight]]) is None
        assert pair.apply("walk", [[0, 3], [0, 0], [1, -2]]) is None
        pair.check_channels()


def test_an_update_that_is_undone_leaves_the_weights_as_they_were() -> None:
    pair = filled(Compute(B, Math.MULTIPLY, B, B))
    assert pair.apply("put", [[0, 0, 0], [1, 2, 1], [2**40, 2**40, 1]]) is None
    assert pair.apply("walk", [[0], [0], [2**30]]) == "overflow"
    assert pair.apply("put", [[0], [2], [1]]) is None
    assert pair.apply("walk", [[0], [0], [2**30]]) is None
    pair.check_channels()


def test_the_rows_registers_may_hold_anything_before() -> None:
    pair = filled(Compute(S, Math.ADD, Lit(10**9), Lit(0)), Compute(R, Math.ADD, Lit(-7), Lit(0)))
    assert pair.apply("walk", [[0, 99, 0], [0, 0, 0], [1, 1, 5]]) is None
    pair.check_channels()


def test_steps_are_those_of_the_loops() -> None:
    pair = filled()
    before = pair.machine.steps
    assert pair.apply("walk", [[0], [0], [1]]) is None
    assert pair.machine.steps - before == 2 + sum(3 + 2 * (i % 6) for i in range(1, FAN + 1))
