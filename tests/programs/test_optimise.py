"""Optimised programs do the same: the kernel on the optimised one against the reference on the one as written."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.kernel.program import (
    Add,
    Call,
    Compute,
    Count,
    Each,
    Emit,
    Find,
    GetLevel,
    If,
    Instruction,
    KeyOf,
    Lit,
    Math,
    Procedure,
    Program,
    Reg,
    Remove,
    Scan,
    SetLevel,
    Silent,
    Store,
    Table,
    ValueOf,
)
from everview.kernel.program import Test as Comparison
from everview.programs.optimise import optimise, size
from everview.strategies.crown import compile as compiled
from tests.kernel.programs import Pair
from tests.kernel.test_machine_random import run
from tests.scale import scaled, thoroughness
from tests.strategies.machines import Both, Kernel
from tests.strategies.test_crown import hard_run

A, B, R, S, N = (Reg(name) for name in "abrsn")
PAIRS = Table("pairs", ("x", "y"), ("n",), ((0,), (1, 0)), levels=3)


def rewritten(*body: Instruction, callee: Procedure | None = None) -> tuple[Instruction, ...]:
    """A body of parameters a and b as it comes out."""
    procedures = (*((callee,) if callee else ()), Procedure("go", (A, B), body))
    return optimise(Program((PAIRS,), (("out", 1),), procedures), ["go"]).procedure("go").body


@thoroughness(80)
@given(st.integers(0, 2**40))
def test_random_programs(seed: int) -> None:
    run(seed, optimise)


class OptimisedBeside(Both):
    """The kernel runs what the optimiser makes of a program, the reference the program itself."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.kernel = Kernel(optimise(program))


@pytest.mark.parametrize("part", range(2))
def test_programs_of_hard_shapes(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "optimise", lambda program, kept: program)
    for seed in range(part * 1_000_000, part * 1_000_000 + scaled(12)):
        hard_run(seed, OptimisedBeside)


class TestCalls:
    def test_a_small_procedure_is_put_in_place_and_goes(self) -> None:
        callee = Procedure("inner", (N,), (Compute(S, Math.ADD, N, Lit(7)), Emit("out", (S,))))
        program = Program(
            (), (("out", 1),), (callee, Procedure("go", (A,), (Call("inner", (A,)), Call("inner", (A,)))))
        )
        found = optimise(program, ["go"])
        assert [p.name for p in found.procedures] == ["go"]
        assert not any(isinstance(i, Call) for i in found.procedure("go").body)
        first, second = (i.target for i in found.procedure("go").body if isinstance(i, Compute))
        assert first != second

    def test_a_large_one_stays_if_it_is_called_twice(self) -> None:
        emits = tuple(Emit("out", (N,)) for _ in range(50))
        once = Procedure("go", (A, B), (Call("inner", (A,)),))
        twice = replace(once, body=once.body * 2)
        for caller, procedures in ((once, 1), (twice, 2)):
            program = Program((), (("out", 1),), (Procedure("inner", (N,), emits), caller))
            assert len(optimise(program, ["go"]).procedures) == procedures

    def test_words_of_a_row_that_the_callee_removes_are_read_before(self) -> None:
        gone = Procedure("gone", (S, N), (Find(R, "pairs", (S, S), (Remove(R, "pairs"),)), Emit("out", (N,))))
        body = (Call("gone", (A, KeyOf(R, "pairs", 1))),)
        go = Procedure("go", (A, B), (Add(R, "pairs", (A, B), (Lit(1),), (), None), Find(R, "pairs", (A, A), body)))
        program = Program((PAIRS,), (("out", 1),), (gone, go))
        pair = Pair(program, optimise(program))
        pair.apply("go", [[1, 2, 2, 3], [1, 3, 2, 3]])
        pair.check_channels()

    def test_a_parameter_that_the_callee_changes_is_copied(self) -> None:
        callee = Procedure("inner", (N,), (Compute(N, Math.ADD, N, Lit(1)), Emit("out", (N,))))
        program = Program((), (("out", 1),), (callee, Procedure("go", (A,), (Call("inner", (A,)), Emit("out", (A,))))))
        pair = Pair(program, optimise(program))
        pair.apply("go", [[1, 5]])
        pair.check_channels()

    def test_a_row_that_the_callee_sets_anew_stays_a_call(self) -> None:
        body = (Find(R, "pairs", (Lit(1), Lit(1)), (Store(R, "pairs", 0, Lit(5)),)),)
        callee = Procedure("inner", (R,), body, ((R, "pairs"),))
        found = rewritten(Find(S, "pairs", (A, B), (Call("inner", (S,)),)), callee=callee)
        assert found == (Find(S, "pairs", (A, B), (Call("inner", (S,)),)),)


