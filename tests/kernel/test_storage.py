"""How tables are kept: narrow and wide rows, indexes that need no storage, lookups fetched ahead. None of it shows."""

from __future__ import annotations

import gc
from random import Random

import pytest

import everview as ev
from everview.kernel import Unit
from everview.kernel.program import (
    Compute,
    Count,
    Emit,
    Find,
    If,
    Insert,
    Lit,
    Math,
    Procedure,
    Program,
    Reg,
    Remove,
    Scan,
    SetLevel,
    Store,
    Table,
    ValueOf,
)
from everview.kernel.program import (
    Test as Comparison,
)
from tests.kernel.programs import Pair, words

A, B, C, R, S, N = (Reg(name) for name in "abcrsn")
LOWEST, HIGHEST = -(2**63), 2**63 - 1
EDGES = [2**31 - 1, 2**31, -(2**31) + 1, -(2**31), -(2**31) - 1, LOWEST, LOWEST + 1, HIGHEST]
"""Words at the borders of what a narrow row can hold."""


def bag(*indexes: tuple[int, ...], levels: bool = True) -> Program:
    """A bag of pairs: ``change(a, b, c)`` adds c to the pair's number and emits those of the groups it is in."""
    loops = tuple(
        Scan(S, "t", i, tuple((A, B)[c] for c in columns), 0, (Emit("out", (ValueOf(S, "t", 0), Lit(i))),))
        for i, columns in enumerate(indexes)
    )
    body = (
        Find(R, "t", (A, B), (), (Insert(R, "t", (A, B)),)),
        Compute(N, Math.ADD, ValueOf(R, "t", 0), C),
        Store(R, "t", 0, N),
        *((SetLevel(R, "t", 1),) if levels else ()),
        *(Count(S, "t", i, tuple((A, B)[c] for c in columns), int(levels)) for i, columns in enumerate(indexes)),
        *loops,
        If(Comparison.EQUAL, N, Lit(0), (Remove(R, "t"),)),
    )
    table = Table("t", ("x", "y"), ("n",), indexes, levels=2 if levels else 1)
    return Program((table,), (("out", 2),), (Procedure("change", (A, B, C), body),))


@pytest.mark.parametrize("levels", [False, True])
@pytest.mark.parametrize("edge", EDGES)
def test_words_at_the_borders(edge: int, levels: bool) -> None:
    """As a key, as a value, among small ones, in a snapshot, and once all rows have gone."""
    pair = Pair(bag((0,), (), (1, 0), levels=levels))
    pair.apply("change", [[1, 2, 1, edge, 2], [5, 5, edge, 5, 6], [1, 1, 1, 1, 1]])
    pair.apply("change", [[3, edge], [edge, edge], [edge, 7]])
    pair.check_channels()
    other = Unit(pair.program)
    other.restore(pair.machine.snapshot())
    pair.check(other)
    pair.apply("change", [[1, 2, 1, edge, 2, edge], [5, 5, edge, 5, 6, edge], [-1, -1, -1, -1, -1, -7]])
    pair.apply("change", [[4, 1], [4, 1], [2, 3]])
    pair.check_channels()


@pytest.mark.parametrize("key", [True, False])
def test_an_update_that_made_rows_wide_is_undone(key: bool) -> None:
    body = (
        Find(R, "t", (Lit(1), Lit(1)), (Remove(R, "t"),)),
        Insert(R, "t", (A, B)),
        Store(R, "t", 0, C),
        Compute(N, Math.MULTIPLY, C, Lit(HIGHEST)),
    )
    program = bag((0,), (1,))
    pair = Pair(Program(program.tables, program.channels, (*program.procedures, Procedure("fail", (A, B, C), body))))
    pair.apply("change", [[1, 1, 2], [1, 2, 2], [1, 1, 1]])
    wide = 2**50
    assert pair.apply("fail", [[wide if key else 9], [9], [3 if key else wide]]) == "overflow"
    pair.apply("change", [[1, 1, 2], [1, 2, 2], [1, -1, 1]])
    pair.check_channels()


