"""Counts as one of the kinds: whether a core is one, which ε and which views it gets, and what that costs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from everview.query.conjunctive import Semantics
from everview.query.show import atom_labels
from everview.query.terms import Var, names
from everview.strategies.bounds import CONSTANT, Bounds
from everview.strategies.core import Core, Facts
from everview.strategies.diagram import Box, Diagram, DiagramNode
from everview.strategies.dial import OPTIONS, Chosen, Dial, Exponents, epsilon_of
from everview.strategies.strategy import Cost, Judgement, Maintained, StrategyPlan, Sum, Task
from everview.strategies.triangle.count_shape import CountShape, count_shape

HALF, ONE = Fraction(1, 2), Fraction(1)
BENDS = (Fraction(0), Fraction(1, 3), HALF, Fraction(2, 3), ONE)
"""Where an exponent of a count may bend: where the views are others, and where update or space are least."""
MOST_COPIES = 2**63 - 1
"""So many rows a group may have: COUNT is a BIGINT."""


def update_exponent(epsilon: Fraction) -> Fraction:
    """Of an update, amortised: a list is as long as a light key allows, or as there are heavy keys."""
    return max(epsilon, 1 - epsilon)


@dataclass(frozen=True)
class CountPlan:
    """A count, and the ε that its parts are made with."""

    shape: CountShape
    chosen: Chosen
    has_groups: bool = False
    """True if the count is of a group that nothing folds, so that it must be known when it may be beyond a BIGINT."""
    sums_up: bool = False
    """True if the count may have several words."""
    outputs: frozenset[Var] = frozenset()
    constant_update_for: tuple[str, ...] = ()
    changes_one_row: bool = True
    remarks: tuple[str, ...] = ()
    height: int = 1

    @property
    def epsilon(self) -> Fraction:
        """Where the dial stands."""
        return self.chosen.epsilon

    @property
    def reason(self) -> str:
        """What is counted, over which views, and the ε."""
        return f"{self.shape.kind}: {self._views}; {self.chosen.reason}"

    @property
    def _views(self) -> str:
        if self.shape.is_path:
            return "sums by the middle and pairs of ends, for heavy keys"
        if self.shape.has_pairs(self.epsilon):
            return "below ε = 1/3, views that pair heavy rows with light ones, doubly partitioned, are the smallest"
        return "the shortest list is walked, unless all are heavy; then what they have in common is stored"

    def space_exponent(self, epsilon: Fraction) -> Fraction:
        """Of rows and views together (triangle.md 8, 18.4, 18.6)."""
        if self.shape.is_path:
            return 1 + min(epsilon, 1 - epsilon)
        if self.shape.has_pairs(epsilon):
            return 1 + epsilon
        n = len(self.shape.bundles)
        return max(ONE, (1 - epsilon) * Fraction(n - 1, n - 2))

    @property
    def dial(self) -> Dial:
        """Where it stands, and what it costs."""
        return Dial(self.chosen, self.exponents, BENDS)

    def exponents(self, epsilon: Fraction) -> Exponents:
        """Those of the dial at some ε (triangle.md 14); views are filled by single updates."""
        update = update_exponent(epsilon)
        return Exponents(update, Fraction(0), self.space_exponent(epsilon), 1 + update)

    @property
    def bounds(self) -> Bounds:
        """What it costs at this ε."""
        return self.dial.exponents.bounds

    @property
    def ordered_by(self) -> None:
        """Its rows are kept in no order."""

    @property
    def keeps_extremes(self) -> bool:
        """Sums are all that is kept of a group."""
        return False

    def looks_up(self, variables: frozenset[Var]) -> bool:
        """Its parts are not kept by such keys."""
        return False

    @property
    def tasks(self) -> Mapping[Task, Cost]:
        """The one row is stored."""
        cost = Cost(self.bounds.update, CONSTANT)
        return {Task.LIST: cost, Task.TEST: cost, Task.COUNT: cost}

    @property
    def diagram(self) -> Diagram:
        """The total over the relations."""
        labels = atom_labels(self.shape.query)
        below = tuple(
            DiagramNode(labels[i], key=names(words), is_listed=False)
            for i, words in zip(self.shape.atoms, self.shape.words, strict=True)
        )
        root = DiagramNode("total", Box.JOIN, children=below)
        return Diagram("count", f"count over parts at ε = {self.epsilon}", "count over heavy and light parts", root)

    @property
    def summary(self) -> str:
        """The join."""
        labels = atom_labels(self.shape.query)
        return " ⋈ ".join(labels[i] for i in self.shape.atoms)

    def notes(self) -> tuple[tuple[str, str], ...]:
        """Nothing beside the dial."""
        return ()

    def to_dict(self) -> dict[str, Any]:
        """The join as data."""
        return {"tree": {"node": self.summary, "children": []}, "height": self.height}


@dataclass(frozen=True)
class Counts:
    """Maintains counts, and sums of columns and of their products, without groups."""

    def judge(self, core: Core, facts: Facts) -> Judgement:
        """Whether it is such a count; it is never worse than walking lists, so it is taken wherever it fits."""
        shape = count_shape(facts.query)
        if isinstance(shape, str):
            return Judgement(False, shape)
        if facts.query.semantics is Semantics.SET:
            return Judgement(False, "copies do not count: there is nothing to be counted")
        if facts.classification.hierarchical:
            return Judgement(False, "the query is hierarchical: its count takes constant time without parts")
        if facts.residual:
            return Judgement(False, "conditions across relations would have to be checked on every result")
        if core.extremes:
            return Judgement(False, "of groups it keeps counts and sums only: CROWN keeps MIN and MAX in its tree")
        plan = self.plan(core, facts)
        return Judgement(True, plan.reason, plan.tasks, OPTIONS, advised=True, dial=plan.dial)

    def plan(self, core: Core, facts: Facts) -> CountPlan:
        """The parts' ε: a count is read in constant time, so ½ is best for everything."""
        shape = count_shape(facts.query)
        assert isinstance(shape, CountShape)
        chosen = epsilon_of(facts.options, HALF, HALF, HALF)
        return CountPlan(shape, chosen, core.grouped and not core.folded, core.sums_up)

    def owns(self, plan: StrategyPlan) -> bool:
        """Whether a plan is one of these."""
        return isinstance(plan, CountPlan)

    def compile(self, plan: StrategyPlan, sums: Sequence[Sum], signatures: Sequence[Hashable] = ()) -> Maintained:
        """The program of the shape."""
        assert isinstance(plan, CountPlan)
        program = plan.shape.program(plan.epsilon, sums, signatures)
        program.counts_rows = not plan.sums_up
        program.limits = {j: s.limit for j, s in enumerate(sums, 1) if s.limit is not None}
        if plan.has_groups:
            program.limits[0] = MOST_COPIES
        return program.compile()
