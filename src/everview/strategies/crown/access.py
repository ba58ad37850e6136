"""Ordered access: how many results each row is in, kept as rows change, and the j-th result found from that.

For the trees in which every key is a whole row of the node above it (q-hierarchical.md 6, 9, 10). Of each row whose
subtree matches its *total* is kept: its copies times, for each child, the sum of the totals in the group below it. A
changed row changes one group's sum and so one row above it, up to the root. Ordered indexes with the totals as measure
find the row at a rank, and a row's rank, in O(log N).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from everview.kernel.program import (
    Add,
    Before,
    Call,
    Compute,
    Count,
    Cursor,
    Find,
    Function,
    If,
    InOrder,
    Instruction,
    Lit,
    Math,
    Operand,
    Rank,
    Reg,
    Select,
    Step,
    Store,
    Test,
)
from everview.query.terms import Var
from everview.strategies.crown.full_join import result_weight
from everview.strategies.crown.layout import RANKS, TOTAL, Layout, Node, Words, regs
from everview.strategies.crown.plan import CrownPlan
from everview.strategies.strategy import ACCESS, BEFORE, COUNT, MOST_RANKS, RANK, RESULT, WORDS_AS_THEY_ARE, WordOrders

_ONCE, _POSITION, _ROW, _FOUND = Reg("once"), Reg("position"), Reg("row"), Reg("found")
_NARROW: Final = Reg("narrow")
_Chosen = Callable[[Node, Reg, Sequence[Instruction]], list[Instruction]]
_Ending = Callable[[], list[Instruction]]


class Access:
    """Writes the totals, and what reads them."""

    def __init__(self, layout: Layout, orders: WordOrders) -> None:
        self.layout = layout
        self.orders = orders
        self.width = layout.result_width
        self.by = Reg("by", self.width)
        ranks = ((RANKS, 1),) if layout.plan.has_access else ()
        for n in layout.shown:
            if self._has_total(n):
                layout.plain_table(_total_table(n), n.handed, ((TOTAL, self.width), *ranks))
            if self._has_sum(n):
                layout.plain_table(_group_table(n), n.key, ((TOTAL, self.width),))

    # --- what is kept ----------------------------------------------------------------------------------------------

    def _has_total(self, n: Node) -> bool:
        """True if its rows' totals are kept beside them; those of other leaves are their copies, in one word."""
        return n.is_inner or (not self.layout.is_set and self.layout.width(n, 0) > 1)

    def _has_sum(self, n: Node) -> bool:
        """True if the sum of a group's totals is kept: if it has several rows, and is not their number."""
        return not _is_single(n) and (self._has_total(n) or not self.layout.is_set)

    def write(self) -> None:
        """Parents first: a changed total is handed upwards."""
        for n in self.layout.shown:
            if self._has_total(n):
                self.layout.procedure(f"{n.label}.retotal", regs(n.handed), self._retotal(n))
            self.layout.procedure(f"{n.label}.summed", (*regs(n.key), self.by), self._summed(n))
            if not n.is_pure:
                change = self.layout.change(n, 0)
                self.layout.procedure(n.weighed, (*regs(n.handed), change), self._weighed(n, change))

    def _weighed(self, n: Node, change: Reg) -> list[Instruction]:
        """A row's copies have changed."""
        if self._has_total(n):
            return [Call(f"{n.label}.retotal", regs(n.handed))]
        by = self.by
        return [Compute(by, Math.ADD, change, Lit(0)), Call(f"{n.label}.summed", (*regs(n.key), by))]

    def _retotal(self, n: Node) -> list[Instruction]:
        """Make a row's total anew, from its copies and the groups below it; hand on by how much it has changed."""
        new, product = Reg("new", self.width), Reg("product", self.width)
        places: dict[Var, Operand] = dict(zip(n.handed, regs(n.handed), strict=True))
        body: tuple[Instruction, ...] = (Compute(new, Math.ADD, product, Lit(0)),)
        for child in reversed(n.shown):
            factor = Reg(f"sum{child.number}", self.width)
            multiplied = (Compute(product, Math.MULTIPLY, product, factor), *body)
            body = tuple(self._group_sum(child, places, factor, multiplied))
        if n.is_pure:
            body = (Compute(product, Math.ADD, Lit(1), Lit(0)), *body)
        else:
            row = Reg("own")
            copies = Lit(1) if self.layout.is_set else self.layout.measure(row, n.out_table, 0)
            body = (Find(row, n.out_table, regs(n.handed), (Compute(product, Math.ADD, copies, Lit(0)), *body)),)
        table = _total_table(n)
        total = self.layout.value(_ROW, table, TOTAL)
        came, gone = Compute(self.by, Math.ADD, new, Lit(0)), Compute(self.by, Math.SUBTRACT, new, total)
        ranked = self._ranked(table)
        changed = (
            Add(_ROW, table, regs(n.handed), (self.by,), appeared=ranked, otherwise=ranked),
            Call(f"{n.label}.summed", (*regs(n.key), self.by)),
        )
        return [
            Compute(new, Math.ADD, Lit(0), Lit(0)),
            *body,
            Find(_ROW, table, regs(n.handed), (gone,), (came,)),
            If(Test.NOT_EQUAL, self.by, Lit(0), changed),
        ]

    def _ranked(self, table: str) -> tuple[Instruction, ...]:
        """A row has as many ranks as its total says, as far as they go: with more there is no access, only listing."""
        if not self.layout.plan.has_access:
            return ()
        total, ranks = (self.layout.value(_ROW, table, value) for value in (TOTAL, RANKS))
        fitting = (Compute(_NARROW, Math.ADD, total, Lit(0)), Store(_ROW, table, ranks.column, _NARROW))
        return (If(Test.LESS, Lit(MOST_RANKS), total, (Store(_ROW, table, ranks.column, Lit(MOST_RANKS)),), fitting),)

    def _summed(self, n: Node) -> list[Instruction]:
        """A total of a group has changed by so much."""
        body: list[Instruction] = []
        if self._has_sum(n):
            body.append(Add(_ROW, _group_table(n), regs(n.key), (self.by,)))
        if n.parent is not None:
            body.append(Call(f"{n.parent.label}.retotal", regs(n.key)))
        return body

    def _group_sum(
        self, n: Node, places: Mapping[Var, Operand], target: Reg, then: Iterable[Instruction]
    ) -> list[Instruction]:
        """target ← the sum of a group's totals; what follows is run if there are any."""
        row = Reg(f"group{n.number}")
        key = tuple(places[v] for v in n.key)
        if self._has_sum(n):
            table, total = _group_table(n), self.layout.value(row, _group_table(n), TOTAL)
        elif not _is_single(n):
            size = Reg(f"size{n.number}")
            index = self.layout.index(n.out_table, n.key)
            counted = (Compute(target, Math.ADD, size, Lit(0)), *then)
            return [
                Count(size, self.layout.stored_in(n.out_table), index, key, n.matching),
                If(Test.NOT_EQUAL, size, Lit(0), counted),
            ]
        elif self._has_total(n):
            table, total = _total_table(n), self.layout.value(row, _total_table(n), TOTAL)
        else:
            table, key = self.layout.stored_in(n.out_table), tuple(places[v] for v in self.layout.key_of(n))
            copies = Lit(1) if self.layout.is_set else self.layout.measure(row, n.out_table, 0)
            return [Find(row, table, key, (Compute(target, Math.ADD, copies, Lit(0)), *then))]
        return [Find(row, table, key, (Compute(target, Math.ADD, total, Lit(0)), *then))]

    # --- what is read ----------------------------------------------------------------------------------------------

    @property
    def order(self) -> Words:
        """The variables by which results are ordered."""
        return tuple(v for n in self._ranked_nodes for v in self._columns(n)[len(n.key) :])

    @property
    def _ranked_nodes(self) -> list[Node]:
        """The nodes that have something to choose from: those below a row that says all of theirs have not."""
        return [n for n in self.layout.shown if not _is_single(n)]

    def _columns(self, n: Node) -> Words:
        rest = sorted(set(n.handed) - set(n.key), key=self.layout.head.index)
        return (*n.key, *rest)

    def _table(self, n: Node) -> str:
        return _total_table(n) if self._has_total(n) else n.out_table

    def _ordered(self, n: Node) -> tuple[str, int]:
        """The table that has a node's rows in order, and the number of the order."""
        measure = RANKS if self._has_total(n) else None if self.layout.is_set else "weight"
        return self.layout.stored_in(self._table(n)), self.layout.order(
            self._table(n), self._columns(n), measure, self.orders
        )

    def _total_of(self, n: Node, row: Reg) -> Operand:
        """The ranks that a row has."""
        if self._has_total(n):
            return self.layout.value(row, _total_table(n), RANKS)
        return Lit(1) if self.layout.is_set else self.layout.measure(row, n.out_table, 0)

    def functions(self) -> tuple[Function, ...]:
        """How many results there are; the words of the one at a position, and the first position of one, if kept."""
        if not self.layout.plan.has_access:
            return (self._count(),)
        return self._count(), self._access(), self._rank(), self._before()

    def _count(self) -> Function:
        total, found = Reg("total", self.width), Reg("all", self.width)
        body = self._group_sum(self.layout.root, {}, total, (Compute(found, Math.ADD, total, Lit(0)),))
        return Function(COUNT, (_ONCE,), (Compute(found, Math.ADD, Lit(0), Lit(0)), *body), (found,))

    def _access(self) -> Function:
        """From the root down: ``left`` results with the same rows so far, among which ``rest`` is the position."""
        results = tuple(Reg(f"out{i}") for i in range(len(self.layout.outputs)))
        rest = Reg("rest")
        places: dict[Var, Operand] = {}

        def chosen(n: Node, each: Reg, then: Sequence[Instruction]) -> list[Instruction]:
            table, order = self._ordered(n)
            row, before, at = (Reg(f"{what}{n.number}") for what in ("row", "before", "at"))
            found = (
                Rank(before, row, table, order, len(n.key)),
                Compute(before, Math.MULTIPLY, before, each),
                Compute(rest, Math.SUBTRACT, rest, before),
                *then,
            )
            key = tuple(places[v] for v in n.key)
            return [Compute(at, Math.DIVIDE, rest, each), Select(row, table, order, key, at, found)]

        def ending() -> list[Instruction]:
            given = [
                Compute(target, Math.ADD, places[v], Lit(0))
                for target, v in zip(results, self.layout.outputs, strict=True)
            ]
            return [*given, Compute(_FOUND, Math.ADD, Lit(1), Lit(0))]

        body = self._descent(places, chosen, ending)
        cleared = [Compute(r, Math.ADD, Lit(0), Lit(0)) for r in (_FOUND, *results)]
        start = Compute(rest, Math.ADD, _POSITION, Lit(0))
        return Function(ACCESS, (_POSITION,), (*cleared, start, *body), (_FOUND, *results))

    def _rank(self) -> Function:
        """The same way down, by the rows' keys."""
        outputs = self.layout.outputs
        position = Reg("rank")
        places: dict[Var, Operand] = dict(zip(outputs, regs(outputs), strict=True))

        def chosen(n: Node, each: Reg, then: Sequence[Instruction]) -> list[Instruction]:
            table, order = self._ordered(n)
            row, before = (Reg(f"{what}{n.number}") for what in ("row", "before"))
            key = n.handed if self._has_total(n) else self.layout.key_of(n)
            found = (
                Rank(before, row, table, order, len(n.key)),
                Compute(before, Math.MULTIPLY, before, each),
                Compute(position, Math.ADD, position, before),
                *then,
            )
            return [Find(row, table, tuple(places[v] for v in key), found)]

        def ending() -> list[Instruction]:
            return [Compute(_FOUND, Math.ADD, Lit(1), Lit(0))]

        body = self._descent(places, chosen, ending)
        cleared = [Compute(r, Math.ADD, Lit(0), Lit(0)) for r in (_FOUND, position)]
        return Function(RANK, regs(outputs) or (_ONCE,), (*cleared, *body), (_FOUND, position))

    def _before(self) -> Function:
        """How many results come before a row, which need not be one: down as far as there are such rows."""
        outputs = self.layout.outputs
        position = Reg("rank")
        places: dict[Var, Operand] = dict(zip(outputs, regs(outputs), strict=True))

        def chosen(n: Node, each: Reg, then: Sequence[Instruction]) -> list[Instruction]:
            table, order = self._ordered(n)
            row, before = (Reg(f"{what}{n.number}") for what in ("row", "before"))
            key = n.handed if self._has_total(n) else self.layout.key_of(n)
            return [
                Before(before, table, order, tuple(places[v] for v in self._columns(n)), len(n.key)),
                Compute(before, Math.MULTIPLY, before, each),
                Compute(position, Math.ADD, position, before),
                Find(row, table, tuple(places[v] for v in key), tuple(then)),
            ]

        body = self._descent(places, chosen, list)
        cleared = Compute(position, Math.ADD, Lit(0), Lit(0))
        return Function(BEFORE, regs(outputs) or (_ONCE,), (cleared, *body), (position,))

    def _descent(self, places: dict[Var, Operand], chosen: _Chosen, ending: _Ending) -> list[Instruction]:
        """Node after node: how many results have the rows so far, and of these each row of the next node's group."""
        left = Reg("left")
        nodes = self._ranked_nodes

        def steps(i: int) -> list[Instruction]:
            if i == len(nodes):
                return ending()
            n = nodes[i]
            row, each, size = (Reg(f"{what}{n.number}") for what in ("row", "each", "narrow"))
            total = Reg(f"sum{n.number}", self.width)
            known = dict(places)
            places.update({v: self.layout.word(row, self._table(n), v) for v in n.handed if v not in places})
            below = [Compute(left, Math.MULTIPLY, each, self._total_of(n, row)), *steps(i + 1)]
            found = chosen(n, each, below)
            divided = (Compute(size, Math.ADD, total, Lit(0)), Compute(each, Math.DIVIDE, left, size), *found)
            return self._group_sum(n, known, total, divided)

        all_ = Reg("all", self.width)
        begun = (Compute(left, Math.ADD, all_, Lit(0)), *steps(0))
        return self._group_sum(self.layout.root, {}, all_, begun)

    def cursor(self) -> Cursor:
        """Lists the results in their order; every row visited is in one."""
        layout = self.layout
        steps: list[Step | InOrder] = []
        places: dict[Var, Operand] = {}
        rows: dict[Node, Reg] = {}
        for n in layout.shown:
            row = Reg(f"at{n.number}")
            key = tuple(places[v] for v in n.key)
            if not _is_single(n):
                steps.append(InOrder(row, *self._ordered(n), key))
                places.update({v: layout.word(row, self._table(n), v) for v in n.handed if v not in places})
                if not self._has_total(n):
                    rows[n] = row
                    continue
                row = Reg(f"own{n.number}")
            elif n.parent is None and (
                self._has_total(n) or layout.is_set
            ):  # Its one row is there if there is a result.
                table = self._table(n)
                steps.append(Step(Reg("only"), layout.stored_in(table), layout.index(table, ()), (), 0))
            if n.is_pure or layout.is_set:
                continue
            whole = layout.index(n.out_table, n.handed)
            steps.append(
                Step(row, layout.stored_in(n.out_table), whole, tuple(places[v] for v in n.handed), n.matching)
            )
            rows[n] = row
        if layout.is_set:
            weights = [result_weight(layout, 0, {})]
        else:
            weights = [result_weight(layout, j, rows) for j in range(len(layout.sums) + 1)]
        return Cursor(RESULT, (), tuple(steps), (*(places[v] for v in layout.outputs), *weights))


def order_of(plan: CrownPlan) -> Words:
    """The variables by which the results of a plan are ordered, if it keeps them in order."""
    return Access(Layout(plan, ()), WORDS_AS_THEY_ARE).order


def _is_single(n: Node) -> bool:
    """True if a group has one row at most."""
    return set(n.key) == set(n.handed)


def _total_table(n: Node) -> str:
    return f"{n.label}.total"


def _group_table(n: Node) -> str:
    return f"{n.label}.group"
