"""Triangles with corners in their output: all three, two (a number for every edge), or one (for every vertex)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from everview.query.conjunctive import ConjunctiveQuery
from everview.query.show import atom_labels
from everview.query.terms import Var
from everview.strategies.bounds import Bounds, power, power_of_n
from everview.strategies.core import Core, Facts
from everview.strategies.diagram import Box, Diagram, DiagramNode
from everview.strategies.dial import FEEDS, OPTIONS, Chosen, Dial, Exponents, dial_advice, epsilon_of
from everview.strategies.strategy import Cost, Judgement, Maintained, StrategyPlan, Sum, Task
from everview.strategies.triangle.compile import compile_triangle
from everview.strategies.triangle.shape import Triangle, triangle_of
from everview.strategies.triangle.views import ALL, DESIGNS, Role, View

HALF = Fraction(1, 2)
ONE = Fraction(1)
MOST_COPIES = 2**63 - 1
"""So many rows a group may have: COUNT is a BIGINT."""
KINDS = {1: "a number for every vertex", 2: "a number for every edge", 3: "a listing"}


def update_exponent(epsilon: Fraction) -> Fraction:
    """Of an update, amortised: a list is as long as a light key allows, or as there are heavy keys."""
    return max(epsilon, 1 - epsilon)


def delay_exponent(arity: int, epsilon: Fraction) -> Fraction:
    """Between two rows: the union tests each bucket, of which there is one for every heavy key, or pair of such.

    With ε = 0 all keys are heavy, and then nothing is in a bucket.
    """
    if arity == 3 or epsilon == 0:
        return Fraction(0)
    return min(ONE, (3 - arity) * (1 - epsilon))


def test_exponent(arity: int, epsilon: Fraction) -> Fraction:
    """Of a test, and of a weight: a value that is light has short lists, and there are few heavy ones in a list."""
    return min(ONE, (3 - arity) * min(epsilon, 1 - epsilon))


def space_exponent(arity: int, epsilon: Fraction) -> Fraction:
    """Of all views together."""
    return Fraction(3, 2) if arity == 3 else 1 + min(epsilon, 1 - epsilon)


@dataclass(frozen=True)
class ListedPlan:
    """A triangle, and the ε that its parts are made with."""

    query: ConjunctiveQuery
    triangle: Triangle
    chosen: Chosen
    has_groups: bool = False
    sums_up: bool = False
    constant_update_for: tuple[str, ...] = ()
    changes_one_row: bool = False
    height: int = 1

    @property
    def epsilon(self) -> Fraction:
        """Where the dial stands."""
        return self.chosen.epsilon

    @property
    def arity(self) -> int:
        """How many corners are output."""
        return self.triangle.arity

    @property
    def reason(self) -> str:
        """What the triangle is for, and the ε."""
        return f"a triangle, {KINDS[self.arity]}, over heavy and light parts; {self.chosen.reason}"

    @property
    def outputs(self) -> frozenset[Var]:
        """What is asked for, and no more."""
        return frozenset(self.triangle.outputs)

    @property
    def dial(self) -> Dial:
        """Where it stands, and what it costs."""
        return Dial(self.chosen, self.exponents, (Fraction(0), HALF, ONE))

    def exponents(self, epsilon: Fraction) -> Exponents:
        """Those of the dial at some ε (triangle.md 14); views are filled by single updates."""
        update = update_exponent(epsilon)
        return Exponents(update, delay_exponent(self.arity, epsilon), space_exponent(self.arity, epsilon), 1 + update)

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
        """Listing, and testing a row: by its edges, or by those triangles of it that are in no stored view."""
        update = self.bounds.update
        tested = power(test_exponent(self.arity, self.epsilon))
        return {Task.LIST: Cost(update, self.bounds.delay), Task.TEST: Cost(update, tested)}

    @property
    def remarks(self) -> tuple[str, ...]:
        """Where a dial does not pay, and where another ε is better in everything."""
        if self.arity == 3 or self.epsilon >= HALF or self.epsilon == 0:
            return (FEEDS,)
        other = 1 - self.epsilon
        now, then = (power_of_n(delay_exponent(self.arity, e)) for e in (self.epsilon, other))
        better = "O(1)" if delay_exponent(self.arity, other) == 0 else then
        same = f"ε = {other} costs an update as much and has delay {better} instead of {now}: better at everything"
        return (same, FEEDS)

    @property
    def diagram(self) -> Diagram:
        """The views by the parts that they are over."""
        design = DESIGNS[self.arity]
        labels = dict(zip("RST", (atom_labels(self.query)[atom] for atom in self.triangle.atoms), strict=True))
        trees = {tree.root: tree.leaf for tree in design.trees}
        below = []
        for view in (*design.pieces, *trees):
            leaf = trees.get(view)
            leaves = (DiagramNode(_shown(leaf), Box.JOIN, key=_names(self.triangle, view)),) if leaf else ()
            below.append(DiagramNode(_shown(view), Box.JOIN, key=_names(self.triangle, view), children=leaves))
        inputs = tuple(
            DiagramNode(f"{name} = {label}", key=_corners(self.triangle, k), is_listed=False)
            for k, (name, label) in enumerate(labels.items())
        )
        root = DiagramNode(f"result ({', '.join(v.name for v in self.triangle.outputs)})", children=(*below, *inputs))
        return Diagram("views", f"views over parts at ε = {self.epsilon}", "views over heavy and light parts", root)

    @property
    def summary(self) -> str:
        """The join."""
        labels = atom_labels(self.query)
        return " ⋈ ".join(labels[atom] for atom in self.triangle.atoms)

    def notes(self) -> tuple[tuple[str, str], ...]:
        """Nothing beside the dial."""
        return ()

    def to_dict(self) -> dict[str, Any]:
        """The join as data."""
        return {"tree": {"node": self.summary, "children": []}, "height": self.height}


def _cost(exponent: Fraction) -> str:
    return "O(1)" if exponent == 0 else power_of_n(exponent)


def _shown(view: View) -> str:
    parts = " ⋈ ".join(
        f"{name}" if part == ALL else f"{name}.{part}"
        for name, part in zip("RST", view.parts, strict=True)
        if part is not None
    )
    return f"{parts}, kept as leaves" if view.role is Role.PAIR else parts


def _names(triangle: Triangle, view: View) -> str:
    return ", ".join(v.name for v in triangle.words(view.key))


def _corners(triangle: Triangle, relation: int) -> str:
    return ", ".join(v.name for v in triangle.words(("ab", "bc", "ca")[relation]))


@dataclass(frozen=True)
class Listed:
    """Maintains triangles of which some corners are output."""

    def judge(self, core: Core, facts: Facts) -> Judgement:
        """Whether it is such a triangle; whether to take it depends on what the view is for."""
        triangle = triangle_of(facts.query)
        if isinstance(triangle, str):
            return Judgement(False, triangle)
        if triangle.arity == 0:
            return Judgement(False, "no corner of the triangle is output")
        if facts.residual:
            return Judgement(False, "conditions across relations would have to be checked on every triangle")
        plan = self._plan(core, facts, triangle)
        advice = dial_advice(core, facts)
        costs = (
            f"update {_cost(update_exponent(plan.epsilon))}, delay {_cost(delay_exponent(plan.arity, plan.epsilon))}"
        )
        reason = f"a triangle, {KINDS[triangle.arity]}: {costs} at ε = {plan.epsilon}; {advice.reason}"
        return Judgement(True, reason, plan.tasks, OPTIONS, advice.advised, plan.dial)

    def plan(self, core: Core, facts: Facts) -> ListedPlan:
        """The parts' ε."""
        triangle = triangle_of(facts.query)
        assert isinstance(triangle, Triangle)
        return self._plan(core, facts, triangle)

    def _plan(self, core: Core, facts: Facts, triangle: Triangle) -> ListedPlan:
        reads = HALF if triangle.arity == 3 else ONE
        balanced = {1: Fraction(2, 3), 2: HALF, 3: HALF}[triangle.arity]
        chosen = epsilon_of(facts.options, balanced, HALF, reads)
        return ListedPlan(facts.query, triangle, chosen, core.grouped and not core.folded, core.sums_up)

    def owns(self, plan: StrategyPlan) -> bool:
        """Whether a plan is one of these."""
        return isinstance(plan, ListedPlan)

    def compile(self, plan: StrategyPlan, sums: Sequence[Sum], signatures: Sequence[Hashable] = ()) -> Maintained:
        """Parts, views over them, and how they are read."""
        assert isinstance(plan, ListedPlan)
        limits = {j: s.limit for j, s in enumerate(sums, 1) if s.limit is not None}
        if plan.has_groups:
            limits[0] = MOST_COPIES
        factors = [s.factors for s in sums]
        return compile_triangle(plan.query, plan.triangle, plan.epsilon, factors, limits, sums_up=plan.sums_up)
