"""Hubs of triangle bags: what two long lists have in common is kept, so neither is walked in vain (triangle.md 18.7).

A changed row of a triangle R(a, b), S(b, c), T(c, a) is joined with the c that S has for b and T has for a: those of
the shorter list are looked up in the other one. Where both lists are long, that may be N steps that find nothing. So a
key with a long list, b of S or a of T, may be *heavy*, and what S and T have in common for two heavy keys is kept as
rows of a table of *wedges*: two sides without the third. Such a join then takes a step for each triangle it finds.

With θ = √N no list is walked that is longer than 3θ/2, and a row of a heavy key changes as many wedges as there are
heavy keys at most, which are O(√N). A key becomes heavy where two lists that long first meet, and light again where an
update leaves it fewer than θ/2 rows; its rows enter and leave the wedges then, for O(√N) steps each, which as many
updates of the key have paid for. A change of N is a change of thresholds alone: keys that are not updated keep what
they are. Of those that were last updated at some θ', each had θ'/2 rows then and has them still, so there are
O(min(θ', N/θ')), and nobody becomes heavy before N has been looked at.

Nothing is kept before two long lists meet: a graph without hubs pays one comparison a join, and a lookup in an empty
table where a row comes or goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from everview.kernel.program import (
    Add,
    Call,
    Compute,
    Count,
    Find,
    If,
    Insert,
    Instruction,
    KeyOf,
    Lit,
    Math,
    Operand,
    Reg,
    Remove,
    Scan,
    Table,
    Test,
)
from everview.programs.parts import ThresholdBase
from everview.query.terms import Var
from everview.strategies.crown.layout import Layout, Words, regs
from everview.strategies.strategy import Gauge, Parts

LONG = 128
"""A list of fewer rows is short whatever N is: it is walked before anybody asks what is heavy."""
EPSILON = Fraction(1, 2)
"""θ = N^ε. The bound of a bag is that of the dial's middle: it has no dial of its own."""
CHECK = "hubs.check"
SOME = "hubs.some"
"""A table that has a row, with their number, if there are heavy keys at all: else nothing more is looked up."""
Block = tuple[Instruction, ...]
Places = Mapping[Var, Operand]


@dataclass(frozen=True)
class Side:
    """One of the two rows of a wedge: a table, and the variables of its columns."""

    table: str
    words: Words


@dataclass(frozen=True)
class Status:
    """The columns of a table by which keys are heavy: those of an end of a wedge."""

    rows: str
    columns: tuple[int, ...]

    @property
    def table(self) -> str:
        """The table of the heavy keys."""
        return f"{self.rows} heavy {','.join(map(str, self.columns))}"


@dataclass(frozen=True)
class Wedge:
    """Two sides that meet in the middle; the rest of their variables are the two ends."""

    table: str
    sides: tuple[Side, Side]
    middle: frozenset[Var]

    @property
    def ends(self) -> Words:
        """The variables by which wedges are looked for."""
        found = (v for side in self.sides for v in side.words if v not in self.middle)
        return tuple(dict.fromkeys(found))

    @property
    def key(self) -> Words:
        """All variables: the ends, then the middle."""
        return (*self.ends, *sorted(self.middle))

    def end(self, side: Side) -> tuple[int, ...]:
        """The columns of a side that are its end."""
        return tuple(i for i, v in enumerate(side.words) if v not in self.middle)

    def status(self, side: Side) -> Status:
        """What makes a side's end heavy."""
        return Status(side.table, self.end(side))


