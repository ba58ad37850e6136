"""Moments at work: how many rows a join has, and the sums over products of their columns, without any row being listed.

A sum over the join's rows of a product of columns is made in the join's tree as a count is: each table gives the
product of its own columns (q-hierarchical.md 12). All sums are whole numbers, so that what was added is taken away
again without a trace: doubles are counted in units, which are a power of two for each column.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations_with_replacement

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.expressions.parked import Parked
from everview.engine.operators.aggregates.sums import Summand
from everview.engine.operators.answers import Answers
from everview.engine.operators.counts import Kept
from everview.engine.operators.join import Join
from everview.engine.values.dictionary import Dictionary
from everview.engine.values.rows import Changes, WordRows, ones, zeros
from everview.engine.values.wide import BITS, Numbers, in_word, largest, multiplied, numbers_of, words_for
from everview.kernel.program import MOST_WORDS
from everview.plan.cores import covering_atom
from everview.plan.part_plan import PartPlan
from everview.programs.link import Linker
from everview.query.terms import Expression, Var
from everview.query.types import DataType, Kind

Monomial = tuple[int, ...]
"""Some columns, by their numbers in ascending order; one may be there several times."""

ROOM_BITS = 8
"""A double may be so many bits larger than the largest that there was when its column's unit was chosen."""
MOST_UNIT_BITS = 62
_COUNT_BITS = 40
"""So many bits are left to the number of rows in a sum that has as many words as there are."""


