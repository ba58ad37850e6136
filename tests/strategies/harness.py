"""Runs a core's program under random updates and compares it with DuckDB after each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from everview.plan.core_plan import CorePlan, plan_core
from everview.plan.cores import Core
from everview.query.conjunctive import Atom, ConjunctiveQuery
from everview.query.terms import Const, Var
from everview.strategies.crown import CrownProgram, compile_crown
from tests.support import Row, evaluate

Update = tuple[str, Row, int]
"""A relation, a row, and +1 or −1."""


@dataclass
class Driver:
    """Feeds base updates into a program: matches each against every atom, occurrence by occurrence."""

    query: ConjunctiveQuery
    machine_of: Callable[[Any], Any]
    plan: CorePlan = field(init=False)
    crown: CrownProgram = field(init=False)
    machine: Any = field(init=False)
    database: dict[str, list[Row]] = field(default_factory=dict)
    total: Counter[Row] = field(default_factory=Counter)
    loud: bool = True

    def __post_init__(self) -> None:
        self.plan = plan_core(Core("result", self.query))
        self.crown = compile_crown(self.plan)
        self.machine = self.machine_of(self.crown.program)
        self.switch(self.loud)

    def switch(self, loud: bool) -> None:
        """Open or close the feed."""
        self.loud = loud
        self.machine.apply(self.crown.wake if loud else self.crown.sleep, [[0]])
        if loud:
            self.total = self.listed()

    def update(self, relation: str, row: Row, change: int) -> None:
        rows = self.database.setdefault(relation, [])
        if change > 0:
            rows.append(row)
        else:
            rows.remove(row)
        for entry in self.crown.inputs:
            atom = self.plan.query.atoms[entry.atom]
            words = match(atom, relation, row, self.plan.query.not_null)
            if words is not None:
                arguments = [[words[v]] for v in entry.variables] + [[change]]
                self.machine.apply(entry.loud if self.loud else entry.quiet, arguments)
        for *out, weight in rows_of(self.machine.take("delta")):
            assert weight != 0
            self.total[tuple(out)] += weight
            if self.total[tuple(out)] == 0:
                del self.total[tuple(out)]

    def listed(self) -> Counter[Row]:
        """The result as the cursor lists it; a row comes once."""
        found: Counter[Row] = Counter()
        for *out, weight in self.machine.rows("result"):
            assert tuple(out) not in found
            assert weight > 0
            found[tuple(out)] = weight
        return found

    def expected(self) -> Counter[Row]:
        """The maintained output by DuckDB."""
        return evaluate(self.plan.query.with_head(self.crown.outputs), self.database)

    def check(self) -> None:
        wanted = self.expected()
        assert self.listed() == wanted
        if self.loud:
            assert self.total == wanted


def rows_of(columns: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    return list(zip(*columns, strict=True)) if columns else []


def match(atom: Atom, relation: str, row: Row, not_null: frozenset[Var]) -> dict[Var, int] | None:
    """The words of an atom's variables for a row, or None if the row does not fit it; NULL becomes a word of its own."""
    if atom.relation != relation:
        return None
    found: dict[Var, int] = {}
    for term, cell in zip(atom.terms, row, strict=True):
        if isinstance(term, Const):
            if cell is None or cell != term.value:
                return None
        elif cell is None and term in not_null:
            return None
        elif found.setdefault(term, cell) != cell:
            return None
    return found
