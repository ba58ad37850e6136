"""Rewriting queries by integrity constraints (ucq-constraints.md 9): same result on every legal database, better class.

Small domains expand a query into a union over the values, foreign keys drop atoms that always match, and keys unify
variables. All three hold for sets; for bags only where a key keeps the copies in step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Final, TypeAlias

from everview.query.conjunctive import Atom, ConjunctiveQuery, Semantics, UnionQuery
from everview.query.hierarchy import is_q_hierarchical, is_t_hierarchical
from everview.query.homomorphism import Budget, minimal_union
from everview.query.schema import Enforcement, Schema
from everview.query.terms import Const, Term, Var

MAX_INSTANCES = 256
"""How many members a small-domain expansion may have before it is called over budget."""
MOST_PAIRS = 5_000
"""So many pairs of atoms are looked at to find those that foreign keys imply; then only one order of drops is tried."""


@dataclass(frozen=True, slots=True)
class SmallDomainConstraint:
    """``relation``'s column ``position`` holds one of ``values``."""

    relation: str
    position: int
    values: frozenset[Const]
    nullable: bool = False
    is_relied_on: bool = False


@dataclass(frozen=True, slots=True)
class InclusionDependency:
    """R[i…] ⊆ S[j…]; ``unique`` when S has one row a key, so that dropping it keeps copies right as well."""

    relation: str
    positions: tuple[int, ...]
    target: str
    target_positions: tuple[int, ...]
    unique: bool = False
    is_relied_on: bool = False
    name: str = field(default="", compare=False)
    """As its table declares it."""
    chain: tuple[InclusionDependency, ...] = field(default=(), compare=False)
    """Those that it follows from, one after the other; () if it is declared itself."""


@dataclass(frozen=True, slots=True)
class FunctionalDependency:
    """``relation[determinant → dependent]``; ``is_key`` when the determinant has one row a value."""

    relation: str
    determinant: tuple[int, ...]
    dependent: tuple[int, ...]
    is_key: bool = False
    is_relied_on: bool = False


Dependency: TypeAlias = InclusionDependency | FunctionalDependency


@dataclass(frozen=True, slots=True)
class Constraints:
    """All that is known of every legal database; ``not_null`` are columns, as (relation in lower case, position).

    What ``is_relied_on`` is known only as far as the user's word goes: nobody checks it.
    """

    small_domains: tuple[SmallDomainConstraint, ...] = ()
    inclusions: tuple[InclusionDependency, ...] = ()
    functional: tuple[FunctionalDependency, ...] = ()
    not_null: frozenset[tuple[str, int]] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.small_domains or self.inclusions or self.functional)

    @property
    def only_small_domains(self) -> bool:
        """True if lower bounds still hold: nothing but small domains is declared."""
        return not self.inclusions and not self.functional

    def about(self, query: ConjunctiveQuery) -> Constraints:
        """Those that speak of relations of this query."""
        used = {a.relation.lower() for a in query.atoms}
        return Constraints(
            tuple(d for d in self.small_domains if d.relation.lower() in used),
            tuple(d for d in self.inclusions if {d.relation.lower(), d.target.lower()} <= used),
            tuple(d for d in self.functional if d.relation.lower() in used),
            frozenset(column for column in self.not_null if column[0] in used),
        )

    def without(self, relations: Iterable[str]) -> Constraints:
        """Those that do not speak of these relations, which have the names of tables and are none."""
        other = {r.lower() for r in relations}
        return Constraints(
            tuple(d for d in self.small_domains if d.relation.lower() not in other),
            tuple(d for d in self.inclusions if not {d.relation.lower(), d.target.lower()} & other),
            tuple(d for d in self.functional if d.relation.lower() not in other),
            frozenset(column for column in self.not_null if column[0] not in other),
        )

    def keys_of(self, relation: str) -> list[FunctionalDependency]:
        """The keys of a relation."""
        return [d for d in self.functional if d.is_key and _same(d.relation, relation)]

    def never_null(self, relation: str, position: int) -> bool:
        """True if the column is declared NOT NULL."""
        return (relation.lower(), position) in self.not_null


NO_CONSTRAINTS: Final = Constraints()


