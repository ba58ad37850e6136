"""What an update, a read and the state cost, as things that can be compared and printed.

N is the number of stored rows, λ the enclosureness of the update sequence (crown.md 7), Δ the change of a result.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce


@dataclass(frozen=True)
class Bound:
    """A sum of terms and, ``caveats``, what it does not say by itself (amortised, per candidate, …).

    ``exponent`` is the worst power of N, by which bounds are compared; ``terms`` is how it is written.
    """

    terms: tuple[str, ...]
    exponent: Fraction = Fraction(0)
    caveats: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ", ".join((self.short, *self.caveats))

    @property
    def short(self) -> str:
        """The bound without its caveat."""
        return f"O({' + '.join(self.terms) or '1'})"

    @property
    def is_power(self) -> bool:
        """True if it is nothing but a power of N, which swallows smaller ones."""
        return len(self.terms) == 1 and self.terms[0] == power_of_n(self.exponent)

    def times_log(self) -> Bound:
        """So many steps, each in an ordered index."""
        return Bound(tuple(f"{t} log N" for t in self.terms) or ("log N",), self.exponent, self.caveats)

    def plus(self, other: Bound) -> Bound:
        """Both costs, one after the other; caveats add up."""
        terms = tuple(dict.fromkeys(t for t in (*self.terms, *other.terms)))
        if len(terms) > 1 and self.exponent != other.exponent and max(self, other, key=lambda b: b.exponent).is_power:
            smaller = min(self, other, key=lambda b: b.exponent)
            terms = tuple(t for t in terms if t not in smaller.terms or not smaller.is_power)
        caveats = tuple(dict.fromkeys((*self.caveats, *other.caveats)))
        return Bound(terms, max(self.exponent, other.exponent), caveats)


CONSTANT = Bound(())
LOGARITHMIC = Bound(("log N",))
LINEAR = Bound(("N",), Fraction(1))
ENCLOSURE = Bound(("λ",), Fraction(1), ("amortised", "at most O(N)"))


def power(exponent: Fraction) -> Bound:
    """N to some power; to the power 0 it is constant."""
    return CONSTANT if exponent == 0 else Bound((power_of_n(exponent),), exponent)


def power_of_n(exponent: Fraction) -> str:
    """N, N^2, N^(3/2)."""
    if exponent == 1:
        return "N"
    return f"N^{exponent}" if exponent.denominator == 1 else f"N^({exponent})"


def total(bounds: Iterable[Bound]) -> Bound:
    """All of several costs together."""
    return reduce(Bound.plus, bounds)


@dataclass(frozen=True)
class Bounds:
    """The four costs of a plan."""

    preprocessing: Bound
    update: Bound
    delay: Bound
    space: Bound

    def to_dict(self) -> dict[str, str]:
        """As the public contract names them."""
        return {
            "preprocessing": str(self.preprocessing),
            "update": str(self.update),
            "delay": str(self.delay),
            "space": str(self.space),
        }


def total_of(all_bounds: Iterable[Bounds]) -> Bounds:
    """The costs of several parts that all take part in every update."""
    listed = list(all_bounds)
    return Bounds(
        total(b.preprocessing for b in listed),
        total(b.update for b in listed),
        total(b.delay for b in listed),
        total(b.space for b in listed),
    )
