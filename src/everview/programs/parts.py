"""Heavy and light parts: the threshold base N, exact thresholds for N^ε, and when parts must be rebalanced.

A strategy that treats frequent keys in another way than rare ones keeps, for each of its keys, whether it is *heavy* or
*light*. What decides is the key's degree against θ = N^ε, where N is not the number of rows |D| itself but a *base*
that follows it by steps: ⌊N/4⌋ ≤ |D| < N always. So thresholds change only when |D| has doubled or halved, and then a
*major* rebalancing puts every key where it belongs (heavy from θ on). In between, a key moves (a *minor* rebalancing)
only when its degree has come to 3θ/2, or has gone below θ/2.

θ is a real number and is never rounded: with ε = p/q, a degree d is at least θ exactly if d^q ≥ N^p. Smallest whole
numbers for which such comparisons hold are kept in the base's only row and computed anew when N changes, which is rare.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from everview.kernel.program import (
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
    ValueOf,
)

MOST_BITS = 36
"""N has at most so many bits: a table has fewer than 2^32 rows, and N is at most 4 times what a few tables have."""
MOST_DENOMINATOR = 10
"""ε = p/q has at most this q: N^p, times 3^q, must fit the widest numbers there are."""
COLUMNS = ("N", "size", "heavy_from", "heavy_until", "light_until", "heavy", "majors", "minors", "moved", "major_moved")
"""What a base keeps: N, |D|, three thresholds, the number of heavy keys, rebalances of both kinds, and the rows that
minor and major ones have moved."""
Block = tuple[Instruction, ...]
_BASE, _TARGET, _ROOT, _MORE = Reg("base"), Reg("target"), Reg("root"), Reg("more")


def threshold(base: int, epsilon: Fraction, numerator: int = 1, denominator: int = 1) -> int:
    """The smallest whole number that is at least numerator/denominator · base^ε: what programs compute, for tests."""
    p, q = epsilon.numerator, epsilon.denominator
    wanted = numerator**q * base**p
    low, high = 0, numerator * base + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if (denominator * middle) ** q >= wanted else (middle + 1, high)
    return low


@dataclass(frozen=True)
class ThresholdBase:
    """The base of some parts, as a table of one row with pieces of program around it.

    ``row`` is the register in which pieces expect that row; ``opened`` sets it. Procedures of a program may all use the
    same register, as each has its own.
    """

    epsilon: Fraction
    name: str = "parts"
    row: Reg = _BASE

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon <= 1 or self.epsilon.denominator > MOST_DENOMINATOR:
            raise ValueError(
                f"ε = {self.epsilon} is no fraction from 0 to 1 with a denominator of {MOST_DENOMINATOR} or less"
            )

    # --- state -----------------------------------------------------------------------------------------------------

    @property
    def table(self) -> Table:
        """The table to be among the program's."""
        values = COLUMNS if self._is_narrow else (*COLUMNS, "root")
        return Table(self.name, (), values, ((),))

    def value(self, column: str) -> ValueOf:
        """A number of the base, whose row is in the register ``row``."""
        return ValueOf(self.row, self.name, self.column(column))

    def column(self, column: str) -> int:
        """The place of a number among the row's values."""
        return COLUMNS.index(column)

    def opened(self, then: Block) -> Block:
        """Find the row, or make it as it is without any data (N = 1, so θ = 1 whatever ε is), and run a block."""
        first = {"N": 1, "heavy_from": 1, "heavy_until": 1, "light_until": 2}
        made: Block = (Insert(self.row, self.name, ()), *(self._set(c, Lit(n)) for c, n in first.items()))
        return (Find(self.row, self.name, (), (), made), *then)

    def counted(self, column: str, change: Operand) -> Block:
        """Add to one of the base's numbers."""
        return (Compute(_MORE, Math.ADD, self.value(column), change), self._set(column, _MORE))

    def _set(self, column: str, source: Operand) -> Store:
        return Store(self.row, self.name, self.column(column), source)

    # --- tests -----------------------------------------------------------------------------------------------------

    def if_heavy_strictly(self, degree: Operand, then: Block, otherwise: Block = ()) -> If:
        """d ≥ θ: how parts are cut by a major rebalancing."""
        return If(Test.AT_MOST, self.value("heavy_from"), degree, then, otherwise)

    def if_too_light(self, degree: Operand, then: Block, otherwise: Block = ()) -> If:
        """d < θ/2: a heavy key must become light."""
        return If(Test.LESS, degree, self.value("heavy_until"), then, otherwise)

    def if_too_heavy(self, degree: Operand, then: Block, otherwise: Block = ()) -> If:
        """d ≥ 3θ/2: a light key must become heavy."""
        return If(Test.AT_MOST, self.value("light_until"), degree, then, otherwise)

    # --- rebalancing -----------------------------------------------------------------------------------------------

    def checked(self, major: Block, otherwise: Block = ()) -> Block:
        """Keep ⌊N/4⌋ ≤ |D| < N: change N where |D| has left that, and run ``major`` then, else ``otherwise``.

        An update may change |D| by more than one, so it may be past a bound when it is looked at. N is doubled or
        halved (⌊N/2⌋ − 1); where a jump is so large that this does not do, N becomes 2|D| + 1, as for a new base.
        """
        n, quarter = Reg("N"), Reg("quarter")
        size = self.value("size")
        anew = self._anew(n)
        grown = (
            Compute(n, Math.MULTIPLY, self.value("N"), Lit(2)),
            If(Test.AT_MOST, n, size, anew),
            *self._rebased(n, major),
        )
        shrunk = (
            Compute(n, Math.DIVIDE, self.value("N"), Lit(2)),
            Compute(n, Math.SUBTRACT, n, Lit(1)),
            Compute(quarter, Math.DIVIDE, n, Lit(4)),
            If(Test.LESS, size, quarter, anew),
            *self._rebased(n, major),
        )
        return (
            If(
                Test.AT_MOST,
                self.value("N"),
                size,
                grown,
                (
                    Compute(quarter, Math.DIVIDE, self.value("N"), Lit(4)),
                    If(Test.LESS, size, quarter, shrunk, otherwise),
                ),
            ),
        )

    def begun_with(self, size: Operand) -> Block:
        """|D| and N = 2|D| + 1 for data that comes all at once, and whose parts are made now: that moves nothing."""
        n = Reg("N")
        return (self._set("size", size), *self._anew(n), self._set("N", n), Call(self._procedure("thresholds"), (n,)))

    def begun_anew(self, major: Block) -> Block:
        """N = 2|D| + 1 and a major rebalancing, as for a base that begins with the data there is."""
        n = Reg("N")
        return (*self._anew(n), *self._rebased(n, major))

    def _anew(self, n: Reg) -> Block:
        return (Compute(n, Math.MULTIPLY, self.value("size"), Lit(2)), Compute(n, Math.ADD, n, Lit(1)))

    def _rebased(self, n: Reg, major: Block) -> Block:
        return (self._set("N", n), Call(self._procedure("thresholds"), (n,)), *self.counted("majors", Lit(1)), *major)

    # --- thresholds ------------------------------------------------------------------------------------------------

    @property
    def procedures(self) -> tuple[Procedure, ...]:
        """What computes thresholds, to be among the program's procedures."""
        n, half = Reg("N"), Reg("half")
        p, q = self.epsilon.numerator, self.epsilon.denominator
        body: list[Instruction] = []
        for column, factor, divisor in (("heavy_from", 1, 1), ("heavy_until", 1, 2), ("light_until", 3, 2)):
            body += self._root_of(n, factor)
            body += [
                Compute(half, Math.ADD, _ROOT, Lit(divisor - 1)),
                Compute(half, Math.DIVIDE, half, Lit(divisor)),
                self._set(column, half),
            ]
        thresholds = Procedure(self._procedure("thresholds"), (n,), self.opened(tuple(body)))
        if self._is_narrow:
            return (thresholds,)
        target, bit = Reg("target", self._words), Reg("bit")
        candidate, power = Reg("candidate"), Reg("power", self._words)
        tried: Block = (
            Compute(candidate, Math.ADD, ValueOf(self.row, self.name, len(COLUMNS)), bit),
            Compute(power, Math.ADD, candidate, Lit(0)),
            *(Compute(power, Math.MULTIPLY, power, candidate) for _ in range(q - 1)),
            If(Test.LESS, power, target, (Store(self.row, self.name, len(COLUMNS), candidate),)),
        )
        assert p > 1
        try_bit = Procedure(self._procedure("try"), (target, bit), self.opened(tried))
        bits = (Call(try_bit.name, (target, Lit(1 << b))) for b in reversed(range(MOST_BITS + 2)))
        begin = Store(self.row, self.name, len(COLUMNS), Lit(0))
        root = Procedure(self._procedure("root"), (target,), self.opened((begin, *bits)))
        return (try_bit, root, thresholds)

    def _procedure(self, verb: str) -> str:
        return f"{self.name}.{verb}"

    @property
    def _is_narrow(self) -> bool:
        """True if 3^q · N^p fits one word, of which the kernel takes roots itself."""
        return self.epsilon.numerator <= 1

    @property
    def _words(self) -> int:
        """How many words 3^q · N^p takes, and what is tried, which has a bit more than the root at each step."""
        p, q = self.epsilon.numerator, self.epsilon.denominator
        return ((MOST_BITS + 2) * q + 64) // 64 if p else 1

    def _root_of(self, n: Reg, factor: int) -> Block:
        """The smallest whole number of which the q-th power is at least (factor · N^ε)^q."""
        p, q = self.epsilon.numerator, self.epsilon.denominator
        if self._is_narrow:
            powers = (Compute(_TARGET, Math.MULTIPLY, n, Lit(factor**q)),) if p else ()
            start = () if p else (Compute(_TARGET, Math.ADD, Lit(factor**q), Lit(0)),)
            return (
                *powers,
                *start,
                Compute(_TARGET, Math.SUBTRACT, _TARGET, Lit(1)),
                Compute(_ROOT, Math.ROOT, _TARGET, Lit(q)),
                Compute(_ROOT, Math.ADD, _ROOT, Lit(1)),
            )
        target = Reg("target", self._words)
        return (
            Compute(target, Math.MULTIPLY, n, Lit(factor**q)),
            *(Compute(target, Math.MULTIPLY, target, n) for _ in range(p - 1)),
            Call(self._procedure("root"), (target,)),
            Compute(_ROOT, Math.ADD, ValueOf(self.row, self.name, len(COLUMNS)), Lit(1)),
        )
