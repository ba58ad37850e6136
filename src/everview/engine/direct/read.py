"""Rows of a table read by the kernel, in one pass: what is plainly right. All else is left to ``engine.input``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import types

from everview.engine.direct.columns import has_code, type_code
from everview.engine.input.from_arrow import is_taken
from everview.engine.input.from_python import plain_value
from everview.engine.input.read import CHANGE_TYPE, COUNT, FEED_ONLY, is_required, members
from everview.engine.values.dictionary import Dictionary
from everview.engine.values.words import arrow_type, is_wide, to_words
from everview.kernel import ArrowReader, PythonReader, ReadRows
from everview.query.schema import Enforcement, Table
from everview.query.types import DataType, Kind

if TYPE_CHECKING:
    from everview.engine.base_table import BaseTable

_MOST_SHAPES: Final = 8
"""So many schemas of Arrow data are remembered for each table."""
_NOWHERE: Final = -1


@dataclass(frozen=True)
class _Shape:
    """Where a table's columns, and what happened to a row, are in Arrow data, and what is cast before it is read."""

    places: list[int]
    casts: tuple[tuple[int, pa.DataType], ...]


class RowReader:
    """Reads rows of one table: Python's, and Arrow's. None: something about them is not plain."""

    def __init__(self, table: Table) -> None:
        self._types = [c.type for c in table.columns]
        self._required = [is_required(table, c) for c in table.columns]
        self.is_known = all(map(has_code, self._types))
        """True if the kernel knows the types of all columns."""
        if not self.is_known:
            return
        domains = [_listed(table, i) for i in range(table.arity)]
        self.is_plain = all(listed is not None or not is_checked for listed, is_checked in domains)
        """True if it knows all that rows have to keep to."""
        own = {c.name.lower(): i for i, c in enumerate(table.columns)}
        self._may_change = CHANGE_TYPE not in own
        further = {CHANGE_TYPE: table.arity, COUNT: table.arity + 1} | dict.fromkeys(FEED_ONLY, _NOWHERE)
        self._names = further | own
        codes = [type_code(t, required=r) for t, r in zip(self._types, self._required, strict=True)]
        listed = [found for found, _ in domains]
        self._python = PythonReader(codes, listed, self._names, Decimal, _plain_values(self._types))
        self._arrow = ArrowReader(codes, listed)
        self._unchecked = ArrowReader(codes, [None] * len(codes))
        self._shapes: list[tuple[pa.Schema, bool, _Shape | None]] = []

    def given(self, rows: object, *, changes: bool = False) -> ReadRows | None:
        """Rows as the user has given them; ``changes`` say what happened to each."""
        if not self.is_known or not self.is_plain or (changes and not self._may_change):
            return None
        if type(rows) is list:
            return self._python.read(rows, changes)
        return self._of_arrow(rows, changes) if isinstance(rows, pa.Table) else None

    def of_table(self, table: pa.Table) -> ReadRows | None:
        """Rows that have been checked, as columns of exactly the table's types."""
        if not self.is_known:
            return None
        places = [*range(table.num_columns), _NOWHERE, _NOWHERE]
        return self._unchecked.read(table.__arrow_c_stream__(), table.num_rows, places)

    def _of_arrow(self, table: pa.Table, changes: bool) -> ReadRows | None:
        shape = self._shape_of(table.schema, changes)
        if shape is None:
            return None
        try:
            table.validate(full=True)
            for place, target in shape.casts:
                table = table.set_column(place, table.field(place).name, table.column(place).cast(target))
        except (pa.ArrowException, ValueError):
            return None  # Who reads it column by column says why.
        return self._arrow.read(table.__arrow_c_stream__(), table.num_rows, shape.places)

    def _shape_of(self, schema: pa.Schema, changes: bool) -> _Shape | None:
        """What is done with data of a schema, found out when it comes for the first time."""
        for known, had_changes, shape in self._shapes:
            if had_changes is changes and known.equals(schema):
                return shape
        found = self._shape(schema, changes)
        self._shapes = [(schema, changes, found), *self._shapes[: _MOST_SHAPES - 1]]
        return found

    def _shape(self, schema: pa.Schema, changes: bool) -> _Shape | None:
        width = len(self._types)
        places = [_NOWHERE] * (width + 2)
        for at, name in enumerate(schema.names):
            column = self._names.get(name.lower())
            if column is None or (not changes and not 0 <= column < width):
                return None
            if column == _NOWHERE:
                continue
            if places[column] != _NOWHERE:
                return None
            places[column] = at
        if changes and (places[width] == _NOWHERE or not _is_text(schema.field(places[width]).type)):
            return None
        casts: list[tuple[int, pa.DataType]] = []
        for place, type_ in zip(places, self._types, strict=False):
            have = None if place == _NOWHERE else schema.field(place).type
            if have is None or _is_read(have, type_):
                continue
            if not _is_cast(have, type_):
                return None
            casts.append((place, pa.float64() if types.is_float16(have) else arrow_type(type_)))
        if places[-1] != _NOWHERE and not types.is_integer(schema.field(places[-1]).type):
            return None
        return _Shape(places, tuple(casts))


def _is_read(have: pa.DataType, type_: DataType) -> bool:
    """True if the kernel reads a column of an Arrow type (``cpp/batch/arrow_values.h``)."""
    if types.is_null(have):
        return True
    if types.is_dictionary(have):
        return not types.is_null(have.value_type) and _is_read(have.value_type, type_)
    if not is_taken(have, type_) or types.is_run_end_encoded(have):
        return False
    return not types.is_float16(have) and bool(types.is_decimal128(have) or not types.is_decimal(have))


def _is_cast(have: pa.DataType, type_: DataType) -> bool:
    """True if Arrow makes of it what the kernel reads, and refuses what does not fit."""
    if not is_taken(have, type_):
        return False
    return bool(types.is_float16(have) or types.is_decimal32(have) or types.is_decimal64(have))


def _is_text(have: pa.DataType) -> bool:
    if types.is_dictionary(have):
        have = have.value_type
    return bool(types.is_string(have) or types.is_large_string(have) or types.is_string_view(have))


def _listed(table: Table, column: int) -> tuple[list[int] | list[bytes] | None, bool]:
    """What the CHECKs of a column list, as the kernel compares it, None if it cannot; and whether there are any."""
    own, type_ = table.columns[column], table.columns[column].type
    checks = [
        d for d in table.small_domains if d.column.lower() == own.name.lower() and d.enforcement is Enforcement.ENFORCED
    ]
    if not checks or (is_wide(type_) and type_.kind is not Kind.STRING):
        return None, bool(checks)
    arrays = [members(check, type_) for check in checks]
    if type_.kind is Kind.STRING:
        texts = [{str(value).encode() for value in array.to_pylist()} for array in arrays]
        return sorted(set.intersection(*texts)), True
    words = [set(to_words(array, type_, Dictionary()).to_pylist()) for array in arrays]
    return sorted(set.intersection(*words)), True


def _plain_values(columns: Sequence[DataType]) -> Callable[[object, int], object]:
    """What the kernel asks about a value whose type is a relative of Python's own."""
    return lambda value, column: plain_value(value, columns[column])


def reader_of(base: BaseTable) -> RowReader:
    """The reader of a table's rows, made when the first ones come."""
    if base.reader is None:
        base.reader = RowReader(base.schema)
    return base.reader
