"""The triangle count over one edge table, which stands for all three sides (triangle.md 18.6 with n = 3).

An update of the edge (a, b) takes part in three times the paths b → c → a. They are found by walking the shorter of
b's edges out and a's edges in; only where both lists are long, b *out-heavy* and a *in-heavy*, is their number kept, in
one pair table V(b, a) = Σ_c E(b, c) E(c, a). A graph without hubs has an empty pair table and pays nothing for it.

A loop (a, a) may be several sides of a triangle at once: with e copies before, m more of them change the count by
3m·(E²)(a, a) + 3m²e + m³.

Sums over a column of one of the three atoms are kept beside the count. Turning a triangle turns its sides, so it does
not matter which atom it is: with W the edges' sums and s the change of (a, b)'s, the sum changes by
s·(E·E)(b, a) + m·(W·E + E·W)(b, a), and for a loop by 2sme + m²w + sm² more.
"""

from __future__ import annotations

from everview.kernel.program import (
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
from everview.strategies.triangle.count_program import Block, CountProgram, Key, Status, Stored, zero

PAIRS = "pairs"
ROLES = 3


class SharedTriangle(CountProgram):
    """The count of the triangles of one table of edges."""

    @property
    def edges(self) -> Stored:
        """The edge table."""
        (edges,) = self.relations
        return edges

    @property
    def statuses(self) -> tuple[Status, ...]:
        """Out-heavy, by the first column, and in-heavy, by the second."""
        return Status(self.edges, (0,)), Status(self.edges, (1,))

    @property
    def views(self) -> tuple[Table, ...]:
        """Paths of two edges from an out-heavy to an in-heavy vertex."""
        return (self.table_of(PAIRS, ("from", "to"), self.measures[1:], 2),)

    def _edge(self, row: Reg, s: int) -> ValueOf:
        return ValueOf(row, self.edges.table, s)

    def _joined(self, targets: tuple[Reg, ...], one: Reg, other: Reg) -> Block:
        """Add to the registers the paths over two edges: E·E, and for each sum W·E + E·W."""
        body: list[Instruction] = []
        for s in self.measures:
            product = Reg(f"product{s}", self.width(s, 2))
            body += [
                Compute(product, Math.MULTIPLY, self._edge(one, s), self._edge(other, 0)),
                Compute(targets[s], Math.ADD, targets[s], product),
            ]
            if s:
                body += [
                    Compute(product, Math.MULTIPLY, self._edge(one, 0), self._edge(other, s)),
                    Compute(targets[s], Math.ADD, targets[s], product),
                ]
        return tuple(body)

    def changed(self, stored: Stored, words: Key, changes: Key) -> Block:
        """The paths b → c → a, from the pair table if both are heavy, else by the shorter list."""
        a, b = words
        table, q = stored.table, self.q
        out, into = self.statuses
        n_out, n_in, one, other, pair = map(Reg, ("n_out", "n_in", "one", "other", "pair"))
        paired, h1, h2 = Reg("paired"), Reg("h1"), Reg("h2")
        least = self.base.value("heavy_until")
        both = Find(h1, out.table, (b,), (Find(h2, into.table, (a,), (zero(paired, 1),)),))
        read = tuple(Compute(q[s], Math.ADD, ValueOf(pair, PAIRS, s), Lit(0)) for s in self.measures)
        from_b = Find(other, table, (KeyOf(one, table, 1), a), self._joined(q, one, other))
        into_a = Find(other, table, (b, KeyOf(one, table, 0)), self._joined(q, other, one))
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

    def added(self, stored: Stored, words: Key, changes: Key) -> Block:
        """The edge in any of three roles; a loop in several at once."""
        m, d = changes[0], tuple(map(self.total_change, self.measures))
        body: list[Instruction] = [
            Compute(d[0], Math.MULTIPLY, m, self.q[0]),
            Compute(d[0], Math.MULTIPLY, d[0], Lit(ROLES)),
        ]
        for s in self.measures[1:]:
            t = Reg(f"t{s}", d[s].words)
            body += [
                Compute(d[s], Math.MULTIPLY, changes[s], self.q[0]),
                Compute(t, Math.MULTIPLY, m, self.q[s]),
                Compute(d[s], Math.ADD, d[s], t),
            ]
        return (*body, If(Test.EQUAL, words[0], words[1], self._loop(stored, words, changes, d)))

    def _loop(self, stored: Stored, words: Key, changes: Key, d: tuple[Reg, ...]) -> Block:
        """What a loop that is several sides at once counts beyond that."""
        m, row = changes[0], Reg("loop")

        def plus(target: Reg, *factors: Operand) -> Block:
            first, *rest = factors
            t = Reg(f"more {target.name}", target.words)
            made = (Compute(t, Math.MULTIPLY, first, Lit(1)), *(Compute(t, Math.MULTIPLY, t, f) for f in rest))
            return (*made, Compute(target, Math.ADD, target, t))

        e = self._edge(row, 0)
        found = list(plus(d[0], m, m, e, Lit(ROLES)))
        alone = list(plus(d[0], m, m, m))
        for s in self.measures[1:]:
            found += [*plus(d[s], changes[s], m, e, Lit(2)), *plus(d[s], m, m, self._edge(row, s))]
            alone += plus(d[s], changes[s], m, m)
        return (Find(row, stored.table, words, tuple(found)), *alone)

    def viewed(self, stored: Stored, words: Key, changes: Key, settled: bool) -> Block:
        """The edge as the first of a path from a heavy vertex, and as the second of one to a heavy vertex."""
        a, b = words
        out, into = self.statuses
        first = self.if_heavy(out, (a,), settled, self._first(a, b, changes), own=True)
        return (*first, *self.if_heavy(into, (b,), settled, self._second(a, b, changes), own=True))

    def noted(self, stored: Stored, words: Key, changes: Key) -> Block:
        """The pair table sees the edge twice if it is a loop: as both edges of a path.

        That comes first: so a pair is at no time without any path if it has one in the end, and keeps its sums.
        """
        a, b = words
        out, into = self.statuses
        m, pair = changes[0], Reg("pair")
        twice = [Reg(f"twice{s}", self.width(s, 2)) for s in self.measures]
        body: list[Instruction] = [Compute(twice[0], Math.MULTIPLY, m, m)]
        for s in self.measures[1:]:
            body += [
                Compute(twice[s], Math.MULTIPLY, m, changes[s]),
                Compute(twice[s], Math.MULTIPLY, twice[s], Lit(2)),
            ]
        both = (*body, Add(pair, PAIRS, (a, b), tuple(twice)))
        into_heavy = self.if_heavy(into, (b,), True, both, own=True)
        as_both = If(Test.EQUAL, a, b, self.if_heavy(out, (a,), True, into_heavy, own=True))
        return (as_both, *self.viewed(stored, words, changes, settled=True))

    def _first(self, a: Operand, b: Operand, changes: Key) -> Block:
        """V(a, z) for the in-heavy z that b has edges to: of the shorter of b's list and the heavy ones."""
        return self._towards(a, b, changes, is_first=True)

    def _second(self, a: Operand, b: Operand, changes: Key) -> Block:
        """V(x, b) for the out-heavy x that have edges to a."""
        return self._towards(b, a, changes, is_first=False)

    def _towards(self, end: Operand, middle: Operand, changes: Key, is_first: bool) -> Block:
        out, into = self.statuses
        others, near, far = (into, 0, 1) if is_first else (out, 1, 0)
        table, edge, hub, pair = self.edges.table, Reg("edge"), Reg("hub"), Reg("pair")
        n_list, n_hubs = Reg("n_list"), Reg("n_hubs")
        there = KeyOf(hub, others.table, 0)

        def add(other_end: Operand) -> Block:
            body: list[Instruction] = []
            values = tuple(Reg(f"v{s}", self.width(s, 2)) for s in self.measures)
            for s in self.measures:
                t = Reg(f"t{s}", values[s].words)
                body.append(Compute(values[s], Math.MULTIPLY, changes[0], self._edge(edge, s)))
                if s:
                    body += [
                        Compute(t, Math.MULTIPLY, changes[s], self._edge(edge, 0)),
                        Compute(values[s], Math.ADD, values[s], t),
                    ]
            key = (end, other_end) if is_first else (other_end, end)
            return (*body, Add(pair, PAIRS, key, values))

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
