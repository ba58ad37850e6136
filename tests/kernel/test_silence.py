"""Silent blocks: what happens in them happens, and nobody is told."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.kernel.printer import show_program
from everview.kernel.program import (
    Add,
    Call,
    Compute,
    Emit,
    Find,
    Function,
    If,
    Instruction,
    KeyOf,
    Lit,
    Math,
    Procedure,
    Product,
    Program,
    Reg,
    Remove,
    Scan,
    Silent,
    Table,
)
from everview.kernel.program import Test as Comparison
from everview.kernel.verifier import ProgramError, verify
from everview.programs.optimise import optimise
from tests.kernel.programs import Pair, ProgramMaker, argument_columns
from tests.scale import thoroughness

A, B, R, S, N = (Reg(name) for name in "abrsn")
BAG = Table("bag", ("x", "y"), ("n",), ((0,),))


def machine(*body: Instruction, optimised: bool) -> Pair:
    """``go(a, b)`` runs the body; ``told(a, b)`` adds one to a pair and emits it, ``all(a)`` emits a group."""
    told = Procedure("told", (A, B), (Add(R, "bag", (A, B), (Lit(1),)), Emit("out", (A, B))))
    emits = Emit("out", (KeyOf(S, "bag", 0), KeyOf(S, "bag", 1)))
    listed = Procedure("all", (A,), (Scan(S, "bag", 0, (A,), 0, (emits,)),))
    program = Program((BAG,), (("out", 2),), (told, listed, Procedure("go", (A, B), body)))
    return Pair(program, optimise(program) if optimised else None)


@pytest.mark.parametrize("optimised", [False, True])
class TestSilence:
    def test_what_is_called_is_silent_too_and_it_ends_with_the_block(self, optimised: bool) -> None:
        call = Call("told", (A, B))
        inner = Silent((call, Silent((call, Emit("out", (A, A)))), call))
        pair = machine(Emit("out", (A, Lit(1))), inner, Emit("out", (A, Lit(2))), call, optimised=optimised)
        pair.apply("go", [[5, 6], [7, 7]])
        assert pair.reference._channels["out"] == [(5, 1), (5, 2), (5, 7), (6, 1), (6, 2), (6, 7)]
        assert [values for _, values, _ in pair.machine.dump("bag")] == [(4,), (4,)]
        pair.check_channels()

    def test_nests_are_silent(self, optimised: bool) -> None:
        body = (
            Call("told", (A, B)),
            Silent((Call("all", (A,)),)),
            If(Comparison.EQUAL, B, Lit(3), (Call("all", (A,)),)),
        )
        pair = machine(*body, optimised=optimised)
        pair.apply("go", [[1, 1, 1], [1, 2, 3]])
        assert len(pair.reference._channels["out"]) == 3 + 3
        pair.check_channels()

    def test_what_is_not_told_cannot_fault_and_what_happens_can(self, optimised: bool) -> None:
        quiet = Silent((Emit("out", (Product((A, A)), B)), Call("told", (B, B))))
        pair = machine(quiet, Compute(N, Math.ADD, A, Lit(1)), optimised=optimised)
        assert pair.apply("go", [[2**62], [1]]) is None
        loud = machine(Silent((Compute(N, Math.MULTIPLY, A, A), Call("told", (N, B)))), optimised=optimised)
        assert loud.apply("go", [[3, 2**62], [1, 1]]) == "overflow"
        assert loud.apply("told", [[1], [1]]) is None  # a fault in silence does not make the next update silent
        loud.check_channels()


def test_a_function_may_be_silent_but_not_speak() -> None:
    loud = Procedure("loud", (A,), (Emit("out", (A,)),))
    for body in ((Silent((Call("loud", (A,)), Compute(N, Math.ADD, A, Lit(1)))),), (Call("loud", (A,)),)):
        program = Program((), (("out", 1),), (loud,), functions=(Function("f", (A,), body, (A,)),))
        if isinstance(body[0], Silent):
            pair = Pair(program)
            pair.check_functions(Random(1))
            pair.check_channels()
        else:
            with pytest.raises(ProgramError, match="only read"):
                verify(program)


def test_handles_that_are_void_within_are_void_after() -> None:
    gone = Silent((Remove(R, "bag"),))
    after = Emit("out", (KeyOf(R, "bag", 0), B))
    found = Find(R, "bag", (A, B), (gone, after))
    with pytest.raises(ProgramError, match="r holds no row of bag"):
        verify(Program((BAG,), (("out", 2),), (Procedure("p", (A, B), (found,)),)))


def test_it_is_shown() -> None:
    program = Program((), (("out", 1),), (Procedure("p", (A,), (Silent((Emit("out", (A,)),)),)),))
    assert "  silently\n    emit out: a" in show_program(program)


@thoroughness(40)
@given(st.integers(0, 2**40))
def test_a_silent_procedure_changes_the_same_and_tells_nothing(seed: int) -> None:
    """Of a random program: each procedure beside a copy all of whose body is silent."""
    random = Random(seed)
    program = ProgramMaker(random).program()
    silent = tuple(Procedure(f"silent {p.name}", p.parameters, (Silent(p.body),)) for p in program.procedures)
    both = Program(program.tables, program.channels, (*program.procedures, *silent))
    loud, quiet = Pair(both), Pair(both)
    for _ in range(5):
        procedure = random.choice(program.procedures)
        columns = argument_columns(random, procedure.parameters, partial(random.randint, 0, 3), 6)
        told = loud.apply(procedure.name, columns)
        kept = quiet.apply(f"silent {procedure.name}", columns)
        assert not any(quiet.machine.pending(name) for name, _ in program.channels)
        if told is not None:  # it may have faulted in what it tells, which the silent one does not compute
            return
        assert kept is None
        for table in program.tables:
            assert loud.machine.dump(table.name) == quiet.machine.dump(table.name)
