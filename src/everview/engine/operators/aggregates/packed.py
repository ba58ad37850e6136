"""A part of a group as bytes: how many values it has, their exact sum, and that of their squares.

Sums of doubles, of long decimals, and of squares have more digits than any type of a column; as bytes they go from one
step to the next, and nothing is rounded on the way. Equal parts have equal bytes.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums are whole numbers of ``1 / unit``, squares of its square."""

    unit: int
    count: int
    total: int
    squares: int = 0
    odd: tuple[int, int, int] = (0, 0, 0)
    """How many of the values are NaN, infinite, and infinite below 0; the sums are those of the others."""

    def packed(self) -> bytes:
        """As text: hexadecimal numbers, with the power of 2 that divides them put apart."""
        odd = self.odd if any(self.odd) else ()
        return " ".join(map(_text, (self.unit, self.count, self.total, self.squares, *odd))).encode()

    @staticmethod
    def unpacked(data: bytes) -> Sums:
        """What ``packed`` gave."""
        unit, count, total, squares, *odd = map(_number, data.decode().split())
        nan, above, below = odd or (0, 0, 0)
        return Sums(unit, count, total, squares, (nan, above, below))


def _text(number: int) -> str:
    zeros = (number & -number).bit_length() - 1 if number else 0
    return f"{number >> zeros:x}p{zeros}"


def _number(text: str) -> int:
    digits, _, zeros = text.partition("p")
    return int(digits, 16) << int(zeros)
