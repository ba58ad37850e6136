"""The test cases of fo-mod.md, section 10, beside brute force; M10, of radii, is with what judges formulas."""

from __future__ import annotations

from typing import Any

import pytest

from everview.kernel.census.evaluator import Evaluator
from everview.kernel.census.faults import Steps
from everview.kernel.census.listing import _conflict_free
from everview.kernel.census.program import CensusProgram, CensusRelation, Truth
from everview.kernel.census.structure import Storage
from everview.query.formula import AtLeast, Equal, Fact, FormulaQuery, Not, Quantifier, Residue, conjunction
from everview.query.terms import Var
from tests.kernel.census.harness import Beside

X, Y, Z = Var("x"), Var("y"), Var("z")
F1 = [
    *(("E", row, 1) for row in [(1, 2), (1, 3), (2, 3), (4, 1)]),
    *(("B", (a,), 1) for a in (1, 2, 4)),
    *(("R", (a,), 1) for a in (2, 3)),
]


def atom(relation: str, *terms: Var) -> Fact:
    return Fact(relation, terms)


def both(*parts: Any) -> Any:
    return conjunction(parts)


class Case(Beside):
    """A query over F1, and what it and its differences must be, step by step."""

    def __init__(self, head: tuple[Var, ...], formula: Any, base: Any = F1, **options: Any) -> None:
        super().__init__(FormulaQuery("q", head, formula), **options)
        self.update(*base)

    def must_be(self, *rows: Any) -> None:
        expected = {row if isinstance(row, tuple) else (row,) for row in rows}
        for census in self.censuses:
            assert set(census.rows()) == expected
            if self.arity <= 2:
                assert census.count() == len(expected)

    def by(self, sign: str, relation: str, *row: int) -> tuple[set[Any], set[Any]]:
        """One update: which rows come and go, as all censuses say."""
        before = [set(told) for told in self.told]
        self.update((relation, row, 1 if sign == "+" else -1))
        found = {(frozenset(t - b), frozenset(b - t)) for b, t in zip(before, self.told, strict=True)}
        assert len(found) == 1
        came, went = found.pop()
        return {r[0] if self.arity == 1 else r for r in came}, {r[0] if self.arity == 1 else r for r in went}


def test_m1_guarded_parity() -> None:
    odd = Quantifier(Residue(1, 2), Y, both(atom("E", X, Y), atom("R", Y)))
    case = Case((X,), both(atom("B", X), odd))
    assert case.program.radius == 1
    assert case.program.typed_radii == ()
    case.must_be(2)
    assert case.by("+", "R", 1) == ({4}, set())
    assert case.by("-", "R", 3) == ({1}, {2})
    case.must_be(1, 4)


def test_m2_global_parity() -> None:
    empty = Case((), Quantifier(Residue(0, 2), X, atom("B", X)), base=[])
    assert empty.censuses[0].truth()
    assert not Case((), Quantifier(Residue(1, 2), X, atom("B", X)), base=[]).censuses[0].truth()
    case = Case((), Quantifier(Residue(0, 2), X, atom("B", X)))
    assert not case.censuses[0].truth()
    assert case.by("+", "B", 3) == ({()}, set())
    assert case.by("-", "B", 1) == (set(), {()})


def test_m3_binary_with_negation() -> None:
    case = Case((X, Y), both(atom("B", X), atom("R", Y), Not(atom("E", X, Y))))
    assert case.program.radius == 0
    case.must_be((2, 2), (4, 2), (4, 3))
    assert case.by("+", "E", 4, 3) == (set(), {(4, 3)})
    assert case.by("+", "R", 5) == ({(1, 5), (2, 5), (4, 5)}, set())
    assert case.by("-", "B", 2) == (set(), {(2, 2), (2, 5)})
    case.must_be((1, 5), (4, 2), (4, 5))


def test_m4_unguarded_quantifier() -> None:
    far = Quantifier(AtLeast(1), Y, both(Not(atom("E", X, Y)), Not(Equal(X, Y)), atom("R", Y)))
    case = Case((X,), far)
    assert case.program.radius == 1
    assert case.program.typed_radii == (0, 1)
    case.must_be(3, 4)
    assert case.by("+", "R", 5) == ({1, 2, 5}, set())
    assert case.by("-", "R", 5) == (set(), {1, 2, 5})
    assert case.by("+", "E", 3, 2) == (set(), {3})
    case.must_be(4)


def test_m5_active_domain() -> None:
    case = Case((X,), Not(atom("B", X)), base=[("E", (1, 2), 1), ("B", (1,), 1)])
    case.must_be(2)
    assert case.by("-", "E", 1, 2) == (set(), {2})
    assert case.by("+", "E", 3, 3) == ({3}, set())


def test_m6_nested_sentence() -> None:
    inner = Quantifier(AtLeast(1), Y, both(atom("E", X, Y), Not(atom("B", Y))))
    case = Case((), Quantifier(AtLeast(2), X, both(atom("B", X), inner)))
    assert case.censuses[0].truth()
    assert case.by("+", "E", 4, 3) == (set(), set())
    assert case.by("-", "E", 1, 3) == (set(), set())
    assert case.by("-", "E", 4, 3) == (set(), {()})


def test_m7_unguarded_modulo() -> None:
    case = Case((X,), Quantifier(Residue(0, 3), Y, Not(atom("E", X, Y))))
    case.must_be(2, 4)
    assert case.by("+", "E", 3, 4) == ({3}, set())
    assert case.by("+", "B", 9) == ({1}, {2, 3, 4})


def test_m8_degree_bound() -> None:
    case = Case((X,), Quantifier(Residue(0, 3), Y, Not(atom("E", X, Y))))
    stats = [census.stats() for census in case.censuses]
    case.refused(("E", (1, 5), 1))
    kept = ("elements", "facts", "types", "sentences")
    for before, census in zip(stats, case.censuses, strict=True):
        assert {name: before[name] for name in kept} == {name: census.stats()[name] for name in kept}
    case.must_be(2, 4)
    case.update(("E", (2, 1), 1))
    case.update(("E", (1, 1), 1))
    # It is judged at the end: what comes too much is made good by what goes, whatever the order.
    case.update(("E", (1, 5), 1), ("E", (4, 1), -1))


@pytest.mark.parametrize("domain", ["schema", "query"])
def test_m9_domain(domain: str) -> None:
    case = Case((X,), Not(atom("B", X)), base=[("B", (1,), 1), ("R", (7,), 1)], domain=domain)
    case.must_be(*([7] if domain == "schema" else []))


def test_m11_conflict_graph() -> None:
    """The colours are {1..6} and {4, 5, 6}; what is near is 1 and 4, 2 and 5, and everybody to himself."""
    relations = (CensusRelation("E", 2),)
    program = CensusProgram(relations, 2, Truth(True), degree=3)
    storage = Storage(relations, 3, 1, Steps())
    storage.take({(0, row): 1 for row in [(1, 4), (2, 5), (3, 3), (6, 6)]}, judged=True)
    evaluator = Evaluator(program, storage, Steps())
    lists = [[(a,) for a in range(1, 7)], [(a,) for a in (4, 5, 6)]]
    found = list(_conflict_free(evaluator, lists))
    assert len(found) == len(set(found)) == 13
