"""An independent check of free-connex join trees, straight from the definition (crown.md 2).

Uses nothing of ``everview.plan`` but the shape of a node (attributes, relation, children): parents, keys, connectivity
and E_con are worked out again here, by brute force.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations

from everview.query.terms import Var
from everview.strategies.crown.tree import TreeNode

Edge = frozenset[Var]


def faults(root: TreeNode, edges: Sequence[Edge], free: Edge) -> list[str]:
    """The properties of a free-connex join tree that this tree lacks; empty for a good one."""
    nodes: list[TreeNode] = []
    parent: list[int] = []
    below: list[list[int]] = []

    def visit(node: TreeNode, above: int) -> None:
        me = len(nodes)
        nodes.append(node)
        parent.append(above)
        below.append([])
        if above >= 0:
            below[above].append(me)
        for child in node.children:
            visit(child, me)

    visit(root, -1)
    found = []
    used = sorted(n.relation for n in nodes if n.relation is not None)
    if used != list(range(len(edges))):
        found.append(f"cover: the relations of the tree are {used}")
    if any(n.relation is not None and n.attributes != edges[n.relation] for n in nodes):
        found.append("cover: a relation has other attributes than its own")
    if any(n.relation is None and not n.children for n in nodes):
        found.append("cover: a leaf is generalized")
    for v in frozenset().union(*edges):
        holding = [i for i, n in enumerate(nodes) if v in n.attributes]
        tops = [i for i in holding if parent[i] not in holding]
        if len(tops) != 1:
            found.append(f"connect: {v} is in {len(tops)} places")
    for i, n in enumerate(nodes):
        if n.relation is None and any(not n.attributes <= nodes[c].attributes for c in below[i]):
            found.append("guard: a child lacks an attribute of its generalized parent")
        if n.relation is None and parent[i] >= 0 and nodes[parent[i]].relation is not None:
            found.append("above: a generalized node lies below a relation")
    if not _has_connex_set(nodes, parent, free):
        found.append("connex: no set of nodes at the top holds the output")
    return found


def _has_connex_set(nodes: list[TreeNode], parent: list[int], free: Edge) -> bool:
    """Try every connected set of nodes that holds the root (by brute force when there are few)."""
    rest = range(1, len(nodes))
    if len(nodes) > 12:
        return _grown(nodes, parent, free)
    for chosen in chain.from_iterable(combinations(rest, k) for k in range(len(nodes))):
        inside = {0, *chosen}
        if any(parent[i] not in inside for i in chosen):
            continue
        keys = [nodes[i].attributes & nodes[parent[i]].attributes for i in chosen]
        if all(k <= free for k in keys) and free <= frozenset().union(*(nodes[i].attributes for i in inside)):
            return True
    return False


def _grown(nodes: list[TreeNode], parent: list[int], free: Edge) -> bool:
    inside = {0}
    for i in range(1, len(nodes)):
        if parent[i] in inside and nodes[i].attributes & nodes[parent[i]].attributes <= free:
            inside.add(i)
    return free <= frozenset().union(*(nodes[i].attributes for i in inside))


def height(node: TreeNode) -> int:
    """The most relations on a path from a leaf to the root."""
    own = 0 if node.relation is None else 1
    return own + max((height(c) for c in node.children), default=0)


def depth_cost(node: TreeNode, above: int = 0) -> int:
    """Σ depth over all relations, depth counting the relations strictly above."""
    own = 0 if node.relation is None else 1
    return own * above + sum(depth_cost(c, above + own) for c in node.children)
