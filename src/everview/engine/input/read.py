"""The way into a table: rows in any form become an Arrow table of exactly its columns, or are refused with a reason.

Nothing is guessed and nothing gets lost: what cannot be stored exactly is an error that names the table, the row's
position in the input (from 0), the column, the value, and what to do.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache, partial

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.input.all_refused import RefusedRows
from everview.engine.input.date_range import YEARS, first_beyond
from everview.engine.input.from_arrow import first_true, from_arrow, is_text, unpacked
from everview.engine.input.from_python import from_values
from everview.engine.input.rejection import Where, shown
from everview.engine.input.to_columns import Gathered, Raw, Wanted, gather, kept
from everview.engine.values.words import NULL, arrow_type
from everview.errors import (
    ChangeTypeError,
    DataError,
    DomainViolationError,
    NullViolationError,
    RowShapeError,
    ValueTypeError,
)
from everview.query.schema import Column, Enforcement, SmallDomain, Table
from everview.query.types import BIGINT, MICROSECONDS_OF, STRING, DataType, Kind

CHANGE_TYPE = "_change_type"
COUNT = "_count"

_SIGNS = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}
_NAMES, _WEIGHTS = pa.array(_SIGNS, pa.string()), pa.array(_SIGNS.values(), pa.int64())
FEED_ONLY = ("_commit_version", "_commit_timestamp", "_update")  # what feeds, Delta's too, say about a change besides
_ACTIONS = {"delete": "delete from", "change": "change of"}


def table_schema(table: Table) -> pa.Schema:
    """The Arrow schema of a table's rows: what ``read_rows`` gives."""
    return pa.schema([pa.field(c.name, arrow_type(c.type), nullable=not is_required(table, c)) for c in table.columns])


def kept_rows(table: Table, data: object, *, what: str) -> object:
    """Rows that can be looked at twice: what speaks Arrow becomes a table, and what gives one row at a time a list."""
    return kept(data, Where(table.name, _ACTIONS.get(what, f"{what} into")))


def read_rows(table: Table, data: object, *, what: str = "insert") -> pa.Table:
    """Rows for a table, to be inserted, deleted or upserted (``what`` is for messages), as an Arrow table of its types.

    ``data`` is an iterable of tuples or lists (by position) or of dicts (by name, in any case), or speaks Arrow:
    pyarrow tables, batches and readers, pandas and polars DataFrames, DuckDB relations. A missing column is NULL. A
    datetime without a time zone is UTC in a TIMESTAMP column; one with a time zone is refused in TIMESTAMP_NTZ. Dates
    and timestamps are within the years 1 to 9999. The BIGINT -2**63 cannot be stored: that word is NULL.
    """
    where = Where(table.name, _ACTIONS.get(what, f"{what} into"))
    gathered = gather(data, Wanted(tuple(c.name for c in table.columns)), where)
    refused = RefusedRows(gathered)
    arrays = _arrays(table, gathered, refused, where)
    refused.end()
    return pa.Table.from_arrays(arrays, schema=table_schema(table))


def read_changes(table: Table, data: object) -> tuple[pa.Table, pa.Array]:
    """Changes of a table: like ``read_rows``, and for every row how many copies come (above 0) or go (below 0).

    The data has a column ``_change_type`` (in tuples: the last value) of insert, delete, update_preimage (which goes)
    and update_postimage (which comes). A change feed of a view, or of Delta, can be passed as it is: a column
    ``_count`` says how many copies (else it is one), and ``_commit_version``, ``_commit_timestamp`` and ``_update`` are
    skipped.
    """
    where = Where(table.name, _ACTIONS["change"])
    names = tuple(c.name for c in table.columns)
    own = {name.lower() for name in names}
    if CHANGE_TYPE in own:
        raise where.refuse(
            RowShapeError, None, f"the table has a column {CHANGE_TYPE} of its own", "use insert and delete instead"
        )
    optional = () if COUNT in own else (COUNT,)
    ignored = tuple(name for name in FEED_ONLY if name not in own)
    gathered = gather(data, Wanted((*names, CHANGE_TYPE), optional, ignored), where)
    refused = RefusedRows(gathered)
    weights = refused.tried(gathered.columns[table.arity], _signs, where.at(CHANGE_TYPE))
    if optional and gathered.columns[-1] is not None:
        counts = refused.tried(gathered.columns[-1], _counts, where.at(COUNT))
        weights = None if weights is None or counts is None else pc.multiply(weights, counts)
    arrays = _arrays(table, gathered, refused, where)
    refused.end()
    assert weights is not None
    return pa.Table.from_arrays(arrays, schema=table_schema(table)), weights


