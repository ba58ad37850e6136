"""What changes with an edge, told exactly: a walk along the shorter of the two lists that may close a triangle.

This takes as long as the list, and the result's change may be as long: with a feed open no program can do better than
that change, and none of the parts help. A set of rows with fewer than three corners needs one number a row, its
derivations, which are counted for as long as somebody is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from everview.kernel.program import (
    Add,
    Compute,
    Count,
    Emit,
    Find,
    If,
    Instruction,
    Lit,
    Math,
    Operand,
    Product,
    Reg,
    Remove,
    Scan,
    Test,
    Update,
)
from everview.strategies.strategy import DELTA
from everview.strategies.triangle.layout import (
    FIRST,
    RELATIONS,
    SECOND,
    TOLD,
    WHOLE,
    Layout,
    Places,
    copied,
    reg,
)
from everview.strategies.triangle.shape import EDGES

Changes = Mapping[int, Operand]
AT = Reg("at")


class Deltas:
    """Writes what an edge's change means for the result."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def told(self, relation: int, changes: Changes) -> list[Instruction]:
        """Tell how the result changes with a row of a relation, whose words and changes are in registers."""
        triangle = self.layout.triangle
        [third] = set("abc") - set(EDGES[relation])
        own = {v: reg(v) for v in self.layout.rows_key(relation)}
        if third in "abc"[: triangle.arity]:
            return self.shorter(relation, own, lambda places, rows: self._under(relation, places, rows, changes))
        totals = {
            j: Reg(f"total{j}", 1 if self.layout.is_set else self.layout.sum_width(j)) for j in self.layout.measures
        }
        body: list[Instruction] = [copied(total, Lit(0)) for total in totals.values()]
        body += self.shorter(relation, own, lambda _, rows: self._summed(totals, rows, changes))
        tell = self._tell(own, {j: (total,) for j, total in totals.items()})
        return [*body, If(Test.NOT_EQUAL, totals[0], Lit(0), tuple(tell))]

    def shorter(
        self, relation: int, own: Places, then: Callable[[Places, Mapping[int, Reg]], Sequence[Instruction]]
    ) -> list[Instruction]:
        """For each triangle with an edge: the words of its corners, and the rows of the other two edges."""
        layout = self.layout
        after, before = (relation + 1) % 3, (relation + 2) % 3
        body: list[Instruction] = []
        walks: list[Instruction] = []
        sizes = {after: Reg("size after"), before: Reg("size before")}
        rows = {k: Reg(f"row{k}") for k in (after, before)}
        for near, far, column in ((after, before, FIRST), (before, after, SECOND)):
            key = tuple(own[v] for v in layout.side(near, column))
            body.append(Count(sizes[near], RELATIONS[near], column, key, 0))
            places = {**layout.places(rows[near], near), **own}
            closing = tuple(places[v] for v in layout.key(far))
            found = Find(rows[far], RELATIONS[far], closing, tuple(then(places, rows)))
            walks.append(Scan(rows[near], RELATIONS[near], column, key, 0, (found,)))
        return [*body, If(Test.AT_MOST, sizes[after], sizes[before], (walks[0],), (walks[1],))]

    def counted(self, total: Reg) -> list[Instruction]:
        """total ← the number of triangles, copies included: a walk for every edge of the first relation."""
        layout = self.layout
        row = Reg("row")
        own = layout.places(row, 0)
        changes: Changes = {0: layout.measure(row, 0, 0)}
        walk = self.shorter(0, own, lambda _, rows: self._summed({0: total}, rows, changes))
        return [copied(total, Lit(0)), Scan(row, RELATIONS[0], WHOLE, (), 0, tuple(walk))]

    def _summed(self, totals: Mapping[int, Reg], rows: Mapping[int, Reg], changes: Changes) -> list[Instruction]:
        body: list[Instruction] = []
        for j, total in totals.items():
            product = Reg(f"product{j}", total.words)
            factors = self._factors(j, rows, {}, changes)
            body.append(Compute(product, Math.MULTIPLY, factors[0], factors[1] if len(factors) > 1 else Lit(1)))
            body += [Compute(product, Math.MULTIPLY, product, factor) for factor in factors[2:]]
            body.append(Compute(total, Math.ADD, total, product))
        return body

    def _factors(
        self, j: int, edges: Mapping[int, Reg], rows: Mapping[int, Reg], changes: Changes
    ) -> tuple[Operand, ...]:
        change = changes.get(j, changes[0])
        if self.layout.is_set:
            return (change,)
        measure = self.layout.measure
        factors = [measure(rows[k], k, j, True) if k in rows else measure(edge, k, j) for k, edge in edges.items()]
        return (change, *factors)

    def _under(
        self, relation: int, places: Places, edges: Mapping[int, Reg], changes: Changes
    ) -> Sequence[Instruction]:
        """Tell of the rows under the other two edges, where there are such."""
        layout = self.layout
        words = dict(places)
        rows = {k: Reg(f"under{k}") for k in edges if layout.has_rows(k)}
        for k, row in rows.items():
            words |= {v: place for v, place in layout.rows_places(row, k).items() if v not in words}
        body = self._tell(words, {j: self._factors(j, edges, rows, changes) for j in layout.measures})
        for k, row in reversed(rows.items()):
            key = tuple(places[v] for v in layout.key(k))
            body = [Scan(row, layout.rows_table(k), 0, key, 0, tuple(body))]
        return body

    def _tell(self, words: Places, measures: Mapping[int, tuple[Operand, ...]]) -> list[Instruction]:
        outputs = tuple(words[v] for v in self.layout.triangle.outputs)
        if self.layout.tells_changes_of_sets:
            comes, goes = (Emit(DELTA, (*outputs, Lit(flip), Update())) for flip in (1, -1))
            return [Add(AT, TOLD, outputs, measures[0], (comes,), (goes,))]
        told = (Product(factors, self.layout.told_width(j)) for j, factors in measures.items())
        return [Emit(DELTA, (*outputs, *told, Update()))]

    # --- while nobody is told --------------------------------------------------------------------------------------

    def start(self) -> list[Instruction]:
        """Count the derivations of each row of a set."""
        if not self.layout.tells_changes_of_sets:
            return []
        return [self._each_row(self._derivations)]

    def stop(self) -> list[Instruction]:
        """Forget them."""
        if not self.layout.tells_changes_of_sets:
            return []
        return [self._each_row(lambda key, _: [Find(AT, TOLD, key, (Remove(AT, TOLD),))])]

    def _each_row(self, then: Callable[[tuple[Operand, ...], Places], list[Instruction]]) -> Instruction:
        row = Reg("row")
        layout = self.layout
        if layout.has_rows(0):
            places = layout.rows_places(row, 0)
            body = then(tuple(places[v] for v in layout.triangle.outputs), places)
            return Scan(row, layout.rows_table(0), 1, (), 0, tuple(body))
        places = layout.places(row, 0)
        body = then(tuple(places[v] for v in layout.triangle.outputs), places)
        return Scan(row, RELATIONS[0], WHOLE, (), 0, tuple(body))

    def _derivations(self, key: tuple[Operand, ...], places: Places) -> list[Instruction]:
        total = Reg("total0")
        body: list[Instruction] = [copied(total, Lit(0))]
        body += self.shorter(0, places, lambda _, rows: self._summed({0: total}, rows, {0: Lit(1)}))
        return [*body, If(Test.NOT_EQUAL, total, Lit(0), (Add(AT, TOLD, key, (total,)),))]
