"""What an update of an atom's row changes: totals on the way up, what is joined ahead, and what a feed is told.

A change goes from the atom to the root of its tree. At each node it is multiplied by the totals of the units beside it,
found by the node's key; if one of them is missing, nothing above changes. A split node then changes the row of a heavy
key, or, if the key is light, joins the change with the units below the node (hierarchical-tradeoff.md 9.1, 9.3).
"""

from __future__ import annotations

from collections.abc import Sequence

from everview.kernel.program import Add, Compute, Emit, Find, Instruction, Lit, Math, Operand, Product, Reg, Update
from everview.query.terms import Var
from everview.strategies.hierarchical.joins import Deltas, Rows, factors, nested, product
from everview.strategies.hierarchical.layout import (
    Layout,
    Places,
    Unit,
    joined_units,
    regs,
    units_below,
    words_of,
)
from everview.strategies.hierarchical.order import Leaf, OrderNode, Role, Words
from everview.strategies.strategy import DELTA

RESULT_TABLE = "derivations"
"""While deltas of a set are told: each row of the result with the number of its derivations."""


def change_regs(layout: Layout, leaf: Leaf) -> dict[int, Reg]:
    """The registers of the changes of an atom's measures."""
    return {j: Reg(f"change{j}") for j in layout.carried(leaf)}


def all_units(layout: Layout) -> tuple[Unit, ...]:
    """What the whole result is joined of: atoms, and totals over what has no output."""
    below = (u for r in layout.order.roots for u in (joined_units(r) if r.shown else (r,)))
    return (*layout.order.scalars, *below)


class Updates:
    """Writes the part of an update that changes totals and joins; ``with_deltas`` also tells what changes."""

    def __init__(self, layout: Layout, with_deltas: bool) -> None:
        self.layout = layout
        self.with_deltas = with_deltas

    def climb(self, leaf: Leaf) -> list[Instruction]:
        """After an atom's row has changed: everything above it."""
        changed: Deltas = change_regs(self.layout, leaf)
        above = self.layout.order.above(leaf)
        return self._reached(leaf, changed, None, above, regs_of(leaf.words))

    def _reached(
        self,
        unit: Unit,
        changed: Deltas,
        origin: tuple[Unit, Deltas] | None,
        above: Sequence[OrderNode],
        places: Places,
    ) -> list[Instruction]:
        """A unit's measures have changed at the words in ``places``: go on with the node above it.

        ``origin`` is the highest unit on the way that is joined as a whole; while there is no output below, it is the
        one that has just changed.
        """
        body: list[Instruction] = []
        if origin is None and (not above or above[0].role is not Role.SUMMED):
            origin = (unit, changed)
            body += self._told(*origin, places)
        return [*body, *(self._at_node(unit, changed, origin, above, places) if above else ())]

    def _at_node(
        self,
        unit: Unit,
        changed: Deltas,
        origin: tuple[Unit, Deltas] | None,
        above: Sequence[OrderNode],
        places: Places,
    ) -> list[Instruction]:
        layout = self.layout
        node, *higher = above
        beside = [u for u in units_below(node) if u is not unit]

        def met(known: Places, rows: Rows) -> list[Instruction]:
            body: list[Instruction] = []
            held = layout.carried(node)
            after: dict[int, Operand] = {}
            for j in held:
                if not rows and layout.width(unit) == layout.width(node):
                    after[j] = changed[j]
                    continue
                target = layout.fresh("change", layout.width(node))
                body += product(target, factors(layout, j, rows, changed))
                after[j] = target
            row = layout.fresh("row")
            keys = tuple(places[v] for v in node.keys)
            if layout.own_rows(node) and node.role is Role.LISTED:
                body.append(Add(row, layout.rows_table(node), keys, (after[0],)))
            if node.role in (Role.SPLIT, Role.JOINED):
                assert origin is not None
                body += self._joined(node, origin, places, keys, after)
            totals = tuple(places[v] for v in node.above)
            body.append(Add(layout.fresh("row"), layout.table(node), totals, tuple(after[j] for j in held)))
            return [*body, *self._reached(node, after, origin, higher, places)]

        return nested(layout, beside, {v: places[v] for v in node.keys}, met)

    def _joined(
        self,
        node: OrderNode,
        origin: tuple[Unit, Deltas],
        places: Places,
        keys: tuple[Operand, ...],
        after: Deltas,
    ) -> list[Instruction]:
        """At a node that joins ahead: a heavy key changes one row, a light one what it is joined with."""
        layout = self.layout
        unit, changed = origin
        known = {v: places[v] for v in words_of(unit)}
        others = [u for u in joined_units(node) if u is not unit]
        light = nested(layout, others, known, lambda p, r: add_to_light(layout, node, p, r, changed))
        if node.role is Role.JOINED:
            return light
        heavy = Add(layout.fresh("row"), layout.rows_table(node), keys, (after[0],))
        return [Find(layout.fresh("row"), layout.heavy_table(node), keys, (heavy,), tuple(light))]

    # --- deltas ------------------------------------------------------------------------------------------------------

    def _told(self, unit: Unit, changed: Deltas, places: Places) -> list[Instruction]:
        """Tell every result that a changed unit takes part in, by joining it with all others."""
        if not self.with_deltas:
            return []
        layout = self.layout
        others = [u for u in all_units(layout) if u is not unit]
        known = {v: places[v] for v in words_of(unit)}
        return nested(layout, others, known, lambda p, r: self._tell(p, r, changed))

    def _tell(self, places: Places, rows: Rows, changed: Deltas) -> list[Instruction]:
        layout = self.layout
        words = tuple(places[v] for v in layout.outputs)
        if not layout.is_set:
            measures = (Product(factors(layout, j, rows, changed), layout.told_width) for j in layout.measures)
            return [Emit(DELTA, (*words, *measures, Update()))]
        weight = layout.fresh("weight", layout.result_width)
        came, went = ((Emit(DELTA, (*words, Lit(n), Update())),) for n in (1, -1))
        return [
            *product(weight, factors(layout, 0, rows, changed)),
            Add(layout.fresh("row"), RESULT_TABLE, words, (weight,), came, went),
        ]

    def count_derivations(self, sign: int) -> list[Instruction]:
        """Begin to keep the result of a set with its derivations, or end it: all of them are added or taken away."""
        layout = self.layout

        def counted(places: Places, rows: Rows) -> list[Instruction]:
            weight = layout.fresh("weight", layout.result_width)
            words = tuple(places[v] for v in layout.outputs)
            return [
                *product(weight, (Lit(sign), *factors(layout, 0, rows))),
                Add(layout.fresh("row"), RESULT_TABLE, words, (weight,)),
            ]

        return nested(layout, all_units(layout), {}, counted)


