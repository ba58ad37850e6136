"""How keys become heavy and light: single keys as their degree changes, all keys when N does (triangle.md 12).

Both are moves: the edges of a key go to another part, and the views over one of the two parts, but not over both,
change. No result changes with that, so nothing is told of it.
"""

from __future__ import annotations

from everview.kernel.program import (
    Call,
    Compute,
    Count,
    Each,
    GetLevel,
    If,
    Instruction,
    Lit,
    Math,
    Reg,
    SetLevel,
    Test,
)
from everview.strategies.triangle.layout import FIRST, RELATIONS, SECOND, WHOLE, Layout, copied, reg
from everview.strategies.triangle.updates import Updates, negated
from everview.strategies.triangle.views import ALL

ROW, DEGREE, LEVEL, BIT = Reg("row"), Reg("degree"), Reg("level"), Reg("bit")
MAJOR = "major"
REBASE = "rebase"
"""The procedure that begins with a new N for the data there is."""


class Rebalance:
    """Writes the moves, and what decides on them."""

    def __init__(self, layout: Layout, updates: Updates) -> None:
        self.layout = layout
        self.updates = updates
        self.base = layout.base

    def columns(self, relation: int) -> tuple[int, ...]:
        """The columns by which a relation is partitioned."""
        return (FIRST, SECOND) if relation in self.layout.design.double else (FIRST,)

    def weight(self, relation: int, column: int) -> int:
        """What the status of a column counts in the level."""
        return 2 if relation in self.layout.design.double and column == FIRST else 1

    def highest(self, relation: int) -> int:
        """The level of edges that are heavy in every column."""
        return self.layout.design.levels(relation, ALL)[1]

    # --- moves -----------------------------------------------------------------------------------------------------

    def write(self) -> None:
        """The moves of edges, of keys, and the major rebalancing."""
        for k in range(3):
            for column in self.columns(k):
                for heavy in (True, False):
                    self._write_turn(k, column, heavy)
        once = Reg("once")
        self.layout.procedure(MAJOR, (), self._major())
        self.layout.procedure(REBASE, (once,), self.base.opened(self.base.begun_anew((Call(MAJOR),))))

    def _turn(self, relation: int, column: int, heavy: bool) -> str:
        return f"{RELATIONS[relation]}.{'second' if column else 'first'} {'heavy' if heavy else 'light'}"

    def _write_turn(self, relation: int, column: int, heavy: bool) -> None:
        """Give a key its new status, and move its edges."""
        table = RELATIONS[relation]
        key = tuple(map(reg, self.layout.side(relation, column)))
        weight = self.weight(relation, column)
        body: list[Instruction] = []
        for source in range(self.highest(relation) + 1):
            if bool(source & weight) == heavy:
                continue
            target = source ^ weight
            words = tuple(self.layout.places(ROW, relation).values())
            values = tuple(self.layout.in_views(ROW, relation, j) for j in self.updates.changing(relation))
            move = Call(self._write_move(relation, source, target), (*words, *values))
            moved = (move, SetLevel(ROW, table, target))
            body.append(Each(ROW, table, column, key, source, moved, highest=source))
        body += self.base.opened(self.base.counted("heavy", Lit(1 if heavy else -1)))
        self.layout.procedure(self._turn(relation, column, heavy), key, body)

    def _write_move(self, relation: int, source: int, target: int) -> str:
        """An edge goes from one level to another: views over one of the two change."""
        before, after = (self.updates.views_of(relation, level) for level in (source, target))
        changes = self.updates.changes(relation)
        negate, turned = negated(changes)
        gained = [view for view in after if view not in before]
        lost = [view for view in before if view not in after]
        body = self.updates.changed(relation, gained, dict(changes))
        body += [*negate, *self.updates.changed(relation, lost, turned)]
        name = f"{RELATIONS[relation]}{source}→{target}"
        return self.layout.procedure(name, self.updates.parameters(relation), body)

    # --- when keys move --------------------------------------------------------------------------------------------

    def _major(self) -> list[Instruction]:
        """Every key is heavy exactly if its degree is θ or more; those that are not what they should be move."""
        body: list[Instruction] = []
        for k, table in enumerate(RELATIONS):
            for column in self.columns(k):
                places = self.layout.places(ROW, k)
                key = tuple(places[v] for v in self.layout.side(k, column))
                counted = self.base.counted("major_moved", DEGREE)
                heavy, light = ((*counted, Call(self._turn(k, column, is_heavy), key)) for is_heavy in (True, False))
                wanted = self.base.if_heavy_strictly(
                    DEGREE, (If(Test.EQUAL, BIT, Lit(0), heavy),), (If(Test.NOT_EQUAL, BIT, Lit(0), light),)
                )
                looked_at = (Count(DEGREE, table, column, key, 0), *self._bit(k, column), wanted)
                body.append(Each(ROW, table, WHOLE, (), 0, looked_at))
        return list(self.base.opened(tuple(body)))

    def _bit(self, relation: int, column: int) -> tuple[Instruction, ...]:
        """Whether the row's edge is heavy in a column."""
        level = GetLevel(LEVEL, ROW, RELATIONS[relation])
        return (level, *self.status(relation, column, BIT))

    def status(self, relation: int, column: int, target: Reg) -> tuple[Instruction, ...]:
        """Whether a level is one of edges that are heavy in a column."""
        if relation not in self.layout.design.double:
            return (copied(target, LEVEL),)
        operation = Math.DIVIDE if column == FIRST else Math.REMAINDER
        return (Compute(target, operation, LEVEL, Lit(2)),)

    def found_level(self, relation: int) -> list[Instruction]:
        """The level of a new edge, by whether its corners are heavy; a corner without edges begins light."""
        if self.base.epsilon == 0:
            return [copied(LEVEL, Lit(self.highest(relation)))]
        body: list[Instruction] = [copied(LEVEL, Lit(0))]
        table, count, more = RELATIONS[relation], Reg("count"), Reg("more")
        for column in self.columns(relation):
            key = tuple(map(reg, self.layout.side(relation, column)))
            weight = self.weight(relation, column)
            levels = [level for level in range(self.highest(relation) + 1) if level & weight]
            if len(levels) == levels[-1] - levels[0] + 1:
                body.append(Count(count, table, column, key, levels[0], levels[-1]))
            else:
                body += [Count(count, table, column, key, level, level) for level in levels[:1]]
                for level in levels[1:]:
                    body += [Count(more, table, column, key, level, level), Compute(count, Math.ADD, count, more)]
            body.append(If(Test.NOT_EQUAL, count, Lit(0), (Compute(LEVEL, Math.ADD, LEVEL, Lit(weight)),)))
        return body

    def after(self, relation: int, flip: Reg) -> tuple[Instruction, ...]:
        """What follows when an edge has come or gone: |D|, a major rebalancing, or a minor one."""
        minor: list[Instruction] = []
        moved = Reg("moved")
        table = RELATIONS[relation]
        minor.append(copied(moved, Lit(0)))
        for column in self.columns(relation):
            key = tuple(map(reg, self.layout.side(relation, column)))
            to_light, to_heavy = (
                (Compute(moved, Math.ADD, moved, DEGREE), Call(self._turn(relation, column, heavy), key))
                for heavy in (False, True)
            )
            gone = If(Test.NOT_EQUAL, DEGREE, Lit(0), to_light)
            is_heavy = (self.base.if_too_light(DEGREE, (gone,)),)
            is_light = (self.base.if_too_heavy(DEGREE, to_heavy),)
            minor.append(Count(DEGREE, table, column, key, 0))
            minor += self.status(relation, column, BIT)
            minor.append(If(Test.NOT_EQUAL, BIT, Lit(0), is_heavy, is_light))
        counted = (*self.base.counted("minors", Lit(1)), *self.base.counted("moved", moved))
        minor.append(If(Test.NOT_EQUAL, moved, Lit(0), counted))
        checked = self.base.checked((Call(MAJOR),), tuple(minor))
        return self.base.opened((*self.base.counted("size", flip), *self._counted_heavy(relation, flip), *checked))

    def _counted_heavy(self, relation: int, flip: Reg) -> list[Instruction]:
        """A heavy key goes with its last edge; it comes with its first one only where all keys are heavy."""
        body: list[Instruction] = []
        for column in self.columns(relation):
            key = tuple(map(reg, self.layout.side(relation, column)))
            last = If(Test.EQUAL, DEGREE, Lit(0), self.base.counted("heavy", Lit(-1)))
            one = If(Test.EQUAL, DEGREE, Lit(1), self.base.counted("heavy", Lit(1)))
            first = (If(Test.EQUAL, flip, Lit(1), (one,)),) if self.base.epsilon == 0 else ()
            counted = (Count(DEGREE, RELATIONS[relation], column, key, 0), last, *first)
            body += [*self.status(relation, column, BIT), If(Test.NOT_EQUAL, BIT, Lit(0), counted)]
        return body
