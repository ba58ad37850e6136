"""What the two languages that lark reads, rules and formulas, have in common: constants, names and comments."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

TERMINALS: Final = r"""
    STRING: /'(?:[^'\\\n]|\\.|'')*'|"(?:[^"\\\n]|\\.|"")*"/
    COMMENT: /(--|%)[^\n]*/
    %ignore /\s+/
    %ignore COMMENT
"""
"""The part of a grammar that says how texts in quotes and comments are written."""


def number_value(written: str) -> int | float | Decimal:
    """The number that was written: with an exponent a double, with a point a decimal."""
    if "e" in written.lower():
        return float(written)
    return Decimal(written) if "." in written else int(written)


def string_value(written: str) -> str:
    """The text between quotes; a quote in it is doubled, or stands behind a backslash."""
    quote = written[0]
    inner = written[1:-1].replace(quote * 2, quote)
    return re.sub(r"\\(.)", r"\1", inner)
