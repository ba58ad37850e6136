"""Classes of unions of conjunctive queries (ucq-constraints.md 4.3–4.6, q-hierarchical.md 2.7)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

from everview.query.conjunctive import ConjunctiveQuery, UnionQuery
from everview.query.hierarchy import is_q_hierarchical
from everview.query.homomorphism import Budget, are_equivalent, minimal_query, minimal_union
from everview.query.terms import Const, Term, Var

MAX_MEMBERS = 8
"""Inclusion–exclusion looks at 2^m intersections; beyond this the exhaustive classes are not decided."""


@dataclass(frozen=True, slots=True)
class CountingTerm:
    """One term of inclusion–exclusion: a core, its coefficient, and the sets of members whose intersection it is."""

    query: ConjunctiveQuery
    coefficient: int
    members: tuple[tuple[int, ...], ...]


def intersection(p: ConjunctiveQuery, q: ConjunctiveQuery) -> ConjunctiveQuery | None:
    """The query whose result is the intersection of both, or None if that is always empty.

    Equality of head positions is closed transitively and clashes of constants are looked for after that.
    """
    q = _renamed_apart(q, p.variables)
    classes: dict[Term, Term] = {}

    def find(t: Term) -> Term:
        while t in classes:
            t = classes[t]
        return t

    for u, v in zip(p.head, q.head, strict=True):
        a, b = find(u), find(v)
        if a == b:
            continue
        if isinstance(a, Const) and isinstance(b, Const):
            return None
        if isinstance(b, Const):
            a, b = b, a
        classes[b] = a
    mapping = {v: find(v) for v in p.variables | q.variables}
    p, q = p.substitute(mapping), q.substitute(mapping)
    return replace(
        p,
        atoms=tuple(dict.fromkeys((*p.atoms, *q.atoms))),
        predicates=tuple(dict.fromkeys((*p.predicates, *q.predicates))),
        not_null=p.not_null | q.not_null,
    )


def counting_terms(union: UnionQuery, budget: Budget | None = None) -> list[CountingTerm]:
    """The terms of inclusion–exclusion, grouped by equivalence; those that cancel out have coefficient 0."""
    budget = budget or Budget()
    terms: list[tuple[ConjunctiveQuery, int, list[tuple[int, ...]]]] = []
    layer: dict[tuple[int, ...], ConjunctiveQuery] = {(i,): m for i, m in enumerate(union.members)}
    while layer:
        following: dict[tuple[int, ...], ConjunctiveQuery] = {}
        for members, query in layer.items():
            minimal = minimal_query(query, budget)
            sign = 1 if len(members) % 2 else -1
            for k, (known, coefficient, sets) in enumerate(terms):
                if are_equivalent(known, minimal, budget):
                    terms[k] = (known, coefficient + sign, [*sets, members])
                    break
            else:
                terms.append((minimal, sign, [members]))
            for j in range(members[-1] + 1, len(union.members)):
                both = intersection(minimal, union.members[j])
                if both is not None:
                    following[(*members, j)] = both
        layer = following
    return [CountingTerm(q, c, tuple(sets)) for q, c, sets in terms]


def uncountable_term(union: UnionQuery, budget: Budget | None = None) -> CountingTerm | None:
    """A term that keeps the union's core from being exhaustively q-hierarchical, or None if nothing does."""
    for term in counting_terms(minimal_union(union, budget), budget):
        if term.coefficient != 0 and not is_q_hierarchical(term.query):
            return term
    return None


def is_exhaustively_q_hierarchical(union: UnionQuery) -> bool:
    """True if the number of results can be kept in constant time per update."""
    return uncountable_term(union) is None


def is_strongly_exhaustively_q_hierarchical(union: UnionQuery) -> bool:
    """True if the intersection of all members, as written, is q-hierarchical: the union then has direct access.

    The syntactic test is the right one: up to equivalence it would be too weak (q-hierarchical.md 19.12).
    """
    if not all(is_q_hierarchical(m) for m in union.members):
        return False
    common: ConjunctiveQuery | None = None
    for i, member in enumerate(union.members):
        common = member if i == 0 else None if common is None else intersection(common, member)
    if common is not None:
        return is_q_hierarchical(common)
    return all(intersection(p, q) is None for p, q in combinations(union.members, 2))


def _renamed_apart(query: ConjunctiveQuery, taken: frozenset[Var]) -> ConjunctiveQuery:
    mapping: dict[Var, Term] = {}
    used = {v.name for v in taken | query.variables}
    for v in sorted(query.variables & taken):
        name = v.name
        while name in used:
            name += "'"
        used.add(name)
        mapping[v] = Var(name)
    return query.substitute(mapping)
