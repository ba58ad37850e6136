"""What a random case is: tables, steps and what is to be known of them, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

Row = tuple[Any, ...]


@dataclass(frozen=True)
class ColumnDef:
    """A column: its class is the first letter of ``kind``."""

    name: str
    kind: str
    type: str
    nullable: bool


@dataclass(frozen=True)
class TableDef:
    """A table and its primary key, by position."""

    name: str
    columns: tuple[ColumnDef, ...]
    key: tuple[int, ...] = ()

    def ddl(self) -> str:
        inner = [f"{c.name} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in self.columns]
        if self.key:
            inner.append(f"PRIMARY KEY ({', '.join(self.columns[i].name for i in self.key)})")
        return f"CREATE TABLE {self.name} ({', '.join(inner)})"


@dataclass(frozen=True)
class Fallible:
    """What is to be known of a view with expressions that fail on some data, to judge a batch by."""

    probes: tuple[str, ...] = ()
    """Queries over parts of the view. SQL does not say on which rows a condition is computed, nor whether a subquery's
    column that nobody reads is: where only one of these fails, the view may have a result or not."""
    inputs: tuple[str, ...] = ()
    """Counts of what its aggregates without GROUP BY are made of: where one is 0, their row is that over no input."""


@dataclass(frozen=True)
class Step:
    """One step. ``kind``: view, rules, batch, feed, close, bad, alter, load, advance."""

    kind: str
    name: str = ""
    text: str = ""
    operations: tuple[tuple[str, str, tuple[Row, ...]], ...] = ()
    option: str = ""
    fallible: Fallible | None = None
    oracle: str = ""
    """The same query in words that DuckDB knows, where it has others."""
    options: str = ""
    """OPTIONS (…) of a view: they ask for a way of maintenance, and never change its rows."""

    def definition(self) -> str:
        """The statement that makes a view of SQL."""
        options = f" OPTIONS ({self.options})" if self.options else ""
        return f"CREATE MATERIALIZED VIEW {self.name}{options} AS {self.text}"

    def alteration(self) -> str:
        """The statement that gives a view other options."""
        return f"ALTER MATERIALIZED VIEW {self.name} SET OPTIONS ({self.options})"


@dataclass(frozen=True)
class Case:
    """Everything that is needed to run it again."""

    seed: int
    tables: tuple[TableDef, ...]
    steps: tuple[Step, ...]
    check_updates: bool = False
    clock: datetime | None = None
    """What time it is at the beginning, if anything goes by it; steps of the kind ``advance`` have it go on."""

    def show(self) -> str:
        lines = [f"-- seed {self.seed}", *(f"{t.ddl()};" for t in self.tables)]
        for i, s in enumerate(self.steps):
            if s.kind in ("view", "rules"):
                lines.append(f"{i}: {s.definition() if s.options else s.text}")
            elif s.kind == "alter":
                lines.append(f"{i}: {s.alteration()}")
            elif s.operations:
                lines.append(f"{i}: {s.kind} {s.option}")
                lines += [f"     {op} {table} {list(rows)!r}" for op, table, rows in s.operations]
            else:
                lines.append(f"{i}: {s.kind} {s.name} {s.option}")
        return "\n".join(lines)

    def without(self, start: int, stop: int) -> Case:
        return replace(self, steps=self.steps[:start] + self.steps[stop:])
