"""Formulas for tests: what they mean, computed by trying all elements, and random ones over random small databases."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from random import Random

from everview.query.formula import (
    And,
    AtLeast,
    Distance,
    Equal,
    Fact,
    Formula,
    FormulaQuery,
    Not,
    Or,
    Quantifier,
    Residue,
    Truth,
    facts,
)
from everview.query.terms import Const, Term, Var

Rows = Mapping[str, set[tuple[object, ...]]]


@dataclass(frozen=True)
class Model:
    """A database, by definition: its facts, its active domain, and how far elements are apart."""

    facts: Rows
    elements: frozenset[object]
    neighbours: Mapping[object, set[object]]

    @staticmethod
    def of(rows: Rows, formula: Formula, further: frozenset[object] = frozenset()) -> Model:
        """The model of the relations that a formula asks for; other relations give elements only."""
        mine = {f.relation for f in facts(formula)}
        elements = frozenset(v for found in rows.values() for row in found for v in row) | further
        neighbours: dict[object, set[object]] = {e: set() for e in elements}
        for row in (row for name in mine for row in rows.get(name, ())):
            for a, b in combinations(set(row), 2):
                neighbours[a].add(b)
                neighbours[b].add(a)
        return Model(rows, elements, neighbours)

    @property
    def degree(self) -> int:
        """The most neighbours that an element has."""
        return max(map(len, self.neighbours.values()), default=0)

    def distance(self, start: object, end: object) -> float:
        """How many steps lead from one element to another."""
        seen, waiting = {start: 0}, deque([start])
        while waiting:
            at = waiting.popleft()
            for other in self.neighbours[at]:
                if other not in seen:
                    seen[other] = seen[at] + 1
                    waiting.append(other)
        return seen.get(end, float("inf"))

    def holds(self, formula: Formula, at: Mapping[Var, object]) -> bool:
        """Whether a formula holds where its free variables stand for some elements."""

        def value(term: Term) -> object:
            return term.value if isinstance(term, Const) else at[term]

        match formula:
            case Truth(found):
                return found
            case Fact(relation, terms):
                return tuple(map(value, terms)) in self.facts.get(relation, ())
            case Equal(left, right):
                return value(left) == value(right)
            case Distance(left, right, bound):
                return self.distance(value(left), value(right)) <= bound
            case Not(body):
                return not self.holds(body, at)
            case And(parts):
                return all(self.holds(p, at) for p in parts)
            case Or(parts):
                return any(self.holds(p, at) for p in parts)
            case Quantifier(condition, variable, body):
                return condition.holds(sum(self.holds(body, {**at, variable: e}) for e in self.elements))
        raise AssertionError(formula)

    def answers(self, query: FormulaQuery) -> set[tuple[object, ...]]:
        """All answers of a query."""
        every = product(self.elements, repeat=len(query.head))
        return {row for row in every if self.holds(query.formula, dict(zip(query.head, row, strict=True)))}


ARITIES = {"B": 1, "R": 1, "E": 2, "T": 3}
"""The relations of random databases."""


def random_rows(random: Random, elements: int = 8, degree: int = 3) -> dict[str, set[tuple[object, ...]]]:
    """A small database of a bounded degree."""
    rows: dict[str, set[tuple[object, ...]]] = {name: set() for name in ARITIES}
    for _ in range(random.randint(0, 14)):
        random_update(random, rows, elements, degree)
    return rows


def random_update(random: Random, rows: dict[str, set[tuple[object, ...]]], elements: int, degree: int) -> None:
    """A row more, or less, that leaves the degree bounded."""
    name = random.choice(tuple(ARITIES))
    if rows[name] and random.random() < 0.4:
        rows[name].discard(random.choice(sorted(rows[name])))  # type: ignore[type-var]
        return
    row = tuple(random.randint(1, elements) for _ in range(ARITIES[name]))
    rows[name].add(row)
    everything = And(tuple(Fact(r, tuple(Var(f"v{i}") for i in range(n))) for r, n in ARITIES.items()))
    if Model.of(rows, everything).degree > degree:
        rows[name].discard(row)


def random_formula(random: Random, free: tuple[Var, ...], rank: int, names: Iterator[Var] | None = None) -> Formula:
    """A formula with some of these free variables, and quantifiers nested so deep at most."""
    names = names or (Var(f"q{i}") for i in range(1_000))
    kind = random.random()
    if rank and kind < 0.5:
        variable = next(names) if random.random() < 0.8 or not free else random.choice(free)
        inner = (*(v for v in free if v != variable), variable)
        condition = random.choice(
            (AtLeast(1), AtLeast(1), AtLeast(2), AtLeast(3), Residue(0, 2), Residue(1, 2), Residue(2, 3), Residue(0, 3))
        )
        parts = tuple(random_formula(random, inner, rank - 1, names) for _ in range(random.randint(1, 3)))
        body = parts[0] if len(parts) == 1 else And(parts) if random.random() < 0.75 else Or(parts)
        return Quantifier(condition, variable, body)
    if kind < 0.6:
        return Not(random_formula(random, free, rank, names))
    if kind < 0.72:
        two = tuple(random_formula(random, free, rank, names) for _ in range(2))
        return And(two) if random.random() < 0.6 else Or(two)
    return _random_atom(random, free)


def _random_atom(random: Random, free: tuple[Var, ...]) -> Formula:
    if not free:
        return Truth(random.random() < 0.5)
    kind = random.random()
    if kind < 0.12:
        return Equal(random.choice(free), random.choice(free))
    if kind < 0.2:
        return Distance(random.choice(free), random.choice(free), random.randint(0, 3))
    name = random.choice(tuple(ARITIES))
    return Fact(name, tuple(random.choice(free) for _ in range(ARITIES[name])))


def random_query(random: Random, arity: int, rank: int = 2) -> FormulaQuery:
    """A query over random databases."""
    head = tuple(Var(name) for name in "abc"[:arity])
    return FormulaQuery("q", head, random_formula(random, head, rank))