def _arrays(table: Table, gathered: Gathered, refused: RefusedRows, where: Where) -> list[pa.Array | None]:
    """The table's columns; None for those of which a row is refused."""
    return [
        refused.tried(raw, partial(_column, table, column), where.at(column.name))
        for column, raw in zip(table.columns, gathered.columns, strict=False)
    ]


def _column(table: Table, column: Column, raw: Raw, size: int, where: Where) -> pa.Array:
    required = is_required(table, column)
    if raw is None and required:
        raise where.refuse(
            NullViolationError, None, "the data does not have this column, which is NOT NULL", "add it to the data"
        )
    array = pa.nulls(size, arrow_type(column.type)) if raw is None else _converted(raw, column.type, where)
    array = _of_length(array, column.type, where)
    if required and array.null_count:
        why = "part of the primary key" if _is_key(table, column) else "NOT NULL"
        raise where.refuse(
            NullViolationError,
            first_true(array.is_null()),
            f"the value is NULL or missing, and the column is {why}",
            "pass a value, or leave the row out",
        )
    _check_reserved(array, column.type, where)
    _check_calendar(array, column.type, where)
    _check_units(array, column.type, where)
    for domain in table.small_domains:
        if domain.column.lower() == column.name.lower() and domain.enforcement is Enforcement.ENFORCED:
            _check_domain(array, domain, column.type, where)
    return array


def _converted(raw: Raw, type_: DataType, where: Where) -> pa.Array:
    return from_arrow(raw, type_, where) if isinstance(raw, pa.ChunkedArray) else from_values(raw or (), type_, where)


def is_required(table: Table, column: Column) -> bool:
    """True if there is no NULL in the column."""
    return not column.nullable or _is_key(table, column)


def _is_key(table: Table, column: Column) -> bool:
    return column.name.lower() in {name.lower() for name in table.primary_key}


def _of_length(array: pa.Array, type_: DataType, where: Where) -> pa.Array:
    """Text as VARCHAR and CHAR hold it: blanks beyond the length are cut off, and those that a CHAR lacks are added."""
    if type_.length is None:
        return array
    row = first_true(pc.fill_null(pc.greater(pc.utf8_length(pc.utf8_rtrim(array, " ")), type_.length), False))
    if row >= 0:
        raise where.refuse(
            ValueTypeError,
            row,
            f"{shown(array[row])} does not fit into {type_}: it has {len(array[row].as_py())} characters",
            "shorten the value, or declare the column STRING",
        )
    array = pc.utf8_slice_codeunits(array, 0, type_.length)
    return pc.utf8_rpad(array, type_.length, " ") if type_.padded else array


def _check_reserved(array: pa.Array, type_: DataType, where: Where) -> None:
    if type_.kind not in (Kind.BIGINT, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ, Kind.DAY_TIME):
        return
    row = pc.index(array.view(pa.int64()), pa.scalar(NULL, pa.int64())).as_py()
    if row >= 0:
        raise where.refuse(
            ValueTypeError,
            row,
            f"{NULL} (-2**63) cannot be stored in a {type_}: it stands for NULL",
            "pass None if NULL is meant, or declare the column DECIMAL(19, 0)",
        )


