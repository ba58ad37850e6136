"""Numbers of several words: two's complement, the lowest word first."""

from __future__ import annotations

import struct
from collections.abc import Sequence


def words_of(number: int, width: int) -> tuple[int, ...]:
    """A number's words; ``OverflowError`` if it has more than so many."""
    return struct.unpack(f"<{width}q", number.to_bytes(8 * width, "little", signed=True))


def number_of(words: Sequence[int]) -> int:
    """The number that has these words."""
    return int.from_bytes(struct.pack(f"<{len(words)}q", *words), "little", signed=True)


def words_needed(number: int) -> int:
    """How many words a number needs."""
    return (number if number >= 0 else ~number).bit_length() // 64 + 1
