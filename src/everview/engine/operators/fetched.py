"""Rows of a cursor, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from everview.engine.operators.counts import Columns
from everview.engine.operators.steps import CHUNK
from everview.engine.values.rows import words_array
from everview.errors import TooManyRowsError
from everview.kernel.machine import Part

CHUNK_OF_FEW = 64
"""So many rows are fetched at first where perhaps only some are going to be read."""
_GROWTH = 4
TOO_MANY = "a row has more copies than 64 bits hold, or a group a sum beyond 384"
FEWER = "leave rows out with WHERE, or ask count() how many there are"


def fetched(
    part: Part, name: str, width: int, first: int = CHUNK, given: Sequence[int] = ()
) -> Iterator[tuple[Columns, Columns]]:
    """What a cursor lists, as ``width`` words and measures; chunks begin with ``first`` rows and grow."""
    cursor = part.open(name, given)
    size = first
    while True:
        try:
            found = cursor.fetch(size)
        except OverflowError as error:
            raise TooManyRowsError(TOO_MANY, hint=FEWER) from error
        columns = [words_array(c) for c in found]
        if not columns or not len(columns[0]):
            return
        yield tuple(columns[:width]), tuple(columns[width:])
        size = min(CHUNK, _GROWTH * size)
