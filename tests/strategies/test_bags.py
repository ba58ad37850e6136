"""Bags over shared tables: self-joins with loops and several copies, and joins that go on with the shorter list."""

from __future__ import annotations

import random

import pytest

from everview.kernel.effects import flat
from everview.kernel.program import Add, Call, Program, Scan
from everview.kernel.reference import Reference
from everview.query.conjunctive import Atom, ConjunctiveQuery, Semantics
from everview.query.terms import Const, Var
from tests.scale import scaled
from tests.strategies.harness import Driver
from tests.strategies.machines import Both, Kernel

SHAPES = {
    "triangle": ["ab", "bc", "ca"],
    "transitive triangle": ["ab", "bc", "ac"],
    "square": ["ab", "bc", "cd", "da"],
    "clique of four": ["ab", "ac", "ad", "bc", "bd", "cd"],
    "two triangles": ["ab", "bc", "ca", "cd", "de", "ec"],
    "triangle with a tail": ["ab", "bc", "ca", "ad"],
    "back and forth": ["ab", "ba", "bc", "ca"],
}


def query(r: random.Random, edges: list[str], semantics: Semantics) -> ConjunctiveQuery:
    """The shape over one relation, or two, now and then with a constant or an output that keeps it apart."""
    second = r.random() < 0.2
    atoms = []
    for i, edge in enumerate(edges):
        terms = [Var(v) for v in edge]
        atoms.append(Atom("h" if second and i == len(edges) - 1 else "g", tuple(terms)))
    if r.random() < 0.15:
        atoms.append(Atom("g", (Var("a"), Const(1))))
    known = sorted(set("".join(edges)))
    head = r.choice([[], known[:1], known, r.sample(known, r.randint(0, len(known)))])
    return ConjunctiveQuery(tuple(map(Var, head)), tuple(atoms), semantics=semantics)


@pytest.mark.parametrize("semantics", list(Semantics), ids=lambda s: s.value)
@pytest.mark.parametrize("shape", SHAPES)
def test_loops_and_copies(shape: str, semantics: Semantics) -> None:
    """A row that joins with itself counts exactly as often as DuckDB says, in the feed and in the state."""
    for seed in range(scaled(6)):
        r = random.Random(seed)
        sums: tuple[tuple[int, Var], ...] = ()
        asked = query(r, SHAPES[shape], semantics)
        if semantics is Semantics.BAG and r.random() < 0.3:
            at = r.randrange(len(asked.atoms))
            sums = ((at, r.choice([t for t in asked.atoms[at].terms if isinstance(t, Var)])),)
        driver = Driver(asked, Both, sums, with_deltas=r.random() < 0.6)
        domain = r.choice((2, 3))
        for _ in range(r.randint(4, 9)):
            if r.random() < 0.1:
                driver.switch(not driver.with_deltas)
            relation = r.choice(sorted({a.relation for a in asked.atoms}))
            there = driver.database.get(relation, [])
            if there and r.random() < 0.4:
                row = r.choice(there)
                driver.update(relation, row, -r.randint(1, there.count(row)))
            else:
                row = (r.randint(1, domain), r.randint(1, domain))
                driver.update(relation, row, r.choice((1, 1, 2)))
            driver.check()
        for relation, rows in driver.database.items():
            for row in set(rows):
                driver.update(relation, row, -rows.count(row))
        driver.check()
        assert driver.rows_left() == {}, seed


@pytest.mark.parametrize("factor", [1, 2**100])
@pytest.mark.parametrize("semantics", list(Semantics), ids=lambda s: s.value)
@pytest.mark.parametrize("head", ["pqs", "", "a", "pa", "abcpqs"])
def test_a_bag_of_guards_alone(head: str, semantics: Semantics, factor: int) -> None:
    """A triangle whose atoms have variables of their own: the bag only bounds theirs, and its rows count once."""
    atoms = tuple(
        Atom(relation, tuple(map(Var, terms))) for relation, terms in (("r", "abp"), ("s", "bcq"), ("t", "cas"))
    )
    asked = ConjunctiveQuery(tuple(map(Var, head)), atoms, semantics=semantics)
    is_bag = semantics is Semantics.BAG
    sums = ((1, Var("q")), (2, Var("s"))) if is_bag and head in ("", "a", "pa") else ()
    for with_deltas in (False, True):
        driver = Driver(asked, Both, sums, factor, sums_up=is_bag, with_deltas=with_deltas)
        if head == "pqs":
            assert ((), (0, 1, 2)) in [(r.atoms, r.guards) for r in driver.plan.maintenance.relations]
        r = random.Random(head)
        for _ in range(24):
            relation = r.choice("rst")
            there = driver.database.get(relation, [])
            if there and r.random() < 0.3:
                driver.update(relation, r.choice(there), -1)
            else:
                driver.update(relation, (r.randint(1, 2), r.randint(1, 2), r.randint(-3, 3)), r.choice((1, 2)))
            driver.check()


