"""What users hand over as rows, taken apart into columns: tuples, dicts, or anything that speaks Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

import pyarrow as pa

from everview.engine.input.rejection import Where, python_value, shown, shown_text
from everview.errors import DataError, EverviewError, RefusedRow, RowShapeError

T = TypeVar("T")
Raw: TypeAlias = Sequence[object] | pa.ChunkedArray | None
"""A column as it came: Python values, Arrow data, or None if the input does not have it."""

MOST_REFUSED: Final = 10_000
"""So many rows of a wrong shape are told."""
_ROWS: Final = "pass a list of tuples or dicts, or an Arrow, pandas or polars table"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The columns that an input may have.

    ``names`` are those of a tuple, in order; inputs with names may also have ``optional`` ones, and ``ignored`` ones,
    which are skipped.
    """

    names: tuple[str, ...]
    optional: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    def match(self, given: Iterable[object], where: Where, row: int | None) -> list[tuple[int, int]]:
        """Pairs of positions, in the names given and in ``names + optional``; names match in any case."""
        given = list(given)
        places = {name.lower(): i for i, name in enumerate((*self.names, *self.optional))}
        skipped = {name.lower() for name in self.ignored}
        folded = [name.lower() if isinstance(name, str) else None for name in given]
        unknown = [shown(g) for g, f in zip(given, folded, strict=True) if f not in places and f not in skipped]
        if unknown:
            raise where.refuse(
                RowShapeError,
                row,
                f"there is no column {', '.join(unknown)} in the table",
                f"leave it out, or rename it: the columns are {', '.join(self.names)}",
            )
        twice = [shown(g) for i, (g, f) in enumerate(zip(given, folded, strict=True)) if f in folded[:i]]
        if twice:
            raise where.refuse(RowShapeError, row, f"column {', '.join(twice)} is given twice", "leave one of them out")
        return [(i, places[f]) for i, f in enumerate(folded) if f in places]


@dataclass
class Gathered:
    """The columns ``names + optional`` that were wanted, of those rows that have the right shape."""

    columns: list[Raw]
    size: int
    given: object
    """What was handed over, as rows or as an Arrow table."""
    error: DataError | None = None
    """If some do not: the first one's, which knows the others,"""
    kept: list[int] | None = None
    """and where those are that do."""

    def values(self, row: int) -> tuple[object, ...]:
        """One of the rows as it was handed over."""
        if isinstance(self.given, pa.Table):
            return tuple(python_value(c[row]) if isinstance(c, pa.ChunkedArray) else None for c in self.columns)
        assert isinstance(self.given, Sequence)
        found = self.given[row]
        return tuple(
            found.values() if isinstance(found, Mapping) else found if isinstance(found, tuple | list) else [found]
        )


def gather(data: object, wanted: Wanted, where: Where) -> Gathered:
    """The columns ``wanted.names + wanted.optional`` of the data.

    An error of the data itself, such as a generator that raises, is told as ours, with its cause.
    """
    return _told(lambda: _gathered(data, wanted, where), where)


def kept(data: object, where: Where) -> object:
    """The data in a form that can be looked at twice: a list of rows, a table, or what it is if it is neither."""
    table = _as_arrow(data, where)
    if table is not None:
        return table
    found: object = _told(lambda: _listed(data), where)
    return found


def _listed(data: object) -> object:
    if isinstance(data, Iterator) or (isinstance(data, tuple) and data and isinstance(data[0], tuple | Mapping)):
        return list(data)
    return _of_numpy(data)


def _of_numpy(data: object) -> object:
    """Arrays of two dimensions, and those of records, as rows of Python's values; all else as it is."""
    kind = getattr(data, "dtype", None)
    if type(data).__module__ != "numpy" or kind is None:
        return data
    array: Any = data
    kinds = [kind[name].kind for name in kind.names or ()] or [kind.kind]
    if array.ndim != (1 if kind.names else 2) or not set(kinds).isdisjoint(
        "mM"
    ):  # Times of other units become numbers.
        return data
    return array.tolist()


def _told(read: Callable[[], T], where: Where) -> T:
    try:
        return read()
    except EverviewError:
        raise
    except Exception as error:
        raise where.refuse(
            RowShapeError,
            None,
            f"the rows could not be read: {type(error).__name__}: {shown_text(error)}",
            "correct what gives the rows; nothing has changed",
        ) from error


def _gathered(data: object, wanted: Wanted, where: Where) -> Gathered:
    table = _as_arrow(data, where)
    if table is not None:
        return _from_arrow(table, wanted, where)
    rows = _as_rows(data, where)
    first = rows[0] if rows else ()
    if isinstance(first, pa.RecordBatch | pa.Table):
        return _from_arrow(_joined(rows, where), wanted, where)
    return _from_mappings(rows, wanted, where) if isinstance(first, Mapping) else _from_tuples(rows, wanted, where)


# --- Arrow -----------------------------------------------------------------------------------------------------------


def _as_arrow(data: object, where: Where) -> pa.Table | None:
    """The data as an Arrow table, if it speaks Arrow. What goes wrong in another library on the way is told as ours."""
    try:
        if isinstance(data, pa.Table):
            return data
        if isinstance(data, pa.RecordBatchReader):
            return data.read_all()
        if type(data).__module__.split(".")[0] == "pandas" and type(data).__name__ == "DataFrame":
            return pa.Table.from_pandas(data, preserve_index=False)
        if hasattr(data, "__arrow_c_stream__"):
            return pa.table(data)
        if hasattr(data, "__arrow_c_array__"):
            return pa.Table.from_batches([pa.record_batch(data)])
    except Exception as error:
        raise where.refuse(
            RowShapeError, None, f"a {type(data).__name__} could not be read as a table: {shown_text(error)}", _ROWS
        ) from error
    return None


