"""The ways to write a number of shards as a product of shares, one a dimension."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice
from math import isqrt
from typing import NamedTuple


class Shares(NamedTuple):
    """Ways to share, the largest first shares first, and whether there are others that were left out."""

    ways: tuple[tuple[int, ...], ...]
    cut: bool


def ways_to_share(shards: int, dimensions: int, most: int) -> Shares:
    """All ways to write the number of shards as a product of so many shares, at most so many of them.

    If there are more, those along the fewest dimensions are taken, but one dimension alone is always among them.
    """
    divisors, most = _divisors(shards), max(most, dimensions)
    found = [] if shards > 1 else [(1,) * dimensions]
    for used in range(1, dimensions + 1 if shards > 1 else 0):
        more = list(islice(_along(divisors, shards, dimensions, used), most + 1))
        if not more or (found and len(found) + len(more) > most):
            return Shares(tuple(sorted(found, reverse=True)), bool(more))
        found += more
    return Shares(tuple(sorted(found, reverse=True)), False)


def _along(divisors: list[int], shards: int, dimensions: int, used: int) -> Iterator[tuple[int, ...]]:
    """Those ways that cut along exactly so many dimensions."""
    for places in combinations(range(dimensions), used):
        for factors in _factored(divisors, shards, used):
            shares = dict(zip(places, factors, strict=True))
            yield tuple(shares.get(i, 1) for i in range(dimensions))


def _factored(divisors: list[int], number: int, parts: int) -> Iterator[tuple[int, ...]]:
    """The number as a product of so many factors above 1, in every order."""
    if parts == 1:
        if number > 1:
            yield (number,)
        return
    for first in divisors:
        if first > 1 and number % first == 0:
            for rest in _factored(divisors, number // first, parts - 1):
                yield (first, *rest)


def _divisors(number: int) -> list[int]:
    small = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})
