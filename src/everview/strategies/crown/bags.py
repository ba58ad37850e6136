"""Bags of cyclic queries: their atoms are kept, and each change is joined with the others (crown.md 8).

Atoms that take the same rows of a relation and store the same of its columns share one table, which is changed once an
update. Their joins see it before or after the update, whichever the table is just then, and the update's own row is
taken in or out by arithmetic: of the atoms of a bag, those before the changed one are new and those after it old.

A join goes on with the *shorter* list wherever two atoms could give its next values: their groups are counted first.
Where all that it finds changes one and the same row, what it finds is added up and handed on once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from everview.kernel.program import (
    Add,
    Call,
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
    Test,
)
from everview.query.terms import Var
from everview.strategies.crown.layout import CHANGE, ROW, Layout, Node, Words, reg, regs
from everview.strategies.crown.plan import Relation
from everview.strategies.crown.totals import Totals, entry_words

EARLIER, LATER = Reg("earlier"), Reg("later")
"""What the update's own row counts more, or less, for atoms before and after the changed one than it is stored with."""
MOST_COPIES = 8
"""A join is written out at most so often to go on with the shorter list."""
MOST_ALIKE = 8
"""So many atoms of a bag at most share a table: each of their joins has to ask of all others which row is its own."""
MOST_STEPS = 600
"""The joins of a bag are written out more than once only if they have fewer steps than this in all."""


@dataclass(frozen=True)
class Part:
    """An atom of a bag, or a guard: an atom that only bounds variables there, as a set."""

    node: Node
    atom: int
    is_guard: bool
    words: Words
    """The variables that are stored, in the order of the relation's columns."""
    sums: tuple[int, ...]


@dataclass(frozen=True)
class Shared:
    """A table, and the parts that it serves: all see the same rows."""

    table: str
    parts: tuple[Part, ...]
    as_set: bool

    @property
    def first(self) -> Part:
        """The part by whose variables the table is named."""
        return self.parts[0]

    def is_split(self, part: Part) -> bool:
        """True if another atom of the part's bag is in this table, too, and sees another state of it."""
        return part in self.parts and sum(p.node is part.node for p in self.parts) > 1


@dataclass(frozen=True)
class Input:
    """A procedure that takes the changes of an atom's rows, by these words and sums, for it and for other atoms."""

    atom: int
    serves: frozenset[int]
    procedure: str
    words: Words
    sums: tuple[int, ...]


