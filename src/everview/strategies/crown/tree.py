"""Free-connex join trees with generalized nodes (crown.md 2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from everview.query.terms import Var, names

Edge = frozenset[Var]


@dataclass(frozen=True)
class TreeNode:
    """An input relation (by index) or, with ``relation`` None, a generalized relation [X]."""

    attributes: Edge
    relation: int | None
    children: tuple[TreeNode, ...] = ()

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Kept: it looks at the whole subtree."""
        return hash((self.attributes, self.relation, self.children))

    @property
    def is_generalized(self) -> bool:
        """True for [X]."""
        return self.relation is None

    def walk(self) -> Iterator[TreeNode]:
        """The node and all below it, top-down."""
        yield self
        for child in self.children:
            yield from child.walk()

    @cached_property
    def height(self) -> int:
        """The most input relations on a path down to a leaf; generalized nodes count nothing."""
        return (not self.is_generalized) + max((c.height for c in self.children), default=0)

    def show(self, labels: Sequence[str]) -> str:
        """The subtree on one line: [x3]→{R2→R1, R3→R4}."""
        own = f"[{names(self.attributes) or '∅'}]" if self.relation is None else labels[self.relation]
        if not self.children:
            return own
        below = ", ".join(c.show(labels) for c in self.children)
        return f"{own}→{below}" if len(self.children) == 1 else f"{own}→{{{below}}}"


@dataclass(frozen=True)
class JoinTree:
    """A free-connex join tree for a set of edges and the output variables ``free``."""

    root: TreeNode
    edges: tuple[Edge, ...]
    free: Edge

    @property
    def height(self) -> int:
        """The most input relations on one path from a leaf to the root."""
        return self.root.height

    @cached_property
    def parents(self) -> Mapping[TreeNode, TreeNode | None]:
        """Each node's parent, by identity of place; the root's is None."""
        return dict(self._with_parents())

    def _with_parents(self) -> Iterator[tuple[TreeNode, TreeNode | None]]:
        stack: list[tuple[TreeNode, TreeNode | None]] = [(self.root, None)]
        while stack:
            node, parent = stack.pop()
            yield node, parent
            stack.extend((child, node) for child in node.children)

    @cached_property
    def connex(self) -> frozenset[TreeNode]:
        """E_con: grown from the root while the key is output; these are the nodes that enumeration visits."""
        found = {self.root}
        stack = [self.root]
        while stack:
            node = stack.pop()
            for child in node.children:
                if child.attributes & node.attributes <= self.free:
                    found.add(child)
                    stack.append(child)
        return frozenset(found)

    @property
    def is_free_connex(self) -> bool:
        """True if the nodes of E_con hold all output variables."""
        return self.free <= frozenset().union(*(n.attributes for n in self.connex))

    def depth(self, relation: int) -> int:
        """How many input relations lie strictly above a relation."""
        node: TreeNode | None = next(n for n in self.root.walk() if n.relation == relation)
        above = -1
        while node is not None:
            above += not node.is_generalized
            node = self.parents[node]
        return above

    def cost(self, updates: Sequence[Fraction]) -> Fraction:
        """Σ depth(e)·N(e): relations with more updates belong higher up."""
        return sum((self.depth(i) * n for i, n in enumerate(updates)), Fraction(0))

    def show(self, labels: Sequence[str]) -> str:
        """The tree on one line."""
        return self.root.show(labels)
