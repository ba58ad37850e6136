"""What ``If`` tests and what ``Compute`` computes."""

from __future__ import annotations

from enum import IntEnum


class Test(IntEnum):
    """The conditions of ``If``, on signed numbers of any words."""

    EQUAL = 0
    NOT_EQUAL = 1
    LESS = 2
    AT_MOST = 3


class Math(IntEnum):
    """The operations of ``Compute``; all are checked, an overflow ends the update and undoes it.

    ``DIVIDE`` rounds down and ``REMAINDER`` has the divisor's sign, as // and % of Python; by 0 they are faults of the
    program. ``ROOT`` is the largest whole number whose ``right``-th power is at most ``left``: a fault of the program
    if ``left`` is negative or ``right`` less than 1. The first three take numbers of any words and give as many as the
    target has; the others are for single words.

    The ``FLOAT`` ones read words as 64-bit floating-point numbers (``kernel.floats``) and round as IEEE 754 does;
    ``FLOAT_SCALE`` is the whole number ``left`` times the float ``right``: so many copies of it. What is not finite is
    an overflow, a division by 0 a fault of the program. Zero is never negative: its word would be that of NULL.
    """

    ADD = 0
    SUBTRACT = 1
    MULTIPLY = 2
    DIVIDE = 3
    REMAINDER = 4
    ROOT = 5
    FLOAT_ADD = 6
    FLOAT_SUBTRACT = 7
    FLOAT_MULTIPLY = 8
    FLOAT_DIVIDE = 9
    FLOAT_SCALE = 10
