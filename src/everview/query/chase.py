"""Queries as their keys and foreign keys allow them to be: the chase, and what it makes superfluous (theory 9.4, 9.5).

The chase adds to a query what declared constraints imply: a row that refers has the row that it refers to, and two rows
with the same key are one. What comes out has the same result on every database that keeps the constraints, and says
more. An atom is superfluous, under set semantics, if the query maps to what the chase makes of the rest: then the rest
has no more results. This finds at once what no single foreign key implies, a chain of them or several together. For
bags an atom goes by one foreign key at a time, or by a chain of them (``closed``), as its copies must be one.

Foreign keys that form a cycle make the chase endless, so it has an end here; what is not found then is not known to be
needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

from everview.query.conjunctive import Atom, ConjunctiveQuery, Semantics
from everview.query.constraints import (
    Constraints,
    Dependency,
    FunctionalDependency,
    InclusionDependency,
    drop_implied_atoms,
    rank_of,
    unify_by_keys,
)
from everview.query.hierarchy import is_q_hierarchical
from everview.query.homomorphism import Budget, find_homomorphism, surviving_members, without_atom
from everview.query.terms import Term, Var

MOST_ADDED: Final = 24
"""The chase adds so many atoms at most."""
MOST_STEPS: Final = 20_000
"""So many times the search for superfluous atoms may try to map one atom to another."""
MOST_ATOMS: Final = 16
"""Queries of more atoms lose what a chain of foreign keys implies, and nothing is tried beyond that."""
MOST_CLOSED: Final = 200
"""So many foreign keys are looked at, those that follow from others among them."""
_FRESH: Final = "·"
"""What the names of variables begin with that the chase adds: no query's own do."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """An atom that was dropped, and the constraints by which it is superfluous; by none it is so in any database."""

    atom: Atom
    by: tuple[Dependency, ...]


@dataclass(frozen=True, slots=True)
class Simplified:
    """A query with the same result on every legal database, and what it lacks, in the order in which it went."""

    query: ConjunctiveQuery
    dropped: tuple[Dropped, ...] = ()
    is_cut: bool = False
    """True if there may be better ones that were not looked at."""


def closed(constraints: Constraints, relations: Iterable[str]) -> Constraints:
    """The constraints, with the inclusions from one of some relations to another that follow from chains of them.

    A chain may go through relations that the query does not read.
    """
    wanted = {name.lower() for name in relations}
    known = {(d.relation.lower(), d.positions, d.target.lower(), d.target_positions): d for d in constraints.inclusions}
    waiting = [d for d in constraints.inclusions if d.relation.lower() in wanted]
    while waiting and len(known) < MOST_CLOSED:
        first = waiting.pop()
        for then in constraints.inclusions:
            if then.relation.lower() != first.target.lower() or not set(then.positions) <= set(first.target_positions):
                continue
            places = tuple(first.positions[first.target_positions.index(p)] for p in then.positions)
            key = (first.relation.lower(), places, then.target.lower(), then.target_positions)
            if key not in known and key[:2] != key[2:]:
                known[key] = InclusionDependency(
                    first.relation,
                    places,
                    then.target,
                    then.target_positions,
                    then.unique,
                    first.is_relied_on or then.is_relied_on,
                    f"{first.name} of {first.relation} and {then.name} of {then.relation}",
                    (*(first.chain or (first,)), then),
                )
                waiting.append(known[key])
    return replace(constraints, inclusions=tuple(known.values()))


def simplified(query: ConjunctiveQuery, constraints: Constraints) -> Simplified | None:
    """The query without what its constraints make superfluous, in the best class that is found; None: always empty."""
    unified = unify_by_keys(query, constraints)
    if unified is None:
        return None
    if query.semantics is Semantics.SET and len(unified.atoms) <= MOST_ATOMS:
        found = _Search(constraints).best(unified)
        if found is not None:
            # What goes in any database is left to whoever takes the core.
            return found if any(d.by for d in found.dropped) else Simplified(unified)
    reduced = drop_implied_atoms(unified, closed(constraints, (a.relation for a in unified.atoms)))
    dropped = tuple(Dropped(d.atom, d.dependency.chain or (d.dependency,)) for d in reduced.dropped[0])
    return Simplified(reduced.queries[0], dropped, reduced.cut)


def chased(query: ConjunctiveQuery, constraints: Constraints, others: Iterable[Atom] = ()) -> ConjunctiveQuery | None:
    """A set query with what its constraints imply; None if they make it empty.

    Its head may have other terms than the query's, at the same places. ``others`` are further atoms, which know how
    many columns their relations have.
    """
    shapes = _shapes(constraints) | {a.relation.lower(): (a.relation, len(a.terms)) for a in (*query.atoms, *others)}
    found = unify_by_keys(query, constraints)
    names = (f"{_FRESH}{n}" for n in count(1))
    useful = _reached(constraints, query)
    added = 0
    while found is not None and useful:
        known = _known(found, constraints)
        more = [a for d in useful for a in _implied(found, d, known, names, shapes[d.target.lower()])]
        if not more or added + len(more) > MOST_ADDED:
            break
        added += len(more)
        found = unify_by_keys(replace(found, atoms=(*found.atoms, *more)), constraints)
    return None if found is None else replace(found, not_null=_known(found, constraints))


def _known(query: ConjunctiveQuery, constraints: Constraints) -> frozenset[Var]:
    """The variables that are never NULL: refused, or of a column that holds none."""
    held = {
        t
        for a in query.atoms
        for i, t in enumerate(a.terms)
        if isinstance(t, Var) and constraints.never_null(a.relation, i)
    }
    return query.not_null | held


