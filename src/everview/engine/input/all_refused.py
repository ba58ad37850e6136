"""All rows that are refused on their way in: a column is checked as a whole, and in parts once something is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from everview.engine.input.rejection import Where
from everview.engine.input.to_columns import Gathered, Raw
from everview.errors import DataError, each_once

MOST_CHECKS: Final = 20_000
"""So many parts of a column are looked at, for as many thousands of refused rows; after that not all are told."""

T = TypeVar("T")
Check = Callable[[Raw, int, Where], T]
"""Looks at some rows' values of a column: gives what is made of them, or refuses the first that it finds wrong."""


class RefusedRows:
    """The rows of one input that are refused, and the error that will say so."""

    def __init__(self, gathered: Gathered) -> None:
        self._gathered = gathered
        self._first = gathered.error
        self._found = [] if gathered.error is None else list(gathered.error.refused)
        self._is_cut = gathered.error is not None and gathered.error.is_cut

    def tried(self, raw: Raw, check: Check[T], where: Where) -> T | None:
        """What a check gives; None if it refuses a row. What is wrong with a column as a whole is raised."""
        size = self._gathered.size
        try:
            return check(raw, size, where)
        except DataError as error:
            if error.row is None:
                raise
            first = self._placed(error)
        waiting, left = [(0, size)], MOST_CHECKS
        while waiting and left:
            start, stop = waiting.pop()
            left -= 1
            try:
                check(_part(raw, start, stop), stop - start, where.after(start))
            except DataError as error:
                if stop - start > 1:
                    middle = (start + stop) // 2
                    waiting += [(middle, stop), (start, middle)]
                elif error.row is not None:
                    self._found += self._placed(error).refused
        self._is_cut |= bool(waiting)
        self._first = self._first or first
        return None

    def end(self) -> None:
        """Raise if there is one."""
        if self._first is None:
            return
        found = [replace(row, values=self._gathered.values(row.row)) for row in self._found if row.row is not None]
        self._first.refused, self._first.is_cut = each_once(found), self._is_cut
        raise self._first

    def _placed(self, error: DataError) -> DataError:
        """An error as one of the rows that were given, where some of them were refused before."""
        kept = self._gathered.kept
        if kept is None or error.row is None:
            return error
        (refused,) = error.refused
        message = error.message.replace(f", row {error.row}", f", row {kept[error.row]}", 1)
        made = type(error)(message, table=error.table, row=kept[error.row], column=error.column, hint=error.hint)
        made.refused = (replace(refused, row=kept[error.row]),)
        return made


def _part(raw: Raw, start: int, stop: int) -> Raw:
    if raw is None:
        return None
    part: Sequence[object] | Raw = raw[start:stop] if isinstance(raw, Sequence) else raw.slice(start, stop - start)
    return part
