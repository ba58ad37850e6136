"""Floating-point numbers as words: the 64 bits of an IEEE 754 double, read as a signed whole number.

They are for values that may be rounded, such as moments; sums that must not depend on the order are whole numbers.

    >>> word_of(1.0)
    4607182418800017408
    >>> float_of(word_of(0.1))
    0.1
"""

from __future__ import annotations

import struct


def word_of(number: float) -> int:
    """The word of a float; both zeros have the word 0, as that of -0.0 stands for NULL."""
    word: int = struct.unpack("<q", struct.pack("<d", number + 0.0))[0]
    return word


def float_of(word: int) -> float:
    """The float that a word holds."""
    number: float = struct.unpack("<d", struct.pack("<q", word))[0]
    return number
