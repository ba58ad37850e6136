"""Which rows of which tables are the facts that a formula asks for.

An atom of the formula, as ``bond(_, x, y, 'double')``, asks for one *fact relation*: the columns that hold variables,
of the rows whose other columns are as the atom says. So columns that meet only constants or ``_`` are labels of facts,
and no elements; and a constant beside variables needs no quantifier of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from everview.query.formula import (
    ANY_VALUE,
    And,
    Equal,
    Fact,
    Formula,
    Not,
    Or,
    Quantifier,
    subformulas,
)
from everview.query.terms import Const, Term, Var


@dataclass(frozen=True)
class FactSource:
    """Which rows of a table give facts: the columns of the elements, those that must be as said, and not NULL."""

    table: str
    columns: tuple[int, ...]
    tests: tuple[tuple[int, Const], ...] = ()
    not_null: tuple[int, ...] = ()
    bit: tuple[int, int] | None = None
    """A column of whole numbers, and the bit that must be set in it: on shards, rows come for several readers."""


@dataclass(frozen=True)
class FactRelation:
    """The facts that atoms of one shape ask for; or, if it ``has_edges`` not, rows that only give elements."""

    name: str
    arity: int
    sources: tuple[FactSource, ...]
    has_edges: bool = True


def shape(formula: Fact | Equal) -> str:
    """The name of the fact relation that an atom asks for: the atom without its variables."""
    if isinstance(formula, Fact):
        inner = ", ".join("·" if _is_variable(t) else str(t) for t in formula.terms)
        return f"{formula.relation}({inner})"
    return f"· = {next(t for t in (formula.left, formula.right) if isinstance(t, Const))}"


def bound(formula: Formula) -> Formula:
    """A formula over fact relations: the same, its atoms without constants and ``_``."""
    match formula:
        case Fact(_, terms):
            return Fact(shape(formula), tuple(t for t in terms if _is_variable(t)), formula.position)
        case Equal(left, right) if len(formula.free) < 2 and left != right:
            return Fact(shape(formula), tuple(t for t in (left, right) if _is_variable(t)), formula.position)
        case Not(body):
            return Not(bound(body))
        case And(parts):
            return And(tuple(map(bound, parts)))
        case Or(parts):
            return Or(tuple(map(bound, parts)))
        case Quantifier(_, _, body):
            return replace(formula, body=bound(body))
    return formula


def atoms(formula: Formula) -> list[Fact | Equal]:
    """The atoms of a formula that ask for a fact relation, each shape once."""
    found: dict[str, Fact | Equal] = {}
    for part in subformulas(formula):
        if isinstance(part, Fact) or (isinstance(part, Equal) and len(part.free) == 1 and part.left != part.right):
            found.setdefault(shape(part), part)
    return list(found.values())


def _is_variable(term: Term) -> bool:
    return isinstance(term, Var) and term != ANY_VALUE
