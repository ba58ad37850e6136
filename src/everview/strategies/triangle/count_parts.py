"""The count over three relations with heavy and light parts, singly or doubly partitioned (triangle.md 7 and 8).

R(a, b), S(b, c) and T(c, a) turn into each other, so one procedure is written three times: of a relation, S is the next
and T the one before. Singly partitioned, each relation is cut by its first column and the pair view of R and S holds
R's heavy rows with S's light ones; doubly, by both columns, and it holds heavy-light rows of R with light-heavy ones of
S. Below ε = ⅓ these views are smaller than those over heavy keys alone (``loomis_whitney``).
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
SIDES = 3


class PartitionedTriangle(CountProgram):
    """The count over three relations, of which each lacks the bundle of its own number.

    Relation j has bundle j + 1 first and bundle j + 2 second.
    """

    def __init__(
        self,
        relations: Sequence[Stored],
        bundles: Sequence[Words],
        sums: Sequence[Sum],
        base: ThresholdBase,
        double: bool,
    ) -> None:
        super().__init__(relations, sums, base)
        self.bundles = tuple(bundles)
        self.double = double
        self._first = [Status(r, self._columns(j, (j + 1) % SIDES)) for j, r in enumerate(self.relations)]
        self._second = [Status(r, self._columns(j, (j + 2) % SIDES)) for j, r in enumerate(self.relations)]

    def _columns(self, j: int, k: int) -> tuple[int, ...]:
        """The columns of a relation's bundle, after those that all relations have."""
        other = self.bundles[3 - j - k]
        return tuple(i for i, v in enumerate(self.relations[j].words) if v not in other)

    @property
    def statuses(self) -> tuple[Status, ...]:
        """By the first column, and, doubly partitioned, by the second, too: relation by relation."""
        if not self.double:
            return tuple(self._first)
        return tuple(s for pair in zip(self._first, self._second, strict=True) for s in pair)

    @property
    def everywhere(self) -> Words:
        """The variables that all relations have."""
        return tuple(v for v in self.relations[0].words if all(v in r.words for r in self.relations))

    def heavy_indexes(self, status: Status) -> tuple[tuple[int, ...], ...]:
        """By what all relations have."""
        names = [status.stored.words[i] for i in status.columns]
        return tuple(dict.fromkeys(((), tuple(i for i, v in enumerate(names) if v in self.everywhere))))

    def view(self, j: int) -> tuple[str, Words]:
        """The pair view of a relation and the next: its name and words."""
        words = (*self.everywhere, *self.bundles[(j + 1) % SIDES], *self.bundles[j])
        return f"pairs {j}", words

    def _over(self, j: int) -> tuple[Stored, ...]:
        """The relations that the pair view of one joins."""
        return self.relations[j], self.relations[(j + 1) % SIDES]

    @property
    def views(self) -> tuple[Table, ...]:
        """Each relation's with the next."""
        made = [(self._over(j), *self.view(j)) for j in range(SIDES)]
        return tuple(self.view_of(name, list(map(str, words)), over) for over, name, words in made)

    def _list(self, i: int, places: Places) -> tuple[tuple[int, ...], Key]:
        """The rows of a relation that match: an index's columns and a key."""
        words = self.relations[i].words
        bound = tuple(c for c, v in enumerate(words) if v in places)
        return bound, tuple(places[words[c]] for c in bound)

    def _key(self, status: Status, places: Places) -> Key:
        return tuple(places[status.stored.words[c]] for c in status.columns)

    def _over_list(self, i: int, places: Places, then: Block, row: Reg) -> Block:
        bound, key = self._list(i, places)
        if len(bound) == len(self.relations[i].words):
            return (Find(row, self.relations[i].table, key, then),)
        return (self.scanned(row, self.relations[i], bound, key, then),)

    def _reached(self, i: int, places: Places, row: Reg) -> Places:
        """The variables' words when a row of a relation is known, too."""
        stored = self.relations[i]
        return {**{v: KeyOf(row, stored.table, c) for c, v in enumerate(stored.words)}, **places}

    def changed(self, stored: Stored, words: Key, changes: Key) -> Block:
        """Both lists heavy: through heavy values of the third corner and the pair view; else the shorter list."""
        j = self.relations.index(stored)
        following, before = (j + 1) % SIDES, (j + 2) % SIDES
        places: Places = dict(zip(stored.words, words, strict=True))
        one, other, pair = Reg("one"), Reg("other"), Reg("pair")
        n_one, n_other = Reg("n_one"), Reg("n_other")
        s, t = self.relations[following], self.relations[before]

        def walk(i: int, k: int) -> Block:
            inner = self._reached(i, places, one)
            key = tuple(inner[v] for v in self.relations[k].words)
            both = [(one, self.relations[i]), (other, self.relations[k])]
            return self._over_list(
                i, places, (Find(other, self.relations[k].table, key, self.products(both, stored)),), one
            )

        shorter = (
            self.counted(n_one, s, *self._list(following, places)),
            self.counted(n_other, t, *self._list(before, places)),
            If(Test.AT_MOST, n_one, n_other, walk(following, before), walk(before, following)),
        )
        name, pair_words = self.view(following)
        read = tuple(
            Compute(q, Math.ADD, q, self.in_view(pair, name, self._over(following), m))
            for m, q in self.all_asked(stored).items()
        )
        heavy: Block = (
            *self._through(self._first[before], None, following, before, places, stored),
            *(
                self._through(self._second[following], self._first[before], following, before, places, stored)
                if self.double
                else ()
            ),
            Find(pair, name, tuple(places[v] for v in pair_words), read),
        )
        reset = self.nothing_asked(stored)
        b = self._key(self._first[following], places)
        if not self.double:
            return (*reset, *self.if_heavy(self._first[following], b, heavy, shorter))
        paired, a = Reg("paired"), self._key(self._second[before], places)
        both = self.if_heavy(self._first[following], b, self.if_heavy(self._second[before], a, (zero(paired, 1),)))
        return (*reset, zero(paired), *both, If(Test.EQUAL, paired, Lit(1), heavy, shorter))

    def _through(
        self, status: Status, besides: Status | None, following: int, before: int, places: Places, own: Stored
    ) -> Block:
        """Join over the values of the third corner that are heavy by one status and not by another."""
        i = self.relations.index(status.stored)
        k = before if i == following else following
        hub, one, other = Reg("hub"), Reg("one"), Reg("other")
        n_list, n_hubs = Reg("n_list"), Reg("n_hubs")
        both = self.products([(one, self.relations[i]), (other, self.relations[k])], own)

        def found(known: Places) -> Block:
            joined: Block = (
                Find(other, self.relations[k].table, tuple(known[v] for v in self.relations[k].words), both),
            )
            if besides is None:
                return joined
            return (Find(Reg("besides"), besides.table, self._key(besides, known), (), joined),)

        names = [status.stored.words[c] for c in status.columns]
        from_hub = {**{v: KeyOf(hub, status.table, c) for c, v in enumerate(names)}, **places}
        index = len(self.heavy_indexes(status)) - 1
        row_key = tuple(from_hub[v] for v in self.relations[i].words)
        key = tuple(places[v] for v in names if v in self.everywhere)
        by_hubs = Scan(
            hub, status.table, index, key, 0, (Find(one, self.relations[i].table, row_key, found(from_hub)),)
        )
        from_row = self._reached(i, places, one)
        by_list = self._over_list(
            i, places, (Find(hub, status.table, self._key(status, from_row), found(from_row)),), one
        )
        return (
            self.counted(n_list, self.relations[i], *self._list(i, places)),
            Count(n_hubs, status.table, index, key, 0),
            If(Test.AT_MOST, n_list, n_hubs, by_list, (by_hubs,)),
        )

    def viewed(self, stored: Stored, words: Key, changes: Key) -> Block:
        """A row is the first of a pair, or the second, or neither, by its part."""
        j = self.relations.index(stored)
        following, before = (j + 1) % SIDES, (j + 2) % SIDES
        places: Places = dict(zip(stored.words, words, strict=True))

        def heavy(status: Status, then: Block, otherwise: Block = ()) -> Block:
            return self.if_heavy(status, self._key(status, places), then, otherwise)

        one = Reg("one")
        after = self._reached(following, places, one)
        as_first = self._added(j, j, following, after, changes, one)
        if self.double:
            status = self._second[following]
            as_first = (Find(Reg("hub"), status.table, self._key(status, after), as_first),)
        first = heavy(self._first[following], (), self._over_list(following, places, as_first, one))
        as_second = self._to_heavy(j, before, places, changes)
        if not self.double:
            return heavy(self._first[j], first, as_second)
        first = heavy(self._second[j], (), first)
        second = heavy(self._second[j], heavy(self._second[before], (), as_second))
        return heavy(self._first[j], first, second)

    def _to_heavy(self, j: int, before: int, places: Places, changes: Key) -> Block:
        """A row as the second of a pair: with the heavy rows of the relation before it."""
        status, stored = self._first[before], self.relations[before]
        hub, one, n_list, n_hubs = Reg("hub"), Reg("one"), Reg("n_list"), Reg("n_hubs")
        names = [stored.words[c] for c in status.columns]
        from_hub = {**{v: KeyOf(hub, status.table, c) for c, v in enumerate(names)}, **places}
        from_row = self._reached(before, places, one)
        index = len(self.heavy_indexes(status)) - 1
        key = tuple(places[v] for v in names if v in self.everywhere)
        row_key = tuple(from_hub[v] for v in stored.words)
        by_hubs = Scan(
            hub,
            status.table,
            index,
            key,
            0,
            (Find(one, stored.table, row_key, self._added(j, before, before, from_hub, changes, one)),),
        )
        by_list = self._over_list(
            before,
            places,
            (
                Find(
                    hub,
                    status.table,
                    self._key(status, from_row),
                    self._added(j, before, before, from_row, changes, one),
                ),
            ),
            one,
        )
        return (
            self.counted(n_list, stored, *self._list(before, places)),
            Count(n_hubs, status.table, index, key, 0),
            If(Test.AT_MOST, n_list, n_hubs, by_list, (by_hubs,)),
        )

    def _added(self, j: int, view: int, other: int, places: Places, changes: Key, row: Reg) -> Block:
        """Add the product of a change and a row of another relation to a pair view."""
        (name, words), over = self.view(view), self._over(view)
        body: list[Instruction] = []
        values: list[Reg] = []
        for s in self.kept(over):
            values.append(Reg(f"{name}+{s}", self.width(s, (r.atom for r in over))))
            change = self.changed_by(changes, self.relations[j], s)
            body += multiplied(values[-1], [change, self.value(row, self.relations[other], s)])
        return (*body, Add(Reg("pair"), name, tuple(places[v] for v in words), tuple(values)))
