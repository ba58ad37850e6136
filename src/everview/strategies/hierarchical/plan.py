"""How a hierarchical query is maintained: its variable order, what each node of it is, and ε (the dial)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from everview.query.conjunctive import ConjunctiveQuery, Semantics
from everview.query.terms import Var
from everview.query.widths import Widths
from everview.strategies.bounds import Bounds, power
from everview.strategies.diagram import Diagram
from everview.strategies.dial import FEEDS, Chosen, Dial, Exponents
from everview.strategies.hierarchical.order import Mode, Order, Role, order_of
from everview.strategies.hierarchical.show import diagram_of, order_line, split_line
from everview.strategies.strategy import Cost, Task


@dataclass(frozen=True)
class HierarchicalPlan:
    """The order of a query, and the ε that its keys are split by."""

    query: ConjunctiveQuery
    widths: Widths
    epsilon: Fraction
    why: str
    """Why this ε."""
    mode: Mode = Mode.DYNAMIC
    has_groups: bool = False
    """True if its rows are groups, which must not have more copies than a BIGINT counts."""
    sums_up: bool = False
    """True if its weights go into groups, and have as many words as they need."""
    remarks: tuple[str, ...] = (FEEDS,)
    changes_one_row: bool = False

    @cached_property
    def order(self) -> Order:
        """The canonical variable order, with the role of each node."""
        return order_of(self.query, self.mode)

    @property
    def outputs(self) -> frozenset[Var]:
        """The query's own output; nothing is added."""
        return self.query.free

    @property
    def is_distinct(self) -> bool:
        """True if copies do not count."""
        return self.query.semantics is Semantics.SET

    @property
    def reason(self) -> str:
        """Why it fits, and what it does here."""
        how = "light keys are joined ahead, heavy ones when read"
        if not self.order.split:
            how = "tables are filled once, so everything is joined ahead"
        elif self._joins_ahead:
            how = "tables are filled once, so keys are joined ahead if one relation has all output, else light ones are"
        return f"hierarchical, not q-hierarchical: {how}; {self.why}"

    @property
    def _joins_ahead(self) -> bool:
        """True if some keys are joined ahead, whatever their degree."""
        return any(node.role is Role.JOINED for node in self.order.walk())

    @property
    def dial(self) -> Dial:
        """Where it stands, and what it costs."""
        return Dial(Chosen(self.epsilon, self.why), self.exponents)

    def exponents(self, epsilon: Fraction) -> Exponents:
        """Those of the dial at some ε (hierarchical-tradeoff.md 11.1): the state is made of all rows at once.

        In static mode an update may join a row with all that has the same key; where nothing is split, ε has no effect.
        """
        built = 1 + max(0, self.widths.w - 1) * epsilon
        if self.mode is Mode.DYNAMIC:
            return Exponents(self.widths.delta_tight * epsilon, 1 - epsilon, built, built)
        split = bool(self.order.split)
        update = max(Fraction(self._joins_ahead), self.widths.delta_tight * epsilon * split)
        return Exponents(update, (1 - epsilon) * split, built, built)

    @cached_property
    def bounds(self) -> Bounds:
        """What it costs at this ε."""
        return self.dial.exponents.bounds

    @property
    def constant_update_for(self) -> tuple[str, ...]:
        """Any updates, at ε = 0; else those for which no bound is better."""
        return ("any", "fifo", "insert_only") if self.bounds.update.exponent == 0 else ()

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
        """Listing, and testing a row, which goes through the heavy keys; of bags the count is kept."""
        cost = Cost(self.bounds.update, self.bounds.delay)
        found = {Task.LIST: cost, Task.TEST: cost}
        return found if self.is_distinct else {**found, Task.COUNT: Cost(self.bounds.update, power(Fraction(0)))}

    @property
    def height(self) -> int:
        """There is no join tree to speak of."""
        return 1

    @cached_property
    def diagram(self) -> Diagram:
        """The variable order with its roles."""
        return diagram_of(self.query, self.order)

    @property
    def summary(self) -> str:
        """The order on one line."""
        return order_line(self.query, self.order)

    def notes(self) -> tuple[tuple[str, str], ...]:
        """What is split, and how many view trees that stands for."""
        return (("split", split_line(self.query, self.order)),) if self.order.split else ()

    def to_dict(self) -> dict[str, Any]:
        """Its shape as plain data."""
        split = [
            {"variables": [v.name for v in n.variables], "key": [v.name for v in n.keys]} for n in self.order.split
        ]
        return {
            "tree": {"node": self.summary, "children": []},
            "height": self.height,
            "mode": self.mode.value,
            "split": split,
        }
