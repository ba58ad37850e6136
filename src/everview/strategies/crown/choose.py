"""The best free-connex join tree (crown.md 2, "Choosing one"): least height, then least Σ depth·updates.

Found by dynamic programming over (component, key) instead of by listing all trees. It is exact: a subtree that merges
two components can be re-hung with one child a component, which makes nothing deeper and loses no property, so only
trees with one child a component need be looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from everview.query.terms import Var
from everview.strategies.crown.search import generalized_candidates, split
from everview.strategies.crown.tree import Edge, JoinTree, TreeNode

MOST_WORK = 300_000
"""So many edges are looked at while components are split and subtrees joined; then any tree that fits is taken."""


@dataclass(frozen=True)
class Choice:
    """The chosen tree, and whether the search had to be cut before it could prove it best."""

    tree: JoinTree
    cut: bool


@dataclass(frozen=True)
class _Option:
    """A subtree and what it costs; of equal ones the smaller and then the first in the order of relations wins."""

    height: int
    cost: Fraction
    size: int
    signature: tuple[int, ...]
    node: TreeNode

    @property
    def rank(self) -> tuple[Fraction, int, tuple[int, ...]]:
        return self.cost, self.size, self.signature


def choose_tree(edges: Sequence[Edge], free: Edge, updates: Sequence[Fraction] | None = None) -> Choice | None:
    """The best free-connex join tree, or None if the query has none (it is cyclic or not free-connex)."""
    whole = tuple(edges)
    classes = _alike(whole, free)
    first = frozenset(classes)
    search = _Search(tuple(e & first for e in whole), free & first, updates or [Fraction(1)] * len(edges), classes)
    options = search.below_generalized(frozenset(range(len(edges))), None, True)
    if not options:
        return None
    best = min(options, key=lambda o: (o.height, *o.rank))
    return Choice(JoinTree(_with_all(best.node, classes), whole, free), search.cut)


def _alike(edges: tuple[Edge, ...], free: Edge) -> dict[Var, Edge]:
    """The variables in classes of those that no tree tells apart, as the same edges hold them, by each one's first."""
    holders: dict[Var, list[int]] = {}
    for i, edge in enumerate(edges):
        for v in edge:
            holders.setdefault(v, []).append(i)
    classes: dict[tuple[tuple[int, ...], bool], list[Var]] = {}
    for v in sorted(holders):
        classes.setdefault((tuple(holders[v]), v in free), []).append(v)
    return {members[0]: frozenset(members) for members in classes.values()}


def _whole(attributes: Edge, classes: Mapping[Var, Edge]) -> Edge:
    return frozenset().union(*(classes[v] for v in attributes))


def _with_all(node: TreeNode, classes: Mapping[Var, Edge]) -> TreeNode:
    """A tree over the first variables of classes as one over all of them."""
    children = tuple(_with_all(c, classes) for c in node.children)
    return TreeNode(_whole(node.attributes, classes), node.relation, children)


