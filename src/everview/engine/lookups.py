"""Reading the rows that have given values in some columns.

Where the tree that maintains a view has these columns above the others they are found with constant delay; groups are
found by their keys; anything else by an index that OPTIONS (lookup = (…)) keeps, and else by listing all rows, with a
``ScanWarning``.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from everview.engine.operators.answers import Given
from everview.engine.relation import Relation
from everview.engine.values.dictionary import UNKNOWN
from everview.engine.values.words import is_wide
from everview.errors import ArgumentError, ScanWarning, UnknownNameError
from everview.query.options import ViewOptions

_LEVELS_ABOVE = 3
"""From where a warning is given to who has called ``lookup`` or ``lookup_many``."""


class Lookups(Relation):
    """Rows that can be looked up by some of their columns."""

    @abstractmethod
    def _prepare_lookup(self, columns: frozenset[int]) -> None:
        """Have rows found by these columns from now on, if they can be and nobody has asked for it yet."""

    def lookup(self, **columns: Any) -> pa.Table:
        """The rows that have these values in these columns, copies repeated; None stands for NULL.

        A ValueTypeError if a value is of another type than its column, as where one is inserted.
        """
        return self._looked_up([columns])

    def lookup_many(self, keys: Iterable[Mapping[str, Any]] | Any) -> pa.Table:
        """The rows that have the values of any of the keys: mappings from columns to values, or an Arrow table.

        All keys have the same columns; one that comes twice counts once. Rows come in no order.
        """
        listed = pa.table(keys).to_pylist() if hasattr(keys, "__arrow_c_stream__") else _keys(keys)
        return self._looked_up(listed) if listed else self.schema.empty_table()

    def _looked_up(self, keys: Sequence[Mapping[str, Any]]) -> pa.Table:
        places = [self._places(key) for key in keys]
        if any(p.keys() != places[0].keys() for p in places):
            raise TypeError("keys that are looked up together have the same columns")
        if not places[0]:
            raise TypeError(f"say by which columns of {self.name} to look up, such as {self.schema.names[0]}=…")
        columns = frozenset(places[0])
        with self._lock:
            self._prepare_lookup(columns)
            wanted = [given for p in places if (given := self._given(p)) is not None]
            batches: list[pa.RecordBatch] = []
            seen: set[tuple[tuple[int, int], ...]] = set()
            for i, given in enumerate(wanted):
                found = self._ask(lambda rows, given=given: rows.lookup(given))  # type: ignore[misc]
                if found is None:
                    return self._scanned(wanted[i:], columns)
                words = tuple(sorted(given.words.items()))
                if words not in seen:
                    seen.add(words)
                    batches += map(self._repeated, found)
        return pa.Table.from_batches(batches, schema=self.schema)

    def _scanned(self, wanted: Sequence[Given], columns: frozenset[int]) -> pa.Table:
        """The same out of the list of all rows, which is gone through once."""
        names = ", ".join(self.schema.names[i] for i in sorted(columns))
        warnings.warn(
            f"all rows of {self.name} are listed to look some up by {names}; OPTIONS (lookup = ({names})) keeps an "
            "index of them",
            ScanWarning,
            stacklevel=_LEVELS_ABOVE + 1,
        )
        batches = []
        places = sorted(columns)
        for rows in self._rows():
            keys = {tuple(given.words[i] for i in places) for given in wanted}  # Computed strings are known by now.
            listed = zip(*(rows.columns[i].to_pylist() for i in places), strict=True)
            matching = rows.filter(pa.array([key in keys for key in listed], pa.bool_()))
            if len(matching):
                batches.append(self._repeated(matching))
        return pa.Table.from_batches(batches, schema=self.schema)

    def _places(self, values: Mapping[str, Any]) -> dict[int, Any]:
        """Values by the places of their columns; names are compared as SQL does."""
        known = {name.lower(): i for i, name in enumerate(self.schema.names)}
        found: dict[int, Any] = {}
        for name, value in values.items():
            if str(name).lower() not in known:
                listed = ", ".join(self.schema.names)
                raise UnknownNameError(f"{self.name} has no column {name}", hint=f"its columns are {listed}")
            place = known[str(name).lower()]
            if place in found:
                column = self.schema.names[place]
                raise ArgumentError(f"column {column} of {self.name} is given twice", hint="name each column once")
            found[place] = value
        return found

    def _given(self, values: Mapping[int, Any]) -> Given | None:
        """Values to look for; None if one of them cannot be in its column. One of another type is refused."""
        places = sorted(values)
        row = [values[i] for i in places]
        words = self._words(row, places)
        if words is None:
            return None
        columns = frozenset(places)
        if any(word == UNKNOWN and is_wide(self._types[i]) for i, word in zip(places, words, strict=True)):
            return Given(columns, lambda: dict(zip(places, self._words(row, places) or words, strict=True)))
        return Given(columns, lambda: dict(zip(places, words, strict=True)))


def _keys(given: Any) -> list[Mapping[str, Any]]:
    """What was given as keys, if it is some."""
    hint = "pass a list of dicts, as [{'customer': 7}], or an Arrow table"
    if not isinstance(given, Iterable) or isinstance(given, Mapping | str | bytes):
        raise ArgumentError(f"keys are a list of mappings from columns to values, and {given!r:.60} is none", hint=hint)
    keys = list(given)
    for key in keys:
        if not isinstance(key, Mapping):
            raise ArgumentError(f"a key is a mapping from columns to values, and {key!r:.60} is none", hint=hint)
    return keys


def more_lookups(options: ViewOptions, columns: Iterable[str]) -> ViewOptions:
    """Options by which rows can be looked up by one more set of columns."""
    return ViewOptions.of({"lookup": [*(options.lookup or ()), tuple(columns)]})
