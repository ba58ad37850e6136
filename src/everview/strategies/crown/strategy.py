"""CROWN as one of the strategies."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from everview.query.options import ONLY_TEST
from everview.strategies.bounds import CONSTANT, ENCLOSURE
from everview.strategies.core import Core, Facts
from everview.strategies.crown.compile import compile_crown
from everview.strategies.crown.plan import CrownPlan, plan_crown
from everview.strategies.crown.tested import TestedPlan, compile_tested, plan_tested, why_listed
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

OPTIONS = ("access", "count", "lookup", "answers")


@dataclass(frozen=True)
class Crown:
    """Maintains every conjunctive query, most of them in constant time for the updates that are common."""

    name: str = "crown"

    def judge(self, core: Core, facts: Facts) -> Judgement:
        """It always fits; how well is a matter of the class, and of what is asked of the rows."""
        verdict = facts.classification
        if _is_only_tested(core, facts):
            tasks = {Task.TEST: Cost(CONSTANT, CONSTANT)}
            return Judgement(True, "t-hierarchical, and rows are only tested", tasks, OPTIONS, advised=True)
        if not verdict.acyclic:
            return Judgement(True, "cyclic: runs over bags, kept by delta joins", options=OPTIONS)
        if verdict.q_hierarchical:
            cost = Cost(CONSTANT, CONSTANT)
            tasks = {Task.LIST: cost, Task.TEST: cost}
            return Judgement(True, "q-hierarchical: a tree of height 1 exists", tasks, OPTIONS)
        cost = Cost(ENCLOSURE, CONSTANT)
        kind = "free-connex" if verdict.free_connex else "acyclic: runs with more variables in the output"
        return Judgement(True, kind, {Task.LIST: cost, Task.TEST: cost}, OPTIONS)

    def plan(self, core: Core, facts: Facts) -> CrownPlan | TestedPlan:
        """The best tree; or a tree for each part of the query, where rows are only tested."""
        if _is_only_tested(core, facts):
            return plan_tested(facts)
        found = replace(plan_crown(facts), has_groups=core.grouped and not core.folded, sums_up=core.sums_up)
        wanted = bool(facts.options.access)
        lookups = tuple(variables for variables in facts.lookups if found.looks_up(variables))
        has_access = wanted and found.may_access
        has_count = bool(facts.options.count) and found.may_access and not has_access
        extremes = core.extremes if found.may_keep_extremes else ()
        has_log = facts.options.history is not None and found.may_log and not (found.is_distinct and core.operators)
        return replace(
            found,
            wants_access=wanted,
            has_access=has_access,
            has_count=has_count,
            has_log=has_log,
            lookups=lookups,
            why_listed=why_listed(core, facts) if facts.options.answers == ONLY_TEST else None,
            extremes=extremes,
        )

    def compile(
        self,
        plan: StrategyPlan,
        sums: Sequence[Sum],
        signatures: Sequence[Hashable] = (),
        orders: WordOrders = WORDS_AS_THEY_ARE,
    ) -> Maintained:
        """The program that propagates changes along the tree."""
        if isinstance(plan, TestedPlan):
            return compile_tested(plan, signatures)
        assert isinstance(plan, CrownPlan)
        return compile_crown(plan, sums, signatures, orders)


def _is_only_tested(core: Core, facts: Facts) -> bool:
    """True if rows are only tested, and updates are cheaper where they need not be listed."""
    return facts.options.answers == ONLY_TEST and why_listed(core, facts) is None
