"""The verdict on a conjunctive core: its classes, each "no" with a witness, and what each kind of read can cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from everview.query.conjunctive import ConjunctiveQuery, Semantics
from everview.query.hierarchy import Violation, hierarchical_violation, q_violation, t_violation
from everview.query.homomorphism import Budget, minimal_query
from everview.query.hypergraph import Cycle, FreePath, cycle, free_path
from everview.query.terms import names
from everview.query.widths import Widths, widths


@dataclass(frozen=True)
class Classification:
    """All classes of a query. Under set semantics everything is said of ``minimal``, the smallest equivalent query."""

    query: ConjunctiveQuery
    minimal: ConjunctiveQuery
    is_proven_minimal: bool
    """False if the search for it was cut: there may be a smaller one."""

    @cached_property
    def cycle(self) -> Cycle | None:
        """The cyclic part, if there is one."""
        return cycle(self.minimal)

    @cached_property
    def free_path(self) -> FreePath | None:
        """Why an acyclic query is not free-connex."""
        return None if self.cycle else free_path(self.minimal)

    @cached_property
    def hierarchical_violation(self) -> Violation | None:
        """Why the query is not hierarchical."""
        return hierarchical_violation(self.minimal)

    @cached_property
    def q_violation(self) -> Violation | None:
        """Why the query is not q-hierarchical."""
        return q_violation(self.minimal)

    @cached_property
    def t_violation(self) -> Violation | None:
        """Why the query is not t-hierarchical."""
        return t_violation(self.minimal)

    @cached_property
    def widths(self) -> Widths | None:
        """Static and dynamic width, for hierarchical queries."""
        return None if self.hierarchical_violation else widths(self.minimal)

    @property
    def acyclic(self) -> bool:
        """A join tree exists."""
        return self.cycle is None

    @property
    def free_connex(self) -> bool:
        """A join tree exists that keeps the output together."""
        return self.acyclic and self.free_path is None

    @property
    def hierarchical(self) -> bool:
        """Any two variables have disjoint or nested atom sets."""
        return self.hierarchical_violation is None

    @property
    def q_hierarchical(self) -> bool:
        """Constant time per update, whatever the updates."""
        return self.q_violation is None

    @property
    def t_hierarchical(self) -> bool:
        """Constant time per update and membership test."""
        return self.t_violation is None

    @property
    def self_join_free(self) -> bool:
        """No relation occurs twice."""
        return self.minimal.is_self_join_free

    def flags(self) -> dict[str, bool]:
        """The classes, as the public contract names them."""
        return {
            "acyclic": self.acyclic,
            "free_connex": self.free_connex,
            "hierarchical": self.hierarchical,
            "q_hierarchical": self.q_hierarchical,
            "t_hierarchical": self.t_hierarchical,
            "self_join_free": self.self_join_free,
        }

    def witnesses(self) -> dict[str, str]:
        """For each class that does not hold, what shows it."""
        found: dict[str, str] = {}
        if self.cycle:
            atoms = ", ".join(str(self.minimal.atoms[i]) for i in self.cycle.atoms)
            found["acyclic"] = f"{names(self.cycle.variables)} form a cycle in {atoms}"
            found["free_connex"] = "only an acyclic query can be free-connex"
        elif self.free_path:
            ends = self.free_path.path[0], self.free_path.path[-1]
            inner = " – ".join(map(str, self.free_path.path))
            found["free_connex"] = f"{ends[0]} and {ends[1]} are output but meet only through {inner}"
        for name, violation in (
            ("hierarchical", self.hierarchical_violation),
            ("q_hierarchical", self.q_violation),
            ("t_hierarchical", self.t_violation),
        ):
            if violation:
                found[name] = violation.describe(self.minimal)
        if not self.self_join_free:
            relations = [a.relation for a in self.minimal.atoms]
            twice = next(r for r in relations if relations.count(r) > 1)
            found["self_join_free"] = f"{twice} occurs {relations.count(twice)} times"
        return found


def classify(query: ConjunctiveQuery) -> Classification:
    """Find the minimal query and say what classes it is in."""
    budget = Budget()
    minimal = minimal_query(query, budget) if query.semantics is Semantics.SET else query
    return Classification(query, minimal, not budget.exhausted)
