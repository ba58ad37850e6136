"""Generalized hypertree decompositions of least width, for cyclic queries (crown.md 8).

Eliminating the variables in some order gives a tree of bags; the best order is found by dynamic programming over the
sets of eliminated variables. Least integral edge cover first, least fractional second. With ``free`` given, output
variables are eliminated last, which makes the tree of bags free-connex. Keys make bags smaller: a variable that others
determine is covered with them, if the atom that has the key is in the bag, too (ucq-constraints.md 9.5).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from heapq import heappop, heappush
from typing import TypeVar

from everview.query.covers import are_proven, edge_cover, edge_cover_number, fractional_cover_number
from everview.query.dependencies import Dependency, closed
from everview.query.hypergraph import is_acyclic
from everview.query.terms import Var

Weight = TypeVar("Weight", int, Fraction)
Edge = frozenset[Var]
EXACT_VARIABLES = 13
"""Up to this many variables (after safe eliminations) the search is exact; beyond, it is greedy and says so."""
EXACT_WORK = 150_000
"""The search is exact only if the sets of variables, each covered by edges, are no more than this, counting edges."""


@dataclass(frozen=True, slots=True)
class Bag:
    """A set of variables, the edges (by index) joined in it, and guards: edges that only bound variables for it."""

    variables: Edge
    edges: tuple[int, ...]
    guards: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Decomposition:
    """Bags that together hold every edge once and form an acyclic query."""

    bags: tuple[Bag, ...]
    width: int
    fractional_width: Fraction
    exact: bool


def decompose(
    edges: Sequence[Edge], free: Edge | None = None, dependencies: Sequence[Dependency] = ()
) -> Decomposition:
    """A decomposition of least width; ``free`` None asks for any, a set for one that is free-connex for it.

    ``dependencies`` hold in the edges; a bag has those as edges or guards by which its size is bounded. With them a
    larger bag may have fewer rows, so bags are looked for that hold all that an edge determines, too.
    """
    found = _decomposed(edges, edges, free, dependencies)
    if dependencies:
        everything = frozenset().union(*edges)
        larger = _decomposed(edges, closed(edges, everything, dependencies), free, dependencies)
        found = min(found, larger, key=lambda d: (d.fractional_width, d.width))
    return found


def _decomposed(
    edges: Sequence[Edge], held: Sequence[Edge], free: Edge | None, dependencies: Sequence[Dependency]
) -> Decomposition:
    """A decomposition of edges of which each bag holds the ``held`` ones, which may be larger, whole."""
    search = _Elimination(held, free, dependencies)
    order, exact = search.best_order()
    merged = _merge_guarded(_bags_of(search, order, edges), edges, free, dependencies)
    bags = [_bounded(b, edges, dependencies) for b in merged]
    covers = [(closed(edges, b.variables, dependencies), b.variables) for b in bags]
    return Decomposition(
        tuple(bags),
        max(edge_cover_number(*cover) for cover in covers),
        max(fractional_cover_number(*cover) for cover in covers),
        exact and all(are_proven(*cover) for cover in covers),
    )


class _Elimination:
    """Elimination orders over variables as bits of an integer."""

    def __init__(self, edges: Sequence[Edge], free: Edge | None, dependencies: Sequence[Dependency] = ()) -> None:
        self.edges = edges
        self.dependencies = dependencies
        self.variables = sorted(frozenset().union(*edges))
        self.bit = {v: 1 << i for i, v in enumerate(self.variables)}
        self.neighbours = [0] * len(self.variables)
        self._masks = [self.mask(edge) for edge in edges]
        for mask in self._masks:
            for i in _bits(mask):
                self.neighbours[i] |= mask
        self.last = self.mask(free & frozenset(self.variables)) if free is not None else 0
        self.everything = (1 << len(self.variables)) - 1
        self._costs: dict[int, int] = {}
        self._fractions: dict[int, Fraction] = {}

    def mask(self, edge: Edge) -> int:
        return sum(self.bit[v] for v in edge)

    def unmask(self, mask: int) -> Edge:
        return frozenset(v for i, v in enumerate(self.variables) if mask >> i & 1)

    def bag(self, gone: int, v: int) -> int:
        """``v`` and what it reaches through eliminated variables: the bag that eliminating it makes."""
        reached = self.neighbours[v]
        frontier = reached & gone
        seen = 1 << v
        while frontier:
            low = frontier & -frontier
            seen |= low
            reached |= self.neighbours[low.bit_length() - 1]
            frontier = reached & gone & ~seen
        return (reached & ~gone) | 1 << v

    def cost(self, bag: int) -> int:
        if bag not in self._costs:
            self._costs[bag] = edge_cover_number(*self._covering(bag))
        return self._costs[bag]

    def fraction(self, bag: int) -> Fraction:
        if bag not in self._fractions:
            self._fractions[bag] = fractional_cover_number(*self._covering(bag))
        return self._fractions[bag]

    def _covering(self, bag: int) -> tuple[Sequence[Edge], Edge]:
        variables = self.unmask(bag)
        return closed(self.edges, variables, self.dependencies), variables

    def allowed(self, gone: int) -> int:
        """The variables that may go next: bound ones first."""
        left = self.everything & ~gone
        return (left & ~self.last) or left

    def best_order(self) -> tuple[list[int], bool]:
        prefix, gone = self._safe_prefix()
        left = (self.everything & ~gone).bit_count()
        if left <= EXACT_VARIABLES and len(set(self.edges)) << left <= EXACT_WORK:
            return prefix + self._exact(gone), True
        return prefix + self._greedy(gone), False

    def _safe_prefix(self) -> tuple[list[int], int]:
        """Variables whose bag one edge covers can go first at no loss."""
        order: list[int] = []
        gone = 0
        progress = True
        while progress:
            progress = False
            for v in _bits(self.allowed(gone)):
                if self._is_covered(self.bag(gone, v)):
                    order.append(v)
                    gone |= 1 << v
                    progress = True
                    break
        return order, gone

    def _is_covered(self, bag: int) -> bool:
        """True if one edge holds the whole bag."""
        return any(bag | edge == edge for edge in self._masks)

    def _exact(self, start: int) -> list[int]:
        """Least ρ of the worst bag, then least ρ*, then the least ρ* of all bags together."""
        width = _cheapest(self, start, self.cost, max, lambda _: True)[0]
        thin = _cheapest(self, start, self.fraction, max, lambda bag: self.cost(bag) <= width)[0]
        return _cheapest(
            self, start, self.fraction, operator.add, lambda bag: self.cost(bag) <= width and self.fraction(bag) <= thin
        )[1]

    def _greedy(self, gone: int) -> list[int]:
        order = []
        while gone != self.everything:
            v = min(
                _bits(self.allowed(gone)),
                key=lambda v: (self.cost(self.bag(gone, v)), self.bag(gone, v).bit_count(), v),
            )
            order.append(v)
            gone |= 1 << v
        return order


def _cheapest(
    search: _Elimination,
    start: int,
    cost: Callable[[int], Weight],
    together: Callable[[Weight, Weight], Weight],
    admits: Callable[[int], bool],
) -> tuple[Weight, list[int]]:
    """The cheapest order, by a best-first search over sets of eliminated variables (Dijkstra's algorithm).

    ``together`` says what two bags cost: the larger of the two, or the sum.
    """
    queue: list[tuple[Weight, int, int]] = [(cost(0), 0, start)]
    came: dict[int, tuple[int, int]] = {}
    best_known: dict[int, Weight] = {}
    done: set[int] = set()
    while queue:
        worst, negated_size, gone = heappop(queue)
        if gone in done:
            continue
        done.add(gone)
        if gone == search.everything:
            order = []
            while gone != start:
                gone, v = came[gone]
                order.append(v)
            return worst, order[::-1]
        for v in _bits(search.allowed(gone)):
            following = gone | 1 << v
            bag = search.bag(gone, v)
            if following not in done and admits(bag):
                weight = together(worst, cost(bag))
                if following not in best_known or weight < best_known[following]:
                    best_known[following] = weight
                    came[following] = (gone, v)
                    heappush(queue, (weight, negated_size - 1, following))
    raise AssertionError("some order always exists")


def _bits(mask: int) -> list[int]:
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def _bags_of(search: _Elimination, order: Sequence[int], edges: Sequence[Edge]) -> list[Bag]:
    """The maximal bags of an elimination order, each edge in the one whose variables it bounds best."""
    gone = 0
    masks: list[int] = []
    for v in order:
        masks.append(search.bag(gone, v))
        gone |= 1 << v
    maximal = [m for i, m in enumerate(masks) if not any(m | o == o and (m != o or j < i) for j, o in enumerate(masks))]
    sets = [search.unmask(m) for m in maximal] or [frozenset()]
    bags = [Bag(variables, ()) for variables in sets]
    for i in sorted(range(len(edges)), key=lambda i: sum(edges[i] <= b.variables for b in bags)):
        fitting = [k for k, b in enumerate(bags) if edges[i] <= b.variables]
        home = max(fitting, key=lambda k: len(edges[i] - _covered(bags[k], edges)))
        bags[home] = replace(bags[home], edges=tuple(sorted((*bags[home].edges, i))))
    return [_guarded(b, edges) for b in bags]


def _covered(bag: Bag, edges: Sequence[Edge]) -> Edge:
    """The variables that a bag's own edges bound."""
    return frozenset().union(*(edges[i] for i in bag.edges)) if bag.edges else frozenset()


def _guarded(bag: Bag, edges: Sequence[Edge]) -> Bag:
    """The bag with the fewest edges more that bound the variables its own edges leave open."""
    parts = edge_cover(edges, bag.variables - _covered(bag, edges))

    def best(part: Edge) -> int:
        """The edge that shares most with the bag: a guard that joins with nothing would be a product."""
        return max((i for i, e in enumerate(edges) if part <= e), key=lambda i: (len(edges[i] & bag.variables), -i))

    return replace(bag, guards=tuple(dict.fromkeys(best(part) for part in parts)))


def _bounded(bag: Bag, edges: Sequence[Edge], dependencies: Sequence[Dependency]) -> Bag:
    """The bag with the guards more that it takes for its size to be as small as all edges, and keys, make it.

    Two sides of a triangle alone may have N² rows, with the third one, which is of another bag, N^(3/2).
    """

    def size(guards: Sequence[int]) -> tuple[int, Fraction]:
        there = {*bag.edges, *guards}
        own = [edges[i] for i in sorted(there)]
        covering = closed(own, bag.variables, [d for d in dependencies if d.edge in there])
        return edge_cover_number(covering, bag.variables), fractional_cover_number(covering, bag.variables)

    useful = [i for i, e in enumerate(edges) if i not in bag.edges and e & bag.variables]
    least = size(useful)
    if size(bag.guards) <= least:
        return bag
    guards = list(dict.fromkeys((*bag.guards, *useful)))
    for guard in reversed(guards):
        fewer = [g for g in guards if g != guard]
        covered = frozenset().union(*(edges[i] for i in (*bag.edges, *fewer)))
        if bag.variables <= covered and size(fewer) <= least:
            guards = fewer
    return replace(bag, guards=tuple(guards))


def _merge_guarded(
    bags: list[Bag], edges: Sequence[Edge], free: Edge | None, dependencies: Sequence[Dependency] = ()
) -> list[Bag]:
    """Bags that need guards are merged with a neighbour where that costs no width: guards are extra work."""
    wanted = [] if free is None else [free]

    def cost(variables: Edge) -> tuple[int, Fraction]:
        covering = closed(edges, variables, dependencies)
        return edge_cover_number(covering, variables), fractional_cover_number(covering, variables)

    width = max(cost(b.variables)[0] for b in bags)
    fraction = max(cost(b.variables)[1] for b in bags)
    merged = True
    while merged:
        merged = False
        for i, bag in enumerate(bags):
            if not bag.guards:
                continue
            for j, other in enumerate(bags):
                both = bag.variables | other.variables
                if (
                    i != j
                    and bag.variables & other.variables
                    and cost(both)[0] <= width
                    and cost(both)[1] <= fraction
                    and _stays_connex([both, *(b.variables for k, b in enumerate(bags) if k not in (i, j))], wanted)
                ):
                    joined = _guarded(Bag(both, tuple(sorted(bag.edges + other.edges))), edges)
                    bags = [b for k, b in enumerate(bags) if k not in (i, j)] + [joined]
                    merged = True
                    break
            if merged:
                break
    return bags


def _stays_connex(bags: Sequence[Edge], wanted: Sequence[Edge]) -> bool:
    return is_acyclic(bags) and is_acyclic([*bags, *wanted])
