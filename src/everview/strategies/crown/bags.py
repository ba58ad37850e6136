"""Bags of cyclic queries: their atoms are kept, and each change is joined with the others (crown.md 8).

Atoms that take the same rows of a relation and store the same of its columns share one table, which is changed once an
update. Their joins see it before or after the update, whichever the table is just then, and the update's own row is
taken in or out by arithmetic: of the atoms of a bag, those before the changed one are new and those after it old.

A join goes on with the *shorter* list wherever two atoms could give its next values: their groups are counted first.
Where all that it finds changes one and the same row, what it finds is added up and handed on once. In a triangle the
lists of two hubs may both be long, and have nothing in common: then what they have in common is kept (``hubs``).

Atoms that share a table may meet the same rows, each in another role, as the three sides of a triangle in one table of
edges do: turning a triangle turns its sides. Their rows are looked for once, and told in each of the roles.
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
from everview.strategies.crown.decomposed import Relation, is_triangle
from everview.strategies.crown.hubs import LONG, Hubs, Side, Wedge
from everview.strategies.crown.layout import CHANGE, ROW, Layout, Node, Words, reg, regs
from everview.strategies.crown.roles import Part, Role, Roles, Shared
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
class Input:
    """A procedure that takes the changes of an atom's rows, by these words and sums, for it and for other atoms."""

    atom: int
    serves: frozenset[int]
    procedure: str
    words: Words
    sums: tuple[int, ...]


@dataclass(frozen=True)
class Meeting:
    """Where the other two sides of a triangle meet a changed row: wedges of theirs, and its variables for those."""

    wedge: Wedge
    variables: Mapping[Var, Var]


