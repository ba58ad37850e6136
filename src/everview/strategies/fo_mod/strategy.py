"""What the method says of a core: it keeps formulas, which are views of their own, and no core is one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from everview.strategies.core import Core, Facts
from everview.strategies.strategy import (
    WORDS_AS_THEY_ARE,
    Judgement,
    Maintained,
    StrategyPlan,
    Sum,
    WordOrders,
)

NAME = "fo-mod"
_NO_DEGREE = "needs a declared bound on the number of neighbours of every value"
_NO_FORMULA = "keeps formulas: SELECT DISTINCT with conditions that compare columns, EXISTS and counts of witnesses"


@dataclass(frozen=True)
class FoMod:
    """Keeps views whose body is a formula (``strategies.fo_mod.plan``); the planner sends them there by their body."""

    name: str = NAME

    def judge(self, core: Core, facts: Facts) -> Judgement:
        """No core fits: one whose query is a formula, and whose view has the option ``degree``, has become one."""
        return Judgement(False, _NO_DEGREE if facts.options.degree is None else _NO_FORMULA, options=("degree",))

    def plan(self, core: Core, facts: Facts) -> StrategyPlan:
        """Never asked, as no core fits."""
        raise TypeError("no core is kept as a formula")

    def compile(
        self,
        plan: StrategyPlan,
        sums: Sequence[Sum],
        signatures: Sequence[Hashable] = (),
        orders: WordOrders = WORDS_AS_THEY_ARE,
    ) -> Maintained:
        """Never asked, as no core fits."""
        raise TypeError("no core is kept as a formula")


STRATEGY = FoMod()
