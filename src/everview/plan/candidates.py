"""The maintenance strategies, which of them fit a core, and why each is taken or not."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from everview.plan.bounds import power_of_n
from everview.plan.core_plan import CorePlan
from everview.query.conjunctive import ConjunctiveQuery
from everview.query.terms import names
from everview.query.widths import Widths

BUILT = frozenset({"crown"})
"""The strategies that this version compiles to programs; the others are judged, and said to be missing."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A strategy and its verdict on a query."""

    strategy: str
    fits: bool
    chosen: bool
    reason: str

    def to_dict(self) -> dict[str, str | bool]:
        """As plain data."""
        return {"strategy": self.strategy, "fits": self.fits, "chosen": self.chosen, "reason": self.reason}


def candidates(plan: CorePlan) -> tuple[Candidate, ...]:
    """Every strategy in turn; exactly one is chosen."""
    return (
        Candidate("crown", True, True, _crown_reason(plan)),
        _q_hierarchical(plan),
        _hierarchical(plan),
        _triangle(plan),
        Candidate("fo-mod", False, False, "needs a declared bound on the number of neighbours of every value"),
        Candidate("recompute", True, False, "always possible, and never taken unless it is asked for"),
    )


def _crown_reason(plan: CorePlan) -> str:
    verdict = plan.classification
    if plan.decomposition:
        total = len(plan.relations)
        joined = sum(r.is_bag for r in plan.relations)
        width = power_of_n(plan.decomposition.fractional_width)
        bags = "one bag" if total == 1 else f"{total} bags, {joined} of them joins"
        return f"cyclic: runs over {bags} of size {width} at most, kept by delta joins"
    if plan.merges_rows and not verdict.free_connex:
        return f"acyclic but not free-connex: runs with {names(plan.added)} in the output as well"
    if plan.residual:
        return "conditions across relations are checked on its results as they are listed"
    if plan.height == 1:
        return "q-hierarchical: a tree of height 1 exists, so every update takes constant time"
    return f"free-connex: a tree of height {plan.height} exists, with no join state beside the input"


def _not_built(strategy: str, reason: str) -> Candidate:
    missing = "" if strategy in BUILT else "; not in this version"
    return Candidate(strategy, True, False, reason + missing)


def _q_hierarchical(plan: CorePlan) -> Candidate:
    name = "q-hierarchical"
    if not plan.classification.q_hierarchical:
        return Candidate(name, False, False, "the query is not q-hierarchical")
    return _not_built(name, "same O(1) bounds as CROWN's tree of height 1, and adds counting and direct access")


def _hierarchical(plan: CorePlan) -> Candidate:
    name = "ivm-eps-hierarchical"
    verdict = plan.classification
    if not verdict.hierarchical:
        return Candidate(name, False, False, "the query is not hierarchical")
    if verdict.q_hierarchical:
        return Candidate(name, False, False, "q-hierarchical: there is nothing to trade")
    if plan.residual:
        return Candidate(name, False, False, "conditions across relations")
    widths = verdict.widths
    assert widths is not None
    return _not_built(name, tradeoff(widths))


def tradeoff(widths: Widths) -> str:
    """The dial of hierarchical-tradeoff.md 11.1 in words, and where its two costs balance."""
    delta = widths.delta_tight
    balance = Fraction(1, 1 + delta)
    balanced = Fraction(delta, 1 + delta)
    update = "N^ε" if delta == 1 else f"N^({delta}ε)"
    return (
        f"w = {widths.w}, δ = {delta}: update {update} and delay N^(1−ε) for any ε in [0, 1], "
        f"both {power_of_n(balanced)} at ε = {balance}"
    )


def _triangle(plan: CorePlan) -> Candidate:
    name = "ivm-eps-triangle"
    shape = loomis_whitney_degree(plan.query)
    if shape is None:
        return Candidate(name, False, False, "the query is no triangle and no Loomis-Whitney query")
    what = "a triangle" if shape == 3 else f"a Loomis-Whitney query of degree {shape}"
    half = power_of_n(Fraction(1, 2))
    shown = len(plan.query.free & frozenset(v for v, atoms in plan.query.atoms_of.items() if len(atoms) > 1))
    if shown in (0, shape):
        return _not_built(name, f"{what}: update {half} and delay O(1) at ε = 1/2, which is optimal under OMv")
    delay = power_of_n(min(Fraction(1), Fraction(shape - shown, 2)))
    return _not_built(name, f"{what}: update {half} and delay {delay} at ε = 1/2, which cannot both be less under OMv")


def loomis_whitney_degree(query: ConjunctiveQuery) -> int | None:
    """n if the query joins n relations over n variables, each missing a different one; 3 is the triangle.

    Variables of one atom only and variables that occur in the same atoms are taken together (triangle.md 18.3).
    """
    shared = {frozenset(atoms) for atoms in query.atoms_of.values() if len(atoms) > 1}
    n = len(query.atoms)
    everywhere = frozenset(range(n))
    missing = [everywhere - atoms for atoms in shared if atoms != everywhere]
    return n if n >= 3 and len(missing) == n and all(len(m) == 1 for m in missing) else None
