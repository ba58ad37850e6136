"""How one conjunctive core is maintained: by a strategy that fits it, and what that costs with all around it.

What follows the core is the same for every strategy: changes are folded where an operator needs them or derivations
merge, conditions across relations are checked on results, groups are filtered. Its cost is added here.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from everview.query.classify import Classification, classify
from everview.query.conjunctive import ConjunctiveQuery, Semantics
from everview.query.constraints import NO_CONSTRAINTS, Constraints
from everview.query.covers import fractional_cover_number
from everview.query.options import KEPT_BESIDE, NO_OPTIONS, ViewOptions
from everview.query.terms import Const, Expression, Var, names
from everview.strategies import JUDGED_ONLY, STRATEGIES
from everview.strategies.bounds import CONSTANT, Bound, Bounds
from everview.strategies.core import Core, Facts
from everview.strategies.dial import Dial
from everview.strategies.strategy import (
    WORDS_AS_THEY_ARE,
    Cost,
    Judgement,
    Maintained,
    Strategy,
    StrategyPlan,
    Sum,
    Task,
    WordOrders,
    costs_dict,
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A strategy and its verdict on a core."""

    strategy: str
    fits: bool
    chosen: bool
    reason: str
    options: tuple[str, ...] = ()
    """The options of the view that guide it."""
    tasks: Mapping[Task, Cost] = field(default_factory=dict)
    """What it promises for each task: as it is planned if it is chosen, else as far as the class tells."""
    dial: Dial | None = None
    """Its dial ε, if it has one."""

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "strategy": self.strategy,
            "fits": self.fits,
            "chosen": self.chosen,
            "reason": self.reason,
            "costs": costs_dict(self.tasks),
            "dial": self.dial.to_dict() if self.dial else None,
        }


@dataclass(frozen=True)
class CorePlan:
    """The plan for one core: the strategy that was chosen, its own plan, and what comes after it."""

    core: Core
    facts: Facts
    strategy: Strategy
    maintenance: StrategyPlan
    """The strategy's own plan."""
    candidates: tuple[Candidate, ...]
    """Every strategy's verdict; exactly one is chosen."""
    remarks: tuple[str, ...]

    @property
    def classification(self) -> Classification:
        """The classes that the query is in."""
        return self.facts.classification

    @property
    def query(self) -> ConjunctiveQuery:
        """The query that is maintained: the core's minimal form."""
        return self.facts.query

    @property
    def filters(self) -> tuple[Expression, ...]:
        """Conditions on one relation: checked before an update enters."""
        return self.facts.filters

    def is_never_null(self, v: Var) -> bool:
        """True if no row has NULL there: it is joined or compared, or stands in a column that never holds it."""
        found = ((a.relation, i) for a in self.query.atoms for i, t in enumerate(a.terms) if t == v)
        return v in self.query.not_null or any(place in self.facts.never_null for place in found)

    def filters_of(self, index: int) -> list[Expression]:
        """The filters of which this atom is the first to hold all that they read.

        A column that is fixed (``t.a = 1``) is a constant, in its atom as in conditions on it: ``7 % (t.a - 1) > 0``
        stays a condition of t, and does not fail where t has no rows. One that reads nothing goes to the first atom.
        """
        atoms = [frozenset(a.all_terms) for a in self.query.atoms]

        def home(condition: Expression) -> int:
            holding = [i for i, held in enumerate(atoms) if condition.variables <= held]
            fixed = {p for p in condition.parts if isinstance(p, Const)}
            return next((i for i in holding if fixed <= atoms[i]), holding[0])

        return [p for p in self.filters if home(p) == index]

    @property
    def residual(self) -> tuple[Expression, ...]:
        """Conditions across relations: checked on results as they are listed."""
        return self.facts.residual

    @property
    def is_distinct(self) -> bool:
        """True if copies do not count."""
        return self.query.semantics is Semantics.SET

    @property
    def added(self) -> frozenset[Var]:
        """Variables of the maintained rows beyond what is asked for, which are projected away when read."""
        return self.maintenance.outputs - self.query.free

    @property
    def dial(self) -> Dial | None:
        """The dial ε of the strategy that was chosen, if it has one."""
        return next(c.dial for c in self.candidates if c.chosen)

    @property
    def height(self) -> int:
        """The height of the strategy's tree."""
        return self.maintenance.height

    @property
    def merges_rows(self) -> bool:
        """True if several maintained rows can be one row of the result."""
        return bool(self.added)

    @property
    def folds_rows(self) -> bool:
        """True if its changes are folded into rows that are kept: for an operator, or where derivations merge."""
        return self.core.folded or (self.merges_rows and (self.is_distinct or self.core.grouped))

    @property
    def constant_update_for(self) -> tuple[str, ...]:
        """The kinds of update sequences on which an update takes constant (amortised) time."""
        if self.core.keeps_values or self.core.extremes or (self.folds_rows and not self.maintenance.changes_one_row):
            return ()
        return self.maintenance.constant_update_for

    @cached_property
    def bounds(self) -> Bounds:
        """What maintaining this core costs, with what is done to its rows."""
        own = self.maintenance.bounds
        build, update, delay, space = own.preprocessing, own.update, own.delay, own.space
        if self.core.extremes:  # Every row whose weight changes may have another value, which has a place in an order.
            build, update, delay = (bound.times_log() for bound in (build, update, delay))
        kept = self.maintenance.outputs
        if self.core.risks:
            update = update.plus(
                Bound((), caveats=("while the largest factors multiply to what a row's product may be",))
            )
        if self.folds_rows:
            update = update.plus(self._fold_cost())
            build = build.plus(self._kept_rows("|Q⁺|" if self.merges_rows else "|Q|", kept))
            space = space.plus(self._kept_rows("|Q|", kept if self.core.keeps_values else self.query.free))
        elif self.merges_rows:
            delay = delay.plus(Bound((), Fraction(1), (f"per derivation ({names(self.added)} projected away)",)))
        if self.residual:
            checks = " and ".join(map(str, self.residual))
            delay = delay.plus(Bound((), Fraction(1), (f"per candidate ({checks} checked on each)",)))
        if self.core.filtered:
            delay = delay.plus(Bound((), Fraction(1), ("per group (HAVING checked on each)",)))
        return Bounds(build, update, delay, space)

    def _fold_cost(self) -> Bound:
        """Each changed row is folded in: MIN and MAX keep values in order."""
        if self.merges_rows:
            changed = Bound(("|Δ⁺|",), Fraction(1), (f"Δ⁺ the change before {names(self.added)} goes",))
        else:
            changed = CONSTANT if self.maintenance.changes_one_row else Bound(("|Δ|",), Fraction(1))
        return changed.times_log() if self.core.keeps_values else changed

    def _kept_rows(self, name: str, free: frozenset[Var]) -> Bound:
        """The rows that a fold keeps; no more than are stored where one relation has all their columns."""
        size = fractional_cover_number(self.query.edges, free & self.query.variables)
        return CONSTANT if size <= 1 else Bound((name,), size)

    def compile(
        self,
        sums: Sequence[Sum] = (),
        signatures: Sequence[Hashable] = (),
        orders: WordOrders = WORDS_AS_THEY_ARE,
    ) -> Maintained:
        """What the engine runs, with these sums beside each row's weight.

        ``signatures`` say which atoms are alike, ``orders`` how words are compared.
        """
        return self.strategy.compile(self.maintenance, sums, signatures, orders)


