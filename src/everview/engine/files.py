"""Rows of a table from a file: CSV or Parquet, compressed or not."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from everview.engine.words import arrow_type
from everview.errors import RowShapeError
from everview.query.schema import Column, Table
from everview.query.types import Kind

DELIMITERS: Final = {".csv": ",", ".tsv": "\t", ".psv": "|", ".tbl": "|"}
_PARQUET: Final = (".parquet", ".pq")
_COMPRESSED: Final = (".gz", ".bz2", ".zst", ".lz4")
_READ_AS_FOUND: Final = (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ)  # with a time zone or without: the table decides


def read_file(path: str | PathLike[str], table: Table) -> pa.Table:
    """The columns of the table, and those whose names begin with an underscore; others in the file are left out.

    CSV has a header; a field without quotes that is empty is NULL.
    """
    path = Path(path)
    suffix = next((s for s in reversed(path.suffixes) if s.lower() not in _COMPRESSED), "").lower()
    if suffix in _PARQUET:
        return _parquet(path, table)
    if suffix in DELIMITERS:
        return _csv(path, table, DELIMITERS[suffix])
    raise RowShapeError(
        f"{path.name} is no file of a known kind",
        table=table.name,
        hint=f"give it one of the endings {', '.join((*DELIMITERS, _PARQUET[0]))}, with or without .gz",
    )


def _parquet(path: Path, table: Table) -> pa.Table:
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            return file.read(columns=list(_wanted(table, file.schema_arrow.names, path)))
    except pa.ArrowException as error:
        raise _unreadable(path, table, error) from error


def _csv(path: Path, table: Table, delimiter: str) -> pa.Table:
    from pyarrow import csv

    parse = csv.ParseOptions(delimiter=delimiter)
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            header = csv.open_csv(stream, parse_options=parse).schema.names
        wanted = _wanted(table, header, path)
        types: dict[str, Any] = {
            name: arrow_type(column.type)
            for name, column in wanted.items()
            if column is not None and column.type.kind not in _READ_AS_FOUND
        }
        convert = csv.ConvertOptions(
            column_types=types, include_columns=list(wanted), strings_can_be_null=True, quoted_strings_can_be_null=False
        )
        return csv.read_csv(path, parse_options=parse, convert_options=convert)
    except pa.ArrowException as error:
        raise _unreadable(path, table, error) from error


def _wanted(table: Table, names: list[str], path: Path) -> dict[str, Column | None]:
    """The file's columns to be read, each with the table's that it fills; None for those that say what happened."""
    found: dict[str, Column | None] = {}
    for name in names:
        position = table.position(name)
        if position is not None:
            found[name] = table.columns[position]
        elif name.startswith("_"):
            found[name] = None
    given = {column.name for column in found.values() if column is not None}
    missing = [c.name for c in table.columns if c.name not in given]
    if missing:
        raise RowShapeError(
            f"{path.name} has no column {', '.join(missing)} for table {table.name}",
            table=table.name,
            column=missing[0],
            hint=f"its columns are {', '.join(names)}; the first line of a CSV file names them",
        )
    return found


def _unreadable(path: Path, table: Table, error: Exception) -> RowShapeError:
    return RowShapeError(
        f"{path.name} cannot be read as rows of {table.name}: {error}",
        table=table.name,
        hint="compare the file with the CREATE TABLE statement",
    )
