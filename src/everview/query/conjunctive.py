"""Conjunctive queries and their unions: what gets classified and planned (crown.md 1, q-hierarchical.md 1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

from everview.errors import UnsafeQueryError
from everview.query.terms import Expression, Term, Var, names


class Semantics(Enum):
    """Whether a result's copies count."""

    BAG = "bag"
    SET = "set"


@dataclass(frozen=True, slots=True)
class Computed:
    """A column computed from its own row, as in GROUP BY year(day) or ON a.k = upper(b.k)."""

    term: Term
    expression: Expression

    def __str__(self) -> str:
        return f"{self.term} = {self.expression}"


@dataclass(frozen=True, slots=True)
class Atom:
    """One occurrence of a relation: R(t1, …, tr), one term a column.

    ``computed`` are further columns, each a function of this row alone, so that they can be joined and grouped by like
    the stored ones. ``alias`` is how the query's author called this occurrence.
    """

    relation: str
    terms: tuple[Term, ...]
    computed: tuple[Computed, ...] = ()
    alias: str = field(default="", compare=False)

    @property
    def all_terms(self) -> tuple[Term, ...]:
        """The terms of the stored columns, then those of the computed ones."""
        return (*self.terms, *(c.term for c in self.computed))

    @property
    def variables(self) -> frozenset[Var]:
        """The atom's variables as a set: a hyperedge."""
        return frozenset(t for t in self.all_terms if isinstance(t, Var))

    def substitute(self, mapping: Mapping[Var, Term]) -> Atom:
        """The same atom with variables replaced."""

        def moved(term: Term) -> Term:
            return mapping.get(term, term) if isinstance(term, Var) else term

        computed = tuple(Computed(moved(c.term), c.expression.substitute(mapping)) for c in self.computed)
        return replace(self, terms=tuple(map(moved, self.terms)), computed=computed)

    def __str__(self) -> str:
        return f"{self.relation}({', '.join(map(str, (*self.terms, *self.computed)))})"


