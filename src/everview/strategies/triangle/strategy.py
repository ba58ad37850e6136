"""IVM^ε as one of the strategies: it asks its kinds, each of which maintains some shapes of result."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

from everview.strategies.core import Core, Facts
from everview.strategies.strategy import WORDS_AS_THEY_ARE, Judgement, Maintained, StrategyPlan, Sum, WordOrders
from everview.strategies.triangle.count import Counts
from everview.strategies.triangle.listed import Listed


class Kind(Protocol):
    """One way in which a triangle, or a relative of it, is maintained."""

    def judge(self, core: Core, facts: Facts) -> Judgement:
        """Whether the core is of this kind."""

    def plan(self, core: Core, facts: Facts) -> StrategyPlan:
        """How a core of this kind is maintained."""

    def owns(self, plan: StrategyPlan) -> bool:
        """Whether a plan is one of this kind's."""

    def compile(self, plan: StrategyPlan, sums: Sequence[Sum], signatures: Sequence[Hashable] = ()) -> Maintained:
        """The program for one of its own plans."""


KINDS: tuple[Kind, ...] = (Listed(), Counts())
"""A core is maintained by the first kind that it fits; if it fits none, the first says why."""


@dataclass(frozen=True)
class Triangles:
    """Maintains triangles in less than linear time an update."""

    name: str = "ivm-eps-triangle"

    def judge(self, core: Core, facts: Facts) -> Judgement:
        """What the kind that fits promises."""
        if core.risks:
            return Judgement(False, "a row's product may leave its type, which it does not watch")
        judged = [kind.judge(core, facts) for kind in KINDS]
        return next((verdict for verdict in judged if verdict.fits), judged[0])

    def plan(self, core: Core, facts: Facts) -> StrategyPlan:
        """As the kind does it."""
        kind = next(kind for kind in KINDS if kind.judge(core, facts).fits)
        return kind.plan(core, facts)

    def compile(
        self,
        plan: StrategyPlan,
        sums: Sequence[Sum],
        signatures: Sequence[Hashable] = (),
        orders: WordOrders = WORDS_AS_THEY_ARE,
    ) -> Maintained:
        """As the kind does it."""
        kind = next(kind for kind in KINDS if kind.owns(plan))
        return kind.compile(plan, sums, signatures)
