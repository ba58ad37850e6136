"""All free-connex join trees of an acyclic query (crown.md 2, "Building all trees"), lazily and up to a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, islice

from everview.query.conjunctive import connected_components
from everview.strategies.crown.tree import Edge, JoinTree, TreeNode

TREE_LIMIT = 2_000


class SearchCutError(Exception):
    """The search for trees has taken all the steps that it may."""


class Steps:
    """How many links between relations may still be looked at; None: as many as it takes."""

    def __init__(self, left: int | None) -> None:
        self.left = left

    def take(self, links: int) -> None:
        """Raise SearchCutError if there is no step left."""
        if self.left is not None:
            self.left -= links
            if self.left < 0:
                raise SearchCutError


def join_trees(
    edges: Sequence[Edge], free: Edge, limit: int | None = TREE_LIMIT, most_steps: int | None = None
) -> Iterator[JoinTree]:
    """Every free-connex join tree, at most ``limit`` of them (None: all); raises SearchCutError after ``most_steps``.

    Generalized nodes with a single child are left out: they add nothing to the tree below them.
    """
    whole = tuple(edges)
    everything = frozenset(range(len(whole)))
    candidates = generalized_candidates(whole, free)
    steps = Steps(most_steps)
    trees = (JoinTree(root, whole, free) for root in _generalized(whole, everything, None, candidates, steps))
    return islice((t for t in trees if t.is_free_connex), limit)


def generalized_candidates(edges: Sequence[Edge], free: Edge, limit: int = 4_000) -> list[Edge]:
    """The attribute sets a generalized node may have: the edges and their output parts, closed under intersection."""
    closed: set[Edge] = {frozenset()}
    waiting = [*edges, *(e & free for e in edges)]
    while waiting and len(closed) < limit:
        new = waiting.pop()
        if new not in closed:
            waiting.extend({new & old for old in closed} - closed)
            closed.add(new)
    return sorted(closed, key=lambda e: (len(e), sorted(e)))


def _generalized(
    edges: tuple[Edge, ...], part: frozenset[int], above: Edge | None, candidates: Sequence[Edge], steps: Steps
) -> Iterator[TreeNode]:
    """trees(component, X) of the spec; ``above`` None stands for the very top."""
    for spanning in _spanning_trees(edges, sorted(part), steps):
        for root in sorted(part):
            if above is None or above <= edges[root]:
                yield _rooted(edges, root, spanning)
    attributes = frozenset().union(*(edges[i] for i in part))
    for inner in candidates:
        steps.take(len(part))
        larger = inner <= attributes if above is None else above < inner <= attributes
        groups = split(edges, part, inner) if larger else []
        if len(groups) < 2 or not all(any(inner <= edges[i] for i in g) for g in groups):
            continue

        def below(group: frozenset[int], inner: Edge = inner) -> Iterator[TreeNode]:
            return _generalized(edges, group, inner, candidates, steps)

        for children in _product(groups, below):
            yield TreeNode(inner, None, children)


def split(edges: Sequence[Edge], part: frozenset[int], without: Edge) -> list[frozenset[int]]:
    """The components of a set of edges once some attributes are taken away; a covered edge is one of its own."""
    members = sorted(part)
    groups = connected_components([edges[i] for i in members], without=without)
    return [frozenset(members[k] for k in g) for g in groups]


def _product(
    groups: Sequence[frozenset[int]], below: Callable[[frozenset[int]], Iterator[TreeNode]]
) -> Iterator[tuple[TreeNode, ...]]:
    """Every combination of one subtree a group, without listing any group's subtrees first."""
    if not groups:
        yield ()
        return
    for first in below(groups[0]):
        for rest in _product(groups[1:], below):
            yield (first, *rest)


def _spanning_trees(edges: tuple[Edge, ...], part: list[int], steps: Steps) -> Iterator[list[tuple[int, int]]]:
    """The maximum-weight spanning trees of the intersection graph: exactly the join trees, if there are any."""
    links = sorted(combinations(part, 2), key=lambda p: -len(edges[p[0]] & edges[p[1]]))
    weights = [len(edges[a] & edges[b]) for a, b in links]
    attributes = frozenset().union(*(edges[i] for i in part))
    wanted = sum(len(edges[i]) for i in part) - len(attributes)

    def best(chosen: list[int], start: int) -> int:
        """The largest weight of a spanning tree with these links and any from ``start`` on, −1 without one."""
        steps.take(len(links))
        group = {i: i for i in part}

        def find(i: int) -> int:
            while group[i] != i:
                i = group[i]
            return i

        total = count = 0
        taken = set(chosen)
        for k in [*chosen, *range(start, len(links))]:
            a, b = find(links[k][0]), find(links[k][1])
            if a != b:
                group[a] = b
                total += weights[k]
                count += 1
            elif k in taken and k < start:
                return -1
        return total if count == len(part) - 1 else -1

    def grow(chosen: list[int], start: int) -> Iterator[list[tuple[int, int]]]:
        if best(chosen, start) < wanted:
            return
        if len(chosen) == len(part) - 1:
            yield [links[k] for k in chosen]
            return
        if start < len(links):
            yield from grow([*chosen, start], start + 1)
            yield from grow(chosen, start + 1)

    yield from grow([], 0)


def _rooted(edges: tuple[Edge, ...], root: int, links: list[tuple[int, int]], parent: int | None = None) -> TreeNode:
    near = sorted({b if a == root else a for a, b in links if root in (a, b)} - {parent})
    return TreeNode(edges[root], root, tuple(_rooted(edges, c, links, root) for c in near))