def regs_of(words: Words) -> dict[Var, Operand]:
    """The variables by their registers."""
    return dict(zip(words, regs(words), strict=True))


def add_to_light(
    layout: Layout, node: OrderNode, places: Places, rows: Rows, changed: Deltas | None
) -> list[Instruction]:
    """Add one combination of rows to what is joined ahead at a node; ``changed`` may turn its sign."""
    body: list[Instruction] = []
    changes: list[Operand] = []
    for j in layout.carried(node):
        target = layout.fresh("product", layout.width(node))
        body += product(target, factors(layout, j, rows, changed))
        changes.append(target)
    key = tuple(places[v] for v in (*node.above, *node.shown))
    return [*body, Add(layout.fresh("row"), layout.light_table(node), key, tuple(changes))]


def joined_at(layout: Layout, node: OrderNode, sign: int) -> list[Instruction]:
    """Add, or take away, all that a key of a node, in the registers of its variables, has joined ahead."""
    places = regs_of(node.keys)
    return nested(layout, joined_units(node), places, lambda p, r: add_to_light(layout, node, p, r, {0: Lit(sign)}))


def row_at(layout: Layout, node: OrderNode) -> list[Instruction]:
    """Make a heavy key's row: the product of what meets there, if all of it is there."""
    places = regs_of(node.keys)
    keys = tuple(regs(node.keys))

    def met(_: Places, rows: Rows) -> list[Instruction]:
        weight = layout.fresh("weight", layout.width(node))
        made = Add(layout.fresh("row"), layout.rows_table(node), keys, (weight,))
        return [*product(weight, factors(layout, 0, rows)), made]

    return nested(layout, units_below(node), places, met)


def copied(target: Reg, source: Operand) -> Compute:
    """target ← source."""
    return Compute(target, Math.ADD, source, Lit(0))
