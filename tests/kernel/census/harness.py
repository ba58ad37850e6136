"""A census beside brute force: both take the same updates, and everything that can be asked of one is of the other."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from everview.kernel.census.faults import DegreeFault
from everview.kernel.census.machine import Census
from everview.kernel.census.program import And, CensusProgram, CensusRelation, Node, Not, Or, Quantify
from everview.kernel.census.reference import CensusReference
from everview.query.formula import FormulaQuery, facts
from everview.query.formula_normal import normalised
from everview.strategies.fo_mod.lower import lower
from tests.query.formulas import ARITIES, Model

Rows = dict[str, set[tuple[Any, ...]]]
Maker = Callable[[CensusProgram], Any]
MAKERS: tuple[Maker, ...] = (CensusReference, Census)
SAME = ("elements", "facts", "max_degree", "types", "accepted_types", "sentences", "suspended")
"""The figures of which all implementations must have the same."""


def program_of(query: FormulaQuery, degree: int = 3, domain: str = "schema", rewritten: bool = True) -> CensusProgram:
    """The census program of a query over the relations of random databases."""
    mentioned = {fact.relation for fact in facts(query.formula)}
    relations = [
        CensusRelation(name, arity, has_edges=name in mentioned)
        for name, arity in ARITIES.items()
        if name in mentioned or domain == "schema"
    ]
    return lower(normalised(query) if rewritten else query, relations, degree)


def without_guards(program: CensusProgram) -> CensusProgram:
    """The same query, in which every quantifier with a guard is taken for one without."""

    def bare(node: Node) -> Node:
        match node:
            case Not():
                return Not(bare(node.body))
            case And() | Or():
                return type(node)(tuple(map(bare, node.parts)))
            case Quantify():
                return replace(node, body=bare(node.body), guard=None)
            case _:
                return node

    return replace(program, formula=bare(program.formula))


def change(census: Any, names: Sequence[str], rows: Iterable[tuple[str, tuple[Any, ...], int]]) -> None:
    """Say to a census what rows come and go."""
    for name, row, weight in rows:
        if name in names:
            columns = [array("q", [value]) for value in row]
            census.apply(names.index(name), columns, array("q", [weight]))


def names_of(program: CensusProgram) -> list[str]:
    """The names of its relations, in order."""
    return [relation.name for relation in program.relations]


def difference(census: Any) -> tuple[list[list[int]], list[int]]:
    """What has changed since this was last asked, in lists."""
    columns, signs = census.take_difference()
    return [numbers(column) for column in columns], numbers(signs)


def numbers(column: Any) -> list[int]:
    """A column of words as a list."""
    return column if isinstance(column, list) else memoryview(column).cast("B").cast("q").tolist()


class Beside:
    """Census implementations beside brute force, for one query."""

    def __init__(
        self, query: FormulaQuery, makers: Sequence[Maker] = MAKERS, degree: int = 3, domain: str = "schema"
    ) -> None:
        self.query = query
        self.domain = domain
        self.program = program_of(query, degree, domain)
        self.names = names_of(self.program)
        self.censuses = [make(self.program) for make in makers]
        self.rows: Rows = {name: set() for name in ARITIES}
        self.told: list[set[tuple[Any, ...]]] = [set() for _ in makers]
        if self.arity <= 2:
            for census, told in zip(self.censuses, self.told, strict=True):
                census.told(True)
                told |= set(self.listed(census))

    @property
    def arity(self) -> int:
        return len(self.query.head)

    def model(self, rows: Rows | None = None) -> Model:
        rows = self.rows if rows is None else rows
        if self.domain == "query":
            rows = {name: rows[name] for name in self.names}
        return Model.of(rows, self.query.formula)

    def listed(self, census: Any, prefix: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
        return list(census.rows_with_prefix(prefix))

    def update(self, *changes: tuple[str, tuple[Any, ...], int]) -> None:
        """A batch that must be taken; and everything is compared."""
        for census in self.censuses:
            census.begin()
            change(census, self.names, changes)
            census.settle()
            census.commit()
        for name, row, weight in changes:
            (self.rows[name].add if weight > 0 else self.rows[name].discard)(row)
        self.compare()

    def refused(self, *changes: tuple[str, tuple[Any, ...], int]) -> None:
        """A batch that must be refused for its degree, and change nothing."""
        for census in self.censuses:
            census.begin()
            change(census, self.names, changes)
            for _ in range(2):  # It is pending still: what comes now may make it good.
                with pytest.raises(DegreeFault):
                    census.settle()
            census.roll_back()
        self.compare()

    def taken_back(self, *changes: tuple[str, tuple[Any, ...], int]) -> None:
        """A batch that is taken, and then taken back."""
        for census in self.censuses:
            census.begin()
            change(census, self.names, changes)
            census.settle()
            census.roll_back()
        self.compare()

    def compare(self) -> None:
        model = self.model()
        expected = model.answers(self.query)
        figures = [{name: census.stats()[name] for name in SAME} for census in self.censuses]
        assert all(found == figures[0] for found in figures), (self.query, figures)
        elements: list[Any] = sorted(model.elements)  # type: ignore[type-var]
        for census, told in zip(self.censuses, self.told, strict=True):
            listed = self.listed(census)
            assert len(listed) == len(set(listed)), self.query
            assert set(listed) == expected, (self.query, self.rows)
            for row in product([*elements, 99], repeat=self.arity):
                assert census.test(row) == (row in expected), (self.query, row)
            for first in elements if self.arity > 1 else ():
                found = self.listed(census, (first,))
                assert sorted(found) == sorted(r for r in expected if r[0] == first), (self.query, first)
            if self.arity <= 2:
                assert census.count() == len(expected), self.query
                columns, signs = difference(census)
                for row, sign in zip(
                    zip(*columns, strict=True) if self.arity else [()] * len(signs), signs, strict=True
                ):
                    row = tuple(row)
                    assert (row in told) == (sign < 0), (self.query, row, sign)
                    (told.add if sign > 0 else told.discard)(row)
                assert told == expected, self.query
            assert census.truth() == bool(expected)