class _Search:
    def __init__(
        self, edges: tuple[Edge, ...], free: Edge, updates: Sequence[Fraction], classes: Mapping[Var, Edge]
    ) -> None:
        self.edges = edges
        self.free = free
        self.updates = updates
        named = [(_whole(e, classes), e) for e in generalized_candidates(edges, free)]
        self.candidates = [e for _, e in sorted(named, key=lambda pair: (len(pair[0]), sorted(pair[0])))]
        self.cut = False
        self.work = 0
        self._memo: dict[tuple[frozenset[int], Edge | None, bool, bool], list[_Option]] = {}

    def below_generalized(self, part: frozenset[int], above: Edge | None, connex: bool) -> list[_Option]:
        """Subtrees for a component under [above] (None: at the very top), the best one for each height."""
        key = (part, above, connex, True)
        if key not in self._memo:
            self._memo[key] = self._frontier(self._generalized_options(part, above, connex))
        return self._memo[key]

    def below_relation(self, part: frozenset[int], shared: Edge, connex: bool) -> list[_Option]:
        """Subtrees for a component under an input relation with which it shares ``shared``: no [X] any more."""
        key = (part, shared, connex, False)
        if key not in self._memo:
            self._memo[key] = self._frontier(self._rooted_options(part, shared, connex))
        return self._memo[key]

    def _generalized_options(self, part: frozenset[int], above: Edge | None, connex: bool) -> Iterable[_Option]:
        found = False
        for option in self._rooted_options(part, above or frozenset(), connex):
            yield option
            found = True
        inside = self._enters(part, above or frozenset(), connex)
        if inside is None:
            return
        attributes = self._attributes(part)
        for inner in self.candidates:
            if found and self._is_spent():
                return
            larger = inner <= attributes if above is None else above < inner <= attributes
            groups = self._split(part, inner) if larger else []
            if len(groups) < 2 or not all(any(inner <= self.edges[i] for i in g) for g in groups):
                continue
            per_group = [self.below_generalized(g, inner, inside) for g in groups]
            for option in self._combined(per_group, inner, None, Fraction(0)):
                yield option
                found = True

    def _rooted_options(self, part: frozenset[int], shared: Edge, connex: bool) -> Iterable[_Option]:
        inside = self._enters(part, shared, connex)
        if inside is None:
            return
        found = False
        total = sum((self.updates[i] for i in part), Fraction(0))
        for root, groups in self._roots(part, shared):
            if found and self._is_spent():
                return
            edge = self.edges[root]
            per_group = [self.below_relation(g, self._attributes(g) & edge, inside) for g in groups]
            for option in self._combined(per_group, edge, root, total - self.updates[root]):
                yield option
                found = True

    def _roots(self, part: frozenset[int], shared: Edge) -> Iterable[tuple[int, list[frozenset[int]]]]:
        """The relations that may be a component's root, and what each leaves; those in the middle first, once spent."""
        roots = [i for i in sorted(part) if shared <= self.edges[i]]
        left = ((i, self._split(part - {i}, self.edges[i])) for i in roots)
        return sorted(left, key=lambda pair: max(map(len, pair[1]), default=0)) if self._is_spent() else left

    def _split(self, part: frozenset[int], without: Edge) -> list[frozenset[int]]:
        self.work += len(part)
        return split(self.edges, part, without)

    def _is_spent(self) -> bool:
        """True once the search must come to an end; the tree is then not proven best."""
        self.cut = self.cut or self.work > MOST_WORK
        return self.cut

    def _enters(self, part: frozenset[int], key: Edge, connex: bool) -> bool | None:
        """Whether the subtree's root is in E_con, None if output variables below it would be lost."""
        if not connex:
            return False
        if key <= self.free:
            return True
        return False if self.free & self._attributes(part) <= key else None

    def _combined(
        self, per_group: list[list[_Option]], attributes: Edge, relation: int | None, deeper: Fraction
    ) -> Iterable[_Option]:
        """One option for each useful height: every group takes its best subtree within it."""
        if any(not options for options in per_group):
            return
        for height in sorted({o.height for options in per_group for o in options} or {0}):
            self.work += sum(o.size for options in per_group for o in options)
            fitting = [[o for o in options if o.height <= height] for options in per_group]
            if any(not options for options in fitting):
                continue
            taken = [min(options, key=lambda o: o.rank) for options in fitting]
            taken.sort(key=lambda o: min(n.relation for n in o.node.walk() if n.relation is not None))
            node = TreeNode(attributes, relation, tuple(o.node for o in taken))
            signature = (-1 if relation is None else relation, *(s for o in taken for s in o.signature))
            cost = sum((o.cost for o in taken), deeper)
            yield _Option(node.height, cost, 1 + sum(o.size for o in taken), signature, node)

    def _frontier(self, options: Iterable[_Option]) -> list[_Option]:
        best: dict[int, _Option] = {}
        for option in options:
            known = best.get(option.height)
            if known is None or option.rank < known.rank:
                best[option.height] = option
        return [best[h] for h in sorted(best)]

    def _attributes(self, part: frozenset[int]) -> Edge:
        return frozenset().union(*(self.edges[i] for i in part))
