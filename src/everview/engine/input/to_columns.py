"""What users hand over as rows, taken apart into columns: tuples, dicts, or anything that speaks Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa

from everview.engine.input.rejection import Where, shown, shown_text
from everview.errors import EverviewError, RowShapeError

Raw: TypeAlias = Sequence[object] | pa.ChunkedArray | None
"""A column as it came: Python values, Arrow data, or None if the input does not have it."""

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


def gather(data: object, wanted: Wanted, where: Where) -> tuple[list[Raw], int]:
    """The columns ``wanted.names + wanted.optional`` of the data, and how many rows there are.

    An error of the data itself, such as a generator that raises, is told as ours, with its cause.
    """
    try:
        return _gathered(data, wanted, where)
    except EverviewError:
        raise
    except Exception as error:
        raise where.refuse(
            RowShapeError,
            None,
            f"the rows could not be read: {type(error).__name__}: {shown_text(error)}",
            "correct what gives the rows; nothing has changed",
        ) from error


def _gathered(data: object, wanted: Wanted, where: Where) -> tuple[list[Raw], int]:
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


def _from_arrow(table: pa.Table, wanted: Wanted, where: Where) -> tuple[list[Raw], int]:
    found: list[Raw] = [None] * (len(wanted.names) + len(wanted.optional))
    for theirs, ours in wanted.match(table.column_names, where, None):
        found[ours] = table.column(theirs)
    return found, table.num_rows


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


def _from_tuples(rows: Sequence[object], wanted: Wanted, where: Where) -> tuple[list[Raw], int]:
    width = len(wanted.names)
    absent: list[Raw] = [None] * len(wanted.optional)
    cells: list[Sequence[object]] = []
    for i, row in enumerate(rows):
        if not isinstance(row, tuple | list):
            other = "pass all rows as tuples, or all as dicts" if i else "a row of one column is written (x,)"
            raise where.refuse(RowShapeError, i, f"{shown(row)} is no tuple or list of values", other)
        if len(row) != width:
            raise where.refuse(
                RowShapeError,
                i,
                f"{shown(row)} has {len(row)} values, a row has {width}",
                f"give one for each of {', '.join(wanted.names)}, with None for NULL; or pass dicts",
            )
        cells.append(row)
    columns: list[Raw] = list(zip(*cells, strict=True)) if cells else [()] * width
    return columns + absent, len(rows)


def _from_mappings(rows: Sequence[object], wanted: Wanted, where: Where) -> tuple[list[Raw], int]:
    names = (*wanted.names, *wanted.optional)
    columns: list[list[object]] = [[None] * len(rows) for _ in names]
    given: set[int] = set()
    matches: dict[tuple[object, ...], list[tuple[object, int]]] = {}  # by the keys of a row: most have the same
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise where.refuse(RowShapeError, i, f"{shown(row)} is no dict", "pass all rows as dicts, or all as tuples")
        keys = tuple(row)
        if keys not in matches:
            matches[keys] = [(keys[theirs], ours) for theirs, ours in wanted.match(keys, where, i)]
            given.update(ours for _, ours in matches[keys])
        for key, ours in matches[keys]:
            columns[ours][i] = row[key]
    return [c if j in given or j < len(wanted.names) else None for j, c in enumerate(columns)], len(rows)
