"""The verdict on a view, as text, as data and as a picture."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from everview.errors import QueryError
from everview.plan.core_plan import CorePlan, idle_options
from everview.plan.hardness import Task, concatenated_tasks, lower_bound, tasks, union_tasks, unknown_tasks
from everview.plan.ordering import UNKNOWN
from everview.plan.part_plan import PartPlan
from everview.plan.read_off import read_off
from everview.plan.reads import how_positions_are_found, kept_costs
from everview.plan.repair import declarations, if_only_tested, repairs
from everview.plan.shard_tables import unchecked
from everview.plan.shards import Distribution
from everview.plan.small_domains import ALWAYS_EMPTY
from everview.plan.view_plan import ViewPlan, looked_up
from everview.query.orders import canonical_order, free_top_order
from everview.query.terms import Var
from everview.query.view import Block, Cut
from everview.strategies.dial import Exponents

RESTRICTED = "none known: its tables change only as they are declared to, and lower bounds are about any updates"
"""What is said of hardness where OPTIONS (updates = …) restrict what may come."""

IN_ORDER = (
    "while rows come in the order of their times they go in it, as all windows are of one length: then joining takes "
    "amortised constant time an update, beside the queue of what is due"
)
"""What is said of views over rows that go by the clock, where the class allows it."""


@dataclass(frozen=True)
class Explanation:
    """What Everview has to say about a view before any data is there.

    ``str()`` is text for a terminal, ``to_dict()`` data, ``to_svg()`` a picture, which notebooks show by themselves.
    """

    plan: ViewPlan
    sections: tuple[tuple[str, str], ...] = ()
    """Further text under a title: what was measured, or the programs."""
    distribution: Distribution | None = None
    """How the view would be spread over shards, if that was asked for."""

    def spread(self, distribution: Distribution) -> Explanation:
        """The same with how the view would be spread over shards."""
        text = "\n".join([str(distribution), *unchecked(distribution.first)])
        return replace(self.with_section("shards", text), distribution=distribution)

    def with_section(self, title: str, text: str) -> Explanation:
        """The same with one section more."""
        return replace(self, sections=(*self.sections, (title, text)))

    @property
    def classes(self) -> dict[str, bool]:
        """The classes that hold for every core of the view."""
        flags = [c.classification.flags() for c in self.plan.cores]
        return {name: all(f[name] for f in flags) for name in flags[0]}

    @property
    def best_class(self) -> str:
        """The best class that holds for the whole view."""
        held = self.classes
        found = next((name for name in ("q_hierarchical", "free_connex", "acyclic") if held[name]), "cyclic")
        return found.replace("_", "-")

    @property
    def strategy(self) -> str:
        """The strategy that maintains the view."""
        return self.plan.main.strategy.name

    @cached_property
    def lower_bound(self) -> str | None:
        """Why nothing better is possible, for the core that gives the rows; None where constant time is reached."""
        if self.plan.is_constant_as_declared or ALWAYS_EMPTY in self.plan.result.remarks:
            return None
        if self.plan.is_restricted and "any" not in self.plan.constant_update_for:
            return RESTRICTED
        if self.plan.result.union and len(self.plan.cores) > 1:
            listed = self.view_tasks["list"]
            if "any" in self.plan.constant_update_for:
                return None
            if listed.verdict != "constant":
                known = listed.verdict == "hard"
                return f"{listed.reason} ({listed.reference})" if known else f"none known: {listed.reason}"
        said = lower_bound(self.plan.main, self.plan.constraints, self.plan.derived)
        if said is None and "any" not in self.plan.constant_update_for:
            return "none known: the rows come from a q-hierarchical query, the cost from what is done with them"
        return said

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Remarks, what would make the query cheaper, and what was cut or ignored."""
        found = list(self.plan.view.remarks)
        for part in self.plan.parts:
            found += part.remarks
        for core in self.plan.cores:
            found += core.remarks
        found += self._declared()
        if self.plan.timed and "fifo" in self.plan.constant_update_for:
            found.append(IN_ORDER)
        is_constant = self.plan.is_constant_as_declared or {"any", "keyed"} & set(self.plan.constant_update_for)
        for core in () if is_constant else self._rows_of_the_view:
            about = "" if len(self.plan.cores) == 1 else f"{core.query}: "
            changes = repairs(core.classification, self.plan.constraints)
            changes += declarations(core, self.plan.constraints, self.plan.tables)
            found += [about + change for change in changes]
        found += () if is_constant else if_only_tested(self._rows_of_the_view)
        found += idle_options(self.plan.view.options, self.plan.cores)
        return tuple(dict.fromkeys(found))

    @property
    def _rows_of_the_view(self) -> list[CorePlan]:
        """The cores that give the view's rows, if they do alone: those for which advice is given."""
        if len(self.plan.cores) == 1:
            return [self.plan.main]
        alone = len(self.plan.parts) == 1 and self.plan.result.union is not None
        return [b.cores[0] for b in self.plan.result.blocks] if alone else []

    def _declared(self) -> list[str]:
        """What it gives that tables change only as they are declared to."""
        kinds = self.plan.constant_update_for
        if not self.plan.is_restricted or "any" in kinds:
            return []
        if not self.plan.is_constant_as_declared:
            return ["how its tables are declared to change gives no better bound: no theorem covers it for this query"]
        how = "form one queue" if self.plan.declared == "fifo" else "lose no rows"
        return [f"its tables {how} (OPTIONS (updates = …)), so an update takes amortised constant time"]

    @property
    def why(self) -> str:
        """What the first ``why`` of a row takes; later ones find what they need."""
        body = self.plan.view.body
        width = len(body.columns)
        while isinstance(body, Cut):
            body = body.body
        if isinstance(body, Block) and not any(a.relation in self.plan.derived for a in body.atoms):
            terms = [o.expression.term for o in body.outputs[:width]]
            if read_off(body, [t for t in terms if isinstance(t, Var)], self._key_of) is not None:
                return "read off the row, which shows all columns or the primary key of each table"
        return "the join with all columns of its tables is built beside the view, as a second view"

    def _key_of(self, relation: str) -> tuple[int, ...]:
        keys = self.plan.constraints.keys_of(relation)
        return next((key.determinant for key in keys if not key.is_relied_on), ())

    def advise(self, **budgets: float | Fraction) -> tuple[tuple[Fraction, Fraction], ...]:
        """The ranges of ε that keep costs within budgets, for the core that gives the rows; none if no ε does.

        A budget is a power of N: ``advise(update=0.5, delay=0.5)`` asks for updates and delays of O(N^0.5). There may
        be one for ``update``, ``delay``, ``space`` and ``preprocessing``.
        """
        known = [f.name for f in fields(Exponents)]
        for name, budget in budgets.items():
            if name not in known:
                raise QueryError(f"{name} is no cost of a dial", hint=f"give some of {', '.join(known)}")
            given: object = budget
            is_number = isinstance(given, int | float | Fraction) and not isinstance(given, bool)
            if not is_number or not 0 <= budget < math.inf:
                raise QueryError(f"the budget for {name} is {budget!r}", hint="give a power of N, such as 0.5 for √N")
        ranked = sorted(self.plan.main.candidates, key=lambda c: not c.chosen)
        dial = next((c.dial for c in ranked if c.dial), None)
        if dial is None:
            raise QueryError(
                f"no strategy with a dial fits view {self.plan.view.name}",
                hint="there is one for triangles, and for hierarchical queries that are not q-hierarchical",
            )
        return dial.within({name: Fraction(str(budget)) for name, budget in budgets.items()})

    def tasks(self, core: CorePlan) -> dict[str, Task]:
        """What each kind of read of a core's rows can cost."""
        return tasks(core.classification, self.plan.constraints, core.facts.lookups)

    @cached_property
    def view_tasks(self) -> dict[str, Task]:
        """What each kind of read of the view can cost, and what it costs as the view is kept."""
        costs, how = kept_costs(self.plan), {"access": how_positions_are_found(self.plan)}
        best = self._at_best.items()
        return {name: task.as_kept(costs[name], how.get(name, "")) for name, task in best if name in costs}

    @property
    def _at_best(self) -> dict[str, Task]:
        """What each kind of read of the view can cost, whatever method is used."""
        main = self.plan.main
        if ALWAYS_EMPTY in self.plan.result.remarks:
            return unknown_tasks(ALWAYS_EMPTY)
        result = self.plan.result
        passed_on = result.only_concatenates and not any(c.core.grouped for c in self.plan.cores)
        if len(self.plan.parts) > 1 or not (len(self.plan.cores) == 1 or result.union or passed_on):
            return unknown_tasks("the theorems are about one query, and the view is made of several")
        if any(part.arranged for part in self.plan.parts):
            return unknown_tasks(UNKNOWN)
        if main.core.grouped:
            return unknown_tasks("the theorems are about rows of a join, and these are groups")
        if any(atom.relation in self.plan.derived for core in self.plan.cores for atom in core.query.atoms):
            return unknown_tasks("the theorems do not cover queries over other views")
        if len(self.plan.cores) == 1:
            found = self.tasks(main)
        elif result.union:
            found = union_tasks(result.union, self.plan.constraints, looked_up(self.plan.view))
        else:
            found = concatenated_tasks([self.tasks(core) for core in self.plan.cores])
        if self.plan.is_restricted:  # The conjectures are about updates of any kind.
            unknown = unknown_tasks(RESTRICTED)
            found = {name: unknown[name] if task.verdict == "hard" else task for name, task in found.items()}
        return found

    def to_dict(self) -> dict[str, Any]:
        """The whole verdict as plain data; top-level entries speak of the view, ``parts`` of each core."""
        main = self.plan.main
        return {
            "view": self.plan.view.name,
            "columns": [{"name": c.name, "type": str(c.type)} for c in self.plan.view.columns],
            "query": str(self.plan.view),
            **({"options": self.plan.view.options.to_dict()} if self.plan.view.options else {}),
            "strategy": self.strategy,
            "classes": self.classes,
            "tree": main.maintenance.to_dict()["tree"],
            "height": max(c.height for c in self.plan.cores),
            "bounds": self.plan.bounds.to_dict(),
            "dial": main.dial.to_dict() if main.dial else None,
            "constant_update_for": list(self.plan.constant_update_for),
            "lower_bound": self.lower_bound,
            "tasks": {name: t.to_dict() for name, t in self.view_tasks.items()},
            "why": self.why,
            "notes": list(self.notes),
            "strategies": [c.to_dict() for c in main.candidates],
            "parts": [self._part_dict(p) for p in self.plan.parts],
            **dict(self.sections),
            **({"shards": self.distribution.to_dict()} if self.distribution else {}),
        }

    def _part_dict(self, part: PartPlan) -> dict[str, Any]:
        return {
            "name": part.name,
            "purpose": part.purpose,
            "operators": list(part.operators),
            "union": part.union.to_dict() if part.union else None,
            "counted": [{"coefficient": n, "query": str(b.cores[0].query)} for n, b in part.terms],
            "cores": [self._core_dict(b.label, c) for b in part.blocks for c in b.cores],
        }

    def _core_dict(self, label: str, core: CorePlan) -> dict[str, Any]:
        verdict = core.classification
        widths = verdict.widths
        return {
            "block": label,
            "role": core.core.role,
            "query": str(core.core.query),
            "core": str(core.query),
            "classes": verdict.flags(),
            "witnesses": verdict.witnesses(),
            "widths": {"w": widths.w, "delta": widths.delta, "delta_tight": widths.delta_tight} if widths else None,
            "variable_orders": self._orders(core),
            "filters": [str(p) for p in core.filters],
            "residual_predicates": [str(p) for p in core.residual],
            "operators": list(core.core.operators),
            **core.maintenance.to_dict(),
            "bounds": core.bounds.to_dict(),
            "dial": core.dial.to_dict() if core.dial else None,
            "constant_update_for": list(core.constant_update_for),
            "lower_bound": lower_bound(core, self.plan.constraints, self.plan.derived),
            "tasks": {name: t.to_dict() for name, t in self.tasks(core).items()},
            "strategies": [c.to_dict() for c in core.candidates],
        }

    def _orders(self, core: CorePlan) -> dict[str, str] | None:
        if not core.classification.hierarchical:
            return None
        query = core.query
        return {"canonical": canonical_order(query).show(query), "free_top": free_top_order(query).show(query)}

    def to_svg(self) -> str:
        """A picture of the tree with its bounds."""
        from everview.plan.svg import render_svg

        return render_svg(self)

    def _repr_svg_(self) -> str:
        return self.to_svg()

    def __str__(self) -> str:
        from everview.plan.text import render_text

        return render_text(self)

    def __repr__(self) -> str:
        return f"<Explanation of {self.plan.view.name}: {self.strategy}, {self.plan.bounds.update} per update>"
