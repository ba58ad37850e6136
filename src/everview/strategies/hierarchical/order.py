"""The canonical variable order of a query, with what each of its variables is to the strategy.

Variables that occur in the same atoms, and are alike in being output or not, are taken together: one node stands for
all of them (hierarchical-tradeoff.md 3.2). Below a node every atom has all of its ``keys``, so a key over them is heavy
or light in an atom as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from everview.query.conjunctive import ConjunctiveQuery
from everview.query.orders import VariableNode, canonical_order
from everview.query.terms import Var

Words = tuple[Var, ...]


class Mode(Enum):
    """Whether tables go on changing after they have been filled, or are only read then."""

    DYNAMIC = "dynamic"
    STATIC = "static"


class Role(Enum):
    """What a node of the order is: it decides which tables are kept for it (hierarchical-tradeoff.md 7.4)."""

    LISTED = "listed"
    """Output variables: their values are listed, for each value of the variables above them."""
    SUMMED = "summed"
    """Variables that are not output, nor is any below them: only totals are kept."""
    SPLIT = "split"
    """Variables that are not output, above some that are: light keys are joined ahead, heavy ones when read."""
    JOINED = "joined"
    """The same, where all keys are joined ahead: one atom has all output below, and tables do not change any more."""


@dataclass(frozen=True, eq=False)
class Leaf:
    """An atom in the order: its number in the query and the variables that are stored of it."""

    atom: int
    words: Words

    @property
    def label(self) -> str:
        """What its table is called."""
        return f"atom{self.atom}"


@dataclass(frozen=True, eq=False)
class OrderNode:
    """Variables that occur in the same atoms, with what stands above and below them."""

    number: int
    variables: Words
    above: Words
    """The variables above: anc(X)."""
    role: Role
    shown: Words
    """The output variables of the node and of those below it."""
    leaves: tuple[Leaf, ...]
    """The atoms that hang directly below it."""
    children: tuple[OrderNode, ...]
    parent: list[OrderNode] = field(default_factory=list, repr=False)
    """The node above, if there is one."""

    @property
    def keys(self) -> Words:
        """keys(X): its variables and all above them."""
        return (*self.above, *self.variables)

    @property
    def label(self) -> str:
        """What its tables are called by."""
        return "".join(v.name for v in self.variables)

    @property
    def all_leaves(self) -> tuple[Leaf, ...]:
        """All atoms below it."""
        return (*self.leaves, *(leaf for c in self.children for leaf in c.all_leaves))

    @property
    def listed_children(self) -> tuple[OrderNode, ...]:
        """The nodes directly below it that hold output variables, or stand above such."""
        return tuple(c for c in self.children if c.shown)

    def walk(self) -> Iterator[OrderNode]:
        """The node and all below it, top-down."""
        yield self
        for child in self.children:
            yield from child.walk()

    def path(self) -> Iterator[OrderNode]:
        """The node and those above it, up to the root."""
        yield self
        if self.parent:
            yield from self.parent[0].path()


@dataclass(frozen=True)
class Order:
    """A tree a connected component; atoms of which nothing is stored but a count are ``scalars``."""

    roots: tuple[OrderNode, ...]
    scalars: tuple[Leaf, ...]

    def walk(self) -> Iterator[OrderNode]:
        """Every node, top-down."""
        for root in self.roots:
            yield from root.walk()

    @property
    def split(self) -> tuple[OrderNode, ...]:
        """The nodes whose keys are heavy or light."""
        return tuple(n for n in self.walk() if n.role is Role.SPLIT)

    def above(self, leaf: Leaf) -> tuple[OrderNode, ...]:
        """The nodes above an atom, the lowest first."""
        home = next((n for n in self.walk() if leaf in n.leaves), None)
        return tuple(home.path()) if home is not None else ()


def order_of(query: ConjunctiveQuery, mode: Mode = Mode.DYNAMIC) -> Order:
    """The order of a hierarchical query over the variables that are joined or output; others are summed at the door."""
    stored = frozenset(v for v, atoms in query.atoms_of.items() if len(atoms) > 1 or v in query.free)
    found = canonical_order(query)
    builder = _Builder(query, stored, mode)
    roots: list[OrderNode] = []
    scalars = [Leaf(i, ()) for i in found.atoms]
    for root in found.roots:
        leaves, nodes = builder.build(root, ())
        roots += nodes
        scalars += leaves
    return Order(tuple(roots), tuple(scalars))


class _Builder:
    def __init__(self, query: ConjunctiveQuery, stored: frozenset[Var], mode: Mode) -> None:
        self.query = query
        self.stored = stored
        self.mode = mode
        self.count = 0

    def build(self, node: VariableNode, above: Words) -> tuple[list[Leaf], list[OrderNode]]:
        """The nodes for a subtree; only its atoms, where its variables are not stored."""
        chain = [node.variable]
        while len(node.children) == 1 and not node.atoms and self._alike(node.variable, node.children[0].variable):
            (node,) = node.children
            chain.append(node.variable)
        variables = tuple(v for v in chain if v in self.stored)
        number = self.count
        self.count += bool(variables)
        keys = (*above, *variables)
        leaves = [Leaf(i, keys) for i in node.atoms]
        children: list[OrderNode] = []
        for child in node.children:
            more, nodes = self.build(child, keys)
            leaves += more
            children += nodes
        if not variables:
            return leaves, children
        free = frozenset(chain) & self.query.free
        shown = (*(v for v in variables if v in free), *(v for c in children for v in c.shown))
        role = Role.LISTED if free else self._bound_role(node, shown)
        made = OrderNode(number, variables, above, role, shown, tuple(leaves), tuple(children))
        for below in children:
            below.parent.append(made)
        return [], [made]

    def _alike(self, one: Var, other: Var) -> bool:
        return (one in self.query.free) == (other in self.query.free)

    def _bound_role(self, node: VariableNode, shown: Words) -> Role:
        if not shown:
            return Role.SUMMED
        together = any(frozenset(shown) <= self.query.edges[i] for i in node.all_atoms)
        return Role.JOINED if together and self.mode is Mode.STATIC else Role.SPLIT
