"""Random programs: the machine does to the letter what the reference interpreter does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from everview.kernel import Machine, Unit
from everview.kernel.program import Program
from everview.kernel.verifier import verify
from tests.kernel.programs import VALUES, Pair, ProgramMaker, argument_columns
from tests.scale import thoroughness


def usual_word(random: Random, base: list[int], spread: int) -> int:
    return random.choice(base) + random.randint(0, spread)


def run(seed: int, rewritten: Callable[[Program], Program] = lambda program: program) -> Counter[str]:
    random = Random(seed)
    program = ProgramMaker(random).program()
    verify(program)
    on_machine = rewritten(program)
    pair = Pair(program, on_machine)
    seen: Counter[str] = Counter()
    for _ in range(random.randint(1, 12)):
        procedure = random.choice(program.procedures)
        size = random.randint(0, 12)
        spread = random.choice([1, 3, 6])
        far = random.choice([0, 0, 0, 2**31 - 1, -(2**31), -(2**63)])  # Where words no longer fit 32 bits.
        base = [0] * 9 + [far]
        usual = partial(usual_word, random, base, spread)
        columns = argument_columns(random, procedure.parameters, usual, size)
        seen[str(pair.apply(procedure.name, columns, random.randint(0, 3)))] += 1
        if random.random() < 0.5:
            pair.check_channels()
        seen += pair.check_cursors(random)
        seen += pair.check_functions(random)
        if random.random() < 0.2:
            data = pair.machine.snapshot()
            pair.machine = Unit(on_machine, Machine(VALUES))
            pair.machine.restore(data)
            pair.check()
            assert pair.machine.snapshot() == data
            for name, _ in program.channels:
                pair.reference.take(name)
    pair.check_channels()
    rows = [values for t in program.tables for _, values, _ in pair.reference.dump(t.name)]
    seen["rows"] += len(rows)
    seen["beyond a word"] += sum(not -(2**63) <= v < 2**63 for values in rows for v in values)
    return seen


@thoroughness(150)
@given(st.integers(0, 2**40))
def test_machine_and_reference_agree(seed: int) -> None:
    run(seed)


def test_the_random_programs_do_something() -> None:
    seen = sum((run(seed) for seed in range(80)), Counter())
    assert min(seen["None"], seen["overflow"], seen["program"], seen["rows"], seen["answers"]) > 10, seen
    assert min(seen["lists"], seen["unions"], seen["faulty cursors"]) > 10, seen
    assert seen["beyond a word"] > 0, seen
