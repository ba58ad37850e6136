"""What a pipeline file says, checked: sources, tables over them, views over those, and where the views go."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from everview.query.options import NO_OPTIONS, ViewOptions
from everview.query.schema import Column, Schema, Table
from everview.spark.pipeline.document import Entry

FILES: Final = ("csv", "json", "parquet", "orc", "text", "xml", "avro")
"""Formats of files: Spark is told their columns. Other formats know their own, which must be those declared."""
TEXTS: Final = ("csv", "json", "xml")
"""Those of them whose values are text, which may not be what it should."""
DELTA: Final = "delta"
CHANGES: Final = ("insert", "delete", "update_preimage", "update_postimage")
AVAILABLE_NOW, ONCE = "available_now", "once"
POLICIES: Final = ("fail", "quarantine")
_STATEMENT: Final = re.compile(r"(?>\s+|--[^\n]*\n|/\*.*?\*/)*+CREATE\b", re.IGNORECASE | re.DOTALL)
"""How SQL begins that is a statement and no query alone, after comments."""


@dataclass(frozen=True)
class Source:
    """Where rows come from: a Spark format with its options, streaming or read once."""

    name: str
    format: str
    path: str | None
    options: Mapping[str, str] = field(repr=False)
    streaming: bool
    table: Table
    """Its columns, as a table of its name."""
    place: Entry | None = field(default=None, repr=False, compare=False)
    """Where the file says its path."""


@dataclass(frozen=True)
class Taken:
    """A column of a table: a source's column under this or another name, or a Spark expression over them."""

    column: Column
    origin: str
    is_expression: bool = False


@dataclass(frozen=True)
class ChangeType:
    """The column that says what happened to a row, and what its values mean, where they are not the usual ones."""

    column: str
    meaning: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TableSpec:
    """A table that views read: a source's rows under the table's column names."""

    table: Table
    source: str
    columns: tuple[Taken, ...]
    change_type: ChangeType | None
    initial: str | None = None
    rate: float | None = None


@dataclass(frozen=True)
class ViewSpec:
    """A view's SQL, and where in the file it stands."""

    name: str
    sql: str
    entry: Entry = field(repr=False, compare=False)
    options: ViewOptions = NO_OPTIONS
    """What is asked of its maintenance beside OPTIONS (…) in the SQL."""

    def further(self, _: str) -> ViewOptions:
        """The same, for whoever asks by the view's name."""
        return self.options


@dataclass(frozen=True)
class Feed:
    """Where the change feed itself is written: a Spark format with its options."""

    format: str
    path: str | None
    options: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class Pipeline:
    """A whole pipeline file."""

    path: Path
    name: str
    sources: Mapping[str, Source]
    tables: Mapping[str, TableSpec]
    views: Mapping[str, ViewSpec]
    targets: Mapping[str, str] = field(repr=False)
    """The target of each view, as text with absolute paths; a view may have none."""
    feed: Feed | None
    checkpoint: str
    shards: int | None
    master: str | None
    trigger: str | None
    conf: Mapping[str, str] = field(repr=False)
    bad_rows: str
    dead_letter: str | None = field(repr=False)
    skip_batch: int | None
    """The number of a batch whose rows are all put aside."""
    memory_limit: int | None

    @property
    def schema(self) -> Schema:
        """The tables."""
        return Schema(tuple(t.table for t in self.tables.values()))

    @property
    def sql(self) -> str | dict[str, str]:
        """The views as ``maintain`` takes them: a single one keeps a feed of its own columns."""
        if len(self.views) == 1:
            (view,) = self.views.values()
            return view.sql if _STATEMENT.match(view.sql) else f"CREATE MATERIALIZED VIEW `{view.name}` AS\n{view.sql}"
        return {name: view.sql for name, view in self.views.items()}

    @property
    def options(self) -> dict[str, dict[str, Any]]:
        """The views' options as ``maintain`` takes them."""
        return {name: view.options.given() for name, view in self.views.items() if view.options}

    @property
    def rates(self) -> dict[str, float] | None:
        """How many updates to expect at each table, if the file says it of any."""
        found = {t.table.name: t.rate for t in self.tables.values() if t.rate is not None}
        return found or None

    @property
    def spark_trigger(self) -> dict[str, Any] | None:
        """The trigger as Spark's ``trigger`` takes it."""
        if self.trigger is None:
            return None
        if self.trigger == AVAILABLE_NOW:
            return {"availableNow": True}
        return {"once": True} if self.trigger == ONCE else {"processingTime": self.trigger}
