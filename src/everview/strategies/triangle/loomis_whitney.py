"""Loomis-Whitney counts, those over any three relations among them, by views over heavy keys alone (triangle.md 18.6).

There are n bundles of variables and n relations; each relation lacks one bundle and has all others (triangle.md 18.3:
variables of one relation are summed out, those that all have go before every bundle, and a bundle may be empty, which
is a constant: so is a path of three relations a triangle). A row of a relation joins with what the others have for the
one bundle that it lacks: the shortest of their lists is walked, unless all of them are heavy; then the answer is read
from a view, which holds the joins over one bundle of rows that are all heavy there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
)
from everview.programs.parts import ThresholdBase
from everview.query.terms import Var
from everview.strategies.strategy import Sum
from everview.strategies.triangle.count_measures import Key, Stored, multiplied
from everview.strategies.triangle.count_program import Block, CountProgram, Status, zero

Words = tuple[Var, ...]
Places = Mapping[Var, Operand]


class LoomisWhitney(CountProgram):
    """The count over relations of which each lacks one bundle, that of its own number."""

    def __init__(
        self, relations: Sequence[Stored], bundles: Sequence[Words], sums: Sequence[Sum], base: ThresholdBase
    ) -> None:
        super().__init__(relations, sums, base)
        self.bundles = tuple(bundles)
        self._status = {
            (j, k): Status(r, self.without(j, k))
            for j, r in enumerate(self.relations)
            for k, bundle in enumerate(bundles)
            if k != j and bundle
        }

    def without(self, j: int, k: int) -> tuple[int, ...]:
        """The columns of a relation but for those of a bundle."""
        stored = self.relations[j]
        return tuple(i for i, v in enumerate(stored.words) if v not in self.bundles[k])

    @property
    def statuses(self) -> tuple[Status, ...]:
        """One for each relation and each of its bundles: by how many values of it go with all the rest."""
        return tuple(self._status.values())

    def heavy_indexes(self, status: Status) -> tuple[tuple[int, ...], ...]:
        """By all words but those of another bundle, whose values are looked for."""
        names = [status.stored.words[i] for i in status.columns]
        found = [tuple(i for i, v in enumerate(names) if v not in bundle) for bundle in self.bundles]
        return tuple(dict.fromkeys(((), *found)))

    def _over(self, k: int) -> tuple[Stored, ...]:
        """The relations that the view over bundle k joins."""
        return self.others(self.relations[k])

    def view(self, k: int) -> str:
        """The name of the view over bundle k, which has the words of the relation that lacks it."""
        return f"heavy pairs {k}"

    @property
    def views(self) -> tuple[Table, ...]:
        """One for each bundle: what the relations that have it join to, by the words of the one that lacks it."""
        names = [list(map(str, r.words)) for r in self.relations]
        return tuple(
            self.view_of(self.view(k), names[k], self._over(k)) for k, bundle in enumerate(self.bundles) if bundle
        )

    def changed(self, stored: Stored, words: Key, changes: Key) -> Block:
        """What the others have for the bundle that the relation lacks."""
        j = self.relations.index(stored)
        places: Places = dict(zip(stored.words, words, strict=True))
        others = [i for i in range(len(self.relations)) if i != j]
        sizes = {i: Reg(f"size{i}") for i in others}
        keys = {i: tuple(places[self.relations[i].words[c]] for c in self.without(i, j)) for i in others}
        reset = self.nothing_asked(stored)
        if not self.bundles[j]:
            return (*reset, *self._walk(others, {}, places, stored))
        counts = [self.counted(sizes[i], self.relations[i], self.without(i, j), keys[i]) for i in others]
        paired, pair = Reg("paired"), Reg("pair")
        inner: Block = (zero(paired, 1),)
        for i in others:
            inner = (Find(Reg(f"heavy{i}"), self._status[i, j].table, keys[i], inner),)
        for i in others:
            inner = (If(Test.AT_MOST, self.base.value("heavy_until"), sizes[i], inner),)
        read = tuple(
            Compute(q, Math.ADD, self.in_view(pair, self.view(j), self._over(j), s), Lit(0))
            for s, q in self.all_asked(stored).items()
        )
        ways = [(sizes[i], self._walk([i, *(o for o in others if o != i)], {}, places, stored)) for i in others]
        return (
            *reset,
            *counts,
            zero(paired),
            *inner,
            If(Test.EQUAL, paired, Lit(1), (Find(pair, self.view(j), words, read),), shortest(ways)),
        )

    def _walk(self, rest: list[int], rows: Mapping[int, Reg], places: Places, own: Stored) -> Block:
        """Join with one relation after the other: the first may have several rows, the others have one."""
        if not rest:
            return self.products([(row, self.relations[i]) for i, row in rows.items()], own)
        i, *left = rest
        stored, row = self.relations[i], Reg(f"row{i}")
        found = {v: KeyOf(row, stored.table, c) for c, v in enumerate(stored.words) if v not in places}
        inner = self._walk(left, {**rows, i: row}, {**places, **found}, own)
        if not found:
            return (Find(row, stored.table, tuple(places[v] for v in stored.words), inner),)
        bound = tuple(c for c, v in enumerate(stored.words) if v in places)
        return (self.scanned(row, stored, bound, tuple(places[stored.words[c]] for c in bound), inner),)

    def viewed(self, stored: Stored, words: Key, changes: Key) -> Block:
        """The row in the view of each bundle that it has, where it is heavy."""
        j = self.relations.index(stored)
        body: list[Instruction] = []
        for k, bundle in enumerate(self.bundles):
            if k != j and bundle:
                status = self._status[j, k]
                paired = self._paired(j, k, words, changes)
                body += self.if_heavy(status, status.key(words), paired)
        return self.if_any_heavy(tuple(body))

    def flipped(self, status: Status, key: Key, sign: Reg) -> Block:
        """Only the view of the status's own bundle changes; a light key has nothing there."""
        ((j, k),) = (at for at, s in self._status.items() if s == status)
        row, stored = Reg("moved row"), status.stored
        signed, values = self.moved(row, stored, sign)
        words = tuple(self.word(row, stored, i) for i in range(len(stored.words)))
        body = (self.scanned(row, stored, status.columns, key, (*signed, *self._paired(j, k, words, values))),)
        return (Find(Reg("status"), status.table, key, body),)

    def _paired(self, j: int, k: int, words: Key, changes: Key) -> Block:
        """Join a row that is heavy for bundle k with heavy rows of the other relations that have it."""
        stored = self.relations[j]
        places: Places = dict(zip(stored.words, words, strict=True))
        rest = [i for i in range(len(self.relations)) if i not in (j, k)]
        first = self.relations[rest[0]]
        status = self._status[rest[0], k]
        hub, row, n_list, n_hubs = Reg("hub"), Reg(f"row{rest[0]}"), Reg("n_list"), Reg("n_hubs")
        names = [first.words[c] for c in status.columns]
        bound = tuple(c for c, v in enumerate(names) if v in places)
        key = tuple(places[names[c]] for c in bound)
        from_hub = {**{v: KeyOf(hub, status.table, c) for c, v in enumerate(names)}, **places}
        by_hubs = Scan(
            hub,
            status.table,
            self.heavy_indexes(status).index(bound),
            key,
            0,
            (
                Find(
                    row,
                    first.table,
                    tuple(from_hub[v] for v in first.words),
                    self._added(j, k, rest, from_hub, changes),
                ),
            ),
        )
        columns = tuple(c for c, v in enumerate(first.words) if v in places)
        from_row = {**{v: KeyOf(row, first.table, c) for c, v in enumerate(first.words)}, **places}
        by_list = self.scanned(
            row,
            first,
            columns,
            tuple(places[first.words[c]] for c in columns),
            (Find(hub, status.table, tuple(from_row[v] for v in names), self._added(j, k, rest, from_row, changes)),),
        )
        return (
            self.counted(n_list, first, columns, tuple(places[first.words[c]] for c in columns)),
            Count(n_hubs, status.table, self.heavy_indexes(status).index(bound), key, 0),
            If(Test.AT_MOST, n_list, n_hubs, (by_list,), (by_hubs,)),
        )

    def _added(self, j: int, k: int, rest: list[int], places: Places, changes: Key) -> Block:
        """Find the rows of the other relations, all heavy, and add their product to the view."""
        stored, words = self.relations[j], self.relations[k].words
        body: list[Instruction] = []
        values: list[Reg] = []
        for s in self.kept(self._over(k)):
            values.append(Reg(f"{self.view(k)}+{s}", self.width(s, (r.atom for r in self._over(k)))))
            others = [self.value(Reg(f"row{i}"), self.relations[i], s) for i in rest]
            body += multiplied(values[-1], [self.changed_by(changes, stored, s), *others])
        inner: Block = (*body, Add(Reg("pair"), self.view(k), tuple(places[v] for v in words), tuple(values)))
        for i in rest[1:]:
            other, status = self.relations[i], self._status[i, k]
            key = tuple(places[other.words[c]] for c in status.columns)
            inner = (
                Find(
                    Reg(f"row{i}"),
                    other.table,
                    tuple(places[v] for v in other.words),
                    (Find(Reg("h"), status.table, key, inner),),
                ),
            )
        return inner


def shortest(ways: Sequence[tuple[Reg, Block]]) -> Block:
    """Run the block whose size is least."""
    if len(ways) == 1:
        return ways[0][1]
    first, second, *others = ways
    return (If(Test.AT_MOST, first[0], second[0], shortest([first, *others]), shortest([second, *others])),)