@dataclass(frozen=True)
class ConjunctiveQuery:
    """``head :- atoms, predicates``: a select-project-join query.

    ``head`` may repeat variables and hold constants; its variables are the free ones, all others are summed out (bag)
    or quantified (set). ``predicates`` are conditions that no equality of variables can say. ``not_null`` names the
    variables on which NULL is refused: those that were joined or compared, even if minimising the query has since left
    them in one place only (NULL never joins).
    """

    head: tuple[Term, ...]
    atoms: tuple[Atom, ...]
    predicates: tuple[Expression, ...] = ()
    semantics: Semantics = Semantics.SET
    not_null: frozenset[Var] = frozenset()
    name: str = "q"

    def __post_init__(self) -> None:
        known = self.variables
        for unsafe, what in (
            (self.free - known, "the head"),
            (frozenset(v for p in self.predicates for v in p.variables) - known, "a condition"),
        ):
            if unsafe:
                raise UnsafeQueryError(
                    f"{what} uses {names(unsafe)}, which no atom binds",
                    hint="every variable must occur in an atom of the body",
                )
        if not self.atoms:
            raise UnsafeQueryError("the body has no atom", hint="a query reads at least one relation")
        repeated = frozenset(v for v, places in _places(self.atoms).items() if places > 1)
        object.__setattr__(self, "not_null", (self.not_null & known) | repeated)
        if self.semantics is Semantics.SET:
            object.__setattr__(self, "atoms", tuple(dict.fromkeys(self.atoms)))

    @cached_property
    def places(self) -> Mapping[Var, int]:
        """How often each variable occurs in the atoms."""
        return _places(self.atoms)

    @cached_property
    def variables(self) -> frozenset[Var]:
        """All variables of the body."""
        return frozenset().union(*(a.variables for a in self.atoms))

    @cached_property
    def free(self) -> frozenset[Var]:
        """The variables of the head."""
        return frozenset(t for t in self.head if isinstance(t, Var))

    @property
    def bound(self) -> frozenset[Var]:
        """The variables that are not in the head."""
        return self.variables - self.free

    @cached_property
    def edges(self) -> tuple[frozenset[Var], ...]:
        """The hyperedges, one an atom, in the order of the atoms."""
        return tuple(a.variables for a in self.atoms)

    @cached_property
    def atoms_of(self) -> Mapping[Var, frozenset[int]]:
        """atoms(x): for each variable the indexes of the atoms that hold it."""
        found: dict[Var, list[int]] = {v: [] for v in sorted(self.variables)}
        for i, edge in enumerate(self.edges):
            for v in edge:
                found[v].append(i)
        return {v: frozenset(atoms) for v, atoms in found.items()}

    @cached_property
    def telling(self) -> tuple[Var, ...]:
        """The first of all variables that the same atoms hold and that are alike in being output or not, sorted.

        Structure cannot tell the others apart, so what looks for a witness need only look at these: a table's columns
        that nobody reads are one variable then, however many there are.
        """
        first: dict[tuple[frozenset[int], bool], Var] = {}
        for v, atoms in self.atoms_of.items():
            first.setdefault((atoms, v in self.free), v)
        return tuple(first.values())

    @property
    def is_full(self) -> bool:
        """True if every variable is in the head."""
        return not self.bound

    @property
    def is_boolean(self) -> bool:
        """True if no variable is in the head."""
        return not self.free

    @cached_property
    def is_self_join_free(self) -> bool:
        """True if no relation occurs twice."""
        relations = [a.relation for a in self.atoms]
        return len(set(relations)) == len(relations)

    def substitute(self, mapping: Mapping[Var, Term]) -> ConjunctiveQuery:
        """The query with variables replaced everywhere; a variable's NOT NULL goes over to what replaces it."""
        moved = (mapping.get(v, v) for v in self.not_null)
        return replace(
            self,
            head=tuple(mapping.get(t, t) if isinstance(t, Var) else t for t in self.head),
            atoms=tuple(a.substitute(mapping) for a in self.atoms),
            predicates=tuple(p.substitute(mapping) for p in self.predicates),
            not_null=frozenset(t for t in moved if isinstance(t, Var)),
        )

    def condensed(self) -> ConjunctiveQuery:
        """The same structure over the telling variables alone: covers and widths are the same, and quicker to find."""
        kept = frozenset(self.telling)
        atoms = (Atom(a.relation, tuple(sorted(a.variables & kept))) for a in self.atoms)
        head = tuple(sorted(self.free & kept))
        # As a bag: atoms that differ only in variables that are left out stay apart.
        return ConjunctiveQuery(head, tuple(atoms), semantics=Semantics.BAG, name=self.name)

    def with_head(self, head: Iterable[Term]) -> ConjunctiveQuery:
        """The same body under another head."""
        return replace(self, head=tuple(head))

    def with_atoms(self, atoms: Iterable[Atom]) -> ConjunctiveQuery:
        """The same head over some of the atoms; a NULL that was refused stays refused."""
        return replace(self, atoms=tuple(atoms))

    def components(self) -> list[ConjunctiveQuery]:
        """The connected components; atoms without variables are components of their own."""
        groups = connected_components(self.edges)
        parts = []
        for group in groups:
            inside = frozenset().union(*(self.edges[i] for i in group))
            parts.append(
                replace(
                    self,
                    head=tuple(v for v in dict.fromkeys(self.head) if isinstance(v, Var) and v in inside),
                    atoms=tuple(self.atoms[i] for i in group),
                    predicates=tuple(p for p in self.predicates if p.variables and p.variables <= inside),
                )
            )
        return parts

    def __str__(self) -> str:
        once = sorted(v for v in self.not_null if self.places[v] == 1)
        body = [str(a) for a in self.atoms] + [str(p) for p in self.predicates] + [f"{v} is not null" for v in once]
        return f"{self.name}({', '.join(map(str, self.head))}) :- {', '.join(body)}."


@dataclass(frozen=True)
class UnionQuery:
    """A union of conjunctive queries of equal arity, aligned by head position; no member at all: always empty."""

    members: tuple[ConjunctiveQuery, ...]
    name: str = "q"

    def __post_init__(self) -> None:
        arities = {len(m.head) for m in self.members}
        if len(arities) > 1:
            raise UnsafeQueryError(
                f"the members of union {self.name} have {' and '.join(map(str, sorted(arities)))} columns",
                hint="give every member the same number of columns",
            )

    @property
    def semantics(self) -> Semantics:
        """Set, unless every member is a bag (UNION ALL)."""
        bags = [m.semantics is Semantics.BAG for m in self.members]
        return Semantics.BAG if bags and all(bags) else Semantics.SET

    def __str__(self) -> str:
        return "\n".join(map(str, self.members)) or f"{self.name} is empty."


def _places(atoms: Iterable[Atom]) -> Counter[Var]:
    return Counter(t for a in atoms for t in a.all_terms if isinstance(t, Var))


def connected_components(
    edges: Iterable[frozenset[Var]], without: frozenset[Var] = frozenset()
) -> list[tuple[int, ...]]:
    """Indexes of the edges that hang together through variables outside ``without``, in the order of first index."""
    groups: list[tuple[list[int], set[Var]]] = []
    for index, edge in enumerate(edges):
        linking = edge - without
        touched = [g for g in groups if not linking.isdisjoint(g[1])]
        merged = ([i for g in touched for i in g[0]] + [index], set(linking).union(*(g[1] for g in touched)))
        groups = [g for g in groups if g not in touched] + [merged]
    return sorted(tuple(sorted(g[0])) for g in groups)
