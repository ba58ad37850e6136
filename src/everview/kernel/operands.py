"""What instructions and cursors read: registers, literals, words of rows, and products of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Reg:
    """A register: a number of one word or of several, or a row's handle."""

    name: str
    words: int = 1

    def __str__(self) -> str:
        return _sized(self.name, self.words)


@dataclass(frozen=True, slots=True)
class Lit:
    """A literal word."""

    value: int

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class KeyOf:
    """A key word of the row in a register."""

    row: Reg
    table: str
    column: int

    def __str__(self) -> str:
        return f"{self.row}.k{self.column}"


@dataclass(frozen=True, slots=True)
class ValueOf:
    """A value of the row in a register."""

    row: Reg
    table: str
    column: int

    def __str__(self) -> str:
        return f"{self.row}.v{self.column}"


@dataclass(frozen=True, slots=True)
class Update:
    """The position of the current update in its batch."""

    def __str__(self) -> str:
        return "update"


Operand: TypeAlias = Reg | Lit | KeyOf | ValueOf | Update


@dataclass(frozen=True, slots=True)
class Product:
    """A checked product, made from left to right; of no factors it is 1. Only what is emitted or listed may be one.

    It has so many ``words``, whatever its factors have; if the product so far leaves them, that is an overflow.
    """

    factors: tuple[Operand, ...]
    words: int = 1

    def __str__(self) -> str:
        return _sized(" * ".join(map(str, self.factors)) or "1", self.words)


Output: TypeAlias = Operand | Product


def _sized(text: str, words: int) -> str:
    return text if words == 1 else f"{text}:{words}"
