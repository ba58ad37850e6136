"""Random formulas and updates: the census beside brute force, in all that can be asked of it."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from everview.kernel.census.faults import DegreeFault
from everview.query.formula import Fact, FormulaQuery, Quantifier, Residue, conjunction
from everview.query.terms import Var
from tests.kernel.census.harness import MAKERS, SAME, Beside, change, names_of, program_of, without_guards
from tests.query.formulas import ARITIES, random_query, random_update
from tests.scale import scaled

MOST_RADIUS = 4
A, B = Var("a"), Var("b")


def query_of(random: Random, arity: int, rank: int = 2):
    while True:
        query = random_query(random, arity, rank)
        program = program_of(query)
        if program.radius <= MOST_RADIUS and max(program.typed_radii, default=0) <= MOST_RADIUS:
            return query


def changes_between(before, after):
    return [
        (name, row, weight)
        for name in ARITIES
        for weight, rows in ((-1, before[name] - after[name]), (1, after[name] - before[name]))
        for row in sorted(rows)
    ]


def case(seed: int, arity: int, updates: int) -> None:
    random = Random(seed)
    elements = random.choice((3, 6, 8))
    beside = Beside(query_of(random, arity), domain=random.choice(("schema", "query")))
    beside.compare()
    for _ in range(updates):
        after = {name: set(rows) for name, rows in beside.rows.items()}
        for _ in range(random.choice((1, 1, 1, 2, 8))):
            random_update(random, after, elements, 3)
        changes = changes_between(beside.rows, after)
        random.shuffle(changes)
        if random.random() < 0.15:
            beside.taken_back(*changes)
        beside.update(*changes)


@pytest.mark.parametrize("arity", [0, 1, 2])
def test_random_formulas_are_kept(arity: int) -> None:
    for seed in range(scaled((40, 40, 15)[arity], least=3)):
        case(1_000 * arity + seed, arity, 6)


def test_random_formulas_with_three_columns_are_listed_and_tested() -> None:
    for seed in range(scaled(6, least=2)):
        case(7_000 + seed, 3, 3)


def test_guards_do_not_change_what_is_true() -> None:
    tried = 0
    for seed in range(scaled(200, least=60)):
        random = Random(seed)
        query = random_query(random, random.choice((0, 1, 2)))
        program = program_of(query)
        bare = without_guards(program)
        if bare == program or max(bare.radius, *bare.typed_radii, 0) > MOST_RADIUS:
            continue
        tried += 1
        rows = {name: set() for name in ARITIES}
        for _ in range(8):
            random_update(random, rows, 5, 3)
        found = []
        for one, make in product((program, bare), MAKERS):
            census = make(one)
            census.begin()
            change(census, names_of(one), [(name, row, 1) for name in rows for row in rows[name]])
            census.settle()
            found.append(sorted(census.rows()))
        assert all(rows == found[0] for rows in found), query
    assert tried > 5


@pytest.mark.parametrize("make", MAKERS)
def test_what_came_and_went_leaves_nothing(make) -> None:
    """The census after an insertion and its deletion is what it was; and all is as if it had been counted at once."""
    for seed in range(scaled(30, least=3)):
        random = Random(seed)
        query = query_of(random, random.choice((1, 2)))
        program = program_of(query)
        kept = make(program)
        rows = {name: set() for name in ARITIES}
        for _ in range(12):
            before = {name: set(found) for name, found in rows.items()}
            random_update(random, rows, 6, 3)
            kept.begin()
            change(kept, names_of(program), changes_between(before, rows))
            kept.settle()
            kept.commit()
        was = _summary(kept)
        after = {name: set(found) for name, found in rows.items()}
        random_update(random, after, 6, 3)
        for one, other in ((rows, after), (after, rows)):
            kept.begin()
            change(kept, names_of(program), changes_between(one, other))
            kept.settle()
            kept.commit()
        assert _summary(kept) == was
        anew = make(program)
        anew.begin()
        change(anew, names_of(program), [(name, row, 1) for name in rows for row in rows[name]])
        anew.settle()
        assert _summary(anew) == was
        kept.resume()
        assert _summary(kept) == was


def _summary(census):
    stats = census.stats()
    return {name: stats[name] for name in SAME}, set(census.rows()), census.count()


def test_elements_are_any_words_and_their_numbers_are_used_again() -> None:
    random = Random(22)
    pool = [random.randrange(-(2**63), 2**63) for _ in range(400)] + [-(2**63), 2**63 - 1, 0, -1]
    query = FormulaQuery("q", (A,), Quantifier(Residue(1, 2), B, conjunction([Fact("E", (A, B)), Fact("B", (B,))])))
    program = program_of(query)
    censuses = [make(program) for make in MAKERS]
    facts: set[tuple[str, tuple[int, ...]]] = set()
    for _ in range(scaled(150, least=50)):
        changes = []
        for _ in range(random.randint(1, 12)):
            if facts and random.random() < 0.48:
                fact = random.choice(sorted(facts))
                facts.discard(fact)
                changes.append((*fact, -1))
                continue
            name = random.choice("BE")
            fact = (name, tuple(random.choice(pool) for _ in range(ARITIES[name])))
            if fact not in facts:
                facts.add(fact)
                changes.append((*fact, 1))
        told = []
        for census in censuses:
            census.begin()
            change(census, names_of(program), changes)
            refused = False
            try:
                census.settle()
            except DegreeFault:
                refused = True
            told.append((not refused, census.count(), sorted(census.rows()), census.stats()["elements"]))
            census.commit()
        assert told[0] == told[1]
        if not told[0][0]:
            for name, row, weight in reversed(changes):
                (facts.discard if weight > 0 else facts.add)((name, row))
