"""What the planner asks: it fits every core, and says what its joins cost."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from everview.strategies.stored_result.compile import compile_stored_result

from everview.query.conjunctive import ConjunctiveQuery
from everview.query.covers import fractional_cover_number
from everview.query.show import atom_labels
from everview.query.terms import Var
from everview.strategies.bounds import CONSTANT, Bounds, power
from everview.strategies.core import Core, Facts
from everview.strategies.diagram import Box, Diagram, DiagramNode
from everview.strategies.dial import OPTIONS, dial_advice, epsilon_of
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


@dataclass(frozen=True)
class StoredResultPlan:
    """Only the query, and the variables that its stored result has."""

    query: ConjunctiveQuery
    outputs: frozenset[Var]
    epsilon: Fraction
    sums_up: bool = False
    reason: str = "the whole result is stored"
    constant_update_for: tuple[str, ...] = ()
    changes_one_row: bool = False
    remarks: tuple[str, ...] = ()
    height: int = 1

    @cached_property
    def bounds(self) -> Bounds:
        """An update may change the whole result."""
        size = power(fractional_cover_number(self.query.edges, self.query.variables))
        return Bounds(size, size, CONSTANT, size)

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
        """A stored row is found by its key."""
        cost = Cost(self.bounds.update, CONSTANT)
        return {Task.LIST: cost, Task.TEST: cost}

    @property
    def diagram(self) -> Diagram:
        """One box over all atoms."""
        below = tuple(DiagramNode(label, key="∅", is_listed=False) for label in atom_labels(self.query))
        return Diagram("result", "stored whole", "stored whole", DiagramNode("result", Box.JOIN, children=below))

    @property
    def summary(self) -> str:
        """The join."""
        return " ⋈ ".join(atom_labels(self.query))

    def notes(self) -> tuple[tuple[str, str], ...]:
        """Nothing more to say."""
        return ()

    def to_dict(self) -> dict[str, Any]:
        """The join as data."""
        return {"tree": {"node": self.summary, "children": []}, "height": self.height}


@dataclass(frozen=True)
class StoredResult:
    """Stores the result of the join."""

    name: str = "stored-result"

    def judge(self, core: Core, facts: Facts) -> Judgement:
        """It always fits, and is advised where its dial, if it had one, would pay."""
        advice = dial_advice(core, facts)
        return Judgement(True, f"any join can be stored; {advice.reason}", options=OPTIONS, advised=advice.advised)

    def plan(self, core: Core, facts: Facts) -> StoredResultPlan:
        """The output, and what conditions across relations need."""
        needed = frozenset(v for p in facts.residual for v in p.variables)
        chosen = epsilon_of(facts.options, Fraction(1, 2), Fraction(0), Fraction(1))
        return StoredResultPlan(facts.query, facts.query.free | needed, chosen.epsilon, core.sums_up)

    def compile(
        self,
        plan: StrategyPlan,
        sums: Sequence[Sum],
        signatures: Sequence[Hashable] = (),
        orders: WordOrders = WORDS_AS_THEY_ARE,
    ) -> Maintained:
        """A table an atom, and one for the result."""
        assert isinstance(plan, StoredResultPlan)
        return compile_stored_result(plan.query, tuple(sorted(plan.outputs)), sums, plan.epsilon, sums_up=plan.sums_up)