class TestLoops:
    @pytest.mark.parametrize("loop", [Scan, Each])
    def test_a_loop_over_the_whole_key_is_a_lookup(self, loop: type[Scan | Each]) -> None:
        emit = Emit("out", (ValueOf(R, "pairs", 0),))
        assert rewritten(loop(R, "pairs", 1, (A, B), 0, (emit,))) == (Find(R, "pairs", (B, A), (emit,)),)

    def test_with_a_level_that_is_asked_for(self) -> None:
        (find,) = rewritten(Each(R, "pairs", 1, (A, B), 2, (SetLevel(R, "pairs", 0),)))
        assert isinstance(find, Find)
        level, test = find.found
        assert isinstance(level, GetLevel)
        assert test == If(Comparison.AT_MOST, Lit(2), level.target, (SetLevel(R, "pairs", 0),))

    def test_with_a_range_of_levels(self) -> None:
        emit = Emit("out", (ValueOf(R, "pairs", 0),))
        for lowest in (0, 1):
            (find,) = rewritten(Scan(R, "pairs", 1, (A, B), lowest, (emit,), 1))
            assert isinstance(find, Find)
            level, test = find.found
            assert isinstance(level, GetLevel)
            inner = If(Comparison.AT_MOST, level.target, Lit(1), (emit,))
            assert test == (If(Comparison.AT_MOST, Lit(1), level.target, (inner,)) if lowest else inner)

    def test_loops_that_the_kernel_runs_at_one_go_stay_together(self) -> None:
        inner = Scan(S, "pairs", 1, (KeyOf(R, "pairs", 0), A), 0, (Emit("out", (KeyOf(S, "pairs", 0),)),))
        nest = Scan(R, "pairs", 0, (A,), 0, (inner,))
        assert rewritten(nest) == (nest,)


class TestSilence:
    emit = Emit("out", (A,))

    def test_what_is_not_told_goes(self) -> None:
        store = Find(R, "pairs", (A, B), (Store(R, "pairs", 0, A), self.emit))
        scan = Scan(S, "pairs", 0, (A,), 0, (self.emit,))
        kept = Find(R, "pairs", (A, B), (Store(R, "pairs", 0, A),))
        assert rewritten(self.emit, Silent((store, self.emit, scan))) == (self.emit, kept)

    def test_calls_stay_silent(self) -> None:
        callee = Procedure("inner", (N,), tuple(Emit("out", (N,)) for _ in range(50)))
        silent = Silent((Call("inner", (A,)), Call("inner", (B,))))
        assert rewritten(Silent((self.emit, *silent.body)), callee=callee) == (silent,)


class TestRegisters:
    def test_copies_go(self) -> None:
        copied = (Compute(N, Math.MULTIPLY, A, Lit(1)), Compute(S, Math.ADD, Lit(0), N), Emit("out", (S,)))
        assert rewritten(*copied) == (Emit("out", (A,)),)

    def test_a_copy_of_what_changes_stays(self) -> None:
        body = (Compute(N, Math.ADD, A, Lit(0)), Compute(A, Math.ADD, A, Lit(1)), Emit("out", (N,)))
        assert rewritten(*body) == body

    def test_tests_of_literals_are_decided(self) -> None:
        one, other = (Emit("out", (r,)) for r in (A, B))
        assert rewritten(If(Comparison.LESS, Lit(1), Lit(2), (one,), (other,))) == (one,)
        assert rewritten(If(Comparison.EQUAL, Lit(1), Lit(2), (one,), (other,))) == (other,)

    def test_what_nobody_reads_goes_unless_it_may_fault(self) -> None:
        product = Compute(S, Math.MULTIPLY, A, B)
        assert rewritten(Count(N, "pairs", 0, (A,), 0), product, Find(R, "pairs", (A, B))) == (product,)

    def test_size(self) -> None:
        assert size((If(Comparison.LESS, A, B, (Emit("out", (A,)),), (Emit("out", (B,)),)),)) == 3
