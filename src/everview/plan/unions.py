"""Unions of queries: which classes they are in, and how their members come together (ucq-constraints.md 4, 7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from itertools import combinations

from everview.plan.core_plan import CorePlan
from everview.query.conjunctive import Atom, ConjunctiveQuery, UnionQuery
from everview.query.hierarchy import is_q_hierarchical, is_t_hierarchical
from everview.query.homomorphism import Budget
from everview.query.terms import Expression, Var
from everview.query.types import DataType, same_words
from everview.query.unions import (
    MAX_MEMBERS,
    CountingTerm,
    counting_terms,
    intersection,
    is_strongly_exhaustively_q_hierarchical,
    uncountable_term,
)
from everview.query.view import Block, Output
from everview.strategies.strategy import Task

TypesOf = Callable[[Atom], Sequence[DataType]]
"""The types of the columns of an atom's relation."""


def block_of(query: ConjunctiveQuery, columns: Sequence[Output]) -> Block:
    """A query as a block of a view with such columns."""
    shown = zip(columns, query.head, strict=True)
    outputs = tuple(replace(c, expression=Expression.of(term, c.type)) for c, term in shown)
    return Block(query.atoms, query.predicates, outputs, distinct=True, not_null=query.not_null)


class Combination(Enum):
    """How the members of a UNION come together."""

    TESTED = "tested"
    """Nothing is kept for it: the members are asked whether they have a row."""
    ASKED = "asked"
    """Nothing is kept for it, and as of some members rows are only tested, so they are of all together."""
    DISJOINT = "disjoint"
    """No row is in two of them, so all are passed on."""
    COUNTED = "counted"
    """A count is kept of how many members have each row."""


def combination_of(union: UnionQuery | None, kept: Sequence[tuple[Block, CorePlan]], types_of: TypesOf) -> Combination:
    """How the members that are kept come together; ``union`` are their queries, where columns are not computed.

    Each can be tested if its rows are columns as its core has them, or are kept by themselves.
    """
    if not kept[0][0].outputs or not all(_is_testable(block, core, types_of) for block, core in kept):
        return Combination.COUNTED
    if any(Task.LIST not in core.maintenance.tasks for _, core in kept):
        return Combination.ASKED
    if union is not None and all(intersection(p, q) is None for p, q in combinations(union.members, 2)):
        return Combination.DISJOINT
    return Combination.TESTED


def _is_testable(block: Block, core: CorePlan, types_of: TypesOf) -> bool:
    """True if a row of a block is a row of its core, with the same words, or is kept by itself."""
    if block.grouping is not None or not block.distinct or not core.is_distinct:
        return False
    shown = [o.expression for o in block.outputs]
    if core.folds_rows or any(e.term is None for e in shown):
        return True
    if core.residual:
        return False
    types: dict[Var, DataType] = {}
    for atom in core.query.atoms:
        computed = [(c.term, c.expression.type) for c in atom.computed]
        for term, type_ in (*zip(atom.terms, types_of(atom), strict=True), *computed):
            if isinstance(term, Var):
                types.setdefault(term, type_)
    fitting = all(same_words(types[e.term], e.type) for e in shown if isinstance(e.term, Var))
    return fitting and not core.added and Task.TEST in core.maintenance.tasks


