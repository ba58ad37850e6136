"""The blocks of a unit's snapshot as words (cpp/run/snapshot.h), for tests that make lies with right checksums."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence

HEADER = 5
_BITS = (1 << 64) - 1


def bounds(words: Sequence[int]) -> list[tuple[int, int]]:
    """Where each block begins and ends."""
    found, at = [], 0
    while at < len(words):
        end = at + HEADER + words[at + 3]
        found.append((at, end))
        at = end
    return found


def inside(found: Sequence[tuple[int, int]]) -> list[int]:
    """The places of all words that are no header's."""
    return [i for begin, end in found for i in range(begin + HEADER, end)]


def sign(words: MutableSequence[int], found: Sequence[tuple[int, int]]) -> None:
    """Give each block the checksum that it has now."""
    for begin, end in found:
        words[begin + 4] = checksum(words[begin + HEADER : end])


def checksum(words: Sequence[int]) -> int:
    """The kernel's hash of a run of words (cpp/store/words.h, Hasher)."""

    def fold(a: int, b: int) -> int:
        product = a * b
        return (product & _BITS) ^ (product >> 64)

    state = 0x8EBC6AF09C88C6E3
    for word in words:
        state = fold(state ^ (word & _BITS), 0xA0761D6478BD642F)
    value = fold(state, 0xE7037ED1A0B428DB)
    return value - (1 << 64) if value >> 63 else value
