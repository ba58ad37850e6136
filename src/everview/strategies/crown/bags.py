"""Bags of cyclic queries: their atoms are kept, and each change is joined with the others (crown.md 8)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from everview.kernel.program import Call, Compute, Instruction, Lit, Math, Operand, Reg, Scan
from everview.query.terms import Var
from everview.strategies.crown.layout import Layout, Node, Words, changes_of, reg, regs
from everview.strategies.crown.plan import Relation
from everview.strategies.crown.totals import Changes, Totals, entry_words


@dataclass(frozen=True)
class Part:
    """An atom of a bag, or a guard: an atom that only bounds variables there, as a set."""

    atom: int
    is_guard: bool
    table: str
    words: Words
    sums: tuple[int, ...]


class Bags:
    """Writes the procedures by which atoms change the bags that hold them."""

    def __init__(self, layout: Layout, totals: Totals) -> None:
        self.layout = layout
        self.totals = totals

    def write(self, n: Node, relation: Relation) -> Iterator[tuple[Part, str]]:
        """The parts of a bag, each with the procedure that takes its changes."""
        parts = [self._part(n, relation, i, False) for i in relation.atoms]
        parts += [self._part(n, relation, i, True) for i in relation.guards]
        for part in parts:
            if part.table not in {t.name for t in self.layout.tables()}:
                self.layout.table(part.table, part.words, ("weight", *(f"sum{j}" for j in part.sums)))
        for part in parts:
            others = [p for p in parts if p is not part]
            body = self.totals.kept(
                part.table,
                part.words,
                part.sums,
                partial(self._joined, n, part, others),
                as_set=self.layout.is_set or part.is_guard,
            )
            name = f"{part.table}{self.totals.tag}"
            yield part, self.layout.procedure(name, (*regs(part.words), *changes_of(part.sums)), body)

    def _part(self, n: Node, relation: Relation, atom: int, is_guard: bool) -> Part:
        """Of an atom's variables only those count that the bag hands on or that others of the bag share."""
        edges = self.layout.plan.query.edges
        everyone = [*((i, False) for i in relation.atoms), *((i, True) for i in relation.guards)]
        others = frozenset().union(*(edges[i] for i, g in everyone if (i, g) != (atom, is_guard)))
        wanted = relation.variables & (others | frozenset(entry_words(n)))
        sums = tuple(j for j, source in enumerate(self.layout.source_atoms, 1) if source == atom and not is_guard)
        kind = "guard" if is_guard else "part"
        return Part(atom, is_guard, f"{n.label}.{kind}{atom}", tuple(sorted(edges[atom] & wanted)), sums)

    def _joined(self, n: Node, part: Part, others: list[Part], changes: Changes) -> Iterator[Instruction]:
        """Join a changed row with the bag's other atoms, the best bound one first, by their indexes."""
        places: dict[Var, Operand] = {v: reg(v) for v in part.words}
        rest = list(others)
        loops: list[tuple[Reg, Part, int, tuple[Operand, ...]]] = []
        while rest:
            best = max(rest, key=lambda p: (len(places.keys() & set(p.words)), -len(p.words)))
            rest.remove(best)
            row = self.layout.fresh("join")
            bound = tuple(v for v in best.words if v in places)
            key = tuple(places[v] for v in bound)
            loops.append((row, best, self.layout.index(best.table, bound), key))
            places.update({v: self.layout.word(row, best.table, v) for v in best.words if v not in places})
        body: list[Instruction] = []
        products = []
        for j in (0,) if self.layout.is_set else (0, *self.layout.own_sums(n)):
            product = self.layout.fresh("product")
            products.append(product)
            body.append(Compute(product, Math.MULTIPLY, changes.get(j, changes[0]), Lit(1)))
            for row, other, _, _ in loops:
                if not self.layout.is_set and not other.is_guard:
                    measure = self.layout.measure(row, other.table, j if j in other.sums else 0)
                    body.append(Compute(product, Math.MULTIPLY, product, measure))
        arguments = (*(places[v] for v in entry_words(n)), *products)
        inner: tuple[Instruction, ...] = (*body, Call(self.totals.name(n, "base"), arguments))
        for row, other, index, key in reversed(loops):
            inner = (Scan(row, other.table, index, key, 0, inner),)
        yield from inner
