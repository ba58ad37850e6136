"""The hidden part: weights are summed by key and handed up, until they reach a shown node (crown.md 9)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from everview.kernel.program import (
    Add,
    Call,
    Compute,
    Find,
    If,
    Instruction,
    Lit,
    Math,
    Operand,
    Reg,
    Scan,
    Test,
)
from everview.query.terms import Var
from everview.strategies.crown.extremes import Extremes
from everview.strategies.crown.factors import multiplied
from everview.strategies.crown.layout import ROW, Layout, Node, Words, reg, regs
from everview.strategies.strategy import value_variable

Changes = Mapping[int, Operand]
"""The change of each measure; 0 is the count."""


class Totals:
    """Writes how a relation's rows and hidden totals change, children before parents."""

    def __init__(self, layout: Layout, with_deltas: bool, extremes: Extremes) -> None:
        self.layout = layout
        self.extremes = extremes
        self.tag = "!" if with_deltas else ""

    def name(self, n: Node, verb: str) -> str:
        """A procedure's name; ! marks those with deltas."""
        return f"{n.label}.{verb}{self.tag}"

    def write(self) -> None:
        """``change`` for each hidden node; ``base`` for each relation, into which its rows come."""
        for n in self.layout.nodes:
            if n.output is None:
                changes = self.layout.own_changes(n) if n.alike else self.layout.changes(n)
                through = partial(self._through, n)
                if n.alike:
                    body = self._moved(n, through)
                else:
                    flipped = self.extremes.flipped_below(n)
                    body = self.kept(n.sum_table, n.key, self.layout.carried_sums(n), changes, through, flipped)
                self.layout.procedure(self.name(n, "change"), (*regs(n.key), *changes), body)
        for n in self.layout.nodes:
            if not n.is_generalized and n not in self.layout.shared_with:
                values = (reg(value_variable(i)) for i in self.extremes.values_at(n))
                parameters = (*regs(entry_words(n)), *self.layout.own_changes(n), *values)
                self.layout.procedure(self.name(n, "base"), parameters, [*self._base(n), *self.extremes.came(n)])

    def _base(self, n: Node) -> list[Instruction]:
        """A relation's own rows change; where nothing is hidden below it, they need not be kept."""
        own = self.layout.own_changes(n)
        if not n.hidden:
            return [Call(self.name(n, "change"), (*regs(n.handed), *own))]
        places: dict[Var, Operand] = {v: reg(v) for v in n.stored}
        sums = self.layout.own_sums(n)
        return self.kept(
            n.row_table,
            n.stored,
            sums,
            own,
            lambda changes: self._weigh(n, None, places, changes, None),
            self.extremes.flipped(n),
        )

    def kept(
        self,
        table: str,
        words: Words,
        sums: Sequence[int],
        given: Sequence[Operand],
        then: Callable[[Changes], Iterator[Instruction]],
        flipped: Sequence[Instruction] = (),
    ) -> list[Instruction]:
        """Add the changes to a stored row and hand them on: for sets only a coming or going, as ±1.

        Once that is done, ``flipped`` is run if the row has come or gone; of a set it is nothing.
        """
        changes = dict(zip((0, *sums), given, strict=True))
        key, added = regs(words), self.layout.added(table, changes)
        if self.layout.is_set:
            return [Add(ROW, table, key, added, tuple(then({0: Lit(1)})), tuple(then({0: Lit(-1)})))]
        if not flipped:
            return [Add(ROW, table, key, added), *then(changes)]
        come, run = _flips(flipped)
        return [*_STAYS, Add(ROW, table, key, added, come, come), *then(changes), *run]

    def _moved(self, n: Node, then: Callable[[Changes], Iterator[Instruction]]) -> list[Instruction]:
        """The same for atoms alike: their products have changed once a row of theirs has."""
        measures = (0, *self.layout.carried_sums(n))
        changes = {j: self.layout.change(n, j) for j in measures}
        nothing = (Compute(change, Math.ADD, Lit(0), Lit(0)) for change in changes.values())
        came, went, stays = self.layout.factors.moved(n, ROW, measures)
        flipped = self.extremes.flipped_below(n)
        flip, run = _flips(flipped) if flipped else ((), ())
        added = Add(ROW, n.sum_table, regs(n.key), self.layout.own_changes(n), (*came, *flip), (*went, *flip), stays)
        return [*nothing, *_STAYS, added, *then(changes), *run] if flipped else [*nothing, added, *then(changes)]

    def _through(self, child: Node, changes: Changes) -> Iterator[Instruction]:
        """A hidden total has changed: every row of the parent with that key changes its weight in proportion."""
        n = child.parent
        assert n is not None
        if n.is_generalized:
            places: dict[Var, Operand] = {v: reg(v) for v in child.key}
            yield from self._weigh(n, child, places, changes, None)
            return
        row = Reg(f"row{n.number}")
        places = {v: self.layout.word(row, n.row_table, v) for v in n.stored}
        index = self.layout.index(n.row_table, child.key)
        yield Scan(row, n.row_table, index, regs(child.key), 0, tuple(self._weigh(n, child, places, changes, row)))

    def _weigh(
        self, n: Node, changed: Node | None, places: Mapping[Var, Operand], changes: Changes, row: Reg | None
    ) -> Iterator[Instruction]:
        """Multiply a change by all else that a row of ``n`` is weighed by, and hand the product on.

        ``changed`` is the hidden child whose total changed, None if it is the row itself; ``row`` is the stored row,
        None where there is none (a generalized node) or the row itself is what changed. Nothing happens if another
        hidden child has no match.
        """
        others = [c for c in n.hidden if c is not changed]
        rows = {c: Reg(f"sum{c.number}") for c in others}
        measures = (0,) if self.layout.is_set else (0, *self.layout.carried_sums(n))
        body: list[Instruction] = []
        products = []
        for j in measures:
            product = self.layout.fresh("product", self.layout.width(n, j))
            products.append(product)
            body += multiplied(product, self._factors(n, j, changes, row, rows))
        body.append(Call(self.name(n, "change"), (*(places[v] for v in n.handed), *products)))
        inner = tuple(body)
        for child in reversed(others):
            key = tuple(places[v] for v in child.key)
            inner = (Find(rows[child], child.sum_table, key, inner),)
        yield from inner

    def _factors(self, n: Node, j: int, changes: Changes, row: Reg | None, others: Mapping[Node, Reg]) -> list[Operand]:
        """The change (of the sum, if it is what changed), the row, and the other totals; one of them gives the sum."""
        factors = [changes.get(j, changes[0])]
        if self.layout.is_set:
            return factors
        if row is not None:
            own = j if j in self.layout.own_sums(n) else 0
            factors.append(self.layout.measure(row, n.row_table, own))
        for child, at in others.items():
            factors += self.layout.factors.of(at, child, j)
        return factors


_FLIP = Reg("flip")
_STAYS = (Compute(_FLIP, Math.ADD, Lit(0), Lit(0)),)


def _flips(flipped: Sequence[Instruction]) -> tuple[tuple[Instruction, ...], tuple[Instruction, ...]]:
    """What notes that a row comes or goes, and what is to be done in the end if one has."""
    run = If(Test.NOT_EQUAL, _FLIP, Lit(0), tuple(flipped))
    return (Compute(_FLIP, Math.ADD, Lit(1), Lit(0)),), (run,)


def entry_words(n: Node) -> Words:
    """The variables with which a relation's rows come in."""
    return n.stored if n.hidden else n.handed
