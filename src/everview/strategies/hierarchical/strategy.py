"""The ε dial for hierarchical queries as one of the strategies."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from everview.query.widths import Widths
from everview.strategies.bounds import power, power_of_n
from everview.strategies.core import Core, Facts
from everview.strategies.dial import OPTIONS, dial_advice, epsilon_of
from everview.strategies.hierarchical.compile import compile_hierarchical
from everview.strategies.hierarchical.order import Mode
from everview.strategies.hierarchical.plan import HierarchicalPlan
from everview.strategies.strategy import (
    WORDS_AS_THEY_ARE,
    Cost,
    Judgement,
    Maintained,
    StrategyPlan,
    Sum,
    Task,
    WordOrders,
)

ASKING: Final = (*OPTIONS, "mode")
"""The options that guide it."""


@dataclass(frozen=True)
class Hierarchical:
    """Maintains hierarchical queries that are not q-hierarchical: cheaper updates for dearer reads, or the reverse."""

    name: str = "ivm-eps-hierarchical"

    def judge(self, core: Core, facts: Facts) -> Judgement:
        """It fits hierarchical queries that have something to trade, and is advised where the dial is asked for."""
        verdict = facts.classification
        if not verdict.hierarchical:
            return Judgement(False, "the query is not hierarchical")
        if verdict.q_hierarchical:
            return Judgement(False, "q-hierarchical: there is nothing to trade")
        if facts.residual:
            return Judgement(False, "conditions across relations need every row of the join")
        if core.multiplies or not all(a.function.is_count for a in core.aggregates):
            return Judgement(False, "of groups it keeps counts only: CROWN keeps sums and other aggregates")
        assert verdict.widths is not None
        advice = dial_advice(core, facts, ASKING)
        plan = self.plan(core, facts)
        cost = Cost(plan.bounds.update, plan.bounds.delay)
        tasks = {Task.LIST: cost, Task.TEST: cost}
        reason = f"{tradeoff(verdict.widths)}; {advice.reason}"
        return Judgement(True, reason, tasks, ASKING, advice.advised, plan.dial)

    def plan(self, core: Core, facts: Facts) -> HierarchicalPlan:
        """The canonical order, and the ε that the options ask for."""
        widths = facts.classification.widths
        assert widths is not None
        chosen = epsilon_of(facts.options, balance(widths), Fraction(0), Fraction(1))
        mode = Mode(facts.options.mode or Mode.DYNAMIC.value)
        has_groups = core.grouped and not core.folded
        return HierarchicalPlan(facts.query, widths, chosen.epsilon, chosen.reason, mode, has_groups, core.sums_up)

    def compile(
        self,
        plan: StrategyPlan,
        sums: Sequence[Sum],
        signatures: Sequence[Hashable] = (),
        orders: WordOrders = WORDS_AS_THEY_ARE,
    ) -> Maintained:
        """The program; every occurrence of a relation has a table of its own."""
        assert isinstance(plan, HierarchicalPlan)
        return compile_hierarchical(plan, sums)


def balance(widths: Widths) -> Fraction:
    """The ε at which an update and the delay have the same exponent (hierarchical-tradeoff.md 11.1)."""
    return Fraction(1, 1 + widths.delta_tight)


def tradeoff(widths: Widths) -> str:
    """The dial in words, and where its two costs balance."""
    delta = widths.delta_tight
    update = "N^ε" if delta == 1 else f"N^({delta}ε)"
    balanced = power_of_n(power(delta * balance(widths)).exponent)
    return (
        f"w = {widths.w}, δ = {delta}: update {update} and delay N^(1−ε) for any ε in [0, 1], "
        f"both {balanced} at ε = {balance(widths)}"
    )