class Hubs:
    """The wedges of a program's bags, and what keeps them; each is kept once, whichever joins look for it."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.base = ThresholdBase(EPSILON, "hubs")
        self._wedges: dict[object, tuple[Wedge, Words]] = {}
        self._words: dict[str, Words] = {}

    # --- what is kept -------------------------------------------------------------------------------------------------

    def wedge(self, sides: tuple[Side, Side], middle: frozenset[Var]) -> tuple[Wedge, dict[Var, Var]]:
        """The wedges of two sides, which may be kept already, and their variables by those that these have there."""
        for one, other in (sides, sides[::-1]):
            order = tuple(dict.fromkeys((*one.words, *other.words)))
            if (known := self._wedges.get(_shape(one, other, order, middle))) is not None:
                return known[0], dict(zip(known[1], order, strict=True))
        one, other = sides
        order = tuple(dict.fromkeys((*one.words, *other.words)))
        wedge = Wedge(f"wedges{len(self._wedges) or ''}", sides, middle)
        self._wedges[_shape(one, other, order, middle)] = wedge, order
        return wedge, {v: v for v in order}

    def declare(self, words: Mapping[str, Words]) -> None:
        """Declare the tables of wedges and of heavy keys, over tables with these words."""
        if self._words:
            return
        self._words = {side.table: words[side.table] for w in self.wedges for side in w.sides}
        for wedge in self.wedges:
            self.layout.plain_table(wedge.table, wedge.key, ())
        for status in self._statuses:
            self.layout.plain_table(status.table, tuple(self._words[status.rows][i] for i in status.columns), ())
        if self._wedges:
            self.layout.plain_table(SOME, (), [("keys", 1)])

    @property
    def wedges(self) -> tuple[Wedge, ...]:
        """All wedges."""
        return tuple(wedge for wedge, _ in self._wedges.values())

    @property
    def tables(self) -> tuple[Table, ...]:
        """The table of the thresholds, if there are any; the layout has the others."""
        return (self.base.table,) if self._wedges else ()

    @property
    def parts(self) -> Parts | None:
        """The numbers of the base, for ``stats``; all are 0 before two long lists have met."""
        if not self._wedges:
            return None
        n, heavy, minor, major, moved = (
            Gauge(self.base.name, (), self.base.column(c)) for c in ("N", "heavy", "minors", "majors", "moved")
        )
        return Parts(self.base.epsilon, n, (heavy,), minor, major, moved)

    @property
    def _statuses(self) -> tuple[Status, ...]:
        return tuple(dict.fromkeys(w.status(side) for w in self.wedges for side in w.sides))

    def _roles(self, status: Status) -> Iterator[tuple[Wedge, Side, Side]]:
        """The wedges that a key's rows are in once it is heavy: as which side, and which is the other one."""
        for wedge in self.wedges:
            one, other = wedge.sides
            for side, far in ((one, other), (other, one)):
                if wedge.status(side) == status:
                    yield wedge, side, far

    # --- what joins and tables call -----------------------------------------------------------------------------------

    def met(self, wedge: Wedge, places: Places, sizes: tuple[Reg, Reg], known: Reg) -> list[Instruction]:
        """``known`` ← 1 if the wedges of two ends are kept, which they are where both lists are long for this N.

        ``sizes`` are the lengths of the lists, of one side and of the other.
        """
        heavy = tuple(
            Call(f"{wedge.status(side).table}.becomes", tuple(places[side.words[i]] for i in wedge.end(side)))
            for side in wedge.sides
        )
        least = self.base.value("light_until")
        both: Block = (*heavy, Compute(known, Math.ADD, Lit(1), Lit(0)))
        tested = If(Test.AT_MOST, least, sizes[0], (If(Test.AT_MOST, least, sizes[1], both),))
        return [Compute(known, Math.ADD, Lit(0), Lit(0)), Call(CHECK), *self.base.opened((tested,))]

    def kept(self, row: Reg, wedge: Wedge, places: Places) -> tuple[tuple[str, int, tuple[Operand, ...]], Places]:
        """Where the wedges of two ends are, as a table, an index and a key, and the words of one in a register."""
        index = self.layout.index(wedge.table, wedge.ends)
        key = wedge.key
        return (
            (wedge.table, index, tuple(places[v] for v in wedge.ends)),
            {v: KeyOf(row, wedge.table, key.index(v)) for v in wedge.middle},
        )

    def entered(self, table: str) -> Block:
        """A row has come into a table: if one of its keys is heavy, wedges come with it."""
        return self._if_heavy(table, "enters")

    def leaving(self, table: str) -> Block:
        """A row will go from a table, and its wedges with it; it is still there."""
        return self._if_heavy(table, "leaves")

    def _if_heavy(self, table: str, verb: str) -> Block:
        found = []
        for status in (s for s in self._statuses if s.rows == table):
            words = regs(self._words[table])
            call = Call(f"{status.table}.{verb}", words)
            found.append(Find(Reg("hub"), status.table, tuple(words[i] for i in status.columns), (call,)))
        return (Find(Reg("some"), SOME, (), tuple(found)),) if found else ()

    # --- procedures ---------------------------------------------------------------------------------------------------

    def write(self) -> None:
        """What the joins and tables call."""
        if not self._wedges:
            return
        self.layout.procedures += self.base.procedures
        self._write_check()
        for status in self._statuses:
            self._write_becomes(status, is_heavy=True)
            self._write_becomes(status, is_heavy=False)
            self._write_row(status, comes=True)
            self._write_row(status, comes=False)

    def _write_check(self) -> None:
        """N follows the number of rows in the tables: ⌊N/4⌋ ≤ |D| < N, before anything is done by its thresholds."""
        size, more = Reg("size"), Reg("rows")
        body: list[Instruction] = [Compute(size, Math.ADD, Lit(0), Lit(0))]
        for table in self._words:
            body += [
                Count(more, table, self.layout.index(table, ()), (), 0),
                Compute(size, Math.ADD, size, more),
            ]
        body.append(Compute(size, Math.SUBTRACT, size, self.base.value("size")))
        body += [*self.base.counted("size", size), *self.base.checked(())]
        self.layout.procedure(CHECK, (), self.base.opened(tuple(body)))

    def _write_becomes(self, status: Status, is_heavy: bool) -> None:
        """A key becomes heavy, or light: its rows enter wedges, or leave them; nobody has to be told.

        It is among the heavy keys meanwhile, as it may be both ends of a wedge.
        """
        key = tuple(Reg(f"@{i}") for i in status.columns)
        row, hub, degree = Reg("row"), Reg("hub"), Reg("degree")
        index = self._index(status.rows, status.columns)
        moved: list[Instruction] = []
        for wedge, side, far in self._roles(status):
            places: Places = {v: KeyOf(row, side.table, i) for i, v in enumerate(side.words)}
            moved.append(Scan(row, side.table, index, key, 0, self._changed(wedge, far, places, is_heavy)))
        one = Lit(1 if is_heavy else -1)
        counted: Block = (
            Add(Reg("some"), SOME, (), (one,)),
            *self.base.counted("heavy", one),
            *self.base.counted("minors", Lit(1)),
            Count(degree, status.rows, index, key, 0),
            *self.base.counted("moved", degree),
        )
        if is_heavy:
            body = Find(hub, status.table, key, (), (Insert(hub, status.table, key), *counted, *moved))
        else:
            body = Find(hub, status.table, key, (*moved, *counted, Remove(hub, status.table)))
        name = f"{status.table}.{'becomes' if is_heavy else 'ceases'}"
        self.layout.procedure(name, key, self.base.opened((body,)))

    def _write_row(self, status: Status, comes: bool) -> None:
        """A row of a heavy key comes or goes: it enters its wedges or leaves them, unless the key becomes light."""
        words = self._words[status.rows]
        own = regs(words)
        key = tuple(own[i] for i in status.columns)
        degree = Reg("degree")
        body: list[Instruction] = []
        for wedge, side, far in self._roles(status):
            body += self._changed(wedge, far, dict(zip(side.words, own, strict=True)), comes)
        counted: list[Instruction] = [Count(degree, status.rows, self._index(status.rows, status.columns), key, 0)]
        if not comes:
            counted.append(Compute(degree, Math.SUBTRACT, degree, Lit(1)))
        light = (Call(f"{status.table}.ceases", key),)
        tested = self.base.if_too_light(degree, light, tuple(body))
        verb = "enters" if comes else "leaves"
        self.layout.procedure(f"{status.table}.{verb}", own, self.base.opened((*counted, tested)))

    def _changed(self, wedge: Wedge, far: Side, places: Places, comes: bool) -> Block:
        """The wedges of a row whose own end is heavy: with the far rows in the middle whose ends are heavy, too.

        They are found by the shorter of two ways: the far rows in the middle, or the heavy keys.
        """
        status = wedge.status(far)
        row, hub = Reg("far"), Reg("heavy")
        n_rows, n_hubs = Reg("n_rows"), Reg("n_hubs")

        def put(more: Places) -> Block:
            known = {**more, **places}
            at, key = Reg("wedge"), tuple(known[v] for v in wedge.key)
            if comes:
                return (Find(at, wedge.table, key, (), (Insert(at, wedge.table, key),)),)
            return (Find(at, wedge.table, key, (Remove(at, wedge.table),)),)

        def key_of(columns: Sequence[int], known: Places) -> tuple[Operand, ...]:
            return tuple(known[far.words[i]] for i in columns)

        bound = tuple(i for i, v in enumerate(far.words) if v in places)
        shared = tuple(i for i in status.columns if i in bound)
        of_row: Places = {v: KeyOf(row, far.table, i) for i, v in enumerate(far.words)}
        of_hub: Places = {far.words[c]: KeyOf(hub, status.table, i) for i, c in enumerate(status.columns)}
        rows = self._index(far.table, bound), key_of(bound, places)
        hubs = self._index_of_hubs(status, shared), key_of(shared, places)
        key = key_of(status.columns, {**of_row, **places})
        by_rows = Scan(row, far.table, *rows, 0, (Find(hub, status.table, key, put(of_row)),))
        edge = key_of(range(len(far.words)), {**of_hub, **places})
        by_hubs = Scan(hub, status.table, *hubs, 0, (Find(Reg("edge"), far.table, edge, put(of_hub)),))
        return (
            Count(n_rows, far.table, *rows, 0),
            Count(n_hubs, status.table, *hubs, 0),
            If(Test.AT_MOST, n_rows, n_hubs, (by_rows,), (by_hubs,)),
        )

    def _index(self, table: str, columns: Sequence[int]) -> int:
        return self.layout.index(table, tuple(self._words[table][i] for i in columns))

    def _index_of_hubs(self, status: Status, columns: Sequence[int]) -> int:
        return self.layout.index(status.table, tuple(self._words[status.rows][i] for i in columns))


def _shape(one: Side, other: Side, order: Words, middle: frozenset[Var]) -> object:
    """What two sides are whatever their variables are called."""
    patterns = tuple((s.table, tuple(map(order.index, s.words))) for s in (one, other))
    return patterns, frozenset(map(order.index, middle))