@dataclass(frozen=True)
class UnionVerdict:
    """The classes of a union of conjunctive queries (ucq-constraints.md 4), None where they were not decided."""

    union: UnionQuery
    minimal: UnionQuery
    never_null: frozenset[tuple[str, int]] = frozenset()
    """The columns that never hold NULL, by their relation and their place in it."""

    @cached_property
    def shares_null(self) -> bool:
        """True if two members may have a row in common that has a NULL.

        An intersection of queries is a join, which refuses NULL; one of sets of rows does not. So where members share
        such rows, inclusion and exclusion over queries do not count them.
        """
        return any(
            isinstance(u, Var) and isinstance(v, Var) and not (self._refuses(p, u) or self._refuses(q, v))
            for p, q in combinations(self.minimal.members, 2)
            if intersection(p, q) is not None
            for u, v in zip(p.head, q.head, strict=True)
        )

    def _refuses(self, member: ConjunctiveQuery, v: Var) -> bool:
        """True if no row of a member has NULL for a variable."""
        if v in member.not_null:
            return True
        return any((a.relation, i) in self.never_null for a in member.atoms for i, t in enumerate(a.terms) if t == v)

    @property
    def q_hierarchical(self) -> bool:
        """Every member of the core is."""
        return all(map(is_q_hierarchical, self.minimal.members))

    @property
    def t_hierarchical(self) -> bool:
        """Every member of the core is."""
        return all(map(is_t_hierarchical, self.minimal.members))

    @cached_property
    def exhaustively_q_hierarchical(self) -> bool | None:
        """True if the number of results can be kept in constant time."""
        if len(self.minimal.members) > MAX_MEMBERS:
            return None
        budget = Budget()
        countable = uncountable_term(self.minimal, budget) is None
        return None if budget.exhausted else countable

    @cached_property
    def strongly_exhaustively_q_hierarchical(self) -> bool | None:
        """True if the union has direct access."""
        too_many = len(self.minimal.members) > MAX_MEMBERS
        return None if too_many else is_strongly_exhaustively_q_hierarchical(self.minimal)

    @property
    def may_count(self) -> bool:
        """True if the number of its rows can be kept, by inclusion and exclusion."""
        return self.exhaustively_q_hierarchical is True and not self.shares_null

    @property
    def may_access(self) -> bool:
        """True if its rows may have positions: where its intersections can all be kept in one order.

        So it is for every strongly exhaustively q-hierarchical union, whose intersections share the same q-tree.
        """
        return self.why_unordered is None

    @cached_property
    def why_unordered(self) -> str | None:
        """Why its rows cannot have positions, whatever the order; None if every intersection is q-hierarchical."""
        if len(self.minimal.members) > MAX_MEMBERS:
            return f"as it has more than {MAX_MEMBERS} members"
        if self.shares_null:
            return "as two members may have a row with NULL in common"
        budget = Budget()
        found = next((t for t in counting_terms(self.minimal, budget) if not is_q_hierarchical(t.query)), None)
        if found is not None:
            what = "a member" if min(map(len, found.members)) == 1 else "an intersection of its members"
            return f"as {what} is not q-hierarchical: {found.query}"
        return "as its intersections are too many to look at" if budget.exhausted else None

    def intersections(self, *, ordered: bool) -> list[CountingTerm]:
        """Those of several members that are kept to count by; with ``ordered`` all that may have rows."""
        if not (self.may_access if ordered else self.may_count):
            return []
        terms = (t for t in counting_terms(self.minimal) if min(map(len, t.members)) > 1)
        return [t for t in terms if ordered or t.coefficient]

    @cached_property
    def obstacle(self) -> str | None:
        """The term of inclusion–exclusion that makes counting hard, with its coefficient."""
        if self.exhaustively_q_hierarchical is not False:
            return None
        term = uncountable_term(self.minimal)
        return None if term is None else f"term {term.coefficient:+d} · {term.query}"

    def to_dict(self) -> dict[str, object]:
        """As plain data."""
        decided = self.exhaustively_q_hierarchical is not None
        terms = counting_terms(self.minimal) if decided else []
        return {
            "members": len(self.union.members),
            "core": [str(m) for m in self.minimal.members],
            "q_hierarchical": self.q_hierarchical,
            "t_hierarchical": self.t_hierarchical,
            "exhaustively_q_hierarchical": self.exhaustively_q_hierarchical,
            "strongly_exhaustively_q_hierarchical": self.strongly_exhaustively_q_hierarchical,
            "counting_terms": sum(t.coefficient != 0 for t in terms),
            "cancelled_terms": sum(t.coefficient == 0 for t in terms),
            "obstacle": self.obstacle,
        }
