"""The dial ε of strategies that trade the cost of an update against that of a read: which ε, and whether it pays."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from everview.query.options import ViewOptions
from everview.strategies.core import Core, Facts

OPTIONS: Final = ("epsilon", "optimize")
"""The options of a view that set the dial."""
MOST_PARTS: Final = 10
"""The largest denominator q of ε = p/q: degrees are compared as deg^q with N^p, in numbers of at most six words."""


@dataclass(frozen=True)
class Chosen:
    """The ε that is taken, and why, in words."""

    epsilon: Fraction
    reason: str


def epsilon_of(options: ViewOptions, balanced: Fraction, updates: Fraction, reads: Fraction) -> Chosen:
    """The ε that was given; else the one of what the view is optimized for; else the balanced one.

    ``balanced``, ``updates`` and ``reads`` are the strategy's own: where its two costs are balanced, where an update
    costs least, and where a read does.
    """
    if options.epsilon is not None:
        given = options.epsilon
        epsilon = given.limit_denominator(MOST_PARTS)
        near = (
            "" if epsilon == given else f" as the nearest fraction to {float(given):g} with at most {MOST_PARTS} parts"
        )
        beside = f"; optimize = '{options.optimize}' has no effect beside it" if options.optimize else ""
        return Chosen(epsilon, f"ε = {epsilon} is the one that was asked for{near}{beside}")
    match options.optimize:
        case "updates":
            return Chosen(updates, f"ε = {updates} makes updates cheapest, which optimize = 'updates' asks for")
        case "reads":
            return Chosen(reads, f"ε = {reads} makes reads cheapest, which optimize = 'reads' asks for")
        case "balanced":
            return Chosen(balanced, f"ε = {balanced} balances both, which optimize = 'balanced' asks for")
    return Chosen(balanced, f"ε = {balanced} balances updates and reads, as nothing else is asked for")


@dataclass(frozen=True)
class Advice:
    """Whether a dial should be taken before a strategy that has none, and why (not), in words."""

    advised: bool
    reason: str


def dial_advice(core: Core, facts: Facts) -> Advice:
    """Whether a dial for listing pays: it must be asked for, and nobody may need every change.

    Who is told all that changes, or folds it, has every changed row produced anyway, and a plan that keeps a join does
    that as well as any.
    """
    if facts.told:
        return Advice(False, "a dial does not pay where every change is told, as on Spark or inside a larger view")
    if core.folded:
        return Advice(False, "a dial does not pay where what follows the join needs every change")
    if not any(name in facts.options.given() for name in OPTIONS):
        return Advice(False, "for views that are read, and taken if the option epsilon or optimize asks for it")
    return Advice(True, "asked for by the view's options, and nothing needs every change while no feed is open")
