"""Where the program of a triangle keeps what: tables of edges and views, their words, values and registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from everview.kernel.program import (
    MOST_WORDS,
    Add,
    Compute,
    Instruction,
    KeyOf,
    Lit,
    Math,
    Operand,
    Procedure,
    Reg,
    Table,
    ValueOf,
)
from everview.programs.limits import Factor, Limit, Limits
from everview.programs.parts import ThresholdBase
from everview.query.terms import Var
from everview.strategies.triangle.shape import EDGES, Triangle, Words
from everview.strategies.triangle.views import ALL, DESIGNS, Design, Role, View

RELATIONS = ("R", "S", "T")
FIRST, SECOND, WHOLE, BY_KEY = range(4)
"""The indexes of an edge table: by its first corner, by its second, all of it, and single edges."""
TOLD = "told"
PIECE_BITS, BUCKET_BITS = 3, 36
"""A row of the result is the sum of at most 2^3 pieces, and what a tree has of it that of at most 2^36 of its rows."""
Places = Mapping[Var, Operand]


def reg(v: Var) -> Reg:
    """The register of a variable's word."""
    return Reg(f"@{v.name}")


@dataclass
class Layout:
    """The tables of a triangle with sums, and the procedures as they are written.

    Measure 0 is the number of copies, the others are the sums: over products to which each relation gives its factor,
    or its copies if it has none.
    """

    triangle: Triangle
    epsilon: Fraction
    sums: Sequence[Mapping[int, int]]
    """For each sum the relations that have a factor of it, with the words in which that one's change comes."""
    is_set: bool
    most: Mapping[int, int] = field(default_factory=dict)
    """What the measures of a result may be, of those that have a limit."""
    sums_up: bool = False
    """True if the measures of results go into groups, and have as many words as they need."""
    procedures: list[Procedure] = field(default_factory=list)

    @property
    def design(self) -> Design:
        """What is stored."""
        return DESIGNS[self.triangle.arity]

    @cached_property
    def base(self) -> ThresholdBase:
        """N and its thresholds."""
        return ThresholdBase(self.epsilon)

    # --- measures --------------------------------------------------------------------------------------------------

    def own_width(self, relation: int, j: int) -> int:
        """How many words what a relation's edge gives to a measure has: copies have one."""
        return self.sums[j - 1].get(relation, 1) if j else 1

    def sum_width(self, j: int) -> int:
        """How many words a measure has that adds up products over three edges."""
        return min(MOST_WORDS, sum(self.own_width(k, j) for k in range(3)) + 1)

    def width(self, j: int) -> int:
        """How many words a measure has in a view."""
        return 1 if self.counts_edges else self.sum_width(j)

    def told_width(self, j: int) -> int:
        """How many words a measure of a result has in what is told and listed: one, unless groups are made of it."""
        return self.sum_width(j) if self.sums_up and not self.is_set else 1

    def change(self, relation: int, j: int) -> Reg:
        """The register of a measure's change, in what changes a relation."""
        return Reg(f"{RELATIONS[relation]}+{j}", self.own_width(relation, j))

    def own(self, relation: int) -> tuple[int, ...]:
        """The sums that a relation has a factor of."""
        return tuple(j for j, factors in enumerate(self.sums, 1) if relation in factors)

    @property
    def measures(self) -> range:
        """Those of a result's row."""
        return range(1 if self.is_set else 1 + len(self.sums))

    @property
    def counts_edges(self) -> bool:
        """True if views count edges, however many copies these have: their rows need not be weighed."""
        return self.is_set or self.triangle.arity == 3

    def counts_once(self, relation: int) -> bool:
        """True if views count each of a relation's edges once: there are rows under it, which are weighed when read."""
        return self.counts_edges or self.has_rows(relation)

    def given(self, relation: int, j: int) -> int:
        """Which of an edge's numbers it gives to a measure of views: one of its own factors, or 0, its copies or 1."""
        return j if j and not self.counts_once(relation) and relation in self.sums[j - 1] else 0

    def in_views(self, row: Reg, relation: int, j: int) -> Operand:
        """What an edge gives to a measure of views."""
        return Lit(1) if self.counts_once(relation) else self.measure(row, relation, j)

    def carried(self, view: View) -> tuple[int, ...]:
        """The measures that a view keeps."""
        if self.counts_edges:
            return (0,)
        return tuple(j for j in self.measures if j == 0 or any(self.given(k, j) for k in view.relations))

    def measure(self, row: Reg, relation: int, j: int, of_rows: bool = False) -> Operand:
        """What a row of a relation gives to a measure: its sum, or its copies."""
        table = self.rows_table(relation) if of_rows else RELATIONS[relation]
        own = self.own(relation)
        return ValueOf(row, table, 1 + own.index(j) if j in own else 0)

    def kept(self, row: Reg, view: View, j: int) -> ValueOf:
        """What a view has of a measure."""
        carried = self.carried(view)
        return ValueOf(row, view.name, carried.index(j) if j in carried else 0)

    # --- tables ----------------------------------------------------------------------------------------------------

    def key(self, relation: int) -> Words:
        """The variables of an edge."""
        return self.triangle.words(EDGES[relation])

    def side(self, relation: int, column: int) -> Words:
        """The variables by which an index finds a relation's edges."""
        return self.triangle.words(EDGES[relation][column]) if column < WHOLE else ()

    def has_rows(self, relation: int) -> bool:
        """True if there are rows under a relation's edges."""
        return bool(self.triangle.private[relation])

    def rows_table(self, relation: int) -> str:
        """The rows under a relation's edges, where there are such."""
        return f"{RELATIONS[relation]}.rows"

    def rows_key(self, relation: int) -> Words:
        """The variables of a row under an edge."""
        return (*self.key(relation), *self.triangle.private[relation])

    @property
    def tables(self) -> tuple[Table, ...]:
        """All tables."""
        found = [self.base.table]
        for k, name in enumerate(RELATIONS):
            values = ("copies", *(f"sum{j}" for j in self.own(k)))
            widths = (1, *(self.own_width(k, j) for j in self.own(k)))
            key = self.key(k)
            sides = [tuple(map(key.index, self.side(k, column))) for column in (FIRST, SECOND, WHOLE)]
            levels = self.design.levels(k, ALL)[1] + 1
            indexes = (*sides, tuple(range(len(key))))
            found.append(Table(name, _names(key), values, indexes, levels=levels, widths=widths))
            if self.has_rows(k):
                rows = self.rows_key(k)
                under = (tuple(range(len(key))), ())
                found.append(Table(self.rows_table(k), _names(rows), values, under, widths=widths))
        for view in self.design.views:
            found.append(self._view_table(view))
        if self.tells_changes_of_sets:
            found.append(Table(TOLD, _names(self.triangle.outputs), ("derivations",)))
        return (*found, *self.limits.tables)

    def _view_table(self, view: View) -> Table:
        key = self.triangle.words(view.key)
        indexes: tuple[tuple[int, ...], ...] = ((),)
        if view.index is not None:
            indexes = ((), tuple(map(key.index, self.triangle.words(view.index))))
        carried = self.carried(view)
        widths = tuple(map(self.width, carried))
        return Table(view.name, _names(key), tuple(f"measure{j}" for j in carried), indexes, widths=widths)

    @property
    def tells_changes_of_sets(self) -> bool:
        """True if, to tell what changes, derivations must be counted by row: a set that is not all corners."""
        return self.is_set and self.triangle.arity < 3

    def places(self, row: Reg, relation: int) -> Places:
        """The words of an edge's row."""
        return {v: KeyOf(row, RELATIONS[relation], i) for i, v in enumerate(self.key(relation))}

    def view_places(self, row: Reg, view: View) -> Places:
        """The words of a view's row."""
        return {v: KeyOf(row, view.name, i) for i, v in enumerate(self.triangle.words(view.key))}

    def rows_places(self, row: Reg, relation: int) -> Places:
        """The words of a row under an edge."""
        return {v: KeyOf(row, self.rows_table(relation), i) for i, v in enumerate(self.rows_key(relation))}

    # --- pieces of program -----------------------------------------------------------------------------------------

    def added(self, view: View, places: Places, changes: Mapping[int, Operand]) -> Add:
        """Add to a view's row, and take note of measures that may have passed a limit (``programs.limits``)."""
        row = Reg("at")
        key = tuple(places[v] for v in self.triangle.words(view.key))
        noted: tuple[Instruction, ...] = ()
        for j in self.most if self._is_limited(view) else ():
            noted += self.limits.noted(self._factor(view, j), self.kept(row, view, j))
        return Add(row, view.name, key, tuple(changes[j] for j in self.carried(view)), noted, (), noted)

    @cached_property
    def limits(self) -> Limits:
        """What the rows of views, or edges, that a result is made of may be while nobody has to look at it."""
        found = []
        if self.counts_edges and not self.is_set:
            found += [Limit(most, tuple(self._edge_factor(k, j) for k in range(3))) for j, most in self.most.items()]
        for view in filter(self._is_limited, self.design.views):
            bits = PIECE_BITS if view.role is Role.PIECE else PIECE_BITS + BUCKET_BITS
            for j, most in self.most.items():
                rows = (self._edge_factor(0, j),) if self.has_rows(0) else ()
                found.append(Limit(most >> bits, (self._factor(view, j), *rows)))
        return Limits(found)

    def _edge_factor(self, relation: int, j: int) -> Factor:
        """What an edge, or a row under it, gives to a measure of a triangle: its sum, or its copies."""
        own = self.own(relation)
        table = self.rows_table(relation) if self.has_rows(relation) else RELATIONS[relation]
        return Factor(table, f"value{own.index(j) + 1 if j in own else 0}", self.own_width(relation, j), j in own)

    def noted(self, row: Reg, relation: int, of_rows: bool) -> tuple[Instruction, ...]:
        """Take note of what an edge, or a row under one, gives to results as a factor of its own, if large."""
        counts = self.counts_edges or self.has_rows(relation)
        if not counts or self.is_set or self.has_rows(relation) is not of_rows:
            return ()
        factors = {self._edge_factor(relation, j): self.measure(row, relation, j, of_rows) for j in self.most}
        return tuple(i for factor, value in factors.items() for i in self.limits.noted(factor, value))

    def _is_limited(self, view: View) -> bool:
        return view.role in (Role.PIECE, Role.ROOT) and not self.counts_edges

    def _factor(self, view: View, j: int) -> Factor:
        """The measure of a view that counts for a measure of the result: the same, or its copies."""
        kept = self.kept(Reg("at"), view, j)
        words = self.width(self.carried(view)[kept.column])
        return Factor(view.name, f"value{kept.column}", words, is_signed=kept.column > 0)

    def procedure(self, name: str, parameters: Sequence[Reg], body: Sequence[Instruction]) -> str:
        """Write a procedure; gives its name."""
        self.procedures.append(Procedure(name, tuple(parameters), tuple(body)))
        return name


def multiplied(target: Reg, *factors: Operand) -> list[Instruction]:
    """target ← the product of some factors."""
    first, *rest = factors
    body: list[Instruction] = [Compute(target, Math.MULTIPLY, first, rest[0] if rest else Lit(1))]
    return body + [Compute(target, Math.MULTIPLY, target, f) for f in rest[1:]]


def copied(target: Reg, source: Operand) -> Compute:
    """target ← source."""
    return Compute(target, Math.ADD, source, Lit(0))


def _names(words: Words) -> tuple[str, ...]:
    return tuple(v.name for v in words)
