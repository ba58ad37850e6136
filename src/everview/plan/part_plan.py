"""The plan of a part of a view: the blocks of its set operations, their cores, and how their rows come together."""

from __future__ import annotations

from dataclasses import dataclass

from everview.plan.core_plan import CorePlan
from everview.plan.set_operations import are_disjoint, only_concatenates, operations
from everview.plan.union_order import UnionOrder
from everview.plan.unions import Combination, UnionVerdict
from everview.query.view import Block, Body, Cut, Exploded, Timed, Windowed, arranged, blocks


@dataclass(frozen=True)
class BlockPlan:
    """The plans of a block's cores; the first gives the result's rows."""

    label: str
    block: Block
    cores: tuple[CorePlan, ...]


@dataclass(frozen=True)
class PartPlan:
    """A stage or the view itself: its blocks and the set operations over them."""

    name: str
    purpose: str
    body: Body
    blocks: tuple[BlockPlan, ...]
    operators: tuple[str, ...]
    union: UnionVerdict | None
    remarks: tuple[str, ...] = ()
    combination: Combination | None = None
    """How the members of its union come together; None if it is no union of queries, or has one member."""
    terms: tuple[tuple[int, BlockPlan], ...] = ()
    """The intersections of members whose numbers of rows are added to those of the members, with their coefficients."""
    order: UnionOrder | None = None
    """The order in which its members and their intersections are kept, so that its rows have positions.

    Of UNION ALL it is the order in which its sides are kept once positions are asked for.
    """

    @property
    def cores(self) -> tuple[CorePlan, ...]:
        """All cores of all blocks."""
        return tuple(c for b in (*self.blocks, *(term for _, term in self.terms)) for c in b.cores)

    @property
    def may_count(self) -> bool:
        """True if the number of rows of its union is kept if that is asked for."""
        is_asked = self.combination in (Combination.TESTED, Combination.DISJOINT)
        return self.union is not None and is_asked and self.union.may_count

    @property
    def why_unordered(self) -> str | None:
        """Why rows of its union have no positions, where they were asked for; None if they have."""
        if self.order is not None or self.combination is Combination.DISJOINT or self.union is None:
            return None
        if self.combination is not Combination.TESTED:
            return "as its members cannot be asked for a row"
        return self.union.why_unordered or "as its members and what they have in common are in no common order"

    @property
    def may_access(self) -> bool:
        """True if rows of its union may have positions, and have none as nobody has asked for them."""
        return self.union is not None and self.combination is Combination.TESTED and self.union.may_access

    @property
    def is_disjoint(self) -> bool:
        """True if its set operations pass rows on, and none is on two of their sides."""
        if self.combination is not None:
            return self.combination is Combination.DISJOINT
        return self.only_concatenates and are_disjoint(list(blocks(self.body)))

    @property
    def changes_one_row(self) -> bool:
        """True if a changed input row changes at most one row here, at each place where it is read.

        So it is of a filter, projection or grouping of a table, and of joins whose relations all have all that is
        listed or grouped by.
        """
        is_plain = isinstance(self.body, Block | Timed)
        cores = [c.query for c in self.cores]
        return is_plain and all(len(q.atoms) == 1 or all(q.free <= a.variables for a in q.atoms) for q in cores)

    @property
    def operator_words(self) -> frozenset[str]:
        """The set operators among its operators."""
        return frozenset(o.operator.name for o in operations(self.body))

    @property
    def only_concatenates(self) -> bool:
        """True if set operations pass rows on and nothing else."""
        return only_concatenates(self.body)

    @property
    def keeps_result(self) -> bool:
        """True if a set operation keeps a count for every row of its result."""
        if self.combination is not None:
            return self.combination is Combination.COUNTED
        return any("count" in o for o in self.operators)

    @property
    def arranged(self) -> tuple[Cut | Windowed | Timed | Exploded, ...]:
        """What goes by the order of rows, the innermost first: cuts, window functions, and what has its time."""
        return tuple(arranged(self.body))
