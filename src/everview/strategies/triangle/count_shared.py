"""The triangle count over one edge table, which stands for all three sides (triangle.md 18.6 with n = 3).

An update of the edge (a, b) takes part in three times the paths b → c → a. They are found by walking the shorter of
b's edges out and a's edges in; only where both lists are long, b *out-heavy* and a *in-heavy*, is their number kept, in
one pair table V(b, a) = Σ_c E(b, c) E(c, a). A graph without hubs has an empty pair table and pays nothing for it.

A loop (a, a) may be several sides of a triangle at once: with e copies before, m more of them change the count by
3m·(E²)(a, a) + 3m²e + m³.

Sums of products are kept beside the count, of any columns of the three sides (``count_measures``): side k of a
triangle gives a number f_k of its edge, its copies or a factor. As the table stands for every side, an edge has all of
these numbers, and its change δ changes a sum by Σ_k δ(f_k)·P(f_k+1, f_k+2)(b, a), with P(f, g) the paths of an edge's f
and the next one's g. The pair table has the paths that go with a number of the changed edge added up: turning a
triangle turns its sides, so if all sides have the same factor, that is one number a pair. A loop that is two sides at
once counts Σ_k δ(f_k)·δ(f_k+1)·f_k+2 more, and one that is all three δ(f_0)·δ(f_1)·δ(f_2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from math import gcd

from everview.kernel.program import (
    MOST_WORDS,
    Add,
    Compute,
    Count,
    Find,
    If,
    Instruction,
    KeyOf,
    Lit,
    Math,
    Operand,
    Reg,
    Scan,
    Table,
    Test,
    ValueOf,
)
from everview.programs.parts import ThresholdBase
from everview.strategies.strategy import AtomInput, Sum
from everview.strategies.triangle.count_measures import Key, Stored, multiplied, table_of
from everview.strategies.triangle.count_program import Block, CountProgram, Status, zero

PAIRS = "pairs"
SIDES = 3
Paths = tuple[tuple[tuple[int, int], int], ...]
"""A sum of paths of two edges: which number of the first and of the second, and how often."""


def _times(often: int) -> list[Operand]:
    return [Lit(often)] if often > 1 else []


class SharedTriangle(CountProgram):
    """The count of the triangles of one table of edges; ``sides`` are the atoms, each beginning where one ends."""

    def __init__(self, edges: Stored, sides: Sequence[int], sums: Sequence[Sum], base: ThresholdBase) -> None:
        super().__init__([edges], sums, base)
        found: dict[Hashable, tuple[int, int]] = {}
        for atom in self.atoms:
            for s in self.measures:
                kind = self.factor(s, atom)
                if kind is not None:
                    found.setdefault(kind, (atom, s))
        self._numbers = tuple(found.values())
        """The numbers of an edge beside its copies: of which atom, and of which sum, it is a factor."""
        places = {None: 0, **{kind: i for i, kind in enumerate(found, 1)}}
        self._sides = [tuple(places[self.factor(s, atom)] for atom in sides) for s in self.measures]
        """Which of an edge's numbers each side gives to a measure."""
        self._paths = tuple(dict.fromkeys(p for s in self.measures for _, p, _ in self._terms(s)))

    def _terms(self, s: int) -> list[tuple[int, Paths, int]]:
        """What changes a measure: a number of the changed edge times some paths, so often."""
        sides, found = self._sides[s], dict[int, Counter[tuple[int, int]]]()
        for k, number in enumerate(sides):
            found.setdefault(number, Counter())[sides[(k + 1) % SIDES], sides[(k + 2) % SIDES]] += 1
        terms = []
        for number, paths in found.items():
            often = gcd(*paths.values())
            terms.append((number, tuple((p, n // often) for p, n in sorted(paths.items())), often))
        return terms

    @property
    def edges(self) -> Stored:
        """The edge table."""
        (edges,) = self.relations
        return edges

    def row_widths(self, stored: Stored) -> tuple[int, ...]:
        """Of how many words each number of an edge is."""
        return (1, *(self.sums[s - 1].factors[atom] for atom, s in self._numbers))

    def atom_input(self, stored: Stored) -> AtomInput:
        """How edges come in, with all their numbers."""
        own = tuple(s for atom, s in self._numbers if atom == stored.atom)
        others = tuple((atom, s) for atom, s in self._numbers if atom != stored.atom)
        return AtomInput(stored.atom, stored.words, own, stored.serves, others)

    @property
    def statuses(self) -> tuple[Status, ...]:
        """Out-heavy, by the first column, and in-heavy, by the second."""
        return Status(self.edges, (0,)), Status(self.edges, (1,))

    @property
    def views(self) -> tuple[Table, ...]:
        """Paths of two edges from an out-heavy to an in-heavy vertex."""
        return (table_of(PAIRS, ("from", "to"), [self._path_width(paths) for paths in self._paths]),)

    def _path_width(self, paths: Paths) -> int:
        widths = self.row_widths(self.edges)
        return min(MOST_WORDS, max(widths[f] + widths[g] for (f, g), _ in paths))

    def _path_registers(self, name: str) -> tuple[Reg, ...]:
        """A register for each number of the pair table."""
        return tuple(Reg(f"{name}{i}", self._path_width(paths)) for i, paths in enumerate(self._paths))

    def _edge(self, row: Reg, number: int) -> ValueOf:
        return ValueOf(row, self.edges.table, number)

    def _summed(
        self, targets: Sequence[Reg], first: Sequence[Operand], second: Sequence[Operand], *, more: bool = False
    ) -> Block:
        """A path's products in registers, given the numbers of its two edges; or add them to what they have."""
        body: list[Instruction] = []
        for target, paths in zip(targets, self._paths, strict=True):
            for i, ((f, g), often) in enumerate(paths):
                factors = [first[f], second[g], *_times(often)]
                body += self._plus(target, factors) if more or i else multiplied(target, factors)
        return tuple(body)

    def _joined(self, one: Reg, other: Reg) -> Block:
        """Add the path over two edges to what is asked for."""
        numbers = range(1 + len(self._numbers))
        first, second = ([self._edge(row, number) for number in numbers] for row in (one, other))
        return self._summed(self._path_registers("q"), first, second, more=True)

    def changed(self, stored: Stored, words: Key, changes: Key) -> Block:
        """The paths b → c → a, from the pair table if both are heavy, else by the shorter list."""
        a, b = words
        table, q = stored.table, self._path_registers("q")
        out, into = self.statuses
        n_out, n_in, one, other, pair = map(Reg, ("n_out", "n_in", "one", "other", "pair"))
        paired, h1, h2 = Reg("paired"), Reg("h1"), Reg("h2")
        least = self.base.value("heavy_until")
        both = Find(h1, out.table, (b,), (Find(h2, into.table, (a,), (zero(paired, 1),)),))
        read = tuple(Compute(register, Math.ADD, ValueOf(pair, PAIRS, i), Lit(0)) for i, register in enumerate(q))
        from_b = Find(other, table, (KeyOf(one, table, 1), a), self._joined(one, other))
        into_a = Find(other, table, (b, KeyOf(one, table, 0)), self._joined(other, one))
        return (
            *(zero(r) for r in q),
            zero(paired),
            self.counted(n_out, stored, (0,), (b,)),
            self.counted(n_in, stored, (1,), (a,)),
            If(Test.AT_MOST, least, n_out, (If(Test.AT_MOST, least, n_in, (both,)),)),
            If(
                Test.EQUAL,
                paired,
                Lit(1),
                (Find(pair, PAIRS, (b, a), read),),
                (
                    If(
                        Test.AT_MOST,
                        n_out,
                        n_in,
                        (self.scanned(one, stored, (0,), (b,), (from_b,)),),
                        (self.scanned(one, stored, (1,), (a,), (into_a,)),),
                    ),
                ),
            ),
        )

    def added(self, stored: Stored, words: Key, changes: Key, then: Block) -> Block:
        """The edge as any of the three sides; a loop as several at once."""
        q = dict(zip(self._paths, self._path_registers("q"), strict=True))
        none = tuple(zero(self.total_change(s)) for s in self.measures)
        closed = If(Test.EQUAL, words[0], words[1], self._loop(stored, words, changes))
        is_loop = If(
            Test.EQUAL, words[0], words[1], (*none, *self._loop(stored, words, changes), self.if_changed(then))
        )
        body: list[Instruction] = []
        for s in self.measures:
            d = self.total_change(s)
            for i, (number, paths, often) in enumerate(self._terms(s)):
                factors = [changes[number], q[paths], *_times(often)]
                body += self._plus(d, factors) if i else multiplied(d, factors)
        found = next(q[paths] for paths in self._paths if paths == (((0, 0), 1),))
        return (If(Test.NOT_EQUAL, found, Lit(0), (*body, closed, self.if_changed(then)), (is_loop,)),)

    def _plus(self, target: Reg, factors: Sequence[Operand]) -> list[Instruction]:
        more = Reg(f"more {target.name}", target.words)
        return [*multiplied(more, factors), Compute(target, Math.ADD, target, more)]

    def _loop(self, stored: Stored, words: Key, changes: Key) -> Block:
        """What a loop that is several sides at once counts beyond that."""
        row = Reg("loop")
        found: list[Instruction] = []
        alone: list[Instruction] = []
        for s in self.measures:
            sides, d = self._sides[s], self.total_change(s)
            twice: Counter[tuple[int, int, int]] = Counter()
            for k in range(SIDES):
                one, other = sorted((sides[k], sides[(k + 1) % SIDES]))
                twice[one, other, sides[(k + 2) % SIDES]] += 1
            for (one, other, third), often in twice.items():
                known = [changes[one], changes[other], self._edge(row, third)]
                found += self._plus(d, [*known, *_times(often)])
            alone += self._plus(d, [changes[number] for number in sides])
        return (Find(row, stored.table, words, tuple(found)), *alone)

    def viewed(self, stored: Stored, words: Key, changes: Key) -> Block:
        """The edge as the first of a path from a heavy vertex, and as the second of one to a heavy vertex."""
        a, b = words
        out, into = self.statuses
        first = self.if_heavy(out, (a,), self._first(a, b, changes))
        return (*first, *self.if_heavy(into, (b,), self._second(a, b, changes)))

    def noted(self, stored: Stored, words: Key, changes: Key) -> Block:
        """The pair table sees the edge twice if it is a loop: as both edges of a path.

        That comes first: so a pair is at no time without any path if it has one in the end, and keeps its sums.
        """
        a, b = words
        out, into = self.statuses
        twice = self._path_registers("twice")
        both = (*self._summed(twice, changes, changes), Add(Reg("pair"), PAIRS, (a, b), twice))
        as_both = If(Test.EQUAL, a, b, self.if_heavy(out, (a,), self.if_heavy(into, (b,), both)))
        return self.if_any_heavy((as_both, *self.viewed(stored, words, changes)))

    def _first(self, a: Operand, b: Operand, changes: Key) -> Block:
        """V(a, z) for the in-heavy z that b has edges to: of the shorter of b's list and the heavy ones."""
        return self._towards(a, b, changes, is_first=True)

    def _second(self, a: Operand, b: Operand, changes: Key) -> Block:
        """V(x, b) for the out-heavy x that have edges to a."""
        return self._towards(b, a, changes, is_first=False)

    def _towards(self, end: Operand, middle: Operand, changes: Key, is_first: bool) -> Block:
        out, into = self.statuses
        others, near, far = (into, 0, 1) if is_first else (out, 1, 0)
        table, edge, hub = self.edges.table, Reg("edge"), Reg("hub")
        n_list, n_hubs = Reg("n_list"), Reg("n_hubs")
        there = KeyOf(hub, others.table, 0)
        values = self._path_registers("v")
        found = [self._edge(edge, number) for number in range(1 + len(self._numbers))]
        summed = self._summed(values, changes, found) if is_first else self._summed(values, found, changes)

        def add(other_end: Operand) -> Block:
            key = (end, other_end) if is_first else (other_end, end)
            return (*summed, Add(Reg("pair"), PAIRS, key, values))

        by_list = self.scanned(
            edge,
            self.edges,
            (near,),
            (middle,),
            (Find(hub, others.table, (KeyOf(edge, table, far),), add(KeyOf(edge, table, far))),),
        )
        key = (middle, there) if is_first else (there, middle)
        by_hubs = Scan(hub, others.table, 0, (), 0, (Find(edge, table, key, add(there)),))
        return (
            self.counted(n_list, self.edges, (near,), (middle,)),
            Count(n_hubs, others.table, 0, (), 0),
            If(Test.AT_MOST, n_list, n_hubs, (by_list,), (by_hubs,)),
        )

    def flipped(self, status: Status, key: Key, sign: Reg) -> Block:
        """A light key has nothing in the pair table: its edges enter it, or leave it, in the one role it is about."""
        out, _ = self.statuses
        row, edges = Reg("moved row"), self.edges
        signed, values = self.moved(row, edges, sign)
        a, b = KeyOf(row, edges.table, 0), KeyOf(row, edges.table, 1)
        walk = self._first(a, b, values) if status == out else self._second(a, b, values)
        body = (self.scanned(row, edges, status.columns, key, (*signed, *walk)),)
        return (Find(Reg("status"), status.table, key, body),)
