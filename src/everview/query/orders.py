"""Variable orders of hierarchical queries: canonical and free-top (hierarchical-tradeoff.md 3), and q-trees.

A variable order is a forest with a node a variable and a leaf an atom, the variables of an atom on one root path. In a
canonical order they are *exactly* the path; in a free-top order no output variable has a summed-out one above it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from everview.query.conjunctive import ConjunctiveQuery, connected_components
from everview.query.hierarchy import NotHierarchicalError, hierarchical_violation, q_violation
from everview.query.terms import Var


@dataclass(frozen=True)
class VariableNode:
    """A variable, the atoms (by index) that hang directly below it, and the subtrees of variables below it."""

    variable: Var
    atoms: tuple[int, ...]
    children: tuple[VariableNode, ...]

    def walk(self, above: tuple[Var, ...] = ()) -> Iterator[tuple[VariableNode, tuple[Var, ...]]]:
        """Every node of the subtree with the variables above it, top-down."""
        waiting = [(self, above)]
        while waiting:
            node, path = waiting.pop()
            yield node, path
            waiting += [(child, (*path, node.variable)) for child in reversed(node.children)]

    @cached_property
    def variables(self) -> frozenset[Var]:
        """The variables of the subtree, the node's own included."""
        return frozenset(node.variable for node in self._nodes())

    @cached_property
    def all_atoms(self) -> tuple[int, ...]:
        """The indexes of all atoms below."""
        return tuple(sorted(i for node in self._nodes() for i in node.atoms))

    def _nodes(self) -> list[VariableNode]:
        """Every node of the subtree, each before those below it."""
        found = [self]
        for node in found:
            found += node.children
        return found


@dataclass(frozen=True)
class VariableOrder:
    """A forest of variables over a query's atoms; ``atoms`` at the top are those without variables."""

    roots: tuple[VariableNode, ...]
    atoms: tuple[int, ...] = ()

    def walk(self) -> Iterator[tuple[VariableNode, tuple[Var, ...]]]:
        """Every node with the variables above it."""
        for root in self.roots:
            yield from root.walk()

    def bound_above_free(self, query: ConjunctiveQuery) -> tuple[VariableNode, ...]:
        """bf(ω): the bound variables with a free one strictly below; none in a free-top order."""
        return tuple(n for n, _ in self.walk() if n.variable not in query.free and n.variables & query.free)

    def is_free_top(self, query: ConjunctiveQuery) -> bool:
        """True if no bound variable stands above a free one."""
        return not self.bound_above_free(query)

    def show(self, query: ConjunctiveQuery) -> str:
        """The order on one line, as ``A-{B-{C-R; D-S}; E-T}``."""
        return "; ".join(_show_below(self.atoms, self.roots, query))


def _show(node: VariableNode, query: ConjunctiveQuery) -> str:
    chain = [str(node.variable)]
    while len(node.children) == 1 and not node.atoms:
        (node,) = node.children
        chain.append(str(node.variable))
    below = _show_below(node.atoms, node.children, query)
    inner = below[0] if len(below) == 1 else "{" + "; ".join(below) + "}"
    return "-".join([*chain, inner])


def _show_below(atoms: Sequence[int], nodes: Sequence[VariableNode], query: ConjunctiveQuery) -> list[str]:
    """Leaves and subtrees in the order in which the query names their atoms."""
    shown = [(i, query.atoms[i].relation) for i in atoms] + [(min(n.all_atoms), _show(n, query)) for n in nodes]
    return [text for _, text in sorted(shown)]


def canonical_order(query: ConjunctiveQuery) -> VariableOrder:
    """The canonical order, free variables first among those with equal atom sets (section 3.2)."""
    violation = hierarchical_violation(query)
    if violation:
        raise NotHierarchicalError(query, violation)
    atoms, roots = _canonical(query, tuple(range(len(query.atoms))), frozenset())
    return VariableOrder(roots, atoms)


def _canonical(
    query: ConjunctiveQuery, atoms: Sequence[int], done: frozenset[Var]
) -> tuple[tuple[int, ...], tuple[VariableNode, ...]]:
    here = tuple(i for i in atoms if query.edges[i] <= done)
    rest = [i for i in atoms if i not in here]
    nodes: list[VariableNode] = []
    for group in connected_components([query.edges[i] for i in rest], without=done):
        component = [rest[k] for k in group]
        top = frozenset.intersection(*(query.edges[i] for i in component)) - done
        chain = sorted(top, key=lambda v: (v not in query.free, v.name))
        below_atoms, below = _canonical(query, component, done | top)
        for v in reversed(chain):
            below_atoms, below = (), (VariableNode(v, below_atoms, below),)
        nodes.extend(below)
    return here, tuple(nodes)