def constraints_of(schema: Schema) -> Constraints:
    """The constraints that a schema declares, but for those that are neither enforced nor relied on."""
    small, inclusions, functional = [], [], []
    not_null: set[tuple[str, int]] = set()
    for table in schema:
        not_null |= {(table.name.lower(), i) for i, c in enumerate(table.columns) if not c.nullable}
        not_null |= {(table.name.lower(), i) for i in table.positions(table.primary_key)}
        if table.primary_key and table.key_enforcement.is_used:
            key = table.positions(table.primary_key)
            rest = tuple(i for i in range(table.arity) if i not in key)
            functional.append(FunctionalDependency(table.name, key, rest, True, _is_relied_on(table.key_enforcement)))
        for domain in (d for d in table.small_domains if d.enforcement.is_used):
            (position,) = table.positions([domain.column])
            nullable = (table.name.lower(), position) not in not_null
            relied = _is_relied_on(domain.enforcement)
            small.append(SmallDomainConstraint(table.name, position, frozenset(domain.values), nullable, relied))
        for foreign in table.foreign_keys:
            target = schema.table(foreign.target)
            if target is not None and foreign.enforcement.is_used:
                positions = table.positions(foreign.columns)
                targets = target.positions(foreign.target_columns)
                unique = target.key_enforcement.is_used
                relied = _is_relied_on(foreign.enforcement) or (unique and _is_relied_on(target.key_enforcement))
                inclusions.append(
                    InclusionDependency(table.name, positions, target.name, targets, unique, relied, str(foreign))
                )
    return Constraints(tuple(small), tuple(inclusions), tuple(functional), frozenset(not_null))


def _is_relied_on(enforcement: Enforcement) -> bool:
    return enforcement is Enforcement.RELIED_ON


def restricted_domains(query: ConjunctiveQuery, constraints: Constraints) -> dict[Var, frozenset[Const]] | None:
    """The variables that only ever take finitely many values, with those; None if the query is always empty.

    A NULL passes CHECK, so a nullable column restricts a variable only where NULL is refused anyway.
    """
    domains: dict[Var, frozenset[Const]] = {}
    for domain in constraints.small_domains:
        for atom in query.atoms:
            if not _same(atom.relation, domain.relation):
                continue
            term = atom.terms[domain.position]
            if isinstance(term, Const):
                if term not in domain.values:
                    return None
            elif term in query.not_null or not domain.nullable:
                domains[term] = domains.get(term, domain.values) & domain.values
    return None if any(not values for values in domains.values()) else domains


def expand(query: ConjunctiveQuery, constraints: Constraints) -> UnionQuery | None:
    """The union of the query's instances over its small domains (Lemma 5.2); None if there are too many."""
    domains = restricted_domains(query, constraints)
    if domains is None:
        return UnionQuery((), query.name)
    order = sorted(domains)
    size = 1
    for v in order:
        size *= len(domains[v])
    if size > MAX_INSTANCES:
        return None
    choices = product(*(sorted(domains[v], key=str) for v in order))
    members = (query.substitute(dict(zip(order, choice, strict=True))) for choice in choices)
    return UnionQuery(tuple(members), query.name)


def expand_union(union: UnionQuery, constraints: Constraints) -> UnionQuery | None:
    """Every member expanded, and the core of the whole: substitution can make members redundant."""
    members: list[ConjunctiveQuery] = []
    for member in union.members:
        instances = expand(member, constraints)
        if instances is None:
            return None
        members += instances.members
    return minimal_union(UnionQuery(tuple(members), union.name))


@dataclass(frozen=True, slots=True)
class Dropped:
    """An atom that was dropped, as each row of another one has its row there."""

    atom: Atom
    dependency: InclusionDependency


@dataclass(frozen=True, slots=True)
class Reduced:
    """What dropping implied atoms leads to, best first; ``cut`` if there may be better ones that were not looked at."""

    queries: tuple[ConjunctiveQuery, ...]
    cut: bool
    dropped: tuple[tuple[Dropped, ...], ...] = ()
    """For each of the queries what it lacks, in the order in which it went."""


def drop_implied_atoms(query: ConjunctiveQuery, constraints: Constraints) -> Reduced:
    """The irreducible queries that inclusion dependencies lead to, best class and fewest atoms first (Claim 5.4).

    The order of the drops matters, so every order is tried, until ``MOST_PAIRS`` are looked at. The search goes deep
    first, so one irreducible query is found soon, and one always is.
    """
    everything = tuple(range(len(query.atoms)))
    seen: set[tuple[int, ...]] = set()
    irreducible: list[tuple[ConjunctiveQuery, tuple[Dropped, ...]]] = []
    stack: list[tuple[tuple[int, ...], tuple[Dropped, ...]]] = [(everything, ())]
    budget = Budget(MOST_PAIRS)
    while stack and not (irreducible and budget.exhausted):
        kept, dropped = stack.pop()
        if kept in seen:
            continue
        seen.add(kept)
        current = query if kept == everything else query.with_atoms(query.atoms[i] for i in kept)
        implied = _implied_atoms(current, constraints, budget)
        for j, dependency in implied:
            stack.append((kept[:j] + kept[j + 1 :], (*dropped, Dropped(current.atoms[j], dependency))))
        if not implied:
            irreducible.append((current, dropped))
    best = sorted(irreducible, key=lambda found: rank_of(found[0]))
    return Reduced(tuple(q for q, _ in best), bool(stack), tuple(d for _, d in best))


