"""Stars and paths inside a query: the larger there is one, the more an update must cost (parameterized-hardness.md).

Whatever is found is there, so a search that is cut still gives a bound that holds, only perhaps not the best one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from everview.query.conjunctive import ConjunctiveQuery
from everview.query.terms import Var

MOST_LOOKS = 300_000
"""A search stops after so many looks at an atom or a variable: a fraction of a second."""


@dataclass(frozen=True, slots=True)
class Star:
    """Variables of one atom, each of which has another atom in which none of the others is.

    With ``is_listed`` the last of them has no such atom, but is the only one that is output: it is told by listing.
    """

    atom: int
    variables: tuple[Var, ...]
    is_listed: bool = False

    @property
    def dimension(self) -> int:
        """How many there are."""
        return len(self.variables)


@dataclass(frozen=True, slots=True)
class Path:
    """Variables that meet one after the other and no others of them, and an atom at each end that has only that one."""

    variables: tuple[Var, ...]

    @property
    def height(self) -> int:
        """With a vertex to close it the path is a cycle of one edge more, and k is half of its length, rounded up."""
        return (len(self.variables) + 2) // 2


def largest_star(query: ConjunctiveQuery) -> Star | None:
    """A star of the largest dimension, as far as the search goes; None if there is none of two variables.

    What is left of a star without one of its variables is a star, so all of them are found by adding variables.
    """
    sets = _Sets(query)
    best: Star | None = None
    for atom, edge in enumerate(query.edges):
        inside = [i for i, v in enumerate(sets.variables) if v in edge]
        waiting: list[tuple[tuple[int, ...], int]] = [((), 0)]
        while waiting and sets.looks < MOST_LOOKS:
            chosen, start = waiting.pop()
            found: list[tuple[tuple[int, ...], int]] = []
            for place in range(start, len(inside)):
                star = sets.star(atom, (*chosen, inside[place]))
                if star is not None:
                    found.append(((*chosen, inside[place]), place + 1))
                    best = star if star.dimension > (best.dimension if best else 1) else best
            waiting += reversed(found)
    return best


def longest_path(query: ConjunctiveQuery) -> Path | None:
    """A path of the largest height, as far as the search goes; None if there is none of two variables."""
    sets = _Sets(query)
    best: tuple[int, ...] = ()
    waiting: list[tuple[int, ...]] = [(i,) for i in reversed(range(len(sets.variables)))]
    while waiting and sets.looks < MOST_LOOKS:
        path = waiting.pop()
        among, before = sets.mask(path), sets.mask(path[:-1])
        if len(path) > max(1, len(best)) and all(sets.has_own_atom(end, among) for end in (path[0], path[-1])):
            best = path
        sets.looks += len(sets.variables)
        near = sets.meets[path[-1]] & ~among
        more = [i for i, met in enumerate(sets.meets) if near >> i & 1 and not met & before]
        waiting += [(*path, i) for i in reversed(more)]
    return Path(tuple(sets.variables[i] for i in best)) if best else None


class _Sets:
    """The variables that join or are output, of those that nothing tells apart one, and sets of them as bits."""

    def __init__(self, query: ConjunctiveQuery) -> None:
        self.variables = [v for v in query.telling if len(query.atoms_of[v]) > 1 or v in query.free]
        self.free = sum(1 << i for i, v in enumerate(self.variables) if v in query.free)
        edges = [sum(1 << i for i, v in enumerate(self.variables) if v in edge) for edge in query.edges]
        self.around = [[edges[j] for j in query.atoms_of[v]] for v in self.variables]
        """The atoms that have each."""
        self.looks = 0

    @cached_property
    def meets(self) -> list[int]:
        """The variables that are in an atom with each."""
        found = []
        for i, edges in enumerate(self.around):
            met = 0
            for edge in edges:
                met |= edge
            found.append(met & ~(1 << i))
        return found

    def mask(self, chosen: tuple[int, ...]) -> int:
        """A set of variables."""
        return sum(1 << i for i in chosen)

    def has_own_atom(self, variable: int, among: int) -> bool:
        """Whether an atom has only this one of some variables."""
        self.looks += len(self.around[variable])
        return any(edge & among == 1 << variable for edge in self.around[variable])

    def star(self, atom: int, chosen: tuple[int, ...]) -> Star | None:
        """The star of some variables of an atom, if they are one."""
        among = self.mask(chosen)
        without = tuple(i for i in chosen if not self.has_own_atom(i, among))
        if without and (len(without) > 1 or self.free & among != self.mask(without)):
            return None
        ordered = (*(i for i in chosen if i not in without), *without)
        return Star(atom, tuple(self.variables[i] for i in ordered), bool(without))
