"""The count of paths over four relations, R(a, b), S(b, c), T(c, d), U(d, e), by heavy and light keys (section 18.4).

With r(b) and u(d) for the sums of R and U over their ends, the count is Σ r(b) S(b, c) T(c, d) u(d). b is heavy or
light in S, d in T, and c is *jointly heavy* if it is heavy in S or in T. Kept are

    x(c) = Σ r S over all b,       y(c) = Σ T u over all d          for jointly heavy c
    xL(c) = Σ r S over light b,    yL(c) = Σ T u over light d       for jointly light c
    M(b, d) = Σ S T over jointly light c                            where b or d is heavy
    W(b) = Σ M u over light d, for heavy b;    W'(d) = Σ r M over light b, for heavy d

The path turned round is a path, so every procedure is written once for both ends: ``near`` is r or u, ``mid`` S or T.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from everview.kernel.program import (
    Add,
    Compute,
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
from everview.strategies.strategy import Sum
from everview.strategies.triangle.count_measures import Key, Stored, multiplied
from everview.strategies.triangle.count_program import Block, CountProgram, Status, zero

Factor = Callable[[int], Operand]
"""A factor of a product: what it has for a measure."""
MIDDLE = "middle"


@dataclass(frozen=True)
class End:
    """One half of the path: its outer relation, its inner one, and where they keep what."""

    near: Stored
    mid: Stored
    end: tuple[int, ...]
    """The columns of ``mid`` that ``near`` has, too."""
    centre: tuple[int, ...]
    """The columns of ``mid`` in the middle of the path."""
    is_first: bool

    @property
    def heavy(self) -> str:
        """x or y."""
        return "x" if self.is_first else "y"

    @property
    def light(self) -> str:
        """The same of light ends."""
        return f"{self.heavy}L"

    @property
    def over(self) -> str:
        """W or W'."""
        return "W" if self.is_first else "W'"


