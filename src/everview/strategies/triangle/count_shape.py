"""Which counts have heavy and light keys: those over three relations, of Loomis-Whitney shape, and paths of four.

Variables of one atom are summed out; those that the same atoms share are one *bundle* (triangle.md 18.3). A query whose
variables nest (hierarchical) is no case for this: its count takes constant time without.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from everview.programs.parts import ThresholdBase
from everview.query.conjunctive import ConjunctiveQuery
from everview.query.terms import Var
from everview.strategies.strategy import Sum
from everview.strategies.triangle.count_measures import Stored
from everview.strategies.triangle.count_parts import PartitionedTriangle
from everview.strategies.triangle.count_program import CountProgram
from everview.strategies.triangle.count_shared import SharedTriangle
from everview.strategies.triangle.loomis_whitney import LoomisWhitney
from everview.strategies.triangle.paths import FourPath

Words = tuple[Var, ...]
THIRD = Fraction(1, 3)
MOST_RELATIONS = 6
"""A program walks the shortest of as many lists, written out for each order in which they may be compared."""


@dataclass(frozen=True)
class CountShape:
    """A count over relations of which each lacks one bundle, or, without bundles, over four in a row.

    ``atoms`` are the query's, in the order of the bundles that they lack, or of the path.
    """

    query: ConjunctiveQuery
    atoms: tuple[int, ...]
    words: tuple[Words, ...]
    """What is stored of each atom."""
    bundles: tuple[Words, ...]

    @property
    def is_path(self) -> bool:
        """True for four relations in a row."""
        return not self.bundles

    @property
    def is_cyclic(self) -> bool:
        """True for a triangle: three bundles, none of them empty."""
        return len(self.bundles) == 3 and all(self.bundles)

    @property
    def kind(self) -> str:
        """What it is, in words."""
        if self.is_path:
            return "a count of paths over four relations"
        if len(self.bundles) > 3:
            return f"a Loomis-Whitney count of degree {len(self.bundles)}"
        return "a triangle count" if self.is_cyclic else "a count over three relations"

    def has_pairs(self, epsilon: Fraction) -> bool:
        """True if views pair heavy rows with light ones: below ⅓ those over heavy keys alone are larger."""
        return len(self.bundles) == 3 and epsilon < THIRD

    def shares(self, signatures: Sequence[Hashable]) -> bool:
        """True if all three sides are one table of edges, each going on where the one before ends."""
        if not self.is_cyclic or not signatures or any(len(w) != 2 for w in self.words):
            return False
        terms = [self.query.atoms[i].all_terms for i in self.atoms]
        places = {tuple(t.index(v) for v in w) for t, w in zip(terms, self.words, strict=True)}
        return len(places) == 1 and len({signatures[i] for i in self.atoms}) == 1

    def program(self, epsilon: Fraction, sums: Sequence[Sum], signatures: Sequence[Hashable]) -> CountProgram:
        """The program for an ε, with sums over some atoms."""
        base = ThresholdBase(epsilon)
        given = list(zip(self.atoms, self.words, strict=True))
        stored = [Stored(self.query.atoms[i].relation, i, variables) for i, variables in given]
        if self.is_path:
            return FourPath(stored, sums, base)
        if self.has_pairs(epsilon):
            return PartitionedTriangle(stored, self.bundles, sums, base, double=True)
        if self.shares(signatures):
            first, *others = self.atoms
            edges = Stored(stored[0].relation, first, stored[0].words, tuple(others))
            return SharedTriangle(edges, self.atoms, sums, base)
        return LoomisWhitney(stored, self.bundles, sums, base)


def count_shape(query: ConjunctiveQuery) -> CountShape | str:
    """The shape of a count, or why it has none."""
    if query.free:
        return "not a count: it has output columns or groups"
    if not 3 <= len(query.atoms) <= MOST_RELATIONS:
        return f"no count over 3 to {MOST_RELATIONS} relations"
    everyone = frozenset(range(len(query.atoms)))
    shared = {v: at for v, at in query.atoms_of.items() if len(at) > 1}
    if all(len(everyone - at) <= 1 for at in shared.values()):
        return _of_bundles(query, everyone, shared)
    return _of_path(query, shared) or "neither three relations, nor of Loomis-Whitney shape, nor a path of four"


def _of_bundles(query: ConjunctiveQuery, everyone: frozenset[int], shared: dict[Var, frozenset[int]]) -> CountShape:
    """Each relation lacks a bundle; its words are the others, in a circle, after what all have."""
    count = len(everyone)
    first = tuple(sorted(v for v, at in shared.items() if at == everyone))
    bundles = tuple(tuple(sorted(v for v, at in shared.items() if everyone - at == {j})) for j in range(count))
    words = tuple((*first, *(v for i in range(1, count) for v in bundles[(j + i) % count])) for j in range(count))
    return CountShape(query, tuple(range(count)), words, bundles)


def _of_path(query: ConjunctiveQuery, shared: dict[Var, frozenset[int]]) -> CountShape | None:
    """Four atoms in a row, of which each shares something with its neighbours alone."""
    links = set(shared.values())
    if len(query.atoms) != 4 or len(links) != 3 or any(len(at) != 2 for at in links):
        return None
    degree = {i: sum(i in at for at in links) for i in range(4)}
    ends = [i for i, n in degree.items() if n == 1]
    if sorted(degree.values()) != [1, 1, 2, 2]:
        return None
    order = [ends[0]]
    while len(order) < 4:
        order.append(next(i for at in links if order[-1] in at for i in at if i not in order))
    words = tuple(tuple(sorted(v for v, at in shared.items() if i in at)) for i in order)
    return CountShape(query, tuple(order), words, ())
