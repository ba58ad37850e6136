"""Rows of a table from a file: CSV or Parquet, compressed or not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from everview.engine.values.words import arrow_type
from everview.errors import RowShapeError
from everview.query.schema import Column, Table
from everview.query.types import Kind

DELIMITERS: Final = {".csv": ",", ".tsv": "\t", ".psv": "|", ".tbl": "|"}
_PARQUET: Final = (".parquet", ".pq")
_COMPRESSED: Final = (".gz", ".bz2", ".zst", ".lz4")
_SAID: Final = ("_change_type", "_count", "_weight", "_at")
"""Columns that say what happened to a row."""
_LISTED: Final = 20  # names in a message
_COLUMN: Final = re.compile(r"In CSV column #(?P<column>\d+): (?:Row #(?P<row>\d+): )?(?:CSV )?")
_UNREADABLE: Final = (pa.ArrowException, OSError)
_READ_AS_FOUND: Final = (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ)  # with a time zone or without: the table decides


def kind_of(path: Path) -> str:
    """The ending that says how a file is read; empty if it is none of those that can be."""
    suffix = next((s for s in reversed(path.suffixes) if s.lower() not in _COMPRESSED), "").lower()
    return suffix if suffix in (*_PARQUET, *DELIMITERS) else ""


def read_file(path: str | PathLike[str], table: Table) -> pa.Table:
    """The columns of the table, and those that say what happened; others in the file are left out.

    CSV has a header; a field without quotes that is empty is NULL.
    """
    path = Path(path)
    kind = kind_of(path)
    if kind in _PARQUET:
        return _parquet(path, table)
    if kind in DELIMITERS:
        return _csv(path, table, DELIMITERS[kind])
    raise RowShapeError(
        f"{path} is no file of a known kind, for table {table.name}",
        table=table.name,
        hint=f"give it one of the endings {', '.join((*DELIMITERS, _PARQUET[0]))}; CSV also with .gz and the like",
    )


def _parquet(path: Path, table: Table) -> pa.Table:
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            return file.read(columns=list(_wanted(table, file.schema_arrow.names, path)))
    except _UNREADABLE as error:
        raise _unreadable(path, table, error) from error


def _csv(path: Path, table: Table, delimiter: str) -> pa.Table:
    from pyarrow import csv

    parse = csv.ParseOptions(delimiter=delimiter)
    one_thread = csv.ReadOptions(use_threads=False)  # which alone knows the row of an error
    header: list[str] = []
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            header = csv.open_csv(stream, parse_options=parse, read_options=one_thread).schema.names
        wanted = _wanted(table, header, path)
        types: dict[str, Any] = {
            name: arrow_type(column.type)
            for name, column in wanted.items()
            if column is not None and column.type.kind not in _READ_AS_FOUND
        }
        convert = csv.ConvertOptions(
            column_types=types, include_columns=list(wanted), strings_can_be_null=True, quoted_strings_can_be_null=False
        )
        try:
            return csv.read_csv(path, parse_options=parse, convert_options=convert)
        except pa.ArrowInvalid:
            return csv.read_csv(path, parse_options=parse, convert_options=convert, read_options=one_thread)
    except _UNREADABLE as error:
        raise _unreadable(path, table, error, header) from error


def _wanted(table: Table, names: list[str], path: Path) -> dict[str, Column | None]:
    """The file's columns to be read, each with the table's that it fills; None for those that say what happened."""
    found: dict[str, Column | None] = {}
    filled: dict[str, str] = {}
    for name in names:
        position = table.position(name)
        if position is None and name not in _SAID:
            continue
        found[name] = table.columns[position] if position is not None else None
        column = table.columns[position].name if position is not None else name
        if column in filled:
            raise RowShapeError(
                f"{path} has two columns for {column} of table {table.name}: {filled[column]} and {name}",
                table=table.name,
                column=column,
                hint="rename or remove one of them",
            )
        filled[column] = name
    missing = [c.name for c in table.columns if c.name not in filled]
    if missing:
        raise RowShapeError(
            f"{path} has no column {_some(missing)} for table {table.name}",
            table=table.name,
            column=missing[0],
            hint=f"its columns are {_some(names)}; the first line of a CSV file names them",
        )
    return found


def _some(names: list[str]) -> str:
    """The names, or the first of them."""
    more = len(names) - _LISTED
    return f"{', '.join(names[:_LISTED])} and {more} more" if more > 0 else ", ".join(names)


def _unreadable(path: Path, table: Table, error: Exception, header: Sequence[str] = ()) -> Exception:
    """The error to raise; those of the system, such as a file that is not there, stay as they are."""
    if isinstance(error, OSError) and error.errno is not None:
        return error
    said = _COLUMN.sub(lambda found: _column(found, header), str(error)).replace("Row #", "line ")
    hint = "compare the file with the CREATE TABLE statement"
    return RowShapeError(
        f"{path} cannot be read as rows of {table.name}: {said}",
        table=table.name,
        hint="save it as UTF-8" if "UTF8" in said else "make the file anew" if isinstance(error, OSError) else hint,
    )


def _column(found: re.Match[str], header: Sequence[str]) -> str:
    """Arrow's "In CSV column #1: Row #3: ", with the column's name; Arrow counts the header as row 1."""
    number = int(found["column"])
    name = header[number] if number < len(header) else f"#{number}"
    return f"column {name}: " if found["row"] is None else f"line {found['row']}, column {name}: "