def free_top_order(query: ConjunctiveQuery) -> VariableOrder:
    """A free-top order: each topmost bound subtree gets its free variables moved above it, as one chain.

    Equal to the canonical order for q-hierarchical queries, and no longer canonical for the others.
    """
    order = canonical_order(query)
    return VariableOrder(tuple(_lifted(root, query) for root in order.roots), order.atoms)


def _lifted(node: VariableNode, query: ConjunctiveQuery) -> VariableNode:
    chain: list[VariableNode] = []
    while node.variable in query.free and len(node.children) == 1:
        chain.append(node)
        (node,) = node.children
    if node.variable in query.free:
        lifted = VariableNode(node.variable, node.atoms, tuple(_lifted(c, query) for c in node.children))
    else:
        lifted = _lifted_bound(node, query)
    for above in reversed(chain):
        lifted = VariableNode(above.variable, above.atoms, (lifted,))
    return lifted


def _lifted_bound(node: VariableNode, query: ConjunctiveQuery) -> VariableNode:
    free = [n.variable for n, _ in node.walk() if n.variable in query.free]
    atoms, (lowered,) = _dropped(node, frozenset(free))
    assert not atoms  # the subtree's root is bound, so it stays and keeps its atoms
    for v in reversed(free):
        lowered = VariableNode(v, (), (lowered,))
    return lowered


def _dropped(node: VariableNode, gone: frozenset[Var]) -> tuple[tuple[int, ...], tuple[VariableNode, ...]]:
    """The subtree without some variables; their atoms and children go to the parent."""
    done: dict[int, tuple[tuple[int, ...], tuple[VariableNode, ...]]] = {}
    for inner, _ in reversed(list(node.walk())):  # those below first
        atoms = list(inner.atoms)
        children: list[VariableNode] = []
        for child in inner.children:
            below_atoms, below = done.pop(id(child))
            atoms += below_atoms
            children += below
        kept = (VariableNode(inner.variable, tuple(sorted(atoms)), tuple(children)),)
        done[id(inner)] = (tuple(sorted(atoms)), tuple(children)) if inner.variable in gone else ((), kept)
    return done[id(node)]


def q_tree(query: ConjunctiveQuery, hint: Sequence[Var] | None = None) -> VariableOrder:
    """The q-tree of a q-hierarchical query, its chains and siblings ordered by ``hint`` (q-hierarchical.md 2.3)."""
    violation = q_violation(query)
    if violation:
        raise NotHierarchicalError(query, violation)
    wanted = list(hint) if hint is not None else [t for t in dict.fromkeys(query.head) if isinstance(t, Var)]
    sets = query.atoms_of

    def place(v: Var) -> int:
        return wanted.index(v) if v in wanted else len(wanted)

    ordered = sorted(sets, key=lambda v: (-len(sets[v]), v not in query.free, place(v), v.name))
    parents: dict[Var, Var | None] = {}
    for i, v in enumerate(ordered):
        parents[v] = next((u for u in reversed(ordered[:i]) if sets[u] >= sets[v]), None)

    def subtrees(parent: Var | None) -> tuple[VariableNode, ...]:
        children = [v for v in ordered if parents[v] == parent]
        children.sort(key=lambda v: (v not in query.free, place(v), v.name))
        return tuple(VariableNode(v, own_atoms(v), subtrees(v)) for v in children)

    def own_atoms(v: Var) -> tuple[int, ...]:
        path = {v}
        above = parents[v]
        while above is not None:
            path.add(above)
            above = parents[above]
        return tuple(i for i, e in enumerate(query.edges) if e == path)

    return VariableOrder(subtrees(None), tuple(i for i, e in enumerate(query.edges) if not e))


def enumeration_order(query: ConjunctiveQuery, hint: Sequence[Var] | None = None) -> tuple[Var, ...]:
    """The order of output variables in which a q-hierarchical result can be listed sorted: the q-tree's pre-order."""
    return tuple(n.variable for n, _ in q_tree(query, hint).walk() if n.variable in query.free)


def supports_order(query: ConjunctiveQuery, wanted: Sequence[Var]) -> bool:
    """True if the result can be listed sorted by ``wanted`` (q-hierarchical.md 2.4: the test is exact)."""
    return enumeration_order(query, wanted) == tuple(wanted)