def idle_options(options: ViewOptions, cores: Sequence[CorePlan]) -> list[str]:
    """For each option that is set and that guides none of the cores' strategies, a note that says so."""
    candidates = [c for core in cores for c in core.candidates]
    chosen = ", ".join(dict.fromkeys(c.strategy for c in candidates if c.chosen))
    found = []
    for name in (name for name in options.given() if name not in KEPT_BESIDE):
        guided = [c for c in candidates if name in c.options]
        if not any(c.chosen for c in guided):
            others = ", ".join(dict.fromkeys(c.strategy for c in guided))
            more = f"; it would guide {others}" if others else ""
            found.append(f"option {name} has no effect on {chosen}, which maintains the view{more}")
    return found


def plan_core(
    core: Core,
    statistics: Mapping[str, float] | None = None,
    options: ViewOptions = NO_OPTIONS,
    never_null: frozenset[tuple[str, int]] = frozenset(),
    constraints: Constraints = NO_CONSTRAINTS,
    *,
    lookups: Sequence[frozenset[Var]] = (),
    order: Sequence[Var] = (),
    told: bool = False,
) -> CorePlan:
    """Plan one core; ``statistics`` are the updates expected at each table, ``options`` those of its view.

    ``lookups`` are the sets of its variables that rows are looked up by, ``order`` those that they are to be kept in
    order by, if they are. ``never_null`` has the columns that never hold
    NULL, by relation and place; by the ``constraints`` the query has been rewritten already. With ``told`` all that
    changes is always told. A strategy that is advised is taken before one that is not, and else the order of strategies
    decides, unless keys make that one's updates constant-time.
    """
    classification = classify(core.query)
    wanted = tuple(dict.fromkeys(lookups))
    facts = Facts(classification, statistics or {}, options, never_null, constraints, wanted, tuple(order), told)
    judged = [(s, s.judge(core, facts)) for s in STRATEGIES]
    fitting = [(s, verdict) for s, verdict in judged if verdict.fits]
    strategy, maintenance = _chosen(core, facts, fitting)
    candidates = [
        Candidate(s.name, True, True, maintenance.reason, v.options, maintenance.tasks, v.dial)
        if s is strategy
        else Candidate(s.name, v.fits, False, v.reason, v.options, v.tasks, v.dial)
        for s, v in judged
    ]
    for other in JUDGED_ONLY:
        verdict = other.judge(facts)
        candidates.append(Candidate(other.name, verdict.fits, False, verdict.reason, verdict.options))
    remarks: list[str] = []
    if not classification.is_proven_minimal:
        remarks.append("the search for a smaller equivalent query was cut: the class may be better than shown")
    if len(facts.query.atoms) < len(core.query.atoms):
        gone = len(core.query.atoms) - len(facts.query.atoms)
        remarks.append(f"{gone} of {len(core.query.atoms)} atoms are redundant under set semantics and not maintained")
    return CorePlan(core, facts, strategy, maintenance, tuple(candidates), (*remarks, *maintenance.remarks))


def _chosen(core: Core, facts: Facts, fitting: Sequence[tuple[Strategy, Judgement]]) -> tuple[Strategy, StrategyPlan]:
    """The strategy to take among those that fit, and its plan.

    What is advised is so for any data. Where keys and foreign keys make the first strategy's updates take constant
    time, nothing is better, and it is taken unless the view's options ask for the other one.
    """
    first = fitting[0][0]
    advised, verdict = next(((s, v) for s, v in fitting if v.advised), fitting[0])
    asked = facts.options.given().keys() & set(verdict.options)
    if advised is not first and not asked and facts.constraints.about(facts.query):
        maintenance = first.plan(core, facts)
        if {"any", "keyed"} & set(maintenance.constant_update_for):
            return first, maintenance
    return advised, advised.plan(core, facts)
