"""What the difference to an earlier state is made of: rows that have changed since, and groups that they are in.

For trees in which the key of every listed node is a whole row of the node above it (q-hierarchical.md 8): the rows of a
node are items then, each below one row. Whenever a row's weight changes its node notes what it was before, on a channel
of its own, which is O(1) an update. The rest is read when a difference is asked for: procedures that change nothing
list groups, and what is below a row; functions say what a row weighs and how many rows each group below it has.
"""

from __future__ import annotations

from everview.kernel.program import (
    Compute,
    Count,
    Emit,
    Find,
    Function,
    GetLevel,
    If,
    Instruction,
    Lit,
    Math,
    Operand,
    Reg,
    Scan,
    Test,
    Update,
)
from everview.query.terms import Var
from everview.strategies.crown.full_join import result_weight
from everview.strategies.crown.layout import Layout, Node, regs
from everview.strategies.crown.row_log import log_of
from everview.strategies.strategy import DifferenceNode

_ONCE, _WEIGHT = Reg("once"), "weight"


class Differences:
    """Writes what a difference is read by."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.channels: list[tuple[str, int]] = []
        self.functions: list[Function] = []

    def write(self) -> tuple[DifferenceNode, ...]:
        """All of it; the nodes are those that are listed, parents first."""
        shown = self.layout.shown
        return tuple(self._node(n, shown) for n in shown)

    @property
    def procedures(self) -> tuple[str, ...]:
        """The procedures that are called from outside."""
        shown = self.layout.shown
        return (*map(_group, shown), *(_below(n) for n in shown if n.shown))

    def _node(self, n: Node, shown: list[Node]) -> DifferenceNode:
        words = 0 if n.is_pure else self.layout.width(n, 0)
        if words:
            self.channels.append((log_of(n), len(n.handed) + words))
        self.functions.append(self._now(n))
        self._write_group(n, words)
        below = self._write_below(n) if n.shown else None
        return DifferenceNode(
            n.handed,
            n.key,
            None if n.parent is None else shown.index(n.parent),
            words,
            log_of(n) if words else None,
            _now(n),
            _group(n),
            below,
            tuple(sorted(self._variables(n))),
        )

    def _variables(self, n: Node) -> frozenset[Var]:
        return frozenset(n.handed).union(*(self._variables(c) for c in n.shown))

    def _weight_of(self, n: Node, row: Reg) -> Operand:
        """What a row weighs; one of a set, or of a node that stands for its children's keys, weighs 1."""
        return Lit(1) if n.is_pure or self.layout.is_set else self.layout.measure(row, n.out_table, 0)

    def _now(self, n: Node) -> Function:
        """What a row weighs now, 0 if it is not there, and of each group below it how many rows match."""
        row, weight = Reg("row"), Reg(_WEIGHT, 1 if n.is_pure else self.layout.width(n, 0))
        counts = tuple(Reg(f"count{c.number}") for c in n.shown)
        table = self.layout.stored_in(n.out_table)
        found = (Compute(weight, Math.ADD, self._weight_of(n, row), Lit(0)),)
        body: list[Instruction] = [Compute(weight, Math.ADD, Lit(0), Lit(0))]
        body.append(Find(row, table, regs(self.layout.key_of(n)), found))
        for child, count in zip(n.shown, counts, strict=True):
            index = self.layout.index(child.out_table, child.key)
            stored = self.layout.stored_in(child.out_table)
            body.append(Count(count, stored, index, regs(child.key), child.matching))
        return Function(_now(n), regs(n.handed) or (_ONCE,), tuple(body), (weight, *counts))

    def _write_group(self, n: Node, words: int) -> None:
        """The rows of a group that match."""
        row = Reg("row")
        weight = Reg(_WEIGHT, max(1, words))
        outputs = (Update(), *self.layout.words(row, n.out_table, n.handed), weight)
        body = (Compute(weight, Math.ADD, self._weight_of(n, row), Lit(0)), Emit(_group(n), outputs))
        index = self.layout.index(n.out_table, n.key)
        scan = Scan(row, self.layout.stored_in(n.out_table), index, regs(n.key), n.matching, body)
        self.channels.append((_group(n), 1 + len(n.handed) + weight.words))
        self.layout.procedure(_group(n), regs(n.key) or (_ONCE,), (scan,))

    def _write_below(self, n: Node) -> str:
        """All that a row that matches is joined with below it, with the product of the weights, its own among them."""
        rows: dict[Node, Reg] = {}
        places: dict[Var, Operand] = {}
        scans: list[tuple[Node, Reg]] = []

        def enter(m: Node) -> None:
            rows[m] = Reg(f"at{m.number}")
            places.update({v: self.layout.word(rows[m], m.out_table, v) for v in m.handed if v not in places})
            if m is not n:
                scans.append((m, rows[m]))
            for child in m.shown:
                enter(child)

        enter(n)
        variables = tuple(sorted(self._variables(n)))
        weight = result_weight(self.layout, 0, {} if self.layout.is_set else rows)
        body: Instruction = Emit(_below(n), (Update(), *(places[v] for v in variables), weight))
        for m, row in reversed(scans):
            key = tuple(places[v] for v in m.key)
            index = self.layout.index(m.out_table, m.key)
            body = Scan(row, self.layout.stored_in(m.out_table), index, key, m.matching, (body,))
        level, row, table = Reg("level"), rows[n], self.layout.stored_in(n.out_table)
        found = (GetLevel(level, row, table), If(Test.NOT_EQUAL, level, Lit(0), (body,)))
        self.channels.append((_below(n), 2 + len(variables)))
        find = Find(row, table, regs(self.layout.key_of(n)), found)
        return self.layout.procedure(_below(n), regs(n.handed) or (_ONCE,), (find,))


def _now(n: Node) -> str:
    return f"{n.label}.now"


def _group(n: Node) -> str:
    return f"{n.label}.group"


def _below(n: Node) -> str:
    return f"{n.label}.below"
