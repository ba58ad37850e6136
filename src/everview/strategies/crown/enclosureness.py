"""Enclosureness: what a recorded sequence of updates costs on a join tree (crown.md 7).

A row's *lifespan* is the time from its insertion to its deletion. Keeping a row t up to date costs a step whenever rows
below it in the tree come and go while t stays, so what counts is how many of *their* lifespans fit into t's own, one
after the other. A row t' that has relations below it takes part in the result for a shorter time: from its insertion
until the first deletion below it, or from the last insertion below it until its deletion. These are its *effective*
lifespans, both of which count; a leaf's are its lifespan. Then

- λ(t) is the largest number of pairwise disjoint effective lifespans, of rows strictly below t's relation, within t's
  lifespan;
- λ_T is the average of λ(t) over all rows of all relations, and at least 1;
- an update takes O(λ_T) time, amortised.

Times are places in the log. Lifespans are closed: two that share an instant are not disjoint. The occurrences of a
table in a self-join are relations of their own. Rows that were there before the log share one start, rows that stay
share one end, so neither are ever disjoint: sequences of insertions only have λ_T = 1.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from everview.strategies.crown.tree import JoinTree, TreeNode

BEFORE = -1
"""The start of rows that were there before the log."""
FOREVER = sys.maxsize
"""The end of rows that stay."""

Lifespan = tuple[int, int]
"""The times at which a row came and went."""


@dataclass(frozen=True, slots=True)
class RelationEnclosureness:
    """λ(t) over the rows t of one relation of the tree."""

    relation: int
    depth: int
    """How many relations lie above it."""
    rows: int
    """How many lifespans: a row that comes again counts again."""
    total: int
    most: int

    @property
    def mean(self) -> float:
        """The average of λ(t); 0 if there were no rows."""
        return self.total / self.rows if self.rows else 0.0


@dataclass(frozen=True)
class Enclosureness:
    """λ_T, and where it comes from."""

    relations: tuple[RelationEnclosureness, ...]
    """From the root down."""
    sequence: float
    """λ of the updates alone, whatever the tree: every lifespan counts, and none is cut."""

    @cached_property
    def value(self) -> float:
        """λ_T: the average over all rows, and at least 1."""
        rows = sum(r.rows for r in self.relations)
        return max(sum(r.total for r in self.relations) / rows, 1.0) if rows else 1.0


def enclosureness(tree: JoinTree, lifespans: Sequence[Sequence[Lifespan]]) -> Enclosureness:
    """λ_T for the rows' lifespans, one sequence for each relation of the tree, by its index."""
    found = [
        _of_relation(tree, node, lifespans)
        for node in tree.root.walk()
        if node.relation is not None  # a generalized node has no rows of its own
    ]
    everything = [span for spans in lifespans for span in spans]
    counts = most_disjoint(everything, everything)
    return Enclosureness(tuple(found), max(sum(counts) / len(counts), 1.0) if counts else 1.0)


def _of_relation(tree: JoinTree, node: TreeNode, lifespans: Sequence[Sequence[Lifespan]]) -> RelationEnclosureness:
    assert node.relation is not None
    below: list[Lifespan] = []
    for other in _below(node):
        assert other.relation is not None
        below += effective(lifespans[other.relation], [s for n in _below(other) for s in _spans(n, lifespans)])
    counts = most_disjoint(below, lifespans[node.relation])
    return RelationEnclosureness(
        node.relation, tree.depth(node.relation), len(counts), sum(counts), max(counts, default=0)
    )


def _below(node: TreeNode) -> Iterator[TreeNode]:
    """The nodes strictly below an input relation: input relations all of them."""
    for child in node.children:
        yield from child.walk()


def _spans(node: TreeNode, lifespans: Sequence[Sequence[Lifespan]]) -> Sequence[Lifespan]:
    assert node.relation is not None
    return lifespans[node.relation]


def effective(own: Sequence[Lifespan], below: Sequence[Lifespan]) -> list[Lifespan]:
    """The effective lifespans of a relation's rows, given the lifespans of all rows below it.

    Each lifespan is cut at the first deletion below that comes after its start, and, as another, begun at the last
    insertion below that comes before its end.
    """
    if not below:
        return list(own)
    insertions = sorted({start for start, _ in below})
    deletions = sorted({end for _, end in below if end != FOREVER})
    found: list[Lifespan] = []
    for start, end in own:
        at = bisect_right(deletions, start)
        cut = (start, min(end, deletions[at])) if at < len(deletions) else (start, end)
        at = bisect_left(insertions, end)
        begun = (max(start, insertions[at - 1]), end) if at else (start, end)
        found += (cut,) if cut == begun else (cut, begun)
    return found


def most_disjoint(candidates: Iterable[Lifespan], within: Sequence[Lifespan]) -> list[int]:
    """For each lifespan of ``within``, the largest number of pairwise disjoint candidates that lie in it.

    The greedy choice is optimal: of the candidates that begin late enough, take the one that ends first, and go on
    behind its end. With candidates sorted by start, what is taken from place i on does not depend on how i was reached,
    so the choices form a forest: ``following[i]`` is where the search goes on after the first choice from i. They end
    where the earliest end is too late, which is so from some place on. ``leaps`` skip ahead in that forest, so that
    each lifespan takes logarithmic time.
    """
    ordered = sorted(candidates)
    size = len(ordered)
    starts = [start for start, _ in ordered]
    ends = [FOREVER] * size  # the earliest end from each place on
    following = [size] * (size + 1)
    depth = [0] * (size + 1)
    leaps = [size] * (size + 1)
    earliest = FOREVER
    for i in range(size - 1, -1, -1):
        earliest = min(earliest, ordered[i][1])
        ends[i] = earliest
        after = bisect_right(starts, earliest)
        leap = leaps[after]
        following[i], depth[i] = after, depth[after] + 1
        leaps[i] = leaps[leap] if depth[after] - depth[leap] == depth[leap] - depth[leaps[leap]] else after
    counts = []
    for start, end in within:
        first = at = bisect_left(starts, start)
        too_late = bisect_right(ends, end)
        while at < too_late:
            at = leaps[at] if leaps[at] < too_late else following[at]
        counts.append(depth[first] - depth[at])
    return counts


class LifespanRecorder:
    """Makes lifespans of a relation's updates, told in the order of time.

    Copies of a row are one row: it comes with the first of them and goes with the last.
    """

    def __init__(self) -> None:
        self._there: dict[Hashable, tuple[int, int]] = {}  # copies, and since when
        self._ended: list[Lifespan] = []

    def update(self, row: Hashable, weight: int, time: int) -> bool:
        """So many copies of a row come (or go, if negative) at a time; False if they are not there to go."""
        copies, since = self._there.get(row, (0, time))
        copies += weight
        if copies < 0:
            return False
        if copies:
            self._there[row] = copies, since
        elif row in self._there:
            del self._there[row]
            self._ended.append((since, time))
        return True

    def lifespans(self) -> list[Lifespan]:
        """All lifespans so far; rows that are there stay for ever."""
        return [*self._ended, *((since, FOREVER) for _, since in self._there.values())]
