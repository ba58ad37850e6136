"""What a count keeps beside itself: sums of products, in which the factors of some relations stand for their copies.

Number 0 of the *measures* is the count: a sum over all results of the product of their rows' copies. Each other one is
a sum of the same kind, in which a relation that has a factor of it gives the sum of that factor over its rows instead.
So all measures are computed alike (triangle.md 18.2); as the count, which is never below 0, says whether there is
anything, sums may cancel out. Where some relations have the same factors of several measures, it is kept once what
these relations give to them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from everview.kernel.program import MOST_WORDS, Compute, Instruction, Lit, Math, Operand, Reg, Table, ValueOf
from everview.query.terms import Var
from everview.strategies.strategy import Sum

Key = tuple[Operand, ...]


@dataclass(frozen=True)
class Stored:
    """A relation of a count: an atom's rows by the variables that others share, its other columns summed out."""

    relation: str
    """The name of the table that its updates come from."""
    atom: int
    words: tuple[Var, ...]
    serves: tuple[int, ...] = ()
    """The other atoms that the same rows stand for."""

    @property
    def table(self) -> str:
        """Its table's name."""
        return f"{self.relation}{self.atom}"

    def places(self, words: Sequence[Var]) -> tuple[int, ...]:
        """Where some of its variables stand."""
        return tuple(self.words.index(v) for v in words)


def multiplied(target: Reg, factors: Sequence[Operand]) -> list[Instruction]:
    """target ← the product of some factors."""
    first, *rest = factors
    body: list[Instruction] = [Compute(target, Math.MULTIPLY, first, rest[0] if rest else Lit(1))]
    return body + [Compute(target, Math.MULTIPLY, target, f) for f in rest[1:]]


def table_of(name: str, key: Sequence[str], widths: Sequence[int], indexes: Sequence[tuple[int, ...]] = ()) -> Table:
    """A table of numbers of so many words by some words, the first of which is a weight."""
    values = ("weight", *(f"sum{i}" for i in range(1, len(widths))))
    return Table(name, tuple(key), values, tuple(indexes), widths=tuple(widths) if max(widths) > 1 else ())


class Measures:
    """The measures of a count over some relations, with these sums beside it."""

    def __init__(self, relations: Sequence[Stored], sums: Sequence[Sum]) -> None:
        self.relations = tuple(relations)
        self.sums = tuple(sums)
        self.measures = range(1 + len(sums))
        self._kept: dict[tuple[Stored, ...], dict[tuple[Hashable, ...], int]] = {}

    def factor(self, s: int, atom: int) -> Hashable:
        """What an atom gives to a measure: None for its copies."""
        if s == 0 or atom not in self.sums[s - 1].factors:
            return None
        return self.sums[s - 1].kinds.get(atom, (s, atom))

    def _factors(self, s: int, relations: Iterable[Stored]) -> tuple[Hashable, ...]:
        return tuple(self.factor(s, r.atom) for r in relations)

    def kept(self, relations: Sequence[Stored]) -> tuple[int, ...]:
        """The measures that are kept of products of rows of some relations, the count first: one of those alike."""
        return tuple(self._by_factors(tuple(relations)).values())

    def place(self, s: int, relations: Sequence[Stored]) -> int:
        """Where a measure is found among those that are kept."""
        return list(self._by_factors(tuple(relations))).index(self._factors(s, relations))

    def _by_factors(self, relations: tuple[Stored, ...]) -> dict[tuple[Hashable, ...], int]:
        if relations not in self._kept:
            found: dict[tuple[Hashable, ...], int] = {}
            for s in self.measures:
                found.setdefault(self._factors(s, relations), s)
            self._kept[relations] = found
        return self._kept[relations]

    @property
    def atoms(self) -> tuple[int, ...]:
        """The atoms whose rows a result is made of."""
        return tuple(atom for r in self.relations for atom in (r.atom, *r.serves))

    def width(self, s: int, atoms: Iterable[int]) -> int:
        """How many words a measure of products over some atoms has: those of each one's factor, or its copies'."""
        factors = self.sums[s - 1].factors if s else {}
        return min(MOST_WORDS, sum(factors.get(atom, 1) for atom in atoms))

    def others(self, own: Stored) -> tuple[Stored, ...]:
        """All relations but one."""
        return tuple(r for r in self.relations if r is not own)

    def asked(self, own: Stored, s: int) -> Reg:
        """The register of what the other relations have for a row of one, of a measure."""
        others = self.others(own)
        first = self.kept(others)[self.place(s, others)]
        return Reg(f"q{first}", max(self.width(first, (o.atom for o in self.others(r))) for r in self.relations))

    def all_asked(self, own: Stored) -> dict[int, Reg]:
        """All such registers, by the measures that are kept."""
        return {s: self.asked(own, s) for s in self.kept(self.others(own))}

    def changed_by(self, changes: Key, stored: Stored, s: int) -> Operand:
        """What a row's change gives to a measure."""
        return changes[self.place(s, (stored,))]

    def row_widths(self, stored: Stored) -> tuple[int, ...]:
        """Of how many words each number of a row is."""
        return tuple(self.width(s, (stored.atom,)) for s in self.kept((stored,)))

    def view_of(self, name: str, key: Sequence[str], relations: Sequence[Stored]) -> Table:
        """A table of sums of products over some relations, by some words."""
        return table_of(name, key, [self.width(s, (r.atom for r in relations)) for s in self.kept(relations)])

    def value(self, row: Reg, stored: Stored, s: int) -> ValueOf:
        """What a stored row gives to a measure."""
        return ValueOf(row, stored.table, self.place(s, (stored,)))

    def in_view(self, row: Reg, name: str, relations: Sequence[Stored], s: int) -> ValueOf:
        """What a row of a view over some relations gives to a measure."""
        return ValueOf(row, name, self.place(s, relations))