def _joined(parts: Sequence[object], where: Where) -> pa.Table:
    """A list of record batches, as change feeds give them, as one table."""
    for i, part in enumerate(parts):
        if not isinstance(part, pa.RecordBatch | pa.Table):
            raise where.refuse(RowShapeError, None, f"item {i} is {shown(part)}, the others are Arrow batches", _ROWS)
    try:
        return pa.concat_tables([p if isinstance(p, pa.Table) else pa.Table.from_batches([p]) for p in parts])
    except pa.ArrowException as error:
        raise where.refuse(
            RowShapeError, None, f"the Arrow batches do not go together: {error}", "give them the same schema"
        ) from None


def _from_arrow(table: pa.Table, wanted: Wanted, where: Where) -> Gathered:
    found: list[Raw] = [None] * (len(wanted.names) + len(wanted.optional))
    for theirs, ours in wanted.match(table.column_names, where, None):
        found[ours] = table.column(theirs)
    return Gathered(found, table.num_rows, table)


# --- Python rows -----------------------------------------------------------------------------------------------------


def _as_rows(data: object, where: Where) -> Sequence[object]:
    if isinstance(data, Mapping):
        raise where.refuse(
            RowShapeError,
            None,
            f"{shown(data)} is no list of rows",
            "for one row pass [{…}]; for columns by name pass pyarrow.table({…})",
        )
    if isinstance(data, str | bytes | bytearray | memoryview) or not isinstance(data, Iterable):
        raise where.refuse(RowShapeError, None, f"{shown(data)} is no list of rows", _ROWS)
    if isinstance(data, tuple) and data and not isinstance(data[0], tuple | list | Mapping | pa.RecordBatch | pa.Table):
        raise where.refuse(
            RowShapeError, None, f"{shown(data)} is no list of rows", "for one row pass a list of it: [(…)]"
        )
    return data if isinstance(data, list) else list(data)


def _from_tuples(rows: Sequence[object], wanted: Wanted, where: Where) -> Gathered:
    width = len(wanted.names)
    cells: list[Sequence[object]] = []
    wrong = _WrongShapes()
    for i, row in enumerate(rows):
        if not isinstance(row, tuple | list):
            other = "pass all rows as tuples, or all as dicts" if i else "a row of one column is written (x,)"
            wrong.add(i, where.refuse(RowShapeError, i, f"{shown(row)} is no tuple or list of values", other))
        elif len(row) != width:
            why = f"{shown(row)} has {len(row)} values, a row has {width}"
            names = ", ".join(wanted.names)
            hint = f"give one for each of {names}, with None for NULL; or pass dicts"
            wrong.add(i, where.refuse(RowShapeError, i, why, hint))
        else:
            cells.append(row)
    columns: list[Raw] = list(zip(*cells, strict=True)) if cells else [()] * width
    absent: list[Raw] = [None] * len(wanted.optional)
    return Gathered(columns + absent, len(cells), rows, wrong.error, wrong.kept(len(rows)))


def _from_mappings(rows: Sequence[object], wanted: Wanted, where: Where) -> Gathered:
    names = (*wanted.names, *wanted.optional)
    columns: list[list[object]] = [[None] * len(rows) for _ in names]
    given: set[int] = set()
    matches: dict[tuple[object, ...], list[tuple[object, int]]] = {}  # by the keys of a row: most have the same
    wrong = _WrongShapes()
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping):
            why = f"{shown(row)} is no dict"
            wrong.add(i, where.refuse(RowShapeError, i, why, "pass all rows as dicts, or all as tuples"))
            continue
        keys = tuple(row)
        if keys not in matches:
            try:
                matches[keys] = [(keys[theirs], ours) for theirs, ours in wanted.match(keys, where, i)]
            except RowShapeError as error:
                wrong.add(i, error)
                continue
            given.update(ours for _, ours in matches[keys])
        for key, ours in matches[keys]:
            columns[ours][i] = row[key]
    kept = wrong.kept(len(rows))
    if kept is not None:
        columns = [[column[i] for i in kept] for column in columns]
    there: list[Raw] = [c if j in given or j < len(wanted.names) else None for j, c in enumerate(columns)]
    return Gathered(there, len(rows) if kept is None else len(kept), rows, wrong.error, kept)


class _WrongShapes:
    """Rows that have not the shape of the table's."""

    def __init__(self) -> None:
        self.error: DataError | None = None
        self._places: set[int] = set()
        self._found: list[RefusedRow] = []

    def add(self, place: int, error: DataError) -> None:
        """Take note of one; raises if there are too many of them for all to be told."""
        self.error = self.error or error
        self._places.add(place)
        self._found += error.refused
        if len(self._places) == MOST_REFUSED:
            self.error.refused, self.error.is_cut = tuple(self._found), True
            raise self.error

    def kept(self, size: int) -> list[int] | None:
        """The places of the others; None if there is none of them."""
        if self.error is None:
            return None
        self.error.refused = tuple(self._found)
        return [i for i in range(size) if i not in self._places]
