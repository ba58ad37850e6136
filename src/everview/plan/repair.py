"""Which change to the query or the schema would make every update constant time, and what constraints already give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from math import comb
from typing import NamedTuple

from everview.query.classify import Classification
from everview.query.conjunctive import ConjunctiveQuery, Semantics
from everview.query.constraints import Constraints, restricted_domains
from everview.query.hierarchy import is_q_hierarchical
from everview.query.terms import Const, Var, names

MOST_VARIABLES = 3
"""A repair that touches more variables than this is no advice."""
MOST_PAIRS = 500_000
"""Advice is not worth a search that looks at more pairs of variables, over all combinations that it tries."""
CUT = "the search for changes that would make every update constant time was cut: there may be more than shown"


class _Change(NamedTuple):
    """The variables that a change touches, none if no such change was found, and whether the search was cut."""

    variables: tuple[Var, ...] = ()
    cut: bool = False


def repairs(verdict: Classification, constraints: Constraints) -> tuple[str, ...]:
    """One line a change that makes the query q-hierarchical, smallest first; nothing for one that is already."""
    if verdict.q_hierarchical:
        return ()
    query = verdict.minimal
    found = list(_by_constraints(query, constraints.about(query)))
    joined = frozenset(v for v, atoms in query.atoms_of.items() if len(atoms) > 1)  # only these can be in the way
    outputs = _smallest(query, query.bound & joined, lambda vs: query.with_head((*query.head, *vs)))
    if outputs.variables:
        found.append(f"output {names(outputs.variables)} as well, and every update takes constant time")
    fixed = _smallest(query, query.free | joined, lambda vs: query.substitute({v: Const(0) for v in vs}))
    if fixed.variables:
        columns = " and ".join(_column(query, v) for v in sorted(fixed.variables))
        found.append(f"a small domain (CHECK … IN) for {columns} would make it a union of constant-time queries")
    if outputs.cut or fixed.cut:
        found.append(CUT)
    return tuple(dict.fromkeys(found))


def _smallest(
    query: ConjunctiveQuery, variables: frozenset[Var], changed: Callable[[tuple[Var, ...]], ConjunctiveQuery]
) -> _Change:
    """The fewest variables with which the changed query is q-hierarchical, if a few will do."""
    left = MOST_PAIRS
    for size in range(1, MOST_VARIABLES + 1):
        left -= comb(len(variables), size) * comb(len(query.telling) + 1, 2)
        if left < 0:
            return _Change(cut=True)
        for chosen in combinations(sorted(variables), size):
            if is_q_hierarchical(changed(chosen)):
                return _Change(chosen)
    return _Change()


def _column(query: ConjunctiveQuery, v: Var) -> str:
    """A variable as a person finds it: by the first relation that has it."""
    atom = next(a for a in query.atoms if v in a.variables)
    return f"{v} (in {atom.relation})"


def _by_constraints(query: ConjunctiveQuery, constraints: Constraints) -> Iterator[str]:
    """What small domains that are declared would allow (ucq-constraints.md 9.3); keys are used already."""
    if not constraints:
        return
    domains = restricted_domains(query, constraints)
    if domains is None:
        return
    elif domains and query.semantics is Semantics.SET:
        fixed = query.substitute({v: Const(0) for v in domains})
        if is_q_hierarchical(fixed) and not is_q_hierarchical(query):
            listed = names(domains)
            yield (
                f"the small domain of {listed} makes it a union of q-hierarchical queries; it is used for joins "
                "without options, and up to 16 members"
            )