def _shapes(constraints: Constraints) -> dict[str, tuple[str, int]]:
    """The relations to which rows refer, by their names in lower case, with as many columns as constraints name."""
    found: dict[str, tuple[str, int]] = {}
    named = [
        *((d.target, d.target_positions) for d in constraints.inclusions),
        *((d.relation, d.positions) for d in constraints.inclusions),
        *((d.relation, (*d.determinant, *d.dependent)) for d in constraints.functional),
    ]
    for relation, places in named:
        known, arity = found.get(relation.lower(), (relation, 0))
        found[relation.lower()] = known, max(arity, *(p + 1 for p in places), 0)
    return found


def _reached(constraints: Constraints, query: ConjunctiveQuery) -> list[InclusionDependency]:
    """The inclusions that may add an atom to a query, one after the other."""
    there = {a.relation.lower() for a in query.atoms}
    found: list[InclusionDependency] = []
    grows = True
    while grows:
        more = [d for d in constraints.inclusions if d not in found and d.relation.lower() in there]
        found += more
        there |= {d.target.lower() for d in more}
        grows = bool(more)
    return found


def _implied(
    query: ConjunctiveQuery,
    dependency: InclusionDependency,
    known: frozenset[Var],
    names: Iterator[str],
    shape: tuple[str, int],
) -> list[Atom]:
    """The atoms that rows which refer by a foreign key imply, and that the query lacks; a NULL refers to nothing.

    ``shape`` is the relation to which they refer, as atoms name it, and how many columns it has.
    """
    relation, arity = shape
    there = (a for a in query.atoms if a.relation == relation)
    held = {tuple(a.terms[p] for p in dependency.target_positions) for a in there}
    found = []
    for atom in query.atoms:
        if atom.relation.lower() != dependency.relation.lower():
            continue
        terms = tuple(atom.terms[p] for p in dependency.positions)
        if terms in held or any(isinstance(t, Var) and t not in known for t in terms):
            continue
        held.add(terms)
        given: Mapping[int, Term] = dict(zip(dependency.target_positions, terms, strict=True))
        row = tuple(given[i] if i in given else Var(next(names)) for i in range(arity))
        found.append(Atom(relation, row))
    return found


@dataclass
class _Search:
    """The search for superfluous atoms: every order of dropping them, as far as the budget goes."""

    constraints: Constraints

    def __post_init__(self) -> None:
        self.budget = Budget(MOST_STEPS)

    def best(self, query: ConjunctiveQuery) -> Simplified | None:
        """The best irreducible query, the first one that is q-hierarchical; None if there was no time to find any."""
        everything = tuple(range(len(query.atoms)))
        seen: set[tuple[int, ...]] = set()
        found: list[tuple[ConjunctiveQuery, tuple[int, ...]]] = []
        stack = [(query, everything)]
        while stack and not self.budget.exhausted and not (found and is_q_hierarchical(found[-1][0])):
            current, kept = stack.pop()
            if kept in seen:
                continue
            seen.add(kept)
            smaller = [
                (rest, (*kept[:i], *kept[i + 1 :]))
                for i in range(len(current.atoms))
                if (rest := without_atom(current, i)) is not None and self._has_no_more(rest, current)
            ]
            if not smaller and not self.budget.exhausted:
                found.append((current, kept))
            stack += reversed(smaller)
        if not found:
            return None
        chosen, kept = min(found, key=lambda one: rank_of(one[0]))
        return Simplified(chosen, self._dropped(query, [i for i in everything if i not in kept]), bool(stack))

    def _has_no_more(self, rest: ConjunctiveQuery, query: ConjunctiveQuery) -> bool:
        return holds_for(query, rest, self.constraints, self.budget)

    def _dropped(self, query: ConjunctiveQuery, gone: list[int]) -> tuple[Dropped, ...]:
        """The atoms that go, given by their places, one after the other, and why each does; in any order they do."""
        found = []
        left = list(range(len(query.atoms)))
        for i in gone:
            before = query.with_atoms(query.atoms[j] for j in left)
            left.remove(i)
            rest = query.with_atoms(query.atoms[j] for j in left)
            found.append(Dropped(query.atoms[i], needed_for(before, rest, self.constraints, self.budget)))
        return tuple(found)


def holds_for(outer: ConjunctiveQuery, inner: ConjunctiveQuery, constraints: Constraints, budget: Budget) -> bool:
    """True if, as sets, the results of ``inner`` are among those of ``outer`` on every legal database."""
    known = chased(inner, constraints, outer.atoms)
    budget.steps -= len(inner.atoms)
    return known is None or find_homomorphism(outer, known, budget) is not None


def needed_for(
    outer: ConjunctiveQuery, inner: ConjunctiveQuery, constraints: Constraints, budget: Budget
) -> tuple[Dependency, ...]:
    """Constraints by which that is so, and by no fewer of them; () if it is so in any database."""
    relations = {a.relation.lower() for a in (*inner.atoms, *outer.atoms)}
    used: list[Dependency] = [
        *_reached(constraints, inner),
        *(d for d in constraints.functional if d.relation.lower() in relations),
    ]
    for one in tuple(used):
        fewer = [d for d in used if d is not one]
        some = replace(
            constraints,
            inclusions=tuple(d for d in fewer if isinstance(d, InclusionDependency)),
            functional=tuple(d for d in fewer if isinstance(d, FunctionalDependency)),
        )
        if holds_for(outer, inner, some, budget):
            used = fewer
    return tuple(used)


def surviving(members: Sequence[ConjunctiveQuery], constraints: Constraints, budget: Budget) -> list[int]:
    """The members of a union that no other one contains on legal databases; of equivalent ones the last."""
    atoms = [a for m in members for a in m.atoms]
    known = [m if m.semantics is Semantics.BAG else chased(m, constraints, atoms) or m for m in members]
    return surviving_members(members, budget, known)
