"""Heavy and light keys: when a key changes its side, and what that changes (hierarchical-tradeoff.md 10).

A key of a split node is heavy if it is heavy in some atom below the node. All marks of a key are set first, and only if
that makes it heavy, or light, its results move between ``light.X`` and ``rows.X``. Totals stay as they are, so nothing
above the node sees it. Major rebalancing looks at every key once and moves those whose side changes; nothing is
computed anew. A key's mark goes with the last row that has it.
"""

from __future__ import annotations

from everview.kernel.program import (
    Add,
    Call,
    Compute,
    Count,
    Find,
    If,
    Instruction,
    Lit,
    Math,
    Operand,
    Reg,
    Remove,
    Scan,
    Test,
    ValueOf,
)
from everview.programs.parts import ThresholdBase
from everview.strategies.hierarchical.layout import ZERO, Layout, regs
from everview.strategies.hierarchical.order import Leaf, OrderNode
from everview.strategies.hierarchical.updates import copied, joined_at, row_at

MAJOR = "major"
MARK, DEGREE, NUMBER = Reg("mark"), Reg("degree"), Reg("number")


class Rebalance:
    """Writes what moves keys between the two sides."""

    def __init__(self, layout: Layout, base: ThresholdBase) -> None:
        self.layout = layout
        self.base = base

    def write(self) -> None:
        """All procedures."""
        layout = self.layout
        for node in layout.order.split:
            self._write_moves(node)
            self._write_placed(node)
            for leaf in node.all_leaves:
                self._write_minor(node, leaf)
                self._write_gone(node, leaf)
                self._write_marked(node, leaf)
        row = Reg("row")
        major: list[Instruction] = []
        for node in layout.order.split:
            for leaf in node.all_leaves:
                words = layout.words(row, leaf.label)
                call = Call(self._name(node, "place"), tuple(words[v] for v in node.keys))
                major.append(Scan(row, leaf.label, layout.index(leaf.label, ()), (), 0, (call,)))
        layout.procedure(MAJOR, (), major)

    def after(self, leaf: Leaf, change: Operand) -> list[Instruction]:
        """After an atom's row has come or gone: |D|, then a major rebalancing or minor ones, where they are due."""
        above = [n for n in self.layout.order.above(leaf) if n in self.layout.order.split]
        gone = tuple(Call(self._name(n, f"gone{leaf.atom}"), regs(n.keys)) for n in above)
        minor = tuple(Call(self._name(n, f"minor{leaf.atom}"), regs(n.keys)) for n in above)
        body = (*self.base.counted("size", change), *self.base.checked((Call(MAJOR),), minor))
        return [If(Test.LESS, change, ZERO, gone), *self.base.opened(body)]

    def marked_all(self) -> list[Instruction]:
        """Mark every key that is heavy in an atom, strictly; nothing is joined yet, so nothing moves."""
        row = Reg("row")
        body: list[Instruction] = []
        for node in self.layout.order.split:
            for leaf in node.all_leaves:
                words = self.layout.words(row, leaf.label)
                call = Call(self._name(node, f"mark{leaf.atom}"), tuple(words[v] for v in node.keys))
                body.append(Scan(row, leaf.label, self.layout.index(leaf.label, ()), (), 0, (call,)))
        return body

    def _name(self, node: OrderNode, verb: str) -> str:
        return f"{node.label}.{verb}"

    def _write_moves(self, node: OrderNode) -> None:
        layout = self.layout
        keys = regs(node.keys)
        row = Reg("row")
        layout.procedure(self._name(node, "to_heavy"), keys, [*joined_at(layout, node, -1), *row_at(layout, node)])
        gone = Find(row, layout.rows_table(node), keys, (Remove(row, layout.rows_table(node)),))
        layout.procedure(self._name(node, "to_light"), keys, [gone, *joined_at(layout, node, 1)])

    def _degree(self, node: OrderNode, leaf: Leaf, target: Reg = DEGREE) -> Count:
        index = self.layout.index(leaf.label, node.keys)
        return Count(target, leaf.label, index, regs(node.keys), 0)

    def _mark(self, node: OrderNode, leaf: Leaf, target: Reg = MARK) -> list[Instruction]:
        """target ← 1 if the key is heavy in an atom."""
        row = Reg("marked")
        table = self.layout.heavy_table(node)
        held = ValueOf(row, table, self._place(node, leaf))
        return [Find(row, table, regs(node.keys), (copied(target, held),), (copied(target, ZERO),))]

    def _place(self, node: OrderNode, leaf: Leaf) -> int:
        return 1 + node.all_leaves.index(leaf)

    def _marked(self, node: OrderNode, leaf: Leaf, mark: int, *, moves: bool = True) -> list[Instruction]:
        """Set or clear an atom's mark of a key; its side changes with the first mark and the last."""
        places = range(1 + len(node.all_leaves))
        changes = tuple(Lit(mark if i in (0, self._place(node, leaf)) else 0) for i in places)
        keys = regs(node.keys)
        heavy, light = ((Call(self._name(node, verb), keys),) if moves else () for verb in ("to_heavy", "to_light"))
        return [Add(Reg("marks"), self.layout.heavy_table(node), keys, changes, heavy, light)]

    def _write_minor(self, node: OrderNode, leaf: Leaf) -> None:
        """A key whose degree in an atom has left the range of its side gets to the other one."""
        base = self.base
        moved = (*base.counted("minors", Lit(1)), *base.counted("moved", DEGREE))
        to_light = base.if_too_light(DEGREE, (*moved, *self._marked(node, leaf, -1)))
        to_heavy = base.if_too_heavy(DEGREE, (*moved, *self._marked(node, leaf, 1)))
        checked = If(Test.NOT_EQUAL, MARK, ZERO, (to_light,), (to_heavy,))
        body = (self._degree(node, leaf), *self._mark(node, leaf), If(Test.LESS, ZERO, DEGREE, (checked,)))
        self.layout.procedure(self._name(node, f"minor{leaf.atom}"), regs(node.keys), base.opened(body))

    def _write_marked(self, node: OrderNode, leaf: Leaf) -> None:
        """Mark a key if it is heavy in an atom and has not been marked yet."""
        marked = If(Test.EQUAL, MARK, ZERO, tuple(self._marked(node, leaf, 1, moves=False)))
        strict = self.base.if_heavy_strictly(DEGREE, (*self._mark(node, leaf), marked))
        body = self.base.opened((self._degree(node, leaf), strict))
        self.layout.procedure(self._name(node, f"mark{leaf.atom}"), regs(node.keys), body)

    def _write_gone(self, node: OrderNode, leaf: Leaf) -> None:
        """The last row of a key has gone: so does its mark. Nothing is to be moved, as nothing joins any more."""
        cleared = If(Test.NOT_EQUAL, MARK, ZERO, tuple(self._marked(node, leaf, -1, moves=False)))
        body = (self._degree(node, leaf), If(Test.EQUAL, DEGREE, ZERO, (*self._mark(node, leaf), cleared)))
        self.layout.procedure(self._name(node, f"gone{leaf.atom}"), regs(node.keys), body)

    def _write_placed(self, node: OrderNode) -> None:
        """Put a key where its degrees say, as a major rebalancing does: all marks first, then at most one move."""
        base, layout = self.base, self.layout
        keys = regs(node.keys)
        body: list[Instruction] = [copied(NUMBER, ZERO)]
        changes: list[Operand] = [NUMBER]
        for leaf in node.all_leaves:
            mark, change = Reg(f"mark{leaf.atom}"), Reg(f"change{leaf.atom}")
            body += [self._degree(node, leaf), *self._mark(node, leaf, mark)]
            body.append(
                base.if_heavy_strictly(
                    DEGREE,
                    (Compute(change, Math.SUBTRACT, Lit(1), mark),),
                    (Compute(change, Math.SUBTRACT, ZERO, mark),),
                )
            )
            body.append(If(Test.NOT_EQUAL, change, ZERO, base.counted("moved", DEGREE)))
            body.append(Compute(NUMBER, Math.ADD, NUMBER, change))
            changes.append(change)
        heavy, light = (Call(self._name(node, verb), keys) for verb in ("to_heavy", "to_light"))
        body.append(Add(Reg("marks"), layout.heavy_table(node), keys, tuple(changes), (heavy,), (light,)))
        layout.procedure(self._name(node, "place"), keys, base.opened(tuple(body)))
