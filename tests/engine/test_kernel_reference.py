"""The engine's programs on the kernel and on the reference interpreter: the same to the letter, batch by batch."""

from __future__ import annotations

import random

import pytest

from everview.kernel.wide_numbers import words_of
from everview.programs.base_table import compile_base
from everview.programs.counts import compile_fold
from everview.query.conjunctive import Semantics
from everview.query.terms import Var
from tests.scale import scaled
from tests.strategies import shapes
from tests.strategies.harness import Driver
from tests.strategies.machines import Both
from tests.support import relations_of


def core_run(seed: int) -> None:
    """A core under batches of several updates, woken and put to sleep between them."""
    r = random.Random(seed)
    query = shapes.query(r, r.choice(list(Semantics)))
    sums: list[tuple[int, Var]] = []
    if query.semantics is Semantics.BAG:
        places = [(i, t) for i, a in enumerate(query.atoms) for t in a.terms if isinstance(t, Var)]
        sums = r.choices(places, k=r.randint(0, 2)) if places else []
    factor = r.choice([1, -3, 2**63 - 1, 10**38, -(2**250)])
    sums_up = query.semantics is Semantics.BAG and r.random() < 0.7
    driver = Driver(query, Both, tuple(sums), factor, sums_up, with_deltas=r.random() < 0.5)
    machine = driver.machine
    for _ in range(r.randint(2, 6)):
        if r.random() < 0.2:
            driver.switch(not driver.with_deltas)
        entry = r.choice(driver.maintained.entries)
        arity = relations_of(driver.plan.query)[entry.relation]
        there = driver.database.setdefault(entry.relation, [])
        rows = []
        for _ in range(r.randint(1, 5)):
            if there and r.random() < 0.4:
                rows.append(driver.arguments(entry, there.pop(r.randrange(len(there))), -1))
            else:
                there.append(tuple(r.randint(1, 2) for _ in range(arity)))
                rows.append(driver.arguments(entry, there[-1], 1))
        machine.apply(
            entry.with_deltas if driver.with_deltas else entry.state_only, [list(c) for c in zip(*rows, strict=True)]
        )
        machine.take("delta")
        machine.rows("result")
    assert driver.listed() == driver.expected()


@pytest.mark.parametrize("part", range(2))
def test_cores(part: int) -> None:
    for seed in range(part * 1_000_000, part * 1_000_000 + scaled(24)):
        try:
            core_run(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


def _few(r: random.Random, words: int) -> tuple[int, ...]:
    """A number's words, far from what so many hold."""
    return words_of(r.randint(-2, 2) * r.choice([1, 2 ** (64 * words - 16)]), words)


def test_folds() -> None:
    for seed in range(scaled(24)):
        r = random.Random(seed)
        width = r.randint(0, 3)
        widths = tuple(r.choice([1, 1, 2, 3, 6]) for _ in range(r.randint(1, 3)))
        machine = Both(compile_fold(width, widths))
        for _ in range(r.randint(1, 8)):
            size = r.randint(1, 6)
            words = [[r.randint(0, 2) for _ in range(size)] for _ in range(width)]
            changes = [list(column) for w in widths for column in zip(*(_few(r, w) for _ in range(size)), strict=True)]
            procedure = r.choice(["add", "trace"])
            machine.apply(procedure, words + changes)
            machine.take("trace")
            machine.rows("touched")
            machine.rows("all")
            if r.random() < 0.5:
                machine.apply("settle", [[0]])
                if width:
                    machine.apply("drop", words)
                assert not machine.rows("touched")


def test_base_tables() -> None:
    for seed in range(scaled(24)):
        r = random.Random(seed)
        width = r.randint(1, 3)
        key = tuple(sorted(r.sample(range(width), r.randint(0, width))))
        machine = Both(compile_base(width, key))
        for _ in range(r.randint(1, 8)):
            size = r.randint(1, 6)
            words = [[r.randint(0, 2) for _ in range(size)] for _ in range(width)]
            machine.apply("change", [*words, [r.choice((-1, 1, 1, 2)) for _ in range(size)]])
            machine.take("over_deleted")
            machine.take("duplicate_key")
            machine.rows("all")
            if key:
                machine.rows("by_key", [r.randint(0, 2) for _ in key])
