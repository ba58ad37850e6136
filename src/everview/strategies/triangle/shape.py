"""Which queries are triangles: three atoms, each two of which share what the third has not (triangle.md 2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from everview.query.conjunctive import ConjunctiveQuery
from everview.query.terms import Var, names

Words = tuple[Var, ...]
NO_TRIANGLE = "the query is no triangle and no Loomis-Whitney query"
EDGES = ("ab", "bc", "ca")
"""The corners of R, S and T: the first and the second of each."""


@dataclass(frozen=True)
class Triangle:
    """R(a, b), S(b, c), T(c, a), where each corner stands for some variables, and some may be in all three atoms.

    The first ``arity`` corners are output. ``private`` are, for each of the three atoms, its own output variables: rows
    under its edge. Other variables of one atom are summed out.
    """

    atoms: tuple[int, int, int]
    everywhere: Words
    corners: tuple[Words, Words, Words]
    arity: int
    private: tuple[Words, Words, Words]

    def words(self, corners: Iterable[str]) -> Words:
        """The variables of some corners, by their letters, after those that are everywhere."""
        return (*self.everywhere, *(v for c in corners for v in self.corners["abc".index(c)]))

    def own(self, corners: Iterable[str]) -> Words:
        """The variables of some corners alone."""
        return tuple(v for c in corners for v in self.corners["abc".index(c)])

    @property
    def outputs(self) -> Words:
        """The variables of a result's rows, in order."""
        shown = self.words("abc"[: self.arity]) if self.arity else ()
        return (*shown, *(v for private in self.private for v in private))


def triangle_of(query: ConjunctiveQuery) -> Triangle | str:
    """The triangle that a query is, or why it is none that can be maintained as one."""
    if len(query.atoms) != 3:
        return NO_TRIANGLE
    shared = {pair: tuple(sorted(v for v, at in query.atoms_of.items() if at == set(pair))) for pair in _PAIRS}
    if not all(shared.values()):
        return NO_TRIANGLE
    everywhere = tuple(sorted(v for v, at in query.atoms_of.items() if len(at) == 3))
    shown = [pair for pair, words in shared.items() if query.free.intersection(words)]
    partly = [v for pair in shown for v in shared[pair] if v not in query.free]
    if shown and partly:
        return f"{names(partly)} would have to be output, too: values that are joined together are taken as one"
    hidden = [v for v in everywhere if v not in query.free]
    if (shown or len(hidden) < len(everywhere)) and hidden:
        return f"{names(hidden)} would have to be output, too: all three relations have it"
    if not shown and everywhere and not hidden:
        return f"a count for every {names(everywhere)}, which all three relations have"
    atoms = _roles(shown)
    pairs = [tuple(sorted((atoms[i], atoms[j]))) for i, j in ((2, 0), (0, 1), (1, 2))]
    corners = tuple(shared[pair[0], pair[1]] for pair in pairs)
    own = [tuple(sorted(v for v in query.free if query.atoms_of[v] == {i})) for i in atoms]
    for words, edge in zip(own, EDGES, strict=True):
        if words and not all("abc".index(c) < len(shown) for c in edge):
            return f"{names(words)} of one relation is output, but not all that joins it"
    return Triangle(atoms, everywhere, (corners[0], corners[1], corners[2]), len(shown), (own[0], own[1], own[2]))


_PAIRS = tuple(combinations(range(3), 2))


def _roles(shown: list[tuple[int, int]]) -> tuple[int, int, int]:
    """Which atoms are R, S and T: R and T have a, R and S have b; the corners that are output come first."""
    if len(shown) == 1:
        r = next(i for i in range(3) if set(shown[0]) == {i, (i + 2) % 3})
    elif len(shown) == 2:
        [r] = set(shown[0]) & set(shown[1])
    else:
        r = 0
    return (r, (r + 1) % 3, (r + 2) % 3)