def _check_calendar(array: pa.Array, type_: DataType, where: Where) -> None:
    row = first_beyond(array, type_)
    if row is not None:
        raise where.refuse(
            ValueTypeError,
            row,
            f"{shown(array[row])} does not fit into {type_}",
            f"it holds {YEARS}: correct the value, or pass None",
        )


def _check_units(array: pa.Array, type_: DataType, where: Where) -> None:
    """An INTERVAL DAY holds whole days."""
    if type_.kind is not Kind.DAY_TIME or type_.names[1] == "SECOND":
        return
    unit = MICROSECONDS_OF[type_.names[1]]
    words = array.view(pa.int64())
    row = first_true(pc.fill_null(pc.not_equal(pc.multiply(pc.divide(words, unit), unit), words), False))
    if row >= 0:
        raise where.refuse(
            ValueTypeError,
            row,
            f"{shown(array[row])} does not fit into {type_}: it is no whole number of its last unit",
            "correct the value, or declare the column INTERVAL DAY TO SECOND",
        )


# --- small domains ---------------------------------------------------------------------------------------------------


def _check_domain(array: pa.Array, domain: SmallDomain, type_: DataType, where: Where) -> None:
    """As CHECK does, let NULL pass, and nothing else that is not listed."""
    inside = pc.or_(pc.is_in(_one_zero(array), members(domain, type_)), pc.is_null(array))
    row = first_true(pc.invert(inside))
    if row >= 0:
        raise where.refuse(
            DomainViolationError,
            row,
            f"{shown(array[row])} is not allowed by CHECK ({domain})",
            "correct the value, or add it to the CHECK",
        )


@lru_cache(maxsize=256)
def members(domain: SmallDomain, type_: DataType) -> pa.Array:
    """The values of the CHECK in the column's type, without those that the column cannot hold anyway."""
    members = pa.array([], arrow_type(type_))
    for constant in domain.values:
        with suppress(DataError):
            member = from_values([constant.value], type_, Where("CHECK", "values of", domain.column))
            members = pa.concat_arrays([members, member])
    return _one_zero(members)


def _one_zero(array: pa.Array) -> pa.Array:
    """-0.0 and 0.0 are one number, which is_in does not know."""
    return pc.add(array, pa.scalar(0, array.type)) if pa.types.is_floating(array.type) else array


# --- changes ---------------------------------------------------------------------------------------------------------


def _signs(change: Raw, size: int, where: Where) -> pa.Array:
    """+1 for rows that come, -1 for rows that go."""
    if change is None:
        raise where.refuse(
            ChangeTypeError, None, "the data does not have this column", f"add it, with {_listed()}; or use insert"
        )
    if not isinstance(change, pa.ChunkedArray):
        signs = [_SIGNS.get(value) if isinstance(value, str) else None for value in change]
        if None in signs:
            row = signs.index(None)
            raise _no_change_type(row, change[row], where)
        return pa.array(signs, pa.int64())
    texts = unpacked(change, STRING, where)
    if not len(texts):
        return pa.array([], pa.int64())
    if not is_text(texts.type):
        raise _no_change_type(0, texts[0], where)
    array = texts.chunk(0) if texts.num_chunks == 1 else texts.cast(pa.string()).combine_chunks()
    known = pc.index_in(array.cast(pa.string()), value_set=_NAMES)
    if known.null_count:
        row = first_true(known.is_null())
        raise _no_change_type(row, texts[row], where)
    return _WEIGHTS.take(known)


def _no_change_type(row: int, value: object, where: Where) -> DataError:
    return where.refuse(ChangeTypeError, row, f"{shown(value)} is no change type", f"use {_listed()}")


def _listed() -> str:
    return ", ".join(_SIGNS)


def _counts(raw: Raw, size: int, where: Where) -> pa.Array:
    counts = _converted(raw, BIGINT, where)
    row = first_true(pc.fill_null(pc.less(counts, 1), True))
    if row >= 0:
        raise where.refuse(
            ChangeTypeError, row, f"{shown(counts[row])} is no number of copies", "pass 1 or more; for -1 use delete"
        )
    return counts