def rank_of(query: ConjunctiveQuery) -> tuple[bool, bool, int]:
    """What queries are compared by: the least has the best class, and of those the fewest atoms."""
    return not is_q_hierarchical(query), not is_t_hierarchical(query), len(query.atoms)


def _implied_atoms(
    query: ConjunctiveQuery, constraints: Constraints, budget: Budget
) -> list[tuple[int, InclusionDependency]]:
    """The atoms that another one implies each, with why."""
    usable = [d for d in constraints.inclusions if d.unique or query.semantics is Semantics.SET]
    found = []
    for j, dropped in enumerate(query.atoms):
        about = [d for d in usable if _same(dropped.relation, d.target)]
        for d, (i, witness) in product(about, enumerate(query.atoms)):
            if i != j and _same(witness.relation, d.relation):
                budget.steps -= 1
                if _implies(query, constraints, d, witness, dropped):
                    found.append((j, d))
                    break
    return found


def _implies(
    query: ConjunctiveQuery, constraints: Constraints, dependency: InclusionDependency, witness: Atom, dropped: Atom
) -> bool:
    if dropped.computed:
        return False
    pairs = zip(dependency.positions, dependency.target_positions, strict=True)
    if any(witness.terms[i] != dropped.terms[j] for i, j in pairs):
        return False
    if any(isinstance(witness.terms[i], Var) and witness.terms[i] not in query.not_null for i in dependency.positions):
        return False
    others = {j: t for j, t in enumerate(dropped.terms) if j not in dependency.target_positions}
    used_elsewhere = {v for p in query.predicates for v in p.variables} | query.free
    here = query.atoms.index(dropped)
    return len(set(others.values())) == len(others) and all(
        isinstance(t, Var)
        and t not in used_elsewhere
        and query.atoms_of[t] == {here}
        # An atom that refuses a NULL is implied only where the column holds none.
        and (t not in query.not_null or constraints.never_null(dropped.relation, j))
        for j, t in others.items()
    )


def unify_by_keys(query: ConjunctiveQuery, constraints: Constraints) -> ConjunctiveQuery | None:
    """Two atoms that agree on a determinant agree on what it determines (9.5 d); None if that cannot be: empty.

    Under a key the two atoms are then one and the same row, and one of them goes, for bags as well.
    """
    changed = True
    while changed:
        changed = False
        for dependency in constraints.functional:
            mine = [i for i, a in enumerate(query.atoms) if _same(a.relation, dependency.relation)]
            for i, j in ((i, j) for i in mine for j in mine if i < j):
                merged = _merged(query, constraints, dependency, i, j)
                if merged is None:
                    return None
                if merged is not query:
                    query, changed = merged, True
                    break
            if changed:
                break
    return query


def _merged(
    query: ConjunctiveQuery, constraints: Constraints, dependency: FunctionalDependency, i: int, j: int
) -> ConjunctiveQuery | None:
    one, other = query.atoms[i], query.atoms[j]
    if any(one.terms[p] != other.terms[p] for p in dependency.determinant):
        return query
    mapping: dict[Var, Term] = {}
    for p in range(len(one.terms)) if dependency.is_key else dependency.dependent:
        u = _follow(one.terms[p], mapping)
        v = _follow(other.terms[p], mapping)
        if u == v:
            continue
        if isinstance(u, Const) and isinstance(v, Const):
            return None
        if isinstance(v, Const) or (isinstance(u, Var) and v in query.free):
            u, v = v, u
        assert isinstance(v, Var)
        # NULL equals NULL here (it is one row), which a join would refuse: only unify where there is none anyway.
        null_free = {u, v} <= query.not_null or constraints.never_null(dependency.relation, p)
        if not dependency.is_key and isinstance(u, Var) and not null_free:
            continue
        mapping[v] = u
    mapping = {v: _follow(v, mapping) for v in mapping}
    if not dependency.is_key:
        return query.substitute(mapping) if mapping else query
    row = replace(one, computed=tuple(dict.fromkeys((*one.computed, *other.computed))))
    atoms = tuple(row if k == i else a for k, a in enumerate(query.atoms) if k != j)
    refused = (mapping.get(v, v) for v in query.not_null)
    return replace(
        query,
        head=tuple(mapping.get(t, t) if isinstance(t, Var) else t for t in query.head),
        atoms=tuple(a.substitute(mapping) for a in atoms),
        predicates=tuple(p.substitute(mapping) for p in query.predicates),
        not_null=frozenset(t for t in refused if isinstance(t, Var)),
    )


def _follow(term: Term, mapping: dict[Var, Term]) -> Term:
    while isinstance(term, Var) and term in mapping:
        term = mapping[term]
    return term


def _same(a: str, b: str) -> bool:
    return a.lower() == b.lower()
