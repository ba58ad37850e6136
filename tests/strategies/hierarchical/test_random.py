"""Random hierarchical queries under random updates: results, deltas and invariants after each (T14, T16)."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from everview.query.conjunctive import ConjunctiveQuery, Semantics
from everview.query.hierarchy import hierarchical_violation, q_violation
from everview.strategies.hierarchical.order import Mode
from tests.scale import scaled
from tests.strategies.hierarchical.driver import Run, query_of
from tests.strategies.machines import Both, Kernel

EPSILONS = [Fraction(e) for e in ("0", "1/5", "1/4", "1/3", "1/2", "3/4", "4/5", "1")]
SHAPES = {
    "W1": ("AC", "RAB", "SBC"),
    "W2": ("A", "RAB", "SB"),
    "W4": ("ACD", "RAB", "SBC", "TBD"),
    "W7": ("ACF", "RABC", "SABD", "TAEF", "UAEG"),
    "W8": ("BCDEFG", "RABC", "SABD", "TAEF", "UAEG"),
    "W9": ("BD", "RABC", "SABD", "TAE"),
    "W10": ("CDEF", "RABD", "SABE", "TACF", "UACG"),
    "W11": ("C", "TAC", "RAB", "SAB", "UAD", "VAD"),
    "W13": ("AC", "RXBA", "SXBC"),
    "W15": ("ACE", "RAB", "SBC", "TDE", "UD"),
    "hops": ("AC", "RAB", "RBC"),
    "free above": ("XAC", "RXBA", "SXBC"),
    "count beside": ("AC", "RAB", "SBC", "TE", "UEF"),
}


def random_query(chance: random.Random) -> ConjunctiveQuery:
    """A random forest of variables, atoms along its paths from a root, and a random head."""
    while True:
        names = "ABCDEF"[: chance.randint(2, 6)]
        above = {v: chance.choice(["", *names[:i]]) for i, v in enumerate(names)}
        paths = dict.fromkeys(names, "")
        for v in names:
            here, path = v, ""
            while here:
                path, here = here + path, above[here]
            paths[v] = path
        ends = [v for v in names if v not in above.values()]
        others = chance.sample(names, chance.randint(0, 2))
        relations = "RSTUVW" if chance.random() < 0.7 else "RRSSTT"
        atoms: list[str] = []
        for v in (*ends, *others):
            arity = {len(a) for a in atoms if a[0] == relations[len(atoms) % 6]}
            relation = relations[len(atoms) % 6]
            atoms.append((relation if arity <= {len(paths[v]) + 1} else "XYZPQO"[len(atoms) % 6]) + paths[v])
        head = "".join(v for v in names if chance.random() < 0.5)
        query = query_of(head, *atoms, semantics=chance.choice(list(Semantics)))
        if not hierarchical_violation(query) and q_violation(query) and len(query.atoms) <= 6:
            return query


def row(chance: random.Random, arity: int) -> tuple[int, ...]:
    """Small numbers, the smallest most of all."""
    return tuple(min(chance.randrange(5), chance.randrange(5)) for _ in range(arity))


def churn(run: Run, chance: random.Random, updates: int, every: int) -> None:
    """Phases of mostly inserts and mostly deletes over a small, skewed domain; feeds open and close on the way.

    Half of the time there is data before the first update.
    """
    arity = {a.relation: len(a.terms) for a in run.query.atoms}
    if chance.random() < 0.5:
        run.load({name: {row(chance, n): chance.randint(1, 3) for _ in range(12)} for name, n in arity.items()})
        run.check()
    for number in range(updates):
        if chance.random() < 0.04:
            run.switch(not run.with_deltas)
        relation = chance.choice(sorted(arity))
        rows = run.database.setdefault(relation, {})
        if rows and chance.random() < (0.2 if number // (updates // 3) % 2 == 0 else 0.75):
            found = chance.choice(sorted(rows))
            change = -chance.randint(1, rows[found])
        else:
            found = row(chance, arity[relation])
            change = chance.choice([1, 1, 1, 2])
        run.update(relation, found, change)
        if number % every == 0:
            run.check()
    run.check()


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_shapes_of_the_paper(shape: str, semantics: Semantics) -> None:
    head, *atoms = SHAPES[shape]
    query = query_of(head, *atoms, semantics=semantics)
    for number in range(scaled(5, least=2)):
        chance = random.Random(f"{shape} {number}")
        mode = chance.choice(list(Mode))
        churn(Run(query, EPSILONS[(number * 3) % len(EPSILONS)], mode), chance, 60, 4)


@pytest.mark.parametrize("part", range(4))
def test_random_queries(part: int) -> None:
    for number in range(scaled(12, least=2)):
        chance = random.Random(f"{part} {number}")
        query = random_query(chance)
        churn(Run(query, chance.choice(EPSILONS), chance.choice(list(Mode))), chance, 60, 4)


def test_kernel_and_reference_agree() -> None:
    for number, (head, *atoms) in enumerate(SHAPES.values()):
        chance = random.Random(number)
        churn(Run(query_of(head, *atoms), chance.choice(EPSILONS), machine_of=Both), chance, 24, 8)


def test_one_update_of_several_copies_is_several_updates() -> None:
    head, *atoms = SHAPES["W10"]
    one, several = (Run(query_of(head, *atoms), Fraction(1, 3), machine_of=Kernel) for _ in range(2))
    chance = random.Random(1)
    for _ in range(60):
        relation = chance.choice("RSTU")
        row = tuple(chance.randrange(3) for _ in range(3))
        one.update(relation, row, 2)
        several.update(relation, row)
        several.update(relation, row)
    assert one.result() == several.result()
    for table in one.maintained.program.tables:
        assert sorted(one.machine.dump(table.name)) == sorted(several.machine.dump(table.name))


@pytest.mark.parametrize("mode", Mode)
def test_what_is_loaded_is_what_updates_make(mode: Mode) -> None:
    """A row that comes again, and with other copies, while it is loaded; then everything is the same but N."""
    chance = random.Random("loaded")
    for head, *atoms in SHAPES.values():
        query = query_of(head, *atoms)
        loaded, updated = (Run(query, Fraction(1), mode) for _ in range(2))
        arity = {a.relation: len(a.terms) for a in query.atoms}
        rows = [(name, row(chance, n), chance.randint(1, 3)) for name, n in arity.items() for _ in range(9)]
        for name, found, copies in rows:
            loaded.update(name, found, copies, load=True)
            updated.update(name, found, copies)
        assert loaded.maintained.build is not None
        loaded.machine.apply(loaded.maintained.build, [[0]])
        loaded.check()
        for table in loaded.maintained.program.tables:
            if table.name != "parts":
                assert sorted(loaded.machine.dump(table.name)) == sorted(updated.machine.dump(table.name)), table.name


def test_state_is_gone_when_the_data_is() -> None:
    head, *atoms = SHAPES["W10"]
    run = Run(query_of(head, *atoms), Fraction(1, 4))
    churn(run, random.Random(5), 90, 30)
    for relation, rows in list(run.database.items()):
        for row, copies in list(rows.items()):
            run.update(relation, row, -copies)
    for table in run.maintained.program.tables:
        if table.name != "parts":
            assert run.machine.dump(table.name) == [], table.name
