"""What keys and foreign keys say of the steps that a change takes up a join tree (crown.md 7, ucq-constraints.md 9.4).

A change of a node touches the rows of the node above that share its key. Where these hold the whole primary key of
their table, that is one row, whatever the updates are. Where they point at the node by a foreign key, a row that comes
there finds none but those of its own batch, and one that goes has none left at the batch's end: a step for each row
that comes or goes pays for it. Only a row that is *replaced*, which goes and comes again in one batch, is met by all
that point at it. A step of that kind is no bound if a change comes from further below by another kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from everview.query.conjunctive import Atom
from everview.query.constraints import Constraints
from everview.query.terms import Const
from everview.strategies.crown.search import SearchCutError, join_trees
from everview.strategies.crown.tree import Edge, JoinTree, TreeNode

MOST_TREES = 300
MOST_STEPS = 30_000
"""So many trees are looked at, and so many steps taken to find them, for one that keys make cheaper than the best."""


@dataclass(frozen=True)
class KeyedTree:
    """How keys bound what a change touches in a tree: each node above it in one row, or amortised."""

    is_amortised: bool
    """True if foreign keys are needed for it."""
    constraints: tuple[str, ...]
    """What gives the bound, in words."""
    is_relied_on: bool
    """True if one of these is not checked."""


@dataclass(frozen=True)
class _Step:
    """The step from a node to the one above it: ``name`` says what bounds it, nothing where no key is needed."""

    is_reference: bool
    name: str = ""
    is_relied_on: bool = False


def keyed_tree(tree: JoinTree, atoms: Sequence[Atom], constraints: Constraints) -> KeyedTree | None:
    """How keys bound the steps of a tree over atoms; None if one step is not bounded."""
    steps: list[_Step] = []
    for node in tree.root.walk():
        for child in node.children:
            found = _step(node, child, atoms, constraints)
            if found is None:
                return None
            if found.is_reference and not all(s.is_reference for s in _below(child, atoms, constraints)):
                return None
            steps.append(found)
    named = tuple(dict.fromkeys(s.name for s in steps if s.name))
    return KeyedTree(any(s.is_reference for s in steps), named, any(s.is_relied_on for s in steps))


def best_keyed_tree(
    tree: JoinTree, atoms: Sequence[Atom], constraints: Constraints
) -> tuple[JoinTree, KeyedTree | None]:
    """A tree in the place of the one that is best without keys, if keys bound all steps of it, and how they do.

    Trees are looked at until one takes constant time whatever comes, or too many have been; of those that take
    amortised constant time the first is taken, and the given one before all others.
    """
    best = keyed_tree(tree, atoms, constraints)
    if tree.height <= 1 or not constraints.functional or (best is not None and not best.is_amortised):
        return tree, best
    chosen = tree
    try:
        for other in join_trees(tree.edges, tree.free, MOST_TREES, MOST_STEPS):
            found = keyed_tree(other, atoms, constraints)
            if found is not None and (best is None or not found.is_amortised):
                chosen, best = other, found
            if best is not None and not best.is_amortised:
                break
    except SearchCutError:
        pass
    return chosen, best


def _below(node: TreeNode, atoms: Sequence[Atom], constraints: Constraints) -> Iterator[_Step]:
    """The steps below a node, those without a bound as if no key were needed: they are no references in any case."""
    for inner in node.walk():
        for child in inner.children:
            yield _step(inner, child, atoms, constraints) or _Step(False)


def _step(above: TreeNode, node: TreeNode, atoms: Sequence[Atom], constraints: Constraints) -> _Step | None:
    shared = above.attributes & node.attributes
    if above.relation is None or above.attributes <= shared:
        return _Step(False)
    atom = atoms[above.relation]
    for key in constraints.keys_of(atom.relation):
        if _are_within([atom.terms[i] for i in key.determinant], shared):
            return _Step(False, f"the primary key of {atom.relation}", key.is_relied_on)
    if node.relation is None:
        return None
    target = atoms[node.relation]
    for d in constraints.inclusions:
        if (d.relation.lower(), d.target.lower()) != (atom.relation.lower(), target.relation.lower()) or not d.unique:
            continue
        pairs = zip(d.positions, d.target_positions, strict=True)
        if all(atom.terms[i] == target.terms[j] and atom.terms[i] in shared for i, j in pairs):
            return _Step(True, f"the foreign key {d.name} of {d.relation}", d.is_relied_on)
    return None


def _are_within(terms: Sequence[object], variables: Edge) -> bool:
    return all(isinstance(t, Const) or t in variables for t in terms)