def parts(program: Program) -> list[str]:
    return [t.name for t in program.tables if (".part" in t.name or ".guard" in t.name) and " heavy " not in t.name]


def test_atoms_that_take_the_same_rows_share_a_table() -> None:
    triangle = ConjunctiveQuery((), tuple(Atom("g", (Var(e[0]), Var(e[1]))) for e in SHAPES["triangle"]))
    shared = Driver(triangle, Reference).maintained
    assert len(parts(shared.program)) == 1
    assert [o.atom for e in shared.entries for o in e.atom_inputs] == [0]


def test_atoms_that_take_other_rows_do_not() -> None:
    atoms = [Atom("g", (Var("a"), Var("b"))), Atom("g", (Var("b"), Var("c"))), Atom("h", (Var("c"), Var("a")))]
    assert len(parts(Driver(ConjunctiveQuery((), tuple(atoms)), Reference).maintained.program)) == 2
    constant = [*atoms[:2], Atom("g", (Var("c"), Var("a"), Const(1)))]
    assert len(parts(Driver(ConjunctiveQuery((), tuple(constant)), Reference).maintained.program)) == 2


def test_the_shorter_list_is_walked() -> None:
    """A hub has many neighbours; an edge between it and a leaf takes a few steps whichever way it points."""
    triangle = ConjunctiveQuery((), tuple(Atom("g", (Var(e[0]), Var(e[1]))) for e in SHAPES["triangle"]))
    steps = {}
    for size in (20, 200):
        driver = Driver(triangle, Kernel, with_deltas=False)
        for i in range(2, size):
            driver.update("g", (1, i), 1)
        before = driver.machine.machine.steps
        driver.update("g", (0, 1), 1)
        driver.update("g", (1, 0), 1)
        steps[size] = driver.machine.machine.steps - before
    assert steps[20] == steps[200]


def test_what_changes_one_row_is_handed_on_once() -> None:
    """The count of triangles is added up in a register, not in the table of the result for each triangle."""
    triangle = ConjunctiveQuery((), tuple(Atom("g", (Var(e[0]), Var(e[1]))) for e in SHAPES["triangle"]))
    program = Driver(triangle, Reference).maintained.program
    every = [i for p in program.procedures for i in flat(p.body)]
    assert any(isinstance(i, Add) and i.table.endswith(".out") for i in every)
    loops = [i for i in every if isinstance(i, Scan)]
    assert loops
    assert not any(isinstance(i, Add | Call) for loop in loops for i in flat(loop.body))


@pytest.mark.parametrize(
    ("shape", "head", "walks"),
    [
        ("triangle", "abc", 1),
        ("triangle", "", 1),
        ("triangle", "a", 1),
        ("transitive triangle", "abc", 3),
        ("clique of four", "abcd", 6),
        ("back and forth", "abc", 4),
    ],
)
def test_what_atoms_meet_in_several_roles_is_looked_for_once(shape: str, head: str, walks: int) -> None:
    """Turning a triangle turns its sides; the sides of other shapes all meet something else."""
    atoms = tuple(Atom("g", (Var(e[0]), Var(e[1]))) for e in SHAPES[shape])
    program = Driver(ConjunctiveQuery(tuple(map(Var, head)), atoms), Reference).maintained.program
    joins = [p for p in program.procedures if p.name.endswith(".join")]
    assert len(joins) == walks


@pytest.mark.parametrize("closes", [False, True], ids=["none", "forty"])
def test_a_triangle_is_told_in_three_roles_after_one_walk(closes: bool) -> None:
    """Steps of an edge between two vertices that have many neighbours: one list is walked, once, whatever it closes.

    What it closes is told three times, with one product; three tables have each told once.
    """
    found = {}
    for relations in ("ggg", "rst"):
        atoms = tuple(Atom(r, (Var(e[0]), Var(e[1]))) for r, e in zip(relations, SHAPES["triangle"], strict=True))
        driver = Driver(ConjunctiveQuery((Var("a"), Var("b"), Var("c")), atoms), Kernel)
        for i in range(40):
            for relation in sorted(set(relations)):
                driver.update(relation, (1, 10 + i), 1)
                driver.update(relation, (10 + i if closes else 100 + i, 0), 1)
        before = driver.machine.machine.steps
        driver.update(relations[0], (0, 1), 1)
        found[relations] = driver.machine.machine.steps - before
    assert found["ggg"] <= found["rst"] + 10 + (2 * 40 * 4 if closes else 0)
