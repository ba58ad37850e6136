"""The dial ε of strategies that trade the cost of an update against that of a read: which ε, and whether it pays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

from everview.query.options import ViewOptions
from everview.strategies.bounds import Bound, Bounds, power
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


def dial_advice(core: Core, facts: Facts, asking: Sequence[str] = OPTIONS) -> Advice:
    """Whether a dial for listing pays: an option must ask for it, and nobody may need every change.

    Who is told all that changes, or folds it, has every changed row produced anyway, and a plan that keeps a join does
    that as well as any.
    """
    if facts.told:
        return Advice(False, "a dial does not pay where every change is told, as on Spark or inside a larger view")
    if core.folded:
        return Advice(False, "a dial does not pay where what follows the join needs every change")
    if not any(name in facts.options.given() for name in asking):
        return Advice(False, "for views that are read, and taken if the option epsilon or optimize asks for it")
    return Advice(True, "asked for by the view's options, and nothing needs every change while no feed is open")


CURVE: Final = tuple(Fraction(i, 4) for i in range(5))
"""The ε at which ``explain`` shows the costs."""
FEEDS: Final = (
    "while a feed is open every changed row is made for it, whatever ε is; on Spark, where a view is a feed, there is "
    "no dial"
)
"""Where a dial for listing does not pay, for a view that has one."""
Range = tuple[Fraction, Fraction]


@dataclass(frozen=True)
class Exponents:
    """The powers of N that an update, the delay, the state and building it cost."""

    update: Fraction
    delay: Fraction
    space: Fraction
    preprocessing: Fraction

    def to_dict(self) -> dict[str, str]:
        """As plain data: exact fractions."""
        return {name: str(value) for name, value in asdict(self).items()}

    @property
    def bounds(self) -> Bounds:
        """As bounds; parts are rebalanced from time to time, so an update that is not constant is amortised."""
        update = power(self.update)
        if self.update:
            update = Bound(update.terms, update.exponent, ("amortised",))
        return Bounds(power(self.preprocessing), update, power(self.delay), power(self.space))


@dataclass(frozen=True)
class Dial:
    """A dial, where it stands, and what it costs anywhere else."""

    chosen: Chosen
    at: Callable[[Fraction], Exponents]
    """The exponents for an ε in [0, 1]."""
    bends: tuple[Fraction, ...] = (Fraction(0), Fraction(1))
    """0, 1 and every ε between them where an exponent bends; from one to the next they are straight lines.

    At a bend itself an exponent may be lower than beside it, never higher.
    """

    @property
    def exponents(self) -> Exponents:
        """Those where it stands."""
        return self.at(self.chosen.epsilon)

    @property
    def curve(self) -> tuple[tuple[Fraction, Exponents], ...]:
        """The costs all along it, and where it stands."""
        return tuple((e, self.at(e)) for e in sorted({*CURVE, self.chosen.epsilon}))

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "epsilon": str(self.chosen.epsilon),
            "reason": self.chosen.reason,
            "exponents": self.exponents.to_dict(),
            "curve": [{"epsilon": str(e), **costs.to_dict()} for e, costs in self.curve],
        }

    def within(self, budgets: Mapping[str, Fraction]) -> tuple[Range, ...]:
        """The ranges of ε at which some exponents, by their names, are within budgets (hierarchical-tradeoff.md 11)."""
        found: list[Range] = [(e, e) for e in self.bends if _fits(self.at(e), budgets)]
        for low, high in pairwise(self.bends):
            between = _straight(self.at, low, high, budgets)
            if between is not None:
                found.append(between)
        return _joined(found)


def _fits(costs: Exponents, budgets: Mapping[str, Fraction]) -> bool:
    return all(getattr(costs, name) <= budget for name, budget in budgets.items())


def _straight(
    at: Callable[[Fraction], Exponents], low: Fraction, high: Fraction, budgets: Mapping[str, Fraction]
) -> Range | None:
    """The part of a stretch on which all costs are straight lines that is within the budgets."""
    first, second = low + (high - low) / 3, high - (high - low) / 3
    for name, budget in budgets.items():
        here, there = getattr(at(first), name), getattr(at(second), name)
        rise = (there - here) / (second - first)
        if rise == 0 and here > budget:
            return None
        if rise > 0:
            high = min(high, first + (budget - here) / rise)
        elif rise < 0:
            low = max(low, first + (budget - here) / rise)
    return (low, high) if low <= high else None


def _joined(ranges: Sequence[Range]) -> tuple[Range, ...]:
    """The same as ranges that do not touch, in their order."""
    found: list[Range] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return tuple(found)
