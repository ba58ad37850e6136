"""A source's columns: as the file declares them, or as a Delta table says itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from everview.errors import EverviewError
from everview.query.schema import Column
from everview.query.types import ANY, STRING, DataType
from everview.spark.pipeline.document import Entry
from everview.spark.types import DECLARED, closed, sized
from everview.sql import parse_schema

_HINT = "a column is a name and a type, such as id BIGINT, name STRING, price DECIMAL(10, 2), day DATE"
_DELTA = {
    "long": "BIGINT",
    "integer": "INT",
    "short": "SMALLINT",
    "byte": "TINYINT",
    "string": "STRING",
    "double": "DOUBLE",
    "float": "FLOAT",
    "boolean": "BOOLEAN",
    "binary": "BINARY",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamp_ntz": "TIMESTAMP_NTZ",
}
_COLLATIONS: Final = "__COLLATIONS"
_BINARY: Final = "UTF8_BINARY"


def declared_columns(name: str, entry: Entry) -> tuple[Column, ...]:
    """Columns as SQL writes them between parentheses, or as types by name."""
    if entry.is_mapping:
        return tuple(Column(n, type_of(e)) for n, e in entry.mapping().items())
    before = f"CREATE TABLE `{name}` ("
    try:
        (table,) = parse_schema(f"{before}{entry.raw()})").tables
    except EverviewError as error:
        raise _located(entry, error, before) from error
    except ValueError:
        raise entry.error(
            "a list of columns with their types is wanted here", "such as id BIGINT, name STRING"
        ) from None
    if table.primary_key or table.foreign_keys:
        entry.refuse("a source has no keys", "a table has: tables: {…: {key: [id]}}")
    return table.columns


def type_of(entry: Entry) -> DataType:
    """A type by its name in SQL."""
    before = "CREATE TABLE t (c "
    try:
        return parse_schema(f"{before}{entry.raw()})").tables[0].columns[0].type
    except EverviewError as error:
        raise _located(entry, error, before) from error


def _located(entry: Entry, error: EverviewError, before: str) -> EverviewError:
    found = entry.within(error, before)
    found.hint = found.hint or _HINT
    return found


def delta_columns(path: str, entry: Entry, options: Mapping[str, str], *, changes: bool) -> tuple[Column, ...]:
    """The columns of a Delta table, those of types that views cannot hold closed; with ``changes``, the change feed's
    ``_change_type`` too."""
    from everview.spark.sources.delta import opened, storage_of

    try:
        table = opened(path, changes=changes, storage=storage_of(options))
    except EverviewError as error:
        raise entry.error(error.message, error.hint) from error
    found = [_delta_column(field) for field in table.schema().fields]
    return (*found, Column("_change_type", STRING)) if changes else tuple(found)


def _delta_column(field: Any) -> Column:
    """A field of a Delta table, which keeps what a text is beyond its bytes beside its type."""
    kind = getattr(field.type, "type", "")
    written = _written(field.type)
    collations = [str(c).rpartition(".")[2] for c in (field.metadata.get(_COLLATIONS) or {}).values()]
    collation = next((c for c in collations if c.upper() != _BINARY), None)
    if collation is not None:
        kind, written = f"string collate {collation}", None
    if written is None:
        return Column(field.name, ANY, field.nullable, closed(field.name, "the Delta table", kind or str(field.type)))
    type_ = sized(str(field.metadata[DECLARED])) if DECLARED in field.metadata else None
    return Column(field.name, type_ or _read(written), field.nullable)


def _written(type_: Any) -> str | None:
    """A Delta table's type in SQL; None if views have none like it."""
    kind = getattr(type_, "type", "")
    if kind == "struct":
        found = [(f.name.replace("`", "``"), _written(f.type)) for f in type_.fields]
        parts = [f"`{name}`: {part}" for name, part in found if part is not None]
        return f"STRUCT<{', '.join(parts)}>" if parts and len(parts) == len(found) else None
    if kind in ("array", "map"):
        inner = [type_.element_type] if kind == "array" else [type_.key_type, type_.value_type]
        parts = [part for part in map(_written, inner) if part is not None]
        return f"{kind.upper()}<{', '.join(parts)}>" if len(parts) == len(inner) else None
    return str(kind).upper() if kind.startswith("decimal(") else _DELTA.get(kind)


def _read(written: str) -> DataType:
    return parse_schema(f"CREATE TABLE t (c {written})").tables[0].columns[0].type
