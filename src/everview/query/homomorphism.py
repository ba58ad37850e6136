"""Homomorphisms, containment and cores of conjunctive queries and unions (ucq-constraints.md 3, q-hierarchical.md 2.5).

``q → p`` exists iff p's result is contained in q's on every database. A core is the smallest equivalent query: it is
what gets classified under set semantics, never the query as written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from everview.query.conjunctive import Atom, ConjunctiveQuery, Semantics, UnionQuery
from everview.query.terms import Const, Expression, Term, Var

STEP_BUDGET = 100_000
"""So many times a search may try to map one atom to another; that takes about a second."""


@dataclass
class Budget:
    """How many steps the backtracking may still take: finding cores is NP-hard, queries are small, patience is not."""

    steps: int = STEP_BUDGET

    @property
    def exhausted(self) -> bool:
        """True once a search was cut; what was not found then is not proof that there is none."""
        return self.steps <= 0


def find_homomorphism(
    source: ConjunctiveQuery, target: ConjunctiveQuery, budget: Budget | None = None
) -> Mapping[Var, Term] | None:
    """A mapping of variables that takes head to head and every atom and condition of ``source`` into ``target``."""
    start: dict[Var, Term] | None = {}
    budget = budget or Budget()
    if len(source.head) != len(target.head) or budget.exhausted:
        return None
    for u, v in zip(source.head, target.head, strict=True):
        start = start if start is None else _unified(u, v, start)
    if start is None:
        return None
    images: dict[str, list[Atom]] = {}
    for atom in target.atoms:
        images.setdefault(atom.relation, []).append(atom)
    if any(a.relation not in images for a in source.atoms):
        return None
    return _extend(source, target, _search_order(source, start), images, start, budget)


def is_contained(inner: ConjunctiveQuery, outer: ConjunctiveQuery, budget: Budget | None = None) -> bool:
    """True if, as sets, the result of ``inner`` is always part of ``outer``'s."""
    return find_homomorphism(outer, inner, budget) is not None


def are_equivalent(one: ConjunctiveQuery, other: ConjunctiveQuery, budget: Budget | None = None) -> bool:
    """True if both have the same result, as sets, on every database."""
    return is_contained(one, other, budget) and is_contained(other, one, budget)


def minimal_query(query: ConjunctiveQuery, budget: Budget | None = None) -> ConjunctiveQuery:
    """A minimal equivalent sub-query. Bag queries are their own core: every atom counts copies.

    Dropping one atom at a time is complete: a homomorphism into a proper sub-query avoids some atom.
    """
    if query.semantics is Semantics.BAG or query.is_self_join_free:
        return query
    budget = budget or Budget()
    shrunk = True
    while shrunk and not budget.exhausted:
        shrunk = False
        for i in range(len(query.atoms)):
            smaller = without_atom(query, i)
            if smaller is not None and find_homomorphism(query, smaller, budget) is not None:
                query, shrunk = smaller, True
                break
    return query


def minimal_union(union: UnionQuery, budget: Budget | None = None) -> UnionQuery:
    """Cores of the members, without the members that another one contains."""
    budget = budget or Budget()
    cores = [minimal_query(m, budget) for m in union.members]
    return replace(union, members=tuple(cores[i] for i in surviving_members(cores, budget)))


def surviving_members(
    members: Sequence[ConjunctiveQuery], budget: Budget | None = None, known: Sequence[ConjunctiveQuery] = ()
) -> list[int]:
    """The members of a union that no other one contains; of equivalent ones the last. All of them for bags.

    ``known`` has for each member a query that has the same results on the databases that there may be, and says more.
    """
    left = list(range(len(members)))
    if any(m.semantics is Semantics.BAG for m in members):
        return left
    budget = budget or Budget()
    for i in range(len(members)):
        if any(j != i and is_contained((known or members)[i], members[j], budget) for j in left):
            left.remove(i)
    return left


def without_atom(query: ConjunctiveQuery, index: int) -> ConjunctiveQuery | None:
    """The query without one atom, if the head and all conditions survive that."""
    atoms = query.atoms[:index] + query.atoms[index + 1 :]
    kept = frozenset().union(*(a.variables for a in atoms)) if atoms else frozenset()
    if not atoms or not query.free <= kept:
        return None
    predicates = tuple(p for p in query.predicates if p.variables <= kept)
    return replace(query, atoms=atoms, predicates=predicates)


def _search_order(source: ConjunctiveQuery, bound: Mapping[Var, Term]) -> list[Atom]:
    """Atoms so that each shares as many variables as possible with what comes before it."""
    known = set(bound)
    rest = list(source.atoms)
    order = []
    while rest:
        best = max(rest, key=lambda a: (len(a.variables & known), -len(a.variables - known)))
        rest.remove(best)
        order.append(best)
        known |= best.variables
    return order


def _extend(
    source: ConjunctiveQuery,
    target: ConjunctiveQuery,
    order: Sequence[Atom],
    images: Mapping[str, Sequence[Atom]],
    mapping: dict[Var, Term],
    budget: Budget,
) -> dict[Var, Term] | None:
    """The mapping with that of the atoms in ``order`` added; ``images`` are the target's atoms by relation."""
    if not order:
        return mapping if _conditions_hold(source, target, mapping) else None
    for candidate in images[order[0].relation]:
        budget.steps -= 1
        if budget.exhausted:
            return None
        further = _mapped(order[0], candidate, mapping)
        if further is not None:
            found = _extend(source, target, order[1:], images, further, budget)
            if found is not None:
                return found
    return None


def _mapped(atom: Atom, candidate: Atom, mapping: dict[Var, Term]) -> dict[Var, Term] | None:
    if atom.relation != candidate.relation or len(atom.terms) != len(candidate.terms):
        return None
    further: dict[Var, Term] | None = mapping
    for u, v in zip(atom.terms, candidate.terms, strict=True):
        further = None if further is None else _unified(u, v, further)
    for computed in atom.computed:
        if further is None:
            return None
        wanted = computed.expression.substitute(further)
        match = next((c.term for c in candidate.computed if c.expression == wanted), None)
        further = None if match is None else _unified(computed.term, match, further)
    return further


def _unified(u: Term, v: Term, mapping: dict[Var, Term]) -> dict[Var, Term] | None:
    if isinstance(u, Const):
        return mapping if u == v else None
    if u in mapping:
        return mapping if mapping[u] == v else None
    return {**mapping, u: v}


def _conditions_hold(source: ConjunctiveQuery, target: ConjunctiveQuery, mapping: Mapping[Var, Term]) -> bool:
    """Conditions must arrive among the target's own, and NULL stay refused where the source refuses it."""
    granted: set[Expression] = set(target.predicates)
    if any(p.substitute(mapping) not in granted for p in source.predicates):
        return False
    images = (mapping[v] for v in source.not_null)
    return all(isinstance(t, Const) or t in target.not_null for t in images)
