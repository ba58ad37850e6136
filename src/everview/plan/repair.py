"""Which change to the query or the schema would make every update constant time, and what constraints already give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, islice, permutations
from math import comb
from typing import NamedTuple

from everview.plan.core_plan import CorePlan, plan_core
from everview.query.chase import simplified
from everview.query.classify import Classification
from everview.query.conjunctive import ConjunctiveQuery, Semantics
from everview.query.constraints import (
    Constraints,
    FunctionalDependency,
    InclusionDependency,
    restricted_domains,
)
from everview.query.hierarchy import is_q_hierarchical
from everview.query.options import ONLY_TEST
from everview.query.terms import Const, Var, names

MOST_VARIABLES = 3
"""A repair that touches more variables than this is no advice."""
MOST_PAIRS = 500_000
"""Advice is not worth a search that looks at more pairs of variables, over all combinations that it tries."""
CUT = "the search for changes that would make every update constant time was cut: there may be more than shown"


MOST_DECLARATIONS = 12
"""So many keys and foreign keys are tried, each by planning the query anew; only for queries of so many atoms, too."""


def declarations(core: CorePlan, constraints: Constraints, tables: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The keys and foreign keys that would make updates constant time, if they hold and are declared: a line each.

    ``tables`` has the names of the columns of those relations of which something can be declared, in lower case.
    """
    found: list[str] = []
    if len(core.query.atoms) > MOST_DECLARATIONS or set(core.constant_update_for) & {"any", "keyed"}:
        return ()
    declared = islice(_undeclared(core.query, constraints, tables), MOST_DECLARATIONS)
    tried: set[Constraints] = set()
    for said, more in declared:
        if more in tried:  # Another occurrence of the same table.
            continue
        tried.add(more)
        kinds = _kinds_under(core, more)
        if kinds & {"any", "keyed"}:
            kind = "constant time" if "any" in kinds else "amortised constant time"
            found.append(f"{said}, if it holds and is declared, would make every update take {kind}")
    return tuple(dict.fromkeys(found))


def if_only_tested(cores: Sequence[CorePlan]) -> tuple[str, ...]:
    """What it would give if the rows of these cores were not listed, but only tested: constant time, for some."""

    def is_constant(core: CorePlan) -> bool:
        facts = replace(core.facts, options=replace(core.facts.options, answers=ONLY_TEST))
        planned = plan_core(core.core, facts.rates, facts.options, facts.never_null, facts.constraints, told=facts.told)
        return "any" in planned.constant_update_for

    might = all(core.classification.t_hierarchical and core.facts.options.answers is None for core in cores)
    if not cores or not might or not all(map(is_constant, cores)):
        return ()
    return ("if rows are only tested, OPTIONS (answers = 'test') makes every update and every test take constant time",)


def _kinds_under(core: CorePlan, constraints: Constraints) -> set[str]:
    """The kinds of updates that would be constant time under constraints, after the rewriting that they allow."""
    found = simplified(core.core.query, constraints)
    if found is None:
        return set()
    facts = core.facts
    planned = plan_core(
        replace(core.core, query=found.query),
        facts.rates,
        facts.options,
        facts.never_null,
        constraints,
        told=facts.told,
    )
    return set(planned.constant_update_for)


def _undeclared(
    query: ConjunctiveQuery, constraints: Constraints, tables: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, Constraints]]:
    """The foreign keys that could point at keys there are, then the keys of one joined column that could be."""
    atoms = [a for a in query.atoms if a.relation.lower() in tables]
    for atom, target in permutations(atoms, 2):
        for key in constraints.keys_of(target.relation):
            terms = [target.terms[i] for i in key.determinant]
            if atom.relation == target.relation or not all(isinstance(t, Var) and t in atom.terms for t in terms):
                continue
            places = tuple(atom.terms.index(t) for t in terms)
            foreign = InclusionDependency(atom.relation, places, target.relation, key.determinant, unique=True)
            if foreign not in constraints.inclusions:
                columns = ", ".join(tables[atom.relation.lower()][i] for i in places)
                said = f"FOREIGN KEY ({columns}) REFERENCES {target.relation} in {atom.relation}"
                yield said, replace(constraints, inclusions=(*constraints.inclusions, foreign))
    for atom in atoms:
        if constraints.keys_of(atom.relation):
            continue
        for i, v in enumerate(atom.terms):
            if isinstance(v, Var) and len(query.atoms_of[v]) > 1 and atom.terms.index(v) == i:
                rest = tuple(j for j in range(len(atom.terms)) if j != i)
                key = FunctionalDependency(atom.relation, (i,), rest, is_key=True)
                said = f"PRIMARY KEY ({tables[atom.relation.lower()][i]}) in {atom.relation}"
                yield said, replace(constraints, functional=(*constraints.functional, key))


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
