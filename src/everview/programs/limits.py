"""Limits of sums: whether a product of stored numbers may be beyond what an SQL type holds, without listing products.

A result that nobody reads is not listed, and a row of it may be the product of numbers in several tables; so what is
kept is the *largest* size that each of these numbers, the factors, has had. While the product of the largest is within
a result's limit, so is every result. Once it is not, the table ``beyond`` has a row: from then on somebody must look at
each result that changes. The row stays, as the largest are never taken back but with their batch.

A factor's size is looked at only above its *share*; the shares of a product's factors multiply to no more than its
limit. So as long as numbers are small, an update pays for one or two comparisons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from everview.kernel.program import (
    MOST_WORDS,
    Call,
    Compute,
    Find,
    If,
    Insert,
    Instruction,
    Lit,
    Math,
    Operand,
    Procedure,
    Reg,
    Store,
    Table,
    Test,
    Update,
    ValueOf,
)
from everview.kernel.wide_numbers import words_needed

BEYOND = "beyond"
"""The table that has a row once a limit may be passed: by which update, as the number of its row in its batch."""
BEYOND_TABLE = Table(BEYOND, (), ("update",))
PRODUCTS = "products"
"""The same of the product that a row has: whoever makes it has to look at each row then."""
LARGEST = "largest"
"""The largest size that each factor has had, if that is above its share."""
COUNT_BITS = 7
"""The most bits that the share of a count has: the more, the less is left to others; the fewer, the more is noted."""
_LIMIT = "limit"
_ROW, _SIZE, _ONCE = Reg("largest"), Reg("size", MOST_WORDS), Reg("once")


@dataclass(frozen=True)
class Factor:
    """A stored number: a value of a table's rows, of so many words, that may be below 0 or not."""

    table: str
    value: str
    words: int = 1
    is_signed: bool = True


@dataclass(frozen=True)
class Limit:
    """The largest size that a product of stored numbers may have."""

    most: int
    factors: tuple[Factor, ...]
    table: str = BEYOND
    """Where it is kept that it may be passed."""

    def share(self, factor: Factor) -> int:
        """What a factor may be while nobody has to look: counts a little, so that a sum among them has room.

        Of a row's product all factors may be as little: one may be large, and the others need not be then.
        """
        if self.table == PRODUCTS:
            return int(2 ** min(COUNT_BITS, (self.most.bit_length() - 1) // len(self.factors)))
        if len(self.factors) == 1:
            return self.most
        bits = self.most.bit_length() - 1
        counts = [f for f in self.factors if not f.is_signed]
        few = min(COUNT_BITS, bits // len(self.factors))
        if not factor.is_signed:
            return int(2**few)
        return int(2 ** ((bits - few * len(counts)) // (len(self.factors) - len(counts))))


@dataclass(frozen=True)
class Limits:
    """Some limits: the tables and procedures to be among a program's, and what is to be done where a factor changes."""

    limits: Sequence[Limit] = ()
    shares: Mapping[Factor, int] = field(init=False)

    def __post_init__(self) -> None:
        if any(words_needed(limit.most**2) > MOST_WORDS for limit in self.limits):
            raise ValueError(f"the square of a limit has more than {MOST_WORDS} words")
        factors = dict.fromkeys(f for limit in self.limits for f in limit.factors)
        found = {f: min(limit.share(f) for limit in self.limits if f in limit.factors) for f in factors}
        object.__setattr__(self, "shares", found)

    @cached_property
    def _factors(self) -> list[Factor]:
        """Those that can be above their share at all; they go by their numbers."""
        return [f for f, share in self.shares.items() if words_needed(share + 1) <= f.words]

    @property
    def tables(self) -> tuple[Table, ...]:
        """Where the largest sizes are kept, and that a limit may be passed."""
        if not self._factors:
            return ()
        passed_in = (Table(name, (), ("update",)) for name in dict.fromkeys(limit.table for limit in self.limits))
        return Table(LARGEST, ("factor",), ("size",), widths=(MOST_WORDS,)), *passed_in

    @property
    def procedures(self) -> tuple[Procedure, ...]:
        """How a product is compared with its limit, and how a factor becomes larger than it has ever been."""
        found = [Procedure(f"{_LIMIT}{i}", (_ONCE,), self._compared(limit)) for i, limit in enumerate(self.limits)]
        for number, factor in enumerate(self._factors):
            told = tuple(
                Call(f"{_LIMIT}{i}", (Lit(0),)) for i, limit in enumerate(self.limits) if factor in limit.factors
            )
            kept: tuple[Instruction, ...] = (Store(_ROW, LARGEST, 0, _SIZE), *told)
            larger = If(Test.LESS, ValueOf(_ROW, LARGEST, 0), _SIZE, kept)
            key = (Lit(number),)
            body = (Find(_ROW, LARGEST, key, (larger,), (Insert(_ROW, LARGEST, key), *kept)),)
            found.append(Procedure(f"{LARGEST}{number}", (_SIZE,), body))
        return tuple(found) if self._factors else ()

    def noted(self, factor: Factor, number: Operand) -> tuple[Instruction, ...]:
        """Take note of a factor's new value, given in an operand, if it is larger than its share."""
        if factor not in self._factors:
            return ()
        share, call = self.shares[factor], Call(f"{LARGEST}{self._factors.index(factor)}", (_SIZE,))
        below: tuple[Instruction, ...] = ()
        if factor.is_signed:
            below = (If(Test.LESS, number, Lit(-share), (Compute(_SIZE, Math.SUBTRACT, Lit(0), number), call)),)
        return (If(Test.LESS, Lit(share), number, (Compute(_SIZE, Math.ADD, number, Lit(0)), call), below),)

    def _compared(self, limit: Limit) -> tuple[Instruction, ...]:
        """Multiply the largest sizes, or shares, as long as the limit is kept: so nothing leaves its words."""
        row, product, size = Reg("row"), Reg("product", MOST_WORDS), Reg("factor", MOST_WORDS)
        most, told = Lit(limit.most), passed(limit.table)
        body: tuple[Instruction, ...] = ()
        for factor in reversed(limit.factors):
            found: tuple[Instruction, ...] = (Compute(size, Math.ADD, Lit(self.shares[factor]), Lit(0)),)
            if factor in self._factors:
                key = (Lit(self._factors.index(factor)),)
                found += (Find(row, LARGEST, key, (Compute(size, Math.ADD, ValueOf(row, LARGEST, 0), Lit(0)),)),)
            multiply = (Compute(product, Math.MULTIPLY, product, size), If(Test.LESS, most, product, told, body))
            body = (*found, If(Test.LESS, most, size, told, multiply))
        return (Compute(product, Math.ADD, Lit(1), Lit(0)), *body)


def passed(table: str = BEYOND) -> tuple[Instruction, ...]:
    """Take note that a limit may be passed from now on, unless it has been before."""
    row = Reg("passed")
    return (Find(row, table, (), (), (Insert(row, table, ()), Store(row, table, 0, Update()))),)
