"""Views by formula: their plan, and what is said of it as text and as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from everview.plan.explain import Explanation
from everview.plan.formula_shards import Components
from everview.plan.hardness import TASKS, Task
from everview.plan.part_plan import PartPlan
from everview.plan.reads import PASSED
from everview.plan.text import CLASS_NAMES, entry, tables, tasks_lines
from everview.plan.view_plan import ViewPlan
from everview.query.constraints import constraints_of
from everview.query.options import KEPT_BESIDE
from everview.query.schema import Schema
from everview.query.view import FormulaBody, View
from everview.strategies.bounds import Bounds
from everview.strategies.fo_mod.plan import LOWER_BOUND, FormulaPlan
from everview.strategies.strategy import Cost
from everview.strategies.strategy import Task as Asked

_GUIDES = ("degree", "domain", "component")
"""The options that mean something for a formula."""
_REFUSED = {
    "count": "three variables are tested and listed, but not counted: no bound of ours covers it",
    "difference": "three variables are tested and listed, but not told: no bound of ours covers it",
}


@dataclass(frozen=True)
class FormulaViewPlan(ViewPlan):
    """How a view by formula is maintained: a part without cores, after those that check its components."""

    formula: FormulaPlan = field(kw_only=True)
    components: Components = field(kw_only=True)

    @property
    def bounds(self) -> Bounds:
        """Those of the method."""
        return self.formula.bounds

    @property
    def constant_update_for(self) -> tuple[str, ...]:
        """Any updates, as long as the degree stays within its bound."""
        return ("any",)

    @property
    def is_restricted(self) -> bool:
        """How tables are declared to change makes no difference."""
        return False


def plan_formula(
    view: View, body: FormulaBody, stages: Sequence[PartPlan], schema: Schema, views: frozenset[str]
) -> FormulaViewPlan:
    """The plan of a view by formula; its stages check what is promised of components."""
    part = PartPlan(view.name, "", body, (), (), None)
    return FormulaViewPlan(
        view,
        (*stages, part),
        constraints_of(schema),
        views,
        formula=FormulaPlan(body),
        components=Components.of(body, schema),
    )


@dataclass(frozen=True)
class FormulaExplanation(Explanation):
    """The verdict on a view by formula; ``census`` is what was counted, once there is data."""

    plan: FormulaViewPlan
    census: Mapping[str, Any] | None = None

    def counted(self, census: Mapping[str, Any]) -> FormulaExplanation:
        """The same with what the census has met."""
        return replace(self, census=census)

    @property
    def classes(self) -> dict[str, bool]:
        """The classes of conjunctive queries say nothing of it."""
        return {**dict.fromkeys(CLASS_NAMES, False), "bounded_degree": True}

    @property
    def best_class(self) -> str:
        """What the data must be."""
        return "bounded-degree"

    @property
    def strategy(self) -> str:
        """The method that maintains the view."""
        return self.plan.formula.name

    @cached_property
    def lower_bound(self) -> str | None:
        """Why the constants are what they are."""
        return LOWER_BOUND

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What is worth knowing."""
        found = list(self.plan.view.remarks)
        for name in self.plan.view.options.given():
            if name not in (*_GUIDES, *KEPT_BESIDE):
                found.append(f"option {name} has no effect on {self.strategy}, which maintains the view")
        body = self.plan.formula.body
        if not body.is_independent and body.domain == "schema":
            others = sorted(body.tables - {f.relation for f in _named(body)})
            if others:
                found.append(f"elements of {', '.join(others)} matter, too: write domain = 'query' if they should not")
        if self.plan.parts[:-1]:
            found.append(f"that no element stands in rows of two components, by their {body.component}, is checked")
        found.append(str(self.plan.components))
        return tuple(found)

    @property
    def view_tasks(self) -> dict[str, Task]:
        """What each kind of read of the view costs."""
        known = self.plan.formula.tasks
        found = {}
        for name in TASKS:
            asked = Asked.LIST if name == "answer" else Asked(name)
            if asked in known:
                reason = "the degree is bounded, and the number of types that occur does not grow"
                cost = known[asked]
                found[name] = Task("constant", str(cost.update), str(cost.read), reason, kept=cost)
                continue
            why = _REFUSED.get(name) if not self.plan.formula.is_counted else None
            found[name] = Task("unknown", None, None, why or "rows are listed for it, in no order")
            if why is None:
                found[name] = found[name].as_kept(Cost(known[Asked.LIST].update, PASSED))
        return found

    def to_dict(self) -> dict[str, Any]:
        """The whole verdict as plain data; ``formula`` has what only formulas have."""
        return {
            "view": self.plan.view.name,
            "columns": [{"name": c.name, "type": str(c.type)} for c in self.plan.view.columns],
            "query": str(self.plan.view),
            **({"options": self.plan.view.options.to_dict()} if self.plan.view.options else {}),
            "strategy": self.strategy,
            "classes": self.classes,
            "tree": None,
            "height": 1,
            "bounds": self.plan.bounds.to_dict(),
            "dial": None,
            "constant_update_for": list(self.plan.constant_update_for),
            "lower_bound": self.lower_bound,
            "tasks": {name: t.to_dict() for name, t in self.view_tasks.items()},
            "notes": list(self.notes),
            "strategies": [{"strategy": self.strategy, "chosen": True, "reason": self.plan.formula.reason}],
            "parts": [],
            "formula": self.plan.formula.to_dict(),
            **({"census": dict(self.census)} if self.census is not None else {}),
            **dict(self.sections),
            **({"shards": self.distribution.to_dict()} if self.distribution else {}),
        }

    def __str__(self) -> str:
        plan = self.plan
        lines = entry("view", f"{plan.view.name}({', '.join(f'{c.name} {c.type}' for c in plan.view.columns)})")
        if plan.view.options:
            lines += entry("options", str(plan.view.options))
        lines += entry("verdict", "constant time per update and constant delay, as long as the degree is bounded")
        for name, text in plan.formula.lines():
            lines += entry(name, text)
        if self.census is not None:
            lines += entry("met", census_text(self.census, plan.formula.body.degree))
        lines += tables("bounds", plan.bounds.to_dict().items())
        lines += tables("tasks", tasks_lines(self.view_tasks))
        lines += entry("hardness", LOWER_BOUND)
        for note in self.notes:
            lines += entry("note", note)
        lines += entry("", "N: elements; guarded: witnesses are near; types: surroundings of an element that differ")
        for title, text in self.sections:
            lines += ["", f"── {title} " + "─" * max(4, 60 - len(title)), *text.splitlines()]
        return "\n".join(lines)


def explained(plan: ViewPlan) -> Explanation:
    """The explanation of a plan, of whichever kind it is."""
    return FormulaExplanation(plan) if isinstance(plan, FormulaViewPlan) else Explanation(plan)


def census_text(census: Mapping[str, Any], degree: int) -> str:
    """What the census has met, in a sentence."""
    types = ", ".join(f"{number} of radius {radius}" for radius, number in census["types"].items()) or "none counted"
    if census["accepted_types"]:
        types += f", {census['accepted_types']} of the answers' types accepted"
    most = census["max_degree"]
    if census["suspended"] is not None:
        types = f"none, as the view is suspended: {census['suspended']}"
    return (
        f"{census['elements']} elements and {census['facts']} facts; types that occur: {types}; the most neighbours of "
        f"an element are {most}, so there is room for {max(0, degree - most)} more"
    )


def _named(body: FormulaBody) -> list[Any]:
    from everview.query.formula import facts

    return facts(body.query.formula)
