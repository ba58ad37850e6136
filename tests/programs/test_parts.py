"""Thresholds are exact for ε = p/q, and N follows the size as the theory says (docs/theory/triangle.md 4, 12)."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest

from everview.kernel.program import Call, Compute, Lit, Math, Procedure, Program, Reg
from everview.kernel.verifier import verify
from everview.programs.parts import COLUMNS, MOST_DENOMINATOR, ThresholdBase, threshold
from tests.scale import scaled
from tests.strategies.machines import Both

EPSILONS = sorted({Fraction(p, q) for q in range(1, MOST_DENOMINATOR + 1) for p in range(q + 1)})
FEW = [Fraction(0), Fraction(1, 4), Fraction(1, 3), Fraction(1, 2), Fraction(2, 3), Fraction(3, 4), Fraction(1)]


def program(epsilon: Fraction) -> Program:
    """``grow`` changes the size by so much and checks it; ``base`` sets N; ``anew`` begins anew."""
    base = ThresholdBase(epsilon)
    by, n = Reg("by"), Reg("n")
    major = base.counted("moved", Lit(1))
    procedures = (
        *base.procedures,
        Procedure("grow", (by,), base.opened((*base.counted("size", by), *base.checked(major)))),
        Procedure("anew", (by,), base.opened((*base.counted("size", by), *base.begun_anew(major)))),
        Procedure("base", (n,), base.opened((Call(f"{base.name}.thresholds", (n,)),))),
    )
    found = Program((base.table,), (), procedures)
    verify(found)
    return found


def state(machine: Both) -> dict[str, int]:
    [(_, values, _)] = machine.dump("parts")
    return dict(zip(COLUMNS, values, strict=False))


def is_threshold(d: int, n: int, epsilon: Fraction, numerator: int, denominator: int) -> bool:
    """d is the smallest whole number with d ≥ numerator/denominator · n^ε."""
    p, q = epsilon.numerator, epsilon.denominator
    wanted = numerator**q * n**p
    return (denominator * d) ** q >= wanted > (denominator * (d - 1)) ** q


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_thresholds_are_exact(epsilon: Fraction) -> None:
    machine = Both(program(epsilon))
    random = Random(f"{epsilon}")
    exact = [k**epsilon.denominator for k in (2, 3, 7)]
    bases = [1, 2, 3, 4, 41, 65, 2**35, 2**36 - 1, *exact, *(n + 1 for n in exact), *(n - 1 for n in exact)]
    bases += [random.randrange(1, 2 ** random.randrange(2, 37)) for _ in range(scaled(10))]
    for n in bases:
        if n >= 2**36:
            continue
        machine.apply("base", [[n]])
        now = state(machine)
        for column, numerator, denominator in (
            ("heavy_from", 1, 1),
            ("heavy_until", 1, 2),
            ("light_until", 3, 2),
        ):
            assert is_threshold(now[column], n, epsilon, numerator, denominator), (n, column)
            assert now[column] == threshold(n, epsilon, numerator, denominator)


@pytest.mark.parametrize("epsilon", FEW, ids=str)
def test_the_base_doubles_and_halves(epsilon: Fraction) -> None:
    """Vector 20.1: nine rows come and go; N after each, and the majors at the 6th and 9th deletion."""
    machine = Both(program(epsilon))
    found = []
    for change in [1] * 9 + [-1] * 9:
        machine.apply("grow", [[change]])
        found.append(state(machine)["N"])
    assert found == [2, 4, 4, 8, 8, 8, 8, 16, 16, 16, 16, 16, 16, 16, 7, 7, 7, 2]
    assert state(machine)["majors"] == state(machine)["moved"] == 6


def test_the_size_may_jump() -> None:
    machine = Both(program(Fraction(1, 2)))
    random = Random(20)
    size = 0
    for _ in range(scaled(300, 50)):
        change = max(-size, random.choice([1, 2, 3, 30, -1, -2, -3, -30]))
        size += change
        machine.apply("grow", [[change]])
        now = state(machine)
        assert now["size"] == size
        assert now["N"] // 4 <= size < now["N"]


def test_a_base_begins_with_the_data_there_is() -> None:
    machine = Both(program(Fraction(1, 2)))
    machine.apply("anew", [[20]])
    now = state(machine)
    assert [now[c] for c in COLUMNS[:5]] == [41, 20, 7, 4, 10]


@pytest.mark.parametrize("epsilon", [Fraction(-1, 2), Fraction(3, 2), Fraction(1, 11)], ids=str)
def test_other_fractions_are_refused(epsilon: Fraction) -> None:
    with pytest.raises(ValueError, match="denominator"):
        ThresholdBase(epsilon)


def test_a_number_of_the_base_is_counted() -> None:
    base = ThresholdBase(Fraction(1, 2), "mine")
    twice = Reg("twice")
    body = (Compute(twice, Math.MULTIPLY, Reg("by"), Lit(2)), *base.counted("minors", twice))
    machine = Both(Program((base.table,), (), (*base.procedures, Procedure("count", (Reg("by"),), base.opened(body)))))
    machine.apply("count", [[3]])
    assert dict(zip(COLUMNS, machine.dump("mine")[0][1], strict=False))["minors"] == 6