class Bags:
    """Writes the procedures by which atoms change the bags that hold them."""

    def __init__(self, layout: Layout, totals: Totals) -> None:
        self.layout = layout
        self.totals = totals
        self._parts: dict[Node, list[Part]] = {}
        for n in layout.nodes:
            relation = None if n.tree.relation is None else layout.plan.relations[n.tree.relation]
            if relation is not None and relation.is_bag:
                parts = [self._part(n, relation, i, False) for i in relation.atoms]
                self._parts[n] = parts + [self._part(n, relation, i, True) for i in relation.guards]
        self._shared = self._grouped()
        self._table_of = {p: s for s in self._shared for p in s.parts}

    def write(self) -> Iterator[Input]:
        """The procedures of all bags' tables; each takes the rows of all atoms that the table serves."""
        for shared in self._shared:
            if shared.table not in self.layout.table_names:
                first = shared.first
                measures = {0: 1, **{j: self.layout.atom_change(j).words for j in first.sums}}
                self.layout.table(shared.table, first.words, measures)
        for shared in self._shared:
            joins = [(p, self._write_join(shared, p)) for p in shared.parts]
            name = f"{shared.table}{self.totals.tag}"
            first = shared.first
            self.layout.procedure(
                name, (*regs(first.words), *self.layout.atom_changes(first.sums)), self._changed(shared, joins)
            )
            served = frozenset(p.atom for p in shared.parts) - {first.atom}
            yield Input(first.atom, served, name, first.words, first.sums)

    def _part(self, n: Node, relation: Relation, atom: int, is_guard: bool) -> Part:
        """Of an atom's variables only those count that the bag hands on or that others of the bag share."""
        query = self.layout.plan.query
        everyone = [*((i, False) for i in relation.atoms), *((i, True) for i in relation.guards)]
        others = frozenset().union(*(query.edges[i] for i, g in everyone if (i, g) != (atom, is_guard)))
        wanted = relation.variables & (others | frozenset(entry_words(n)))
        sums = tuple(j for j, s in enumerate(self.layout.sums, 1) if s.atom == atom and not is_guard)
        words = tuple(dict.fromkeys(t for t in query.atoms[atom].all_terms if isinstance(t, Var) and t in wanted))
        return Part(n, atom, is_guard, words, sums)

    def _grouped(self) -> list[Shared]:
        """The parts by the tables that hold them: those that take the same rows and store the same columns."""
        atoms = self.layout.plan.query.atoms
        groups: dict[object, list[Part]] = {}
        for number, part in ((i // MOST_ALIKE, p) for parts in self._parts.values() for i, p in enumerate(parts)):
            places = tuple(atoms[part.atom].all_terms.index(v) for v in part.words)
            kind = self.layout.signatures[part.atom] if self.layout.signatures and not part.sums else part
            groups.setdefault((kind, places, self._is_set(part), number), []).append(part)
        found = []
        for parts in groups.values():
            first = parts[0]
            kind = "guard" if first.is_guard else "part"
            found.append(Shared(f"{first.node.label}.{kind}{first.atom}", tuple(parts), self._is_set(first)))
        return found

    def _is_set(self, part: Part) -> bool:
        return self.layout.is_set or part.is_guard

    # --- a table's own change -----------------------------------------------------------------------------------------

    def _changed(self, shared: Shared, joins: Sequence[tuple[Part, str]]) -> list[Instruction]:
        """Change a row, and tell each atom's bag; the row is there meanwhile, so a row that goes is told first.

        Sets tell only that a row comes or goes, as ±1.
        """
        table, key, sums = shared.table, regs(shared.first.words), shared.first.sums
        added = self.layout.added(table, {j: self.layout.atom_change(j) for j in (0, *sums)})

        def told(changes: Sequence[Operand], earlier: Operand, later: Operand) -> tuple[Instruction, ...]:
            own = (earlier, later)
            return tuple(Call(name, (*key, *changes, *(own if shared.is_split(p) else ()))) for p, name in joins)

        if shared.as_set:
            appeared, vanished = told((Lit(1),), Lit(0), Lit(-1)), told((Lit(-1),), Lit(-1), Lit(0))
            return [Add(ROW, table, key, added, appeared, vanished)]
        changes, opposite = self.layout.atom_changes(sums), Reg("opposite")
        changed = told(changes, Lit(0), opposite)
        if any(shared.is_split(p) for p in shared.parts):
            changed = (Compute(opposite, Math.SUBTRACT, Lit(0), CHANGE), *changed)
        return [Add(ROW, table, key, added, changed, told(changes, CHANGE, Lit(0)), changed)]

    # --- joins --------------------------------------------------------------------------------------------------------

    def _write_join(self, shared: Shared, part: Part) -> str:
        """The procedure that joins a changed row with the other atoms of its bag."""
        own = (EARLIER, LATER) if shared.is_split(part) else ()
        changes = (CHANGE,) if shared.as_set else self.layout.atom_changes(part.sums)
        kind = "guard" if part.is_guard else "part"
        name = f"{part.node.label}.{kind}{part.atom}.join{self.totals.tag}"
        others = [p for p in self._parts[part.node] if p is not part]
        places: dict[Var, Operand] = {v: reg(v) for v in part.words}
        copies = MOST_STEPS // (len(others) + 1) ** 2
        body = self._joined(part, others, places, {}, max(1, min(MOST_COPIES, copies)))
        if self._adds_up(part):
            total = self._total(part.node)
            arguments = (*(places[v] for v in entry_words(part.node)), total)
            call = Call(self.totals.name(part.node, "base"), arguments)
            start = Compute(total, Math.ADD, Lit(0), Lit(0))
            body = [start, *body, If(Test.NOT_EQUAL, total, Lit(0), (call,))]
        return self.layout.procedure(name, (*regs(part.words), *changes, *own), body)

    def _total(self, n: Node) -> Reg:
        """What all that a changed row joins with adds up to."""
        return Reg("total", self.layout.own_width(n, 0))

    def _adds_up(self, part: Part) -> bool:
        """True if all that a changed row joins with changes the same row of the bag, by its copies alone."""
        return set(entry_words(part.node)) <= set(part.words) and not self.layout.own_sums(part.node)

    def _joined(
        self, part: Part, rest: list[Part], places: Mapping[Var, Operand], rows: Mapping[Part, Reg], copies: int
    ) -> list[Instruction]:
        """Go on with the atom that has most of its words bound; where several are alike, with the shorter list."""
        if not rest:
            return self._told(part, places, rows)
        ways = self._ways(rest, places, copies)
        if len(ways) == 1:
            return self._step(part, ways[0], rest, places, rows, copies)
        bodies = [tuple(self._step(part, way, rest, places, rows, copies // len(ways))) for way in ways]
        sizes = [self.layout.fresh("size") for _ in ways]
        counts = [Count(size, *self._group(way, places), 0) for size, way in zip(sizes, ways, strict=True)]
        return [*counts, *self._shortest(list(zip(sizes, bodies, strict=True)))]

    def _shortest(self, ways: list[tuple[Reg, tuple[Instruction, ...]]]) -> list[Instruction]:
        """Run the body whose size is least."""
        if len(ways) == 1:
            return list(ways[0][1])
        first, second, *others = ways
        return [
            If(
                Test.AT_MOST,
                first[0],
                second[0],
                tuple(self._shortest([first, *others])),
                tuple(self._shortest([second, *others])),
            )
        ]

    def _ways(self, rest: list[Part], places: Mapping[Var, Operand], copies: int) -> list[Part]:
        """The atoms that may come next: the best bound one, and those that would give the same variables' values."""

        def unbound(p: Part) -> frozenset[Var]:
            return frozenset(p.words) - places.keys()

        def rank(p: Part) -> tuple[int, int]:
            return len(places.keys() & set(p.words)), -len(p.words)

        full = [p for p in rest if not unbound(p)]
        if full:
            return full[:1]
        best = max(rest, key=rank)
        alike = [p for p in rest if unbound(p) == unbound(best) and rank(p)[0]]
        if len(alike) < 2:
            alike = [p for p in rest if rank(p) == rank(best) and rank(p)[0]][:2]
        return alike[:copies] if 1 < len(alike) <= copies else [best]

    def _group(self, part: Part, places: Mapping[Var, Operand]) -> tuple[str, int, tuple[Operand, ...]]:
        """The rows of an atom that match what is bound: its table, an index and a key."""
        shared = self._table_of[part]
        bound = [(i, v) for i, v in enumerate(part.words) if v in places]
        index = self.layout.index(shared.table, tuple(shared.first.words[i] for i, _ in bound))
        return shared.table, index, tuple(places[v] for _, v in bound)

    def _step(
        self,
        part: Part,
        way: Part,
        rest: list[Part],
        places: Mapping[Var, Operand],
        rows: Mapping[Part, Reg],
        copies: int,
    ) -> list[Instruction]:
        """Join with one more atom: find its row, or loop over its group."""
        table = self._table_of[way].table
        row = self.layout.fresh("join")
        found = {v: KeyOf(row, table, i) for i, v in enumerate(way.words) if v not in places}
        left = [p for p in rest if p is not way]
        inner = tuple(self._joined(part, left, {**found, **places}, {**rows, way: row}, copies))
        if not found:
            return [Find(row, table, tuple(places[v] for v in way.words), inner)]
        return [Scan(row, *self._group(way, places), 0, inner)]

    def _told(self, part: Part, places: Mapping[Var, Operand], rows: Mapping[Part, Reg]) -> list[Instruction]:
        """Multiply the change by all rows that it has met, and hand the product to the bag."""
        n = part.node
        is_set = self.layout.is_set
        body: list[Instruction] = []
        weights: dict[Part, Operand] = {}
        for other in rows:
            weight, own = self._weight(part, other, places, rows)
            body += own
            if weight is not None:
                weights[other] = weight
        products = []
        for j in (0,) if is_set else (0, *self.layout.own_sums(n)):
            product = self.layout.fresh("product", self.layout.own_width(n, j))
            products.append(product)
            first = self.layout.atom_change(j) if j in part.sums else CHANGE
            body.append(Compute(product, Math.MULTIPLY, first, Lit(1)))
            for other, weight in weights.items():
                factor = self.layout.measure(rows[other], self._table_of[other].table, j) if j in other.sums else weight
                body.append(Compute(product, Math.MULTIPLY, product, factor))
        if self._adds_up(part):
            return [*body, Compute(self._total(n), Math.ADD, self._total(n), products[0])]
        call = Call(self.totals.name(n, "base"), (*(places[v] for v in entry_words(n)), *products))
        if self._table_of[part].is_split(part):
            return [*body, If(Test.NOT_EQUAL, products[0], Lit(0), (call,))]
        return [*body, call]

    def _weight(
        self, part: Part, other: Part, places: Mapping[Var, Operand], rows: Mapping[Part, Reg]
    ) -> tuple[Operand | None, list[Instruction]]:
        """What a row counts for an atom in the state that it must see, None if just 1, and how to find that out."""
        shared = self._table_of[other]
        counted = None if shared.as_set else self.layout.measure(rows[other], shared.table, 0)
        if part not in shared.parts:
            return counted, []
        own = EARLIER if shared.parts.index(other) < shared.parts.index(part) else LATER
        weight = self.layout.fresh("weight")
        changed: tuple[Instruction, ...] = (Compute(weight, Math.ADD, weight, own),)
        for mine, its in zip(part.words, other.words, strict=True):
            if places[its] != reg(mine):
                changed = (If(Test.EQUAL, places[its], reg(mine), changed),)
        return weight, [Compute(weight, Math.ADD, counted or Lit(1), Lit(0)), *changed]
