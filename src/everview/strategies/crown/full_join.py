"""The shown part: rows of the full join enter and leave, live and die, and are emitted (crown.md 4, 6).

A changed row is in every result that changes with it, so the delta of one update is one nest of loops around that row:
up through live rows only, down through matching ones. Each row visited is in a result, hence the constant delay.
"""

from __future__ import annotations

from collections.abc import Mapping

from everview.kernel.program import (
    Add,
    Call,
    Compute,
    Count,
    Each,
    Emit,
    Find,
    GetLevel,
    If,
    Insert,
    Instruction,
    Lit,
    Math,
    Operand,
    Product,
    Reg,
    Remove,
    Scan,
    SetLevel,
    Store,
    Test,
    Update,
)
from everview.query.terms import Var
from everview.strategies.crown.layout import (
    CHANGE,
    ROW,
    Layout,
    Node,
    Words,
    reg,
    regs,
)
from everview.strategies.crown.row_log import logged
from everview.strategies.strategy import DELTA

Loop = tuple[Reg, Node, Words, int]
"""A loop of a nest: its row, the node, the key by which its rows are found, and their level."""
MOST_MOVABLE = 4
SHORT = 4
"""A loop of fewer rows is not worth standing inside one that has to look its group up for every row around it."""


class FullJoin:
    """Writes the procedures of the shown nodes; those with deltas keep liveness and emit as well."""

    def __init__(self, layout: Layout, with_deltas: bool) -> None:
        self.layout = layout
        self.with_deltas = with_deltas
        self.tag = "!" if with_deltas else ""

    def write(self) -> None:
        """Parents first: a row's coming and going is told upwards."""
        for n in self.layout.shown:
            if self.with_deltas and n.is_inner:
                self.layout.row_procedure(f"{n.label}.live", n.out_table, self._live(n))
                self.layout.row_procedure(f"{n.label}.dead", n.out_table, self._dead(n))
            if n in self.layout.shared_with.values():
                continue
            if n in self.layout.shared_with:
                first = self.layout.shared_with[n]
                parameters = (*regs(first.handed), CHANGE)
                self.layout.procedure(self.name(first, "change"), parameters, self._change_both(first, n))
                continue
            self.layout.row_procedure(self.name(n, "enter"), n.out_table, self._enter(n))
            self.layout.row_procedure(self.name(n, "leave"), n.out_table, self._leave(n))
            if n.is_pure:
                self.layout.procedure(self.name(n, "gain"), regs(n.handed), self._gain_pure(n))
                self.layout.procedure(self.name(n, "lose"), regs(n.handed), self._lose_pure(n))
                continue
            for child in n.shown:
                self.layout.procedure(self.name(child, "gained"), regs(child.key), self._gain(n, child))
                self.layout.procedure(self.name(child, "lost"), regs(child.key), self._lose(n, child))
            own = self.layout.own_changes(n) if n.alike else self.layout.changes(n)
            body = self._change_alike(n) if n.alike else self._change(n)
            self.layout.procedure(self.name(n, "change"), (*regs(n.handed), *own), body)

    def name(self, n: Node, verb: str) -> str:
        """A procedure's name; ! marks those with deltas."""
        return f"{n.label}.{verb}{self.tag}"

    # --- S- and P-updates ------------------------------------------------------------------------------------------

    def _enter(self, n: Node) -> list[Instruction]:
        """S-update: a row whose subtree matches joins V_s; a key that is new there is a P-update at the parent."""
        if n.parent is None:
            return [Call(f"{n.label}.live", (ROW,))] if self._keeps_live(n) else self._moved(n, 1)
        key = self.layout.words(ROW, n.out_table, n.key)
        others, above = Reg("others"), Reg("above")
        known: tuple[Instruction, ...] = ()
        if self._keeps_live(n):
            live = If(Test.NOT_EQUAL, above, Lit(0), (Call(f"{n.label}.live", (ROW,)),))
            known = (*self._count_live(n.parent, n, key, above), live)
        gained = Call(self._upward(n, "gain", "gained"), key)
        if set(n.key) == set(n.handed):
            return [*self._moved(n, 1), gained]
        return [
            Count(others, n.out_table, self.layout.index(n.out_table, n.key), key, n.matching),
            *self._moved(n, 1),
            If(Test.EQUAL, others, self._counted(n), (gained,), known),
        ]

    def _moved(self, n: Node, level: int) -> list[Instruction]:
        return [SetLevel(ROW, n.out_table, level)] if n.is_inner else []

    def _counted(self, n: Node) -> Lit:
        """How many of its group are counted when a row is alone there: at a leaf, that row is one of them."""
        return Lit(0 if n.is_inner else 1)

    def _leave(self, n: Node) -> list[Instruction]:
        """The reverse; rows below that were live through this row alone are live no more."""
        before, left = Reg("before"), Reg("left")
        body: list[Instruction] = []
        if self._keeps_live(n):
            body += [GetLevel(before, ROW, n.out_table), SetLevel(ROW, n.out_table, 0)]
            body.append(If(Test.EQUAL, before, Lit(2), tuple(self._abandon(n))))
        else:
            body += self._moved(n, 0)
        if n.parent is not None:
            key = self.layout.words(ROW, n.out_table, n.key)
            lost = Call(self._upward(n, "lose", "lost"), key)
            if set(n.key) == set(n.handed):
                return [*body, lost]
            body.append(Count(left, n.out_table, self.layout.index(n.out_table, n.key), key, n.matching))
            body.append(If(Test.EQUAL, left, self._counted(n), (lost,)))
        return body

    def _upward(self, n: Node, pure: str, other: str) -> str:
        """The P-update that a key of this node causes at its parent."""
        assert n.parent is not None
        return self.name(n.parent, pure) if n.parent.is_pure else self.name(n, other)

    def _gain(self, n: Node, child: Node) -> list[Instruction]:
        body = self._one_more(n)
        return [Each(ROW, n.out_table, self.layout.index(n.out_table, child.key), regs(child.key), 0, body)]

    def _lose(self, n: Node, child: Node) -> list[Instruction]:
        body = self._one_less(n)
        return [Each(ROW, n.out_table, self.layout.index(n.out_table, child.key), regs(child.key), 0, body)]

    def _gain_pure(self, n: Node) -> list[Instruction]:
        """A generalized node stores a row from its first child on …"""
        key = regs(n.handed)
        enter = Call(self.name(n, "enter"), (ROW,))
        if not n.counts_children:
            return [Insert(ROW, n.out_table, key), enter]
        satisfied = self.layout.satisfied(ROW, n.out_table)
        return [
            Add(
                ROW,
                n.out_table,
                key,
                (Lit(1),),
                otherwise=(If(Test.EQUAL, satisfied, Lit(len(n.shown)), (enter,)),),
            )
        ]

    def _lose_pure(self, n: Node) -> list[Instruction]:
        """… until its last."""
        key = regs(n.handed)
        leave = Call(self.name(n, "leave"), (ROW,))
        if not n.counts_children:
            return [Find(ROW, n.out_table, key, (leave, Remove(ROW, n.out_table)))]
        satisfied = self.layout.satisfied(ROW, n.out_table)
        return [
            Add(
                ROW,
                n.out_table,
                key,
                (Lit(-1),),
                otherwise=(If(Test.EQUAL, satisfied, Lit(len(n.shown) - 1), (leave,)),),
            )
        ]

    def _one_more(self, n: Node) -> tuple[Instruction, ...]:
        count = Reg("count")
        enter = Call(self.name(n, "enter"), (ROW,))
        if not n.counts_children:
            return (enter,)
        satisfied = self.layout.satisfied(ROW, n.out_table)
        return (
            Compute(count, Math.ADD, satisfied, Lit(1)),
            Store(ROW, n.out_table, satisfied.column, count),
            If(Test.EQUAL, count, Lit(len(n.shown)), (enter,)),
        )

    def _one_less(self, n: Node) -> tuple[Instruction, ...]:
        count = Reg("count")
        leave = Call(self.name(n, "leave"), (ROW,))
        if not n.counts_children:
            return (leave,)
        satisfied = self.layout.satisfied(ROW, n.out_table)
        return (
            If(Test.EQUAL, satisfied, Lit(len(n.shown)), (leave,)),
            Compute(count, Math.SUBTRACT, satisfied, Lit(1)),
            Store(ROW, n.out_table, satisfied.column, count),
        )

    # --- R-updates -------------------------------------------------------------------------------------------------

    def _change(self, n: Node) -> list[Instruction]:
        """A row appears, vanishes, or changes its weight; a deletion's delta is read before the row goes."""
        table = n.out_table
        level = Reg("level")
        changes: dict[int, Operand] = {j: self.layout.change(n, j) for j in (0, *self.layout.carried_sums(n))}
        appeared = (
            *logged(self.layout, n, Lit(0)),
            *self.layout.factors.noted(n, changes),
            *self._if_satisfied(n, (Call(self.name(n, "enter"), (ROW,)), *self._delta(n, Lit(1)))),
        )
        gone = (*self._delta(n, Lit(-1)), Call(self.name(n, "leave"), (ROW,)))
        weight = self.layout.measure(ROW, table, 0)
        changed = self.layout.factors.noted(n, {j: self.layout.measure(ROW, table, j) for j in changes})
        if not self.layout.is_set:
            changed = (*logged(self.layout, n, weight, changes[0]), *changed)
        if self.with_deltas and not self.layout.is_set:
            changed = (*changed, *self._if_matching(n, level, tuple(self._delta(n, None))))
        added = self.layout.added(table, changes)
        before = Lit(1) if self.layout.is_set else weight
        gone = (*logged(self.layout, n, before), *self._if_matching(n, level, gone))
        if not self.layout.plan.has_totals:
            return [Add(ROW, table, regs(n.handed), added, appeared, gone, changed)]
        if not self.layout.is_set:
            weighed = Call(n.weighed, (*regs(n.handed), changes[0]))
            return [Add(ROW, table, regs(n.handed), added, appeared, gone, changed), weighed]
        flip = Reg("flip")
        none, came, went = (Compute(flip, Math.ADD, Lit(by), Lit(0)) for by in (0, 1, -1))
        flipped = If(Test.NOT_EQUAL, flip, Lit(0), (Call(n.weighed, (*regs(n.handed), flip)),))
        return [none, Add(ROW, table, regs(n.handed), added, (came, *appeared), (went, *gone), changed), flipped]

    def _change_alike(self, n: Node) -> list[Instruction]:
        """The same for a leaf of atoms alike: what is told is how much the product over them has changed."""
        noted = self.layout.factors.noted_row(n, ROW)
        enter, leave = (Call(self.name(n, verb), (ROW,)) for verb in ("enter", "leave"))
        moved: tuple[tuple[Instruction, ...], ...] = ((), (), ())
        if self.with_deltas:
            moved = self.layout.factors.moved(n, ROW, (0, *self.layout.carried_sums(n)))
        appeared = (*noted, enter, *moved[0], *self._delta(n, None))
        vanished = (*moved[1], *self._delta(n, None), leave)
        stays = (*noted, *moved[2], *self._delta(n, None))
        return [Add(ROW, n.out_table, regs(n.handed), self.layout.own_changes(n), appeared, vanished, stays)]

    def _change_both(self, first: Node, second: Node) -> list[Instruction]:
        """A row of two leaves changes: the first one's step sees the table old, the second one's sees it new."""
        table = first.out_table
        after = Reg("after")
        weight = self.layout.measure(ROW, table, 0)
        mine = {v: reg(v) for v in first.handed}
        theirs = dict(zip(self.layout.key_of(second), regs(first.handed), strict=True))
        both: tuple[tuple[Node, Mapping[Var, Operand]], ...] = ((first, mine), (second, theirs))
        entered = [[*self._key_came(n, own, i), *self._delta(n, Lit(1), own)] for i, (n, own) in enumerate(both)]
        left = [[*self._delta(n, Lit(-1), own), *self._key_went(n, own, 1 - i)] for i, (n, own) in enumerate(both)]
        told = [[] if self.layout.is_set else self._delta(n, None, own) for n, own in both]
        noted = self.layout.factors.noted(first, {0: weight})
        stored = Store(ROW, table, weight.column, after)
        vanishes = (*left[0], Remove(ROW, table), *left[1])
        stays = (*told[0], stored, *noted, *told[1])
        found = (Compute(after, Math.ADD, weight, CHANGE), If(Test.EQUAL, after, Lit(0), vanishes, stays))
        new = (Insert(ROW, table, regs(first.handed)), Store(ROW, table, weight.column, CHANGE))
        return [Find(ROW, table, regs(first.handed), found, (*entered[0], *new, *noted, *entered[1]))]

    def _key_came(self, n: Node, own: Mapping[Var, Operand], alone: int) -> list[Instruction]:
        """A P-update if a leaf's row is the first with its key: its group has ``alone`` rows then."""
        return self._if_alone(n, own, alone, Call(self._upward(n, "gain", "gained"), tuple(own[v] for v in n.key)))

    def _key_went(self, n: Node, own: Mapping[Var, Operand], alone: int) -> list[Instruction]:
        """A P-update if it was the last."""
        return self._if_alone(n, own, alone, Call(self._upward(n, "lose", "lost"), tuple(own[v] for v in n.key)))

    def _if_alone(self, n: Node, own: Mapping[Var, Operand], alone: int, call: Call) -> list[Instruction]:
        if set(n.key) == set(n.handed):
            return [call]
        others = self.layout.fresh("others")
        index = self.layout.index(n.out_table, n.key)
        return [
            Count(others, n.out_table, index, call.arguments, n.matching),
            If(Test.EQUAL, others, Lit(alone), (call,)),
        ]

    def _if_matching(self, n: Node, level: Reg, then: tuple[Instruction, ...]) -> tuple[Instruction, ...]:
        if not n.is_inner:
            return then
        return (GetLevel(level, ROW, n.out_table), If(Test.NOT_EQUAL, level, Lit(0), then))

    def _if_satisfied(self, n: Node, then: tuple[Instruction, ...]) -> tuple[Instruction, ...]:
        """Count for a new row the children that match it, and go on if all do."""
        count, group = Reg("count"), Reg("group")
        counted = []
        for child in n.shown:
            index = self.layout.index(child.out_table, child.key)
            key = self.layout.words(ROW, n.out_table, child.key)
            counted.append(Count(group, child.out_table, index, key, child.matching))
        if not n.shown:
            return then
        if not n.counts_children:
            return (*counted, If(Test.NOT_EQUAL, group, Lit(0), then))
        one_more = If(Test.NOT_EQUAL, group, Lit(0), (Compute(count, Math.ADD, count, Lit(1)),))
        return (
            Compute(count, Math.ADD, Lit(0), Lit(0)),
            *(i for c in counted for i in (c, one_more)),
            Store(ROW, n.out_table, self.layout.satisfied(ROW, n.out_table).column, count),
            If(Test.EQUAL, count, Lit(len(n.shown)), then),
        )

    # --- liveness --------------------------------------------------------------------------------------------------

    def _keeps_live(self, n: Node) -> bool:
        return self.with_deltas and n.is_inner

    def _count_live(self, n: Node, child: Node, key: tuple[Operand, ...], target: Reg) -> list[Instruction]:
        """How many live rows of a node have a child's key; where the key is the row's own, no index is needed."""
        if n.handed != child.key:
            return [Count(target, n.out_table, self.layout.index(n.out_table, child.key), key, 2)]
        row, level = self.layout.fresh("keyed"), self.layout.fresh("level")
        is_live = If(Test.EQUAL, level, Lit(2), (Compute(target, Math.ADD, Lit(1), Lit(0)),))
        return [
            Compute(target, Math.ADD, Lit(0), Lit(0)),
            Find(row, n.out_table, key, (GetLevel(level, row, n.out_table), is_live)),
        ]

    def _live(self, n: Node) -> list[Instruction]:
        """A row has become part of a result, and so have the rows below it, unless another live row has them."""
        body: list[Instruction] = [SetLevel(ROW, n.out_table, 2)]
        live = Reg("live")
        for child in (c for c in n.shown if c.is_inner):
            key = self.layout.words(ROW, n.out_table, child.key)
            index = self.layout.index(child.out_table, child.key)
            body.append(Count(live, child.out_table, index, key, 2))
            body.append(If(Test.EQUAL, live, Lit(0), (self._each_below(n, child, 1, "live"),)))
        return body

    def _dead(self, n: Node) -> list[Instruction]:
        return [SetLevel(ROW, n.out_table, 1), *self._abandon(n)]

    def _abandon(self, n: Node) -> list[Instruction]:
        """A row is live no more: rows below it that no other live row has are not either."""
        body: list[Instruction] = []
        rest = Reg("rest")
        for child in (c for c in n.shown if c.is_inner):
            below = self._each_below(n, child, 2, "dead")
            if n.is_keyed_by(child):
                body.append(below)
                continue
            body += self._count_live(n, child, self.layout.words(ROW, n.out_table, child.key), rest)
            body.append(If(Test.EQUAL, rest, Lit(0), (below,)))
        return body

    def _each_below(self, n: Node, child: Node, level: int, verb: str) -> Each:
        lower = Reg("lower")
        key = self.layout.words(ROW, n.out_table, child.key)
        index = self.layout.index(child.out_table, child.key)
        return Each(lower, child.out_table, index, key, level, (Call(f"{child.label}.{verb}", (lower,)),))

    # --- deltas ----------------------------------------------------------------------------------------------------

    def _delta(self, n: Node, flip: Lit | None, own: Mapping[Var, Operand] | None = None) -> list[Instruction]:
        """Emit every result that holds a row of ``n``: ROW, or the one that has the words ``own``.

        Sets emit a coming or going (``flip``), bags the change.
        """
        if not self.with_deltas:
            return []
        own = own or {v: self.layout.word(ROW, n.out_table, v) for v in n.handed}
        loops: list[Loop] = []
        here = n
        while here.parent is not None:
            parent = here.parent
            if not parent.is_generalized:
                loops.append((Reg(f"up{parent.number}"), parent, here.key, 2))
            for sibling in parent.shown:
                if sibling is not here:
                    self._loops_from(sibling, loops)
            here = parent
        for child in n.shown:
            self._loops_from(child, loops)
        emitted = self._ordered(n, loops, flip, own)
        if n.parent is None:
            return emitted
        above = Reg("above")
        if n.is_inner:
            return [GetLevel(above, ROW, n.out_table), If(Test.EQUAL, above, Lit(2), tuple(emitted))]
        key = tuple(own[v] for v in n.key)
        return [*self._count_live(n.parent, n, key, above), If(Test.NOT_EQUAL, above, Lit(0), tuple(emitted))]

    def _ordered(self, n: Node, loops: list[Loop], flip: Lit | None, words: Mapping[Var, Operand]) -> list[Instruction]:
        """Put the longest loop inside: the kernel fills columns in runs of its rows, and looks up its group once.

        Loops that depend on nothing but ROW, and on which nothing depends, can stand anywhere; which is the longest is
        seen when it comes to it. If all of these are short, the others go inside. Loops by a whole key have one row,
        and stand outside.
        """
        own = set(n.handed)
        single = [loop for loop in loops if own.issuperset(loop[2]) and set(loop[2]) == set(loop[1].handed)]
        several = [loop for loop in loops if loop not in single]
        used = {v for _, _, key, _ in several for v in key} - own
        movable = [loop for loop in several if own.issuperset(loop[2]) and used.isdisjoint(loop[1].handed)]
        movable = movable[:MOST_MOVABLE]
        fixed = [loop for loop in several if loop not in movable]
        if len(movable) + bool(fixed) < 2:
            return [self._nest(n, [*single, *several], flip, words)]
        body: list[Instruction] = []
        most, longest = self.layout.fresh("most"), self.layout.fresh("longest")
        for i, (_, other, key, level) in enumerate(movable):
            size = self.layout.fresh("size") if i else most
            index = self.layout.index(other.out_table, key)
            body.append(Count(size, other.out_table, index, tuple(words[v] for v in key), level))
            if i:
                taken = (Compute(most, Math.ADD, size, Lit(0)), Compute(longest, Math.ADD, Lit(i), Lit(0)))
                body.append(If(Test.LESS, most, size, taken))
        chosen: tuple[Instruction, ...] = ()
        for i, loop in reversed(list(enumerate(movable))):
            order = [*single, *fixed, *(other for other in movable if other is not loop), loop]
            nest = self._nest(n, order, flip, words)
            chosen = (If(Test.EQUAL, longest, Lit(i), (nest,), chosen),) if chosen else (nest,)
        if len(movable) > 1:
            body.insert(0, Compute(longest, Math.ADD, Lit(0), Lit(0)))
        if fixed:
            short = self._nest(n, [*single, *movable, *fixed], flip, words)
            chosen = (If(Test.LESS, most, Lit(SHORT), (short,), chosen),)
        return [*body, *chosen]

    def _loops_from(self, n: Node, loops: list[Loop]) -> None:
        loops.append((Reg(f"at{n.number}"), n, n.key, n.matching))
        for child in n.shown:
            self._loops_from(child, loops)

    def _nest(self, n: Node, loops: list[Loop], flip: Lit | None, words: Mapping[Var, Operand]) -> Instruction:
        places = dict(words)
        rows: dict[Node, Reg] = {}
        scans: list[tuple[Reg, str, int, tuple[Operand, ...], int]] = []
        for row, other, key, level in loops:
            index = self.layout.index(other.out_table, key)
            scans.append((row, other.out_table, index, tuple(places[v] for v in key), level))
            rows[other] = row
            for v in other.handed:
                places.setdefault(v, self.layout.word(row, other.out_table, v))
        weights = [flip] if self.layout.is_set and flip else self._changed_weights(n, rows)
        body: Instruction = Emit(DELTA, (*(places[v] for v in self.layout.outputs), *weights, Update()))
        for row, table, index, scan_key, level in reversed(scans):
            body = Scan(row, table, index, scan_key, level, (body,))
        return body

    def _changed_weights(self, n: Node, rows: Mapping[Node, Reg]) -> list[Product]:
        changed = {j: self.layout.change(n, j) for j in (0, *self.layout.carried_sums(n))}
        return [result_weight(self.layout, j, rows, changed) for j in range(len(self.layout.sums) + 1)]


def result_weight(
    layout: Layout, j: int, rows: Mapping[Node, Reg], changed: Mapping[int, Operand] | None = None
) -> Product:
    """A measure of a result: the product of its rows' weights, the row that carries the sum giving that instead.

    ``changed`` are the changes of the row that is not among ``rows``.
    """
    factors: list[Operand] = []
    if changed is not None:
        factors.append(changed.get(j, changed[0]))
    for n, row in rows.items():
        if not n.is_pure:
            factors += layout.factors.of(row, n, j)
    return Product(tuple(factors), layout.result_widths[j])