class Unit:
    """What doubles of a column are counted in: 2 to the power of ``exponent``, so that they are whole numbers.

    Without an exponent nothing is counted yet, and only the largest of the values is looked for.
    """

    def __init__(self, degree: int) -> None:
        self.bits = min(MOST_UNIT_BITS, (MOST_WORDS * BITS - 1 - _COUNT_BITS) // max(1, degree))
        """No value has more bits than this when it is counted."""
        self.exponent: int | None = None
        self.largest = 0.0
        self.is_too_small = False
        """True once a value had too many bits: then what is summed up since is of no use."""

    def choose(self) -> None:
        """Choose the unit by the largest value that there was: it has ``ROOM_BITS`` less than it might have."""
        _, exponent = math.frexp(self.largest)
        self.exponent = exponent - (self.bits - ROOM_BITS) if self.largest else -self.bits

    def counted(self, values: pa.Array) -> pa.Array:
        """Values as numbers of units, to the nearest; 0 for what is no finite number."""
        plain = pc.if_else(is_finite(values), values, pa.scalar(0.0)).fill_null(0.0)
        self.largest = max(self.largest, pc.max(pc.abs(plain)).as_py() or 0.0)
        if self.exponent is None:
            return zeros(len(plain))
        for power in _powers(-self.exponent):
            plain = pc.multiply(plain, power)
        fits = pc.less(pc.abs(plain), 2.0**self.bits)
        if not pc.all(fits, min_count=0).as_py():
            self.is_too_small = True
            plain = pc.if_else(fits, plain, pa.scalar(0.0))
        return pc.round(plain, round_mode="half_to_even").cast(pa.int64())


def _powers(exponent: int) -> list[float]:
    """Powers of two, each a double, whose product is a power of two that may be none."""
    third = exponent // 3
    return [2.0**n for n in (third, third, exponent - 2 * third) if n]


def is_finite(values: pa.Array) -> pa.Array:
    """Where doubles are finite numbers; NULL for NULL."""
    return pc.is_finite(values)


@dataclass(frozen=True)
class Powers:
    """The product of powers of an atom's columns, given as expressions; doubles are counted in units."""

    powers: Mapping[Expression, int]
    units: Mapping[Expression, Unit]

    @property
    def arguments(self) -> tuple[Expression, ...]:
        """The columns."""
        return tuple(self.powers)

    @cached_property
    def words(self) -> int:
        """As many as the largest product and 64 bits of copies need."""
        sizes = (self._largest(e) ** power for e, power in self.powers.items())
        return words_for(math.prod(sizes))

    def signature(self, columns: Mapping[Var, Var]) -> Hashable:
        """What decides what a row gives, with variables named by their columns."""
        return frozenset((e.substitute(columns), power, self.units.get(e)) for e, power in self.powers.items())

    def _largest(self, column: Expression) -> int:
        return 2 ** self.units[column].bits if column in self.units else largest(column.type)

    def change(self, values: Sequence[pa.Array], copies: Numbers, words: int) -> list[pa.Array]:
        """What each row adds, in so many words."""
        found = copies
        for (column, power), value in zip(self.powers.items(), values, strict=True):
            whole = self.units[column].counted(value.cast(pa.float64())) if column in self.units else value
            for _ in range(power // 2):
                found = multiplied(whole, found, words, squared=True)
            if power % 2:
                found = multiplied(whole, found, words)
        return list(found)


@dataclass(frozen=True)
class NotFinite:
    """How many of a column's doubles are NaN or infinite."""

    column: Expression
    words = 1

    @property
    def arguments(self) -> tuple[Expression, ...]:
        """The column."""
        return (self.column,)

    def signature(self, columns: Mapping[Var, Var]) -> Hashable:
        """What decides what a row gives, with variables named by their columns."""
        return "not finite", self.column.substitute(columns)

    def change(self, values: Sequence[pa.Array], copies: Numbers, words: int) -> list[pa.Array]:
        """The copies of rows that have such a value."""
        (value,) = values
        odd = pc.invert(is_finite(value)).fill_null(False).cast(pa.int64())
        return multiplied(odd, copies, words)


@dataclass(frozen=True)
class Moment:
    """One of the sums, as a core keeps it."""

    parts: Mapping[int, Summand]
    most: None = None
    row_most: None = None


def monomials(columns: int, degree: int) -> Iterator[Monomial]:
    """All products of so many columns of at most this degree, but the empty one."""
    for size in range(1, degree + 1):
        yield from combinations_with_replacement(range(columns), size)


class Moments(Answers):
    """The sums of one join, which is that of a block of one aggregate: its ``factors`` are the columns.

    As rows it has one, with the number of the join's.
    """

    needs_deltas = False
    is_net_per_update = False
    keeps_update_numbers = True
    width = 1

    def __init__(
        self,
        plan: PartPlan,
        relations: Mapping[str, tuple[DataType, ...]],
        dictionary: Dictionary,
        linker: Linker,
        *,
        degree: int,
        units: Mapping[int, Unit],
    ) -> None:
        (planned,) = plan.blocks
        assert planned.block.grouping is not None
        self.columns = planned.block.grouping.aggregates[0].factors
        self.degree = degree
        self.units = dict(units)
        """What the columns that are doubles are counted in."""
        self.monomials = tuple(monomials(len(self.columns), degree))
        atoms = [covering_atom(planned.block, column) for column in self.columns]
        sums = [self._moment(atoms, monomial) for monomial in self.monomials]
        sums += [Moment({_there(atoms[i]): NotFinite(self.columns[i])}) for i in self.units]
        self.core = Join(planned.cores[0], sums, relations, dictionary, linker)
        assert not self.core.width, "a condition across tables needs every row of the join"

    def _moment(self, atoms: Sequence[int | None], monomial: Monomial) -> Moment:
        powers: dict[int, dict[Expression, int]] = {}
        units = {self.columns[i]: unit for i, unit in self.units.items()}
        for i, power in Counter(monomial).items():
            own = powers.setdefault(_there(atoms[i]), {})
            own[self.columns[i]] = own.get(self.columns[i], 0) + power
        return Moment({atom: Powers(own, units) for atom, own in powers.items()})

    def sums(self) -> tuple[int, dict[Monomial, Fraction], dict[int, int]]:
        """How many rows there are, the sum of each product, and how many values of a column are not finite."""
        found = [measures for _, measures in self.core.scan()]
        columns = iter(found[0] if found else [zeros(1)] * sum(self.core.widths))
        numbers = [numbers_of([next(columns) for _ in range(words)])[0] for words in self.core.widths]
        count, sums, odd = numbers[0], numbers[1 : 1 + len(self.monomials)], numbers[1 + len(self.monomials) :]
        each = zip(self.monomials, sums, strict=True)
        exact = {m: n * math.prod(map(self._unit, m), start=Fraction(1)) for m, n in each}
        return count, exact, dict(zip(self.units, odd, strict=True))

    def _unit(self, column: int) -> Fraction:
        """What a column's whole numbers count."""
        type_ = self.columns[column].type
        if column in self.units:
            return Fraction(2) ** (self.units[column].exponent or 0)
        return Fraction(1, 10**type_.scale) if type_.kind is Kind.DECIMAL else Fraction(1)

    # --- as any operator ---------------------------------------------------------------------------------------------

    @property
    def cores(self) -> tuple[Join, ...]:
        """The join."""
        return (self.core,)

    @property
    def folds(self) -> tuple[Kept, ...]:
        """All sums are in the join's own program."""
        return ()

    @property
    def parked(self) -> tuple[Parked, ...]:
        """The rows that a condition or a column fails on."""
        return self.core.parked

    def identifies_inputs(self, implied: Mapping[str, frozenset[int]]) -> bool:
        """It is made of many rows."""
        return False

    def seed(self) -> None:
        """Without input there are no sums."""

    def emit_deltas(self, wanted: bool) -> None:
        """Nobody is told what changes."""

    def process(self, changes: Changes) -> WordRows:
        """Take in updates."""
        self.core.apply(changes)
        return WordRows.empty(self.width)

    def rows(self, *, partly: bool = False) -> Iterator[WordRows]:
        """The number of rows."""
        found = next((measures for _, measures in self.core.scan()), None)
        count = zeros(1) if found is None else in_word(found[: self.core.widths[0]])[0]
        yield WordRows((count,), ones(1), zeros(1))


def _there(atom: int | None) -> int:
    assert atom is not None
    return atom