@pytest.mark.parametrize("indexes", [((0, 1),), ((1, 0),), ((0, 1), (1,), (1, 0))])
def test_an_index_on_the_whole_key(indexes: tuple[tuple[int, ...], ...]) -> None:
    random = Random(7)
    pair = Pair(bag(*indexes))
    for _ in range(20):
        rows = [(random.randrange(6), random.randrange(6), random.choice([-1, 1])) for _ in range(15)]
        pair.apply("change", [list(column) for column in zip(*rows, strict=True)])
        pair.check_channels()
    plain = Unit(bag((0,)))
    whole = Unit(bag((0, 1)))
    for machine in (plain, whole):
        machine.apply("change", [words(list(range(2_000)))] * 2 + [words([1] * 2_000)])
        machine.discard("out")
    assert whole.nbytes() < plain.nbytes()


def test_large_batches_after_the_state_was_replaced() -> None:
    """Lookups are fetched ahead for large tables; another state has other indexes, and batches stop and go on."""
    random = Random(3)
    program = bag((0,), (1,), (0, 1))
    machine, slow = Unit(program), Unit(program)
    kept = machine.snapshot()
    for turn in range(6):
        rows = [(random.randrange(9_000), random.randrange(9_000), 1) for _ in range(6_000)]
        rows += [(a, b, -1) for a, b, _ in random.sample(rows, 3_000)]
        columns = [words(list(column)) for column in zip(*rows, strict=True)]
        at = 0
        while at < len(rows):
            at += machine.apply("change", [c[at:] for c in columns], most_pending=5_000)
            machine.discard("out")
        for i in range(0, len(rows), 5):  # So few at a time that nothing is fetched ahead.
            slow.apply("change", [c[i : i + 5] for c in columns])
        assert machine.dump("t") == slow.dump("t")
        assert machine.steps == slow.steps
        if turn % 2:
            machine.clear(), slow.clear()
        elif turn == 2:
            machine.restore(kept), slow.restore(kept)


SCHEMA = "CREATE TABLE g (src BIGINT NOT NULL, dst BIGINT NOT NULL)"
VIEWS = {
    "tree": "SELECT x.src, y.src AS mid, y.dst FROM g x JOIN g y ON x.dst = y.src",
    "fold": "SELECT src, COUNT(*) AS n, SUM(dst) AS total FROM g GROUP BY src",
    "star": "SELECT x.src, COUNT(*) AS n FROM g x JOIN g y ON x.src = y.src GROUP BY x.src",
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_database_emptied_again_is_as_small_as_a_new_one(name: str) -> None:
    others = [m for m in gc.get_objects() if isinstance(m, Unit)]
    db = ev.Database()
    db.sql(SCHEMA)
    db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS[name]}")
    machines = [m for m in gc.get_objects() if isinstance(m, Unit) and m not in others]
    assert len(machines) >= (3 if name == "fold" else 2)
    fresh = [machine.nbytes() for machine in machines]
    random = Random(1)
    rows = [(random.randrange(400), random.randrange(400)) for _ in range(3_000)]
    db.insert("g", rows)
    assert sum(machine.nbytes() for machine in machines) > 20 * sum(fresh)
    random.shuffle(rows)
    for i in range(0, len(rows), 700):
        db.delete("g", rows[i : i + 700])
    assert len(db.view("v")) == 0
    for machine, before in zip(machines, fresh, strict=True):
        assert machine.nbytes() <= 1.05 * before
    db.insert("g", rows[:5])
    assert len(db.view("v").to_arrow()) == len(db.view("v"))


def test_a_bag_emptied_again_is_as_small_as_a_new_one() -> None:
    machine = Unit(bag((0,), (), (1, 0)))
    fresh = machine.nbytes()
    rows = [words(list(range(3_000))), words([i * 2**40 for i in range(3_000)])]
    machine.apply("change", [*rows, words([1] * 3_000)])
    machine.apply("change", [*rows, words([-1] * 3_000)])
    machine.discard("out")
    assert machine.nbytes() <= 1.05 * fresh
