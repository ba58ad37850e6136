"""What keys say of the variables of atoms: some of them determine others, so that a join has fewer rows.

The rows of a join are no more than those of one of its atoms, where that one's variables determine all others in turn
by keys of the atoms that are joined: the AGM bound over edges that are closed under them is a bound of the join.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.query.conjunctive import ConjunctiveQuery
from everview.query.constraints import Constraints
from everview.query.terms import Var

Edge = frozenset[Var]


@dataclass(frozen=True, slots=True)
class Dependency:
    """In the rows of an edge, by its place, some variables have one value for each value of others."""

    edge: int
    determinant: Edge
    dependent: Edge
    name: str = ""
    """What gives it, in words."""
    is_relied_on: bool = False


def dependencies_of(query: ConjunctiveQuery, constraints: Constraints) -> tuple[Dependency, ...]:
    """What keys and other functional dependencies say of the atoms of a query; constants determine nothing."""
    found = []
    for i, atom in enumerate(query.atoms):
        for d in constraints.functional:
            if d.relation.lower() != atom.relation.lower():
                continue
            determinant = _variables([atom.terms[p] for p in d.determinant])
            told = atom.variables if d.is_key else _variables([atom.terms[p] for p in d.dependent])
            if told - determinant:
                kind = "the primary key" if d.is_key else "a functional dependency"
                name = f"{kind} of {atom.relation}"
                found.append(Dependency(i, determinant, told - determinant, name, d.is_relied_on))
    return tuple(found)


def _variables(terms: Sequence[object]) -> Edge:
    return frozenset(t for t in terms if isinstance(t, Var))


def closure(given: Edge, variables: Edge, dependencies: Sequence[Dependency]) -> Edge:
    """Which of some variables the given ones determine, in turn, themselves among them."""
    known = given & variables
    grows = bool(dependencies)
    while grows:
        grows = False
        for d in dependencies:
            more = d.dependent & variables
            if d.determinant <= known and not more <= known:
                known |= more
                grows = True
    return known


def closed(edges: Sequence[Edge], variables: Edge, dependencies: Sequence[Dependency]) -> Sequence[Edge]:
    """The edges, each with all of the variables that its own ones determine."""
    return [closure(e, variables, dependencies) for e in edges] if dependencies else edges
