"""Leaves that are alike: occurrences of one table that take the same rows and hand the same columns on, kept as one.

Four edges from one vertex are four leaves of the same rows below [src], and none of them has columns of its own: each
result's weight is the product of what the four have by src, which is the same number four times. So they are one leaf,
whose table has that number once, and an update changes it once; the product changes by what it is after it less what
it was. Otherwise each of the four would be changed by itself, and tell its own part of that difference.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from everview.query.terms import Var
from everview.strategies.crown.plan import CrownPlan
from everview.strategies.crown.tree import Edge, TreeNode

Alike = tuple[TreeNode, tuple[int, ...]]
"""A child, and the atoms that it is kept for if they are several."""


def alike_below(plan: CrownPlan, signatures: Sequence[Hashable], tree: TreeNode) -> list[Alike]:
    """The children of a node, of those that are alike the first only, with the atoms of all of them.

    Not where rows are put in order or are noted when they change: each of them has its own place in a result there.
    """
    if not signatures or plan.is_distinct or plan.has_totals or plan.has_log:
        return [(child, ()) for child in tree.children]
    groups: dict[Hashable, list[TreeNode]] = {}
    for child in tree.children:
        groups.setdefault(_kind(plan, signatures, tree, child), []).append(child)
    found = []
    for children in groups.values():
        atoms = tuple(sorted(_atom_of(plan, c) for c in children)) if len(children) > 1 else ()
        found.append((children[0], atoms))
    return found


def is_needless(
    plan: CrownPlan, tree: TreeNode, parent: TreeNode | None, child: TreeNode, atoms: Sequence[int]
) -> bool:
    """True if a generalized node has one child only, of atoms alike, whose rows are its own and join as it does."""
    if not atoms or tree.relation is not None:
        return False
    above = parent.attributes if parent is not None else frozenset()
    is_shown, key = tree in plan.tree.connex, tree.attributes & above
    if is_shown != (child in plan.tree.connex) or key != child.attributes & above:
        return False
    handed = tree.attributes & plan.tree.free if is_shown else key
    return handed == _handed(plan, tree, child)


def places_of(plan: CrownPlan, atom: int, variables: Iterable[Var]) -> dict[int, Var]:
    """Some variables of an atom by the columns where they come first."""
    terms = plan.query.atoms[atom].all_terms
    return {terms.index(v): v for v in variables}


def _handed(plan: CrownPlan, tree: TreeNode, child: TreeNode) -> Edge:
    """The variables by which a leaf's measures are kept."""
    return child.attributes & (plan.tree.free if child in plan.tree.connex else tree.attributes)


def _kind(plan: CrownPlan, signatures: Sequence[Hashable], tree: TreeNode, child: TreeNode) -> Hashable:
    """What leaves that are alike have in common; a child that is like no other has itself."""
    if child.relation is None or child.children or plan.relations[child.relation].is_bag:
        return child
    handed, atom = _handed(plan, tree, child), _atom_of(plan, child)
    if not handed <= tree.attributes:
        return child
    return signatures[atom], frozenset(places_of(plan, atom, handed).items()), child in plan.tree.connex


def _atom_of(plan: CrownPlan, child: TreeNode) -> int:
    assert child.relation is not None
    (atom,) = plan.relations[child.relation].atoms
    return atom
