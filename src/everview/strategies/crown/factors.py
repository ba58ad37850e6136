"""What the measures of a node's rows are products of, in its table, and how large these may be (crown.md 9).

A node keeps each measure that it hands on as a value of its rows. One that is kept for several atoms (``alike``) keeps
what a row of each of them has instead: the copies, which are the same number for all, and of each kind of factor its
sum over the rows. A measure is a product over the atoms then, and changes by what that is after a change less what it
was before it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from everview.kernel.program import Compute, Instruction, Lit, Math, Operand, Reg, ValueOf
from everview.programs.limits import PRODUCTS, Factor, Limit, Limits

if TYPE_CHECKING:
    from everview.strategies.crown.layout import Layout, Node

MOST_COPIES = 2**63 - 1
"""So many rows a group may have: COUNT is a BIGINT."""
COMING = "coming"
"""What stands for a table where a factor is no stored number, but the change of one."""
_COPIES: Hashable = None
"""The kind of the factor that every atom has where it has no other."""


def value_name(j: int) -> str:
    """What a measure is called in a table."""
    return "weight" if j == 0 else f"sum{j}"


class Factors:
    """The values of a layout's tables that measures are made of."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def of(self, row: Reg, n: Node, j: int) -> tuple[ValueOf, ...]:
        """The values of a node's row whose product is its measure; the count, if it does not hand the sum on."""
        table = _table(n)
        return tuple(self._layout.value(row, self._layout.stored_in(table), name) for name in self._names(n, j))

    # --- atoms alike -----------------------------------------------------------------------------------------------

    def given(self, n: Node) -> tuple[tuple[int, int], ...]:
        """The factors that come in with a row of atoms alike: one of each kind, as an atom of it and a sum."""
        found: dict[Hashable, tuple[int, int]] = {}
        for atom in n.alike:
            for j in self._layout.own_sums(n):
                if atom in self._layout.sums[j - 1].factors:
                    found.setdefault(self._kind(atom, j), (atom, j))
        return tuple(found.values())

    def values(self, n: Node) -> list[tuple[str, int]]:
        """What a row of atoms alike keeps, each in so many words."""
        given = ((f"factor{i}", self._words(*factor)) for i, factor in enumerate(self.given(n), 1))
        return [(value_name(0), 1), *given]

    def changes(self, n: Node) -> tuple[Reg, ...]:
        """The registers in which the changes of these values come in."""
        return tuple(Reg(f"came {name}", words) for name, words in self.values(n))

    def moved(self, n: Node, row: Reg, measures: Sequence[int]) -> tuple[tuple[Instruction, ...], ...]:
        """How much some measures change as a row of atoms alike appears, vanishes or stays, as ``Add`` has it."""
        layout, values = self._layout, [name for name, _ in self.values(n)]
        changes: dict[str, Operand] = dict(zip(values, self.changes(n), strict=True))
        now: dict[str, Operand] = {name: layout.value(row, _table(n), name) for name in values}
        before = {name: Reg(f"before {name}", words) for name, words in self.values(n)}
        appeared: list[Instruction] = []
        vanished: list[Instruction] = []
        stays: list[Instruction] = [Compute(before[v], Math.SUBTRACT, now[v], changes[v]) for v in values]
        for j in measures:
            target, names = layout.change(n, j), self._names(n, j)
            was = layout.fresh("was", target.words)
            appeared += multiplied(target, [changes[v] for v in names])
            vanished += multiplied(target, [now[v] for v in names])
            vanished.append(Compute(target, Math.SUBTRACT, Lit(0), target))
            stays += multiplied(target, [now[v] for v in names])
            stays += multiplied(was, [before[v] for v in names])
            stays.append(Compute(target, Math.SUBTRACT, target, was))
        return tuple(appeared), tuple(vanished), tuple(stays)

    def _names(self, n: Node, j: int) -> tuple[str, ...]:
        if not n.alike:
            return (value_name(j if j in self._layout.carried_sums(n) else 0),)
        numbers = {self._kind(atom, k): i for i, (atom, k) in enumerate(self.given(n), 1)}
        kinds = [self._kind(atom, j) for atom in n.alike]
        return tuple(value_name(0) if kind is _COPIES else f"factor{numbers[kind]}" for kind in kinds)

    def _kind(self, atom: int, j: int) -> Hashable:
        """What an atom's factor of a measure is: that of another atom has the same value in the same row."""
        if j == 0 or atom not in self._layout.sums[j - 1].factors:
            return _COPIES
        return self._layout.sums[j - 1].kinds.get(atom, (atom, j))

    def _words(self, atom: int, j: int) -> int:
        return self._layout.sums[j - 1].factors[atom]

    # --- limits ----------------------------------------------------------------------------------------------------

    def limits(self) -> Limits:
        """The limits of a group's sums, and of its count: each is a product of a sum and counts of the shown nodes."""
        layout = self._layout
        if layout.is_set:
            return Limits()
        most = {j: s.limit for j, s in enumerate(layout.sums, 1) if s.limit is not None}
        if layout.plan.has_groups:
            most[0] = MOST_COPIES
        weighed = [n for n in layout.shown if not n.is_pure]
        groups = [Limit(m, tuple(f for n in weighed for f in self._limited(n, j))) for j, m in most.items()]
        rows = [(j, s) for j, s in enumerate(layout.sums, 1) if s.row_limit is not None]
        return Limits(groups + [Limit(s.row_limit or 0, self._came(j), PRODUCTS) for j, s in rows])

    def noted_coming(self, atom: int, j: int, change: Reg) -> tuple[Instruction, ...]:
        """Take note of what comes in for a factor of a sum, should it be large: no row's factor is larger."""
        if self._layout.sums[j - 1].row_limit is None:
            return ()
        return self._layout.limits.noted(self._factor(atom, j), change)

    def _came(self, j: int) -> tuple[Factor, ...]:
        """What comes in for the factors of a sum, of each row that is changed."""
        return tuple(self._factor(atom, j) for atom in self._layout.sums[j - 1].factors)

    def _factor(self, atom: int, j: int) -> Factor:
        """What comes in for a factor; of atoms that are alike it is the same."""
        relation = self._layout.plan.query.atoms[atom].relation
        return Factor(f"{COMING} {relation}", repr(self._kind(atom, j)), self._words(atom, j))

    def noted(self, n: Node, measures: Mapping[int, Operand]) -> tuple[Instruction, ...]:
        """Take note of the new measures of a shown node's row, should they be large (``programs.limits``)."""
        return tuple(
            i
            for j, value in measures.items()
            for factor in self._limited(n, j)
            for i in self._layout.limits.noted(factor, value)
        )

    def noted_row(self, n: Node, row: Reg) -> tuple[Instruction, ...]:
        """The same of what a row of atoms alike keeps."""
        limits = self._layout.limits
        factors = dict.fromkeys(f for j in (0, *self._layout.own_sums(n)) for f in self._limited(n, j))
        return tuple(i for f in factors for i in limits.noted(f, self._layout.value(row, _table(n), f.value)))

    def _limited(self, n: Node, j: int) -> tuple[Factor, ...]:
        """What a shown node contributes to a measure of a result: its sum, or its count; or those of atoms alike."""
        layout = self._layout
        carried = j if j in layout.carried_sums(n) else 0
        words = dict(self.values(n)) if n.alike else {value_name(carried): layout.width(n, carried)}
        table = layout.stored_in(n.out_table)
        return tuple(Factor(table, v, words[v], is_signed=v != value_name(0)) for v in self._names(n, j))


def _table(n: Node) -> str:
    """Where a node keeps what it hands on."""
    return n.out_table if n.output is not None else n.sum_table


def multiplied(target: Reg, factors: Sequence[Operand]) -> list[Instruction]:
    """target ← the product of the factors, from left to right."""
    first, *rest = factors
    body: list[Instruction] = [Compute(target, Math.MULTIPLY, first, rest[0] if rest else Lit(1))]
    return body + [Compute(target, Math.MULTIPLY, target, f) for f in rest[1:]]
