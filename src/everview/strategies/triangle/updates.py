"""How an edge changes the views: a loop over a short list for each, or one lookup (triangle.md 9.2, 10.3, 11.2).

When R(a, b) changes, a view over R and S changes by what S has for b, and a view over all three by the sum over c of
what S has for (b, c) and T for (c, a). That sum is one lookup where it is stored (a view over S and T by a and b), and
else a loop over a list that is short by its part: over values that are heavy there, of which there are few, or over the
edges of a value that is light.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from everview.kernel.program import Compute, Find, GetLevel, If, Instruction, Lit, Math, Operand, Reg, Scan, Test
from everview.strategies.triangle.layout import (
    FIRST,
    RELATIONS,
    SECOND,
    Layout,
    Places,
    multiplied,
    reg,
)
from everview.strategies.triangle.shape import EDGES
from everview.strategies.triangle.views import ALL, View

Changes = dict[int, Operand]
"""The change of an edge: of its copies, and of its factors of sums."""


class Updates:
    """Writes how views change with an edge of each relation, on each of its levels."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.design = layout.design

    def name(self, relation: int, level: int) -> str:
        """The procedure that changes all views by an edge on a level."""
        return f"{RELATIONS[relation]}{level}.apply"

    def write(self) -> None:
        """One procedure for each relation and level."""
        for k in range(3):
            for level in range(self.design.levels(k, ALL)[1] + 1):
                body = self.changed(k, self.views_of(k, level), dict(self.changes(k)))
                self.layout.procedure(self.name(k, level), self.parameters(k), body)

    def parameters(self, relation: int) -> tuple[Reg, ...]:
        """An edge, and its change."""
        return (*map(reg, self.layout.key(relation)), *self.changes(relation).values())

    def changes(self, relation: int) -> dict[int, Reg]:
        """An edge's change, by measures."""
        return {j: self.layout.change(relation, j) for j in self.changing(relation)}

    def changing(self, relation: int) -> tuple[int, ...]:
        """The measures of an edge that change views."""
        return (0,) if self.layout.counts_once(relation) else (0, *self.layout.own(relation))

    def views_of(self, relation: int, level: int) -> list[View]:
        """The views over the part of a relation that has a level."""
        parts = [(view, view.parts[relation]) for view in self.design.views]
        return [view for view, part in parts if part is not None and self.design.has(relation, part, level)]

    def changed(self, relation: int, views: Sequence[View], changes: Changes) -> list[Instruction]:
        """Change these views by an edge's change."""
        body: list[Instruction] = []
        loops: dict[tuple[int, int, int], list[View]] = {}
        for view in views:
            hat = self._hat(relation, view)
            if hat is not None:
                body.append(self._looked_up(view, hat, relation, changes))
                continue
            other = self._looped(relation, view)
            part = view.parts[other]
            assert part is not None
            loops.setdefault((other, *self.design.levels(other, part)), []).append(view)
        for (other, low, high), found in loops.items():
            body.append(self._loop(relation, other, low, high, found, changes))
        return body

    def _hat(self, relation: int, view: View) -> View | None:
        """A view that has the sum over the third corner, so that nothing must be looped over."""
        if len(view.relations) < 3:
            return None
        others = [k for k in range(3) if k != relation]
        corners = set(EDGES[relation])
        if not set(view.key) <= corners:
            return None
        for pair in self.design.pairs:
            if set(pair.key) == corners and all(pair.parts[k] == view.parts[k] for k in others):
                return pair
        return None

    def _looped(self, relation: int, view: View) -> int:
        """The relation whose list is short; a pair view has but one other."""
        after, before = (relation + 1) % 3, (relation + 2) % 3
        if view.parts[after] is None or view.parts[before] is None:
            return after if view.parts[before] is None else before
        for other, column in ((after, FIRST), (before, SECOND)):
            part = view.parts[other]
            assert part is not None
            known, far = (part[:1], part[1:2]) if column == FIRST else (part[1:2], part[:1])
            if known == "L" or far == "H":
                return other
        raise AssertionError(f"{view.name} has no short list for {RELATIONS[relation]}")

    def _looked_up(self, view: View, hat: View, relation: int, changes: Changes) -> Instruction:
        row = Reg("hat")
        places = {v: reg(v) for v in self.layout.key(relation)}
        body: list[Instruction] = []
        products: Changes = {}
        for j in self.layout.carried(view):
            products[j] = self._product(j)
            body += multiplied(self._product(j), self._change(changes, relation, j), self.layout.kept(row, hat, j))
        key = tuple(places[v] for v in self.layout.triangle.words(hat.key))
        return Find(row, hat.name, key, (*body, self.layout.added(view, places, products)))

    def _product(self, j: int, of: str = "product") -> Reg:
        return Reg(f"{of}{j}", self.layout.width(j))

    def _loop(
        self, relation: int, other: int, low: int, high: int, views: Sequence[View], changes: Changes
    ) -> Instruction:
        """Go through the edges of another relation on some levels that meet this one."""
        layout = self.layout
        row = Reg(f"row{other}")
        column = FIRST if other == (relation + 1) % 3 else SECOND
        key = tuple(map(reg, layout.side(other, column)))
        places = {**layout.places(row, other), **{v: reg(v) for v in layout.key(relation)}}
        pairs = [view for view in views if len(view.relations) == 2]
        triples = [view for view in views if len(view.relations) == 3]
        body: list[Instruction] = []
        joined: Changes = {}
        for j in sorted({j for view in views for j in layout.carried(view)}):
            joined[j] = self._product(j, "pair")
            body += multiplied(
                self._product(j, "pair"), self._change(changes, relation, j), self.layout.in_views(row, other, j)
            )
        body += [layout.added(view, places, joined) for view in pairs]
        if triples:
            body.append(self._third(3 - relation - other, triples, places, joined))
        return Scan(row, RELATIONS[other], column, key, low, tuple(body), highest=high)

    def _change(self, changes: Changes, relation: int, j: int) -> Operand:
        return changes[self.layout.given(relation, j)]

    def _third(self, third: int, views: Sequence[View], places: Places, joined: Changes) -> Instruction:
        """Find the edge that closes the triangle, and change the views over its part."""
        layout = self.layout
        row, level = Reg(f"row{third}"), Reg("level")
        body: list[Instruction] = []
        products: Changes = {}
        for j in sorted({j for view in views for j in layout.carried(view)}):
            products[j] = self._product(j)
            body += multiplied(self._product(j), joined[j], self.layout.in_views(row, third, j))
        highest = self.design.levels(third, ALL)[1]
        levels_read = False
        for view in views:
            part = view.parts[third]
            assert part is not None
            low, high = self.design.levels(third, part)
            inner: Instruction = layout.added(view, places, products)
            if high < highest:
                inner = If(Test.AT_MOST, level, Lit(high), (inner,))
            if low > 0:
                inner = If(Test.AT_MOST, Lit(low), level, (inner,))
            levels_read |= high < highest or low > 0
            body.append(inner)
        if levels_read:
            body.insert(0, GetLevel(level, row, RELATIONS[third]))
        return Find(row, RELATIONS[third], tuple(places[v] for v in layout.key(third)), tuple(body))


def negated(changes: Mapping[int, Reg]) -> tuple[list[Instruction], Changes]:
    """What takes the signs of changes, and the registers with them."""
    found = {j: Reg(f"-{j}", change.words) for j, change in changes.items()}
    body: list[Instruction] = [Compute(found[j], Math.SUBTRACT, Lit(0), change) for j, change in changes.items()]
    return body, dict(found)