class Bags:
    """Writes the procedures by which atoms change the bags that hold them."""

    def __init__(self, layout: Layout, totals: Totals, hubs: Hubs) -> None:
        self.layout = layout
        self.totals = totals
        self.hubs = hubs
        self._parts: dict[Node, list[Part]] = {}
        for n in layout.nodes:
            relation = None if n.tree.relation is None else layout.plan.relations[n.tree.relation]
            if relation is not None and relation.is_bag:
                parts = [self._part(n, relation, i, False) for i in relation.atoms]
                self._parts[n] = parts + [self._part(n, relation, i, True) for i in relation.guards]
        self._shared = self._grouped()
        self._table_of = {p: s for s in self._shared for p in s.parts}
        self._roles = Roles(self._parts, self._table_of)
        triangles = [ps for ps in self._parts.values() if is_triangle([frozenset(p.words) for p in ps])]
        self._meetings = {p: self._meeting(p) for parts in triangles for p in parts}
        hubs.declare({s.table: s.first.words for s in self._shared})

    def write(self) -> Iterator[Input]:
        """The procedures of all bags' tables; each takes the rows of all atoms that the table serves."""
        for shared in self._shared:
            if shared.table not in self.layout.table_names:
                first = shared.first
                measures = {0: 1, **{j: self.layout.atom_change(first.atom, j).words for j in first.sums}}
                self.layout.table(shared.table, first.words, measures)
        for shared in self._shared:
            joins = [
                (roles[0].part, self._write_join(shared, roles)) for roles in self._roles.by_what_they_meet(shared)
            ]
            name = f"{shared.table}{self.totals.tag}"
            first = shared.first
            parameters = (*regs(first.words), *self.layout.atom_changes(first.atom, first.sums))
            self.layout.procedure(name, parameters, self._changed(shared, joins))
            served = frozenset(p.atom for p in shared.parts) - {first.atom}
            yield Input(first.atom, served, name, first.words, first.sums)

    def _part(self, n: Node, relation: Relation, atom: int, is_guard: bool) -> Part:
        """Of an atom's variables only those count that the bag hands on or that others of the bag share."""
        query = self.layout.plan.query
        everyone = [*((i, False) for i in relation.atoms), *((i, True) for i in relation.guards)]
        others = frozenset().union(*(query.edges[i] for i, g in everyone if (i, g) != (atom, is_guard)))
        wanted = relation.variables & (others | frozenset(entry_words(n)))
        sums = tuple(j for j, s in enumerate(self.layout.sums, 1) if atom in s.factors and not is_guard)
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

    def _meeting(self, part: Part) -> Meeting:
        """The wedges of the other two sides of a triangle."""
        one, other = self._roles.others(part)
        middle = frozenset(one.words) & frozenset(other.words) - frozenset(part.words)

        sides = Side(self._table_of[one].table, one.words), Side(self._table_of[other].table, other.words)
        return Meeting(*self.hubs.wedge(sides, middle))

    # --- a table's own change -----------------------------------------------------------------------------------------

    def _changed(self, shared: Shared, joins: Sequence[tuple[Part, str]]) -> list[Instruction]:
        """Change a row, and tell each atom's bag; the row is there meanwhile, so a row that goes is told first.

        Sets tell only that a row comes or goes, as ±1.
        """
        first = shared.first
        table, key = shared.table, regs(first.words)
        added = self.layout.added(table, {j: self.layout.atom_change(first.atom, j) for j in (0, *first.sums)})

        def told(changes: Sequence[Operand], earlier: Operand, later: Operand) -> tuple[Instruction, ...]:
            own = (earlier, later)
            return tuple(Call(name, (*key, *changes, *(own if shared.is_split(p) else ()))) for p, name in joins)

        comes, goes = self.hubs.entered(table), self.hubs.leaving(table)
        if shared.as_set:
            appeared, vanished = told((Lit(1),), Lit(0), Lit(-1)), told((Lit(-1),), Lit(-1), Lit(0))
            return [Add(ROW, table, key, added, (*comes, *appeared), (*vanished, *goes))]
        changes, opposite = self.layout.atom_changes(first.atom, first.sums), Reg("opposite")
        changed = told(changes, Lit(0), opposite)
        if any(shared.is_split(p) for p in shared.parts):
            changed = (Compute(opposite, Math.SUBTRACT, Lit(0), CHANGE), *changed)
        return [Add(ROW, table, key, added, (*comes, *changed), (*told(changes, CHANGE, Lit(0)), *goes), changed)]

    # --- joins --------------------------------------------------------------------------------------------------------

    def _write_join(self, shared: Shared, roles: Sequence[Role]) -> str:
        """The procedure that joins a changed row with the other atoms of its bag, in each of its roles there."""
        part = roles[0].part
        own = (EARLIER, LATER) if shared.is_split(part) else ()
        changes = (CHANGE,) if shared.as_set else self.layout.atom_changes(part.atom, part.sums)
        kind = "guard" if part.is_guard else "part"
        name = f"{part.node.label}.{kind}{part.atom}.join{self.totals.tag}"
        parameters = (*regs(part.words), *changes, *own)
        meeting = self._meetings.get(part)
        if meeting is None:
            return self.layout.procedure(name, parameters, self._join(roles))
        hubs = self.layout.procedure(f"{name} of hubs", parameters, self._join(roles, meeting))
        return self.layout.procedure(name, parameters, self._join(roles, Call(hubs, parameters)))

    def _join(self, roles: Sequence[Role], hubs: Meeting | Call | None = None) -> list[Instruction]:
        """Join a changed row, and hand on what adds up; ``hubs`` is what to do where two long lists meet."""
        part = roles[0].part
        places: dict[Var, Operand] = {v: reg(v) for v in part.words}
        others = self._roles.others(part)
        copies = max(1, min(MOST_COPIES, MOST_STEPS // (len(others) + 1) ** 2))
        totals = self._totals(roles)
        started = [Compute(total, Math.ADD, Lit(0), Lit(0)) for total in dict.fromkeys(totals.values())]
        joined = self._joined(roles, others, places, {}, copies, hubs=hubs)
        equal = self._equal_if_met(roles)
        if equal is not None:
            apart = self._joined(roles, others, places, {}, copies, is_apart=True, hubs=hubs)
            joined = [If(Test.EQUAL, *equal, tuple(joined), tuple(apart))]
        body = [*started, *joined]
        for total in dict.fromkeys(totals.values()):
            role = next(r for r in roles if totals.get(r.part) == total)
            key = (places[role.variables[v]] for v in entry_words(part.node))
            call = Call(self.totals.name(part.node, "base"), (*key, total))
            body.append(If(Test.NOT_EQUAL, total, Lit(0), (call,)))
        return body

    def _equal_if_met(self, roles: Sequence[Role]) -> tuple[Reg, Reg] | None:
        """Two words of a changed row that are equal if it meets itself in any role, as those of a loop in a triangle.

        Where they are not, all roles tell the same product. None if there are none, or a row has one role only.
        """
        part = roles[0].part
        if len(roles) == 1 or self.layout.own_sums(part.node):
            return None
        found: set[frozenset[Var]] | None = None
        for role in roles:
            for other in self._roles.others(role.part):
                if other not in self._table_of[part].parts:
                    continue
                own = [(v, w) for v, w in zip(other.words, role.part.words, strict=True) if v in role.part.words]
                pairs = {frozenset((role.variables[v], role.variables[w])) for v, w in own if v != w}
                found = pairs if found is None else found & pairs
        if not found:
            return None
        one, other_one = sorted(min(found, key=sorted))
        return reg(one), reg(other_one)

    def _totals(self, roles: Sequence[Role]) -> dict[Part, Reg]:
        """What all that a changed row joins with adds up to, where it changes one row: a register for each such row."""
        by_row: dict[Words, Reg] = {}
        found: dict[Part, Reg] = {}
        for role in roles:
            if self._adds_up(role.part):
                row = tuple(role.variables[v] for v in entry_words(role.part.node))
                fresh = Reg(f"total{len(by_row) or ''}", self.layout.own_width(role.part.node, 0))
                found[role.part] = by_row.setdefault(row, fresh)
        return found

    def _adds_up(self, part: Part) -> bool:
        """True if all that a changed row joins with changes the same row of the bag, by its copies alone."""
        return set(entry_words(part.node)) <= set(part.words) and not self.layout.own_sums(part.node)

    def _joined(
        self,
        roles: Sequence[Role],
        rest: list[Part],
        places: Mapping[Var, Operand],
        rows: Mapping[Part, Reg],
        copies: int,
        is_apart: bool = False,
        hubs: Meeting | Call | None = None,
    ) -> list[Instruction]:
        """Go on with the atom that has most of its words bound; where several are alike, with the shorter list."""
        if not rest and is_apart:
            return self._told_apart(roles, places, rows)
        if not rest:
            return [i for role in roles for i in self._told_as(role, roles, places, rows)]
        ways = self._ways(rest, places, copies) if hubs is None else rest
        if len(ways) == 1:
            return self._step(roles, ways[0], rest, places, rows, copies, is_apart)
        share = copies // len(ways)
        bodies = [tuple(self._step(roles, way, rest, places, rows, share, is_apart)) for way in ways]
        sizes = [self.layout.fresh("size") for _ in ways]
        counts = [Count(size, *self._group(way, places), 0) for size, way in zip(sizes, ways, strict=True)]
        shortest = list(zip(sizes, bodies, strict=True))
        if isinstance(hubs, Call):
            shortest = [(n, (If(Test.AT_MOST, Lit(LONG), n, (hubs,), body),)) for n, body in shortest]
        walked = self._shortest(shortest)
        if isinstance(hubs, Meeting):
            walked = self._of_hubs(hubs, roles, (ways[0], ways[1]), (sizes[0], sizes[1]), places, walked, is_apart)
        return [*counts, *walked]

    def _of_hubs(
        self,
        meeting: Meeting,
        roles: Sequence[Role],
        ways: tuple[Part, Part],
        sizes: tuple[Reg, Reg],
        places: Mapping[Var, Operand],
        walked: Sequence[Instruction],
        is_apart: bool,
    ) -> list[Instruction]:
        """Go on with the wedges of two hubs if their lists are both long, else with the shorter list."""
        wedge = meeting.wedge
        known, row = self.layout.fresh("known"), self.layout.fresh("wedge")
        ends = {v: places[its] for v, its in meeting.variables.items() if its in places}
        group, middle = self.hubs.kept(row, wedge, ends)
        found = {**{meeting.variables[v]: word for v, word in middle.items()}, **places}
        inner = tuple(self._joined(roles, list(ways), found, {}, 1, is_apart))
        return [
            *self.hubs.met(wedge, ends, sizes, known),
            If(Test.EQUAL, known, Lit(1), (Scan(row, *group, 0, inner),), tuple(walked)),
        ]

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
        roles: Sequence[Role],
        way: Part,
        rest: list[Part],
        places: Mapping[Var, Operand],
        rows: Mapping[Part, Reg],
        copies: int,
        is_apart: bool,
    ) -> list[Instruction]:
        """Join with one more atom: find its row, or loop over its group."""
        table = self._table_of[way].table
        row = self.layout.fresh("join")
        found = {v: KeyOf(row, table, i) for i, v in enumerate(way.words) if v not in places}
        left = [p for p in rest if p is not way]
        inner = tuple(self._joined(roles, left, {**found, **places}, {**rows, way: row}, copies, is_apart))
        if not found:
            return [Find(row, table, tuple(places[v] for v in way.words), inner)]
        return [Scan(row, *self._group(way, places), 0, inner)]

    def _told_as(
        self, role: Role, roles: Sequence[Role], places: Mapping[Var, Operand], rows: Mapping[Part, Reg]
    ) -> list[Instruction]:
        """Tell a row's join with what was found, in one of its roles."""
        own_places = {v: places[its] for v, its in role.variables.items()}
        own_rows = {other: rows[its] for other, its in role.others.items()}
        return self._told(role.part, own_places, own_rows, self._totals(roles).get(role.part))

    def _told_apart(
        self, roles: Sequence[Role], places: Mapping[Var, Operand], rows: Mapping[Part, Reg]
    ) -> list[Instruction]:
        """Tell a row's join with others than itself in all of its roles: their product is the same."""
        n, totals = roles[0].part.node, self._totals(roles)
        tables = {other: self._table_of[other] for other in rows}
        weights = [self.layout.measure(rows[o], t.table, 0) for o, t in tables.items() if not t.as_set]
        product = self.layout.fresh("product", self.layout.own_width(n, 0))
        body: list[Instruction] = [Compute(product, Math.MULTIPLY, CHANGE, Lit(1))]
        body += [Compute(product, Math.MULTIPLY, product, weight) for weight in weights]
        for role in roles:
            total = totals.get(role.part)
            key = (places[role.variables[v]] for v in entry_words(n))
            if total is None:
                body.append(Call(self.totals.name(n, "base"), (*key, product)))
            else:
                body.append(Compute(total, Math.ADD, total, product))
        return body

    def _told(
        self, part: Part, places: Mapping[Var, Operand], rows: Mapping[Part, Reg], total: Reg | None
    ) -> list[Instruction]:
        """Multiply the change by all rows that it has met, and hand the product to the bag, or add it to a total."""
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
            first = self.layout.atom_change(part.atom, j) if j in part.sums else CHANGE
            body.append(Compute(product, Math.MULTIPLY, first, Lit(1)))
            for other, weight in weights.items():
                factor = self.layout.measure(rows[other], self._table_of[other].table, j) if j in other.sums else weight
                body.append(Compute(product, Math.MULTIPLY, product, factor))
        if total is not None:
            return [*body, Compute(total, Math.ADD, total, products[0])]
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
            if places[its] != places[mine]:
                changed = (If(Test.EQUAL, places[its], places[mine], changed),)
        return weight, [Compute(weight, Math.ADD, counted or Lit(1), Lit(0)), *changed]
