"""A plan in words and boxes: the variable order, which of its nodes are split, and the view trees it stands for."""

from __future__ import annotations

from collections.abc import Sequence

from everview.query.conjunctive import ConjunctiveQuery
from everview.query.show import atom_labels
from everview.query.terms import Var, names
from everview.strategies.diagram import Box, Diagram, DiagramNode
from everview.strategies.hierarchical.layout import Unit
from everview.strategies.hierarchical.order import Leaf, Order, OrderNode, Role


def listed(words: Sequence[Var]) -> str:
    """Variables in their order."""
    return ", ".join(v.name for v in words)


def diagram_of(query: ConjunctiveQuery, order: Order) -> Diagram:
    """The order as boxes: what is split is dashed, atoms hang below their lowest variable."""
    labels = atom_labels(query)
    units: tuple[Unit, ...] = (*order.roots, *order.scalars)
    boxes = [_box(u, labels) for u in units]
    root = boxes[0] if len(boxes) == 1 else DiagramNode("×", Box.JOIN, children=tuple(boxes))
    return Diagram("order", "canonical variable order", "variable order", root)


def _box(unit: Unit, labels: Sequence[str]) -> DiagramNode:
    if isinstance(unit, Leaf):
        return DiagramNode(labels[unit.atom], key=listed(unit.words) or "∅", is_listed=False)
    below = (*(_box(u, labels) for u in unit.leaves), *(_box(u, labels) for u in unit.children))
    label = f"{listed(unit.variables)} ({unit.role.value})"
    box = Box.INPUT if unit.role in (Role.LISTED, Role.SUMMED) else Box.GROUP
    return DiagramNode(label, box, key=listed(unit.above), is_listed=bool(unit.shown), children=below)


def order_line(query: ConjunctiveQuery, order: Order) -> str:
    """The order on one line, as ``b – {a – r(a, b); c – s(b, c)}``."""
    labels = atom_labels(query)
    return "; ".join([*(_line(r, labels) for r in order.roots), *(labels[x.atom] for x in order.scalars)])


def _line(node: OrderNode, labels: Sequence[str]) -> str:
    below = [*(labels[x.atom] for x in node.leaves), *(_line(c, labels) for c in node.children)]
    inner = below[0] if len(below) == 1 else "{" + "; ".join(below) + "}"
    return f"{listed(node.variables)} – {inner}"


def split_line(query: ConjunctiveQuery, order: Order) -> str:
    """Which keys are heavy or light, and in which relations."""
    labels = atom_labels(query)
    parts = []
    for node in order.split:
        where = ", ".join(labels[x.atom] for x in node.all_leaves)
        parts.append(f"{names(node.variables)} by the key ({listed(node.keys)}) in {where}")
    count = tree_count(order)
    return f"{'; '.join(parts)}: {count} view trees"


def tree_count(order: Order) -> int:
    """How many view trees the plan stands for: a split adds one, independent branches multiply."""
    return sum(_trees(r) for r in order.roots if r.shown or r.role is not Role.SUMMED) or 1


def _trees(node: OrderNode) -> int:
    if node.role in (Role.SUMMED, Role.JOINED):
        return 1
    found = 1
    for child in node.children:
        found *= _trees(child)
    return found + (node.role is Role.SPLIT)