class FourPath(CountProgram):
    """The count over four relations in a row."""

    def __init__(self, relations: Sequence[Stored], sums: Sequence[Sum], base: ThresholdBase) -> None:
        super().__init__(relations, sums, base)
        r, s, t, u = self.relations

        def half(near: Stored, mid: Stored, is_first: bool) -> End:
            ends = tuple(i for i, v in enumerate(mid.words) if v in near.words)
            return End(near, mid, ends, tuple(i for i in range(len(mid.words)) if i not in ends), is_first)

        self.ends = half(r, s, True), half(u, t, False)
        self._of_end = {e: Status(e.mid, e.end) for e in self.ends}
        self._of_centre = {e: Status(e.mid, e.centre) for e in self.ends}
        self._over: dict[str, tuple[Stored, ...]] = {MIDDLE: (s, t)}
        for one, other in (self.ends, self.ends[::-1]):
            self._over[one.heavy] = self._over[one.light] = (one.near, one.mid)
            self._over[one.over] = (one.mid, other.mid, other.near)

    @property
    def statuses(self) -> tuple[Status, ...]:
        """Both ends' and both relations' of the centre."""
        return (*self._of_end.values(), *self._of_centre.values())

    def _table(self, view: str, key: Sequence[str]) -> Table:
        return self.view_of(view, key, self._over[view])

    @property
    def views(self) -> tuple[Table, ...]:
        """x, xL and W of both ends, and M."""
        found = []
        for e in self.ends:
            centre = [str(e.mid.words[i]) for i in e.centre]
            found += [self._table(name, centre) for name in (e.heavy, e.light)]
            found.append(self._table(e.over, [str(e.mid.words[i]) for i in e.end]))
        names = [f"{e.heavy} {e.mid.words[i]}" for e in self.ends for i in e.end]
        return (*found, self._table(MIDDLE, names))

    # --- factors -----------------------------------------------------------------------------------------------------

    def _in_row(self, row: Reg, stored: Stored) -> Factor:
        return lambda s: self.value(row, stored, s)

    def _in_view(self, row: Reg, view: str) -> Factor:
        return lambda s: self.in_view(row, view, self._over[view], s)

    def _of_change(self, stored: Stored, changes: Key) -> Factor:
        return lambda s: self.changed_by(changes, stored, s)

    def _plus_q(self, own: Stored, *factors: Factor) -> Block:
        """Add a product to what an update counts."""
        body: list[Instruction] = []
        for s, q in self.all_asked(own).items():
            product = Reg(f"product{s}", q.words)
            body += [*multiplied(product, [f(s) for f in factors]), Compute(q, Math.ADD, q, product)]
        return tuple(body)

    def _add(self, view: str, key: Key, *factors: Factor) -> Block:
        """Add a product to a view."""
        over = self._over[view]
        targets = {s: Reg(f"{view}+{s}", self.width(s, (r.atom for r in over))) for s in self.kept(over)}
        body = [i for s, t in targets.items() for i in multiplied(t, [f(s) for f in factors])]
        return (*body, Add(Reg(f"row {view}"), view, key, tuple(targets.values())))

    # --- walks -------------------------------------------------------------------------------------------------------

    def _pair(self, e: End, mine: Key, others: Key) -> Key:
        """A key of M from this end's and the other end's words."""
        return (*mine, *others) if e.is_first else (*others, *mine)

    def _if_joint(self, centre: Key, heavy: Block, light: Block) -> Block:
        """Whether the centre is heavy in either relation."""
        joint = Reg("joint")
        asked = [Find(Reg("status"), self._of_centre[e].table, centre, (zero(joint, 1),)) for e in self.ends]
        return (zero(joint), *asked, If(Test.EQUAL, joint, Lit(1), heavy, light))

    def _heavy_centres(self, e: End, end: Key, then: Callable[[Key], Block]) -> Block:
        """The rows of an end whose centre is jointly heavy, in register ``mid``: of heavy centres, those there are."""
        one, other = self._of_centre[e], self._of_centre[self._other(e)]
        hub, row = Reg("hub"), Reg("mid")
        body: list[Instruction] = []
        for status, besides in ((one, None), (other, one)):
            centre = tuple(KeyOf(hub, status.table, i) for i in range(len(status.columns)))
            found: Block = (Find(row, e.mid.table, self._mid_key(e, end, centre), then(centre)),)
            if besides is not None:
                found = (Find(Reg("besides"), besides.table, centre, (), found),)
            body.append(Scan(hub, status.table, 0, (), 0, found))
        return tuple(body)

    def _light_centres(self, e: End, end: Key, then: Callable[[Key], Block]) -> Block:
        """The rows of an end whose centre is jointly light, in register ``mid``."""
        row = Reg("mid")
        centre = tuple(self.word(row, e.mid, i) for i in e.centre)
        return (self.scanned(row, e.mid, e.end, end, self._if_joint(centre, (), then(centre))),)

    def _mid_key(self, e: End, end: Key, centre: Key) -> Key:
        words: dict[int, Operand] = {**dict(zip(e.end, end, strict=True)), **dict(zip(e.centre, centre, strict=True))}
        return tuple(words[i] for i in range(len(words)))

    def _other(self, e: End) -> End:
        return self.ends[1] if e is self.ends[0] else self.ends[0]

    def _heavy_ends(self, e: End, then: Callable[[Key], Block]) -> Block:
        """The heavy keys of an end."""
        table, hub = self._of_end[e].table, Reg("hub")
        return (Scan(hub, table, 0, (), 0, then(tuple(KeyOf(hub, table, i) for i in range(len(e.end))))),)

    # --- updates -----------------------------------------------------------------------------------------------------

    def changed(self, stored: Stored, words: Key, changes: Key) -> Block:
        """What a row of r or u, or of S or T, counts."""
        reset = self.nothing_asked(stored)
        for e in self.ends:
            if stored is e.near:
                return (*reset, *self._near_counts(e, words))
            if stored is e.mid:
                return (*reset, *self._mid_counts(e, words))
        raise AssertionError(stored)

    def _near_counts(self, e: End, end: Key) -> Block:
        other, own, row = self._other(e), e.near, Reg("row")
        mid = self._in_row(Reg("mid"), e.mid)

        def through(view: str) -> Callable[[Key], Block]:
            return lambda centre: (Find(row, view, centre, self._plus_q(own, mid, self._in_view(row, view))),)

        def far(theirs: Key) -> Block:
            pair, last = Reg("pair"), Reg("last")
            counted = self._plus_q(own, self._in_view(pair, MIDDLE), self._in_row(last, other.near))
            return (Find(pair, MIDDLE, self._pair(e, end, theirs), (Find(last, other.near.table, theirs, counted),)),)

        over = (Find(row, e.over, end, self._plus_q(own, self._in_view(row, e.over))),)
        light = self._light_centres(e, end, through(other.light))
        return (
            *self._heavy_centres(e, end, through(other.heavy)),
            *self._heavy_ends(other, far),
            Find(Reg("status"), self._of_end[e].table, end, over, light),
        )

    def _mid_counts(self, e: End, words: Key) -> Block:
        other, own = self._other(e), e.mid
        end, centre = tuple(words[i] for i in e.end), tuple(words[i] for i in e.centre)
        first, row, step, last = Reg("first"), Reg("row"), Reg("step"), Reg("last")
        near = self._in_row(first, e.near)
        theirs = tuple(self.word(step, other.mid, i) for i in other.end)
        walked = self._plus_q(own, near, self._in_row(step, other.mid), self._in_row(last, other.near))
        walk = self.scanned(step, other.mid, other.centre, centre, (Find(last, other.near.table, theirs, walked),))
        read = Find(row, other.heavy, centre, self._plus_q(own, near, self._in_view(row, other.heavy)))
        return (Find(first, e.near.table, end, self._if_joint(centre, (read,), (walk,))),)

    def viewed(self, stored: Stored, words: Key, changes: Key) -> Block:
        """What a row adds to the views."""
        for e in self.ends:
            if stored is e.near:
                return self._near_views(e, words, self._of_change(stored, changes))
            if stored is e.mid:
                return self._mid_views(e, words, self._of_change(stored, changes), both=True)
        raise AssertionError(stored)

    def _near_views(self, e: End, end: Key, change: Factor) -> Block:
        other, mid, pair = self._other(e), self._in_row(Reg("mid"), e.mid), Reg("pair")
        heavy = self._heavy_centres(e, end, lambda centre: self._add(e.heavy, centre, change, mid))
        far = self._heavy_ends(
            other,
            lambda theirs: (
                Find(
                    pair,
                    MIDDLE,
                    self._pair(e, end, theirs),
                    self._add(other.over, theirs, change, self._in_view(pair, MIDDLE)),
                ),
            ),
        )
        light = (*self._light_centres(e, end, lambda centre: self._add(e.light, centre, change, mid)), *far)
        return (*heavy, Find(Reg("status"), self._of_end[e].table, end, (), light))

    def _mid_views(self, e: End, words: Key, change: Factor, both: bool) -> Block:
        """What a row of S or T adds; without ``both`` only to what the other of them has no part in."""
        other = self._other(e)
        end, centre = tuple(words[i] for i in e.end), tuple(words[i] for i in e.centre)
        first, step, row, heavy = Reg("first"), Reg("step"), Reg("row"), Reg("heavy")
        near, theirs = self._in_row(first, e.near), tuple(self.word(step, other.mid, i) for i in other.end)
        two = (change, self._in_row(step, other.mid))
        to_pair = self._add(MIDDLE, self._pair(e, end, theirs), *two)
        to_other = (Find(first, e.near.table, end, self._add(other.over, theirs, near, *two)),)
        is_light = If(Test.EQUAL, heavy, Lit(0), to_other, ())
        paired = (
            Find(
                Reg("theirs"),
                self._of_end[other].table,
                theirs,
                (*to_pair, is_light),
                (If(Test.EQUAL, heavy, Lit(1), to_pair),),
            ),
        )
        pairs = self.scanned(step, other.mid, other.centre, centre, paired)
        summed = (Find(row, other.light, centre, self._add(e.over, end, change, self._in_view(row, other.light))),)
        own = (Find(first, e.near.table, end, self._add(e.light, centre, near, change)),)
        light: Block = (
            zero(heavy),
            Find(Reg("status"), self._of_end[e].table, end, (zero(heavy, 1),)),
            *((pairs,) if both else ()),
            If(Test.EQUAL, heavy, Lit(1), summed if both else (), own),
        )
        return self._if_joint(
            centre, (Find(first, e.near.table, end, self._add(e.heavy, centre, near, change)),), light
        )

    # --- rebalancing -------------------------------------------------------------------------------------------------

    def flipped(self, status: Status, key: Key, sign: Reg) -> Block:
        """An end's rows leave and enter all views; a centre's only if the other relation does not have it heavy.

        All that goes through a centre has a row of S, or of T alone: the rows of S leave first, while what T alone has
        is still as it was, and enter last.
        """
        e = next(e for e in self.ends if e.mid is status.stored)
        if status == self._of_end[e]:
            return self.rows_of(status, key, sign)
        first, second = self.ends
        rows = self.rows_of(self._of_centre[first], key, sign)
        alone = self._alone(second, key, sign)
        leaving, entering = (*rows, *alone), (*alone, *rows)
        moved = If(Test.EQUAL, sign, Lit(-1), leaving, entering)
        return (Find(Reg("joint status"), self._of_centre[self._other(e)].table, key, (), (moved,)),)

    def _alone(self, e: End, centre: Key, sign: Reg) -> Block:
        row = Reg("moved row")
        signed, values = self.moved(row, e.mid, sign)
        words = tuple(self.word(row, e.mid, i) for i in range(len(e.mid.words)))
        own = self._mid_views(e, words, self._of_change(e.mid, values), both=False)
        return (self.scanned(row, e.mid, e.centre, centre, (*signed, *own)),)
