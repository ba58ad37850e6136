"""The state made of all rows at once: atoms are stored first, then everything above them is joined, bottom-up.

Every unit below a node has the node's keys for its own key, so one of them is looped over and the others are looked up.
A light key is joined ahead once, which takes a loop over one atom and loops over at most N^ε rows of the others that
the output is covered by: N^(1+(w−1)ε) steps in all (hierarchical-tradeoff.md 7.5), whatever the updates would take.
"""

from __future__ import annotations

from everview.kernel.program import Add, Compute, Count, Find, Instruction, Math, Operand, Reg
from everview.strategies.hierarchical.joins import Rows, factors, nested, product
from everview.strategies.hierarchical.layout import ZERO, Layout, Places, joined_units, regs, units_below
from everview.strategies.hierarchical.order import Leaf, OrderNode, Role
from everview.strategies.hierarchical.rebalance import Rebalance
from everview.strategies.hierarchical.updates import add_to_light, change_regs, copied

BUILD = "build"
SIZE, MORE = Reg("size"), Reg("more")


def stored(layout: Layout, leaf: Leaf) -> list[Instruction]:
    """Store an atom's row, and do nothing else."""
    return [Add(Reg("row"), leaf.label, regs(leaf.words), tuple(change_regs(layout, leaf).values()))]


def built(layout: Layout, rebalance: Rebalance) -> list[Instruction]:
    """Everything that follows from the atoms' rows: N, which keys are heavy, totals, rows and light joins."""
    body: list[Instruction] = [copied(SIZE, ZERO)]
    for leaf in layout.leaves:
        body.append(Count(MORE, leaf.label, layout.index(leaf.label, ()), (), 0))
        body.append(Compute(SIZE, Math.ADD, SIZE, MORE))
    body += rebalance.base.opened(rebalance.base.begun_with(SIZE))
    body += rebalance.marked_all()
    for root in layout.order.roots:
        body += _built_at(layout, root)
    return body


def _built_at(layout: Layout, node: OrderNode) -> list[Instruction]:
    """What is kept for a node, after what is kept for those below it."""
    held = layout.carried(node)

    def met(known: Places, rows: Rows) -> list[Instruction]:
        body: list[Instruction] = []
        weights: list[Operand] = []
        for j in held:
            target = layout.fresh("weight", layout.width(node))
            body += product(target, factors(layout, j, rows))
            weights.append(target)
        keys = tuple(known[v] for v in node.keys)
        if layout.own_rows(node):
            made: tuple[Instruction, ...] = (Add(layout.fresh("row"), layout.rows_table(node), keys, (weights[0],)),)
        if node.role in (Role.SPLIT, Role.JOINED):
            at = {v: known[v] for v in node.keys}
            ahead = nested(layout, joined_units(node), at, lambda p, r: add_to_light(layout, node, p, r, None))
        if node.role is Role.SPLIT:
            body.append(Find(layout.fresh("row"), layout.heavy_table(node), keys, made, tuple(ahead)))
        elif node.role is Role.JOINED:
            body += ahead
        elif layout.own_rows(node):
            body += made
        above = tuple(known[v] for v in node.above)
        return [*body, Add(layout.fresh("row"), layout.table(node), above, tuple(weights))]

    below = [x for child in node.children for x in _built_at(layout, child)]
    return [*below, *nested(layout, units_below(node), {}, met)]
